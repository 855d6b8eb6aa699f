"""What a step of the lifecycle table does: the writes, the queue, and the room that is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gangsched.core.actions import (
    Action,
    Bind,
    JobRef,
    Mark,
    PodRef,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.decision import Verdict
from gangsched.core.events import Outcome
from gangsched.core.groups import Group, Plan
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import (
    admission,
    bindings,
    evicting,
    nominations,
    prebind,
    report,
    suspension,
    telling,
)
from gangsched.core.lifecycle.eviction import Eviction
from gangsched.core.lifecycle.failures import Cause as Failed
from gangsched.core.lifecycle.healing import Losses
from gangsched.core.lifecycle.holding import time_of
from gangsched.core.lifecycle.ownership import Ownership
from gangsched.core.lifecycle.table import Do
from gangsched.core.options import Options
from gangsched.core.queue.scheduling_queue import Queue, queue_order
from gangsched.core.state.world import World
from gangsched.model.records import SINGLE, GangId, Pod


class Steps:
    """Carries out single steps for one gang at a time; it never changes a gang's state.

    ``actuator`` knows what has been asked for and is not settled; ``losing`` are the gangs of pods that have been
    condemned or spared. ``check`` are the keys of groups whose phase may be over, ``taken_from`` those whose held room
    a gang of higher priority may have taken, ``spared`` UIDs of pods that a plan does not need to leave any more.
    ``evictions`` are those under way, by the key of their writes. ``marks`` are the UIDs of victims that bear a mark,
    by whichever plan. ``losses`` is what gangs that run have lost. ``statuses`` are those of group objects that were
    told last. ``unsaid`` are bindings that succeeded and that one Event per gang will tell of, by the key of the group
    whose writes they are part of. ``reserved`` are groups that have their quota and do not run yet, by key: the
    ClusterQueue, and since when. ``told_two_admitters`` are the UIDs of objects that know that Kueue admits them as
    well.
    """

    def __init__(self, world: World, options: Options, ids: Iterator[int]) -> None:
        self.world = world
        self.options = options
        self.now = world.now
        self.queue = Queue()
        self.actions: list[Action] = []
        self.actuator = Actuator(self.send, self.pause)
        self.evictions: dict[str, Eviction] = {}
        self.ownership = Ownership()
        self.changes: list[Change] = []
        self.check: set[str] = set()
        self.taken_from: set[str] = set()
        self.spared: set[str] = set()
        self.losing: set[GangId] = set()
        self.losses = Losses(world)
        self._ids = ids
        self.statuses: dict[GangId, object] = {}
        self.unsaid: dict[str, dict[GangId, list[Bind]]] = {}
        self.reserved: dict[str, tuple[str, float]] = {}
        self.told_two_admitters: set[str] = set()
        self._do: dict[Do, Callable[[Group], None]] = {
            Do.NOMINATE: lambda group: nominations.nominate(self, group),
            Do.MARK: self._mark,
            Do.REMOVE: self.remove,
            Do.PREBIND: lambda group: prebind.begin(self, group),
            Do.BIND: lambda group: bindings.begin(self, group),
            Do.LET_GO_ON: lambda group: suspension.let_go_on(self, group),
            Do.WITHDRAW: lambda group: nominations.withdraw(self, group),
            Do.UNMARK: self._unmark,
            Do.RELEASE: self.release,
            Do.REPORT: lambda group: telling.where_it_stands(self, group),
            Do.ENQUEUE: self._enqueue,
            Do.RETRY: self._retry,
            Do.PARK: self._park,
            Do.DEQUEUE: lambda group: self.queue.remove(group.key),
        }

    def carry_out(self, do: Do, group: Group) -> None:
        """Do one thing for a group."""
        self._do[do](group)

    def follow(self, group: Group, verdict: Verdict) -> None:
        """The group's members are going to run where, and in the flavors in which, this verdict has them."""
        group.decisions = verdict.decisions
        for use in (d.quota for d in verdict.decisions if d.quota is not None):
            self.world.managed.choose(use.by_pod, self.now)

    def still(self, group: Group) -> bool:
        """Is nothing of an earlier plan of this gang on its way any more, and no mark of it left? Until then it is not
        decided again: a mark or a nomination that arrives late, or leaves late, would look like one of the new plan.
        """
        if self.actuator.any_of(group.key):
            return False
        withdrawn = self.actuator.kept(WithdrawNomination)
        return not withdrawn or not any(pod.uid in withdrawn for pod in nominations.unplaced(self, group))

    def wait_for(self, group: Group, plan: Plan, uids: Iterable[str]) -> None:
        """The gang waits until these pods are gone."""
        for uid in uids:
            plan.waiting.add(uid)
            self.world.ledger.wait_for(uid, group.key)

    def no_longer_awaited(self, uid: str, key: str) -> None:
        """Whoever has this key does not wait for the pod to be gone any more."""
        self.world.ledger.no_longer_waits(uid, key)

    def pod_touched(self, uid: str) -> None:
        """The gang of this pod may lose it, or keep it after all: what that means for its other members is seen
        anew.
        """
        pod = self.world.pods.get(uid)
        if pod is not None and pod.gang.family != SINGLE:
            self.losing.add(pod.gang)

    def send(self, action: Action) -> None:
        """Hand this to the cluster."""
        self.actions.append(action)

    def ask_again(self) -> list[GangId]:
        """Ask again for what is due, if what it is about is still so. Returns the gangs of members that are pending
        again, because their node no longer takes them.
        """
        again = []
        for wish in self.actuator.due(self.now):
            action, pod = wish.action, self.world.pods.get(wish.action.pod.uid)
            if pod is not None and self._wanted(action, pod):
                self.actuator.ask_again(wish, self.new_id())
                continue
            why = f"{action.node} no longer takes {pod.key}" if pod is not None and isinstance(action, Bind) else ""
            if self.actuator.give_up(wish, Outcome.OUTDATED if why else Outcome.OK, why):
                self.check.add(wish.key)
            elif pod is not None and isinstance(action, Bind) and self.world.assumed(pod.uid):
                self.world.forget(pod.uid)
                self.changes.append(Change(Hint.ROOM, action.node, pod))
                again.append(pod.gang)
        return again

    def _wanted(self, action: Write, pod: Pod) -> bool:
        match action:
            case Bind(node=node):
                return bindings.still_takes(self, pod.uid, node)
            case WithdrawNomination():
                return not pod.node
            case Mark():
                return pod.live and pod.uid in self.ownership
        return pod.live

    def new_id(self) -> int:
        """A number that no other write of this process has."""
        return next(self._ids)

    def trigger(self, group: Group) -> PodRef:
        """The first placed member by name: the pod that messages name. A Job without pods speaks for itself."""
        if suspension.is_suspended_job(group):
            return self.job(group.gangs[0])
        places = group.plan.placements if group.plan is not None else []
        first = min(places, key=lambda p: p.key, default=None)
        return report.reference(first) if first is not None else PodRef("", group.name, "")

    def job(self, gang: GangId) -> JobRef:
        """The Job or JobSet that a gang without pods stands for."""
        spec = self.world.membership.spec(gang)
        return JobRef(gang.namespace, gang.name, spec.uid if spec is not None else "", gang.family)

    def _mark(self, group: Group) -> None:
        if group.plan is None:
            return
        if group.rolled_back:
            group.deadline = self.now + time_of(self, group)
        evicting.mark(self, group.plan.eviction)

    def remove(self, group: Group) -> None:
        """Remove the victims that are still there and have not been removed."""
        plan = group.plan
        if plan is None:
            return
        leaving = evicting.remove(self, plan.eviction)
        if not leaving:
            return
        if group.rolled_back:
            group.failures.record(Failed.ROLLBACK)
            return
        group.failures.record(Failed.ROUND)
        self.actions.append(report.preemptor_evicts(self.trigger(group), group.name, leaving, plan.ident))
        admission.evicted(self, group, plan)

    def unmark(self, uid: str, owner: str) -> None:
        """Take back the mark of a victim that need not leave for this gang or queue, if it is still there."""
        self.ownership.forget(uid)
        self.actuator.drop(Mark, uid)
        pod = self.world.pods.get(uid)
        if pod is not None and pod.live and uid not in self.actuator.kept(Unmark):
            self.actuator.keep_up(Unmark(self.new_id(), report.reference(pod), *report.spared(owner)))

    def _unmark(self, group: Group) -> None:
        if group.plan is not None:
            evicting.withdraw(self, group.plan.eviction)

    def release(self, group: Group) -> None:
        """Give up the plan and the room that is held for it."""
        plan, group.plan = group.plan, None
        if plan is not None:
            evicting.end(self, plan.eviction)
            prebind.forget_claims(self, plan)
        self.actuator.end(group.key)
        self.reserved.pop(group.key, None)
        if plan is not None:
            for uid in plan.waiting:
                self.no_longer_awaited(uid, group.key)
        self.give_back(group.key)

    def give_back(self, key: str) -> None:
        """Room is no longer held under a key, nor are volumes, which others may use elsewhere."""
        given = self.world.ledger.release(key)
        self.changes += [Change(Hint.ROOM, p.node) for p in given]
        if any(p.pod.volumes is not None for p in given):
            self.changes.append(Change(Hint.VOLUMES))

    def _enqueue(self, group: Group) -> None:
        self.queue.push(queue_order(self.world.membership, group.gangs))

    def _park(self, group: Group) -> None:
        if group.failures.count(Failed.ROUND) >= self.options.max_rounds:
            group.failures.forget(Failed.ROUND)
            self._retry(group)  # it may evict again then, whether anything has happened or not
            return
        group.failures.record(Failed.ATTEMPT)
        not_before = self.now + self.backoff(group)
        order = queue_order(self.world.membership, group.gangs)
        self.queue.park(order, self.now, not_before, group.look_again_at)

    def _retry(self, group: Group) -> None:
        group.failures.record(Failed.ATTEMPT)
        self.queue.rest(group.key, self.now + self.backoff(group))

    def backoff(self, group: Group) -> float:
        """Seconds; doubles with every attempt that did not help."""
        return self.pause(group.failures.count(Failed.ATTEMPT))

    def pause(self, attempts: int) -> float:
        """Seconds after so many attempts."""
        doubled = self.options.backoff_initial_seconds * 2.0 ** min(attempts - 1, 30)
        return min(doubled, self.options.backoff_max_seconds)

    def look_around(self, plan: Plan) -> None:
        """Remember who is on the plan's nodes when it is made."""
        nodes = set(plan.node_of.values())
        plan.neighbours = {p.uid for node in nodes for p in self.world.snapshot.pods_on(node)}

    def may_have_taken(self, taker: str, nodes: Iterable[str], priority: int) -> None:
        """Room held by gangs of lower priority than the one of this key, on these nodes, may be gone now."""
        self.taken_from.update(key for key in self.world.ledger.weaker(priority, nodes) if key != taker)
