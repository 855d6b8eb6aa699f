"""The verdict on a plan before (further) victims are removed, and whether its places are still valid.

The one place of the life cycle that asks the planner about a plan. It checks the decision with the plan as the known
answer: whether its gang fits without the remaining victims, and whether the facts behind their choice have changed.
After the first removal pods that terminate are room, and the rest of the list stands or the gang is decided anew.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from gangsched.core.decision import BIND, WAIT, Placement, Verdict, Victim
from gangsched.core.lifecycle.evicting import may_leave
from gangsched.core.lifecycle.group import Failed, Group, Plan, Read
from gangsched.core.lifecycle.table import State
from gangsched.core.planning.context import KnownPlan, Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.blocks import mode_of
from gangsched.core.preemption.job_failures import failing
from gangsched.core.preemption.removal import budgets_of, incomplete
from gangsched.model.records import SINGLE, GangId, Pod


class Review(enum.Enum):
    """The verdict on a plan."""

    KEEP = "keep"  # its victims may leave, and its gang needs them to
    BIND = "bind"  # its gang fits without the victims that stand
    REPLACE = "replace"  # its gang is to be decided anew


class Reviews:
    """Looks again at plans."""

    def __init__(self, decider: Decider) -> None:
        self._world = decider.world
        self._ledger = decider.ledger
        self._options = decider.options
        self._decider = decider

    def verdict(self, group: Group, plan: Plan) -> Review:
        """The verdict on a plan before (further) victims are removed."""
        world, eviction = self._world, plan.eviction
        standing = eviction.to_go(world.pods)
        unprotected = self._options.evict_daemonset_pods
        if not all(may_leave(world, pod, group.gangs, unprotected) for pod in standing):
            return Review.REPLACE
        if incomplete([plan.victims[pod.uid] for pod in standing], plan.victims, world):
            return Review.REPLACE
        victims = [plan.victims[pod.uid] for pod in standing]
        if any(
            job.uid not in plan.read.failing for job, *_ in failing(victims, world, self._ledger.condemned, group.key)
        ):
            return Review.REPLACE
        if not eviction.begun and self._changed(group, plan, standing):
            return Review.REPLACE
        if standing and not any(world.membership.lacking(group.gangs)):
            return Review.REPLACE
        return Review.BIND if standing and self.without(group, plan) is not None else Review.KEEP

    def without(self, group: Group, plan: Plan) -> Verdict | None:
        """The decision to run the gang without the victims that stand; None if that cannot be. Victims of later plans
        do not count, because those plans would have to evict others instead.
        """
        stay = {pod.uid for pod in plan.eviction.to_go(self._world.pods)}
        until = self._world.now + self._options.max_wait_seconds
        found = self._decider.decide(Question(group.gangs, may_preempt=False, prefer=plan.node_of, wait_until=until))
        if found.outcome not in (BIND, WAIT) or any(each.uid in stay for each in found.awaiting):
            return None
        owners = (self._ledger.condemned.owned_by(each.uid) for each in found.awaiting)
        later = any(owner is not None and owner.number > plan.eviction.number for owner in owners)
        return None if later else found

    def at_once(self, group: Group, plan: Plan) -> Verdict | None:
        """The decision to bind the gang in room that is there; None if there is none."""
        found = self._decider.decide(Question(group.gangs, at_once=True, prefer=plan.node_of, holding=True))
        return found if found.outcome == BIND else None

    def holds(self, group: Group, plan: Plan, places: Sequence[Placement] | None = None) -> bool:
        """Return whether the plan's members still fit on their nodes, once the pods that it waits for are gone. A gang
        that only waits for its volumes, or of which ``places`` are bound anew, counts on no pod to leave.
        """
        awaits = group.state is not State.PREBINDING and places is None
        waits = self._ledger.waits(group.key) if places is None else ()
        asked = plan.placements if places is None else places
        return self._decider.still_holds(KnownPlan(group.gangs, asked, waits, awaits)).holds

    # -- facts behind a choice of victims ------------------------------------------------------------------

    def read(self, gangs: Sequence[GangId], key: str, victims: Mapping[str, Victim]) -> Read:
        """Return the facts behind the choice of these victims, beside room, for the plan with this key."""
        world = self._world
        required = world.membership.lacking(gangs)
        if not victims:
            return Read(required)
        fails = frozenset(job.uid for job, *_ in failing(victims.values(), world, self._ledger.condemned, key))
        pods = [pod for uid in victims if (pod := world.pods.get(uid)) is not None]
        budgets: dict[str, float] = {}
        if world.budgets:
            found = budgets_of(world, self._ledger.condemned, key, victims)
            budgets = {each: found.allowed[each] for each in found.draws(pods)}
        return Read(required, tuple(self._staying(pods, key, victims)), fails, budgets)

    def _staying(self, pods: Iterable[Pod], key: str, victims: Mapping[str, Victim]) -> Iterable[tuple[object, ...]]:
        """Of each gang of these victims how it may be taken apart, and how many others of it run."""
        world, counts_on = self._world, self._ledger.condemned.counts_on
        for gang in sorted({pod.gang for pod in pods if pod.gang.family != SINGLE}):
            spec, bound = world.membership.spec(gang), world.membership.census(gang).bound
            stay = sum(p.uid not in victims and not counts_on(p.uid, key) for p in bound)
            yield gang, mode_of(spec, self._options), spec.min_member if spec is not None else 0, stay

    def _changed(self, group: Group, plan: Plan, standing: Sequence[Pod]) -> bool:
        """Return whether that is not what it was when the plan was made. A plan is made again for that once in a round.
        Otherwise permanent changes would keep a gang from continuing.
        """
        now, then = self.read(group.gangs, group.key, plan.victims), plan.read
        if now.required != then.required:
            return True
        if group.failures.count(Failed.CHANGED):
            return False
        if now.gangs != then.gangs:
            return True
        return any(allowed < then.budgets.get(key, allowed) for key, allowed in now.budgets.items()) and self._beyond(
            group, plan, standing
        )

    def _beyond(self, group: Group, plan: Plan, standing: Sequence[Pod]) -> bool:
        """Return whether more victims are beyond a budget than the plan has announced."""
        budgets = budgets_of(self._world, self._ledger.condemned, group.key, plan.victims)
        said = budgets.draws(pod for pod in standing if plan.victims[pod.uid].over_budget)
        return any(count - budgets.allowed[key] > said[key] for key, count in budgets.draws(standing).items())
