"""The answers to writes, and what follows when a phase of a gang's plan is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gangsched.core.actions import Action, Bind, Mark, Remove, ResumeJob, SuspendJob, Unmark, WithdrawNomination
from gangsched.core.decision import BIND, WAIT, Verdict, Victim
from gangsched.core.events import Outcome
from gangsched.core.groups import Group, Plan
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import (
    admission,
    bindings,
    condemning,
    elsewhere,
    nominations,
    prebind,
    report,
    rollback,
    suspension,
    telling,
)
from gangsched.core.lifecycle.draining import Drains
from gangsched.core.lifecycle.permit import Barrier, Failure
from gangsched.core.lifecycle.rechecks import Rechecks
from gangsched.core.lifecycle.repeats import Repeated
from gangsched.core.lifecycle.steps import Steps
from gangsched.core.lifecycle.table import PHASES, ROLLING_BACK, Do, Signal, State
from gangsched.core.planning.decider import Decider
from gangsched.core.state.world import World
from gangsched.core.volumes.binding import needs_binding
from gangsched.model.records import GangId

#: So often marks that others have taken back are written again for one list.
_MARKED_AGAIN = 3


class Phases:
    """Follows the plans of ``groups`` from one phase to the next.

    ``signal`` takes a step of the lifecycle table, ``refresh`` looks at a gang again.
    """

    def __init__(
        self,
        world: World,
        decider: Decider,
        steps: Steps,
        groups: Mapping[str, Group],
        signal: Callable[[Group, Signal], None],
        refresh: Callable[[GangId], object],
        drains: Drains,
        rechecks: Rechecks,
    ) -> None:
        self._drains = drains
        self._world = world
        self._decider = decider
        self._steps = steps
        self._groups = groups
        self._signal = signal
        self._refresh = refresh
        self._rechecks = rechecks

    def onward(self, group: Group, signal: Signal, plan: Plan) -> Signal:
        """Members that could be bound now have to wait while their claims are not bound, or do not exist yet."""
        if signal in (Signal.FITS, Signal.ROOM_FREED) and suspension.is_suspended_job(group):
            return Signal.START
        wait = signal in (Signal.FITS, Signal.ROOM_FREED) and needs_binding(self._world, plan.placements)
        return Signal.VOLUMES if wait else signal

    def answer(self, action_id: int, outcome: Outcome, message: str) -> None:
        """The outcome of a write."""
        known = self._steps.writes.pop(action_id)
        if known is None:
            return
        key, action = known
        if isinstance(action, Mark | Unmark):
            self._steps.mark_texts.answered(action, outcome)
        nominations.answered(self._steps, key)
        if not self._drains.answered(key, action, action_id, outcome, message):
            self._answered(key, action, action_id, outcome, message)
        if not self._steps.writes.any_of(key):
            telling.bound_by_now(self._steps, key)

    def _answered(self, key: str, action: Action, action_id: int, outcome: Outcome, message: str) -> None:
        group = self._groups.get(key)
        if group is None or group.barrier.arrive(action_id, outcome, message) is None:
            if isinstance(action, Bind | Mark | Unmark | WithdrawNomination):
                self._apart(key, action, outcome)
            elif isinstance(action, Remove) and outcome not in (Outcome.OK, Outcome.GONE):
                self._steps.not_removed(key, action)
            elif isinstance(action, SuspendJob) and outcome not in (Outcome.OK, Outcome.GONE):
                suspension.not_suspended(self._steps, key, action)
            elif isinstance(action, ResumeJob) and outcome is not Outcome.OK and group is not None:
                self._recheck(group)  # its room was given up meanwhile: if it is still suspended, it waits again
            return
        if isinstance(action, Bind):
            self._bound(key, group, action, outcome)
        if isinstance(action, Remove) and group.plan is not None and outcome is Outcome.OK:
            self._removed(group, group.plan.victims[action.pod.uid])
        if isinstance(action, SuspendJob) and group.plan is not None and outcome is Outcome.OK:
            suspension.suspended(self._steps, group, group.plan, action.job)
        if isinstance(action, ResumeJob) and group.plan is not None and outcome is Outcome.OK:
            self._steps.actions.append(report.job_resumed(action.job, len(group.plan.placements), message))
            admission.admitted(self._steps, group)
        self._steps.check.add(key)

    def _removed(self, group: Group, victim: Victim) -> None:
        pod = self._world.pods.get(victim.uid)
        if pod is not None and pod.finished:
            return  # it has ended by itself just before
        if group.state is State.ROLLING_BACK:
            rollback.removed(self._steps, group, victim)
            return
        trigger = self._steps.trigger(group)
        priority = self._world.membership.preemptor_priority(group.gangs)
        self._steps.actions.append(report.victim_evicted(victim, group.name, trigger, priority))

    def _apart(self, key: str, action: Repeated, outcome: Outcome) -> None:
        """The outcome of a write that no phase waits for (any more)."""
        repeats, uid = self._steps.repeats, action.pod.uid
        if isinstance(action, Bind) and not repeats.has(Bind, uid):
            repeats.sent(action)
        failures = repeats.answered(action, outcome)
        if failures:
            self._steps.repeat_later(action, failures)
        elif isinstance(action, Bind):
            self._bound(key, None, action, outcome)
            pod = self._world.pods.get(uid)
            if pod is not None:
                self._refresh(pod.gang)

    def _bound(self, key: str, group: Group | None, action: Bind, outcome: Outcome) -> None:
        if outcome is Outcome.OK:
            telling.bound(self._steps, key, group, action)
            if group is not None:
                group.begun.add(action.pod.uid)
                elsewhere.bound(group, action)
            return
        if outcome is Outcome.REFUSED and group is not None:
            elsewhere.refused(self._steps, group, action)
        waits = outcome is Outcome.OUTDATED and group is not None  # its room stays taken until the phase is over
        if outcome is not Outcome.TRANSIENT and not waits:
            self._world.forget(action.pod.uid)
            self._steps.changes.append(Change(Hint.ROOM, action.node))

    def over(self) -> None:
        """Gangs for which every answer of a phase is there, or every victim is gone, go on."""
        self._rechecks.follow()
        check, self._steps.check = self._steps.check, set()
        for key in sorted(check):
            group = self._groups.get(key)
            if group is None or not group.barrier.complete or group.plan is None or group.retry_at is not None:
                continue
            if group.state is State.NOMINATED and condemning.depends(self._steps, group.plan):
                continue  # they may be spared yet
            if group.state is State.WAITING:
                if not group.plan.waiting:
                    self._room_freed(group, group.plan)
            elif group.state is State.STARTING and not group.barrier.failed:
                if not self._world.ledger.pods_of(key):
                    self._signal(group, Signal.ADOPTED)
                    self._recheck(group)
            elif group.state in PHASES:
                self._phase_over(group, group.plan)

    def _phase_over(self, group: Group, plan: Plan) -> None:
        failures = [f for f in group.barrier.failed if not self._harmless(group, f.outcome)]
        group.barrier = Barrier()
        if group.state is State.PREBINDING and not failures:
            done, problem = prebind.done(self._steps, plan)
            if done:
                whole = prebind.whole(self._steps, group, plan) and self.still_holds(group, plan)
                self._signal(group, Signal.VOLUMES_BOUND if whole else Signal.PLAN_BROKEN)
            if not problem:
                return
            failures = [Failure("", Outcome.CONFLICT, problem)]
        if not failures:
            if group.state is State.MARKING_MEMBERS and not self._hopeless(group):
                self._signal(group, Signal.PLAN_BROKEN)
                return
            if group.state is State.MARKED and not self._rechecks.goes_on(group, plan):
                self._signal(group, Signal.PLAN_BROKEN)
                return
            self._written(group)
            return
        unknown = [f for f in failures if f.outcome is Outcome.TRANSIENT]
        unsent = [f for f in failures if f.outcome is Outcome.OUTDATED]
        if self._again(group, plan, failures):
            return
        if group.state is State.BINDING and unknown:
            # It may have taken effect: only the same binding again can tell without giving the room away twice.
            group.unsure = [f.uid for f in unknown]
            group.barrier.failed += [f for f in failures if f.outcome is not Outcome.TRANSIENT]
            group.attempts += 1
            group.retry_at = self._steps.now + self._steps.backoff(group)
            return
        if unsent == failures and self._bind_anew(group, plan, {f.uid for f in unsent}):
            return
        group.barrier.failed += unsent
        group.failed_binds += group.state is State.BINDING and unsent != failures
        # They stay: their marks are taken back.
        plan.removed.difference_update(pod for f in failures for pod in plan.meant(f.uid))
        group.message = f"{group.state.value}: {failures[0].text}"
        group.look = self._world.membership.look(group.gangs)  # what has become of these writes is no news
        self._signal(group, self._verdict_on(group, {f.outcome for f in failures}))
        self._recheck(group)

    def _again(self, group: Group, plan: Plan, failures: Sequence[Failure]) -> bool:
        """Ask once more for removals, and for marks of a list that was begun, of which nobody knows what has become, or
        that have not been sent; returns whether that is what has happened. It ends with the time of the gang.
        """
        repeated = {Outcome.TRANSIENT, Outcome.OUTDATED}
        unmarked = self._unmarked(group, plan, failures)
        if sum(f.outcome in repeated for f in failures) + unmarked != len(failures):
            return False
        if group.state is State.MARKED and plan.announced:
            if not self._rechecks.goes_on(group, plan):
                return False
            self._steps.carry_out(Do.MARK, group)
            return True
        if group.state not in (State.EVICTING, State.ROLLING_BACK):
            return False
        plan.unsure.update(pod for f in failures if f.outcome is Outcome.TRANSIENT for pod in plan.meant(f.uid))
        plan.removed.difference_update(pod for f in failures for pod in plan.meant(f.uid))
        plan.marked_again += bool(unmarked)
        if group.state is State.ROLLING_BACK:
            rollback.remove(self._steps, group)
        elif not self._rechecks.goes_on(group, plan):
            self._signal(group, Signal.PLAN_BROKEN)
        elif unmarked:
            self._signal(group, Signal.MARK_LOST)
        else:
            self._steps.remove(group)  # the same list again
        return True

    @staticmethod
    def _unmarked(group: Group, plan: Plan, failures: Sequence[Failure]) -> int:
        """How many removals failed because others have taken back the mark, or because of the state that a pod is in
        otherwise: then the same list is marked again. Not for ever: somebody may want the pod to stay.
        """
        if group.state is not State.EVICTING or plan.marked_again >= _MARKED_AGAIN:
            return 0
        conflicts = [f for f in failures if f.outcome is Outcome.CONFLICT]
        return len(conflicts) if all(f.uid in plan.victims for f in conflicts) else 0

    @staticmethod
    def _verdict_on(group: Group, outcomes: set[Outcome]) -> Signal:
        """Gone and conflict mean that the cluster is not what the plan assumed: decide again on what it is now.

        When that happens again, what is known may lag behind: then there is a pause first. Not so when nothing was
        sent because of what is known by now: that is new each time, and who pauses for it leaves the room to others.
        """
        if outcomes == {Outcome.OUTDATED}:
            return Signal.PLAN_BROKEN
        if not outcomes <= {Outcome.GONE, Outcome.CONFLICT, Outcome.OUTDATED}:
            return Signal.WRITE_FAILED
        group.conflicts += 1
        return Signal.PLAN_BROKEN if group.conflicts < 2 else Signal.CONFLICT

    def _bind_anew(self, group: Group, plan: Plan, uids: set[str]) -> bool:
        """Bindings were not sent because others have bound pods to these nodes. Where all these members (UIDs) still
        fit, that is asked for again, and their nominations stand; returns whether it is.
        """
        places = [place for place in plan.placements if place.uid in uids]
        for place in places:
            self._world.forget(place.uid)
        fits = self._decider.still_holds(group.gangs, group.key, self._steps.now, places, (), terminating_leave=False)
        for place in places:
            if place.uid in self._world.pods:
                self._world.assume(place.uid, place.node)
        if fits:
            bindings.bind(self._steps, group, places)
        return fits

    def _written(self, group: Group) -> None:
        was = group.state
        if was is State.BINDING:
            admission.admitted(self._steps, group)
        self._signal(group, Signal.WRITTEN)
        if was is State.BINDING:
            group.attempts = 0
            group.rounds = 0
            group.conflicts = 0
            group.message = ""
            group.rollbacks = 0
            group.budget_round = -1
        if was in (State.BINDING, State.ROLLING_BACK):
            group.begun.clear()
            group.failed_binds = 0
            group.refused_on.clear()
            self._recheck(group)

    def _recheck(self, group: Group) -> None:
        """Bindings are through: see who is still pending."""
        for gang in group.gangs:
            self._refresh(gang)

    @staticmethod
    def _harmless(group: Group, outcome: Outcome) -> bool:
        """A victim that is gone already has left all by itself."""
        return group.state in (State.MARKED, State.EVICTING, *ROLLING_BACK) and outcome is Outcome.GONE

    def still_holds(self, group: Group, plan: Plan) -> bool:
        """Do the plan's members still fit on their nodes, once the pods that it waits for are gone? A gang that only
        waits for its volumes counts on nobody to leave.
        """
        awaits = group.state is not State.PREBINDING
        return self._decider.still_holds(
            group.gangs, group.key, self._steps.now, plan.placements, plan.waiting, terminating_leave=awaits
        )

    def decided(self, group: Group, since: float | None, evicts_from: float = 0.0) -> Verdict:
        """Decide a gang that could not be placed since then, as often as it may evict others."""
        return self._decider.decide(
            group.gangs,
            group.key,
            self._steps.now,
            may_preempt=group.rounds < self._steps.options.max_rounds,
            evicts_from=evicts_from,
            waiting_since=since,
        )

    def _hopeless(self, group: Group) -> bool:
        """Is the gang still bound in part, and still without a place for the others?"""
        if not self._world.membership.half_bound(group.gangs):
            return False
        max_rounds = self._steps.options.max_rounds
        if group.failed_binds >= max_rounds:
            return True  # there is a place as far as is known here, and yet they cannot be bound
        verdict = self.decided(group, group.waiting_since)
        return rollback.hopeless(group, verdict, max_rounds)

    def _room_freed(self, group: Group, plan: Plan) -> None:
        verdict = self._decider.decide(
            group.gangs, group.key, self._steps.now, may_preempt=False, prefer=plan.node_of, holding=True
        )
        if verdict.outcome == WAIT and all(plan.node_of.get(p.uid) == p.node for p in verdict.placements):
            self._steps.wait_for(group, plan, [a.uid for a in verdict.awaiting])  # others leave these nodes too
            return
        if verdict.outcome != BIND:
            group.message = telling.room_taken(self._steps, group, plan, verdict.message)
            self._signal(group, Signal.PLAN_BROKEN)
            return
        admission.reserved(self._steps, group, verdict)
        moved = nominations.withdraw_moved(self._steps, plan, verdict.placements)
        condemning.end(self._steps, group, plan)
        group.plan = Plan(plan.ident, verdict.placements, (), ())
        group.plan.nominated = plan.nominated - moved
        self._steps.follow(group, verdict)
        self._signal(group, self.onward(group, Signal.ROOM_FREED, group.plan))
