"""One scheduler process: wires core, cluster, metrics and probes together, and ends in order."""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gangsched import __version__, logs
from gangsched.cluster.bystanders import Bystanders
from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.connection import Connection
from gangsched.cluster.kube.lease import LeaseSettings, unique_identity
from gangsched.cluster.kube.quarantine_record import QuarantineRecord
from gangsched.cluster.kube.statuses import Statuses
from gangsched.cluster.kube.writer import WriteSettings
from gangsched.core.actions import Action, GangStatus, ReleaseNode
from gangsched.core.decision import Decision
from gangsched.core.events import Quarantined
from gangsched.core.options import Options
from gangsched.core.planning.held_nodes import NEVER
from gangsched.core.scheduler import Scheduler
from gangsched.messages import failures
from gangsched.model.times import seconds_of
from gangsched.runtime.boundary import Boundary
from gangsched.runtime.config import is_loopback
from gangsched.runtime.connecting import (
    LIMIT_SECONDS,
    StartError,
    cannot_listen,
    certificate_of,
    free_port,
    probe_host,
    unreadable,
)
from gangsched.runtime.guard import Certificate, Guard
from gangsched.runtime.health import DecisionPulse, HealthServer
from gangsched.runtime.http import Answer, Request
from gangsched.runtime.http_server import raise_file_limit
from gangsched.runtime.known import Known
from gangsched.runtime.loop import CoreFaults, Observer, Observers, Rebuilt, run_loop, run_once
from gangsched.runtime.memory import FreezeAfterSync, PauseMeter, raise_thresholds
from gangsched.runtime.metrics import DecisionTime, FilterAndScoreTimes, Metrics
from gangsched.runtime.observers import (
    FACTOR,
    Controllers,
    Deadline,
    DecisionLog,
    MakeControllers,
    QueueStatusFeed,
    StartWhenQuiet,
    UnderWay,
)
from gangsched.runtime.quarantine import named
from gangsched.runtime.settings import Configuration
from gangsched.runtime.shadow import Shadow
from gangsched.runtime.shadow_figures import Comparison
from gangsched.runtime.shadow_report import DailyReport
from gangsched.runtime.standing import Standing

if TYPE_CHECKING:
    from gangsched.runtime.tracing import GangTraces

#: Exit codes: done, a failure that a restart may cure.
OK, FAILED = 0, 1

#: How long a thread that computes may keep the others waiting: writes are sent while the next gang is decided. Python's
#: own 5 ms are longer than the API server takes to answer.
_SWITCH_SECONDS = 0.001
_QUEUE_PERIOD_SECONDS = 1.0
#: How often a single pass looks whether it can still begin.
_LOOK_SECONDS = 1.0
#: A decision that is under way may end by itself; a thread that is stuck must not keep the Lease from being released.
_STEP_SECONDS = 10.0
#: Objects of all kinds are followed side by side: what one list is behind the others, above all when it is read anew.
_OWNER_WAIT_SECONDS = 5.0


class ShadowOf(NamedTuple):
    """Decide beside another scheduler, whose names the profiles have: the name of this one in reports, and the
    ``folder`` for these.
    """

    own: str
    folder: Path | None


class Live(NamedTuple):
    """The contents of a page about a process, and their source; ``host`` is where it listens, None for everywhere."""

    known: Known
    kube: KubeCluster
    configuration: Configuration
    host: str | None


#: Makes the page of a process.
MakePage = Callable[[Live], Callable[[Request], Answer]]


class Process:
    """One run of the scheduler against a cluster.

    With ``dry_run`` it decides and logs and never writes; with ``once`` it decides all that is pending and ends. As the
    ``shadow`` of another scheduler it decides beside that one, never writes, and goes on.
    ``make_controllers`` makes what sees the objects whose status is kept, and ``make_page`` the page, if anything does.
    """

    def __init__(
        self,
        configuration: Configuration,
        connection: Connection,
        *,
        dry_run: bool = False,
        once: bool = False,
        make_controllers: MakeControllers | None = None,
        shadow: ShadowOf | None = None,
        make_page: MakePage | None = None,
    ) -> None:
        self._configuration = configuration
        dry_run = dry_run or shadow is not None
        self._dry_run = dry_run
        self._once = once
        self._log = logs.get("gangsched.process")
        #: Reasons to stop.
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        #: A run that only looks, or ends by itself, is not.
        self._probed = bool(configuration.http.port) and (shadow is not None or not (once or dry_run))
        self._make_page = make_page if self._probed and serves_page(configuration) else None
        #: Where probes are answered; 0 for nowhere.
        self._port = 0
        self._failure: BaseException | None = None
        former = configuration.former_leases() if shadow is None else {}
        options = running_options(configuration, once=once, former_leases=former)
        self._pulse = DecisionPulse()
        self._metrics = Metrics(options.scheduler_names)
        self._bystanders = bystanders = Bystanders(self._metrics.note)
        self._record = QuarantineRecord()
        self._faults = CoreFaults()
        self._scheduler: Callable[[], Scheduler]
        self._core = self._contained(options, shadow)
        lasting = self._core.lasting
        self._pauses = PauseMeter()
        self._metrics.registry.register(self._pauses)
        self._metrics.registry.register(DecisionTime(self._pulse.under_way))
        self._metrics.registry.register(FilterAndScoreTimes(lasting.stopwatch))
        self.last_decisions = LastDecisions(keep=once)
        wanted = configuration.client_connection
        statuses = Statuses() if make_controllers is not None else None
        self._controllers: Controllers | None = None
        if statuses is not None and make_controllers is not None:
            self._controllers = make_controllers(statuses, wanted.kubeconfig or None, wanted.context or None)
        lease = None if dry_run else _lease(configuration)
        self._standing = standing = Standing(
            lambda: self._scheduler().queue_counts(),
            {
                "leader": lease.identity if lease is not None else socket.gethostname(),
                "version": __version__,
                "names": options.scheduler_names,
            },
        )
        self._kube = KubeCluster(
            connection,
            lease=lease,
            dry_run=dry_run,
            qps=wanted.qps,
            burst=wanted.burst,
            writes=WriteSettings(timeout_seconds=seconds_of(wanted.request_timeout)),
            controller=configuration.profiles[0].scheduler_name,
            statuses=statuses,
            observe=partial(bystanders.call, "Metrics", self._metrics.note),
            bystanders=bystanders,
            quota_mode=configuration.quota.mode,
            former_leases=former,
            holds_nodes=configuration.preemption.hold_room != NEVER,
            record=self._record,
            history_namespace=configuration.leader_election.resource_namespace,
            publishes=None if once else (_published(configuration), standing.facts),
            readable_only=True if shadow is not None else None,
        )
        budget_seconds = configuration.preemption.budget_milliseconds / 1000.0
        self._deadline = Deadline(lasting.watchdog, FACTOR * budget_seconds)
        self._traces = None if shadow is not None else _traces(configuration)
        self._observer = Observers(
            self._deadline,
            self._pulse,
            UnderWay(self._record),
            self._metrics,
            FreezeAfterSync(),
            *([self._traces] if self._traces is not None else []),
            DecisionLog(in_full=dry_run, trace_of=self._traces.trace_of if self._traces is not None else None),
            *([_QueueDepths(self._scheduler, self._metrics)] if self.report is None else [self.report]),
            self.last_decisions,
            self._faults,
            standing,
            *([StartWhenQuiet(self._controllers)] if self._controllers is not None else []),
            *([QueueStatusFeed(self._queue_statuses, statuses.want)] if statuses is not None else []),
            failed=bystanders.failed,
        )
        self._certificate: Certificate | None = None
        self._health: HealthServer | None = None

    def run(self) -> int:
        """Run until a signal, the end of a single pass, or a failure; the exit code. Call in the main thread.

        Raises :class:`StartError` when the port for probes or its certificate is not to be had, and for a single pass
        that cannot begin.
        """
        if self._probed:
            self._port = free_port(self._configuration)
            self._certificate = certificate_of(self._configuration)
        switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        restore_signals = self._catch_signals()
        self._pauses.install()
        self._deadline.start()
        restore_thresholds = raise_thresholds()
        raise_file_limit()
        decisions = threading.Thread(target=self._decide, name="decisions", daemon=True)
        held: list[ReleaseNode] = []
        try:
            self._kube.start()
            self._start_health()
            decisions.start()
            reason = self._reason_to_stop()
            self._log.info("stopping", reason=reason)
            self._kube.finish()
            decisions.join(_STEP_SECONDS)
            if decisions.is_alive():
                self._failure = self._failure or TimeoutError("the decision thread did not end")
            elif self._failure is None:
                held = self._scheduler().held_nodes()
        finally:
            try:
                self._kube.stop(held)
                if self._controllers is not None:
                    self._controllers.stop()
            finally:
                sys.setswitchinterval(switch_seconds)
                restore_signals()
            if self._health is not None:
                self._health.stop()
            if self._traces is not None:
                self._traces.close(self._kube.now())
            self._deadline.stop()
            self._pauses.remove()
            restore_thresholds()
        failure = self._kube.health().failure
        if self._failure is not None or failure:
            self._log.error("ended by a failure", failure=failure or repr(self._failure))
            return FAILED
        self._log.info("stopped")
        return FAILED if self._once and self.faults else OK

    def _contained(self, options: Options, shadow: ShadowOf | None) -> Boundary[Scheduler] | Boundary[Shadow]:
        """The core within its boundary."""
        answered, quarantined = not self._dry_run, self._quarantined
        self.report: DailyReport | None = None
        if shadow is None:
            deciding = Boundary(
                partial(Scheduler, options), answered=answered, on_rebuild=self._rebuilt, quarantined=quarantined
            )
            self._scheduler = lambda: deciding.core
            return deciding
        compared = Comparison(options.scheduler_names, self._metrics.note)
        comparing = Boundary(
            partial(Shadow, options, compared), answered=answered, on_rebuild=self._rebuilt, quarantined=quarantined
        )
        self._scheduler = lambda: comparing.core.scheduler

        def others() -> Mapping[str, int]:
            return comparing.core.others()

        self.report = DailyReport(compared, options.scheduler_names, shadow.own, shadow.folder, others)
        return comparing

    def _queue_statuses(self, again: bool) -> Sequence[GangStatus]:
        return self._scheduler().queue_statuses(again)

    def _rebuilt(self, rebuilt: Rebuilt) -> None:
        """The core has failed, and another one has its place."""
        self._observer.rebuilt(rebuilt)

    def _quarantined(self, entries: Sequence[Quarantined]) -> None:
        """These objects and gangs are quarantined from now on."""
        self._record.keep(entries)
        self._bystanders.call("Metrics", self._metrics.quarantined, len(entries))
        self._standing.quarantined = [named(each) for each in entries]

    @property
    def faults(self) -> list[str]:
        """A line for each fault of the scheduler itself."""
        return self._faults.lines

    def _catch_signals(self) -> Callable[[], None]:
        asked = False

        def caught(number: int, _: FrameType | None) -> None:
            nonlocal asked
            if asked:
                # The next leader completes or undoes writes in flight, so waiting longer is not needed.
                os._exit(128 + number)
            asked = True
            self._asked.put(signal.Signals(number).name)

        before = {number: signal.signal(number, caught) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        return restore

    def _reason_to_stop(self) -> str:
        """Wait for it. A single pass does not wait longer than :data:`LIMIT_SECONDS` for the cluster and the Lease."""
        kube = self._kube
        began = time.monotonic()
        while True:
            # With a limit: a signal that another thread gets does not wake this one, which has to handle it.
            try:
                return self._asked.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                waited = time.monotonic() - began
            if not self._once:
                continue
            health = kube.health()
            if not health.synced and (problem := unreadable(kube, waited)):
                raise StartError(failures.unreadable(source="the cluster", error=problem))
            if health.synced and not health.leading and waited >= LIMIT_SECONDS:
                raise StartError(failures.lease_not_free(holder=health.lease_holder or failures.LEASE_NOT_TAKEN))

    # -------------------------------------------------------------------------------------------------- its threads

    def _decide(self) -> None:
        try:
            if self._once:
                run_once(
                    self._core,
                    self._kube,
                    self._observer,
                    await_leadership=True,
                    await_writes=not self._dry_run,
                )
            else:
                run_loop(self._core, self._kube, self._observer)
            self._asked.put("all is decided" if self._once else "the cluster has stopped")
        except BaseException as error:  # noqa: BLE001 - a thread ends in silence after sys.exit(); the process must say so
            self._failure = error
            self._record.failed()
            self._pulse.failed(repr(error))
            self._log.exception("the decision thread has died")
            self._asked.put("the decision thread has died")

    # ------------------------------------------------------------------------------------------------- its surface

    def _start_health(self) -> None:
        if not self._port:
            return
        http = self._configuration.http
        self._health = HealthServer(
            host=probe_host(self._configuration),
            port=self._port,
            alive={"decisions": self._pulse.check, "io": lambda: self._kube.health().dead or None},
            ready={"caches": self._pulse.check_synced, "age": lambda: self._kube.stale() or None},
            registry=self._metrics.registry,
            configuration=msgspec.json.format(msgspec.json.encode(self._configuration)),
            guard=Guard(self._kube.access) if http.authorize else None,
            certificate=self._certificate,
        )
        if (report := self.report) is not None:
            self._health.pages["/shadow"] = lambda: report.page
        if self._make_page is not None:
            live = Live(self._core.known, self._kube, self._configuration, probe_host(self._configuration))
            self._health.page = self._make_page(live)
        try:
            self._health.start()
        except OSError as error:
            raise cannot_listen(self._configuration, error) from None


def _traces(configuration: Configuration) -> GangTraces | None:
    """The tracer, if tracing is on. Raises :class:`StartError` without the packages for it."""
    if not configuration.tracing.enabled:
        return None
    try:
        from gangsched.runtime import tracing  # noqa: PLC0415 - its packages are an extra
    except ImportError as error:
        raise StartError(failures.no_tracing(package=error.name)) from None
    names = [profile.scheduler_name for profile in configuration.profiles]
    return tracing.GangTraces(tracing.exported(configuration.tracing.endpoint), names)


def serves_page(configuration: Configuration) -> bool:
    """Return whether the port has a page: it names what only some may see."""
    http = configuration.http
    if http.ui == "auto":
        return http.authorize or is_loopback(probe_host(configuration) or "")
    return http.ui == "always"


def _published(configuration: Configuration) -> bytes:
    """The configuration in force, without what is about the machine of this process."""
    wanted = configuration.client_connection
    anywhere = msgspec.structs.replace(wanted, kubeconfig="", context="")
    return msgspec.json.encode(msgspec.structs.replace(configuration, client_connection=anywhere))


def _lease(configuration: Configuration) -> LeaseSettings | None:
    election = configuration.leader_election
    if not election.leader_elect:
        return None
    return LeaseSettings(
        namespace=election.resource_namespace,
        name=election.resource_name,
        identity=unique_identity(),
        duration_seconds=seconds_of(election.lease_duration),
        renew_deadline_seconds=seconds_of(election.renew_deadline),
        retry_period_seconds=seconds_of(election.retry_period),
        takeover_wait_seconds=seconds_of(configuration.client_connection.request_timeout),
        names=tuple(profile.scheduler_name for profile in configuration.profiles),
    )


def running_options(
    configuration: Configuration, *, once: bool, former_leases: Mapping[str, Collection[str]] = MappingProxyType({})
) -> Options:
    """The options of ``plan``, including the search budget, with two differences. Nothing is decided before this
    process leads. Unless it decides only ``once``, a pod waits for an owner that has not been seen yet.
    ``former_leases`` are those of the former owners of scheduler names, by name: these are guarded.
    """
    owner_wait = 0.0 if once else _OWNER_WAIT_SECONDS
    return msgspec.structs.replace(
        configuration.core_options(),
        wait_for_leadership=True,
        contain_errors=True,
        owner_wait_seconds=owner_wait,
        guarded_names=tuple(former_leases),
        leased_names=tuple(name for name, leases in former_leases.items() if leases),
    )


class _QueueDepths(Observer):
    """Reads the lengths of the core's queues before the loop waits, at most once a second and for at most a fiftieth of
    the time. Counting ten thousand pending pods takes longer than deciding one.
    """

    def __init__(self, scheduler: Callable[[], Scheduler], metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._read_again_at = float("-inf")

    def idle(self) -> None:
        began = time.monotonic()
        if began >= self._read_again_at:
            scheduler = self._scheduler()
            self._metrics.queued(scheduler.queue_counts())
            self._metrics.waiting(scheduler.pending_pods(), scheduler.stage_counts())
            self._metrics.evictions(scheduler.evicted_repeatedly())
            self._metrics.statuses_held_back(scheduler.drain_held_back())
            self._metrics.held_room(scheduler.held_room(), scheduler.drain_held_seconds())
            self._metrics.names_taken(scheduler.world.names.taken)
            ended = time.monotonic()
            self._read_again_at = ended + max(_QUEUE_PERIOD_SECONDS, 50 * (ended - began))


class LastDecisions(Observer):
    """The last decision of each gang with the milliseconds it took, in order of the first; nothing unless ``keep``."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self.by_gang: dict[str, tuple[Decision, float]] = {}

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        if self._keep:
            self.by_gang.update((each.gang.key, (each, seconds * 1000)) for each in decisions)
