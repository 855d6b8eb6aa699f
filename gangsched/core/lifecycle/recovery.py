"""Recovery: records of an earlier process on pods are read back into plans.

The intent records of the members say where they were to go, the marks of the victims who was to leave for them. A
nomination without an intent record is only a preference and holds nothing. A suspended Job has no members with a
record: its plan is read from the marks alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from gangsched.core.actuation.records import EvictionOwner, Intent, intent_of, owners_of
from gangsched.core.decision import Placement, UnitRef, Victim
from gangsched.core.ledger.condemned import Cause, Grounds
from gangsched.core.lifecycle.binding import enough
from gangsched.core.lifecycle.group import Group, Plan
from gangsched.core.planning.context import KnownPlan
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.job_failures import failing
from gangsched.core.preemption.removal import SUSPEND
from gangsched.core.quota.preemption import IN_QUEUE, RECLAMATION
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
        self._condemned = decider.ledger.condemned
        self._decider = decider
        self.owned: list[tuple[Pod, list[EvictionOwner]]] = []
        self._by_owner: dict[tuple[str, str], list[tuple[Pod, EvictionOwner]]] = {}
        for pod in sorted(world.pods.values(), key=lambda pod: pod.key):
            owners = [owner for owner in owners_of(pod) if owner.scheduler in world.membership.ours]
            if owners:
                self.owned.append((pod, owners))
            for owner in owners:
                if owner.cause == Cause.PREEMPTION.value:
                    self._by_owner.setdefault((owner.scheduler, owner.name), []).append((pod, owner))

    def plan(self, group: Group) -> Plan | None:
        """The plan of a gang that waits to be decided, as its records have it; None where it is to be decided anew.

        Every required member is nominated, and all of them fit on their nodes once the marked pods and those that
        terminate have left. The need for the marked pods is checked as for any other plan.
        """
        intent, placements = self._nominations(group)
        needs_more = any(self._world.membership.lacking(group.gangs))
        if intent is None or not needs_more or not enough(self._world, group.gangs, {p.uid for p in placements}):
            return None
        known = self._by_owner.get((group.gangs[0].scheduler, group.name), ())
        marked = [(pod, o) for pod, o in known if o.plan == intent.plan and pod.bound and self._means(o, group)]
        victims = [self._victim(pod, o, group.gangs) for pod, o in marked if pod.gang not in group.gangs]
        leaving = any(pod.deleting_since is not None for pod, _ in marked)
        if not self._decider.still_holds(KnownPlan(group.gangs, placements, [v.uid for v in victims])).holds:
            return None
        if not leaving and (self._in_part(victims) or failing(victims, self._world, self._condemned)):
            return None  # marking had not come to an end, or no decision may have warned of Jobs that fail
        plan = Plan(placements, group.eviction(intent.plan, victims))
        plan.nominated = {p.uid: p.node for p in placements}
        plan.eviction.begins = max((parse_time(o.not_before, "") for _, o in marked), default=0.0)
        plan.eviction.begun = leaving
        return plan

    def _in_part(self, victims: Sequence[Victim]) -> bool:
        """Return whether others stay of a gang that leaves as a whole with these."""
        uids, pods = {v.uid for v in victims}, self._world.pods
        gangs = {pods[v.uid].gang for v in victims if not v.partial}
        whole = (gang for gang in gangs if gang.family != SINGLE)
        return any(p.uid not in uids for gang in whole for p in self._world.membership.census(gang).bound)

    def begun_gangs(self) -> Iterator[tuple[GangId, Grounds]]:
        """The gangs that leave as a whole and of which a member was removed, as the marks of the others, or of those
        that terminate, say.
        """
        for (scheduler, name), marked in self._by_owner.items():
            live = Counter((o.plan, o.kind, o.unit) for pod, o in marked if pod.live)
            below = max((pod.priority for pod, _ in marked), default=0) + 1
            for pod, o in marked:
                lost = pod.deleting_since is not None or live[o.plan, o.kind, o.unit] < o.pods
                if lost and o.kind and not o.partial:
                    yield pod.gang, Grounds(Cause.PREEMPTION, name, scheduler, o.plan, o.trigger, below)

    def _victim(self, pod: Pod, owner: EvictionOwner, gangs: Sequence[GangId]) -> Victim:
        """The victim as its mark has it. With a Job that has been suspended since it leaves in any case."""
        job = self._world.jobs.owner_of(pod)
        method = SUSPEND if job is not None and job.suspended else owner.method
        unit = UnitRef(owner.kind or "Pod", owner.unit or pod.key)
        victim = Victim.of(pod, unit, _WHY, partial=owner.partial, method=method)
        return msgspec.structs.replace(victim, reason=self._reason(pod, gangs) or victim.reason)

    def _reason(self, pod: Pod, gangs: Sequence[GangId]) -> str:
        """Return by which rule of quota a victim leaves for these gangs, which its mark does not say. A victim with
        quota leaves by these rules alone, if the preemptor needs quota too. It is empty for others.
        """
        managed, (theirs, _) = self._world.managed, self._world.membership.group(pod.gang)
        if not managed.is_managed(gangs) or not managed.is_managed(theirs):
            return ""
        queues = {managed.quota.queue_of(g[0].namespace, managed.labels_of(g).local_queue)[0] for g in (gangs, theirs)}
        return IN_QUEUE if len(queues) == 1 else RECLAMATION

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

    def _means(self, owner: EvictionOwner, group: Group) -> bool:
        """Groups of different APIs may have the same name: the gang's trigger pod says which is meant."""
        namespace, _, name = owner.trigger.partition("/")
        trigger = self._world.find(namespace, name)
        return trigger is None or trigger.gang in group.gangs


def _age(plan: str) -> tuple[int, int]:
    """Plans by the time in their id, then by its number; ids that are not ours come first."""
    moment, _, number = plan.partition("-")
    try:
        return int(moment, 16), int(number)
    except ValueError:
        return -1, -1
