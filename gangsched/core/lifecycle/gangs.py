"""The gangs under way: who there is, the one way in which their states change, and how they follow the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from gangsched.core.actuation.actuator import Actuator
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.condemned import UNBEGUN, Cause, Phase, VictimState
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.binding import Bindings
from gangsched.core.lifecycle.broken import BrokenGangs
from gangsched.core.lifecycle.claims import DeviceClaims
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.evicting import Evictions
from gangsched.core.lifecycle.expected_room import AnnouncedRoom, Losses
from gangsched.core.lifecycle.group import Failed, Group, Plan
from gangsched.core.lifecycle.holding import Holding
from gangsched.core.lifecycle.notice import Notices
from gangsched.core.lifecycle.review import Reviews
from gangsched.core.lifecycle.table import HOLDING, TABLE, TIMED, UNDER_WAY, Do, Signal, State
from gangsched.core.lifecycle.waiting import Waiting
from gangsched.core.planning.cycle import Decider
from gangsched.core.queue.scheduling_queue import Queue, UnschedulableGangs
from gangsched.core.world.obstacles import Obstacle, obstacle
from gangsched.model.records import GangId, Pod

#: The removal of such a victim has been asked for.
_ASKED = (VictimState.REMOVING, VictimState.UNKNOWN, VictimState.UNMARKED)
_RESTING = (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND)


class Gangs:
    """``groups`` has by key every gang or GangGroup that waits, or whose plan is being carried out.

    ``evictions`` carries out those for them, ``bindings`` brings their members to nodes, ``claims`` gives them
    devices, ``waiting`` and
    ``unschedulable`` know those that do not fit. ``review`` checks plans with evictions again, ``broken`` checks gangs
    with removed members. ``losses`` has the lost members of running gangs, ``announced`` the room of members that are
    created later. ``holding`` holds nodes against other schedulers.
    """

    def __init__(self, decider: Decider, actuator: Actuator, reporter: Reporter, queue: Queue) -> None:
        self._world = world = decider.world
        self._ledger = ledger = decider.ledger
        self._work = ledger.work
        self._actuator = actuator
        self._reporter = reporter
        self._queue = queue
        self._longest_wait = decider.options.longest_wait
        self.groups: dict[str, Group] = {}
        self.evictions = Evictions(world, ledger, decider.options, actuator, reporter)
        self.holding = Holding(world, ledger, decider.options.hold_room, actuator, reporter, self.groups)
        self.claims = DeviceClaims(world, ledger, actuator, self.holding, self.groups)
        self.bindings = Bindings(world, ledger, decider.options, actuator, reporter, self.claims)
        self.losses = Losses(world, ledger)
        self.announced = AnnouncedRoom(decider, reporter)
        self.review = Reviews(decider)
        self.notices = Notices(world, decider.options, reporter)
        self.broken = BrokenGangs(world, ledger, decider.options, actuator, reporter, self.evictions)
        self.waiting = Waiting(decider, queue)
        self.unschedulable = UnschedulableGangs(world, decider, decider.options.strict_budgets, queue, self._wake)
        self._group_of: dict[GangId, str] = {}
        self._to_refresh: set[GangId] = set()
        self._do: dict[Do, Callable[[Group], None]] = {
            Do.NOMINATE: self._nominate,
            Do.MARK: self._mark,
            Do.PREBIND: self.bindings.prebind,
            Do.BIND: self.bindings.bind_all,
            Do.LET_GO_ON: self.bindings.let_go_on,
            Do.WITHDRAW: self.bindings.withdraw,
            Do.UNMARK: self._unmark,
            Do.RELEASE: self._release,
            Do.REPORT: reporter.where_it_stands,
            Do.ENQUEUE: self.waiting.enqueue,
            Do.RETRY: self.waiting.retry,
            Do.PARK: self.waiting.park,
            Do.DEQUEUE: lambda group: queue.remove(group.key),
        }

    def group_of(self, gang: GangId) -> Group | None:
        """Return the group that this gang is in."""
        return self.groups.get(self._group_of.get(gang, ""))

    def _begin(self, gangs: tuple[GangId, ...]) -> Group:
        """A group of these gangs, of which none is in any other."""
        group = Group(gangs)
        self.groups[group.key] = group
        for gang in gangs:
            self._group_of[gang] = group.key
        return group

    def _forget(self, group: Group) -> None:
        """The group is no more, and what is held for it is given up."""
        self._queue.remove(group.key)
        self.waiting.unblock(group)
        self._release(group)
        self.groups.pop(group.key, None)
        self._ledger.deadlines.never(group.key)
        self._reporter.to_tell.never(group.key)
        self._work.phases.discard(group.key)
        for gang in group.gangs:
            self._group_of.pop(gang, None)
        self.unschedulable.forget(group.key)

    def _sort_into_signatures(self, group: Group) -> None:
        """The group is in another state, or is not what it was."""
        queued = group.state is State.QUEUED
        self.unschedulable.update(group.key, group.signature, group.gangs, queued=queued)

    def _wake(self, key: str) -> None:
        self.signal(self.groups[key], Signal.WAKE)

    # -- states --------------------------------------------------------------------------------------------

    def signal(self, group: Group, signal: Signal) -> None:
        """Something happened to a gang: take the step that the table has for it."""
        found = TABLE.get((group.state, signal))
        if found is None:
            return
        bound = group.plan.placements if group.state is State.BINDING and group.plan is not None else ()
        before, group.state = group.state, found.state
        for do in found.do:
            self._do[do](group)
        if self.losses.rooms:
            self.losses.touch(group.gangs)
        if found.state in UNDER_WAY:
            self._work.phases.add(group.key)
        if before in TIMED and found.state not in TIMED:
            self._ledger.deadlines.never(group.key)
        if found.state is State.BINDING:
            self._ledger.binding.update(group.gangs)
        else:
            self._ledger.binding.difference_update(group.gangs)
        for place in bound:  # a gang whose bindings are on their way is no victim, from now on it is
            if place.uid in self._world.members:
                self._work.changes.append(Change(Hint.VICTIMS, place.node, self._world.members[place.uid]))
        if found.state is not State.BACKOFF:
            self._reporter.to_tell.never(group.key)
        if found.state is State.BACKOFF:
            self.waiting.block(group)
        elif found.state is not State.QUEUED:
            self.waiting.unblock(group)
        self._sort_into_signatures(group)

    def _nominate(self, group: Group) -> None:
        self.bindings.nominate(group)
        if group.plan is not None:
            self.evictions.ask_first(group.plan.eviction)

    def _mark(self, group: Group) -> None:
        if group.plan is None:
            return
        if group.rolled_back:
            self._ledger.deadlines.at(group.key, self._world.now + self.bindings.time_of(group))
        self.evictions.mark(group.plan.eviction)

    def remove(self, group: Group) -> None:
        """Remove the victims that are still there, have not been removed, and whose turn has come."""
        plan, reporter = group.plan, self._reporter
        if plan is None:
            return
        if not self.holding.stands(plan.eviction):
            self.evictions.mark(plan.eviction)
            return
        first = not plan.eviction.begun
        leaving = self.evictions.remove(plan.eviction)
        if not leaving:
            return
        if first:
            group.failures.record(Failed.ROLLBACK if group.rolled_back else Failed.ROUND)
        if group.rolled_back:
            return
        note = report.evicted_for(group.name, leaving, plan.ident)
        reporter.event(report.trigger(self._world, group), report.PREEMPTED, note)
        reporter.pods_evicted(group, leaving, plan.ident)
        reporter.evicted_for_quota(group, plan, {victim.uid for victim in leaving})

    def _unmark(self, group: Group) -> None:
        if group.plan is not None:
            self.broken.withdraw(group.plan.eviction)

    def _release(self, group: Group) -> None:
        """Give up the plan and the room that is held for it."""
        world, plan = self._world, group.plan
        group.plan = None
        if plan is not None:
            eviction = plan.eviction
            # A pod that may have been removed may be seen to leave only when this gang evicts others already.
            left = eviction.may_have_left(self._actuator.failures(group.key))
            group.failures.round_ended(world.now, none_left=eviction.begun and not left)
            self.evictions.end(eviction)
            self.holding.plan_over(group, bound=group.state is State.BOUND)
            self.bindings.forget_claims(plan)
            self.claims.plan_over(plan)
            if plan.waits_since is not None and group.state is not State.BOUND:
                most = self._longest_wait
                group.failures.held_in_vain(world.now - plan.waits_since, most, world.now)
        self._actuator.end(group.key)
        self.holding.touch([group.key])
        self._reporter.reserved.pop(group.key, None)
        self._ledger.stop_waiting(group.key)
        self._ledger.release(group.key)
        self.announced.plan_over(group.key)

    # -- gangs ---------------------------------------------------------------------------------------------

    def refresh_all(self, gangs: Iterable[GangId]) -> None:
        """Look at all of these again, those of one group together, and at what the GangGroups of others list that are
        not whole.
        """
        seen, left = set[GangId](), {*gangs}
        while left:
            for gang in sorted(left):
                if gang not in seen:
                    seen.update(self.refresh(gang))
            left, self._to_refresh = self._to_refresh - seen, set()

    def leave(self, scheduler: str) -> None:
        """The gangs of this scheduler name are another's from now on: nothing is held for them or reported."""
        for group in [each for each in self.groups.values() if each.gangs[0].scheduler == scheduler]:
            if group.plan is not None:
                self.signal(group, Signal.BROKEN)
            self._forget(group)

    def refresh(self, gang: GangId) -> tuple[GangId, ...]:
        """Look at a gang again: which group it is in, whether everything is there, what it needs. Returns the gangs of
        its group: nothing is left to be done for them.
        """
        membership, managed = self._world.membership, self._world.managed
        seen = membership.view(gang)
        if seen is None:
            return ()
        if seen.alone:  # what others of its GangGroup wait for may be something else now
            self._to_refresh.update(membership.gangs_of_its_group(gang))
        gangs = seen.gangs
        self._room_touched(gangs)
        group = self.group_of(gang)
        if (group is None or group.gangs != gangs) and self._taken_apart(gangs):
            seen = membership.view(gang) or seen  # bindings may not be on their way any more
            group = self.group_of(gang)
        pending, found, look = seen.waits, None, tuple[object, ...]()
        admitted_twice = managed.two_admitters(gangs) if managed.active else ""
        if group is not None or pending:  # else it is of no interest any more
            look = membership.decisive_facts(gangs)
        if pending:  # else it keeps no member waiting
            found = obstacle(self._world, self._ledger.condemned, gangs, leave=group is not None and group.rolled_back)
        if group is None and pending:
            group = self._begin(gangs)
            group.obstacle = found
            group.update_facts(look)
            self.signal(group, Signal.SCATTERED if found else Signal.GATHERED)
        elif group is not None:
            other = group.update_facts(look)
            if other:
                self._sort_into_signatures(group)
            self._update_known(group, found, pending, other)
        for each in gangs:
            self._reporter.statuses.update(each, self.group_of)
        if admitted_twice:
            self._reporter.tell_two_admitters(gangs, admitted_twice)
        return gangs

    def _room_touched(self, gangs: tuple[GangId, ...]) -> None:
        """What is kept for members of these gangs may be more than they lack now."""
        if self.losses.rooms:
            self.losses.touch(gangs)
        if self.announced.rooms:
            self.announced.touch(gangs)

    def _update_known(self, group: Group, found: Obstacle | None, pending: bool, other: bool) -> None:
        """A group that is known was touched; ``other`` says that its gangs are not what they were."""
        changed = found != group.obstacle
        group.obstacle = found
        if group.state is State.STARTING:
            self._follow_job(group)
            return
        leaving = group.rolled_back and group.plan is not None and group.plan.eviction.phase is not Phase.MARKING
        if group.state is State.BINDING or leaving:
            return  # members are bound, or leave, one after another; what is missing afterwards is seen then
        planned = group.state in HOLDING
        if planned and group.plan is not None and not self._as_planned(group, group.plan):
            self.signal(group, Signal.SCATTERED if found or not pending else Signal.BROKEN)
        elif (found and planned) or (found and (changed or group.state is not State.GATHERING)):
            self.signal(group, Signal.SCATTERED)
        elif not found:
            self.signal(group, Signal.GATHERED)
        if group.state is State.PREBINDING:  # whoever of it bears a nomination to another node may be gone
            self._work.phases.add(group.key)
        if not pending and group.state in _RESTING:
            self._forget(group)
        elif pending and not found and (group.state is State.BOUND or (group.state is State.BACKOFF and other)):
            self.signal(group, Signal.MORE)
        elif found and pending:
            self._reporter.where_it_stands(group)
        elif other and group.state is State.QUEUED:
            self.waiting.enqueue(group)  # its place in the queue may be another now

    def _follow_job(self, group: Group) -> None:
        """A resumed Job has no expected members any more. Until its pods are there, only its end means anything."""
        gang = group.gangs[0]
        job = report.job_of(self._world, gang)
        if job is None or job.finished or self.bindings.resumed.is_suspended_again(job):
            self._forget(group)
            self.refresh(gang)

    def _taken_apart(self, gangs: tuple[GangId, ...]) -> bool:
        """Dissolve other groups that had these gangs before, evaluate their other gangs, and return whether there were
        any.
        """
        before = {group.key: group for group in map(self.group_of, gangs) if group is not None and group.gangs != gangs}
        for group in before.values():
            self.signal(group, Signal.SCATTERED)
            self._forget(group)
        for left in [gang for group in before.values() for gang in group.gangs if gang not in gangs]:
            self.refresh(left)
        return bool(before)

    def _as_planned(self, group: Group, plan: Plan) -> bool:
        """Return True if the plan's members still wait. As long as no pod has left for the plan, the gang must also
        need as many members as before.
        """
        lacking = self._world.membership.lacking
        none_left = group.evicts(*UNBEGUN) and not plan.eviction.begun
        if none_left and lacking(group.gangs) != plan.read.required:
            return False
        pods = (self._world.members.get(uid) for uid in plan.node_of)
        return all(p is not None and p.live and not p.node and p.gang in group.gangs for p in pods)

    def no_longer_kept(self, group: Group) -> None:
        """Room is not kept any longer for the pods of a Job that goes on."""
        self.signal(group, Signal.DONE)
        if not any(map(self._world.membership.waits, group.gangs)):
            self.refresh(group.gangs[0])  # it goes on: nothing need happen to it any more

    # -- pods ----------------------------------------------------------------------------------------------

    def only_told(self, old: Pod, pod: Pod) -> bool:
        """Return whether a member shows no more than what is written to it while its gang waits for pods to leave. That
        is its nomination, and why it is not scheduled. Evaluating a large gang for each of its members would take
        longer than writing to them.
        """
        group = self.group_of(pod.gang)
        if group is None or group.state is not State.EVICTING:
            return False
        told = msgspec.structs.replace(
            old,
            nominated_node=pod.nominated_node,
            intent=pod.intent,
            scheduled_condition=pod.scheduled_condition,
            version=pod.version,
        )
        return told == pod

    def pod_gone(self, uid: str, before: Pod | None) -> None:
        """Continue gangs that waited for the room of a pod. ``before`` is its last record."""
        self._lost(before, leaving=False)
        if before is not None:
            self.losses.pod_gone(before)
            self._suspended(before)
        self._ledger.condemned.record_left(uid, self._world.now)
        self._work.phases.update(key for key in self._ledger.freed(uid) if key in self.groups)

    def pod_seen(self, old: Pod | None, pod: Pod) -> None:
        """A pod that is on a node, or leaves, has another record: others may go on, and what was reported about it
        may have to be reported again.
        """
        if not pod.live and not pod.finished:
            self._lost(old, leaving=True)
            self._suspended(pod)
            self._ledger.condemned.leaves(pod.uid, self._world.now)
            self._work.phases.update(self._ledger.awaited.get(pod.uid, ()))
        if pod.node and self._ledger.resuming:
            self.bindings.resumed.use_room(pod, pod.node)
        if old is None or self.group_of(old.gang) is not None:
            group = self.group_of(pod.gang)
            if group is not None and pod.node:
                group.written.pop(pod.uid, None)

    def _suspended(self, pod: Pod) -> None:
        """A pod leaves, or is gone: if it was the last with which its Job was to leave, others of that may start."""
        condemned = self._ledger.condemned
        if condemned.suspends and pod.uid in condemned:
            self.evictions.touched(pod)

    def _lost(self, before: Pod | None, *, leaving: bool) -> None:
        """A pod that was live has gone, or is ``leaving``. Pods that are evicted for others are no loss."""
        if before is None or not before.live or not before.node:
            return
        named = self._ledger.condemned.named(before.uid)
        if named is None:
            self.losses.lost(before, leaving=leaving)
        elif named.grounds.cause is Cause.PREEMPTION and named.state.get(before.uid) in _ASKED:
            self._world.evictions.note(before, self._world.now)
            self.broken.note(before.gang, named.grounds)
