"""The entrance to the life cycle: the next gang, the effects of a decision, and the effects of time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from gangsched.core import events as ev
from gangsched.core.actions import Action
from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.actuation.records import bears
from gangsched.core.decision import (
    BIND,
    UNSCHEDULABLE,
    Decision,
    Fits,
    FitsWhenFreed,
    Order,
    Preempt,
    Unschedulable,
    Verdict,
)
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.backfill import STRICT
from gangsched.core.ledger.condemned import NO_PLAN, STOPS, UNBEGUN, Cause, Eviction, Phase, VictimState
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report, rollback
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.draining import Drains
from gangsched.core.lifecycle.gangs import Gangs
from gangsched.core.lifecycle.group import Failed, Group, Outlook, Plan
from gangsched.core.lifecycle.lost_nodes import lost_node
from gangsched.core.lifecycle.phases import Phases
from gangsched.core.lifecycle.recovery import Recovery
from gangsched.core.lifecycle.refused_bindings import other_nodes, pause_of
from gangsched.core.lifecycle.table import Signal, State
from gangsched.core.lifecycle.waiting import NominatedGangs
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.queue.rounds import charged
from gangsched.core.queue.scheduling_queue import Queue
from gangsched.core.queue.signature import Signature, signature_of, speaks_for_others
from gangsched.core.state.scheduler_names import NameOwner
from gangsched.core.world.world import World, queue_order, surplus_waits, take_in
from gangsched.messages import notes
from gangsched.model.times import render_time

#: What members wait for while their claims are given volumes and devices.
_OF_CLAIMS = (Hint.VOLUMES, Hint.DEVICES)


class Ids:
    """Numbers of writes and plans, each used once."""

    def __init__(self) -> None:
        self.writes = itertools.count(1)
        self.plans = itertools.count(1)


class Executor:
    """Executes decisions. :meth:`at` is called first.

    It is all that is intended, with the ledger, which begins with it: a process that loses its leadership goes on with
    new ones, and with nothing assumed. ``ids`` are the numbers of writes and plans, of which none is used twice in the
    life of a process.

    The caller fills ``work``, too. ``gangs`` gets every pod that is touched, ``phases`` every answer to a write;
    ``groups`` has the gangs under way, by key.
    """

    def __init__(self, world: World, decider: Decider, options: Options, ids: Ids) -> None:
        self._ledger = ledger = Ledger(options.queue_policy == STRICT, options.max_wait_seconds)
        world.forget_ours()
        world.managed.intend(ledger)
        world.agenda.intended = ledger.agenda
        decider.ledger = ledger  # before all that is made below: it finds the ledger there
        self.world = world
        self.decider = decider
        self.options = options
        self.work = ledger.work
        self._observed, self._intended = world.agenda.soonest, ledger.agenda.soonest
        #: The gangs that wait to be decided.
        self.queue = Queue(ledger.agenda.page(), options.flush_seconds)
        self._actions: list[Action] = []
        self._reporter = reporter = Reporter(world, ledger, options, self._actions)
        send, over = self._actions.append, ledger.work.phases.add
        again, later = partial(desired.still_desired, world, ledger, options), ledger.agenda.page()
        actuator = Actuator(send, ids.writes, options.backoff, later, again, over, self._named)
        self._actuator = actuator
        self.gangs = Gangs(decider, actuator, reporter, self.queue)
        self.groups, self._signal = self.gangs.groups, self.gangs.signal
        self._evictions, self._bindings, self._waiting = self.gangs.evictions, self.gangs.bindings, self.gangs.waiting
        self._losses, self._announced, self._review = self.gangs.losses, self.gangs.announced, self.gangs.review
        self._unschedulable = self.gangs.unschedulable
        self.drains = Drains(world, ledger, options, actuator, reporter, self.gangs)
        self._nominated = NominatedGangs(world, ledger, actuator, self.groups)
        self.phases = Phases(decider, actuator, reporter, self.gangs, self.drains, self._nominated)
        self._blocked_by_writes: set[str] = set()
        self._plans = ids.plans

    def _named(self, uid: str) -> str:
        """The key of the eviction that a pod names as its owner, or is about to."""
        named = self._ledger.condemned.named(uid)
        return named.key if named is not None else ""

    def at(self, now: float) -> None:
        """A call begins at this time (seconds)."""
        self.world.now = now
        if self._is_due():
            for uid in self.world.sightings.newly_overdue(now):
                self.work.phases.update(self._ledger.awaited.get(uid, ()))

    def _is_due(self) -> bool:
        """Return True if any timer is over. This is called several times for every event."""
        now = self.world.now
        return (self._observed.when <= now or self._intended.when <= now) and self.world.agenda.due(now)

    # -- the outside ---------------------------------------------------------------------------------------

    def process_worklist(self) -> list[Action]:
        """Process the worklist until it is empty. Return the actions."""
        work = self.work
        while True:
            self._refresh()
            self._look_at_losing()
            self._plans_at_risk()
            if self.drains.at_work:
                self.drains.advance()
            if self._is_due():
                self._time_passed()
            if work.phases:
                self.phases.continue_answered()
            self.gangs.claims.take_back_unused()
            if self.drains.at_work:
                self.drains.advance()  # who was being bound until now, and whose queue is drained, may leave
            changes = self._take_changes()
            if changes:
                # Something happened that may help parked gangs.
                self._nominated.record_changes(changes)
                self._unschedulable.wake(changes)
            if not work:
                self.gangs.holding.write_taints()  # which nodes plans need is seen when all else has come to rest
                if not work:
                    break
        out = self._actions.copy()
        self._actions.clear()
        return out

    def _refresh(self) -> None:
        """Look again at every gang that was touched."""
        touched, self.work.gangs = self.work.gangs, set()
        if touched:
            self.gangs.refresh_all(touched)

    def _take_changes(self) -> list[Change]:
        """Process a change that may help, from an event or from our own steps. Gangs that wait for their volumes may
        have counted on what others have given up.
        """
        out, self.work.changes = self.work.changes, []
        if self.world.managed.active:
            out += [Change(Hint.QUOTA, tree=tree) for tree in sorted(self.world.managed.take_changes())]
        else:
            self.world.membership.changed.clear()  # only quota asks for it
        if any(change.kind in _OF_CLAIMS for change in out):
            groups = map(self.groups.get, self._ledger.holders())
            self.work.phases.update(g.key for g in groups if g is not None and g.state is State.PREBINDING)
        return out

    def head(self) -> Group | None:
        """Return the gang to be decided next, or to be checked again while it waits for room (see :meth:`decide`)."""
        head, helped = self._head(), self._nominated.first() if self._nominated.helped else None
        if helped is None or self._blocked_before(helped[0]):
            return head
        place = self.queue.active_place(head.key) if head is not None else None
        return head if place is not None and place < helped[0] else helped[1]

    def _blocked_before(self, order: Order) -> bool:
        """Return True if a gang that comes before this one waits beside the queue. The room may be free only because
        that gang is being moved.
        """
        gangs = (self.groups[key].gangs for key in self._blocked_by_writes if key in self.groups)
        return any(queue_order(self.world, some) < order for some in gangs)

    def _head(self) -> Group | None:
        """The first gang of the queue. One whose earlier plan still has writes on their way waits beside it."""
        for key in [k for k in self._blocked_by_writes if not self._has_writes_in_flight(k)]:
            self._blocked_by_writes.discard(key)
            group = self.groups.get(key)
            if group is not None and group.state is State.QUEUED:
                self._waiting.push(group)
        while (head := self.queue.head()) is not None:
            if not self._has_writes_in_flight(head):
                return self.groups[head]
            if self.groups[head].state is State.BACKOFF:
                self.queue.wait_out_backoff(head)  # it comes when its backoff is over
                continue
            self.queue.remove(head)
            self._blocked_by_writes.add(head)
        return None

    def _has_writes_in_flight(self, key: str) -> bool:
        group = self.groups.get(key)
        return group is not None and self._bindings.has_writes_in_flight(group)

    def name_served(self, name: str, owner: NameOwner, *, taken: bool) -> None:
        """From now on its ``owner`` serves a scheduler name of ours, or does not any more."""
        if taken:
            self.gangs.leave(name)
        if owner.shown_by is not None:
            note = notes.pods_left_to_owner(text=owner.text, name=name) if taken else notes.name_served(name=name)
            reason = report.NAME_TAKEN if taken else report.NAME_SERVED
            self._reporter.event(owner.shown_by, reason, note)

    def quarantined(self, event: ev.Quarantined) -> None:
        """A decision of this gang has led to an error: it comes after all others, and later each time."""
        if event.times:
            self.world.cut.cut(event.name, event.times, event.at)
        else:
            self.world.cut.decided(event.name)
        for group in self.groups.values():
            if group.name == event.name and group.state is State.QUEUED:
                self._waiting.enqueue(group)

    def drain_held_back(self) -> int:
        """Return how many writes of statuses have been held back since the last call."""
        return self._reporter.statuses.drain_held_back()

    def refused(self, event: ev.ObjectRefused) -> None:
        """Tell the owner of an object that cannot be understood, once."""
        kind, _, api = event.kind.partition(".")
        reference = report.group_reference(api, kind, event.namespace, event.name, event.uid)
        self._reporter.event(reference, report.REFUSED, f"{event.field}: {event.message}")

    # -- effects of changes --------------------------------------------------------------------------------

    def _look_at_losing(self) -> None:
        """Evaluate gangs again whose members started or stopped being evicted. Hold the room of lost members."""
        losing, self.work.losing = self.work.losing, set()
        owners, self.work.losing_owners = self.work.losing_owners, {}
        losing.update(pod.gang for o in owners.values() for pod in self.world.jobs.pods_of(o) if not pod.node)
        if losing:
            self.gangs.refresh_all(losing)
        if self._losses.rooms:
            self._losses.update_room(self.groups, self.drains.holds, self.work.nodes_changed)
            self.gangs.holding.touch(self._losses.keys())

    def _plans_at_risk(self) -> None:
        """Plans whose nodes changed are checked again; those that have counted on a pod which stays are made anew."""
        self._counted_on_in_vain()
        changed, self.work.nodes_changed = self.work.nodes_changed, set()
        fuller, self.work.nodes_fuller = self.work.nodes_fuller, set()
        taken, self.work.taken_from = self.work.taken_from, set()
        if not changed and not fuller and not taken:
            return
        at_risk = []
        for key in sorted(self._ledger.holders()):
            group = self.groups.get(key)
            if group is not None and group.state is State.STARTING and key in taken:
                self.gangs.no_longer_kept(group)
            if group is None or group.plan is None or not group.holding:
                continue
            # Who comes before any victim leaves is in time to save them all; who comes while they leave is found out
            # when they are gone, and that is not repeated after volumes.
            in_time = group.state is State.PREBINDING or group.evicts(*UNBEGUN)
            risky = changed | fuller if in_time else changed
            if key in taken or not risky.isdisjoint(group.plan.node_of.values()):
                at_risk.append((group, group.plan))
        # The strongest first, and of equals the earliest plan, which depends on no later one: the room that it releases
        # may be enough for the others.
        for group, plan in sorted(at_risk, key=lambda each: (-self._priority(each[0]), each[1].eviction.number)):
            if group.plan is plan and group.holding and not self._review.holds(group, plan):
                group.failures.lost = lost_node(self.world, plan)
                if not (group.failures.lost and self._keep_the_rest(group, plan)):
                    self._signal(group, Signal.BROKEN)

    def _keep_the_rest(self, group: Group, plan: Plan) -> bool:
        """A node of the plan is lost after pods were removed for it. Find only the missing room anew, and keep the
        other nodes; returns whether there is any.
        """
        if not (plan.eviction.begun and group.evicts(*Phase)):
            return False
        asked = Question(group.gangs, prefer=plan.node_of, holding=True)
        verdict = self.decider.decide(asked)
        while self._takes_over(group, verdict):
            verdict = self.decider.decide(asked)
        if isinstance(verdict.first, Unschedulable) or group.plan is not plan:
            return group.plan is not plan
        group.message = notes.replanned(lost=group.failures.lost, message=verdict.said)
        self.phases.give_up_victims(group, plan, verdict)
        if verdict.outcome != BIND:
            self._adopt(group, verdict, Signal.EVICT)
        return True

    def _counted_on_in_vain(self) -> None:
        spared, self.work.spared = self.work.spared, set()
        ledger, pods = self._ledger, self.world.pods
        staying = [uid for uid in spared if (pod := pods.get(uid)) is not None and pod.live]
        keys = {key for uid in staying for key in ledger.waiting_without_claim(uid)}
        for key in sorted(keys):
            group = self.groups.get(key)
            if group is None or group.plan is None or not group.holding:
                continue
            if any(uid in ledger.waits(key) and uid not in group.plan.victims for uid in staying):
                group.message = notes.VICTIM_STAYS
                self._signal(group, Signal.BROKEN)

    def _time_passed(self) -> None:
        """Timeouts and the ends of backoffs."""
        over = [*self._ledger.deadlines.due(self.world.now), *self.gangs.holding.not_held_in_time()]
        for group in [self.groups[key] for key in dict.fromkeys(over)]:
            if group.state is State.STARTING:
                self._pods_did_not_come(group)
                continue
            waits_for = self.gangs.holding.waits_for(group) or self._reporter.waits_for(group)
            group.message = notes.timed_out(stage=group.stage, waits_for=waits_for)
            self._signal(group, Signal.FAILED)
        self.world.agenda.call_due(self.world.now)
        self._reporter.statuses.time_passed()
        self.gangs.broken.time_passed()
        self.phases.ask_again()
        for record in self.world.held_taints.left_behind(self.world.now):
            change = take_in(self.world, "Node", "", record.name, record)
            self.work.changes += [change] if change is not None else []
        for node in self.world.foreign_nominations.lapsed(self.world.now):
            self.work.changes.append(Change(Hint.ROOM, node))
        for uid in self._ledger.condemned.unseen(self.world.now):
            self._evictions.spare(uid, NO_PLAN)
        for key in self._reporter.to_tell.due(self.world.now):
            self._reporter.where_it_stands(self.groups[key])
        for key in self.queue.due(self.world.now):
            if key in self.groups:
                self._unschedulable.due(key)
                if self.groups[key].state is State.QUEUED:
                    self._waiting.enqueue(self.groups[key])
                else:
                    self._signal(self.groups[key], Signal.WAKE)

    def _pods_did_not_come(self, group: Group) -> None:
        """Room is not kept any longer for the pods of a Job that goes on; if none has come, it pauses when it is
        suspended again.
        """
        until, job = self._bindings.resumed.record_without_pods(group), report.job_of(self.world, group.gangs[0])
        if until is not None and job is not None:
            note = notes.pods_did_not_come(kind=group.gangs[0].family, time=render_time(until))
            self._reporter.event(report.job_reference(job), report.PODS_MISSING, note)
        self._signal(group, Signal.DONE)
        self.gangs.refresh(group.gangs[0])

    # -- decisions -----------------------------------------------------------------------------------------

    def decide(self, group: Group) -> Sequence[Decision]:
        """Decide a gang that :meth:`head` has named, and start on what follows from that."""
        watchdog = self.decider.watchdog
        self.decider.begin()
        if group.holding:
            decisions = self._look_again(group)
            watchdog.finish()
            self.world.cut.decided(group.name)
            return decisions
        if self.queue.is_glance(group.key):
            decisions = self._glance(group)
            watchdog.finish()
            self.world.cut.decided(group.name)
            return decisions
        verdict = self._decided(group)
        if verdict.outcome != BIND and not self._ledger.turns.strict:
            self.queue.searched(charged(self.decider.steps, self.world.membership.size(group.gangs)))
        self.world.cut.decided(group.name)
        if watchdog.finish():
            self.world.cut.took_long(group.name, self.world.now)
        group.message = verdict.said
        if not self._roll_back(group, verdict):
            match verdict.first:
                case Fits():
                    self._adopt(group, verdict, Signal.FITS)
                case FitsWhenFreed() | Preempt():
                    self._adopt(group, verdict, Signal.EVICT)
                case Unschedulable() as why:
                    self._no_fit(group, verdict, why)
        group.noticed = {}
        return verdict.decisions

    def _glance(self, group: Group) -> Sequence[Decision]:
        """Bind a gang that fits without evictions before the next search. Others keep their place in the queue."""
        verdict = self._refused_already(group)
        if verdict is None:
            asked = Question(group.gangs, at_once=True, minimum_first=self._minimum_first(group))
            verdict = self.decider.decide(asked)
        if verdict.outcome != BIND:
            self.queue.glanced(group.key)
            return ()
        self._signal(group, Signal.WAKE)
        group.waiting_since, group.message, group.outlook = None, verdict.said, Outlook()
        self._adopt(group, verdict, Signal.FITS)
        group.noticed = {}
        return verdict.decisions

    def _decided(self, group: Group) -> Verdict:
        """Decide a queued gang, or one that would sit out its backoff although nothing else is to be decided."""
        self._signal(group, Signal.WAKE)
        since = self.world.now if group.waiting_since is None else group.waiting_since
        pause = pause_of(self.world, group)
        verdict = self._refused_already(group) or other_nodes(self.decider, group)
        ahead = self._minimum_first(group)
        verdict = verdict or self.phases.decided(group, since, pause, minimum_first=ahead)
        while self._takes_over(group, verdict):
            verdict = self.phases.decided(group, since, pause, minimum_first=ahead)
        group.waiting_since = None if verdict.outcome == BIND else since
        group.outlook = Outlook()
        if isinstance(why := verdict.first, Unschedulable):
            group.outlook = Outlook(
                why.short_of_quota, why.failed_plugin, self._waiting.look_again(group, why.retry_at)
            )
        return verdict

    def _minimum_first(self, group: Group) -> bool:
        """Return whether others of its priority have their turn before members beyond the minimum of this gang."""
        if not self.options.surplus_after or not surplus_waits(self.world, group.gangs):
            return False
        return self.queue.others_first(queue_order(self.world, group.gangs))

    def _takes_over(self, group: Group, verdict: Verdict) -> bool:
        """Withdraw the weaker plans whose victims this verdict counts on; returns whether there were any."""
        priority = self.world.membership.preemptor_priority(group.gangs)
        awaited = self._evictions.awaited(verdict)
        weaker = sorted(self._ledger.condemned.weaker_owners(awaited, priority) & self.groups.keys())
        for key in weaker:
            self.groups[key].message = notes.VICTIM_TAKEN
            self._signal(self.groups[key], Signal.BROKEN)
        return bool(weaker)

    def _refused_already(self, group: Group) -> Verdict | None:
        """Return the decision for an equal gang before this one, if it is still valid."""
        unschedulable, place = self._unschedulable, self.queue.active_place(group.key)
        if not unschedulable or place is None:
            return None
        if group.signature is None or group.signature.own:
            group.signature = self._signature(group)
        known = unschedulable.refusal(group.signature, place)
        return known.said_of(self.world, group.gangs) if known is not None else None

    def _signature(self, group: Group, *, apart: bool = False) -> Signature:
        apart = apart or group.failures.matter
        return signature_of(self.world, self._ledger, group.gangs, group.key, apart=apart)

    def _look_again(self, group: Group) -> Sequence[Decision]:
        """A gang that waits for room is bound if it fits now: what has not begun for it is taken back. One that was
        stopped before its victims left goes on without them, or is decided anew.
        """
        self._nominated.helped.pop(group.key, None)  # nothing is to be found for it until something else happens
        plan, stopped = group.plan, group.evicts(*STOPS)
        if plan is None:
            return ()
        verdict = self._review.without(group, plan) if stopped else self._review.at_once(group, plan)
        if verdict is not None:
            group.message = verdict.said
            self.phases.give_up_victims(group, plan, verdict)
            if verdict.outcome != BIND:
                self._adopt(group, verdict, Signal.EVICT)
            return verdict.decisions
        if stopped:
            self.phases.go_on(group, plan)
        return ()

    def _no_fit(self, group: Group, verdict: Verdict, why: Unschedulable) -> None:
        """A decided group does not fit, and neither do those that are equal to it and behind it, unless it has been
        refused for what concerns it alone.
        """
        unschedulable, place = self._unschedulable, queue_order(self.world, group.gangs)
        if group.signature is None or unschedulable.refusal(group.signature, place) is None:
            group.signature = self._signature(group, apart=not speaks_for_others(why))
            unschedulable.refused(group.signature, place, verdict, why)
        if not self._ledger.turns.strict:
            members = self.world.membership.size(group.gangs)
            self.queue.refused(self._waiting.share(group), charged(self.decider.steps, members))
        self._signal(group, Signal.NO_FIT)

    # -- plans ---------------------------------------------------------------------------------------------

    def _adopt(self, group: Group, verdict: Verdict, signal: Signal) -> None:
        """Make a verdict with placements the gang's plan and start on it."""
        reporter = self._reporter
        tell = reporter.quota_after_victims if signal is Signal.EVICT else reporter.quota_reserved
        tell(group, verdict)
        self._bindings.adopt(group, verdict)
        eviction = group.eviction(self._new_ident(), verdict.victims)
        group.plan = Plan(verdict.placements, eviction, self._evictions.awaited(verdict))
        group.plan.read = self._review.read(group.gangs, group.key, eviction.victims)
        self._announced.hold(group, verdict.announced)
        if signal is Signal.EVICT:
            self._give_notice(group, group.plan.eviction)
            self._condemn(group, group.plan)
            self._bindings.hold(group, group.plan)
            self.gangs.holding.plan_made(group)
        self._signal(group, self.phases.onward(group, signal, group.plan))

    def _give_notice(self, group: Group, eviction: Eviction) -> None:
        """The victims leave when their notice is over; what was announced before holds."""
        eviction.begins = self.gangs.notices.ends(eviction.victims.values(), group.noticed)
        eviction.weighed_again = bool(group.noticed)
        if eviction.begins > self.world.now:
            group.message = notes.announced_until(message=group.message, when=render_time(eviction.begins))

    def _condemn(self, group: Group, plan: Plan) -> None:
        """The group's plan makes its victims leave from now on."""
        grounds, trigger = plan.eviction.grounds, ""
        if grounds.cause is Cause.ROLLBACK:
            mark = rollback.mark_text(self.world, group)
        else:
            trigger = report.trigger(self.world, group).key
            mark = report.mark_message(grounds.scheduler, group.name, trigger)
        priority = self.world.membership.preemptor_priority(group.gangs)
        plan.eviction.grounds = replace(grounds, priority=priority, trigger=trigger, mark=mark)
        self._evictions.begin(plan.eviction, for_gang=True)

    def _new_ident(self) -> str:
        return f"{int(self.world.now * 1000):x}-{next(self._plans)}"

    def _roll_back(self, group: Group, verdict: Verdict) -> bool:
        """If a decided gang is to leave as a whole, because it is bound in part and cannot be whole, start on that."""
        if self.drains.holds(group.key):
            return False  # it leaves as a whole already, and what is removed bears the marks of its queue
        paused = verdict.outcome == UNSCHEDULABLE and pause_of(self.world, group).until > self.world.now
        if paused and self.options.rollback and group.failures.begun:
            verdict = self.phases.decided(group, group.waiting_since)  # it waits if it will be able to evict
        leaving = rollback.leaving(self.world, self._ledger.condemned, group, verdict) if self.options.rollback else ()
        if not leaving or any(victim.uid in self._ledger.condemned for victim in leaving):
            return False
        group.plan = Plan((), group.eviction(self._new_ident(), leaving, Cause.ROLLBACK))
        self._condemn(group, group.plan)
        group.message = verdict.said
        self._signal(group, Signal.ROLL_BACK)
        return True

    # -- recovery ------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Finish what an earlier process has begun, or take it back. Called once, before the first decision."""
        self._refresh()
        self._losses.begin()
        self.gangs.holding.begin()
        self._announced.take_over()
        found = Recovery(self.decider)
        completed_first, resumed = self._begun(), list[tuple[Group, Plan]]()
        for key in self.queue.active():  # the strongest first: what it holds is not there for the others
            group = self.groups[key]
            plan = found.plan(group)
            if plan is None:
                continue
            goes_on = key in self.world.begun or self._priority(group) not in completed_first
            if plan.eviction.begun or goes_on:
                self._resume(group, plan)
                resumed.append((group, plan))
        for group in self.groups.values():
            if group.plan is None:
                self._bindings.withdraw(group)
        if self.drains.at_work:
            self.drains.take_over()
        for gang, removed in found.begun_gangs():
            self.gangs.broken.note(gang, removed)
        for pod, owners in found.owned:
            if not self.gangs.broken.found(pod, owners[0].name):
                self._evictions.take_over(pod, owners)
        for group, plan in resumed:  # now that it is known who leaves
            self.phases.go_on(group, plan, tell=False)
        self.gangs.claims.take_over()
        self._reporter.runs_with_quota()

    def _begun(self) -> set[int]:
        """Gangs that are bound in part come first among those of their priority; returns these priorities. Nothing
        is held there for others that have not removed any pod yet: they are decided when these gangs have been.
        """
        membership = self.world.membership
        begun = [g for g in self.groups.values() if g.state is State.QUEUED and membership.half_bound(g.gangs)]
        self.world.begun.update(group.key for group in begun)
        for group in begun:
            self._waiting.enqueue(group)
        return {self._priority(group) for group in begun}

    def _priority(self, group: Group) -> int:
        return -queue_order(self.world, group.gangs)[0]

    def _resume(self, group: Group, plan: Plan) -> None:
        group.plan = plan
        plan.read = self._review.read(group.gangs, group.key, plan.victims)
        self._condemn(group, plan)
        for uid in plan.victims:
            self._ledger.condemned.name(self.world.pods[uid], plan.eviction)
            pod = self.world.pods[uid]
            stands = pod.disruption_target or plan.eviction.begins > self.world.now
            if not pod.live:
                plan.eviction.state[uid] = VictimState.REMOVING
            elif stands and bears(pod, plan.eviction.grounds.owner, plan.ident):
                plan.eviction.state[uid] = VictimState.MARKED
        if plan.eviction.begun:
            group.failures.record(Failed.ROUND)
        group.message = notes.finishing_plan(plan=plan.ident)
        self._bindings.hold(group, plan)
        self.gangs.holding.plan_made(group)
        self._announced.resumed(group)
        self._bindings.clear(group, plan.nominated, notes.superseded(plan=plan.ident))
        self._signal(group, Signal.RESUME)
