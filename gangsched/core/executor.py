"""Carries out the lifecycle table: every gang's state, its plan, its writes and what they wait for."""

from __future__ import annotations

from collections.abc import Callable

from gangsched.core import events as ev
from gangsched.core import report
from gangsched.core.actions import (
    Action,
    Bind,
    GangStatus,
    Mark,
    Nominate,
    PodRef,
    Remove,
    Report,
    SetCondition,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.decider import Decider, Verdict
from gangsched.core.decision import BIND, WAIT, Placement
from gangsched.core.groups import Group, Plan, group_key
from gangsched.core.lifecycle import Do, Signal, State, step
from gangsched.core.options import Options
from gangsched.core.permit import Barrier
from gangsched.core.queue import Hint, Queue
from gangsched.core.simulation import Phantom
from gangsched.core.world import World
from gangsched.model.records import SINGLE, GangId, Pod

_HOLDING = (State.NOMINATED, State.MARKED, State.EVICTING, State.WAITING)
_RESTING = (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND)


class Executor:
    """The gangs under way. ``now`` is set by the caller before anything else is asked."""

    def __init__(self, world: World, decider: Decider, options: Options) -> None:
        self.world = world
        self.decider = decider
        self.options = options
        self.now = 0.0
        self.queue = Queue()
        self.groups: dict[str, Group] = {}
        self.nodes_changed: set[str] = set()
        self._group_of: dict[GangId, str] = {}
        self._writes: dict[int, tuple[str, Action]] = {}
        self._awaited_by: dict[str, set[str]] = {}
        self._actions: list[Action] = []
        self._hints = Hint(0)
        self._next_id = 1
        self._next_plan = 1
        self._check: set[str] = set()
        self._statuses: dict[GangId, object] = {}
        self._taken_from: set[str] = set()
        self._do: dict[Do, Callable[[Group], None]] = {
            Do.NOMINATE: self._nominate,
            Do.MARK: self._mark,
            Do.REMOVE: self._remove,
            Do.BIND: self._bind,
            Do.WITHDRAW: self._withdraw,
            Do.UNMARK: self._unmark,
            Do.RELEASE: self._release,
            Do.REPORT: self._report,
            Do.ENQUEUE: self._enqueue,
            Do.RETRY: self._retry,
            Do.PARK: self._park,
            Do.DEQUEUE: lambda group: self.queue.remove(group.key),
        }

    # -- the outside ---------------------------------------------------------------------------------------

    def take_actions(self) -> list[Action]:
        """What is to be done since the last call."""
        out, self._actions = self._actions, []
        return out

    def take_hints(self) -> Hint:
        """Kinds of helpful events that followed from our own steps."""
        out, self._hints = self._hints, Hint(0)
        return out

    def unsettled(self) -> bool:
        """Is there anything left to follow up?"""
        return bool(self._check or self._hints or self._taken_from)

    def wake_at(self) -> float | None:
        """The next moment at which something is due."""
        times = [g.deadline for g in self.groups.values() if g.deadline is not None]
        queued = self.queue.wake_at()
        if queued is not None:
            times.append(queued)
        return min(times, default=None)

    def abandon(self) -> None:
        """Forget everything under way without writing anything: another process is in charge now."""
        for uid in [uid for group in self.groups.values() if group.plan for uid in group.plan.node_of]:
            self.world.forget(uid)
        self.groups.clear()
        self._group_of.clear()
        self._writes.clear()
        self._awaited_by.clear()
        self.world.held.clear()
        self.queue = Queue()
        self._check.clear()
        self._statuses.clear()
        self._actions.clear()

    def refused(self, event: ev.ObjectRefused) -> None:
        """Tell the owner of an object that cannot be understood, once."""
        kind, _, api = event.kind.partition(".")
        version = {"scheduling.sigs.k8s.io": "v1alpha1", "scheduling.x-k8s.io": "v1alpha1"}.get(api)
        reference = (f"{api}/{version}" if version else api or "v1", kind, event.namespace, event.name, event.uid)
        note = f"{event.field}: {event.message}"[:1024]
        self._actions.append(Report(reference, "Warning", report.REFUSED, "Reading", note))

    # -- following the cluster -----------------------------------------------------------------------------

    def refresh(self, gang: GangId) -> None:
        """Look at a gang again: which group it is in, whether everything is there, what it needs."""
        if not self.world.membership.is_ours(gang):
            return
        membership = self.world.membership
        gangs, _ = membership.group(gang)
        key = group_key(gangs)
        self._regroup(gangs, key)
        group = self.groups.get(key)
        problem = membership.problem(gangs)
        pending = any(membership.waits(g) for g in gangs)
        if group is None:
            if pending:
                group = self.groups[key] = Group(gangs)
                for member in gangs:
                    self._group_of[member] = key
                group.problem = problem
                self.signal(group, Signal.SCATTERED if problem else Signal.GATHERED)
        else:
            self._follow(group, problem, pending)
        self._status(gang)

    def _follow(self, group: Group, problem: str, pending: bool) -> None:
        changed = problem != group.problem
        group.problem = problem
        if group.state is State.BINDING:
            return  # members become bound one after another; what is missing afterwards is seen then
        if group.state in _HOLDING and group.plan is not None and not self._members_there(group.plan):
            self.signal(group, Signal.SCATTERED if problem or not pending else Signal.PLAN_BROKEN)
        elif (problem and group.state in _HOLDING) or (problem and (changed or group.state is not State.GATHERING)):
            self.signal(group, Signal.SCATTERED)
        elif not problem:
            self.signal(group, Signal.GATHERED)
        if not pending and group.state in _RESTING:
            self._forget_group(group)
        elif pending and not problem and group.state is State.BOUND:
            self.signal(group, Signal.MORE)
        elif problem and pending:
            self._report(group)

    def _regroup(self, gangs: tuple[GangId, ...], key: str) -> None:
        """Gangs that were in another group before leave it."""
        for gang in gangs:
            old = self._group_of.get(gang)
            if old is not None and old != key:
                group = self.groups[old]
                self.signal(group, Signal.SCATTERED)
                self._forget_group(group)

    def _forget_group(self, group: Group) -> None:
        self.queue.remove(group.key)
        self._release(group)
        self.groups.pop(group.key, None)
        self._check.discard(group.key)
        for gang in group.gangs:
            self._group_of.pop(gang, None)

    def _members_there(self, plan: Plan) -> bool:
        pods = (self.world.pods.get(uid) for uid in plan.node_of)
        return all(p is not None and p.live and not p.node for p in pods)

    def gone(self, uid: str) -> None:
        """A pod no longer takes room: whoever waited for that may go on."""
        for key in self._awaited_by.pop(uid, ()):
            group = self.groups.get(key)
            if group is not None and group.plan is not None:
                group.plan.waiting.discard(uid)
                self._check.add(key)

    def pod_seen(self, old: Pod | None, pod: Pod) -> None:
        """A pod's record changed: what it is now told to people may have to be told again."""
        if old is None or old.gang in self._group_of:
            key = self._group_of.get(pod.gang)
            if key is not None and pod.node:
                self.groups[key].told.pop(pod.uid, None)

    def plans_at_risk(self) -> None:
        """Plans whose nodes changed are checked again."""
        changed, self.nodes_changed = self.nodes_changed, set()
        taken, self._taken_from = self._taken_from, set()
        if not changed and not taken:
            return
        for key in sorted(self.world.held):
            group = self.groups.get(key)
            if group is None or group.plan is None or group.state not in _HOLDING:
                continue
            on_changed = not changed.isdisjoint(group.plan.node_of.values())
            if (on_changed or key in taken) and not self._still_holds(group, group.plan):
                self.signal(group, Signal.TAKEN_OVER if key in taken else Signal.PLAN_BROKEN)

    def _still_holds(self, group: Group, plan: Plan) -> bool:
        return self.decider.still_holds(group.gangs, group.key, self.now, plan.placements, plan.waiting)

    def time_passed(self) -> None:
        """Timeouts and the ends of backoffs."""
        for group in [g for g in self.groups.values() if g.deadline is not None and g.deadline <= self.now]:
            group.message = f"timed out while {group.state.value}: {group.message}"
            self.signal(group, Signal.TIMEOUT)
        for key in self.queue.due(self.now):
            if key in self.groups:
                self.signal(self.groups[key], Signal.WAKE)

    def wake(self, hints: Hint) -> None:
        """Something happened that may help parked gangs."""
        for key in self.queue.woken_by(hints, self.now):
            if key in self.groups:
                self.signal(self.groups[key], Signal.WAKE)

    # -- decisions -----------------------------------------------------------------------------------------

    def decide(self, group: Group) -> Verdict:
        """Decide a queued gang."""
        return self.decider.decide(group.gangs, group.key, self.now, may_preempt=group.rounds < self.options.max_rounds)

    def adopt(self, group: Group, verdict: Verdict, signal: Signal) -> None:
        """Make a verdict with placements the gang's plan and start on it."""
        ident = f"{int(self.now * 1000):x}-{self._next_plan}"
        self._next_plan += 1
        group.plan = Plan(ident, verdict.placements, verdict.victims, [a.uid for a in verdict.awaiting])
        nodes = set(group.plan.node_of.values())
        group.plan.neighbours = {p.uid for node in nodes for p in self.world.snapshot.pods_on(node)}
        if signal is Signal.PLAN:
            for uid in group.plan.waiting:
                self._awaited_by.setdefault(uid, set()).add(group.key)
            self._hold(group, group.plan)
            group.deadline = self.now + self._timeout(group)
        self.signal(group, signal)

    def _timeout(self, group: Group) -> float:
        specs = [self.world.membership.spec(g) for g in group.gangs]
        times = [s.timeout_seconds for s in specs if s is not None and s.timeout_seconds]
        return min(times, default=self.options.timeout_seconds)

    def _hold(self, group: Group, plan: Plan) -> None:
        priority = self.world.membership.preemptor_priority(group.gangs)
        held = []
        for place in plan.placements:
            pod = self.world.pods[place.uid]
            held.append(Phantom(self.world.snapshot.class_of(pod), place.uid, place.node, priority, group.key))
        self.world.held[group.key] = held
        self._may_have_taken(group, priority)

    def _may_have_taken(self, group: Group, priority: int) -> None:
        """Room held by gangs of lower priority on the same nodes may be gone now."""
        nodes = set(group.plan.node_of.values()) if group.plan is not None else set()
        for key, held in self.world.held.items():
            if key != group.key and held and held[0].priority < priority and any(p.node in nodes for p in held):
                self._taken_from.add(key)

    # -- the table -----------------------------------------------------------------------------------------

    def signal(self, group: Group, signal: Signal) -> None:
        """Something happened to a gang: take the step that the table has for it."""
        found = step(group.state, signal)
        if found is None:
            return
        group.state = found.state
        for do in found.do:
            self._do[do](group)
        if found.state in (*_HOLDING, State.BINDING):
            self._check.add(group.key)
        if found.state not in _HOLDING:
            group.deadline = None

    def answer(self, action_id: int, outcome: str, message: str) -> None:
        """The outcome of a write."""
        known = self._writes.pop(action_id, None)
        if known is None:
            return
        key, action = known
        group = self.groups.get(key)
        failure = "" if outcome == "ok" else f"{outcome}: {message}"
        if isinstance(action, Bind):
            self._bound(group, action, outcome)
        if group is None or group.barrier.arrive(action_id, failure) is None:
            return
        if isinstance(action, Remove) and group.plan is not None and outcome == "ok":
            victim = group.plan.victims[action.pod.uid]
            trigger = self._trigger(group)
            priority = self.world.membership.preemptor_priority(group.gangs)
            self._actions.append(report.victim_evicted(victim, group.name, trigger, priority))
        self._check.add(key)

    def _bound(self, group: Group | None, action: Bind, outcome: str) -> None:
        if outcome == "ok":
            self._actions.append(report.scheduled(action.pod, action.node))
            if group is not None:
                group.told.pop(action.pod.uid, None)
            return
        self.world.forget(action.pod.uid)
        self._hints |= Hint.ROOM

    def phases_over(self) -> None:
        """Gangs for which every answer of a phase is there, or every victim is gone, go on."""
        check, self._check = self._check, set()
        for key in sorted(check):
            group = self.groups.get(key)
            if group is None or not group.barrier.complete or group.plan is None:
                continue
            if group.state is State.WAITING:
                if not group.plan.waiting:
                    self._room_freed(group, group.plan)
            elif group.state in (*_HOLDING, State.BINDING):
                self._phase_over(group, group.plan)

    def _phase_over(self, group: Group, plan: Plan) -> None:
        failures = [(uid, text) for uid, text in group.barrier.failed if not self._harmless(group, text)]
        group.barrier = Barrier()
        if not failures:
            if group.state is State.MARKED and self._needless(group, plan):
                self.signal(group, Signal.PLAN_BROKEN)
                return
            self._written(group)
            return
        if group.state is State.EVICTING and all(text.startswith("transient") for _, text in failures):
            plan.removed.difference_update(uid for uid, _ in failures)
            self._remove(group)  # the same list again, until the gang's time is over
            return
        group.message = f"{group.state.value}: {failures[0][1]}"
        # Gone and conflict mean that the cluster is not what the plan assumed: decide again on what it is now.
        changed = all(text.startswith(("gone", "conflict")) for _, text in failures)
        self.signal(group, Signal.PLAN_BROKEN if changed else Signal.WRITE_FAILED)
        self._recheck(group)

    def _written(self, group: Group) -> None:
        was = group.state
        self.signal(group, Signal.WRITTEN)
        if was is State.BINDING:
            group.attempts = 0
            group.rounds = 0
            group.message = ""
            self._recheck(group)

    def _recheck(self, group: Group) -> None:
        """Bindings are through: see who is still pending."""
        for gang in group.gangs:
            self.refresh(gang)

    @staticmethod
    def _harmless(group: Group, failure: str) -> bool:
        """A victim that is gone already has left all by itself."""
        return group.state in (State.MARKED, State.EVICTING) and failure.startswith("gone")

    def _needless(self, group: Group, plan: Plan) -> bool:
        """Nobody is evicted any more when room has turned up since the plan was made."""
        if not plan.victims:
            return False
        verdict = self.decider.decide(group.gangs, group.key, self.now, may_preempt=False, prefer=plan.node_of)
        return verdict.outcome in (BIND, WAIT)

    def _room_freed(self, group: Group, plan: Plan) -> None:
        verdict = self.decider.decide(group.gangs, group.key, self.now, may_preempt=False, prefer=plan.node_of)
        if verdict.outcome != BIND:
            group.message = self._room_taken(group, plan, verdict)
            self.signal(group, Signal.PLAN_BROKEN)
            return
        group.plan = Plan(plan.ident, verdict.placements, (), ())
        self.signal(group, Signal.ROOM_FREED)

    def _room_taken(self, group: Group, plan: Plan, verdict: Verdict) -> str:
        """Say who took the room that was freed, on the gang's first member too."""
        nodes = sorted(set(plan.node_of.values()))
        thieves = sorted(
            f"{p.key} ({p.scheduler})"
            for node in nodes
            for p in self.world.snapshot.pods_on(node)
            if p.uid not in plan.neighbours and p.deleting_since is None
        )
        text = (
            f"the room that was freed is taken{' by ' + ', '.join(thieves[:5]) if thieves else ''}: {verdict.message}"
        )
        self._actions.append(report.room_taken(self._trigger(group), text))
        return text

    # -- what a step does ----------------------------------------------------------------------------------

    def _write(self, group: Group, action: Action, action_id: int, uid: str, wait: bool = True) -> None:
        self._writes[action_id] = (group.key, action)
        if wait:
            group.barrier.expect(action_id, uid)
        self._actions.append(action)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _ref(self, place: Placement) -> PodRef:
        return PodRef(place.namespace, place.name, place.uid)

    def _trigger(self, group: Group) -> PodRef:
        """The first placed member by name: the pod that messages name."""
        places = group.plan.placements if group.plan is not None else []
        first = min(places, key=lambda p: p.key, default=None)
        return self._ref(first) if first is not None else PodRef("", group.name, "")

    def _nominate(self, group: Group) -> None:
        plan = group.plan
        if plan is None:
            return
        group.barrier = Barrier()
        victims = len(plan.victims)
        for place in plan.placements:
            action_id = self._new_id()
            text = report.intent_message(plan.ident, place, victims, len(plan.waiting) - victims)
            self._write(
                group, Nominate(action_id, self._ref(place), place.node, plan.ident, text), action_id, place.uid
            )
        self._tell(group, report.UNSCHEDULABLE, group.message, report.failed_scheduling)

    def _mark(self, group: Group) -> None:
        plan = group.plan
        if plan is None:
            return
        group.barrier = Barrier()
        scheduler = group.gangs[0].scheduler
        text = report.mark_message(scheduler, group.name, self._trigger(group).key)
        for uid in self._standing(plan):
            action_id = self._new_id()
            plan.marked.add(uid)
            ref = report.reference(self.world.pods[uid])
            self._write(group, Mark(action_id, ref, text), action_id, uid)

    def _remove(self, group: Group) -> None:
        plan = group.plan
        if plan is None:
            return
        scheduler = group.gangs[0].scheduler
        mark = report.mark_message(scheduler, group.name, self._trigger(group).key)
        first = not plan.removed
        if first and plan.victims:
            group.rounds += 1
        for uid in self._standing(plan):
            if uid in plan.removed:
                continue
            action_id = self._new_id()
            plan.removed.add(uid)
            ref = report.reference(self.world.pods[uid])
            action = Remove(action_id, ref, evict=self.options.strict_budgets, mark=mark)
            self._write(group, action, action_id, uid)
        if first and plan.victims:
            self._actions.append(
                report.preemptor_evicts(self._trigger(group), group.name, plan.victims.values(), plan.ident)
            )
        self._check.add(group.key)

    def _standing(self, plan: Plan) -> list[str]:
        """Victims that are still there and not terminating, by name."""
        pods = [self.world.pods[uid] for uid in plan.victims if uid in self.world.pods]
        return [p.uid for p in sorted(pods, key=lambda p: p.key) if p.live]

    def _bind(self, group: Group) -> None:
        plan = group.plan
        if plan is None:
            return
        group.barrier = Barrier()
        priority = self.world.membership.preemptor_priority(group.gangs)
        self.world.held.pop(group.key, None)
        for place in plan.placements:
            action_id = self._new_id()
            self.world.assume(place.uid, place.node)
            self._write(group, Bind(action_id, self._ref(place), place.node), action_id, place.uid)
        self._may_have_taken(group, priority)

    def _withdraw(self, group: Group) -> None:
        """Clear nominations: those of the plan, and any that an earlier process has left behind."""
        planned = set(group.plan.node_of) if group.plan is not None else set()
        for gang in group.gangs:
            for pod in self.world.membership.census(gang).pending:
                ours = pod.intent is not None and pod.intent.status == "True"
                if pod.uid in planned or ours:
                    action_id = self._new_id()
                    action = WithdrawNomination(
                        action_id,
                        report.reference(pod),
                        "Withdrawn",
                        group.message or group.problem or "plan withdrawn",
                    )
                    self._write(group, action, action_id, pod.uid, wait=False)

    def _unmark(self, group: Group) -> None:
        plan = group.plan
        if plan is None:
            return
        for uid in sorted(plan.marked - plan.removed):
            pod = self.world.pods.get(uid)
            if pod is not None and pod.live:
                action_id = self._new_id()
                action = Unmark(action_id, report.reference(pod), f"no longer needed for {group.name}")
                self._write(group, action, action_id, uid, wait=False)

    def _release(self, group: Group) -> None:
        plan, group.plan = group.plan, None
        group.barrier = Barrier()
        if plan is not None:
            for uid in plan.waiting:
                waiting = self._awaited_by.get(uid)
                if waiting is not None:
                    waiting.discard(group.key)
                    if not waiting:
                        del self._awaited_by[uid]
        if self.world.held.pop(group.key, None):
            self._hints |= Hint.ROOM

    def _enqueue(self, group: Group) -> None:
        membership = self.world.membership
        priority = membership.preemptor_priority(group.gangs)
        self.queue.push(group.key, priority, membership.created(group.gangs))

    def _park(self, group: Group) -> None:
        group.attempts += 1
        if group.rounds >= self.options.max_rounds:
            group.rounds = 0
        self.queue.park(group.key, self._helpful(group), self.now, self.now + self._backoff(group))

    def _retry(self, group: Group) -> None:
        group.attempts += 1
        self.queue.retry(group.key, self.now + self._backoff(group))

    def _backoff(self, group: Group) -> float:
        """Seconds; doubles with every attempt that did not help."""
        doubled = self.options.backoff_initial_seconds * 2.0 ** min(group.attempts - 1, 30)
        return min(doubled, self.options.backoff_max_seconds)

    def _helpful(self, group: Group) -> Hint:
        """Kinds of events that may help this gang."""
        hints = Hint.NODE | Hint.ROOM
        if self.options.strict_budgets:
            hints |= Hint.BUDGET
        shapes = (p.shape for gang in group.gangs for p in self.world.membership.members.get(gang, {}).values())
        if any(shape.affinity or shape.spread for shape in shapes):
            hints |= Hint.PODS
        return hints

    def _report(self, group: Group) -> None:
        if group.state is State.GATHERING or group.problem:
            self._tell(group, report.GANG_NOT_READY, group.problem, report.not_ready)
        else:
            self._tell(group, report.UNSCHEDULABLE, group.message, report.failed_scheduling)

    def _tell(self, group: Group, reason: str, text: str, event: Callable[[PodRef, str], Report]) -> None:
        """Condition and Event on every pending member, when the text is a new one for it."""
        if not text:
            return
        for gang in group.gangs:
            for pod in self.world.membership.census(gang).pending:
                seen = pod.scheduled_condition
                shown = (seen.reason, seen.message) if seen is not None else None
                if group.told.get(pod.uid) == (reason, text) or (pod.uid not in group.told and shown == (reason, text)):
                    continue
                group.told[pod.uid] = (reason, text)
                ref = report.reference(pod)
                self._actions.append(SetCondition(ref, reason, text))
                self._actions.append(event(ref, text))

    def _status(self, gang: GangId) -> None:
        """The status of the group object, when it changed."""
        if gang.family == SINGLE:
            return
        spec = self.world.membership.objects.get((gang.family, gang.namespace, gang.name))
        if spec is None:
            self._statuses.pop(gang, None)
            return
        membership = self.world.membership
        group = self.groups.get(self._group_of.get(gang, ""))
        status = report.gang_status(
            spec,
            membership.pods(gang),
            membership.census(gang),
            group.problem if group else "",
            group.message if group else "",
        )
        if self._statuses.get(gang) != status:
            self._statuses[gang] = status
            self._actions.append(GangStatus(gang.family, gang.namespace, gang.name, spec.uid, status))
