"""The mix of Kueue's large-scale performance test through the scheduler's core, on a virtual clock.

Every workload is a pod with the label of its LocalQueue: decided for quota and nodes together, bound, and evicted. The
cluster around the core answers writes at once; nodes have room for more than all queues may use (Kueue's test has no
nodes). A displaced pod leaves at once and is created again, as old as it was: it keeps its place in the queue.
"""

from __future__ import annotations

import gc
import heapq
import sys
import time
from collections.abc import Callable

import msgspec

from gangsched.core import events as ev
from gangsched.core.actions import Action, Bind, Nominate, Remove, WithdrawNomination, Write
from gangsched.core.events import Event, Outcome
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import LabelSelector, PodShape
from gangsched.model.queues import (
    ANY,
    LOWER,
    QUEUE_LABEL,
    ClusterQueue,
    FlavorQuota,
    Limits,
    LocalQueue,
    QueuePreemption,
    ResourceFlavor,
    ResourceGroup,
)
from gangsched.model.records import SINGLE, Condition, GangId, Namespace, Node, Pod
from gangsched.runtime.memory import raise_thresholds

NAMESPACE = "load"
#: CPU (milli) of a node; there are nodes for half as much again as the nominal quota of all queues.
NODE_CPU = 1_000_000


class Kind(msgspec.Struct, frozen=True):
    """Workloads of one class: how many per queue, every how many seconds, how long they run, priority, CPU."""

    name: str
    count: int
    every: float
    runs: float
    priority: int
    cpu: int
    #: Mean time to admission of Kueue on its own test bed, seconds: with an API server and its pacing.
    kueue: float


KINDS = (
    Kind("large", 4, 0.7, 0.7, 200, 20, 105.6),
    Kind("medium", 11, 0.3, 0.35, 100, 5, 256.4),
    Kind("small", 35, 0.06, 0.15, 50, 1, 700.4),
)
#: Share of nominal quota that Kueue's queues use on the average, and the wall time of its whole run, seconds.
KUEUE_USAGE, KUEUE_SECONDS = 38.6, 1179.4
NOMINAL, LIMIT = 20_000, 100_000


class Report(msgspec.Struct):
    """What a replay came to. Times in seconds, ``cpu`` per decision, ``total`` of all decisions about one workload, by
    its name, ``waits`` per class; ``handled`` is the CPU of taking in what happens, ``used`` per cent of nominal quota.
    """

    workloads: int = 0
    virtual: float = 0.0
    moments: int = 0
    preempted: int = 0
    used: float = 0.0
    handled: float = 0.0
    cpu: list[float] = []
    total: dict[str, float] = {}
    waits: dict[str, list[float]] = {}
    statuses: dict[str, int] = {}

    @property
    def cpu_seconds(self) -> float:
        """CPU of all decisions."""
        return sum(self.cpu)


def cluster_queue(name: str, cohort: str) -> ClusterQueue:
    """A queue as in Kueue's test: it may take back what it lent, and displaces lower priority in itself."""
    quotas = (FlavorQuota("default", (("cpu", Limits(NOMINAL, LIMIT)),)),)
    return ClusterQueue(
        name=name,
        cohort=cohort,
        groups=(ResourceGroup(("cpu",), quotas),),
        namespaces=LabelSelector(),
        preemption=QueuePreemption(within=LOWER, reclaim=ANY),
    )


class Cluster:
    """Pods and nodes around a core, and what happens when."""

    def __init__(self, cohorts: int, queues: int, fair: bool = False, times: int = 1) -> None:
        self.core = Scheduler(Options(fair_sharing=fair))
        self.scheduler = self.core.options.scheduler_names[0]
        self.now = 0.0
        self._times = times
        self.pods: dict[str, Pod] = {}
        self.kind_of: dict[str, Kind] = {}
        self.in_use = 0
        self.capacity = cohorts * queues * NOMINAL
        self.report = Report(cpu=[], total={}, waits={k.name: [] for k in KINDS}, statuses={})
        self._coming: list[tuple[float, str, Pod]] = []
        self._ends: list[tuple[float, str]] = []
        self._again = 0
        self._events: list[Event] = [ev.Changed(Namespace(NAMESPACE))]
        self._events.append(ev.Changed(ResourceFlavor("default")))
        for i in range(-(-self.capacity * 3 // (2 * NODE_CPU))):
            self._events.append(ev.Changed(_node(f"node-{i:04}")))
        for c in range(cohorts):
            for q in range(queues):
                self._queue(f"queue-{q:03}-{c}", f"cohort-{c}")
        heapq.heapify(self._coming)
        self._events.append(ev.Synced())
        self.report.workloads = len(self._coming)

    def _queue(self, name: str, cohort: str) -> None:
        self._events.append(ev.Changed(cluster_queue(name, cohort)))
        self._events.append(ev.Changed(LocalQueue(NAMESPACE, name, name)))
        for kind in KINDS:
            shape = PodShape(requests=(("cpu", kind.cpu * 1000),))
            for i in range(kind.count * self._times):
                created = (i + 1) * kind.every
                uid = f"{name}-{kind.name}-{i:02}"
                pod = Pod(
                    namespace=NAMESPACE,
                    name=uid,
                    uid=uid,
                    scheduler=self.scheduler,
                    shape=shape,
                    priority=kind.priority,
                    created=created,
                    labels={QUEUE_LABEL: name},
                    gang=GangId(SINGLE, NAMESPACE, uid, self.scheduler),
                )
                self.kind_of[pod.uid] = kind
                self._coming.append((created, pod.uid, pod))

    def run(self, progress: Callable[[float, int], None] = lambda now, done: None) -> Report:
        """Until every pod has run."""
        report = self.report
        while True:
            self._until_idle()
            moments = [heap[0][0] for heap in (self._coming, self._ends) if heap]
            wake = self.core.wake_at()
            if not moments and len(self.pods) == 0:
                break
            moments += [wake] if wake is not None else []
            if not moments:
                raise RuntimeError("pods wait and nothing will happen any more")
            moment = max(min(moments), self.now)
            report.used += self.in_use * (moment - self.now)
            report.moments += moment > self.now
            self.now = moment
            self._happen(moment)
            progress(self.now, sum(map(len, report.waits.values())))
        report.virtual = self.now
        report.used *= 100 / (self.capacity * self.now)
        return report

    def _happen(self, moment: float) -> None:
        while self._ends and self._ends[0][0] <= moment:
            ended, uid = heapq.heappop(self._ends)
            pod = self.pods.get(uid)
            if pod is not None and pod.started + self.kind_of[uid].runs == ended:
                self._gone(pod)
        while self._coming and self._coming[0][0] <= moment:
            self._changed(heapq.heappop(self._coming)[2])

    def _until_idle(self) -> None:
        """Hand over what has happened and decide, until nothing is left to do now."""
        core, clock = self.core, time.thread_time
        while True:
            batch, self._events = self._events, []
            start = clock()
            actions = core.handle(batch, self.now)
            self.report.handled += clock() - start
            self._carry_out(actions)
            if self._events:
                continue
            if not core.has_work(self.now):
                return
            start = clock()
            actions = core.decide(self.now)
            spent = clock() - start
            for decision in core.drain_decisions():
                outcome, uid = decision.outcome, decision.gang.name
                self.report.statuses[outcome] = self.report.statuses.get(outcome, 0) + 1
                self.report.total[uid] = self.report.total.get(uid, 0.0) + spent
            self.report.cpu.append(spent)
            self._carry_out(actions)

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if not isinstance(action, Write):
                continue
            pod = self.pods.get(action.pod.uid)
            if pod is not None:
                self._write(pod, action)
            self._events.append(ev.WriteDone(action.id, Outcome.OK if pod is not None else Outcome.GONE))

    def _write(self, pod: Pod, action: Write) -> None:
        match action:
            case Bind(node=node):
                kind = self.kind_of[pod.uid]
                self.report.waits[kind.name].append(self.now - pod.created)
                self.in_use += kind.cpu * 1000
                heapq.heappush(self._ends, (self.now + kind.runs, pod.uid))
                self._changed(_with(pod, node=node, nominated_node="", phase="Running", started=self.now))
            case Nominate(node=node, message=text):
                self._changed(_with(pod, nominated_node=node, intent=Condition("True", "Nominated", text)))
            case WithdrawNomination(reason=why, message=text):
                self._changed(_with(pod, nominated_node="", intent=Condition("False", why, text)))
            case Remove():
                self.report.preempted += 1
                self._gone(pod)
                self._create_again(pod)

    def _create_again(self, pod: Pod) -> None:
        self._again += 1
        uid = f"{pod.uid.partition('+')[0]}+{self._again}"
        self.kind_of[uid] = self.kind_of[pod.uid]
        fields = {"uid": uid, "node": "", "phase": "Pending", "started": 0.0, "nominated_node": ""}
        self._changed(_with(pod, **fields, scheduled_condition=None, disruption=None))

    def _changed(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._events.append(ev.Changed(pod))

    def _gone(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        if pod.node:
            self.in_use -= self.kind_of[pod.uid].cpu * 1000
        self._events.append(ev.Gone("Pod", pod.namespace, pod.name, pod.uid))


def _with(pod: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(pod, **fields)


def _node(name: str) -> Node:
    return Node(name, allocatable=(("cpu", NODE_CPU), ("pods", 5000)))


def measure(cohorts: int, queues: int, fair: bool = False, progress: bool = False) -> Report:
    """Run the mix through the core, garbage collected as in ``run``; with ``progress`` a line every few seconds."""
    restore = raise_thresholds()
    cluster = Cluster(cohorts, queues, fair)
    gc.collect()
    gc.freeze()
    shown = time.monotonic()

    def show(now: float, done: int) -> None:
        nonlocal shown
        if progress and time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"  {now:8.2f} virtual seconds, {done} admissions", file=sys.stderr, flush=True)

    try:
        return cluster.run(show)
    finally:
        gc.unfreeze()
        restore()
