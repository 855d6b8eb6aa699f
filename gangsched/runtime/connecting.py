"""Requirements of a process: the connection to its cluster and the port for probes. Also reads a cluster once."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from gangsched import logs
from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, segment
from gangsched.cluster.kube.connection import Connection, ConnectionConfigError, load_connection
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.core.events import Event, LeadershipChanged, Synced
from gangsched.messages import failures
from gangsched.messages.text import join_names
from gangsched.model.errors import UserError
from gangsched.runtime.guard import Certificate
from gangsched.runtime.settings import ClientConnection, Configuration, Http

_PROBE_SECONDS = 10.0
_PROBE_RETRY_SECONDS = 1.0
_log = logs.get("gangsched.start")
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class StartError(UserError):
    """The process cannot start; the text says what the user can do, and so do ``more`` lines behind it."""

    def __init__(self, text: str, *more: str) -> None:
        super().__init__(text)
        self.more = more

    @property
    def lines(self) -> list[str]:
        """See :class:`~gangsched.model.errors.UserError`."""
        return [*super().lines, *self.more]


def probe_host(configuration: Configuration) -> str | None:
    """Where probes are answered: as configured, else everywhere in a pod (None) and on loopback outside."""
    return configuration.http.bind_address or (None if _SERVICE_ACCOUNT.exists() else "127.0.0.1")


def cannot_listen(configuration: Configuration, error: OSError) -> StartError:
    """The port for probes is not to be had."""
    host, port = probe_host(configuration), configuration.http.port
    where = f"{host or 'port'}{':' if host else ' '}{port}"
    return StartError(failures.port_taken(where=where, error=error.strerror or error))


def free_port(configuration: Configuration) -> int:
    """The port for probes, found to be free before the election: a process that cannot start must not win it.

    Outside a cluster the default is a preference: where it is taken, as on a node where kube-scheduler runs, any other
    port will do. Raises :class:`StartError`.
    """
    host, port = probe_host(configuration) or "", configuration.http.port
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE or port != Http().port or _SERVICE_ACCOUNT.exists():
            raise cannot_listen(configuration, error) from None
        with socket.create_server((host, 0)) as other:
            port = int(other.getsockname()[1])
        _log.warning("the default port is taken", port=Http().port, instead=port)
    return port


def certificate_of(configuration: Configuration) -> Certificate | None:
    """The certificate of the port for probes, where it has one. Raises :class:`StartError` if it cannot be used."""
    http = configuration.http
    if not http.tls_cert_file:
        return None
    try:
        return Certificate(Path(http.tls_cert_file), Path(http.tls_key_file))
    except OSError as error:
        text = failures.certificate_unusable(certificate=http.tls_cert_file, key=http.tls_key_file, error=error)
        raise StartError(text) from None


async def _nothing(_: Client) -> None:
    """Ask for nothing more."""


def connect(
    configuration: Configuration,
    *,
    elects: bool = False,
    announce: Callable[[Connection], None] = lambda _: None,
    ask: Callable[[Client], Awaitable[None]] = _nothing,
) -> Connection:
    """The connection that the configuration describes, proven to work; with ``elects`` there is a namespace for the
    Lease, which may have to be made: after ``announce``. ``ask`` may use it. Raises :class:`StartError`.
    """
    wanted = configuration.client_connection
    namespace = configuration.leader_election.resource_namespace

    async def probe() -> Connection:
        connection = await load_connection(wanted.kubeconfig or None, wanted.context or None)
        async with client_to(connection, wanted) as client:
            try:
                # A connection that breaks once or twice is no server that cannot be reached.
                await client.get("/version", attempt_seconds=_PROBE_SECONDS, retry_seconds=_PROBE_RETRY_SECONDS)
            except UnreachableError as error:
                raise StartError(failures.unreachable(connection=connection, error=error)) from None
            except ApiError as error:
                if not error.transient:  # a server that is too busy now will answer later: what reads it asks again
                    raise StartError(failures.refused(connection=connection, error=error)) from None
            announce(connection)
            await ask(client)
            if elects and configuration.leader_election.leader_elect:
                await _ensure_namespace(client, namespace)
        return connection

    try:
        return asyncio.run(probe())
    except ConnectionConfigError as error:
        raise StartError(str(error)) from None


@asynccontextmanager
async def client_to(connection: Connection, wanted: ClientConnection) -> AsyncIterator[Client]:
    """A client for as long as the block lasts."""
    client = Client(connection, TokenBucket(wanted.qps, wanted.burst))
    client.open()
    try:
        yield client
    finally:
        await client.close()


async def _ensure_namespace(client: Client, name: str) -> None:
    """Create the namespace where there is none, as on a cluster that is new to this scheduler.

    Raises :class:`StartError` if that is not allowed. Any other failure is left to the election, which tries again.
    """
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        try:
            await client.attempt("GET", f"/api/v1/namespaces/{segment(name)}", timeout_seconds=_PROBE_SECONDS)
        except ApiError as error:
            if error.status != 404:
                return
            body = msgspec.json.encode(space)
            await client.attempt("POST", "/api/v1/namespaces", body=body, timeout_seconds=_PROBE_SECONDS)
            _log.info("namespace created for the Lease", namespace=name)
    except ApiError as error:
        if error.status == 403:
            text = failures.namespace_missing(name=name)
            raise StartError(text) from None
    except UnreachableError:
        return


#: A cluster that has not been listed after this time is reported to the user instead of waited for.
LIMIT_SECONDS = 60.0
#: The reader tries again by itself: what cannot be read after this time is refused for good.
_TRIES_SECONDS = 5.0
_POLL_SECONDS = 0.5
#: The role with which users read a cluster as the scheduler does: see manifests/rbac-users.yaml.
READER = "gangsched-reader"
#: The same for one namespace.
TENANT = "gangsched-tenant"
#: The beginning of a refusal.
_FORBIDDEN = "403 "
#: So many resources are named that have one problem.
_NAMED = 3


class Scope(NamedTuple):
    """How much of a cluster is read: all of it, or of ``within`` only what is ``closed`` elsewhere, which is named by
    resource.
    """

    within: str = ""
    closed: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all is known on which a decision rests."""
        return not {"pods", "nodes"} & set(self.closed)

    @property
    def notice(self) -> str:
        """What is unknown, in one line."""
        closed = join_names(sorted(self.closed, key=_first), _NAMED)
        return failures.of_one_namespace(namespace=self.within, closed=closed, role=READER)


class Batch(NamedTuple):
    """The events since the last batch, until ``now``. The first batch has an event for each object."""

    events: list[Event]
    now: float
    scope: Scope


def _first(resource: str) -> tuple[bool, str]:
    """The parts that users know come first."""
    return resource not in ("pods", "nodes"), resource


def by_cause(problems: Mapping[str, str]) -> str:
    """What is wrong with which resources, each cause once, what may not be read first."""
    refused = sorted(name for name, problem in problems.items() if problem.startswith(_FORBIDDEN))
    causes: dict[str, list[str]] = {}
    for name, problem in sorted(problems.items()):
        if name not in refused:
            causes.setdefault(problem, []).append(name)
    found = [f"{join_names(names, _NAMED)}: {problem}" for problem, names in causes.items()]
    if refused:
        first = sorted(refused, key=_first)
        found.insert(0, failures.may_not_list(resources=join_names(first, _NAMED)))
    return "; ".join(found)


def unreadable(cluster: KubeCluster, waited_seconds: float, within: str = "") -> str | None:
    """Why a cluster that is not listed after this time will not be; None while that is open. Where a namespace does
    (``within``), what may not be read of the whole cluster is no reason.
    """
    health = cluster.health()
    closed = [cache for cache in health.caches if cache.problem.startswith(_FORBIDDEN)]
    # Nothing but time is lost by asking again for what is not allowed, once all the rest has been answered.
    settled = bool(closed) and all(cache.listed or cache.problem for cache in health.caches)
    open_ = [cache for cache in health.caches if cache.problem and not (within and cache in closed)]
    refused = bool(open_) and (waited_seconds >= _TRIES_SECONDS or settled)
    if cluster.stopped or refused or waited_seconds >= LIMIT_SECONDS:
        return by_cause({c.resource: c.problem for c in health.caches if c.problem}) or health.failure or "no answer"
    return None


def follow(configuration: Configuration, connection: Connection, within: str = "") -> Generator[Batch]:
    """Batches again and again, the first once all has been listed; ``within`` is the namespace of which is read what
    may not be read in the whole cluster, empty for none.

    Close it. Raises :class:`StartError` with what cannot be read.
    """
    wanted = configuration.client_connection
    cluster = KubeCluster(
        connection,
        lease=None,
        dry_run=True,
        qps=wanted.qps,
        burst=wanted.burst,
        quota_mode=configuration.quota.mode,
        fallback_namespace=within,
    )
    cluster.start()
    try:
        began, synced = cluster.now(), False
        events: list[Event] = []
        while True:
            now, batch = cluster.wait(cluster.now() + _POLL_SECONDS)
            synced = synced or any(isinstance(event, Synced) for event in batch)
            events.extend(e for e in batch if not isinstance(e, Synced | LeadershipChanged))
            if synced and not cluster.stopped:
                yield Batch(events, now, _scope(cluster, connection, within))
                events = []
            elif problem := unreadable(cluster, now - began, within):
                asks = [failures.ask_for_role(role=READER)] if _closed(cluster) else []
                raise StartError(failures.unreadable(source=connection, error=problem), *asks)
    finally:
        cluster.stop()


def _scope(cluster: KubeCluster, connection: Connection, within: str) -> Scope:
    """How much is read. Raises :class:`StartError` where that is no pod at all."""
    caches = cluster.health().caches
    closed = tuple(cache.resource for cache in caches if cache.within or cache.problem.startswith(_FORBIDDEN))
    if any(cache.resource == "pods" and cache.problem.startswith(_FORBIDDEN) for cache in caches):
        why = failures.may_not_list_here(namespace=within) if within else failures.may_not_list(resources="pods")
        ask = failures.ask_for_role_here(role=TENANT, namespace=within)
        raise StartError(failures.unreadable(source=connection, error=why), ask)
    return Scope(within, closed) if closed else Scope()


def _closed(cluster: KubeCluster) -> bool:
    return any(cache.problem.startswith(_FORBIDDEN) for cache in cluster.health().caches)
