"""The pods that are evicted with a workload whose queue is stopped, and how. There is no preemptor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.decision import Victim, names_of
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import ref_of
from gangsched.core.preemption.harm import Budgets
from gangsched.core.quota.stop_policy import Stop, drained_queues
from gangsched.core.quota.stop_policy import leaving as workloads
from gangsched.messages import causes
from gangsched.model.records import GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.world.world import World
from gangsched.core.preemption.removal import budgets_of, by_suspension

#: No priority protects a pod: it leaves because its queue is stopped, without a preemptor.
_ABOVE_ALL = 2**31


class DrainPlan(msgspec.Struct, frozen=True):
    """A workload that has to leave as a whole, by the UID under which it holds quota.

    ``blocked`` says why it cannot now: then there are no ``victims``.
    """

    uid: str
    gangs: tuple[GangId, ...]
    stop: Stop
    victims: tuple[Victim, ...]
    blocked: str = ""

    @property
    def name(self) -> str:
        """``namespace/name`` of its gangs, joined by commas."""
        return names_of(self.gangs)


def standing(world: World, uid: str) -> list[Pod]:
    """The pods of a workload that run and do not leave already, alone or with their Job, by gang and name."""
    out = []
    for pod in world.managed.pods_of(uid):
        if pod.bound and pod.live:
            owner = world.jobs.owner_of(pod)
            if owner is None or not owner.suspended:
                out.append(pod)
    return out


def movable(pods: Sequence[Pod], options: Options) -> bool:
    """Return True if none of these pods starts again in place after its removal. A static pod and a DaemonSet's pod do.

    Marks against preemption do not count here, because there is no preemptor.
    """
    daemons = (p.owner is not None and p.owner.kind == "DaemonSet" for p in pods)
    return not any(p.static for p in pods) and (options.evict_daemonset_pods or not any(daemons))


def leaving(
    world: World,
    condemned: Condemned,
    options: Options,
    uid: str,
    stop: Stop,
    pods: Sequence[Pod],
    budgets: Budgets,
    also: Sequence[Pod] = (),
) -> DrainPlan:
    """How a workload leaves of which these pods still run; ``also`` are others that draw on the same budgets, and are
    not charged to them.

    Where budgets may not be broken it leaves when they let all of its pods go, and not before.
    """
    gangs = world.managed.gangs_of(uid)
    unit, why = ref_of(world.membership, gangs), causes.stopped_and_drained(stop=stop)
    found = [Victim.of(pod, unit, why, method=options.removal, reason=stop.reason) for pod in pods]
    victims = by_suspension(found, world, condemned, options, _ABOVE_ALL, budgets)
    all_pods = [world.pods[v.uid] for v in victims]
    beyond = (budgets.beyond([*also, *all_pods]) - budgets.beyond(also)) if budgets else set()
    if options.strict_budgets and budgets:
        if any(len(budgets.selecting(p)) > 1 for p in all_pods):
            return DrainPlan(uid, gangs, stop, (), causes.SEVERAL_BUDGETS)
        if beyond:
            keys = sorted({key for p in all_pods if p.uid in beyond for key in budgets.keys(p)})
            text = causes.budget_refuses_all(names=", ".join(keys) or "a PodDisruptionBudget", count=len(all_pods))
            return DrainPlan(uid, gangs, stop, (), text)
    marked = tuple(msgspec.structs.replace(v, over_budget=v.uid in beyond, reason=stop.reason) for v in victims)
    return DrainPlan(uid, gangs, stop, marked)


def all_leaving(world: World, condemned: Condemned, options: Options) -> Iterator[DrainPlan]:
    """All pods that are evicted because of a stopped queue now, in this order."""
    if not world.managed.active:
        return
    world.managed.update_holdings()
    budgets = budgets_of(world, condemned)
    for uid, stop in list(workloads(world.managed, drained_queues(world.managed.quota))):
        pods = standing(world, uid)
        if pods and movable(pods, options):
            found = leaving(world, condemned, options, uid, stop, pods, budgets)
            budgets.charge(world.pods[v.uid] for v in found.victims if not v.over_budget)
            yield found
