"""What a life did that the promise leaves open: it is counted, not excused, and no error."""

from __future__ import annotations

from collections import Counter

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import ends_object
from gangsched.model.queues import STOP_DRAIN, LocalQueue
from gangsched.model.records import SINGLE, Job, Pod
from tests.chaos.play import Played
from tests.chaos.told import Told
from tests.judge.rounds import rounds


def beyond(played: Played) -> Counter[str]:
    """How often what happened, by what."""
    return Counter(
        {
            "let off after the first removal": _let_off(played),
            "turned away by kubelets": sum(1 for _ in played.world.history.with_verbs(log.REJECT)),
            "Jobs that ended by a removal of which no plan had warned": _jobs_ended(played),
            "members without a word, of gangs bound in part at the end": _untold(played),
            "pods in queues that drain at the end": _undrained(played),
        }
    )


def _let_off(played: Played) -> int:
    """Victims whose mark the scheduler took back after others of their list had been removed."""
    history = played.world.history
    count = 0
    for plan in rounds(history).plans.values():
        first = min(plan.removed.values(), default=len(history))
        standing = set(plan.marked) - set(plan.removed)
        for entry in history.entries[first + 1 :] if standing else ():
            if entry.kind != "Pod" or entry.uid not in standing:
                continue
            taken_back = entry.verb == log.UNMARK and entry.outcome == log.OK and entry.actor == log.SCHEDULER
            if taken_back or ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live):
                standing.discard(entry.uid)
                count += taken_back
    return count


def _jobs_ended(played: Played) -> int:
    """Jobs that failed with the loss of a pod that the scheduler had removed."""
    warned = {text.split(" would fail")[0] for d in played.decisions for text in d.warnings}
    lost: dict[str, str] = {}
    count = 0
    for entry in played.world.history:
        if isinstance(entry.record, Pod) and entry.record.owner is not None and not entry.record.live:
            lost[entry.record.owner.uid] = entry.actor
        elif entry.verb == log.FAIL and isinstance(entry.record, Job) and f"Job {entry.object}" not in warned:
            count += lost.get(entry.record.uid) == log.SCHEDULER
    return count


def _untold(played: Played) -> int:
    """Members that wait at the end, of gangs that are bound in part, on which nothing was ever said."""
    told, world = Told(), played.world
    for event in world.store.listing():
        told.hear(event)
    said = {entry.uid for entry in world.history.with_verbs(log.CONDITION, log.EVENT, actor=log.SCHEDULER)}
    waiting = (p for p in told.pods.values() if p.gang.family != SINGLE and p.live and not p.node)
    return sum(p.uid not in said and bool(told.lacking(p.gang)) and bool(told.placed(p.gang)) for p in waiting)


def _undrained(played: Played) -> int:
    """Pods that run at the end in a queue that makes its workloads leave."""
    told = Told()
    for event in played.world.store.listing():
        told.hear(event)
    draining = set()
    for name, queue in told.queues.items():
        behind = told.queues.get(queue.cluster_queue) if isinstance(queue, LocalQueue) else None
        if STOP_DRAIN in (queue.stop, behind.stop if behind is not None else ""):
            draining.add(name)
    return sum(p.bound and p.live and told.queue_of(p) in draining for p in told.pods.values())
