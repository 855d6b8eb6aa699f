"""Whether the victims of a plan may still be evicted, and have to: asked again as long as they can be spared.

That is so before the first removal, before removals are repeated, and whenever something happens that matters to
removals that are on their way: they may have to wait, for their turn or for an API server that is busy. Those that are
not wanted any more are not sent: their pods are spared.

Gangs that only wait for the room of pods that leave are looked at again when other room is freed, and bound if they
fit. Those are gangs of which no write to a victim is on its way: they depend on other plans, or their victims have all
been removed, or marked and then kept. Nothing is looked at unless a node has room, beyond all that is kept, for one of
the members; of single pods that are alike only the first is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gangsched.core.actuation.actuator import Actuator
from gangsched.core.arrays import Floats
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.groups import Group, Plan
from gangsched.core.hints import Change, Hint
from gangsched.core.identity import Order
from gangsched.core.lifecycle.eviction import Phase, may_leave, unit_of
from gangsched.core.lifecycle.failures import Cause as Failed
from gangsched.core.lifecycle.run import Run
from gangsched.core.planning.decider import Decider
from gangsched.core.preemption.drained import budgets_of
from gangsched.core.preemption.removal import incomplete
from gangsched.core.state.simulation import Phantom
from gangsched.core.world.world import World, queue_order

#: What may give a gang room on a node although its victims stay; and what may give it room at all.
_ON_NODES = Hint.NODE_ADDED | Hint.NODE_ROOM | Hint.NODE_LABELS | Hint.NODE_TAINTS | Hint.ROOM
_ROOM = _ON_NODES | Hint.QUOTA


class _Look(NamedTuple):
    """How far a plan has come: the victims (UIDs) that are still there and of which no removal has been accepted, and
    the units of which a pod has been removed for it, or leaves since removals were asked for.
    """

    standing: list[str]
    begun: set[UnitRef | str]


class Rechecks:
    """Looks again at the plans of ``groups``."""

    def __init__(self, world: World, decider: Decider, run: Run, groups: Mapping[str, Group]) -> None:
        self._world = world
        self._decider = decider
        self._run = run
        self._groups = groups
        self._changed: set[str] = set()

    # -- between two phases --------------------------------------------------------------------------------

    def other_budgets(self, group: Group, plan: Plan) -> bool:
        """Do victims break budgets that allowed them when the plan was made? Then others may be better ones.

        A plan is made anew for a budget once in a round at most, lest one that changes all the time keeps it from going
        on for ever.
        """
        tightened = self._tightened(group, plan, self._look(group, plan))
        if tightened:
            group.failures.record(Failed.BUDGET)
        return tightened

    def goes_on(self, group: Group, plan: Plan) -> bool:
        """May all victims whose removal has not been asked for, or has come to nothing, be evicted now, and have to?"""
        return self._right(group, plan, self._look(group, plan))

    def _look(self, group: Group, plan: Plan, unanswered: Collection[str] = ()) -> _Look:
        """How far a plan has come. Removals of ``unanswered`` pods (UIDs) have been asked for and not been answered."""
        eviction, failures = plan.eviction, self._run.actuator.failures(plan.eviction.key)
        removed = eviction.accepted(unanswered, failures)
        standing = [pod.uid for pod in eviction.standing(self._world) if pod.uid not in removed]
        return _Look(standing, eviction.begun_units(self._world, unanswered, failures))

    def _right(self, group: Group, plan: Plan, now: _Look, room: bool = True) -> bool:
        """May the victims that stand all still be evicted? And does the gang need them to go, if ``room`` may have
        turned up?
        """
        world, unprotected = self._world, self._run.options.evict_daemonset_pods
        if not all(may_leave(world, world.pods[uid], group.gangs, unprotected) for uid in now.standing):
            return False
        if incomplete(plan.victims.values(), world) or self._other_size(group, plan, now):
            return False
        return not (room and self._needless(group, plan, now))

    def _other_size(self, group: Group, plan: Plan, now: _Look) -> bool:
        """Does the gang need more members than the plan is for, or fewer, and has no pod left for it yet?"""
        if not plan.required or now.begun:
            return False
        return plan.required != self._world.membership.lacking(group.gangs)

    def _needless(self, group: Group, plan: Plan, now: _Look) -> bool:
        """No pod is evicted any more when room has turned up since the plan was made. Units of which a pod has left
        for it leave whole. When no pod is left to be spared the plan stands: its room may be what has turned up, and
        given up it would be weaker work's until the nominations are withdrawn.
        """
        if not now.standing:
            return False
        if not now.begun:
            own = self._own(group, now.standing) or now.standing
            return self._decider.fits_without(group.gangs, group.key, self._run.now, plan.node_of, own) is not None
        leave = [uid for uid in plan.victims if uid in self._world.pods and unit_of(plan.victims[uid]) in now.begun]
        if not set(now.standing) - set(leave):
            return False
        return bool(self._decider.places_without(group.gangs, group.key, self._run.now, leave))

    def _tightened(self, group: Group, plan: Plan, now: _Look) -> bool:
        """Would victims that were within their budgets break them by now, and is there still time to choose others?
        Once a pod has been removed the list is finished.
        """
        if group.failures.count(Failed.BUDGET) or not self._world.budgets or now.begun:
            return False
        pods = [self._world.pods[uid] for uid in now.standing]
        beyond = budgets_of(self._world, group.key, plan.victims).beyond(pods)
        # Those that another plan takes too were charged to that one: who is beyond has changed, and not how many.
        return len(beyond) > sum(plan.victims[uid].over_budget for uid in now.standing)

    def _own(self, group: Group, uids: Sequence[str]) -> list[str]:
        """Those of these victims that leave for no plan that was made before."""
        counts_on = self._world.ledger.condemned.counts_on
        return [uid for uid in uids if not counts_on(uid, group.key)]

    # -- while removals are on their way -------------------------------------------------------------------

    def noted(self, changes: Sequence[Change]) -> None:
        """Something has happened: spare the victims that need not leave any more because of that."""
        for group, plan in self._evicting(self._run.actuator.removing()):
            self._spare_ended(group, plan, changes)
            doubts = [self._doubt(change, plan.victims) for change in changes]
            if any(doubts):
                self._spare_wrong(group, plan, room=_HELPS in doubts)

    def gang_changed(self, group: Group) -> None:
        """The gang itself is not what it was when its victims were chosen: :meth:`follow` looks at it."""
        if group.evicts(Phase.REMOVING):
            self._changed.add(group.key)

    def follow(self) -> None:
        """Spare victims of gangs that have changed, if these do not want them to leave any more."""
        changed, self._changed = self._changed, set()
        for group, plan in self._evicting(sorted(changed)):
            self._spare_wrong(group, plan, room=True)

    def _evicting(self, keys: Iterable[str]) -> Iterator[tuple[Group, Plan]]:
        """Those of the groups that evict, with their plans."""
        for key in keys:
            group = self._groups.get(key)
            if group is not None and group.plan is not None and group.evicts(Phase.REMOVING):
                yield group, group.plan

    def _doubt(self, change: Change, victims: Mapping[str, Victim]) -> int:
        """What a change may mean for a plan with these victims."""
        pod = change.pod
        if pod is not None and pod.uid in victims:
            known = self._world.pods.get(pod.uid)
            return _VICTIM if known is not None and known.live else 0
        if pod is None and change.kind & (Hint.VICTIMS | Hint.BUDGET):
            return _VICTIM
        if not change.kind & _ROOM:
            return 0
        if pod is None:
            return _HELPS
        # Room for which a gang waits is held for them; that of a pod which terminated was counted on before it went.
        expected = pod.uid not in self._world.pods and pod.deleting_since is not None
        return 0 if expected or pod.uid in self._world.ledger.awaited else _HELPS

    def _spare_ended(self, group: Group, plan: Plan, changes: Sequence[Change]) -> None:
        """A victim that has ended by itself need not be removed, and one that is gone cannot be."""
        touched = {change.pod.uid for change in changes if change.pod is not None and change.pod.uid in plan.victims}
        ended = {uid for uid in touched if (pod := self._world.pods.get(uid)) is None or pod.finished}
        if ended:
            removals = self._run.actuator.removals(group.key)
            self._run.actuator.spare(group.key, [r for r in removals if r.pod.uid in ended])

    def _spare_wrong(self, group: Group, plan: Plan, *, room: bool) -> None:
        """Spare those whose removals wait, if these are not right any more, and leave no unit half gone that may go
        whole. What becomes of the plan is seen when the last of them has been answered: some may have been carried out.
        """
        removals = self._run.actuator.removals(group.key)
        if not removals:
            return
        now = self._look(group, plan, {uid for removal in removals for uid in plan.eviction.meant(removal.pod.uid)})
        if self._tightened(group, plan, now) or not self._right(group, plan, now, room):
            self._run.actuator.spare(group.key, removals)


_VICTIM, _HELPS = 1, 2


# -- gangs that wait ---------------------------------------------------------------------------------------


class NominatedGangs:
    """Of ``groups`` those that something has happened for since they were decided."""

    def __init__(self, world: World, actuator: Actuator, groups: Mapping[str, Group]) -> None:
        self._world = world
        self._actuator = actuator
        self._groups = groups
        self._helped: dict[str, Order] = {}

    def noted(self, changes: Sequence[Change]) -> None:
        """Something has happened that may help."""
        rooms = [
            free
            for node in sorted({change.node for change in changes if change.kind & _ON_NODES and change.node})
            if (free := self._left_over(node)) is not None
        ]
        quota = any(change.kind & Hint.QUOTA for change in changes)
        if not rooms and not quota:
            return
        alike: dict[tuple[object, ...], Order] = {}
        for group in self._waiting():
            if not (quota and self._world.managed.is_managed(group.gangs)) and not self._fits_one(group, rooms):
                continue
            order = queue_order(self._world, group.gangs)
            if not group.single:
                self._helped[group.key] = order
                continue
            signature = (group.gangs[0].scheduler, order[0], *(p.pod.ident for p in self._kept(group)))
            alike[signature] = min(order, alike.get(signature, order))
        self._helped.update((order[2], order) for order in alike.values())

    def first(self) -> tuple[Order, Group] | None:
        """The first in the queue of those that can be looked at now."""
        for order in sorted(self._helped.values()):
            group = self._groups.get(order[2])
            if group is None or not group.evicts(*Phase):
                del self._helped[order[2]]
            elif self._quiet(group):
                return order, group
        return None

    def stopped(self, group: Group) -> None:
        """Its victims are marked, and need not leave (any more), or may not. It keeps its room until it is looked at:
        weaker gangs would take it, or the quota that they have given up with theirs.
        """
        self._helped[group.key] = queue_order(self._world, group.gangs)

    def looked_at(self, group: Group) -> None:
        """Until something else happens there is nothing to be found for this one."""
        self._helped.pop(group.key, None)

    def _waiting(self) -> Iterator[Group]:
        for key in self._world.ledger.holders():
            group = self._groups.get(key)
            if group is not None and key not in self._helped and group.evicts(*Phase):
                yield group

    def _kept(self, group: Group) -> Sequence[Phantom]:
        return self._world.ledger.pods_of(group.key)

    def _fits_one(self, group: Group, rooms: Sequence[Floats]) -> bool:
        """Is there room for any member in one of these?"""
        for shape in {id(p.pod.shape): p.pod.shape for p in self._kept(group)}.values():
            index, amounts = self._world.snapshot.vector(shape)
            if any((room[index] >= amounts).all() for room in rooms):
                return True
        return False

    def _left_over(self, node: str) -> Floats | None:
        """``(R,)`` what a node has beyond all that is on it and all that is kept; None if that is nothing."""
        snapshot = self._world.snapshot
        snapshot.settle()
        row = snapshot.row_of.get(node)
        if row is None:
            return None
        free: Floats = snapshot.allocatable[:, row] - snapshot.used[:, row]
        for held in self._world.ledger.kept_on(node):
            index, amounts = snapshot.vector(held.pod.shape)
            np.subtract.at(free, index, amounts)
        return free if (free > 0).any() else None

    def _quiet(self, group: Group) -> bool:
        """Is no write to a victim, or of a nomination, on its way, and none about to be sent? When the marks are all
        there, those who may go on have asked for removals: who has not is stopped.
        """
        waits = group.evicts(Phase.NOMINATING, Phase.NOTICE, Phase.LEAVING) and self._world.ledger.waits(group.key)
        return bool(waits or group.evicts(Phase.MARKING)) and self._actuator.settled(group.key)
