"""Prometheus metrics, derived from what passes through the loop; the core knows nothing of them.

Names of upstream's kube-scheduler where the meaning is the same
(https://kubernetes.io/docs/reference/instrumentation/metrics/), ``gangsched_`` elsewhere.
docs/reference/metrics.md lists them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gangsched import __version__
from gangsched.core.actions import Action, Bind
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT, Decision, Gathering, Preempt, Unschedulable
from gangsched.core.events import Changed, Event, Gone, Outcome, SearchCancelled, WriteDone
from gangsched.core.framework.pipeline import Stopwatch
from gangsched.model.records import Pod
from gangsched.runtime.loop import Observer

_FAST = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LIFE = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

#: What upstream calls the result of one attempt.
_RESULTS = {
    BIND: "scheduled",
    WAIT: "waiting_on_preemption",
    PREEMPT: "waiting_on_preemption",
    UNSCHEDULABLE: "unschedulable",
}


def describe_process(registry: CollectorRegistry) -> None:
    """Register what monitoring expects of any process: its memory, processor time, files and version.

    The series ``…_created``, one more for each counter and histogram, are switched off for the whole process.
    """
    disable_created_metrics()
    ProcessCollector(registry=registry)
    build = Gauge("gangsched_build_info", "Always 1; the version is a label.", ("version",), registry=registry)
    build.labels(__version__).set(1)


class Metrics(Observer):
    """All metrics that the decision loop feeds; one registry per process (or per test).

    ``clock`` counts seconds and never runs backwards. Members that are placed count as scheduled when their
    binding has succeeded.
    """

    def __init__(
        self,
        scheduler_names: Sequence[str],
        registry: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._clock = clock
        self._profiles = tuple(scheduler_names)
        self._binding: dict[int, Bind] = {}
        self._count: dict[tuple[Counter, str, str], Callable[[float], None]] = {}
        self._time: dict[str, Callable[[float], None]] = {}
        self._pending: dict[str, tuple[str, float]] = {}
        self._upstream_names()
        self._own_names()

    def _upstream_names(self) -> None:
        registry = self.registry
        self.schedule_attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule a pod, by result: scheduled (its binding succeeded), unschedulable, error.",
            ["result", "profile"],
            registry=registry,
        )
        self.group_attempts = Counter(
            "scheduler_podgroup_schedule_attempts",
            "Decisions about a gang, by result: scheduled, unschedulable, waiting_on_preemption, error.",
            ["result", "profile"],
            registry=registry,
        )
        self.group_duration = Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Time to decide one gang, search for victims included.",
            registry=registry,
            buckets=_FAST,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts", "Decisions that evict pods to make room for a gang.", registry=registry
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims", "Pods evicted by one decision.", registry=registry, buckets=_COUNTS
        )
        self.pod_latency = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the moment a pod that may be scheduled was first seen to its binding.",
            registry=registry,
            buckets=_LIFE,
        )

    def _own_names(self) -> None:
        registry = self.registry
        self.names_served = Gauge(
            "gangsched_scheduler_name_served",
            "1 while pods of a profile are scheduled here; 0 while the former owner of its name is alive.",
            ["profile"],
            registry=registry,
        )
        self.pending_pods = Gauge(
            "gangsched_pending_pods", "Pods of a profile that are not bound.", ["profile"], registry=registry
        )
        self.events = Counter(
            "gangsched_events", "Changes of the cluster and answers to writes that were taken in.", registry=registry
        )
        self.ingest = Histogram(
            "gangsched_ingest_seconds", "Time to take in one batch of events.", registry=registry, buckets=_FAST
        )
        self.queue_wait = Histogram(
            "gangsched_queue_seconds",
            "From the moment the first placed pod of a gang was first seen to the decision that places it.",
            registry=registry,
            buckets=_LIFE,
        )
        self.plan = Histogram(
            "gangsched_plan_seconds",
            "Time to decide one gang, by outcome: bind, wait, preempt, unschedulable, gathering.",
            ["outcome"],
            registry=registry,
            buckets=_FAST,
        )
        self.searches_stopped = Counter(
            "gangsched_searches_stopped",
            "Searches for victims that ended because their budget was used up.",
            registry=registry,
        )
        self.searches_cancelled = Counter(
            "gangsched_searches_cancelled",
            "Searches for victims that ended because the decision took several times their budget by the clock.",
            registry=registry,
        )
        self.plans_optimal = Counter(
            "gangsched_plans_optimal",
            "Decisions that evict pods of which it is proven that no choice breaks fewer budgets or interrupts less.",
            registry=registry,
        )
        self.plan_gap = Histogram(
            "gangsched_plan_gap",
            "How many more than needed a choice of victims that is not proven takes at most, by component of harm: pdb,"
            " gangs, pods.",
            ["component"],
            registry=registry,
            buckets=_COUNTS,
        )
        self.plugin_errors = Counter(
            "gangsched_plugin_errors",
            "Decisions that failed because a plug-in of others raised an exception or answered nonsense.",
            ["plugin", "profile"],
            registry=registry,
        )
        self.queued_gangs = Gauge(
            "gangsched_queued_gangs",
            "Gangs with unbound members, by queue: active, backoff, unschedulable, gathering.",
            ["queue"],
            registry=registry,
        )
        self.evicted_repeatedly = Gauge(
            "gangsched_units_evicted_repeatedly",
            "Gangs, and pods of one controller, that were evicted preemption.protectAfterEvictions times or more in the"
            " last hour.",
            registry=registry,
        )

    # --------------------------------------------------------------------------------------------- fed by the loop

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.ingest.observe(seconds)
        if events:
            self.events.inc(len(events))
        moment = self._clock()
        for event in events:
            if isinstance(event, WriteDone):
                self._answered(event, moment)
            elif isinstance(event, Changed) and isinstance(event.record, Pod):
                self._pod_changed(event.record, moment)
            elif isinstance(event, Gone) and event.kind == "Pod":
                self._forget(event.uid)
        self._asked(actions)

    def cancelled(self, event: SearchCancelled) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.searches_cancelled.inc()

    def decided(
        self,
        decisions: Sequence[Decision],
        actions: Sequence[Action],
        seconds: float,
        now: float,
    ) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        for index, decision in enumerate(decisions):
            profile = decision.gang.scheduler
            failure = "error" if _failed_plugin(decision) else "unschedulable"
            if decision.outcome in _RESULTS:
                result = failure if isinstance(decision, Unschedulable) else _RESULTS[decision.outcome]
                self._add(self.group_attempts, result, profile)
            if decision.unplaced and not isinstance(decision, Gathering):
                self._add(self.schedule_attempts, failure, profile, len(decision.unplaced))
            if decision.placements:
                known = self._pending.get(decision.placements[0].uid)
                if known is not None:
                    self.queue_wait.observe(max(0.0, self._clock() - known[1]))
            if not index:  # the gangs of a GangGroup are one decision: the same search and the same victims
                self._searched(decision, seconds)
        self._asked(actions)

    def _searched(self, decision: Decision, seconds: float) -> None:
        observe = self._time.get(decision.outcome)
        if observe is None:
            observe = self._time[decision.outcome] = self.plan.labels(decision.outcome).observe
        observe(seconds)
        if not isinstance(decision, Gathering):
            self.group_duration.observe(seconds)
        if decision.stopped:
            self.searches_stopped.inc()
        if plugin := _failed_plugin(decision):
            self.plugin_errors.labels(plugin, decision.gang.scheduler).inc()
        if isinstance(decision, Preempt):
            self.preemption_attempts.inc()
            self.preemption_victims.observe(len(decision.victims))
            if decision.optimal:
                self.plans_optimal.inc()
            if decision.gap is not None:
                self.plan_gap.labels(decision.gap.component).observe(decision.gap.at_most)

    def names_taken(self, taken: Collection[str]) -> None:
        """The scheduler names that are left to others."""
        for name in self._profiles:
            self.names_served.labels(name).set(name not in taken)

    def queued(self, counts: Mapping[str, int]) -> None:
        """The lengths of the core's queues, in gangs."""
        for queue, count in counts.items():
            self.queued_gangs.labels(queue).set(count)

    def evictions(self, repeatedly: int) -> None:
        """How many units were evicted again and again."""
        self.evicted_repeatedly.set(repeatedly)

    def _add(self, counter: Counter, result: str, profile: str, number: int = 1) -> None:
        """Count; to find the time series of some labels takes longer than that."""
        key = (counter, result, profile)
        add = self._count.get(key)
        if add is None:
            add = self._count[key] = counter.labels(result, profile).inc
        add(number)

    def _asked(self, actions: Sequence[Action]) -> None:
        self._binding.update({action.id: action for action in actions if isinstance(action, Bind)})

    def _answered(self, event: WriteDone, moment: float) -> None:
        action = self._binding.pop(event.action_id, None)
        if action is None:
            return
        profile, first_seen = self._pending.get(action.pod.uid, (self._profiles[0], moment))
        if event.outcome is Outcome.OK:
            self._add(self.schedule_attempts, "scheduled", profile)
            self.pod_latency.observe(max(0.0, moment - first_seen))
            self._forget(action.pod.uid)
        elif event.outcome is not Outcome.OUTDATED:  # nothing was tried
            self._add(self.schedule_attempts, "error", profile)

    def _pod_changed(self, pod: Pod, moment: float) -> None:
        if pod.scheduler not in self._profiles:
            return
        if pod.node or not pod.live:
            self._forget(pod.uid)
        elif pod.uid not in self._pending and not pod.gates:
            self._pending[pod.uid] = (pod.scheduler, moment)
            self.pending_pods.labels(pod.scheduler).inc()

    def _forget(self, uid: str) -> None:
        pending = self._pending.pop(uid, None)
        if pending:
            self.pending_pods.labels(pending[0]).dec()


class FilterAndScoreTimes(Collector):
    """Gives the core's stopwatch a clock, and reads it when the metrics are asked for."""

    def __init__(self, stopwatch: Stopwatch, clock: Callable[[], float] = time.perf_counter) -> None:
        self._stopwatch = stopwatch
        stopwatch.clock = clock

    def collect(self) -> Iterable[Metric]:
        """The families of a scrape."""
        yield CounterMetricFamily(
            "gangsched_filter_seconds",
            "Time in which filters were asked about nodes, to decide or to find out what may help whom.",
            value=self._stopwatch.filter_seconds,
        )
        yield CounterMetricFamily(
            "gangsched_score_seconds",
            "Time in which nodes were scored; part of the time to decide.",
            value=self._stopwatch.score_seconds,
        )


def _failed_plugin(decision: Decision) -> str:
    """The plug-in of others without whose answer nothing could be decided; empty as a rule."""
    return decision.failed_plugin if isinstance(decision, Unschedulable) else ""


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

#: By what is measured: labels and meaning. Durations are in seconds, counts are of what has just happened.
_DURATIONS = {
    "api_request_seconds": (
        ("verb", "code"),
        "One HTTP attempt at the API server, watches left out; code 0 when there was no answer.",
    ),
    "write_seconds": (
        ("kind", "outcome"),
        (
            "One write from asking for it to its answer, rate limit and retries included. Outcomes: ok, gone, "
            "conflict, outdated, refused, blocked, transient."
        ),
    ),
    "list_seconds": (("resource",), "One complete listing of a resource."),
    "io_loop_lag_seconds": ((), "How late a timer of the I/O loop fired, one every second."),
}
_TALLIES = {
    "reports_dropped": (
        ("reason",),
        "Events and conditions that were not written: replaced, repeated, overload, abandoned, failed.",
    ),
    "watch_ended": (("resource", "reason"), "Watches that ended and were started again, or listed anew."),
    "watch_events": (("resource",), "Changes that watches have brought."),
    "objects_refused": (("resource",), "Objects that could not be understood."),
}
_LEVELS = {
    "writes_waiting": (("lane",), "Writes that wait to be sent: lane write, and lane low for Events and conditions."),
    "leader": ((), "1 while this process may write, else 0."),
    "inbox_events": ((), "Changes and answers that the decision thread has not taken yet."),
}


class IoMetrics:
    """An :class:`~gangsched.cluster.kube.measuring.Observe`: call it with a measurement."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._metrics: dict[str, Histogram | Counter | Gauge] = {}
        for name, (labels, text) in _DURATIONS.items():
            buckets = _LAG if "lag" in name else _SECONDS
            self._metrics[name] = Histogram(f"gangsched_{name}", text, labels, registry=registry, buckets=buckets)
        for name, (labels, text) in _TALLIES.items():
            self._metrics[name] = Counter(f"gangsched_{name}", text, labels, registry=registry)
        for name, (labels, text) in _LEVELS.items():
            self._metrics[name] = Gauge(f"gangsched_{name}", text, labels, registry=registry)
        self._notes: dict[tuple[str, tuple[tuple[str, str], ...]], Callable[[float], None]] = {}

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        key = (name, tuple(labels.items()))
        note = self._notes.get(key)
        if note is None:
            note = self._notes[key] = self._note(name, labels)
        note(value)

    def _note(self, name: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """What takes the values of one time series; finding it takes longer than noting a value."""
        series = self._metrics[name].labels(**labels) if labels else self._metrics[name]
        if isinstance(series, Histogram):
            return series.observe
        return series.inc if isinstance(series, Counter) else series.set
