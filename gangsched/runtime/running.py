"""The scheduler that runs in a cluster, as a command finds it: its leader and its configuration."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.history import config_map_path
from gangsched.cluster.kube.lease import LeaseSpec, lease_of, lease_path
from gangsched.cluster.kube.published import AT_LEAST_SECONDS, NAME, Published, Status, published_in
from gangsched.messages import standing
from gangsched.model.errors import FieldError
from gangsched.model.times import clock_time, parse_time
from gangsched.runtime import config
from gangsched.runtime.settings import ClientConnection, Configuration

#: A Lease without a duration of its own.
_LEASE_SECONDS = 15
_FORBIDDEN, _NOT_FOUND = 403, 404


class Running(msgspec.Struct, frozen=True):
    """What is known of the scheduler of a cluster at ``now`` (server's clock, seconds since the epoch).

    ``holder`` leads since ``since``; where no process does it is empty and ``ended`` says since when (None: not known).
    ``unknown`` says why it is not known who leads. ``published`` is None with ``unpublished`` saying why.
    ``ignored`` are settings of the configuration that this version does not know.
    """

    lease: str
    now: float
    holder: str = ""
    since: float | None = None
    ended: float | None = None
    former: str = ""
    unknown: str = ""
    published: Published | None = None
    unpublished: str = ""
    configuration: Configuration = Configuration()
    ignored: tuple[str, ...] = ()

    @property
    def alarm(self) -> str:
        """The line that comes before every answer where no scheduler leads; empty where one does."""
        if self.holder or self.unknown:
            return ""
        if self.ended is None:
            return standing.no_leader_ever(lease=self.lease)
        return standing.no_leader(
            since=clock_time(self.ended, self.now), former=standing.of_former(name=self.former) if self.former else ""
        )

    @property
    def leader(self) -> str:
        """Return the leader in words."""
        if self.unknown:
            return standing.leader_unknown(why=self.unknown)
        if not self.holder:
            return self.alarm
        since = standing.leads_since(since=clock_time(self.since, self.now)) if self.since is not None else ""
        return standing.leads(name=self.holder, since=since)

    @property
    def whose(self) -> str:
        """Return the source of the configuration in words."""
        if self.published is None:
            return standing.built_in_defaults(why=self.unpublished)
        return standing.as_published(name=self.published_in)

    @property
    def published_in(self) -> str:
        """``namespace/name`` of the ConfigMap."""
        return f"{self.lease.partition('/')[0]}/{NAME}"

    @property
    def status(self) -> Status:
        """The leader's own status."""
        return self.published.status if self.published is not None else Status()


async def find_running(client: Client, configuration: Configuration) -> Running:
    """Return the scheduler of the cluster whose Lease ``configuration`` names. Unreadable parts are no error."""
    namespace, name = configuration.leader_election.resource_namespace, configuration.leader_election.resource_name
    (spec, lease_problem), (published, problem) = await asyncio.gather(
        _lease(client, namespace, name), _published(client, namespace)
    )
    now = time.time()
    now += client.seconds_ahead(now) or 0.0
    running, ignored = config.understood(published.configuration) if published is not None else (Configuration(), ())
    found = Running(
        f"{namespace}/{name}",
        now,
        published=published,
        unpublished=problem,
        configuration=running,
        ignored=tuple(ignored),
    )
    changes = _who_leads(found, spec, lease_problem)
    return msgspec.structs.replace(found, **changes)


def _who_leads(found: Running, spec: LeaseSpec | None, problem: str) -> dict[str, Any]:
    status = found.status
    elects = found.configuration.leader_election.leader_elect
    if found.published is not None and not elects:
        written = _moment(status.written)
        if written is not None and written + 2 * AT_LEAST_SECONDS >= found.now:
            return {"holder": status.leader, "since": _moment(status.since)}
        return {"ended": written, "former": status.leader}
    if problem:
        return {"unknown": problem}
    if spec is None:
        return {}
    renewed = _moment(spec.renew_time)
    if not spec.holder_identity:
        return {"ended": renewed, "former": status.leader}
    if renewed is None or renewed + (spec.lease_duration_seconds or _LEASE_SECONDS) < found.now:
        return {"ended": renewed, "former": spec.holder_identity}
    same = status.leader == spec.holder_identity
    return {"holder": spec.holder_identity, "since": _moment(status.since if same else spec.acquire_time)}


def _moment(text: str | None) -> float | None:
    try:
        return parse_time(text, "time") if text else None
    except FieldError:
        return None


async def _lease(client: Client, namespace: str, name: str) -> tuple[LeaseSpec | None, str]:
    path = lease_path(namespace, name)
    try:
        return lease_of(await client.get(path), path).spec, ""
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None, ""
        if error.status == _FORBIDDEN:
            return None, standing.lease_forbidden(lease=f"{namespace}/{name}")
        return None, str(error)
    except UnreachableError as error:
        return None, str(error)


async def _published(client: Client, namespace: str) -> tuple[Published | None, str]:
    name = f"{namespace}/{NAME}"
    try:
        return published_in(await client.get(config_map_path(namespace, NAME))), ""
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None, standing.not_published(name=name)
        if error.status == _FORBIDDEN:
            return None, standing.status_forbidden(name=name)
        return None, str(error)
    except UnreachableError as error:
        return None, str(error)


def merged(found: Running, own: Configuration) -> Configuration:
    """The configuration of the leader, with this command's own connection, log and Lease."""
    connection = msgspec.structs.replace(
        ClientConnection(), kubeconfig=own.client_connection.kubeconfig, context=own.client_connection.context
    )
    return msgspec.structs.replace(
        found.configuration, client_connection=connection, logging=own.logging, leader_election=own.leader_election
    )
