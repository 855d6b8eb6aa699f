"""What a step of the lifecycle table does: the writes, the queue, the room that is held, and what people are told."""

from __future__ import annotations

from collections.abc import Callable

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
from gangsched.core.decision import Placement
from gangsched.core.groups import Group, Plan
from gangsched.core.lifecycle import Do, State
from gangsched.core.options import Options
from gangsched.core.permit import Barrier
from gangsched.core.queue import Hint, Queue
from gangsched.core.world import World
from gangsched.model.records import SINGLE, GangId


class Steps:
    """Carries out single steps for one gang at a time; it never changes a gang's state.

    ``writes`` are the writes without an answer yet, by action id; ``awaited_by`` has, by UID, the keys of the groups
    that wait for a pod to be gone. ``check`` are the keys of groups whose phase may be over, ``taken_from`` those
    whose held room a gang of higher priority may have taken.
    """

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.now = 0.0
        self.queue = Queue()
        self.actions: list[Action] = []
        self.writes: dict[int, tuple[str, Action]] = {}
        self.awaited_by: dict[str, set[str]] = {}
        self.hints = Hint(0)
        self.check: set[str] = set()
        self.taken_from: set[str] = set()
        self._next_id = 1
        self._statuses: dict[GangId, object] = {}
        self._do: dict[Do, Callable[[Group], None]] = {
            Do.NOMINATE: self._nominate,
            Do.MARK: self._mark,
            Do.REMOVE: self.remove,
            Do.BIND: self._bind,
            Do.WITHDRAW: self._withdraw,
            Do.UNMARK: self._unmark,
            Do.RELEASE: self.release,
            Do.REPORT: self.report,
            Do.ENQUEUE: self._enqueue,
            Do.RETRY: self._retry,
            Do.PARK: self._park,
            Do.DEQUEUE: lambda group: self.queue.remove(group.key),
        }

    def carry_out(self, do: Do, group: Group) -> None:
        """Do one thing for a group."""
        self._do[do](group)

    def forget(self) -> None:
        """Forget everything under way: another process is in charge now."""
        self.writes.clear()
        self.awaited_by.clear()
        self.queue = Queue()
        self.check.clear()
        self.taken_from.clear()
        self.actions.clear()
        self._statuses.clear()

    def _write(self, group: Group, action: Action, action_id: int, uid: str, wait: bool = True) -> None:
        self.writes[action_id] = (group.key, action)
        if wait:
            group.barrier.expect(action_id, uid)
        self.actions.append(action)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _ref(self, place: Placement) -> PodRef:
        return PodRef(place.namespace, place.name, place.uid)

    def trigger(self, group: Group) -> PodRef:
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
        text = report.mark_message(scheduler, group.name, self.trigger(group).key)
        for uid in self._standing(plan):
            action_id = self._new_id()
            plan.marked.add(uid)
            ref = report.reference(self.world.pods[uid])
            self._write(group, Mark(action_id, ref, text), action_id, uid)

    def remove(self, group: Group) -> None:
        """Remove the victims that are still there and have not been removed."""
        plan = group.plan
        if plan is None:
            return
        scheduler = group.gangs[0].scheduler
        mark = report.mark_message(scheduler, group.name, self.trigger(group).key)
        first = not plan.announced
        plan.announced = True
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
            self.actions.append(
                report.preemptor_evicts(self.trigger(group), group.name, plan.victims.values(), plan.ident)
            )
        self.check.add(group.key)

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
        self.may_have_taken(group, priority)

    def bind_again(self, group: Group) -> None:
        """Repeat, on the same nodes, the bindings whose outcome is unknown."""
        group.retry_at = None
        for place in group.plan.placements if group.plan is not None else ():
            if place.uid in group.unsure and place.uid in self.world.pods:
                action_id = self._new_id()
                self._write(group, Bind(action_id, self._ref(place), place.node), action_id, place.uid)
        self.check.add(group.key)

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
            if pod is not None and pod.live and self.awaited_by.get(uid, set()) <= {group.key}:
                action_id = self._new_id()
                action = Unmark(action_id, report.reference(pod), f"no longer needed for {group.name}")
                self._write(group, action, action_id, uid, wait=False)

    def release(self, group: Group) -> None:
        """Give up the plan and the room that is held for it."""
        plan, group.plan = group.plan, None
        group.retry_at = None
        group.barrier = Barrier()
        if plan is not None:
            for uid in plan.waiting:
                waiting = self.awaited_by.get(uid)
                if waiting is not None:
                    waiting.discard(group.key)
                    if not waiting:
                        del self.awaited_by[uid]
        if self.world.held.pop(group.key, None):
            self.hints |= Hint.ROOM

    def _enqueue(self, group: Group) -> None:
        membership = self.world.membership
        priority = membership.preemptor_priority(group.gangs)
        self.queue.push(group.key, priority, membership.created(group.gangs))

    def _park(self, group: Group) -> None:
        group.attempts += 1
        if group.rounds >= self.options.max_rounds:
            group.rounds = 0
        self.queue.park(group.key, self._helpful(group), self.now, self.now + self.backoff(group))

    def _retry(self, group: Group) -> None:
        group.attempts += 1
        self.queue.retry(group.key, self.now + self.backoff(group))

    def backoff(self, group: Group) -> float:
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

    def report(self, group: Group) -> None:
        """Tell every member where its gang stands."""
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
                self.actions.append(SetCondition(ref, reason, text))
                self.actions.append(event(ref, text))

    def status(self, gang: GangId, group: Group | None) -> None:
        """The status of the group object, when it changed and is ours to tell."""
        if gang.family == SINGLE:
            return
        spec = self.world.membership.objects.get((gang.family, gang.namespace, gang.name))
        if spec is None:
            self._statuses.pop(gang, None)
            return
        membership = self.world.membership
        if gang not in membership.members and gang not in self._statuses:
            return  # another scheduler's group, or one that nobody uses yet
        status = report.gang_status(
            spec,
            membership.pods(gang),
            membership.census(gang),
            group.problem if group else "",
            group.message if group else "",
        )
        if self._statuses.get(gang) != status:
            self._statuses[gang] = status
            self.actions.append(GangStatus(gang.family, gang.namespace, gang.name, spec.uid, status))

    def may_have_taken(self, group: Group, priority: int) -> None:
        """Room held by gangs of lower priority on the same nodes may be gone now."""
        nodes = set(group.plan.node_of.values()) if group.plan is not None else set()
        for key, held in self.world.held.items():
            if key != group.key and held and held[0].priority < priority and any(p.node in nodes for p in held):
                self.taken_from.add(key)
