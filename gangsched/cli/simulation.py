"""A run of the real scheduler in a simulated cluster, and what became of it: what tables, JSON and pages show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gangsched.cli.trace_figures import Figures
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import GroupKey, arrivals
from gangsched.cluster.sim.faults import Faults
from gangsched.cluster.sim.history import (
    DECIDE,
    SCHEDULER,
    Cause,
    Entry,
    History,
    drained_by,
    drained_queue,
    preemptor_of,
)
from gangsched.core.actions import Action
from gangsched.core.decision import Decision, Preempt
from gangsched.core.events import Event, records
from gangsched.core.options import Options
from gangsched.core.scheduler import Lasting, Scheduler
from gangsched.messages import pictures
from gangsched.messages.text import join_names, pluralize
from gangsched.model import dialects
from gangsched.model.constraints import Labels
from gangsched.model.errors import one_line
from gangsched.model.preemptible import EXPECTED_RUN_TIME
from gangsched.model.records import SINGLE, Gang, GangId, Pod
from gangsched.runtime.boundary import Boundary
from gangsched.runtime.loop import CoreFaults, Observer, Observers, run_loop

#: Events that the timeline leaves out.
_HIDDEN = (log.EXISTS, log.CONDITION, log.EVENT, log.STATUS, log.ADMIT)
#: So many workloads of unknown run time are named.
_NAMED = 3


class Simulation(msgspec.Struct, frozen=True):
    """A finished run: the cluster as it is at the end, with its history, and the decisions that changed something.

    ``decisions`` are (entry number in the history, decision), without repetitions of the same answer.
    """

    world: World
    options: Options
    decisions: list[tuple[int, Decision]]
    until_seconds: float
    quiet: bool
    #: A line for each fault of the scheduler itself.
    faults: list[str] = []
    #: What is known of gangs of more than one pod, as the scheduler has seen them first.
    gangs: dict[GangId, Gang] = {}
    #: It was ended by the number of changes: what would have come after that is unknown.
    cut_short: bool = False
    #: The pods of each workload of which is not known how long they run: they go on to the end.
    unknown_run_times: dict[str, int] = {}
    #: Those of a trace, if one was played.
    trace: Figures | None = None

    @property
    def history(self) -> History:
        """All that happened."""
        return self.world.history


class _DecisionLog(Observer):
    """Puts decisions into the history, a repeated one only once."""

    def __init__(self, history: History) -> None:
        self.decisions: list[tuple[int, Decision]] = []
        self._history = history
        self._last: dict[GangId, Decision] = {}

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        for decision in decisions:
            settled = msgspec.structs.replace(decision, steps=0) if isinstance(decision, Preempt) else decision
            if self._last.get(decision.gang) != settled:
                self._last[decision.gang] = settled
                self.decisions.append((len(self._history), decision))
                cause = Cause(SCHEDULER, DECIDE, decision_detail(decision))
                self._history.add(cause, decision.kind, decision.gang.key, changed=False)


class _SeenGangs(Observer):
    """Notes in which gang the scheduler counts each pod: the record of a pod does not say whether its owner is one."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._core = Scheduler(options)
        #: By the UID of the pod.
        self.of_pod: dict[str, GangId] = {}
        self.found: dict[GangId, Gang] = {}

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        for pod in records(events, Pod):
            self._note(pod.uid)

    def make(self, lasting: Lasting | None = None) -> Scheduler:
        """Return a new core, which is asked from now on."""
        self._core = Scheduler(self._options, lasting)
        return self._core

    def _note(self, uid: str) -> None:
        world = self._core.world
        pod = world.pods.get(uid)
        if pod is None or pod.gang.family == SINGLE:
            return
        self.of_pod[uid] = pod.gang
        spec = world.membership.spec(pod.gang) if pod.gang not in self.found else None
        if spec is not None:
            self.found[pod.gang] = spec

    def put_into(self, history: History) -> None:
        """Let the records of pods say it."""
        for uid in self._core.world.pods:
            self._note(uid)
        for number, entry in enumerate(history.entries):
            pod = entry.record
            gang = self.of_pod.get(pod.uid) if isinstance(pod, Pod) else None
            if gang is not None and pod.gang != gang:
                grouped = msgspec.structs.replace(pod, gang=gang)
                history.entries[number] = msgspec.structs.replace(entry, record=grouped)


def decision_detail(decision: Decision) -> dict[str, Any]:
    """The line of a decision in the timeline; ``gangsched plan`` has all of it."""
    detail: dict[str, Any] = {"outcome": decision.outcome}
    if decision.placements:
        detail["placements"] = {p.key: p.node for p in decision.placements}
    if decision.victims:
        detail["victims"] = [v.key for v in decision.victims]
    if any(v.over_budget for v in decision.victims):
        detail["overBudget"] = [v.key for v in decision.victims if v.over_budget]
    if decision.message:
        detail["message"] = decision.said
    return detail


def simulate(
    events: Sequence[Event],
    options: Options,
    *,
    until_seconds: float = 600.0,
    start: float = 0.0,
    file_order: bool = False,
    group_hints: Mapping[GroupKey, Labels] | None = None,
    faults: Faults | None = None,
    contained: bool = False,
) -> Simulation:
    """Run a scheduler with ``options`` in a cluster made of ``events``. Its errors are raised, unless they are
    ``contained`` as those of ``gangsched run`` are.

    ``start`` is the moment at which the virtual clock begins, in seconds since the epoch. Raises
    :class:`~gangsched.cluster.sim.arrival.InvalidHintError` for annotations of the simulation that are no durations.
    """
    world = World(arrivals(events, group_hints, file_order=file_order), start=_begins(events, start), faults=faults)
    return _run(SimCluster(world, until_seconds=until_seconds), options, contained=contained)


def simulate_changes(
    events: Sequence[Event], options: Options, most: int, *, until_seconds: float, start: float
) -> Simulation:
    """Run a scheduler as :func:`simulate` does, until the cluster has changed ``most`` times at the latest."""
    world = World(arrivals(events, None, file_order=False), start=_begins(events, start))
    return _run(SimCluster(world, until_seconds=until_seconds, most_changes=most), options, contained=True)


def _begins(events: Sequence[Event], start: float) -> float:
    """Return when a simulation begins. A pod that is terminating in the input was deleted before that."""
    return max([start, *(pod.deleted_at or 0.0 for pod in records(events, Pod))])


def _run(cluster: SimCluster, options: Options, *, contained: bool) -> Simulation:
    history = cluster.world.history
    seen, failed, gangs = _DecisionLog(history), CoreFaults(), _SeenGangs(options)
    observer = Observers(seen, failed, gangs)
    core = Boundary(gangs.make, leads_by_itself=True, on_rebuild=observer.rebuilt) if contained else gangs.make()
    run_loop(core, cluster, observer)
    cluster.close()
    gangs.put_into(history)
    return Simulation(
        cluster.world,
        options,
        seen.decisions,
        cluster.until_seconds,
        cluster.quiet,
        failed.lines,
        gangs.found,
        cut_short=cluster.changes_left == 0,
    )


# ---------------------------------------------------------------------------------------------------------- the answer


def fields_of(simulation: Simulation) -> dict[str, Any]:
    """The fields of the contract."""
    return {"events": events_of(simulation), "pods": pods_of(simulation), "summary": summary_of(simulation)}


def events_of(simulation: Simulation) -> list[dict[str, Any]]:
    """The history without what was there from the start, and without writes that found all as it should be."""
    told = (e for e in simulation.history if e.verb != log.EXISTS)
    return [e.as_json() for e in told if e.changed or e.outcome != log.OK or e.verb == DECIDE]


class Happened(NamedTuple):
    """A line of the timeline: ``what`` is the verb, with the outcome of a write that failed."""

    at_seconds: float
    actor: str
    verb: str
    what: str
    object: str
    detail: str


def timeline(simulation: Simulation) -> list[Happened]:
    """The visible part of the run: changes, decisions, and writes that failed."""
    return [
        Happened(
            entry.at_seconds,
            entry.actor,
            entry.verb,
            entry.verb if entry.outcome == log.OK else f"{entry.verb} ({entry.outcome})",
            one_line(entry.object),
            one_line(_detail(entry)),
        )
        for entry in simulation.history
        if (entry.verb not in _HIDDEN and (entry.changed or entry.verb == log.DECIDE)) or entry.outcome != log.OK
    ]


def _detail(entry: Entry) -> str:
    detail = entry.detail
    match entry.verb:
        case log.DECIDE:
            return f"{detail['outcome']}: {detail['message']}" if detail.get("message") else str(detail["outcome"])
        case log.BIND | log.NOMINATE:
            text = f"→ {detail['node']}"
        case log.BUDGET:
            text = f"disruptionsAllowed {detail['disruptionsAllowed']}"
        case log.REJECT:
            text = f"{detail['node']}: {detail['reason']}"
        case log.MARK:
            said = str(detail["message"])
            text = said.partition(": " if drained_queue(said) else ", ")[2] or said
        case _:
            text = str(detail.get("reason") or detail.get("node") or "")
    if entry.outcome != log.OK and detail.get("message"):
        text += f" ({detail['message']})"
    return text.strip()


def pods_of(simulation: Simulation) -> dict[str, dict[str, Any]]:
    """The history of each pod, by ``namespace/name``. Times are seconds from the start, None = it did not happen.
    ``drainedBy`` is there only for pods that a stopped queue made leave.
    """
    out: dict[str, dict[str, Any]] = {}
    for entry in simulation.history:
        if entry.kind != "Pod" or not entry.changed or entry.verb == log.EVENT:
            continue
        at = round(entry.at_seconds, 3)
        pod = entry.record
        if pod is None:
            if entry.object in out:
                out[entry.object].update(phase="Deleted", endedAt=at)
            continue
        known = out.get(pod.key)
        if known is None or entry.verb == log.CREATE:
            known = out[pod.key] = _new_pod(pod, at)
        known.update(_state_of(pod))
        came = {"boundAt": pod.node, "startedAt": pod.phase == "Running", "endedAt": pod.finished}
        known.update((key, at) for key, so in came.items() if so and known[key] is None)
        if pod.disruption is not None:
            marked = pod.disruption.message if pod.disruption.status == "True" else ""
            known["preemptedBy"] = preemptor_of(marked) or None
            known.pop("drainedBy", None)
            if (queue := drained_queue(marked)) is not None:
                known["drainedBy"] = " ".join(queue)
    for known in out.values():
        if known["phase"] == "Deleted":
            known.update(terminating=False, message=None)
    return dict(sorted(out.items()))


def _state_of(pod: Pod) -> dict[str, Any]:
    condition = pod.scheduled_condition
    return {
        "phase": pod.phase,
        "node": pod.node or None,
        "nominatedNode": pod.nominated_node or None,
        "terminating": pod.deleting_since is not None,
        "message": condition.message if condition is not None and not pod.node else None,
    }


def _new_pod(pod: Pod, at: float) -> dict[str, Any]:
    return {
        "phase": pod.phase,
        "node": None,
        "nominatedNode": None,
        "terminating": False,
        "gang": None if pod.gang.family == SINGLE else pod.gang.key,
        "priority": pod.priority,
        "arrivedAt": at,
        "boundAt": None,
        "startedAt": None,
        "endedAt": None,
        "preemptedBy": None,
        "message": None,
    }


def summary_of(simulation: Simulation) -> dict[str, Any]:
    """Counts and the gangs. ``violations`` is always empty: it stays for a version since the contract has it.

    ``seconds`` is when the last thing happened; ``ended`` is ``quiet`` when nothing more could happen, else
    ``until``.
    """
    pods = pods_of(simulation)
    history = simulation.history
    removed = [
        e for e in history.with_verbs(log.DELETE, log.EVICT, actor=SCHEDULER) if e.changed and drained_by(e) is None
    ]
    removed += [
        e for e in history.with_verbs(log.DELETE, log.GONE, actor=log.JOB_CONTROLLER) if _for_others(e.object, pods)
    ]
    told = [e.at_seconds for e in history if e.changed]
    drained = sum("drainedBy" in p and (p["terminating"] or p["phase"] == "Deleted") for p in pods.values())
    return {
        "seconds": round(max(told, default=0.0), 3),
        "ended": "quiet" if simulation.quiet else "until",
        "until": simulation.until_seconds,
        "pods": dict(sorted(Counter(p["phase"] for p in pods.values()).items())),
        "gangs": _gangs(simulation),
        "decisions": len(simulation.decisions),
        "binds": sum(e.changed for e in history.with_verbs(log.BIND, actor=SCHEDULER)),
        "preempted": len({e.uid for e in removed}),
        **({"drained": drained} if drained else {}),
        **({"unknownRunTimes": simulation.unknown_run_times} if simulation.unknown_run_times else {}),
        **({"trace": simulation.trace.fields()} if simulation.trace is not None else {}),
        "violations": [],
    }


def unknown_run_times(simulation: Simulation) -> Iterator[str]:
    """Yield a sentence about the pods of which is not known how long they run, if there are any."""
    if pods := simulation.unknown_run_times:
        count, workloads = pluralize(sum(pods.values()), "pod"), join_names([one_line(each) for each in pods], _NAMED)
        yield pictures.run_times_unknown(pods=count, workloads=workloads, key=EXPECTED_RUN_TIME)


def _for_others(key: str, pods: dict[str, dict[str, Any]]) -> bool:
    """Return True if the pod left with its Job to make room."""
    return key in pods and pods[key]["preemptedBy"] is not None


def started_at(
    simulation: Simulation, required: Mapping[GangId, int], *, since_seconds: float = 0.0
) -> dict[GangId, float]:
    """When so many further pods of each of these gangs were on nodes, in seconds since the epoch; gangs of which that
    did not happen are left out. Bindings count that came ``since_seconds`` after the start of the simulation.
    """
    by_name = {(gang.namespace, gang.name): gang for gang in required}
    at: dict[GangId, dict[str, float]] = {gang: {} for gang in required}
    for entry in simulation.history.with_verbs(log.BIND, actor=SCHEDULER):
        pod = entry.record
        if not entry.changed or not isinstance(pod, Pod) or entry.at_seconds < since_seconds:
            continue
        owner = by_name.get((pod.namespace, pod.owner.name)) if pod.owner is not None else None
        gang = pod.gang if pod.gang in at else owner
        if gang is not None:
            at[gang].setdefault(pod.uid, entry.at_seconds)
    start = simulation.world.clock.start
    needed = {gang: max(1, number) for gang, number in required.items()}
    return {g: start + sorted(t.values())[needed[g] - 1] for g, t in at.items() if len(t) >= needed[g]}


def _gangs(simulation: Simulation) -> dict[str, dict[str, Any]]:
    """Gangs of more than one pod: how many members there are and run, and how long the gang waited to start."""
    members: dict[GangId, dict[str, Pod]] = {}
    arrived: dict[GangId, float] = {}
    bound_at: dict[GangId, list[float]] = {}
    bound: set[str] = set()
    objects: dict[tuple[str, str, str], Gang] = {}
    for entry in simulation.history:
        record = entry.record
        if isinstance(record, Gang):
            objects[record.family, record.namespace, record.name] = record
        if not isinstance(record, Pod) or record.gang.family == SINGLE:
            continue
        members.setdefault(record.gang, {})[record.uid] = record
        arrived.setdefault(record.gang, entry.at_seconds)
        if record.node and record.uid not in bound:
            bound.add(record.uid)
            bound_at.setdefault(record.gang, []).append(entry.at_seconds)
    alive = {p.uid: p for p in simulation.world.store.pods.values()}
    out = {}
    for gang, pods in sorted(members.items()):
        known = objects.get((gang.family, gang.namespace, gang.name)) or simulation.gangs.get(gang)
        described = known or next(filter(None, map(dialects.gang_from_member, pods.values())), None)
        minimum = described.min_member if described else 1
        times = bound_at.get(gang, [])
        started = times[minimum - 1] if len(times) >= minimum else None
        out[gang.key] = {
            "kind": described.kind if described else "PodGroup",
            "minMember": minimum,
            "members": len(pods),
            "bound": sum(u in alive and alive[u].bound and alive[u].live for u in pods),
            "waitedSeconds": None if started is None else round(started - arrived[gang], 3),
        }
    return out


def records_of(simulation: Simulation) -> list[object]:
    """All objects as they were, in the order of the changes."""
    return [entry.record for entry in simulation.history]


def group_name(pod: Pod) -> str:
    """The gang's name, or the pod's for a pod without one."""
    return pod.name if pod.gang.family == SINGLE else pod.gang.name


def clock(seconds: float) -> str:
    """``0:05.010``: minutes, seconds and milliseconds of virtual time."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    return f"{minutes}:{rest // 1000:02d}.{rest % 1000:03d}"
