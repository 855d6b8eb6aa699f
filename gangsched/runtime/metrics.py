"""Prometheus metrics, derived from what passes through the loop and from what the cluster adapter measures; the core
knows nothing of them.

Names of upstream's kube-scheduler where the meaning is the same
(https://kubernetes.io/docs/reference/instrumentation/metrics/), ``gangsched_`` elsewhere. docs/reference/metrics.md
lists them.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gangsched import __version__
from gangsched.core.actions import Action, Bind, PodRef, Remove, Report
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT, Decision, Gathering, Preempt, Unschedulable
from gangsched.core.events import Changed, Event, Gone, Outcome, SearchCancelled, WriteDone
from gangsched.core.framework.pipeline import Stopwatch
from gangsched.core.lifecycle.holding import HeldRoom
from gangsched.core.lifecycle.report import GANG_BROKEN, ROOM_TAKEN
from gangsched.core.world.amounts import Amounts
from gangsched.model.records import Pod
from gangsched.runtime.loop import Observer, Rebuilt
from gangsched.runtime.waits import Waits


class Declared(NamedTuple):
    """A metric: its meaning, the names of its labels, and for a histogram its buckets. Of one without buckets that is
    no ``level`` values are added up.
    """

    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    level: bool = False
    #: The values of a label that are known from the start: their series begin with 0.
    known: tuple[str, ...] = ()


#: Seconds of a decision and of parts of it, of a gang's life, and of requests; and counts.
_FAST = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LIFE = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

#: By name; durations are in seconds.
DECLARED: Mapping[str, Declared] = {
    "scheduler_schedule_attempts": Declared(
        "Attempts to schedule a pod, by result: scheduled (its binding succeeded), unschedulable, error.",
        ("result", "profile"),
        known=("scheduled", "unschedulable", "error"),
    ),
    "scheduler_podgroup_schedule_attempts": Declared(
        "Decisions about a gang, by result: scheduled, unschedulable, waiting_on_preemption, error.",
        ("result", "profile"),
        known=("scheduled", "unschedulable", "waiting_on_preemption", "error"),
    ),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": Declared(
        "Time to decide one gang, search for victims included.", buckets=_FAST
    ),
    "scheduler_preemption_attempts": Declared("Decisions that evict pods to make room for a gang."),
    "scheduler_preemption_victims": Declared("Pods evicted by one decision.", buckets=_COUNTS),
    "scheduler_pod_scheduling_sli_duration_seconds": Declared(
        "From the moment a pod that may be scheduled was first seen to its binding.", buckets=_LIFE
    ),
    "scheduler_scheduling_attempt_duration_seconds": Declared(
        "Time to decide one gang once, by result as of the attempts.", ("result", "profile"), buckets=_FAST
    ),
    "scheduler_pending_pods": Declared(
        "Pending pods by queue: active, backoff, unschedulable (waiting for victims included), gated (their gang is not"
        " complete, or they have scheduling gates).",
        ("queue",),
        level=True,
    ),
    "rest_client_requests": Declared(
        "HTTP requests to the API server by status code and method, watches left out; code <error> when there was no"
        " answer.",
        ("code", "method"),
    ),
    "gangsched_build_info": Declared("Always 1; the version is a label.", ("version",), level=True),
    "gangsched_scheduler_name_served": Declared(
        "1 while pods of a profile are scheduled here; 0 while the former owner of its name is alive.",
        ("profile",),
        level=True,
    ),
    "gangsched_pending_pods": Declared("Pods of a profile that are not bound.", ("profile",), level=True),
    "gangsched_events": Declared("Changes of the cluster and answers to writes that were taken in."),
    "gangsched_ingest_seconds": Declared("Time to take in one batch of events.", buckets=_FAST),
    "gangsched_queue_seconds": Declared(
        "From the moment the first placed pod of a gang was first seen to the decision that places it.", buckets=_LIFE
    ),
    "gangsched_plan_seconds": Declared(
        "Time to decide one gang, by outcome: bind, wait, preempt, unschedulable, gathering.",
        ("outcome",),
        buckets=_FAST,
    ),
    "gangsched_searches_stopped": Declared(
        "Searches for victims that ended before they were complete, for any reason."
    ),
    "gangsched_searches_cancelled": Declared(
        "The part of them that ended because the decision took several times its budget by the clock."
    ),
    "gangsched_plans_optimal": Declared(
        "Decisions that evict pods of which it is proven that no choice breaks fewer budgets or interrupts less."
    ),
    "gangsched_plan_gap": Declared(
        "How many more than needed a choice of victims that is not proven takes at most, by component of harm: pdb,"
        " gangs, pods.",
        ("component",),
        buckets=_COUNTS,
    ),
    "gangsched_plugin_errors": Declared(
        "Decisions that failed because a plug-in of others raised an exception or answered nonsense;"
        " `py-gang-scheduler`: because of an error of the scheduler itself.",
        ("plugin", "profile"),
        known=("py-gang-scheduler",),
    ),
    "gangsched_queued_gangs": Declared(
        "Gangs with unbound members, by queue: active, backoff, unschedulable, gathering.", ("queue",), level=True
    ),
    "gangsched_gangs_waiting": Declared(
        "Gangs with pending members by what they wait for: Gathering, Queued, Backoff, Nominating, Notice, Marking,"
        " Removing, WaitingForVictims, PreBinding, Binding, Starting.",
        ("reason",),
        level=True,
    ),
    "gangsched_victims": Declared(
        "Pods whose removal the API server has accepted, by namespace and priority.", ("victim_namespace", "priority")
    ),
    "gangsched_gangs_broken": Declared(
        "Gangs of which pods were evicted for others, and the rest was not, so that fewer are left than they, or their"
        " GangGroups, need: see the Event GangBroken."
    ),
    "gangsched_room_taken": Declared(
        "How often others took room that was freed for a gang: see the Event FreedRoomTaken."
    ),
    "gangsched_status_writes_held_back": Declared(
        "Writes of the status of group objects that were held back, because this process had overwritten the same"
        " status several times within a second: see the Event StatusWriteHeldBack. Always 0 unless there is a fault."
    ),
    "gangsched_clock_ahead_seconds": Declared(
        "How far the API server's clock is ahead of this process's; negative: behind.", level=True
    ),
    "gangsched_units_evicted_repeatedly": Declared(
        "Gangs, and pods of one controller, that were evicted preemption.protectAfterEvictions times or more in the"
        " last hour.",
        level=True,
    ),
    "gangsched_held_nodes": Declared(
        "Nodes that bear the taint gangsched.dev/held for a plan of this scheduler.", level=True
    ),
    "gangsched_held_node_seconds": Declared(
        "Seconds for which nodes were held for the gangs of a namespace, added up over the nodes.", ("namespace",)
    ),
    "gangsched_device_amount": Declared(
        "Amounts of each extended resource of all nodes, such as nvidia.com/gpu, by state: used (by pods), held (free,"
        " and kept for gangs), free.",
        ("resource", "state"),
        level=True,
    ),
    "gangsched_hold_refused": Declared(
        "1 while nodes cannot be held against other schedulers, because the API server does not let them be patched:"
        " see the Event RoomNotHeld.",
        level=True,
    ),
    "gangsched_api_request_seconds": Declared(
        "One HTTP attempt at the API server, watches left out; code 0 when there was no answer.",
        ("verb", "code"),
        buckets=_SECONDS,
    ),
    "gangsched_write_seconds": Declared(
        "One write from asking for it to its answer, rate limit and retries included. Outcomes: ok, gone, conflict,"
        " outdated, refused, blocked, transient.",
        ("kind", "outcome"),
        buckets=_SECONDS,
    ),
    "gangsched_list_seconds": Declared("One complete listing of a resource.", ("resource",), buckets=_SECONDS),
    "gangsched_io_loop_lag_seconds": Declared(
        "How late a timer of the I/O loop fired, one every second.", buckets=_LAG
    ),
    "gangsched_reports_dropped": Declared(
        "Events and conditions that were not written: replaced, repeated, overload, abandoned, failed.",
        ("reason",),
        known=("replaced", "repeated", "overload", "abandoned", "failed"),
    ),
    "gangsched_watch_ended": Declared(
        "Watches that ended and were started again, or listed anew; `closed` and `renewed` are regular.",
        ("resource", "reason"),
    ),
    "gangsched_cache_age_seconds": Declared(
        "For how long nothing has been heard of what evictions rest on: pods, nodes, poddisruptionbudgets.",
        ("resource",),
        level=True,
    ),
    "gangsched_watch_events": Declared("Changes that watches have brought.", ("resource",)),
    "gangsched_objects_refused": Declared("Objects that could not be understood.", ("resource",)),
    "gangsched_writes_waiting": Declared(
        "Writes that wait to be sent: lane write, and lane low for Events and conditions.", ("lane",), level=True
    ),
    "gangsched_leader": Declared("1 while this process may write, else 0.", level=True),
    "gangsched_shadow_gangs_started": Declared(
        "Shadow mode: gangs that have started, by: other (really), shadow (as this scheduler would have had it).",
        ("by",),
    ),
    "gangsched_shadow_gangs_waiting": Declared("Shadow mode: gangs that wait, by as above.", ("by",), level=True),
    "gangsched_shadow_wait_seconds": Declared(
        "Shadow mode: from the arrival of a gang to its start, of gangs that have really started, by as above.",
        ("by",),
        buckets=_LIFE,
    ),
    "gangsched_shadow_evictions": Declared("Shadow mode: pods evicted to make room, by as above.", ("by",)),
    "gangsched_shadow_gangs_broken": Declared(
        "Shadow mode: gangs that were left with fewer members than they need by evictions, by as above.", ("by",)
    ),
    "gangsched_shadow_gangs_in_part": Declared(
        "Shadow mode: gangs of which too few members ran for 10 s or more, before their start, by as above.",
        ("by",),
    ),
    "gangsched_core_rebuilt": Declared(
        "Errors of the scheduler after which its state was built anew, by where it failed: event, answer, time,"
        " decision, question.",
        ("where",),
        known=("event", "answer", "time", "decision", "question"),
    ),
    "gangsched_quarantined_objects": Declared(
        "Objects and gangs that are left out of scheduling because the scheduler failed over them: see the Event"
        " SchedulerError.",
        level=True,
    ),
    "gangsched_observer_errors": Declared(
        "Errors in metrics, logs, traces, the history or the published status, which scheduling does not depend on.",
        ("observer",),
    ),
    "gangsched_inbox_events": Declared("Changes and answers that the decision thread has not taken yet.", level=True),
}

#: The result of one attempt, in upstream's words.
_RESULTS = {
    BIND: "scheduled",
    WAIT: "waiting_on_preemption",
    PREEMPT: "waiting_on_preemption",
    UNSCHEDULABLE: "unschedulable",
}
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
#: The series of victims that begin with 0, and the priorities from which on pods are those of the cluster itself.
_VICTIMS_FORESEEN, _SYSTEM = 1_000, 2_000_000_000
#: Priorities of so many victims are remembered from the plan to the answer to their removal.
_VICTIMS_KNOWN = 100_000


class Meters:
    """An :class:`~gangsched.cluster.kube.client.Observe` with the metrics of :data:`DECLARED`, by name without
    ``gangsched_``.

    The series ``…_created``, one more for each counter and histogram, are switched off for the whole process.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        disable_created_metrics()
        self._metrics: dict[str, Histogram | Counter | Gauge] = {}
        for name, each in DECLARED.items():
            short, said = name.removeprefix("gangsched_"), (name, each.meaning, each.labels)
            if each.buckets:
                self._metrics[short] = Histogram(*said, registry=registry, buckets=each.buckets)
            else:
                self._metrics[short] = (Gauge if each.level else Counter)(*said, registry=registry)
        self._notes: dict[tuple[str, tuple[tuple[str, str], ...]], Callable[[float], None]] = {}

    def __call__(self, name: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> None:
        if name == "api_request_seconds":  # client-go counts the same requests under a name of its own
            code = "<error>" if labels["code"] == "0" else labels["code"]
            self("rest_client_requests", 1, {"code": code, "method": labels["verb"]})
        key = (name, tuple(labels.items()))
        note = self._notes.get(key)
        if note is None:
            note = self._notes[key] = self._note(name, labels)
        note(value)

    def _note(self, name: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """Records the values of one time series. Finding it takes longer than recording a value."""
        series = self._metrics[name].labels(**labels) if labels else self._metrics[name]
        if isinstance(series, Histogram):
            return series.observe
        return series.inc if isinstance(series, Counter) else series.set


class Metrics(Observer):
    """The metrics that the decision loop feeds; one registry per process (or per test).

    ``note`` takes measurements of others. ``clock`` counts seconds and never runs backwards. Members that are placed
    count as scheduled when their binding has succeeded.
    """

    def __init__(
        self,
        scheduler_names: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, files
        self.note = Meters(self.registry)
        self._clock = clock
        self._profiles = tuple(scheduler_names)
        self._binding: dict[int, Bind] = {}
        self._removing: dict[int, PodRef] = {}
        self._priority_of_victim: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._pending: dict[str, tuple[str, float]] = {}
        self._pending_of: Tally[str] = Tally()
        self._foreseen: set[tuple[str, int]] = set()
        self.waits = Waits(clock)
        self.registry.register(self.waits)
        self.registry.register(OldestWait(self))
        self.note("build_info", 1, {"version": __version__})
        for name, each in DECLARED.items():  # a counter that begins with 1 has not increased
            for value in each.known:
                for profile in self._profiles if "profile" in each.labels else ("",):
                    labels = {label: profile if label == "profile" else value for label in each.labels}
                    self.note(name.removeprefix("gangsched_"), 0, labels)

    # --------------------------------------------------------------------------------------------- fed by the loop

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.note("ingest_seconds", seconds)
        if events:
            self.note("events", len(events))
        moment = self._clock()
        for event in events:
            if isinstance(event, WriteDone):
                self._answered(event, moment)
            elif isinstance(event, Changed) and isinstance(event.record, Pod):
                self._foresee(event.record)
                self._pod_changed(event.record, moment)
            elif isinstance(event, Gone) and event.kind == "Pod":
                self._forget(event.uid)
        self._asked(actions)

    def cancelled(self, event: SearchCancelled) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.note("searches_cancelled", 1)

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        for index, decision in enumerate(decisions):
            self.waits.decided(decision)
            profile = decision.gang.scheduler
            failure = "error" if _failed_plugin(decision) else "unschedulable"
            if decision.outcome in _RESULTS:
                result = failure if isinstance(decision, Unschedulable) else _RESULTS[decision.outcome]
                self.note("scheduler_podgroup_schedule_attempts", 1, {"result": result, "profile": profile})
            if decision.unplaced and not isinstance(decision, Gathering):
                labels = {"result": failure, "profile": profile}
                self.note("scheduler_schedule_attempts", len(decision.unplaced), labels)
            if decision.placements:
                known = self._pending.get(decision.placements[0].uid)
                if known is not None:
                    self.note("queue_seconds", max(0.0, self._clock() - known[1]))
            if not index:  # the gangs of a GangGroup are one decision: the same search and the same victims
                self._searched(decision, seconds)
        self._asked(actions)

    def _searched(self, decision: Decision, seconds: float) -> None:
        self.note("plan_seconds", seconds, {"outcome": decision.outcome})
        if decision.outcome in _RESULTS:
            result = "error" if _failed_plugin(decision) else _RESULTS[decision.outcome]
            labels = {"result": result, "profile": decision.gang.scheduler}
            self.note("scheduler_scheduling_attempt_duration_seconds", seconds, labels)
        if not isinstance(decision, Gathering):
            self.note("scheduler_podgroup_scheduling_algorithm_duration_seconds", seconds)
        if decision.stopped:
            self.note("searches_stopped", 1)
        if plugin := _failed_plugin(decision):
            self.note("plugin_errors", 1, {"plugin": plugin, "profile": decision.gang.scheduler})
        if isinstance(decision, Preempt):
            self.note("scheduler_preemption_attempts", 1)
            self.note("scheduler_preemption_victims", len(decision.victims))
            if len(self._priority_of_victim) > _VICTIMS_KNOWN:
                self._priority_of_victim.clear()
            self._priority_of_victim.update({victim.uid: victim.priority for victim in decision.victims})
            if decision.optimal:
                self.note("plans_optimal", 1)
            if decision.gap is not None:
                self.note("plan_gap", decision.gap.at_most, {"component": decision.gap.component})

    def names_taken(self, taken: Collection[str]) -> None:
        """The scheduler names that are left to others."""
        for name in self._profiles:
            self.note("scheduler_name_served", name not in taken, {"profile": name})

    def queued(self, counts: Mapping[str, int]) -> None:
        """The lengths of the core's queues, in gangs."""
        for queue, count in counts.items():
            self.note("queued_gangs", count, {"queue": queue})

    def waiting(self, pods: Mapping[str, int], gangs: Mapping[str, int]) -> None:
        """Pending pods by queue, and gangs by what they wait for."""
        for queue, count in pods.items():
            self.note("scheduler_pending_pods", count, {"queue": queue})
        self._waiting.update(gangs)
        for reason in self._waiting:
            self.note("gangs_waiting", gangs.get(reason, 0), {"reason": reason})

    def oldest_wait_seconds(self) -> float:
        """How long the pod has been waiting that was seen first of those that are pending; 0 without any."""
        first = min((seen for _, seen in list(self._pending.values())), default=None)
        return 0.0 if first is None else max(0.0, self._clock() - first)

    def evictions(self, repeatedly: int) -> None:
        """How many units were evicted again and again."""
        self.note("units_evicted_repeatedly", repeatedly)

    def statuses_held_back(self, writes: int) -> None:
        """So many further writes of statuses were held back."""
        if writes:
            self.note("status_writes_held_back", writes)

    def devices(self, amounts: Mapping[str, Amounts]) -> None:
        """The amounts of each extended resource of nodes."""
        for resource, found in amounts.items():
            for state, amount in found._asdict().items():
                self.note("device_amount", amount, {"resource": resource, "state": state})

    def held_room(self, held: HeldRoom, seconds: Mapping[str, float]) -> None:
        """How many nodes are held against other schedulers, whether that is not allowed, and for how many more seconds
        nodes were held, by namespace.
        """
        self.note("held_nodes", held.nodes)
        for namespace, more in seconds.items():
            self.note("held_node_seconds", more, {"namespace": namespace})
        if held.refused or held.nodes:  # else what was found out at the start counts
            self.note("hold_refused", bool(held.refused))

    def rebuilt(self, rebuilt: Rebuilt) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.note("core_rebuilt", 1, {"where": rebuilt.where})

    def quarantined(self, count: int) -> None:
        """So many objects and gangs are quarantined."""
        self.note("quarantined_objects", count)

    def _asked(self, actions: Sequence[Action]) -> None:
        self._binding.update({action.id: action for action in actions if isinstance(action, Bind)})
        self._removing.update({action.id: action.pod for action in actions if isinstance(action, Remove)})
        broken = sum(isinstance(action, Report) and action.reason == GANG_BROKEN for action in actions)
        if broken:
            self.note("gangs_broken", broken)
        taken = sum(isinstance(action, Report) and action.reason == ROOM_TAKEN for action in actions)
        if taken:
            self.note("room_taken", taken)

    def _answered(self, event: WriteDone, moment: float) -> None:
        removed = self._removing.pop(event.action_id, None)
        if removed is not None and event.outcome is Outcome.OK:
            labels = {
                "victim_namespace": removed.namespace,
                "priority": str(self._priority_of_victim.get(removed.uid, 0)),
            }
            self.note("victims", 1, labels)
        action = self._binding.pop(event.action_id, None)
        if action is None:
            return
        profile, first_seen = self._pending.get(action.pod.uid, (self._profiles[0], moment))
        if event.outcome is Outcome.OK:
            self.note("scheduler_schedule_attempts", 1, {"result": "scheduled", "profile": profile})
            self.note("scheduler_pod_scheduling_sli_duration_seconds", max(0.0, moment - first_seen))
            self._forget(action.pod.uid)
        elif event.outcome is not Outcome.OUTDATED:  # nothing was tried
            self.note("scheduler_schedule_attempts", 1, {"result": "error", "profile": profile})

    def _foresee(self, pod: Pod) -> None:
        """Begin the counter of victims like this pod with 0, before the first of them."""
        key = pod.namespace, pod.priority
        if (
            pod.node
            and pod.priority < _SYSTEM
            and key not in self._foreseen
            and len(self._foreseen) < _VICTIMS_FORESEEN
        ):
            self._foreseen.add(key)
            self.note("victims", 0, {"victim_namespace": pod.namespace, "priority": str(pod.priority)})

    def _pod_changed(self, pod: Pod, moment: float) -> None:
        if pod.scheduler not in self._profiles:
            return
        if pod.node or not pod.live:
            self._forget(pod.uid)
        elif pod.uid not in self._pending and not pod.gates:
            self._pending[pod.uid] = (pod.scheduler, moment)
            self.waits.begin(pod, moment)
            self._count_pending(pod.scheduler, 1)

    def _forget(self, uid: str) -> None:
        self.waits.end(uid)
        pending = self._pending.pop(uid, None)
        if pending:
            self._count_pending(pending[0], -1)

    def _count_pending(self, profile: str, more: int) -> None:
        self._pending_of[profile] += more
        self.note("pending_pods", self._pending_of[profile], {"profile": profile})


class OldestWait(Collector):
    """Says at each scrape how long the oldest pending pod has been waiting."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """The family of a scrape."""
        yield GaugeMetricFamily(
            "gangsched_oldest_wait_seconds",
            "Time since the first of the pods was seen that are pending; 0 when there is none.",
            value=self._metrics.oldest_wait_seconds(),
        )


class DecisionTime(Collector):
    """Shows at each scrape which gang is being decided, and for how long."""

    def __init__(self, under_way: Callable[[], tuple[str, float] | None]) -> None:
        self._under_way = under_way

    def collect(self) -> Iterable[Metric]:
        """The family of a scrape, without a series when nothing is being decided."""
        family = GaugeMetricFamily(
            "gangsched_deciding_seconds", "How long the gang that is being decided has been so.", labels=("gang",)
        )
        current = self._under_way()
        if current is not None:
            family.add_metric((current[0],), current[1])
        yield family


class FilterAndScoreTimes(Collector):
    """Gives the core's stopwatch a clock, and reads it at each scrape."""

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
