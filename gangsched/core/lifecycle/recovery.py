"""What an earlier process of this scheduler has left behind: its records on pods, read back into plans.

The intent records of the members say where they were to go, the marks of the victims who was to leave for them. A
nomination without an intent record is only a preference and holds nothing. A suspended Job has no members with a
record: its plan is read from the marks alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import msgspec

from gangsched.core.actuation.records import Intent, Owner, intent_of, owners_of
from gangsched.core.decision import Placement, UnitRef, Victim
from gangsched.core.ledger.condemned import Cause, Eviction
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.binding import enough
from gangsched.core.lifecycle.group import Group, Plan
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, mode_of, ref_of
from gangsched.core.preemption.explain import failing
from gangsched.core.preemption.removal import SUSPEND, as_begun, budgets_of
from gangsched.messages import notes
from gangsched.model.records import SINGLE, GangId, Pod
from gangsched.model.times import parse_time

_WHY = notes.MARKED_EARLIER


class Recovery:
    """Made once, from a complete picture of the cluster, before the first decision.

    ``owned`` are the pods that evictions of ours have made to leave, each with those, in name order.
    """

    def __init__(self, decider: Decider) -> None:
        self._world = world = decider.world
        self._decider = decider
        self.owned: list[tuple[Pod, list[Owner]]] = []
        self._by_owner: dict[tuple[str, str], list[tuple[Pod, Owner]]] = {}
        for pod in sorted(world.pods.values(), key=lambda pod: pod.key):
            owners = [owner for owner in owners_of(pod) if owner.scheduler in world.membership.ours]
            if owners:
                self.owned.append((pod, owners))
            for owner in owners:
                if owner.cause == Cause.PREEMPTION.value:
                    self._by_owner.setdefault((owner.scheduler, owner.name), []).append((pod, owner))

    def plan(self, group: Group) -> Plan | None:
        """The plan of a gang that waits to be decided, if it can be finished exactly as it was begun; else None.

        That is so while every required member is nominated and all of them still fit on their nodes once the pods
        that are marked for them have left. As long as no pod has been removed, a plan whose marks may be incomplete, or
        by which Jobs would fail, of which it may not have warned, is not finished. Whether its victims still have to
        leave is asked as of any other plan, when all are known.
        """
        if group.without_pods:
            return self._plan_of_job(group)
        intent, placements = self._nominations(group)
        needs_more = any(self._world.membership.lacking(group.gangs))
        if intent is None or not needs_more or not enough(self._world, group.gangs, {p.uid for p in placements}):
            return None
        said, leaving, victims = self._owned_by(group, intent.plan)
        fewer = not leaving and len(victims) < intent.victims
        if victims and fewer and any(self._torn(victims, said)):
            return None
        if leaving:
            unmarked = self._unmarked((*victims, *leaving), said)
            if len(victims) + len(leaving) + len(unmarked) <= intent.victims:
                victims += unmarked
        staying = [p.uid for p in victims]
        if not self._decider.still_holds(group.gangs, placements, staying):
            return None
        begins = max((parse_time(o.not_before, "") for o in said.values()), default=0.0)
        halved = self._halved([(p, said[p.uid]) for p in victims if p.uid in said and not said[p.uid].partial])
        chosen = self._as_begun(group, (*victims, *leaving), said)
        if not (leaving or fewer) and failing(chosen, self._world):
            return None
        plan = Plan(placements, group.eviction(intent.plan, chosen))
        plan.nominated = {p.uid: p.node for p in placements}
        plan.eviction.begins = begins
        _size(plan.eviction, said.values())
        plan.eviction.announced = bool(leaving)
        plan.eviction.left = {p.uid for p in leaving}
        plan.eviction.left |= {v.uid for v in chosen if v.unit in halved}
        return plan

    def _plan_of_job(self, group: Group) -> Plan | None:
        """A suspended Job has no members to nominate: only its victims bear a record. What was begun to be removed is
        finished, and the room for its pods is where they fit then.
        """
        known = self._by_owner.get((group.gangs[0].scheduler, group.name), ())
        ident = max((owner.plan for _, owner in known), key=_age, default="")
        said, leaving, victims = self._owned_by(group, ident)
        suspended = (self._world.jobs.owner_of(p) for p in victims)
        if not victims or not (leaving or any(job is not None and job.suspended for job in suspended)):
            return None
        staying = [p.uid for p in victims]
        placements = self._decider.places_without(group.gangs, staying)
        if not placements:
            return None
        chosen = self._as_begun(group, (*victims, *leaving), said)
        plan = Plan(placements, group.eviction(ident or f"{int(self._world.now * 1000):x}-0", chosen))
        plan.eviction.announced = True
        plan.eviction.left = {p.uid for p in leaving}
        return plan

    def abandoned(self, known: Container[str]) -> Iterator[Eviction]:
        """What stands of units of which pods leave by a plan that is none of these (ids): its gang may be gone."""
        for (scheduler, name), marked in self._by_owner.items():
            for ident in sorted({owner.plan for _, owner in marked if owner.plan and owner.plan not in known}):
                whole = [(p, o) for p, o in marked if o.plan == ident and o.kind and not o.partial]
                units = {_unit_of(o) for p, o in whole if p.deleting_since is not None} | self._halved(whole)
                victims = [self._on_record(self._victim(p, partial=False), o) for p, o in whole if p.live]
                begun = [v for v in victims if v.unit in units]
                found = Eviction(Cause.PREEMPTION, notes.rest_of(plan=ident), name, scheduler, ident, begun)
                found.trigger, found.priority = whole[0][1].trigger if whole else "", -math.inf
                found.mark = report.mark_message(scheduler, name, found.trigger)
                found.acknowledged = {p.uid for p, _ in whole if p.disruption_target} & found.victims.keys()
                found.left = set(found.victims)
                _size(found, (owner for _, owner in whole))
                yield found.rest(begun)

    def _halved(self, marked: Sequence[tuple[Pod, Owner]]) -> set[UnitRef]:
        """Of units that leave as a whole, with those who are marked for that, the gangs that have lost members of the
        list, and too many of them for the others to go on. While they have notice no pod has been removed, nor before
        they are marked afterwards; who never had any was marked at once, and others may have taken that back. A mark
        that was taken back when the notice was over has stood then.
        """
        there, uids = Counter(_unit_of(o) for _, o in marked), {p.uid for p, _ in marked}
        marks = [p.disruption for p, _ in marked if p.disruption is not None]
        since = max((self._world.now if mark.status == "True" else mark.since for mark in marks), default=0.0)
        begun = [(p, o) for p, o in marked if parse_time(o.not_before, "") <= since]
        lost = [(p, o) for p, o in begun if there[_unit_of(o)] + self._ended_since(p.gang, o, uids) < o.pods]
        gangs = {p.gang: _unit_of(o) for p, o in lost if self._may_be_halved(p.gang)}
        stay = self._staying(list(gangs), uids)
        return {unit for gang, unit in gangs.items() if not stay[gang]}

    def _ended_since(self, gang: GangId, owner: Owner, marked: Container[str]) -> int:
        """How many of the group of this gang have ended by themselves since the plan was made, and bear no mark."""
        membership, (made, _) = self._world.membership, _age(owner.plan)
        pods = (pod for each in membership.group(gang)[0] for pod in membership.pods(each) if pod.uid not in marked)
        return sum(p.finished and p.deleting_since is None and 1000 * p.ended >= made >= 0 for p in pods)

    def _as_begun(self, group: Group, pods: Sequence[Pod], said: Mapping[str, Owner]) -> list[Victim]:
        """These as victims: of the unit, and by the method, that stand on them. Where version 0.1 has marked them
        that is worked out anew, and for those who bear no mark any more. What budgets allowed when they were chosen is
        not on record: those who are beyond one now were chosen in spite of it.
        """
        world, budgets = self._world, budgets_of(self._world)
        chosen, beyond = {p.uid for p in pods}, budgets.beyond([p for p in pods if p.live])
        found = [self._victim(p, partial=self._goes_on(p.gang, chosen, said), over=p.uid in beyond) for p in pods]
        found = as_begun(found, world, self._decider.options, group.gangs, budgets)
        return [self._on_record(victim, said[victim.uid]) if victim.uid in said else victim for victim in found]

    def _on_record(self, victim: Victim, owner: Owner) -> Victim:
        """The victim as its mark has it. With a Job that has been suspended since it leaves in any case."""
        job = self._world.jobs.owner_of(self._world.pods[victim.uid])
        method = SUSPEND if job is not None and job.suspended else owner.method
        return msgspec.structs.replace(victim, unit=_unit_of(owner), partial=owner.partial, method=method)

    def _nominations(self, group: Group) -> tuple[Intent | None, list[Placement]]:
        """The newest plan on record, and where it has nominated members to; older records are stale."""
        found: dict[Intent, list[Placement]] = {}
        for gang in group.gangs:
            for pod in self._world.membership.census(gang).pending:
                intent = intent_of(pod)
                if intent is not None:
                    place = Placement(pod.namespace, pod.name, pod.uid, pod.nominated_node)
                    known = Intent(intent.plan, intent.victims)
                    found.setdefault(known, []).append(place)
        if not found:
            return None, []
        newest = max(found, key=lambda intent: (_age(intent.plan), intent))
        return newest, found[newest]

    def _owned_by(self, group: Group, plan: str) -> tuple[dict[str, Owner], list[Pod], list[Pod]]:
        """The victims of this plan, and those of which only the gang is known for which they leave: what stands on them
        of their unit, by UID; those who terminate; and those who stand.
        """
        known = self._by_owner.get((group.gangs[0].scheduler, group.name), ())
        marked = [(pod, owner) for pod, owner in known if owner.plan in (plan, "") and self._means(owner, group)]
        said = {pod.uid: owner for pod, owner in marked if owner.kind}
        leaving = [pod for pod, _ in marked if pod.bound and pod.deleting_since is not None]
        return said, leaving, [pod for pod, _ in marked if pod.bound and pod.live and pod.gang not in group.gangs]

    def _means(self, owner: Owner, group: Group) -> bool:
        """Groups of different APIs may have the same name: the gang's trigger pod says which is meant."""
        namespace, _, name = owner.trigger.partition("/")
        trigger = self._world.find(namespace, name)
        return trigger is None or trigger.gang in group.gangs

    def _torn(self, chosen: Sequence[Pod], said: Mapping[str, Owner]) -> Iterator[GangId]:
        """Gangs that leave as a whole and of which only a part is among these: marking them may not have come to an
        end, or others have taken marks back.
        """
        uids = {p.uid for p in chosen}
        groups = {self._world.membership.group(p.gang)[0] for p in chosen if p.gang.family != SINGLE}
        return (gang for gangs in sorted(groups) if self._leaves_whole(gangs, uids, said) for gang in gangs)

    def _unmarked(self, chosen: Sequence[Pod], said: Mapping[str, Owner]) -> list[Pod]:
        """Those who leave with these and bear no mark any more. Who came when the first had been deleted, by the one
        clock that stamps both, was never on the list.
        """
        uids = {p.uid for p in chosen}
        begun = min((p.deleted_at for p in chosen if p.deleted_at is not None), default=0)
        return [pod for gang in self._torn(chosen, said) for pod in self._others(gang, uids) if pod.created < begun]

    def _goes_on(self, gang: GangId, chosen: Container[str], said: Mapping[str, Owner]) -> bool:
        """Does any pod stay of the group of this gang, of which only these pods were chosen?"""
        if gang.family == SINGLE:
            return False
        gangs, _ = self._world.membership.group(gang)
        return any(self._staying(gangs, chosen).values()) and not self._leaves_whole(gangs, chosen, said)

    def _staying(self, gangs: Sequence[GangId], chosen: Container[str]) -> dict[GangId, int]:
        """How many of each gang are bound and were not chosen."""
        return {gang: len(self._others(gang, chosen)) for gang in gangs}

    def _others(self, gang: GangId, chosen: Container[str]) -> list[Pod]:
        """Members that are bound and were not chosen. Pods of nodes that are gone never bore a mark."""
        bound, node = self._world.membership.census(gang).bound, self._world.snapshot.node
        return [pod for pod in bound if pod.uid not in chosen and node(pod.node) is not None]

    def _leaves_whole(self, gangs: Sequence[GangId], chosen: Container[str], said: Mapping[str, Owner]) -> bool:
        """Of a group of which only these pods were chosen: do the others leave with them?"""
        staying = self._staying(gangs, chosen)
        if not any(staying.values()):
            return False
        membership = self._world.membership
        uids = {pod.uid for gang in gangs for pod in membership.pods(gang)} & said.keys()
        if uids:
            return not all(said[uid].partial for uid in uids)
        taken = {gang for gang in gangs if any(p.uid in chosen for p in membership.census(gang).bound)}
        return any(self._does_not_live_with(gang, staying[gang]) for gang in taken)

    def _does_not_live_with(self, gang: GangId, staying: int) -> bool:
        """Do so few members of a gang stay that its whole group leaves?"""
        spec = self._world.membership.spec(gang)
        mode = mode_of(spec, self._decider.options)
        if mode == ELASTIC:
            return spec is None or staying < spec.min_member
        return mode == ATOMIC

    def _may_be_halved(self, gang: GangId) -> bool:
        """May a gang have lost members to a list that others of it are on? Those leave with them, needed or not."""
        membership = self._world.membership
        if gang.family == SINGLE:
            return False
        below = self._does_not_live_with(gang, len(membership.census(gang).bound))
        return below or membership.half_bound(membership.group(gang)[0])

    def _victim(self, pod: Pod, *, partial: bool, over: bool = False) -> Victim:
        membership = self._world.membership
        unit = ref_of(membership, (pod.gang,) if partial else membership.group(pod.gang)[0])
        return Victim.of(pod, unit, _WHY, partial=partial, over_budget=over)


def _unit_of(owner: Owner) -> UnitRef:
    return UnitRef(owner.kind, owner.unit)


def _size(eviction: Eviction, owners: Iterable[Owner]) -> None:
    """Units had as many pods as its marks say."""
    for owner in owners:
        unit = _unit_of(owner)
        eviction.sizes[unit] = max(eviction.sizes[unit], 0 if owner.partial else owner.pods)


def _age(plan: str) -> tuple[int, int]:
    """Plans by the time in their id, then by its number; ids that are not ours come first."""
    moment, _, number = plan.partition("-")
    try:
        return int(moment, 16), int(number)
    except ValueError:
        return -1, -1
