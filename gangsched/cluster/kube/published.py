"""The configuration and status of the leader, published in a ConfigMap beside its Lease.

Commands read it, so that they answer as the scheduler decides and not as a scheduler with built-in defaults would. Of
any tenant it holds nothing but the name of the last gang that was decided, and the names of what is quarantined. So
every user of the cluster may read it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.history import config_map_path
from gangsched.cluster.kube.rights import lacking
from gangsched.core.events import Quarantined
from gangsched.model.times import render_time

_log = logs.get(__name__)

#: The ConfigMap, and the keys of its texts, each a JSON document.
NAME, CONFIGURATION, STATUS = "gangsched-status", "configuration.json", "status.json"
#: How often it is written while what it says changes, and how often at least: who reads it sees by its age whether the
#: process goes on.
PERIOD_SECONDS, AT_LEAST_SECONDS = 15.0, 120.0
#: Rights are checked so often, because an administrator may add a missing right.
RIGHTS_SECONDS = 300.0
_LOOK_SECONDS = 1.0

Facts = Callable[[], Mapping[str, Any]]


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """How the leader stands, as it says itself; times are RFC 3339.

    ``lacks`` are rights that its account does not have, in words; None: that could not be found out. ``gangs`` counts
    those that wait by their place in the queue, ``last_decision`` is the last one that was decided. ``cache_ages`` are
    the seconds for which nothing had been heard, when this was written, of what evictions rest on, by resource;
    ``stale`` says why no pod is evicted by what is known, empty while it is new enough. ``quarantined`` are the objects
    and gangs over which it has failed.
    """

    leader: str = ""
    version: str = ""
    names: tuple[str, ...] = ()
    since: str = ""
    written: str = ""
    lacks: tuple[str, ...] | None = None
    gangs: Mapping[str, int] = {}
    last_decision: Mapping[str, Any] | None = None
    writes_waiting: int = 0
    writes_failed: int = 0
    cache_ages: Mapping[str, float] = {}
    stale: str = ""
    quarantined: tuple[Quarantined, ...] = ()


class Published(msgspec.Struct, frozen=True):
    """The two documents of the ConfigMap: a configuration, as its file would be, and how the leader stands."""

    configuration: dict[str, Any]
    status: Status


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] = {}


_config_map = msgspec.json.Decoder(_ConfigMap)


def published_in(body: bytes) -> Published:
    """The contents of a ConfigMap, as the server sent it. Raises :class:`UnreachableError` if it says nothing of the
    kind.
    """
    data = answer_of(_config_map, body, NAME).data
    try:
        configuration = msgspec.json.decode(data.get(CONFIGURATION, ""), type=dict[str, Any])
        status = msgspec.json.decode(data.get(STATUS, "{}"), type=Status)
    except msgspec.MsgspecError as error:
        raise UnreachableError(f"ConfigMap {NAME}: {error}") from None
    return Published(configuration, status)


class Publisher:
    """Keeps the ConfigMap up to date in :meth:`run`, a task of the event loop, while this process leads.

    ``publishes`` are the configuration as JSON, a function for the fields of :class:`Status` that cause a write, and
    one for fields that are only written with others. ``now`` is the wall clock. ``leading_since`` is when this process
    began to lead (None: it does not). After the monotonic time ``fence`` nothing may be written. ``quiet`` waits until
    there are no other writes, at most so many seconds. No request takes longer than ``timeout_seconds``: a new leader
    waits as long for the writes of an old one.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        publishes: tuple[bytes, Facts, Facts],
        *,
        now: Callable[[], float],
        leading_since: Callable[[], float | None],
        fence: Callable[[], float],
        quiet: Callable[[float], Awaitable[bool]],
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._configuration = publishes[0].decode()
        _, self._facts, self._measured = publishes
        self._now = now
        self._leading_since = leading_since
        self._fence = fence
        self._quiet = quiet
        self._timeout_seconds = timeout_seconds
        self._written: Mapping[str, Any] = {}
        self._written_at = self._asked_at = float("-inf")
        self._lacks: tuple[str, ...] | None = None
        self._problem = ""

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            since = self._leading_since()
            if since is None:
                self._written = {}
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            await self._quiet(PERIOD_SECONDS)
            await self._client.bucket.acquire()
            await self.write(since)
            await asyncio.sleep(PERIOD_SECONDS)

    async def create(self, seconds: float) -> bool:
        """Make the ConfigMap before anything else is written; False if it is there. Raises if that is not known."""
        status = {**self._facts(), "written": render_time(self._now())}
        body = msgspec.json.encode(_object(self._data(status)))
        path = config_map_path(self._namespace, "")
        try:
            await self._client.attempt("POST", path, body=body, timeout_seconds=seconds, server_timeout=True)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def write(self, since: float) -> None:
        """Write what there is to say, if it is new or what stands there is old. Failures are tried again later."""
        at = time.monotonic()
        if self._fence() <= at:
            return
        try:
            if at >= self._asked_at + RIGHTS_SECONDS:
                self._asked_at = at
                before, self._lacks = (
                    self._lacks,
                    await lacking(self._client, self._namespace, self._left(), self._fence),
                )
                if self._lacks and self._lacks != before:
                    _log.warning("rights are missing: what needs them is not done", rights=list(self._lacks))
            facts = {**self._facts(), "since": render_time(since), "lacks": self._lacks}
            if facts == self._written and at < self._written_at + AT_LEAST_SECONDS:
                return
            status = {**facts, **self._measured(), "written": render_time(self._now())}
            await self._put(_object(self._data(status)))
        except (ApiError, UnreachableError) as error:
            if self._problem != str(error):
                self._problem = str(error)
                _log.warning("the status cannot be published", namespace=self._namespace, error=self._problem)
        else:
            self._problem, self._written, self._written_at = "", facts, at

    def _data(self, status: Mapping[str, Any]) -> dict[str, str]:
        return {CONFIGURATION: self._configuration, STATUS: msgspec.json.encode(status).decode()}

    async def _put(self, body: dict[str, Any]) -> None:
        path = config_map_path(self._namespace, NAME)
        try:
            found = answer_of(_config_map, await self._send("GET", path), NAME)
        except ApiError as error:
            if error.status != 404:
                raise
            await self._send("POST", config_map_path(self._namespace, ""), body)
            return
        body["metadata"] = {**body["metadata"], "resourceVersion": found.metadata.resource_version}
        await self._send("PUT", path, body)

    async def _send(self, method: str, path: str, body: object = None) -> bytes:
        return await self._client.attempt(
            method,
            path,
            body=None if body is None else msgspec.json.encode(body),
            timeout_seconds=self._left(),
            server_timeout=True,
            fence=self._fence,
        )

    def _left(self) -> float:
        """How long a request may take."""
        return min(self._timeout_seconds, max(0.0, self._fence() - time.monotonic()))


def _object(data: Mapping[str, str]) -> dict[str, Any]:
    meta = {"name": NAME, "labels": {"app.kubernetes.io/name": "gangsched"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
