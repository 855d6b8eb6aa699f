"""What each process of the scheduler had been told at any moment, and what it asked for: what its deeds are judged by.

What was so in the cluster and had not been told yet excuses a deed; what had been told does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from gangsched.cluster.sim.history import preemptor_of
from gangsched.core.actions import (
    Action,
    Bind,
    BindVolume,
    Mark,
    Nominate,
    Remove,
    SelectNode,
    SuspendJob,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event, Gone, Outcome, ServerClock, WriteDone
from gangsched.messages import notes
from gangsched.model import dialects
from gangsched.model.jobsets import JobSet
from gangsched.model.queues import queue_labels
from gangsched.model.records import SINGLE, Budget, Gang, GangId, Job, Node, Pod
from tests.judge.invariants import owners_in

#: Times are whole microseconds, told by fractions.
AT_ONCE = 1e-6


class Batch(msgspec.Struct):
    """What one process (counted from 1) was told at ``at_seconds`` from the start, and what it decided and asked for
    because of that.
    """

    process: int
    at_seconds: float
    events: list[Event]
    actions: list[Action] = []
    decisions: list[Decision] = []


class Told(msgspec.Struct):
    """What one process knows: objects by identity (pods by UID), and what has become of its own writes.

    ``bindings`` are the nodes of pods that it binds, or has bound and not seen there yet; ``tried`` has also those of
    which it was told that the binding has failed, or that nobody knows. ``unsure`` are the pods (UIDs) of which the
    last was not known: they may be bound. ``marked`` are the pods that it has marked and that stay marked. ``jobsets``
    are those that were ever seen (``namespace/name``). ``left`` is when a member of a gang was last told to have left a
    node, or one that was to be bound there, or to be about to, ``leaves_by`` when the grace period of a pod (UID) that
    terminates ends. ``open`` has the writes without an answer: by id, the gangs (``namespace/name``) for which they
    are; of ``removals`` also the pods (UIDs) that they are about. ``lost`` are those of removals whose answer was lost
    since any was asked for, by the gangs for which they are. ``moving`` are the pods (UIDs) that are to be bound to
    another node than the one to which they were nominated, as soon as no nomination stands.
    """

    pods: dict[str, Pod] = {}
    nodes: dict[str, Node] = {}
    groups: dict[tuple[str, str, str], Gang] = {}
    budgets: dict[str, Budget] = {}
    jobs: dict[tuple[str, str], Job] = {}
    jobsets: set[str] = set()
    bindings: dict[str, str] = {}
    tried: dict[str, str] = {}
    unsure: set[str] = set()
    marked: set[str] = set()
    open: dict[int, frozenset[str]] = {}
    removals: dict[int, str] = {}
    lost: dict[str, set[str]] = {}
    left: dict[str, float] = {}
    leaves_by: dict[str, float] = {}
    moving: set[str] = set()
    _binds: dict[int, str] = {}

    # -- what happens ----------------------------------------------------------------------------------------------

    def hear(self, event: Event, now: float) -> None:  # noqa: C901, PLR0912
        """Go on to the state after this event, which is told now (seconds from the start)."""
        match event:
            case Changed(Pod() as pod):
                if (old := self.pods.get(pod.uid)) is None:
                    self._read_end(pod, now)
                elif pod.deleting_since not in (None, old.deleting_since):
                    self.leaves_by[pod.uid] = now + pod.grace_seconds
                self.pods[pod.uid] = pod
                self._hear_of(pod, now, live=pod.live)
            case Gone("Pod", _, _, uid):
                if (gone := self.pods.pop(uid, None)) is not None:
                    self._hear_of(gone, now, live=False)
            case Changed(Node() as node):
                self.nodes[node.name] = node
            case Gone("Node", _, name):
                self.nodes.pop(name, None)
            case Changed(Gang() as gang):
                self.groups[gang.family, gang.namespace, gang.name] = gang
            case Gone("PodGroup", namespace, name, group=family):
                self.groups.pop((family, namespace, name), None)
            case Changed(Budget() as budget):
                self.budgets[budget.key] = budget
            case Gone("PodDisruptionBudget", namespace, name):
                self.budgets.pop(f"{namespace}/{name}", None)
            case Changed(Job() as job):
                self.jobs[job.namespace, job.name] = job
            case Gone("Job", namespace, name):
                self.jobs.pop((namespace, name), None)
            case Changed(JobSet() as jobset):
                self.jobsets.add(jobset.key)
            case ServerClock(ahead):
                for pod in self.pods.values():
                    self._read_end(pod, now, ahead)
            case WriteDone(action_id, outcome):
                self._answered(action_id, outcome)

    def _hear_of(self, pod: Pod, now: float, *, live: bool) -> None:
        node = pod.node or self.tried.get(pod.uid, "")
        if node and not live and pod.gang.family != SINGLE:
            self.left[node] = now
        if pod.node or not live:
            self.bindings.pop(pod.uid, None)
            self.unsure.discard(pod.uid)

    def _read_end(self, pod: Pod, now: float, ahead: float = 0.0) -> None:
        """Of a pod that terminated before the process began the API server's stamp tells, by a clock that is so many
        seconds ahead.
        """
        if pod.deleting_since is not None:
            self.leaves_by[pod.uid] = min(now + pod.grace_seconds, pod.deleting_since - ahead)

    def _answered(self, action_id: int, outcome: Outcome) -> None:
        for gang in self.open.pop(action_id, ()):
            if outcome is Outcome.TRANSIENT and action_id in self.removals:
                self.lost.setdefault(gang, set()).add(self.removals[action_id])
        self.removals.pop(action_id, None)
        uid = self._binds.pop(action_id, "")
        self.unsure.discard(uid)
        if outcome is Outcome.TRANSIENT and uid in self.bindings:
            self.unsure.add(uid)
        if outcome is not Outcome.OK:
            self.bindings.pop(uid, None)

    def asked(self, action: Action) -> None:
        """Go on to the state after the process has asked for this."""
        if isinstance(action, Write):
            self.open[action.id] = self._for_whom(action)
        match action:
            case Bind(action_id, pod, node):
                self._binds[action_id] = pod.uid
                self.moving.discard(pod.uid)
                if pod.uid in self.pods and not self.pods[pod.uid].node:
                    self.bindings[pod.uid] = self.tried[pod.uid] = node
            case WithdrawNomination(message=notes.OTHER_NODE):
                self.moving.add(action.pod.uid)
            case Nominate() | WithdrawNomination():
                self.moving.discard(action.pod.uid)
            case Remove():
                self.removals[action.id] = action.pod.uid
                self.lost.pop(preemptor_of(action.mark), None)
            case Mark():
                self.marked.add(action.pod.uid)
            case Unmark():
                self.marked.discard(action.pod.uid)

    def _for_whom(self, action: Write) -> frozenset[str]:
        match action:
            case Mark():
                return frozenset(name for name, _ in owners_in(action.owners, action.message))
            case Remove():
                return frozenset((preemptor_of(action.mark),))
            case SuspendJob():
                return frozenset((action.preemptor,))
            case Bind() | Nominate() | WithdrawNomination() | BindVolume() | SelectNode() if (
                action.pod.uid in self.pods
            ):
                return frozenset((self.pods[action.pod.uid].gang.key,))
        return frozenset()

    def binding_of(self, action_id: int) -> tuple[Pod | None, str]:
        """The pod that is being bound by this write, and the node; None: by no write that has no answer."""
        uid = self._binds.get(action_id, "")
        return self.pods.get(uid), self.bindings.get(uid, "")

    @property
    def busy(self) -> set[str]:
        """The gangs (``namespace/name``) for which any write has no answer."""
        return {name for names in self.open.values() for name in names}

    # -- what can be asked -----------------------------------------------------------------------------------------

    def members(self, gang: GangId) -> list[Pod]:
        """All pods of a gang."""
        return [pod for pod in self.pods.values() if pod.gang == gang]

    def named(self, preemptor: str) -> GangId | None:
        """The gang of pods that messages call ``namespace/name``; None: a Job without pods, or nobody any more."""
        return next((pod.gang for pod in self.pods.values() if pod.gang.key == preemptor), None)

    def group(self, gang: GangId) -> Gang | None:
        """What is known of a gang: by its object, or by what its members say where its API has no object."""
        known = self.groups.get((gang.family, gang.namespace, gang.name))
        if known is not None or gang.family == SINGLE:
            return known
        return next((found for pod in self.members(gang) if (found := dialects.gang_from_member(pod))), None)

    def priority(self, gang: GangId) -> int:
        """The gang's own priority, or the lowest of its live members'."""
        known = self.group(gang)
        if known is not None and known.priority is not None:
            return known.priority
        members = self.members(gang)
        return min((p.priority for p in members if p.live), default=min((p.priority for p in members), default=0))

    def queued(self, pod: Pod) -> bool:
        """Is it the pod, its Job or its group that names a queue? Between those that do priority does not decide."""
        job = self.jobs.get((pod.namespace, pod.owner.name)) if pod.owner is not None else None
        known = self.group(pod.gang)
        labels = (queue_labels(pod.labels), job.queue if job is not None else None, known.queue if known else None)
        return any(each is not None and each.local_queue for each in labels)

    def lacking(self, gang: GangId) -> int:
        """How many members are still to be bound before the gang may run; those that wait to be bound are counted
        neither way.
        """
        known = self.group(gang)
        if known is None and gang.family != SINGLE:
            return 0
        minimum = known.min_member if known is not None else 1
        return max(0, minimum - len(self.placed(gang)) - sum(p.phase == "Succeeded" for p in self.members(gang)))

    def placed(self, gang: GangId) -> list[Pod]:
        """The live members that are bound, or about to be."""
        return [p for p in self.members(gang) if p.live and (p.node or p.uid in self.bindings)]

    def leaving(self, pod: Pod) -> bool:
        """Does it terminate, or bear a mark that says that it will?"""
        told = pod.disruption_target
        return not pod.live or told or pod.uid in self.marked

    def staying_on(self, node: str) -> list[Pod]:
        """The pods that take room on a node, are not about to leave it, and those that are about to come."""
        there = (p for p in self.pods.values() if p.node == node and p.bound and not self.leaving(p))
        coming = (self.pods[uid] for uid, to in self.bindings.items() if to == node and uid in self.pods)
        return [*there, *coming]


def short_of(node: Node, pods: Iterable[Pod], beside: Pod | None = None) -> list[str]:
    """The resources of which the node has less than these pods ask for together: only those ``beside`` asks for, if
    it is given, which is one of them.
    """
    used: dict[str, int] = defaultdict(int)
    for pod in pods:
        for resource, units in (*pod.shape.requests, ("pods", 1)):
            used[resource] += units
    room = dict(node.allocatable)
    asks = {**dict(beside.shape.requests), "pods": 1} if beside is not None else used
    return [name for name in sorted(used) if used[name] > room.get(name, 0) and asks.get(name, 0) > 0]
