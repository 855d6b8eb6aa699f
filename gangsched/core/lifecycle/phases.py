"""The answers to writes, and what follows when a phase of a gang's plan is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gangsched.core.actions import (
    Action,
    AskRemoval,
    Bind,
    HoldNode,
    Mark,
    Nominate,
    ReleaseNode,
    Removal,
    Remove,
    ResumeJob,
    SuspendJob,
    WithdrawNomination,
)
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.actuation.actuator import Answer as Written
from gangsched.core.decision import BIND, WAIT, Verdict
from gangsched.core.events import Change, Failure, Hint, Outcome
from gangsched.core.ledger.condemned import Cause, Eviction, Phase
from gangsched.core.lifecycle import report, rollback
from gangsched.core.lifecycle.binding import enough
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.draining import Drains
from gangsched.core.lifecycle.gangs import Gangs
from gangsched.core.lifecycle.group import TRIES, Failed, Group, Plan
from gangsched.core.lifecycle.refused_bindings import asked_by
from gangsched.core.lifecycle.review import Review
from gangsched.core.lifecycle.table import UNDER_WAY, Signal, State
from gangsched.core.lifecycle.waiting import NominatedGangs
from gangsched.core.planning.context import NO_PAUSE, Pause, Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.job_failures import failing
from gangsched.core.state.lingering import kept_by
from gangsched.core.volumes.binding import needs_binding
from gangsched.messages import notes
from gangsched.messages.text import pluralize


class Phases:
    """Follows the plans of ``gangs`` from one phase to the next."""

    def __init__(
        self,
        decider: Decider,
        actuator: Actuator,
        reporter: Reporter,
        gangs: Gangs,
        drains: Drains,
        nominated: NominatedGangs,
    ) -> None:
        self._drains = drains
        self._world = decider.world
        self._ledger = decider.ledger
        self._work = decider.ledger.work
        self._decider = decider
        self._actuator = actuator
        self._reporter = reporter
        self._bindings = gangs.bindings
        self._evictions = gangs.evictions
        self._losses = gangs.losses
        self._review = gangs.review
        self._holding = gangs.holding
        self._gangs = gangs
        self._groups = gangs.groups
        self._signal = gangs.signal
        self._refresh = gangs.refresh
        self._nominated = nominated

    def onward(self, group: Group, signal: Signal, plan: Plan) -> Signal:
        """Members that could be bound now have to wait while their claims are not bound, or do not exist yet, or while
        one of them is nominated elsewhere.
        """
        if signal is not Signal.FITS:
            return signal
        if group.without_pods:
            return Signal.START
        claims = needs_binding(self._world.snapshot, self._world.members, plan.placements)
        claims = claims or self._gangs.claims.lacking(plan)
        return Signal.VOLUMES if claims or self._bindings.nominated_elsewhere(group) else signal

    def answer(self, action_id: int, outcome: Outcome, message: str) -> None:
        """The outcome of a write."""
        answer = self._actuator.answered(action_id, outcome, message, self._world.now)
        if answer is not None:
            self._follow_up(answer)

    def ask_again(self) -> None:
        """The time has come for what had no effect that is known."""
        for answer in self._actuator.ask_again(self._world.now):
            self._follow_up(answer)

    def _follow_up(self, answer: Written) -> None:
        key, action, outcome, message = answer[:4]
        if isinstance(action, HoldNode | ReleaseNode):
            self._holding.answered(answer)
            return
        # A victim that may not be marked may not be removed either: nothing is removed without its mark.
        if isinstance(action, Remove | AskRemoval | Mark) and outcome is Outcome.REFUSED:
            self._world.refused_removals.note(action.pod.uid, action.pod.namespace, message, self._world.now)
        eviction, group = self._ledger.condemned.evictions.get(key), self._groups.get(key)
        if answer.in_phase:
            if isinstance(action, Remove | SuspendJob) and eviction is not None and outcome is Outcome.OK:
                self._leaves(group, eviction, action)
            elif group is not None:
                self._answered(key, group, action, outcome, message)
        elif answer.settled:
            self._late(group, answer)
        if key in self._reporter.unsaid and not self._actuator.has_writes_in_flight(key):
            self._reporter.bound_by_now(key)

    def _answered(self, key: str, group: Group, action: Action, outcome: Outcome, message: str) -> None:
        if isinstance(action, Bind):
            self._bound(key, group, action, outcome)
        if isinstance(action, Nominate) and outcome is Outcome.REFUSED:
            self._not_nominated(group, action)
        if isinstance(action, ResumeJob) and group.plan is not None and outcome is Outcome.OK:
            note = notes.job_resumed(pods=pluralize(len(group.plan.placements), "pod"))
            note = f"{note}; {message}" if message else note
            self._reporter.event(action.job, report.RESUMED, note)
            self._reporter.admitted(group)

    def _not_nominated(self, group: Group, action: Nominate) -> None:
        """The status of a member may not be written. Each new plan would be refused too, so the gang pauses."""
        pod, now = self._world.pods.get(action.pod.uid), self._world.now
        if pod is not None and group.failures.refuse(pod.uid, asked_by(pod), now, notes.NOMINATION_REFUSED):
            group.failures.no_hold_until = group.failures.refusals[pod.uid].until

    def _late(self, group: Group | None, answer: Written) -> None:
        """The outcome of a write for which no phase waits (any more)."""
        key, action, outcome, _ = answer[:4]
        if isinstance(action, Bind):
            self._bound(key, None, action, outcome)
            pod = self._world.pods.get(action.pod.uid)
            if pod is not None:
                self._refresh(pod.gang)
        elif isinstance(action, WithdrawNomination):
            pod = self._world.pods.get(action.pod.uid)
            waits = self._gangs.group_of(pod.gang) if pod is not None else None
            if waits is not None and waits.state is State.PREBINDING:
                self._work.phases.add(waits.key)
        elif isinstance(action, ResumeJob) and outcome is not Outcome.OK and group is not None:
            self._recheck(group)  # its room was given up meanwhile: if it is still suspended, it waits again
        elif outcome not in (Outcome.OK, Outcome.GONE):
            self._evictions.not_removed(key, action, outcome)

    def _leaves(self, group: Group | None, eviction: Eviction, removal: Removal) -> None:
        """A removal has been accepted: it is reported on its pods."""
        pods = self._world.pods
        uids = sorted(eviction.meant(removal.pod.uid) & eviction.victims.keys())
        # One that has ended by itself just before does not leave for it.
        victims = [eviction.victims[uid] for uid in uids if uid not in pods or not pods[uid].finished]
        if eviction.grounds.cause is Cause.DRAIN:
            self._drains.leave(eviction, victims)
        elif eviction.grounds.cause is Cause.ROLLBACK and group is not None:
            self._reporter.rolled_back(group, victims)
        elif group is None:
            for v in victims:
                note = notes.finished(node=v.node, kind=v.unit.kind, name=v.unit.name, preemptor=eviction.grounds.owner)
                self._reporter.event(v, report.PREEMPTED, note)
        else:
            trigger, priority = (
                report.trigger(self._world, group),
                self._world.membership.preemptor_priority(group.gangs),
            )
            for v in victims:
                note = notes.preempted_by(
                    preemptor=group.name,
                    priority=priority,
                    trigger=trigger.key,
                    node=v.node,
                    reason=v.reason,
                    why=v.why,
                )
                self._reporter.event(v, report.PREEMPTED, note, trigger)
            if isinstance(removal, SuspendJob):
                note = notes.job_suspended(
                    preemptor=group.name, priority=priority, trigger=trigger.key, plan=eviction.grounds.ident
                )
                self._reporter.event(removal.job, report.PREEMPTED, note, trigger, "Suspending")

    def _bound(self, key: str, group: Group | None, action: Bind, outcome: Outcome) -> None:
        if outcome is Outcome.OK:
            self._reporter.bound(key, group, action)
            if group is not None:
                group.failures.begun.add(action.pod.uid)
                group.failures.refusals.pop(action.pod.uid, None)
            return
        if outcome is Outcome.REFUSED and group is not None:
            self._losses.refused(group, action)
        waits = outcome is Outcome.OUTDATED and group is not None  # its room stays taken until the phase is over
        if outcome is not Outcome.TRANSIENT and not waits:
            self._world.forget(action.pod.uid)
            self._gangs.claims.no_longer_placed([action.pod.uid])
            self._work.changes.append(Change(Hint.ROOM, action.node))

    def continue_answered(self) -> None:
        """Gangs for which every answer of a phase is there, or every victim is gone, go on."""
        if self._gangs.broken.open:
            self._gangs.broken.continue_answered()
        check = sorted(self._work.phases)
        self._work.phases.clear()
        self._holding.touch(check)
        for key in check:
            if self._work.lost:  # the room of a plan that has just failed may be kept for its gang
                self._losses.update_room(self._groups, self._drains.holds, ())
            group = self._groups.get(key)
            if group is None or group.plan is None or not self._actuator.settled(key):
                continue
            if group.state is State.EVICTING:
                self._evicting(group, group.plan)
            elif group.state is State.STARTING and not self._actuator.failures(key):
                if not self._ledger.pods_of(key):
                    if (job := report.job_of(self._world, group.gangs[0])) is not None:
                        self._world.resumes.came(job.uid)
                    self._signal(group, Signal.DONE)
                    self._recheck(group)
            elif group.state in UNDER_WAY:
                self._written(group, group.plan)

    # -- evicting ------------------------------------------------------------------------------------------

    def _evicting(self, group: Group, plan: Plan) -> None:
        """A phase of the gang's eviction is over: the next one, unless something has failed or has changed."""
        eviction = plan.eviction
        match eviction.phase:
            case Phase.LEAVING | Phase.NOTICE | Phase.NOMINATING if self._gives_up_overdue(group, plan):
                pass
            case Phase.NOTICE if self._ledger.waits(group.key):
                if eviction.begins <= self._world.now:
                    self._notice_over(group, plan)
            case Phase.LEAVING | Phase.NOTICE:
                if not self._ledger.waits(group.key):
                    self._room_freed(group, plan)
                elif self._evictions.due(eviction):  # their turn has come, or another has given them up
                    self._more_leave(group, plan)
            case Phase.NOMINATING:
                if self._evictions.depends(plan):
                    return  # they may be spared yet
                failures = self._actuator.take_failures(group.key)
                # A victim that is gone has left by itself.
                failures = [f for f in failures if f.uid not in eviction.victims or f.outcome is not Outcome.GONE]
                if failures:
                    self._fail(group, plan, failures)
                else:
                    self._evictions.mark(eviction)
            case Phase.MARKING if not (group.rolled_back or self._holding.stands(eviction)):
                pass
            case Phase.MARKING | Phase.REMOVING:
                self._victims_written(group, plan)

    def _notice_over(self, group: Group, plan: Plan) -> None:
        """The victims are marked now, and leave if they still have to, or the gang is decided anew."""
        if self._gangs.notices.needs_second_choice(plan.eviction):
            group.noticed = dict.fromkeys(plan.victims, plan.eviction.begins)
            group.message = notes.WEIGHED_AGAIN
            self._signal(group, Signal.BROKEN)
        else:
            self._evictions.mark_again(plan.eviction)

    def _more_leave(self, group: Group, plan: Plan) -> None:
        """The turn of further victims has come. They stay if another pod has taken the room of those who left first."""
        if self._review.holds(group, plan):
            self._evictions.mark_again(plan.eviction)
        else:
            self._taken(group, plan, notes.NO_ROOM_ANY_MORE)

    def _taken(self, group: Group, plan: Plan, why: str) -> None:
        """The room that was freed is not there any more."""
        group.message = self._reporter.room_taken(group, plan, why)
        group.failures.room_taken()
        self._signal(group, Signal.BROKEN)

    def _victims_written(self, group: Group, plan: Plan) -> None:
        """All marks or removals have been answered. Undone writes are repeated, once it is known whether the others
        still have to be evicted.
        """
        eviction = plan.eviction
        failures = self._evictions.written(eviction)
        marked = eviction.phase is Phase.MARKING
        if eviction.fails(failures):
            self._fail(group, plan, failures)
        elif failures or marked:
            if (group.rolled_back and not marked) or self._reviewed(group, plan) is Review.KEEP:
                self._go_on(group, plan)
            elif group.rolled_back:
                self._signal(group, Signal.BROKEN)
            else:
                self._nominated.stopped(group)  # in its turn: what others have just given up may be enough
        elif group.rolled_back:
            self._signal(group, Signal.FAILED)
            group.failures.whole_again()
            self._recheck(group)
        else:
            eviction.phase = Phase.LEAVING
            self._work.phases.add(group.key)

    def _go_on(self, group: Group, plan: Plan, *, tell: bool = True) -> None:
        self._gangs.remove(group)
        if tell and plan.eviction.phase is Phase.NOTICE:
            self._gangs.notices.announce(plan.eviction, group.name)

    def go_on(self, group: Group, plan: Plan, *, tell: bool = True) -> None:
        """A plan with victims is checked in the turn of its gang, or after a takeover. It continues, or the gang is
        decided again. With ``tell`` an Event on each victim that has notice says so.
        """
        if self._reviewed(group, plan) is Review.KEEP:
            self._go_on(group, plan, tell=tell)
        else:
            group.failures.record(Failed.CHANGED)
            self._signal(group, Signal.BROKEN)

    def _gives_up_overdue(self, group: Group, plan: Plan) -> bool:
        """Stop waiting for pods that are overdue. Return True if the gang needs their room and has to be decided again.

        The new decision may choose other victims.
        """
        overdue = sorted(self._ledger.waits(group.key) & self._world.sightings.overdue)
        for uid in overdue:
            self._ledger.no_longer_waits(uid, group.key)
        if not overdue or self._review.holds(group, plan):
            return False
        late = sorted((self._world.pods[uid] for uid in overdue), key=lambda pod: pod.key)[:5]
        names = ", ".join(kept_by(pod, self._world.snapshot.node(pod.node)) for pod in late)
        group.message = notes.timed_out_while_terminating(stage=group.stage, names=names)
        self._reporter.where_it_stands(group)
        self._signal(group, Signal.BROKEN)
        return True

    def _reviewed(self, group: Group, plan: Plan) -> Review:
        """The verdict on a plan before (further) victims are removed."""
        if group.rolled_back:
            keep = self._hopeless(group) and not failing(plan.victims.values(), self._world, self._ledger.condemned)
            return Review.KEEP if keep else Review.REPLACE
        return self._review.verdict(group, plan)

    # -- binding -------------------------------------------------------------------------------------------

    def _written(self, group: Group, plan: Plan) -> None:
        """Every write about the members has been answered."""
        failures = self._actuator.take_failures(group.key)
        if group.state is State.PREBINDING and not failures:
            done, problem = self._bindings.prebound(group, plan)
            if done and not self._bindings.nominated_elsewhere(group):
                # While volumes were bound members that ran may have gone.
                whole = enough(self._world, group.gangs, plan.node_of) and self._review.holds(group, plan)
                self._signal(group, Signal.FITS if whole else Signal.BROKEN)
            if not problem:
                return
            failures = [Failure("", Outcome.CONFLICT, problem)]
        if not failures:
            self._all_bound(group)
            return
        unsent = [f for f in failures if f.outcome is Outcome.OUTDATED]
        if unsent == failures and self._bind_anew(group, plan, {f.uid for f in unsent}):
            return
        self._actuator.fail(group.key, *unsent)
        if group.state is State.BINDING and unsent != failures:
            group.failures.record(Failed.BINDING)
        self._fail(group, plan, failures)

    def _fail(self, group: Group, plan: Plan, failures: Sequence[Failure]) -> None:
        """These writes have failed, and the plan with them."""
        group.message = f"{group.stage}: {failures[0].text}"
        group.update_facts(
            self._world.membership.decisive_facts(group.gangs)
        )  # what has become of these writes is no news
        self._signal(group, self._verdict_on(group, {f.outcome for f in failures}))
        self._recheck(group)

    @staticmethod
    def _verdict_on(group: Group, outcomes: set[Outcome]) -> Signal:
        """Gone and conflict mean that the cluster is not what the plan assumed: decide again on what it is now.

        When that happens again, what is known may lag behind: then there is a pause first. Not so when nothing was
        sent because of what is known by now: that is new each time, and who pauses for it leaves the room to others.
        """
        if outcomes == {Outcome.OUTDATED}:
            return Signal.BROKEN
        if not outcomes <= {Outcome.GONE, Outcome.CONFLICT, Outcome.OUTDATED}:
            return Signal.FAILED
        group.failures.record(Failed.CONFLICT)
        return Signal.BROKEN if group.failures.count(Failed.CONFLICT) < 2 else Signal.FAILED

    def _bind_anew(self, group: Group, plan: Plan, uids: set[str]) -> bool:
        """Bindings were not sent because others have bound pods to these nodes. If all these members (UIDs) still fit,
        their bindings are requested again, and their nominations stand. Return True if so.
        """
        places = [place for place in plan.placements if place.uid in uids]
        for place in places:
            self._world.forget(place.uid)
        fits = self._review.holds(group, plan, places)
        for place in places:
            if place.uid in self._world.members:
                self._world.assume(place.uid, place.node)
        if fits:
            self._bindings.bind(group, places)
        return fits

    def _all_bound(self, group: Group) -> None:
        self._reporter.admitted(group)
        self._signal(group, Signal.DONE)
        group.message = ""
        group.failures.bound()
        self._recheck(group)

    def _recheck(self, group: Group) -> None:
        """Bindings are through: see who is still pending."""
        for gang in group.gangs:
            self._refresh(gang)

    def decided(
        self, group: Group, since: float | None, pause: Pause = NO_PAUSE, *, minimum_first: bool = False
    ) -> Verdict:
        """Decide a gang that could not be placed since then."""
        no_hold_until = group.failures.no_hold_until
        asked = Question(
            group.gangs, pause=pause, waiting_since=since, minimum_first=minimum_first, no_hold_until=no_hold_until
        )
        return self._decider.decide(asked)

    def _hopeless(self, group: Group) -> bool:
        """Return True if the gang is still bound in part and the others still have no place."""
        if not self._world.membership.half_bound(group.gangs):
            return False
        if group.failures.count(Failed.BINDING) >= TRIES:
            return True  # there is a place as far as is known here, and yet they cannot be bound
        return rollback.hopeless(self.decided(group, group.waiting_since))

    def _room_freed(self, group: Group, plan: Plan) -> None:
        asked = Question(group.gangs, may_preempt=False, prefer=plan.node_of, holding=True)
        verdict = self._decider.decide(asked)
        if verdict.outcome == WAIT and all(plan.node_of.get(p.uid) == p.node for p in verdict.placements):
            for awaited in verdict.awaiting:  # others leave these nodes too
                self._ledger.wait_for(awaited.uid, group.key)
            return
        if verdict.outcome != BIND:
            self._taken(group, plan, verdict.said)
            return
        self._bind(group, plan, verdict)

    def give_up_victims(self, group: Group, plan: Plan, verdict: Verdict) -> None:
        """None of the plan's victims has to leave any more. If the gang can be bound as this verdict has it, it is;
        otherwise another plan has to follow.
        """
        self._ledger.stop_waiting(group.key)
        self._gangs.broken.withdraw(plan.eviction)
        if verdict.outcome == BIND:
            self._bind(group, plan, verdict)
        else:
            self._end(group, plan, {place.uid: place.node for place in verdict.placements})

    def _end(self, group: Group, plan: Plan, nodes: Mapping[str, str]) -> None:
        """The plan is over; what follows has the members (UIDs) on these nodes."""
        self._bindings.clear(group, nodes, notes.OTHER_NODE)
        self._evictions.end(plan.eviction)
        self._gangs.claims.no_longer_placed(plan.node_of)

    def _bind(self, group: Group, plan: Plan, verdict: Verdict) -> None:
        """There is room for the gang where this verdict has it: it waits for no pod any more."""
        self._reporter.quota_reserved(group, verdict)
        nodes = {place.uid: place.node for place in verdict.placements}
        self._end(group, plan, nodes)
        group.plan = Plan(verdict.placements, group.eviction(plan.ident))
        self._gangs.announced.hold(group, verdict.announced)
        group.plan.nominated = {uid: node for uid, node in plan.nominated.items() if nodes.get(uid) == node}
        self._bindings.adopt(group, verdict)
        self._signal(group, self.onward(group, Signal.FITS, group.plan))
