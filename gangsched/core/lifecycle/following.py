"""How the gangs under way follow the cluster: gangs that appear, change, regroup and vanish, and pods that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gangsched.core.groups import Group, Plan
from gangsched.core.identity import group_key
from gangsched.core.lifecycle import admitted_by_kueue, suspension, telling
from gangsched.core.lifecycle.eviction import Phase
from gangsched.core.lifecycle.rechecks import Rechecks
from gangsched.core.lifecycle.steps import Steps
from gangsched.core.lifecycle.table import HOLDING, Do, Signal, State
from gangsched.core.lifecycle.underway import UnderWay
from gangsched.core.state.world import World
from gangsched.model.records import GangId, Pod

_RESTING = (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND)


class Following:
    """Looks at gangs and pods that were touched, and gives their groups the signals that follow from that."""

    def __init__(self, world: World, steps: Steps, under_way: UnderWay, rechecks: Rechecks) -> None:
        self._world = world
        self._steps = steps
        self._under_way = under_way
        self._signal = under_way.signal
        self._rechecks = rechecks

    # -- gangs ---------------------------------------------------------------------------------------------

    def refresh_all(self, gangs: Iterable[GangId]) -> None:
        """Look at all of these again, those of one group together."""
        seen: set[GangId] = set()
        for gang in sorted(gangs):
            if gang in seen:
                telling.object_status(self._steps, gang, self._under_way.of(gang))
            else:
                seen.update(self.refresh(gang))

    def refresh(self, gang: GangId) -> tuple[GangId, ...]:
        """Look at a gang again: which group it is in, whether everything is there, what it needs. Returns the gangs of
        its group: nothing is left to be done for them, but for the status of the others' objects.
        """
        if not self._world.membership.is_ours(gang):
            return ()
        membership = self._world.membership
        gangs, _ = membership.group(gang)
        key = group_key(gangs)
        self._steps.losses.touch(gangs)
        for left in self._regroup(gangs, key):
            self.refresh(left)
        group = self._under_way.groups.get(key)
        pending = any(membership.waits(g) for g in gangs)
        problem, look = "", tuple[object, ...]()
        if group is not None or pending:  # else it is of no interest any more
            problem, look = membership.problem(gangs), membership.look(gangs)
            if group is None or not group.rolled_back:  # all of those leave of their own accord
                problem = problem or self._losing(gangs)
        if group is None:
            if pending:
                group = self._under_way.begin(gangs)
                group.problem = problem
                group.look = look
                self._signal(group, Signal.SCATTERED if problem else Signal.GATHERED)
        else:
            other, group.look = look != group.look, look
            if other:
                group.likeness = None
                self._under_way.waking.moved(group)
            self._follow(group, problem, pending, other)
        telling.object_status(self._steps, gang, self._under_way.of(gang))
        admitted_by_kueue.tell(self._steps, gangs)
        return gangs

    def _losing(self, gangs: Sequence[GangId]) -> str:
        """Why members that wait may not join those that run: these are about to be evicted."""
        condemned, without = self._world.ledger.condemned, self._world.membership.without
        return next((text for gang in gangs if (text := without(gang, condemned))), "") if condemned else ""

    def _follow(self, group: Group, problem: str, pending: bool, other: bool) -> None:
        """A group that is known was touched; ``other`` says that its gangs are not what they were."""
        changed = problem != group.problem
        group.problem = problem
        if group.state is State.STARTING:
            self._follow_job(group)
            return
        leaving = group.rolled_back and group.plan is not None and group.plan.eviction.phase is not Phase.MARKING
        if group.state is State.BINDING or leaving:
            return  # members are bound, or leave, one after another; what is missing afterwards is seen then
        if other:
            self._rechecks.gang_changed(group)
        planned = group.state in HOLDING
        if planned and group.plan is not None and not self._as_planned(group, group.plan):
            self._signal(group, Signal.SCATTERED if problem or not pending else Signal.BROKEN)
        elif (problem and planned) or (problem and (changed or group.state is not State.GATHERING)):
            self._signal(group, Signal.SCATTERED)
        elif not problem:
            self._signal(group, Signal.GATHERED)
        if not pending and group.state in _RESTING:
            self._under_way.forget(group)
        elif pending and not problem and (group.state is State.BOUND or (group.state is State.BACKOFF and other)):
            self._signal(group, Signal.MORE)
        elif problem and pending:
            telling.where_it_stands(self._steps, group)
        elif other and group.state is State.QUEUED:
            self._steps.carry_out(Do.ENQUEUE, group)  # its place in the queue may be another now

    def _follow_job(self, group: Group) -> None:
        """A Job that goes on has no stand-ins any more; until its pods are there, only its end means anything."""
        gang = group.gangs[0]
        job = suspension.owner(self._steps, gang)
        if job is None or job.finished or suspension.suspended_anew(self._steps, job):
            self._under_way.forget(group)
            self.refresh(gang)

    def _regroup(self, gangs: tuple[GangId, ...], key: str) -> list[GangId]:
        """Gangs that were in another group before leave it; returns the others of that group, now on their own."""
        left: list[GangId] = []
        for gang in gangs:
            group = self._under_way.of(gang)
            if group is not None and group.key != key:
                self._signal(group, Signal.SCATTERED)
                self._under_way.forget(group)
                left += [g for g in group.gangs if g not in gangs]
        return left

    def _as_planned(self, group: Group, plan: Plan) -> bool:
        """Do its members still wait? And, as long as nobody has left for it, does the gang need as many as before?"""
        lacking = self._world.membership.lacking
        nobody_left = group.evicts(Phase.NOMINATING, Phase.MARKING) and not plan.eviction.begun
        if nobody_left and lacking(group.gangs) != plan.required:
            return False
        pods = (self._world.pods.get(uid) for uid in plan.node_of)
        return all(p is not None and p.live and not p.node and p.gang in group.gangs for p in pods)

    def no_longer_kept(self, group: Group) -> None:
        """Room is not kept any longer for the pods of a Job that goes on."""
        self._signal(group, Signal.DONE)
        if not any(map(self._world.membership.waits, group.gangs)):
            self.refresh(group.gangs[0])  # it goes on: nothing need happen to it any more

    # -- pods ----------------------------------------------------------------------------------------------

    def gone(self, uid: str, before: Pod | None) -> None:
        """A pod, as it was ``before``, no longer takes room: whoever waited for that may go on."""
        self._lost(before, leaving=False)
        self._steps.losses.gone(uid, self._steps.now)
        self._steps.ownership.forget(uid)
        self._world.ledger.condemned.gone(uid, self._steps.now)
        now = self._world.pods.get(uid)
        ended = now is not None and now.finished and now.deleting_since is None
        for key in self._world.ledger.awaited.pop(uid, ()):
            group = self._under_way.groups.get(key)
            if group is not None and group.plan is not None:
                group.plan.waiting.discard(uid)
                if ended:
                    group.plan.eviction.ended.add(uid)
                self._steps.check.add(key)

    def pod_seen(self, old: Pod | None, pod: Pod) -> None:
        """A pod's record changed: what it is now told to people may have to be told again."""
        if not pod.live and not pod.finished:
            self._lost(old, leaving=True)
            self._world.ledger.condemned.leaves(pod.uid, self._steps.now)
            self._steps.check.update(self._world.ledger.awaited.get(pod.uid, ()))
        if pod.node:
            suspension.take_room(self._steps, pod, pod.node)
        if old is None or self._under_way.of(old.gang) is not None:
            group = self._under_way.of(pod.gang)
            if group is not None and pod.node:
                group.told.pop(pod.uid, None)

    def _lost(self, before: Pod | None, *, leaving: bool) -> None:
        """A pod that was live has gone, or is ``leaving``. What leaves for others is no loss."""
        if before is None or not before.live or not before.node:
            return
        if before.uid not in self._steps.ownership:
            self._steps.losses.lost(before, self._steps.now, leaving=leaving)
