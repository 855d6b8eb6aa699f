"""Does a gang fit? Found out by trying everything, with none of the scheduler's code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from gangsched.cli.simulation import Simulation
from gangsched.cluster.sim.history import WITHDRAW, Moment
from gangsched.core.decision import BIND, PREEMPT, WAIT, Decision, Placement
from gangsched.model.records import Pod

Amounts = dict[str, int]


def wants(pod: Pod) -> Amounts:
    """What the pod takes of a node."""
    return {**dict(pod.shape.requests), "pods": 1}


def some_members_fit(members: Sequence[Pod], required: int, free: dict[str, Amounts]) -> bool:
    """Can any ``required`` of the members be placed together on these nodes?"""
    tried = set()
    for chosen in combinations(members, required):
        kinds = tuple(sorted(p.shape.requests for p in chosen))
        if kinds not in tried:
            tried.add(kinds)
            if _all_fit([wants(p) for p in chosen], free):
                return True
    return False


def _all_fit(todo: list[Amounts], free: dict[str, Amounts]) -> bool:
    if not todo:
        return True
    first, rest = todo[0], todo[1:]
    for room in free.values():
        if all(units <= room.get(resource, 0) for resource, units in first.items()):
            for resource, units in first.items():
                room[resource] -= units
            fits = _all_fit(rest, free)
            for resource, units in first.items():
                room[resource] += units
            if fits:
                return True
    return False


def held_by_others(run: Simulation, position: int) -> list[Placement]:
    """Room that other gangs have when the decision at this position is made, as far as it counts for its gang.

    That is what earlier decisions are binding right now, and what is nominated with at least the same priority. A
    nomination that was withdrawn holds nothing.
    """
    number, decision = run.decisions[position]
    withdrawn = {e.uid: e.number for e in run.history.entries[:number] if e.verb == WITHDRAW}
    newest = {d.gang: (n, d) for n, d in run.decisions[:position] if d.gang != decision.gang}
    out = []
    for decided_at, other in newest.values():
        if other.outcome == BIND or (other.outcome in (PREEMPT, WAIT) and other.priority >= decision.priority):
            out += [p for p in other.placements if withdrawn.get(p.uid, -1) < decided_at]
    return out


def condemned_by_others(run: Simulation, position: int) -> set[str]:
    """The victims (UIDs) of plans of other gangs that are under way when the decision at this position is made."""
    number, decision = run.decisions[position]
    withdrawn = {e.uid: e.number for e in run.history.entries[:number] if e.verb == WITHDRAW}
    newest = {d.gang: (n, d) for n, d in run.decisions[:position] if d.gang != decision.gang}
    return {
        victim.uid
        for decided_at, other in newest.values()
        if other.outcome == PREEMPT and all(withdrawn.get(p.uid, -1) < decided_at for p in other.placements)
        for victim in other.victims
    }


def room_for(
    now: Moment, decision: Decision, held: Sequence[Placement], stay: set[str], condemned: Collection[str] = ()
) -> dict[str, Amounts]:
    """What would be free on each node for the decided gang, with the pods ``stay`` (UIDs) besides it.

    Terminating pods and those that others remove are on their way out, whether or not this decision wants them to be.
    """
    free = {n.name: dict(n.allocatable) for n in now.nodes.values() if not n.unschedulable and n.ready}
    ours = {v.uid for v in decision.victims}
    gone = {p.uid for p in now.pods.values() if p.deleting_since is not None} | (ours - stay)
    gone.update(condemned)
    for pod in now.pods.values():
        if pod.bound and pod.uid not in gone:
            _take(free, pod.node, wants(pod))
    for placement in held:
        member = now.pods.get(placement.uid)
        if member is not None and not member.node and member.live:
            _take(free, placement.node, wants(member))
    return free


def _take(free: dict[str, Amounts], node: str, amounts: Amounts) -> None:
    room = free.get(node)
    if room is not None:
        for resource, units in amounts.items():
            room[resource] = room.get(resource, 0) - units
