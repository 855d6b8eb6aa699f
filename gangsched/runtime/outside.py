"""What a process begins with: its connection to the cluster, which is read while the rest is still being imported.

Nothing here needs numpy, the core or the metrics. To import those takes as long as the API server takes to answer, so
both happen at once.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import msgspec

from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, segment
from gangsched.cluster.kube.hooks import Observe
from gangsched.cluster.kube.lease import LeaseSettings, unique_identity
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import WriteSettings
from gangsched.http.connection import Connection, ConnectionConfigError, load_connection
from gangsched.model.sections import duration_seconds
from gangsched.runtime import logs
from gangsched.runtime.settings import Configuration, Http
from gangsched.runtime.status import MakeSink

_PROBE_SECONDS = 10.0
_PROBE_PAUSES_SECONDS = (0.3, 0.7)  # between attempts
#: How long a thread that computes may keep the others waiting: writes are sent while the next gang is decided. Python's
#: own 5 ms are longer than the API server takes to answer.
_SWITCH_SECONDS = 0.001
_log = logs.get("start")
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class StartError(Exception):
    """The process cannot start; the text says what the user can do."""


def probe_host(configuration: Configuration) -> str | None:
    """Where probes are answered: as configured, else everywhere in a pod (None) and on loopback outside."""
    return configuration.http.bind_address or (None if _SERVICE_ACCOUNT.exists() else "127.0.0.1")


def cannot_listen(configuration: Configuration, error: OSError) -> StartError:
    """The port for probes is not to be had."""
    host, port = probe_host(configuration), configuration.http.port
    where = f"{host or 'port'}{':' if host else ' '}{port}"
    return StartError(f"cannot listen on {where}: {error.strerror or error}; choose another with --port or http.port")


def _free_port(configuration: Configuration) -> int:
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


def connect(
    configuration: Configuration, *, elects: bool = False, announce: Callable[[Connection], None] = lambda _: None
) -> Connection:
    """The connection that the configuration describes, proven to work; with ``elects`` there is a namespace for the
    Lease, which may have to be made: after ``announce``. Raises :class:`StartError`.
    """
    wanted = configuration.client_connection
    namespace = configuration.leader_election.resource_namespace

    async def probe() -> Connection:
        connection = await load_connection(wanted.kubeconfig or None, wanted.context or None)
        client = Client(connection, TokenBucket(wanted.qps, wanted.burst))
        client.open()
        try:
            try:
                await _reach(client)
            except UnreachableError as error:
                raise StartError(f"{connection} cannot be reached: {error}") from None
            except ApiError as error:
                if not error.transient:  # a server that is too busy now will answer later: what reads it asks again
                    raise StartError(f"{connection} refuses us: {error}") from None
            announce(connection)
            if elects and configuration.leader_election.leader_elect:
                await _ensure_namespace(client, namespace)
        finally:
            await client.close()
        return connection

    try:
        return asyncio.run(probe())
    except ConnectionConfigError as error:
        raise StartError(str(error)) from None


async def _reach(client: Client) -> None:
    """Ask the server for anything; a connection that breaks once or twice is no server that cannot be reached."""
    end = time.monotonic() + _PROBE_SECONDS
    for pause in (*_PROBE_PAUSES_SECONDS, math.inf):
        try:
            await client.attempt("GET", "/version", timeout_seconds=end - time.monotonic())
        except UnreachableError:
            if time.monotonic() + pause >= end:
                raise
            await asyncio.sleep(pause)
        else:
            return


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
            text = f"the Lease needs the namespace {name}, which does not exist: kubectl create namespace {name}"
            raise StartError(text) from None
    except UnreachableError:
        return


class Measurements:
    """An :class:`~gangsched.cluster.kube.hooks.Observe` that keeps everything until somebody can count it."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, float, Mapping[str, str]]] = []
        self._observe: Observe | None = None
        self._lock = threading.Lock()

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """See :class:`~gangsched.cluster.kube.hooks.Observe`."""
        if self._observe is None:
            with self._lock:
                if self._observe is None:
                    self._kept.append((name, value, labels))
                    return
        self._observe(name, value, labels)

    def pass_on(self, observe: Observe) -> None:
        """Give ``observe`` what has been kept, in order, and everything from now on."""
        with self._lock:
            for measurement in self._kept:
                observe(*measurement)
            self._kept.clear()
            self._observe = observe


class Outside:
    """The cluster that a process follows, with its threads, and the signals that end the process.

    For the parameters see :class:`~gangsched.runtime.process.Process`, which takes it from there. ``asked`` gets the
    reasons to stop; ``io_loop`` is there once the I/O thread runs.
    """

    def __init__(
        self,
        configuration: Configuration,
        connection: Connection,
        *,
        dry_run: bool = False,
        once: bool = False,
        decide: bool = True,
        make_sink: MakeSink | None = None,
    ) -> None:
        self.configuration = configuration
        self.dry_run = dry_run
        self.once = once
        self.decide = decide
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.measurements = Measurements()
        self.io_loop: asyncio.AbstractEventLoop | None = None
        wanted = configuration.client_connection
        self.sink = make_sink(wanted.kubeconfig or None, wanted.context or None) if make_sink is not None else None
        self.kube = KubeCluster(
            connection,
            lease=None if dry_run or not decide else _lease(configuration),
            dry_run=dry_run,
            qps=wanted.qps,
            burst=wanted.burst,
            writes=WriteSettings(timeout_seconds=duration_seconds(wanted.request_timeout)),
            controller=configuration.profiles[0].scheduler_name,
            on_gang_status=self.sink.post if self.sink else None,
            observe=self.measurements,
            loop_factory=self._make_io_loop,
            quota_mode=configuration.quota.mode,
        )
        #: Where probes are answered; 0 for nowhere. A run that only looks, or ends by itself, is not probed.
        self.port = 0
        self._restore: Callable[[], None] | None = None

    def begin(self) -> None:
        """Catch signals and follow the cluster; again: nothing. Call in the main thread; :meth:`end` must follow.

        Raises :class:`StartError` when the port for probes is not free.
        """
        if self._restore is not None:
            return
        if self.configuration.http.port and not (self.once or self.dry_run):
            self.port = _free_port(self.configuration)
        switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        restore_signals = self._catch_signals()

        def restore() -> None:
            sys.setswitchinterval(switch_seconds)
            restore_signals()

        self._restore = restore
        self.kube.start()

    def end(self) -> None:
        """Stop in order, release the lease, and leave signals to whoever had them. May be called again."""
        try:
            self.kube.stop()
            if self.sink is not None:
                self.sink.stop()
        finally:
            restore, self._restore = self._restore, None
            if restore is not None:
                restore()

    def _catch_signals(self) -> Callable[[], None]:
        asked = False

        def caught(number: int, _: FrameType | None) -> None:
            nonlocal asked
            if asked:
                # Writes in flight are finished or undone by whoever takes over; waiting was the polite way.
                os._exit(128 + number)
            asked = True
            self.asked.put(signal.Signals(number).name)

        before = {number: signal.signal(number, caught) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        return restore

    def _make_io_loop(self) -> asyncio.AbstractEventLoop:
        try:
            import uvloop  # noqa: PLC0415 - an extra
        except ImportError:
            self.io_loop = asyncio.new_event_loop()
        else:
            self.io_loop = uvloop.new_event_loop()
        return self.io_loop


def _lease(configuration: Configuration) -> LeaseSettings | None:
    election = configuration.leader_election
    if not election.leader_elect:
        return None
    return LeaseSettings(
        namespace=election.resource_namespace,
        name=election.resource_name,
        identity=unique_identity(),
        duration_seconds=duration_seconds(election.lease_duration),
        renew_deadline_seconds=duration_seconds(election.renew_deadline),
        retry_period_seconds=duration_seconds(election.retry_period),
        takeover_wait_seconds=duration_seconds(configuration.client_connection.request_timeout),
    )
