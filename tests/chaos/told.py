"""What each process of the scheduler had been told at any moment, and what it asked for: what its deeds are judged by.

What was so in the cluster and had not been told yet excuses a deed; what had been told does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from gangsched.cluster.sim.history import preemptor_of
from gangsched.core.actions import (
    Action,
    AllocateClaim,
    Bind,
    Mark,
    Nominate,
    ReleaseClaim,
    Remove,
    ReserveClaim,
    SuspendJob,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.actuation.records import read_owners
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.model import dialects
from gangsched.model.jobsets import JobSet
from gangsched.model.queues import STOP_NONE, ClusterQueue, LocalQueue, queue_labels
from gangsched.model.records import SINGLE, Budget, Gang, GangId, Job, Node, Pod


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
    which it was told that the binding has failed, or that nobody knows. ``marked`` are the pods that it has marked and
    that stay marked; ``spared`` are those of which it has taken the mark back, also if that has not succeeded yet.
    ``jobsets`` are those that were ever seen (``namespace/name``). ``open`` has the writes without an answer: by id,
    the gangs (``namespace/name``) for which they are.
    """

    pods: dict[str, Pod] = {}
    nodes: dict[str, Node] = {}
    groups: dict[tuple[str, str, str], Gang] = {}
    budgets: dict[str, Budget] = {}
    jobs: dict[tuple[str, str], Job] = {}
    jobsets: set[str] = set()
    queues: dict[str, LocalQueue | ClusterQueue] = {}
    bindings: dict[str, str] = {}
    tried: dict[str, str] = {}
    marked: set[str] = set()
    spared: set[str] = set()
    open: dict[int, frozenset[str]] = {}
    _binds: dict[int, str] = {}

    # -- what happens ----------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:  # noqa: C901, PLR0912
        """Go on to the state after this event."""
        match event:
            case Changed(Pod() as pod):
                self.pods[pod.uid] = pod
                if pod.node or not pod.live:
                    self.bindings.pop(pod.uid, None)
            case Gone("Pod", _, _, uid):
                self.pods.pop(uid, None)
                self.bindings.pop(uid, None)
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
            case Changed((LocalQueue() | ClusterQueue()) as queue):
                self.queues[queue.key if isinstance(queue, LocalQueue) else queue.name] = queue
            case WriteDone(action_id, outcome):
                self.open.pop(action_id, None)
                uid = self._binds.pop(action_id, "")
                if outcome is not Outcome.OK:
                    self.bindings.pop(uid, None)

    def asked(self, action: Action) -> None:
        """Go on to the state after the process has asked for this."""
        if isinstance(action, Write):
            self.open[action.id] = self._for_whom(action)
        match action:
            case Bind(action_id, pod, node):
                self._binds[action_id] = pod.uid
                if pod.uid in self.pods and not self.pods[pod.uid].node:
                    self.bindings[pod.uid] = self.tried[pod.uid] = node
            case Mark():
                self.marked.add(action.pod.uid)
                self.spared.discard(action.pod.uid)
            case Unmark():
                self.marked.discard(action.pod.uid)
                self.spared.add(action.pod.uid)

    def _for_whom(self, action: Write) -> frozenset[str]:
        known = self.pods.get(action.pod.uid) if isinstance(action, Bind | Nominate | WithdrawNomination) else None
        match action:
            case Mark():
                return frozenset(owner.name for owner in read_owners(action.owners) or ())
            case Remove():
                return frozenset((preemptor_of(action.mark),))
            case SuspendJob():
                return frozenset((action.preemptor,))
            case Bind() | Nominate() | WithdrawNomination() if known is not None:
                return frozenset((known.gang.key,))
            case AllocateClaim() | ReserveClaim() | ReleaseClaim():
                users = (self.pods.get(each.uid) for each in action.consumers)
                return frozenset(pod.gang.key for pod in users if pod is not None)
        return frozenset()

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

    def queue_of(self, pod: Pod) -> str:
        """``namespace/name`` of the LocalQueue that the pod, its Job or its group names; empty if none does. Between
        those in queues priority does not decide.
        """
        job = self.jobs.get((pod.namespace, pod.owner.name)) if pod.owner is not None else None
        known = self.group(pod.gang)
        labels = (job.queue if job is not None else None, known.queue if known else None, queue_labels(pod.labels))
        names = (each.local_queue for each in labels if each is not None and each.local_queue)
        return next((f"{pod.namespace}/{name}" for name in names), "")

    def stopped(self, pod: Pod) -> bool:
        """Return whether the pod's LocalQueue, or the ClusterQueue behind it, admits nobody."""
        local = self.queues.get(self.queue_of(pod))
        behind = self.queues.get(local.cluster_queue) if isinstance(local, LocalQueue) else None
        return any(queue is not None and queue.stop != STOP_NONE for queue in (local, behind))

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
        """Return whether it terminates, or bears a mark that says that it will."""
        shown = pod.disruption_target and pod.uid not in self.spared
        return not pod.live or shown or pod.uid in self.marked

    def on(self, node: str) -> list[Pod]:
        """The pods that take room on a node, those included that are about to leave it, or to come."""
        there = [p for p in self.pods.values() if p.node == node and p.bound]
        return [*there, *(self.pods[uid] for uid, to in self.bindings.items() if to == node and uid in self.pods)]


class Life:
    """One process, judged by what it knows. Each method is called before ``told`` knows what it is about; ``now`` is in
    seconds from the start.
    """

    def __init__(self, told: Told) -> None:
        self.told = told
        self.now = 0.0

    def begins(self) -> None:
        """It has been told of all that there is."""

    def hears(self, event: Event) -> None:
        """It is told this."""

    def decides(self, decision: Decision) -> None:
        """It makes this decision."""

    def asks(self, action: Action) -> Iterator[str]:
        """What is wrong when it asks for this."""
        yield from ()

    def rests(self) -> Iterator[str]:
        """What is wrong when it has asked for all that it wanted now."""
        yield from ()


def judged(batches: Sequence[Batch], kind: type[Life], processes: int) -> list[str]:
    """What is wrong with what each of so many processes did. A process that dies in the middle of what it asks for has
    left nothing undone.
    """
    out: list[str] = []
    lives: dict[int, Life] = {}
    for number, batch in enumerate(batches):
        fresh = batch.process not in lives
        life = lives.setdefault(batch.process, kind(Told())) if fresh else lives[batch.process]
        life.now = batch.at_seconds
        for event in batch.events:
            life.hears(event)
            life.told.hear(event)
        if fresh:
            life.begins()
        for decision in batch.decisions:
            life.decides(decision)
        found: list[str] = []
        for action in batch.actions:
            found += life.asks(action)
            life.told.asked(action)
        last = number + 1 == len(batches) or batches[number + 1].process != batch.process
        if not last or batch.process == processes:
            found += life.rests()
        out += (f"at {batch.at_seconds:.3f} s: {text}" for text in found)
    return out
