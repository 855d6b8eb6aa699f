"""What is left at the end of a life: nothing that no plan needs, and no gang that could be placed."""

from __future__ import annotations

import math
import re

from gangsched.cluster.sim import SimCluster
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History, ends_object
from gangsched.core.decision import BIND, PREEMPT, WAIT
from gangsched.core.events import Outcome
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import GangId, Node, Pod
from gangsched.model.times import parse_time
from tests.chaos.play import RACE_SECONDS, UNTIL_SECONDS, Played
from tests.judge import invariants
from tests.judge.rounds import Round, rounds

#: What is given up is taken back within so much time, whatever fails meanwhile.
_TAKEN_BACK_SECONDS = 30.0


def left_marked(played: Played) -> list[str]:
    """Marks that no plan needs. Of a life that was ended in the middle, a victim may wait for its turn as long as its
    plan has time.
    """
    end = played.world.clock.elapsed_seconds
    until = end - played.scenario.options.timeout_seconds if end >= UNTIL_SECONDS else math.inf
    return invariants.abandoned_marks(played.world.history, until)


def left_held(played: Played) -> list[str]:
    """Nominations, and taints of ours on nodes, that have outlived every plan; and taints of others that are lost."""
    world, options = played.world, played.scenario.options
    writes = [e for e in world.history.with_verbs(log.NOMINATE, log.HOLD, actor=log.SCHEDULER) if e.changed]
    since = {(e.kind, e.uid if e.kind == "Pod" else e.object): e.at_seconds for e in writes}
    least = world.clock.elapsed_seconds - options.timeout_seconds - _TAKEN_BACK_SECONDS
    waiting = [p for p in world.store.pods.values() if p.on_record and not p.node]
    out = [
        f"at {at:.3f} s: {pod.key} of {pod.gang.key} was nominated to {pod.nominated_node}, and still is"
        for pod in waiting
        if pod.scheduler in options.scheduler_names and (at := since.get(("Pod", pod.uid), 0.0)) < least
    ]
    held = [node for node in world.store.nodes.values() if node.held is not None]
    out += [
        f"at {at:.3f} s: {node.name} was held, and still is"
        for node in held
        if (at := since.get(("Node", node.name), 0.0)) < least
    ]
    return out + (_lost_taints(world.history) if "others" in played.scenario.parts else [])


def left_claims(played: Played) -> list[str]:
    """Reservations of claims for pods of ours that wait, which have outlived every plan."""
    world, options = played.world, played.scenario.options
    since = {
        e.object: e.at_seconds
        for e in world.history.with_verbs(log.ALLOCATE, log.RESERVE, actor=log.SCHEDULER)
        if e.changed
    }
    least = world.clock.elapsed_seconds - options.bind_timeout_seconds - options.timeout_seconds - _TAKEN_BACK_SECONDS
    waiting = {p.uid: p for p in world.store.pods.values() if not p.node and p.scheduler in options.scheduler_names}
    return [
        f"at {at:.3f} s: {claim.name} was reserved for {waiting[uid].key}, and still is"
        for claim in world.store.device_claims()
        for _, _, uid in claim.reserved_for
        if uid in waiting and (at := since.get(f"{claim.namespace}/{claim.name}", 0.0)) < least
    ]


def _lost_taints(history: History) -> list[str]:
    """Nodes that have lost a taint of others by a write of ours."""
    last: dict[str, Node] = {}
    out = []
    for entry in history:
        if isinstance(entry.record, Node):
            before = last.get(entry.object, entry.record)
            if entry.actor == log.SCHEDULER and entry.changed and before.taints != entry.record.taints:
                out.append(f"at {entry.at_seconds:.3f} s: {entry.object} has lost a taint of others")
            last[entry.object] = entry.record
    return out


def repeated_at_once(played: Played) -> list[str]:
    """Gangs that evict again before the pause is over that follows a plan for which others were evicted, and after
    which none of its members was bound. Each process begins anew, and so does a gang of which a pod is gone.
    """
    history = played.world.history
    gone = {e.uid for e in history if ends_object(e)}
    bound = {e.uid: e.number for e in history.with_verbs(log.BIND) if e.outcome == log.OK}
    short: dict[str, list[Entry]] = {}
    last: dict[str, Round] = {}
    for plan in rounds(history).plans.values():
        if plan.cause != "preemption" or not plan.removed or not plan.nominated or invariants.is_rest(plan):
            continue
        before, last[plan.owner] = last.get(plan.owner), plan
        if before is None or not gone.isdisjoint(before.nominated):
            continue
        began = min(plan.nominated.values())
        if any(bound.get(uid, began) < began for uid in before.nominated):
            continue  # it had room without this one
        if _lost_a_node(history, before, began):
            continue  # only the room that is missing is found anew, at once
        first = history.entries[min(before.removed.values())]
        if history.entries[began].at_seconds - first.at_seconds < ROUND_PAUSE_SECONDS:
            short.setdefault(plan.owner, []).append(history.entries[began])
    late = {owner: entries for owner, entries in short.items() if len(entries) >= played.processes}
    return [
        f"at {entries[-1].at_seconds:.3f} s: {owner} evicts again without a pause" for owner, entries in late.items()
    ]


def _lost_a_node(history: History, plan: Round, until: int) -> bool:
    """Return whether a node of the plan was deleted, cordoned or not ready after its members were nominated."""
    nodes = {str(history.entries[number].detail["node"]) for number in plan.nominated.values()}
    since = history.entries[min(plan.nominated.values()) : until]
    return any(
        each.object in nodes and isinstance(node := each.record, Node)
        and (ends_object(each) or node.unschedulable or not node.ready)
        for each in since
    )  # fmt: skip


def asleep(played: Played) -> list[str]:
    """Gangs that a scheduler which starts afresh would place at the end, although nothing was left to happen.

    Those that used up their rounds of evictions wait for longer on purpose. Of what others did in the last moment the
    scheduler may not have heard: the cluster lives on for a little after it has stopped.
    """
    world = played.world
    end = world.clock.elapsed_seconds
    if any(e.actor != log.SCHEDULER and e.at_seconds > end - RACE_SECONDS for e in world.history.entries[-50:]):
        return []
    core, cluster = Scheduler(played.scenario.options), SimCluster(world)
    now, events = cluster.poll()  # what any process is told first
    cluster.close()
    core.handle(events, now)
    for each in world.history.with_verbs(log.DELETE, log.EVICT, log.ASK, log.MARK, actor=log.SCHEDULER):
        if each.outcome is Outcome.REFUSED:  # the process that was refused knows it for an hour
            core.world.refused_removals.note(each.uid, "", "", now - (end - each.at_seconds))
    if core.has_work(now):
        core.decide(now)  # only one: later decisions rest on what this one would have changed
    return [
        f"at {end:.3f} s: {decision.gang.key} could {decision.outcome}"
        for decision in core.drain_decisions()
        if decision.outcome in (BIND, WAIT, PREEMPT)
        and not _busy(world.history, decision.gang, end)
        and not (decision.outcome == PREEMPT and _pauses(world.history, decision.gang, now))
    ]


def _pauses(history: History, gang: GangId, now: float) -> bool:
    """Return whether the gang evicts no pod before a later time, as was last said on a member."""
    mine = {e.uid for e in history if isinstance(e.record, Pod) and e.record.gang == gang}
    told = (e for e in history.with_verbs(log.CONDITION, actor=log.SCHEDULER) if e.uid in mine and e.outcome == log.OK)
    said = [str(e.detail["message"]) for e in told]
    found = re.search(r"no pod is evicted for it until (\S+Z)", said[-1]) if said else None
    return found is not None and parse_time(found[1], "") + 1.0 > now  # what is said leaves out fractions of a second


def _busy(history: History, gang: GangId, end: float) -> bool:
    """Return whether the scheduler has done something for this gang in the last minute, with success or without."""
    pods = [e.record for e in history if isinstance(e.record, Pod)]
    owned = (p for p in pods if p.owner is not None and (p.namespace, p.owner.name) == (gang.namespace, gang.name))
    mine = {p.uid for p in pods if p.gang == gang} | {p.uid for p in owned}
    mine |= {e.uid for e in history if e.uid and e.kind == gang.family and e.object == gang.key}
    done = (e for e in history if e.actor == log.SCHEDULER and e.verb != log.EVENT and e.uid in mine)
    return any(end - e.at_seconds < 60.0 for e in done)
