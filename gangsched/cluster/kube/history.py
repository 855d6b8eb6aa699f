"""The record of evictions: a bounded ConfigMap that outlives the pods, their Events and this process.

A line of it is an Event that says who leaves, shared by all whom it says the same of. Lines are kept in one text, the
oldest first, one JSON object each; the leader adds to it when nothing else is to be written.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of, segment
from gangsched.core.actions import Action, Report
from gangsched.core.lifecycle.report import EVICTED_DUE_TO, PREEMPTED, RESUMED, ROLLED_BACK
from gangsched.model.times import render_time

_log = logs.get(__name__)

#: The ConfigMap, and the key of its text.
NAME, KEY = "gangsched-history", "lines"
#: The most bytes of the text: the whole object stays below 512 KiB.
LIMIT_BYTES = 511 * 1024
#: So many objects share a line at most: the text is shortened by whole lines.
MOST_OBJECTS = 500
#: Lines that wait to be written while that fails; more than the text has room for would be of no use.
_MOST_WAITING = 2_000
#: Writes are at least so far apart, and wait so long at most for a moment in which nothing else is to be written.
PERIOD_SECONDS, PATIENCE_SECONDS = 5.0, 10.0
#: Where an Event says on which node its object is.
ON_NODE = re.compile(r";? on node (\S+?)(?=[ :;,]|$)")

#: Namespace, name and node; the last is empty where none is known.
Object: TypeAlias = tuple[str, str, str]


class Line(msgspec.Struct, frozen=True):
    """An entry about objects of a ``kind`` at ``time`` (RFC 3339), and the reason: ``note``."""

    time: str
    reason: str
    kind: str
    note: str
    objects: list[Object]


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] = {}


_config_map = msgspec.json.Decoder(_ConfigMap)
_line = msgspec.json.Decoder(Line)


def lines_of(body: bytes) -> Iterator[Line]:
    """The lines of the ConfigMap as the server sent it, the oldest first; what is none of ours is left out.

    Raises :class:`UnreachableError` if it is no ConfigMap.
    """
    for text in answer_of(_config_map, body, NAME).data.get(KEY, "").splitlines():
        try:
            yield _line.decode(text)
        except msgspec.DecodeError:
            continue


async def recorded(get: Callable[[str], Awaitable[bytes]], namespace: str) -> list[Line]:
    """The lines of the ConfigMap in this namespace, the oldest first; none before the first pod is evicted.

    ``get`` reads a URL path. Raises what it raises, but for a :class:`ApiError` that nothing is there, and as
    :func:`lines_of`.
    """
    try:
        return list(lines_of(await get(config_map_path(namespace))))
    except ApiError as error:
        if error.status != 404:
            raise
        return []


def bounded(text: str, more: Iterable[Line]) -> str:
    """The text with these lines behind it, and without as many of its first ones as :data:`LIMIT_BYTES` asks for.

    A line that is there already is not added: a write without an answer may have taken effect.
    """
    whole = text.encode() + b"\n" * bool(text and not text.endswith("\n"))
    known = set(whole.splitlines())
    whole += b"".join(new + b"\n" for line in more if (new := msgspec.json.encode(line)) not in known)
    if len(whole) > LIMIT_BYTES:
        whole = whole[whole.index(b"\n", len(whole) - LIMIT_BYTES - 1) + 1 :]
    return whole.decode()


def config_map_path(namespace: str, name: str = NAME) -> str:
    """The URL path of the ConfigMap; without a name, of all in the namespace."""
    return f"/api/v1/namespaces/{segment(namespace)}/configmaps" + (f"/{name}" if name else "")


class History:
    """Collects lines with :meth:`note` and writes them in :meth:`run`, a task of the same event loop.

    ``now`` is the wall clock. After the monotonic time ``fence`` nothing may be written. ``quiet`` waits until there
    are no other writes, at most so many seconds.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        now: Callable[[], float],
        fence: Callable[[], float],
        quiet: Callable[[float], Awaitable[bool]],
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now
        self._fence = fence
        self._quiet = quiet
        self._timeout_seconds = timeout_seconds
        self._waiting: list[Line] = []
        self._open: dict[tuple[str, str, str], Line] = {}  # of them those that others may share
        self._news = asyncio.Event()
        self._problem = ""

    def note(self, actions: Iterable[Action]) -> None:
        """Keep what these report of pods that are evicted, or come back."""
        for action in actions:
            if isinstance(action, Report) and is_on_record(action.reason, related=action.related is not None):
                self._note(action)

    def _note(self, report: Report) -> None:
        _, kind, namespace, name, _ = report.regarding
        # The node is the object's: those who leave together share the other fields.
        node = ON_NODE.search(report.note)
        note = report.note if node is None else report.note.replace(node[0], "", 1)
        key = report.reason, kind, note
        line = self._open.get(key)
        if line is None or len(line.objects) >= MOST_OBJECTS:
            line = self._open[key] = Line(render_time(self._now()), report.reason, kind, note, [])
            self._waiting = [*self._waiting[-_MOST_WAITING + 1 :], line]
        line.objects.append((namespace, name, node[1] if node else ""))
        self._news.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._news.wait()
            await self._quiet(PATIENCE_SECONDS)
            await self._client.bucket.acquire()
            await self.write()
            await asyncio.sleep(PERIOD_SECONDS)

    async def write(self) -> None:
        """Add the lines that wait. If that fails they go on waiting: the next attempt takes the text as it is then."""
        self._news.clear()
        if not self._waiting or self._fence() <= time.monotonic():
            return
        lines, self._waiting, self._open = self._waiting, [], {}
        try:
            await self._add(lines)
        except (ApiError, UnreachableError) as error:
            self._waiting = (lines + self._waiting)[-_MOST_WAITING:]
            self._news.set()
            # Another leader's line in between is no problem, and one that lasts is logged once.
            if not (isinstance(error, ApiError) and error.status == 409) and self._problem != str(error):
                self._problem = str(error)
                _log.warning("the history cannot be written", namespace=self._namespace, error=self._problem)
        else:
            self._problem = ""

    async def _add(self, lines: list[Line]) -> None:
        try:
            found = answer_of(_config_map, await self._send("GET", config_map_path(self._namespace)), NAME)
        except ApiError as error:
            if error.status != 404:
                raise
            found = _ConfigMap(_Meta())
        meta = {"name": NAME, "labels": {"app.kubernetes.io/name": "gangsched"}}
        text = bounded(found.data.get(KEY, ""), lines)
        if version := found.metadata.resource_version:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta | {"resourceVersion": version}}
            await self._send("PUT", config_map_path(self._namespace), {**body, "data": {KEY: text}})
        else:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {KEY: text}}
            await self._send("POST", config_map_path(self._namespace, ""), body)

    async def _send(self, method: str, path: str, body: object = None) -> bytes:
        return await self._client.attempt(
            method,
            path,
            body=None if body is None else msgspec.json.encode(body),
            timeout_seconds=min(self._timeout_seconds, max(0.0, self._fence() - time.monotonic())),
            server_timeout=True,
            fence=self._fence,
        )


def is_on_record(reason: str, *, related: bool) -> bool:
    """Return whether an Event says that its object leaves, or goes on. Events of victims name the gang's pod as the
    ``related`` object.
    """
    if reason == PREEMPTED:
        return related
    return reason in (RESUMED, ROLLED_BACK) or reason.startswith(EVICTED_DUE_TO)
