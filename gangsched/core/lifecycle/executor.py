"""Carries out the lifecycle table: every gang's state, and the plan that it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gangsched.core import events as ev
from gangsched.core.actions import Action, Report
from gangsched.core.decision import BIND, UNSCHEDULABLE
from gangsched.core.groups import Clock, Group, Plan, group_key
from gangsched.core.lifecycle import admission, report, rollback, suspension, telling, two_admitters
from gangsched.core.lifecycle.draining import Drains
from gangsched.core.lifecycle.elsewhere import elsewhere, evicts_from
from gangsched.core.lifecycle.holding import hold
from gangsched.core.lifecycle.phases import Phases
from gangsched.core.lifecycle.steps import Steps
from gangsched.core.lifecycle.table import HOLDING, PHASES, TIMED, Do, Signal, State, step
from gangsched.core.lifecycle.takeover import Takeover
from gangsched.core.lifecycle.validity import overdue
from gangsched.core.lifecycle.waking import Waking
from gangsched.core.options import Options
from gangsched.core.planning.decider import Decider, Verdict
from gangsched.core.queueing.queue import Change, Hint, Queue, queue_order
from gangsched.core.queueing.waiting import Waiting
from gangsched.core.state.world import World
from gangsched.model.records import GangId, Pod

_RESTING = (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND)


class Executor:
    """The gangs under way. ``now`` is set by the caller before anything else is asked.

    ``nodes_changed`` and ``nodes_fuller`` are told by the caller too: nodes that are not what they were, and nodes on
    which pods take room that we have not put there.
    """

    def __init__(self, world: World, decider: Decider, options: Options) -> None:
        self.world = world
        self.decider = decider
        self.options = options
        self.steps = Steps(world, options)
        self._waiting = Waiting(world, decider, options, self.steps)
        self.groups: dict[str, Group] = {}
        self._clock = Clock()
        self._waking = Waking(world, decider, options, self.steps, self.groups, self.signal)
        self.drains = Drains(self.steps, self.groups, self.signal, self._taken_over)
        self.phases = Phases(world, decider, self.steps, self.groups, self.signal, self.refresh, self.drains)
        self.nodes_changed: set[str] = set()
        self.nodes_fuller: set[str] = set()
        self._group_of: dict[GangId, str] = {}
        self._restless: set[str] = set()
        self._prebinding: set[str] = set()
        self._next_plan = 1

    @property
    def now(self) -> float:
        """The time of the call that is being served."""
        return self.steps.now

    @now.setter
    def now(self, value: float) -> None:
        self.steps.now = self.world.now = value

    @property
    def queue(self) -> Queue:
        """The gangs that wait to be decided."""
        return self.steps.queue

    # -- the outside ---------------------------------------------------------------------------------------

    def take_actions(self) -> list[Action]:
        """What is to be done since the last call."""
        out, self.steps.actions = self.steps.actions, []
        return out

    def take_changes(self) -> list[Change]:
        """Helpful events that followed from our own steps."""
        out, self.steps.changes = self.steps.changes, []
        if any(change.kind is Hint.VOLUMES for change in out):
            self.volumes_changed()  # somebody else may have counted on what has been given up
        return out

    def head(self) -> Group | None:
        """The gang to be decided next. One whose earlier plan still has writes on their way waits beside the queue."""
        for key in [k for k in self._restless if k not in self.groups or self.steps.still(self.groups[k])]:
            self._restless.discard(key)
            group = self.groups.get(key)
            if group is not None and group.state is State.QUEUED:
                self.queue.push(queue_order(self.world.membership, group.gangs))
        while (head := self.queue.head()) is not None:
            if self.steps.still(self.groups[head]):
                return self.groups[head]
            if self.groups[head].state is State.BACKOFF:
                self.queue.calm(head)  # it comes when its backoff is over
                continue
            self.queue.remove(head)
            self._restless.add(head)
        return None

    def unsettled(self) -> bool:
        """Is there anything left to follow up?"""
        steps = self.steps
        return bool(steps.check or steps.changes or steps.taken_from or steps.losing or steps.losses.unsettled())

    def wake_at(self) -> float | None:
        """The next moment at which something is due."""
        steps = self.steps
        others = (steps.repeats.wake_at(), steps.losses.wake_at(), self.drains.wake_at())
        times = (self._clock.next(), self.queue.wake_at(), *others)
        return min((t for t in times if t is not None), default=None)

    def abandon(self) -> None:
        """Forget everything under way without writing anything: another process is in charge now."""
        self.world.forget_all()
        self.groups.clear()
        self._clock = Clock()
        self._group_of.clear()
        self._restless.clear()
        self._prebinding.clear()
        self._waking.clear()
        self.drains.clear()
        self.world.held.clear()
        self.world.suspended.rooms.clear()
        self.world.binding.clear()
        self.world.stuck.clear()
        self.world.turns.clear()
        self.world.membership.begun.clear()
        self.steps.forget()

    def refused(self, event: ev.ObjectRefused) -> None:
        """Tell the owner of an object that cannot be understood, once."""
        kind, _, api = event.kind.partition(".")
        reference = report.group_reference(api, kind, event.namespace, event.name, event.uid)
        note = f"{event.field}: {event.message}"[:1024]
        self.steps.actions.append(Report(reference, "Warning", report.REFUSED, "Reading", note))

    # -- following the cluster -----------------------------------------------------------------------------

    def refresh_all(self, gangs: Iterable[GangId]) -> None:
        """Look at all of these again, those of one group together."""
        seen: set[GangId] = set()
        for gang in sorted(gangs):
            if gang in seen:
                telling.object_status(self.steps, gang, self.groups.get(self._group_of.get(gang, "")))
            else:
                seen.update(self.refresh(gang))

    def refresh(self, gang: GangId) -> tuple[GangId, ...]:
        """Look at a gang again: which group it is in, whether everything is there, what it needs. Returns the gangs of
        its group: nothing is left to be done for them, but for the status of the others' objects.
        """
        if not self.world.membership.is_ours(gang):
            return ()
        membership = self.world.membership
        gangs, _ = membership.group(gang)
        key = group_key(gangs)
        self.steps.losses.touch(gangs)
        for left in self._regroup(gangs, key):
            self.refresh(left)
        group = self.groups.get(key)
        pending = any(membership.waits(g) for g in gangs)
        problem, look = "", tuple[object, ...]()
        if group is not None or pending:  # else it is of no interest any more
            problem, look = membership.problem(gangs), membership.look(gangs)
            if group is None or group.state is not State.MARKING_MEMBERS:  # all of those leave of their own accord
                problem = problem or self._losing(gangs)
        if group is None:
            if pending:
                group = self.groups[key] = Group(gangs, self._clock)
                for member in gangs:
                    self._group_of[member] = key
                group.problem = problem
                group.look = look
                self.signal(group, Signal.SCATTERED if problem else Signal.GATHERED)
        else:
            other, group.look = look != group.look, look
            if other:
                group.likeness = None
                self._waking.moved(group)
            self._follow(group, problem, pending, other)
        telling.object_status(self.steps, gang, self.groups.get(self._group_of.get(gang, "")))
        two_admitters.tell(self.steps, gangs)
        return gangs

    def _losing(self, gangs: Sequence[GangId]) -> str:
        """Why members that wait may not join those that run: these are about to be evicted."""
        awaited, without = self.steps.awaited_by, self.world.membership.without
        return next((text for gang in gangs if (text := without(gang, awaited))), "") if awaited else ""

    def _follow(self, group: Group, problem: str, pending: bool, other: bool) -> None:
        """A group that is known was touched; ``other`` says that its gangs are not what they were."""
        changed = problem != group.problem
        group.problem = problem
        if group.state is State.STARTING:
            self._follow_job(group)
            return
        if group.state in (State.BINDING, State.ROLLING_BACK):
            return  # members are bound, or leave, one after another; what is missing afterwards is seen then
        if other:
            self.phases.rechecks.gang_changed(group)
        planned = group.state in (*HOLDING, State.MARKING_MEMBERS)
        if planned and group.plan is not None and not self._as_planned(group, group.plan):
            self.signal(group, Signal.SCATTERED if problem or not pending else Signal.PLAN_BROKEN)
        elif (problem and planned) or (problem and (changed or group.state is not State.GATHERING)):
            self.signal(group, Signal.SCATTERED)
        elif not problem:
            self.signal(group, Signal.GATHERED)
        if not pending and group.state in _RESTING:
            self._forget_group(group)
        elif pending and not problem and (group.state is State.BOUND or (group.state is State.BACKOFF and other)):
            self.signal(group, Signal.MORE)
        elif problem and pending:
            telling.where_it_stands(self.steps, group)
        elif other and group.state is State.QUEUED:
            self.steps.carry_out(Do.ENQUEUE, group)  # its place in the queue may be another now

    def _follow_job(self, group: Group) -> None:
        """A Job that goes on has no stand-ins any more; until its pods are there, only its end means anything."""
        gang = group.gangs[0]
        job = suspension.owner(self.steps, gang)
        if job is None or job.finished or suspension.suspended_anew(self.steps, job):
            self.signal(group, Signal.SCATTERED)
            self._forget_group(group)
            self.refresh(gang)

    def _regroup(self, gangs: tuple[GangId, ...], key: str) -> list[GangId]:
        """Gangs that were in another group before leave it; returns the others of that group, now on their own."""
        left: list[GangId] = []
        for gang in gangs:
            old = self._group_of.get(gang)
            if old is not None and old != key:
                group = self.groups[old]
                self.signal(group, Signal.SCATTERED)
                self._forget_group(group)
                left += [g for g in group.gangs if g not in gangs]
        return left

    def _forget_group(self, group: Group) -> None:
        self.queue.remove(group.key)
        self._waiting.unblock(group)
        self.steps.release(group)
        self.groups.pop(group.key, None)
        group.known = False
        self._prebinding.discard(group.key)
        self.steps.check.discard(group.key)
        for gang in group.gangs:
            self._group_of.pop(gang, None)
        self._waking.forget(group)

    def _as_planned(self, group: Group, plan: Plan) -> bool:
        """Do its members still wait? And, as long as nobody has left for it, does the gang need as many as before?"""
        lacking = self.world.membership.lacking
        if group.state in (State.NOMINATED, State.MARKED) and lacking(group.gangs) != plan.required:
            return False
        pods = (self.world.pods.get(uid) for uid in plan.node_of)
        return all(p is not None and p.live and not p.node and p.gang in group.gangs for p in pods)

    def gone(self, uid: str, before: Pod | None) -> None:
        """A pod, as it was ``before``, no longer takes room: whoever waited for that may go on."""
        self._lost(before, leaving=False)
        self.steps.losses.gone(uid, self.now)
        self.steps.marks.discard(uid)
        self.steps.mark_texts.forget(uid)
        self.world.stuck.discard(uid)
        for key in self.steps.awaited_by.pop(uid, ()):
            group = self.groups.get(key)
            if group is not None and group.plan is not None:
                group.plan.waiting.discard(uid)
                self.steps.check.add(key)

    def pod_seen(self, old: Pod | None, pod: Pod) -> None:
        """A pod's record changed: what it is now told to people may have to be told again."""
        if not pod.live and not pod.finished:
            self._lost(old, leaving=True)
        if pod.node:
            suspension.take_room(self.steps, pod, pod.node)
        if old is None or old.gang in self._group_of:
            key = self._group_of.get(pod.gang)
            if key is not None and pod.node:
                self.groups[key].told.pop(pod.uid, None)

    def _lost(self, before: Pod | None, *, leaving: bool) -> None:
        """A pod that was live has gone, or is ``leaving``. What leaves for others is no loss."""
        if before is None or not before.live or not before.node:
            return
        if before.uid not in self.steps.marks and before.uid not in self.steps.awaited_by:
            self.steps.losses.lost(before, self.now, leaving=leaving)

    def look_at_losing(self) -> None:
        """Gangs whose members somebody has begun to evict, or evicts no more, are looked at again, and the room of
        members that are lost is held.
        """
        losing, self.steps.losing = self.steps.losing, set()
        self.refresh_all(losing)
        self.steps.losses.nodes_changed(self.nodes_changed)
        self.steps.losses.follow(self.steps, self.groups, self.drains.holds)

    def plans_at_risk(self) -> None:
        """Plans whose nodes changed are checked again."""
        changed, self.nodes_changed = self.nodes_changed, set()
        fuller, self.nodes_fuller = self.nodes_fuller, set()
        taken, self.steps.taken_from = self.steps.taken_from, set()
        if not changed and not fuller and not taken:
            return
        for key in sorted(self.world.held):
            group = self.groups.get(key)
            if group is not None and group.state is State.STARTING and key in taken:
                self._taken_over(group)
            if group is None or group.plan is None or group.state not in HOLDING:
                continue
            # Who comes while victims leave is found out when they are gone; nobody looks again after volumes.
            risky = changed | fuller if group.state is State.PREBINDING else changed
            at_risk = key in taken or not risky.isdisjoint(group.plan.node_of.values())
            if at_risk and not self.phases.still_holds(group, group.plan):
                self.signal(group, Signal.TAKEN_OVER if key in taken else Signal.PLAN_BROKEN)

    def _taken_over(self, group: Group) -> None:
        """The room that is kept for a Job that goes on is not its own any more."""
        self.signal(group, Signal.TAKEN_OVER)
        if not any(map(self.world.membership.waits, group.gangs)):
            self.refresh(group.gangs[0])  # it goes on: nothing need happen to it any more

    def time_passed(self) -> None:
        """Timeouts and the ends of backoffs."""
        for group in self._clock.due("deadline", self.now):
            group.message = f"timed out while {group.state.value}: {telling.waits_for(self.steps, group)}"
            if group.state is State.WAITING and group.plan is not None:
                self.world.stuck.update(uid for uid in group.plan.waiting if overdue(self.world, uid, self.now))
            self.signal(group, Signal.TIMEOUT)
            if group.state is State.BOUND:
                self.refresh(group.gangs[0])
        for group in self._clock.due("retry_at", self.now):
            if not self.steps.bind_again(group):
                self.signal(group, Signal.PLAN_BROKEN)
        for gang in self.steps.repeat():
            self.refresh(gang)
        for group in self._clock.due("tell_at", self.now):
            group.tell_at = None
            telling.where_it_stands(self.steps, group)
        for key in self.queue.due(self.now):
            if key in self.groups:
                self.signal(self.groups[key], Signal.WAKE)

    def wake(self, changes: Sequence[Change]) -> None:
        """Something happened that may help parked gangs, or save victims of others."""
        self.phases.rechecks.noted(changes)
        self._waking.wake(changes)

    # -- decisions -----------------------------------------------------------------------------------------

    def decide(self, group: Group) -> Verdict:
        """Decide a queued gang, or one that would sit out its backoff although nothing else is to be decided."""
        early = group.state is State.BACKOFF
        self.signal(group, Signal.WAKE)
        since = self.now if group.waiting_since is None else group.waiting_since
        pause = evicts_from(self.world, group)
        verdict = elsewhere(self.decider, group, self.now) or self.phases.decided(group, since, pause)
        group.waiting_since = None if verdict.outcome == BIND else since
        if early and verdict.outcome == UNSCHEDULABLE and group.likeness is not None:
            self._waking.calm(group.likeness)  # so it would be for others like it
        group.behind = verdict.behind
        group.short_of_quota, group.nodes_unseen = verdict.short_of_quota, verdict.nodes_unseen
        group.look_again_at = self._waiting.look_again(group, verdict.retry_at)
        return verdict

    def no_fit(self, group: Group, verdict: Verdict) -> None:
        """A decided group does not fit. Of single pods, neither do those like it that have been tried before: behind it
        in the queue they cannot see more room than it did. They are not tried again in vain. Nor are gangs of one class
        of pods that are alike, when quota alone refused the first of them.
        """
        speaks = group.single and not group.rounds and verdict.retry_at is None and not verdict.failed_plugin
        uniform = group.likeness is not None and len(group.likeness.classes) == 1
        if speaks or (verdict.nodes_unseen and uniform):
            self._waking.in_vain(group)
        self.signal(group, Signal.NO_FIT)
        for other in self._waking.tried(group.likeness) if speaks and group.likeness is not None else ():
            if other.single and not other.rounds:
                self._waking.in_vain(other)
                other.behind = verdict.behind
                other.short_of_quota, other.nodes_unseen = verdict.short_of_quota, verdict.nodes_unseen
                other.look_again_at = self._waiting.look_again(other, None)
                self.signal(other, Signal.NO_FIT)

    # -- plans ---------------------------------------------------------------------------------------------

    def adopt(self, group: Group, verdict: Verdict, signal: Signal) -> None:
        """Make a verdict with placements the gang's plan and start on it."""
        ident = self._new_ident()
        tell = admission.preempting if signal is Signal.PLAN else admission.reserved
        tell(self.steps, group, verdict)
        self.steps.follow(group, verdict)
        group.plan = Plan(ident, verdict.placements, verdict.victims, [a.uid for a in verdict.awaiting])
        group.plan.required = self.world.membership.lacking(group.gangs)
        if signal is Signal.PLAN:
            self.steps.look_around(group.plan)
            hold(self.steps, group, group.plan)
        self.signal(group, self.phases.onward(group, signal, group.plan))

    def _new_ident(self) -> str:
        self._next_plan += 1
        return f"{int(self.now * 1000):x}-{self._next_plan - 1}"

    def roll_back(self, group: Group, verdict: Verdict) -> bool:
        """If a decided gang is to leave as a whole, because it is bound in part and cannot be whole, start on that."""
        if self.drains.holds(group.key):
            return False  # it leaves as a whole already, and what is removed bears the marks of its queue
        paused = verdict.outcome == UNSCHEDULABLE and evicts_from(self.world, group) > self.now
        if paused and self.options.rollback and group.begun:
            verdict = self.phases.decided(group, group.waiting_since)  # it waits if it will be able to evict
        leaving = rollback.leaving(self.steps, group, verdict)
        if not leaving:
            return False
        group.plan = Plan(self._new_ident(), (), leaving, ())
        group.plan.waiting.clear()
        group.message = verdict.message
        self.signal(group, Signal.ROLL_BACK)
        return True

    def volumes_changed(self) -> None:
        """Gangs that wait for their volumes are looked at again."""
        self.steps.check.update(self._prebinding)

    def take_over(self) -> None:
        """Finish what an earlier process has begun, or take it back. Called once, before the first decision."""
        self.steps.losses.begin()
        found = Takeover(self.world, self.decider, self.now)
        needed: set[str] = set()
        completed_first = self._begun()
        for key in self.queue.active():  # the strongest first: what it holds is not there for the others
            group = self.groups[key]
            plan = found.plan(group)
            if plan is None:
                continue
            goes_on = key in self.world.membership.begun or self._priority(group) not in completed_first
            if plan.announced or goes_on:
                needed.update(plan.victims)
                self.steps.marks.update(plan.victims)
                for uid in plan.victims:
                    said = self.world.pods[uid].disruption
                    self.steps.mark_texts.asked(uid, key, said.message if said is not None else "")
                self._resume(group, plan)
        for group in self.groups.values():
            if group.plan is None and self.steps.on_record(group):
                self.signal(group, Signal.DISCARD)
        for pod, mark in found.marked:
            if pod.uid not in needed:
                self.steps.unmark(pod.uid, mark.preemptor)
        self.drains.take_over()
        admission.taken_over(self.steps)

    def _begun(self) -> set[int]:
        """Gangs that are bound in part come first among those of their priority; returns these priorities. Nothing
        is held there for others that have not removed anybody yet: they are decided when these gangs have been.
        """
        membership = self.world.membership
        begun = [g for g in self.groups.values() if g.state is State.QUEUED and membership.half_bound(g.gangs)]
        membership.begun = {group.key for group in begun}
        for group in begun:
            self.steps.carry_out(Do.ENQUEUE, group)
        return {self._priority(group) for group in begun}

    def _priority(self, group: Group) -> int:
        return -queue_order(self.world.membership, group.gangs)[0]

    def _resume(self, group: Group, plan: Plan) -> None:
        group.plan = plan
        group.rounds = int(plan.announced)
        group.message = f"finishing plan {plan.ident} of an earlier process"
        self.steps.look_around(plan)
        hold(self.steps, group, plan)
        self.steps.withdraw_others(group, plan)
        self.signal(group, Signal.RESUME)

    # -- the table -----------------------------------------------------------------------------------------

    def signal(self, group: Group, signal: Signal) -> None:
        """Something happened to a gang: take the step that the table has for it."""
        found = step(group.state, signal)
        if found is None:
            return
        bound = group.plan.placements if group.state is State.BINDING and group.plan is not None else ()
        group.state = found.state
        for do in found.do:
            self.steps.carry_out(do, group)
        self.steps.losses.touch(group.gangs)
        if found.state in PHASES:
            self.steps.check.add(group.key)
        if found.state not in TIMED:
            group.deadline = None
        if found.state is State.PREBINDING:
            self._prebinding.add(group.key)
        else:
            self._prebinding.discard(group.key)
        if found.state is State.BINDING:
            self.world.binding.update(group.gangs)
        else:
            self.world.binding.difference_update(group.gangs)
        for place in bound:  # a gang whose bindings are on their way is no victim, from now on it is
            if place.uid in self.world.pods:
                self.steps.changes.append(Change(Hint.VICTIMS, place.node, self.world.pods[place.uid]))
        if found.state is not State.BACKOFF:
            group.tell_at = None
        if found.state is State.BACKOFF:
            self._waiting.block(group)
        elif found.state is not State.QUEUED:
            self._waiting.unblock(group)
        self._waking.moved(group)
