"""What may never happen where rollbacks, stopped queues and volumes are played: see :mod:`tests.chaos.checks`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History, ends_object
from gangsched.core.events import Outcome
from gangsched.core.preemption.harm import Budgets
from gangsched.model.queues import STOP_DRAIN, STOP_NONE, ClusterQueue, LocalQueue, queue_labels
from gangsched.model.records import Gang, GangId, Job, Node, Pod
from gangsched.model.selectors import any_node_term_matches
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim
from tests.chaos.play import Played
from tests.chaos.refusals import REFUSED
from tests.chaos.scenario import MAX_WRITE_DELAY

#: Between a decision and its effect pass at most a watch delay and a write delay, each with its answer.
RACE_SECONDS = 4 * MAX_WRITE_DELAY
#: Within this time what fails for a while has been repeated five times.
REPEAT_SECONDS = 30.0


# -- rollbacks -----------------------------------------------------------------------------------------------------


def wrong_rollbacks(played: Played) -> list[str]:
    """Members that left in a rollback though nobody had asked for that, of another gang than the one that was rolled
    back, that nobody makes again, that this scheduler had not bound, while nothing had come in the gang's way since, or
    while other members of it were bound and not marked, if nobody else had taken their marks back.
    """
    history = played.world.history
    pods: dict[str, Pod] = {}
    bound_at: dict[str, float] = {}
    hindered: dict[str, float] = {}
    anybody = -math.inf
    taken_back: set[str] = set()
    out = []
    for entry in history:
        gang = log.rolled_back_for(entry)
        victim = pods.get(entry.uid)
        if gang and victim is not None and entry.outcome == log.OK and entry.changed:
            about = f"at {entry.at_seconds:.3f} s: {entry.object} left in a rollback of {gang}"
            out += [
                f"{about}, {why}" for why in _no_victim_of(gang, victim, asked_for=played.scenario.options.rollback)
            ]
            if entry.uid not in bound_at:
                out.append(f"{about}, and had not been bound by this scheduler")
            elif max(hindered.get(gang, -math.inf), anybody) < bound_at[entry.uid] - REPEAT_SECONDS:
                out.append(f"{about}, though nothing was in the way of the others")
            out += [
                f"{about}, and {p.key} was not even marked"
                for p in pods.values()
                if gang in _names(p) and p.bound and p.live and not p.disruption_target and p.uid not in taken_back
            ]
        if entry.verb in (log.MARK, log.UNMARK) and entry.outcome == log.OK:
            (taken_back.discard if entry.actor == log.SCHEDULER else taken_back.add)(entry.uid)
        if entry.verb == log.BIND and entry.actor == log.SCHEDULER:
            if entry.outcome == log.OK:
                bound_at[entry.uid] = entry.at_seconds
            elif victim is not None:
                hindered.update(dict.fromkeys(_names(victim), entry.at_seconds))
        if entry.actor == log.USER or entry.verb == log.REJECT:
            touched, everybody = _in_whose_way(pods, entry)
            hindered.update(dict.fromkeys(touched, entry.at_seconds))
            anybody = entry.at_seconds if everybody else anybody
        _follow(pods, entry)
    return out


def _no_victim_of(gang: str, victim: Pod, *, asked_for: bool) -> Iterator[str]:
    """Why a pod does not leave in a rollback of a gang, whatever has happened."""
    if not asked_for:
        yield "which is switched off"
    if gang not in _names(victim):
        yield f"and belongs to {victim.gang.key}"
    if victim.owner is None or victim.owner.kind == "DaemonSet":
        yield "and nobody makes it again"


def _in_whose_way(pods: dict[str, Pod], entry: Entry) -> tuple[set[str], bool]:
    """The gangs (``namespace/name``) that this is about, and whether it may be in the way of every gang: about a node,
    about volumes, or about a pod that takes room or wants it.
    """
    pod = entry.record if isinstance(entry.record, Pod) else pods.get(entry.uid)
    if pod is None:
        return {entry.object}, entry.kind in ("Node", "PersistentVolume", "PersistentVolumeClaim")
    wants_room = entry.record is not None and pod.live and (bool(pod.node) or entry.verb == log.CREATE)
    return _names(pod), wants_room


def _names(pod: Pod) -> set[str]:
    """``namespace/name`` of the pod's gang: that of its Job, if that has a queue."""
    names = {pod.gang.name, *([pod.owner.name] if pod.owner is not None else [])}
    return {f"{pod.namespace}/{name}" for name in names}


def _follow(pods: dict[str, Pod], entry: Entry) -> None:
    if isinstance(entry.record, Pod):
        pods[entry.record.uid] = entry.record
    elif entry.kind == "Pod" and ends_object(entry):
        pods.pop(entry.uid, None)


def untold(played: Played) -> list[str]:
    """Members that wait at the end while others of their gang are bound, and too few, and on which nobody has said why
    since the first of these was bound, or had been asked to be: what is said then has how many are bound.

    An attempt to say it is enough: a condition or an Event of which the server makes nothing is not repeated. Nothing
    is said while a binding of the gang is repeated, of which nobody knows what has become.
    """
    world = played.world
    now, came = world.clock.elapsed_seconds, _came(world.history)
    members: dict[GangId, list[Pod]] = defaultdict(list)
    for pod in world.store.pods.values():
        members[pod.gang].append(pod)
    reasons = (e for e in world.history.of(log.CONDITION, log.EVENT, actor=log.SCHEDULER) if _is_reason(e))
    told_at = {e.uid: math.inf if "of them bound" in _text(e) else e.at_seconds for e in reasons}
    bound_at = {e.uid: e.at_seconds for e in world.history.of(log.BIND) if e.outcome == log.OK and e.changed}
    failed = (e for e in world.history.of(log.BIND) if e.outcome == Outcome.TRANSIENT)
    repeated = {e.uid for e in failed if now - e.at_seconds <= REPEAT_SECONDS}
    out = []
    for gang, pods in members.items():
        known = world.store.gangs.get((gang.family, gang.namespace, gang.name))
        placed = sum(p.bound or p.phase == "Succeeded" for p in pods)
        if known is None or not 0 < placed < known.min_member or any(p.uid in repeated for p in pods):
            continue
        since = min((bound_at.get(p.uid, 0.0) for p in pods if p.node), default=0.0)
        waiting = [p for p in pods if p.live and not p.node and now - max(came[p.uid], since) > REPEAT_SECONDS]
        silent = [p for p in waiting if told_at.get(p.uid, -math.inf) < since]
        out += [f"{p.key} waits, {placed} of {known.min_member} are bound" for p in silent]
    return out


def _came(history: History) -> dict[str, float]:
    """When each object (UID) came, in seconds from the start: its stamp is of the API server's clock."""
    return {e.uid: e.at_seconds for e in reversed(history.entries)}


def _text(entry: Entry) -> str:
    return str(entry.detail.get("message", "") or entry.detail.get("note", ""))


def _is_reason(entry: Entry) -> bool:
    return entry.detail.get("type") != "Normal" or entry.detail.get("reason") == "GangNotReady"


# -- queues --------------------------------------------------------------------------------------------------------


class _Queues:
    """Which LocalQueues admit nobody, and which drain, since when (seconds), as a history goes by."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], Job] = {}
        self.gangs: dict[tuple[str, str, str], Gang] = {}
        self.drained_since: dict[str, float] = {}
        self.stopped_since: dict[str, float] = {}
        self._locals: dict[str, LocalQueue] = {}
        self._queues: dict[str, ClusterQueue] = {}

    def apply(self, entry: Entry) -> None:
        """Go on to the state after this entry."""
        if ends_object(entry):
            self._ends(entry)
        match entry.record:
            case Job() as job:
                self.jobs[job.namespace, job.name] = job
            case Gang() as gang:
                self.gangs[gang.family, gang.namespace, gang.name] = gang
            case LocalQueue() as local:
                self._locals[local.key] = local
            case ClusterQueue() as queue:
                self._queues[queue.name] = queue
            case _:
                return
        for key, local in self._locals.items():
            found = self._queues.get(local.cluster_queue)
            stops = {local.stop, found.stop if found is not None else STOP_NONE}
            for since, so in ((self.stopped_since, stops != {STOP_NONE}), (self.drained_since, STOP_DRAIN in stops)):
                if so:
                    since.setdefault(key, entry.at_seconds)
                else:
                    since.pop(key, None)

    def _ends(self, entry: Entry) -> None:
        namespace, _, name = entry.object.partition("/")
        if entry.kind == "Job":
            self.jobs.pop((namespace, name), None)
        elif entry.kind == "PodGroup":
            for key in [key for key in self.gangs if key[1:] == (namespace, name)]:
                del self.gangs[key]

    def of(self, pod: Pod) -> tuple[str, str]:
        """``namespace/name`` of the pod's LocalQueue (empty: none), and what names its workload."""
        job = self.jobs.get((pod.namespace, pod.owner.name)) if pod.owner is not None else None
        if job is not None and job.queue.local_queue:
            return f"{pod.namespace}/{job.queue.local_queue}", f"Job {job.key}"
        group = self.gangs.get((pod.gang.family, pod.gang.namespace, pod.gang.name))
        if group is not None and group.queue.local_queue:
            return f"{pod.namespace}/{group.queue.local_queue}", f"gang {group.key}"
        labels = queue_labels(pod.labels)
        return (f"{pod.namespace}/{labels.local_queue}", pod.key) if labels.local_queue else ("", pod.key)


def started_while_stopped(history: History) -> list[str]:
    """Workloads of which the first pod was bound, and Jobs that went on, when their queue had been stopped for so long
    that everybody knew.

    A binding whose fate was unknown is repeated, stopped or not.
    """
    queues, pods = _Queues(), dict[str, Pod]()
    unsure: dict[str, float] = {}
    out = []
    for entry in history:
        if entry.actor == log.SCHEDULER and entry.verb in (log.BIND, log.RESUME):
            if entry.outcome != log.OK:
                unsure[entry.uid] = entry.at_seconds
            elif entry.changed and entry.at_seconds - unsure.get(entry.uid, -math.inf) > REPEAT_SECONDS:
                queue = _queue_that_starts(queues, pods, entry)
                if entry.at_seconds - queues.stopped_since.get(queue, math.inf) > RACE_SECONDS:
                    out.append(f"at {entry.at_seconds:.3f} s: {entry.object} started, though {queue} is stopped")
        queues.apply(entry)
        _follow(pods, entry)
    return out


def _queue_that_starts(queues: _Queues, pods: dict[str, Pod], entry: Entry) -> str:
    """The queue of the workload that starts with this entry; empty if it runs already."""
    if isinstance(entry.record, Job):
        return f"{entry.record.namespace}/{entry.record.queue.local_queue}"
    if not isinstance(entry.record, Pod):
        return ""
    queue, workload = queues.of(entry.record)
    runs = any(p.node and p.uid != entry.uid and queues.of(p)[1] == workload for p in pods.values())
    return "" if runs else queue


def left_in_a_drained_queue(played: Played) -> list[str]:
    """Pods that run at the end in a queue that has drained for long: as a whole workload, or what is left of one.

    Budgets may keep them where they are strict, and so do writes that are refused, or fail to the end.
    """
    history, store, now = played.world.history, played.world.store, played.world.clock.elapsed_seconds
    queues, came = _Queues(), _came(history)
    last: dict[str, Entry] = {}
    for entry in history:
        queues.apply(entry)
        if entry.actor == log.SCHEDULER and entry.verb in (log.MARK, log.DELETE, log.EVICT, log.SUSPEND):
            last[entry.uid] = entry
    fails = {e.uid for e in last.values() if e.outcome != log.OK and now - e.at_seconds < REPEAT_SECONDS}
    fails |= {e.uid for e in last.values() if e.outcome == REFUSED}
    kept = set()
    if played.scenario.options.strict_budgets:  # a workload leaves as a whole, or not
        budgets = Budgets(store.budgets.values(), store.pods.values())
        kept = {queues.of(pod)[1] for pod in store.pods.values() if pod.node and budgets.matching(pod)}
    out = []
    for pod in store.pods.values():
        queue, workload = queues.of(pod)
        since = queues.drained_since.get(queue, math.inf)
        owner = pod.owner.uid if pod.owner is not None else ""
        excused = workload in kept or not fails.isdisjoint((pod.uid, owner))
        ready = pod.node and pod.live and not excused and played.scenario.options.quota
        if ready and now - max(since, came[pod.uid]) > 2 * REPEAT_SECONDS:
            out.append(f"{pod.key} runs in {queue}, which has drained for {now - since:.0f} s")
    return out


# -- volumes -------------------------------------------------------------------------------------------------------


def bound_before_the_gangs_volumes(history: History, excused: Collection[str] = ()) -> list[str]:
    """Members that were bound while fewer members than their gang needs had all of their claims bound.

    Gangs (``namespace/name``) that others have changed meanwhile may be ``excused``. A binding whose fate was unknown
    is repeated, whoever has been lost since.
    """
    unsure: dict[str, float] = {}
    claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
    members: dict[GangId, dict[str, Pod]] = defaultdict(dict)
    minimum: dict[tuple[str, str, str], int] = {}
    out = []
    for entry in history:
        bound_by_us = entry.verb == log.BIND and entry.actor == log.SCHEDULER
        if bound_by_us and entry.outcome == Outcome.TRANSIENT:
            unsure[entry.uid] = entry.at_seconds
        match entry.record:
            case PersistentVolumeClaim() as claim:
                claims[claim.key] = claim
            case Gang() as gang:
                minimum[gang.family, gang.namespace, gang.name] = gang.min_member
            case Pod() as pod:
                members[pod.gang][pod.uid] = pod
                if bound_by_us and pod.gang.key not in excused:
                    ready = sum(_has_all(p, claims) for p in members[pod.gang].values())
                    needed = minimum.get((pod.gang.family, pod.gang.namespace, pod.gang.name), 1)
                    if ready < needed and entry.at_seconds - unsure.get(pod.uid, -math.inf) > REPEAT_SECONDS:
                        about = f"{ready} of at least {needed} members had their volumes"
                        out.append(f"at {entry.at_seconds:.3f} s: {pod.key} was bound when {about}")
            case None if ends_object(entry):
                namespace, _, name = entry.object.partition("/")
                if entry.kind == "PersistentVolumeClaim":
                    claims.pop((namespace, name), None)
                elif entry.kind == "PodGroup":
                    minimum = {key: least for key, least in minimum.items() if key[1:] != (namespace, name)}
                for there in members.values():
                    there.pop(entry.uid, None)
    return out


def _has_all(pod: Pod, claims: dict[tuple[str, str], PersistentVolumeClaim]) -> bool:
    names = pod.volumes.claims if pod.volumes is not None else ()
    found = (claims.get((pod.namespace, name)) for name in names)
    return bool(pod.node) or all(c is not None and c.bound for c in found)


def bound_out_of_reach(history: History) -> list[str]:
    """Pods that the scheduler bound to a node from which a volume of theirs cannot be reached."""
    claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
    volumes: dict[str, PersistentVolume] = {}
    nodes: dict[str, Node] = {}
    out = []
    for entry in history:
        match entry.record:
            case PersistentVolumeClaim() as claim:
                claims[claim.key] = claim
            case PersistentVolume() as volume:
                volumes[volume.name] = volume
            case Node() as node:
                nodes[node.name] = node
            case Pod() as pod if entry.verb == log.BIND and entry.actor == log.SCHEDULER and pod.node in nodes:
                for volume in _volumes_of(pod, claims, volumes):
                    terms, labels = volume.node_terms, nodes[pod.node].labels
                    if terms is not None and not any_node_term_matches(terms, pod.node, labels):
                        out.append(f"at {entry.at_seconds:.3f} s: {pod.key} on {pod.node} needs {volume.name}")
    return out


def _volumes_of(
    pod: Pod, claims: dict[tuple[str, str], PersistentVolumeClaim], volumes: dict[str, PersistentVolume]
) -> Iterator[PersistentVolume]:
    for name in pod.volumes.claims if pod.volumes is not None else ():
        claim = claims.get((pod.namespace, name))
        if claim is not None and claim.bound and claim.volume_name in volumes:
            yield volumes[claim.volume_name]
