"""One admission cycle: the heads of all queues, each judged on what the earlier ones of the cycle leave.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/ and https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/ .
All heads get flavors and victims in the same state. Then they are taken in order: who was admitted or waits for victims
uses its quota at once, so that later heads do not count on it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gangsched.core.quota.flavors import WAITING, Assignment, Mode
from gangsched.core.quota.holders import Holder
from gangsched.core.quota.ordering import Again, Candidate, classic, fair
from gangsched.core.quota.preemption import Target, has_room, restore
from gangsched.core.quota.quota import Quota, Victim
from gangsched.core.quota.tree import Node, Tree
from gangsched.core.quota.workloads import Workload
from gangsched.model.queues import ANY

WAITING_FOR_VICTIMS = "WaitingForPreemptedWorkloads"
LOST = "Workload no longer fits after processing another workload"
OVERLAP = "Workload has overlapping preemption targets with another workload"
DEFERRED = (
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete"
)


class Status(enum.Enum):
    """What a head came to.

    ``DEFERRED`` waits for victims of others; ``SKIPPED`` lost to an earlier head; ``BLOCKED`` may displace nobody.
    """

    ADMITTED = "admitted"
    PREEMPTING = "preempting"
    DEFERRED = "deferred"
    SKIPPED = "skipped"
    BLOCKED = "blocked"
    NO_FIT = "no fit"


class Outcome(msgspec.Struct, frozen=True):
    """What one head came to. ``reason`` and ``message`` are those of its QuotaReserved condition."""

    workload: Workload
    assignment: Assignment
    status: Status
    victims: tuple[Victim, ...] = ()
    reason: str = ""
    message: str = ""

    @property
    def again(self) -> Again:
        """When to look at it again."""
        if self.status is Status.NO_FIT or self.status is Status.BLOCKED:
            return Again.NOW if self.assignment.resume else Again.LATER
        return Again.NOW


class Cycle:
    """Goes through heads once. Between the first :meth:`outcomes` and :meth:`close` usage in the tree includes what the
    cycle has promised; admissions of the cycle are to be reported to the quota after :meth:`close`. ``resume`` has, by
    UID, after which flavors heads that failed before go on.
    """

    def __init__(self, quota: Quota, resume: Mapping[str, Mapping[tuple[str, str], int]] = {}) -> None:
        self.quota = quota
        self.resume = resume
        self.promised: list[tuple[Node, list[tuple[int, int]]]] = []
        self.taken: dict[str, Victim] = {}
        self._leaving = _Leaving(quota.tree)

    def nominate(self, workload: Workload) -> tuple[Candidate, list[Victim]]:
        """Flavors and victims of one head, before anything has happened in this cycle."""
        assignment, victims = self.quota.plan(workload, self.resume.get(workload.uid, {}))
        return Candidate(workload, assignment), victims

    def outcomes(self, heads: Iterable[Workload]) -> Iterator[Outcome]:
        """What becomes of each head, in order; :meth:`close` when done."""
        nominated = {w.uid: self.nominate(w) for w in heads}
        for candidate in self.ordered(c for c, _ in nominated.values()):
            yield self.process(candidate, nominated[candidate.workload.uid][1])

    def ordered(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """The order in which heads are taken; with fair sharing it depends on what came of the earlier ones."""
        listed = list(candidates)
        if self.quota.fair_sharing is None:
            yield from classic(listed)
            return
        for candidate in fair(listed, self.quota.tree, self.quota.shares):
            yield candidate
            self._leaving.back()  # shares are compared while the victims still hold their quota

    def process(self, candidate: Candidate, victims: list[Victim]) -> Outcome:
        """Decide one head."""
        workload, assignment = candidate.workload, candidate.assignment
        deferred = False
        if any(v.uid in self.taken for v in victims):
            assignment, victims = self._again(workload, assignment)
            deferred = assignment.mode == Mode.FIT
        mode = assignment.mode
        if mode == Mode.NO_FIT:
            return Outcome(workload, assignment, Status.NO_FIT, (), assignment.reason, assignment.message)
        if mode.needs_preemption and not victims:
            self._reserve(workload, assignment)
            return Outcome(workload, assignment, Status.BLOCKED, (), WAITING, assignment.message)
        if deferred:
            self._promise(workload, assignment.usage)
            return Outcome(workload, assignment, Status.DEFERRED, (), WAITING_FOR_VICTIMS, DEFERRED)
        if any(v.uid in self.taken for v in victims):
            return Outcome(workload, assignment, Status.SKIPPED, (), WAITING, OVERLAP)
        if not self._still_fits(workload, assignment, victims):
            return Outcome(workload, assignment, Status.SKIPPED, (), WAITING, LOST)
        self._promise(workload, assignment.usage)
        if not victims:
            return Outcome(workload, assignment, Status.ADMITTED)
        self.taken.update((v.uid, v) for v in victims)
        self._leaving.add(self.quota.holders.by_uid[v.uid] for v in victims)
        message = f"{assignment.message}. Pending the preemption of {len(victims)} workload(s)"
        return Outcome(workload, assignment, Status.PREEMPTING, tuple(victims), WAITING_FOR_VICTIMS, message)

    def close(self) -> None:
        """Take the cycle's promises out of the tree again."""
        self._leaving.back()
        for node, amounts in reversed(self.promised):
            self.quota.tree.remove(node, amounts)
        self.promised.clear()

    def _again(self, workload: Workload, before: Assignment) -> tuple[Assignment, list[Victim]]:
        """Victims as they would be with those of earlier heads gone. The flavors stay the same."""
        self._leaving.lift(self.quota.tree.queues[workload.queue].root)
        self.quota.holders.taken = frozenset(self.taken)
        found = self.quota.plan(workload, pinned=before)
        self.quota.holders.taken = frozenset()
        return found

    def _still_fits(self, workload: Workload, assignment: Assignment, victims: Iterable[Victim]) -> bool:
        tree = self.quota.tree
        node = tree.queues[workload.queue]
        self._leaving.lift(node.root)
        more = [Target(self.quota.holders.by_uid[v.uid], v.reason) for v in victims]
        for target in more:
            tree.remove(target.holder.node, target.holder.amounts)
        good = has_room(node, tree.indexed(assignment.usage))
        restore(tree, more)
        return good

    def _reserve(self, workload: Workload, assignment: Assignment) -> None:
        """Who can take nobody's quota gets its own queue's as soon as it is free; somebody who borrows must not have it
        meanwhile, unless the queue can always ask it back.
        """
        if self.quota.queues[workload.queue].preemption.reclaim == ANY:
            return
        self._leaving.back()
        tree = self.quota.tree
        node = tree.queues[workload.queue]
        kept = []
        for cell, units in tree.indexed(assignment.usage):
            own = node.nominal[cell] - node.usage[cell]
            limit = node.borrowing[cell]
            if assignment.level == 0:
                kept.append((cell, max(0, min(units, own))))
            else:
                kept.append((cell, units if limit is None else max(0, min(units, own + limit))))
        self._use(node, kept)

    def _promise(self, workload: Workload, usage: Iterable[tuple[tuple[str, str], int]]) -> None:
        tree = self.quota.tree
        self._use(tree.queues[workload.queue], tree.indexed(usage))

    def _use(self, node: Node, amounts: list[tuple[int, int]]) -> None:
        self.quota.tree.add(node, amounts)
        self.promised.append((node, amounts))


class _Leaving:
    """What the victims of the cycle hold, by tree and queue.

    It is taken out of a tree when somebody asks whether he fits without them, and stays out until it matters what is
    really used: taking out and putting back for each head would cost the square of their number.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.held: dict[Node, dict[Node, dict[int, int]]] = {}
        self.lifted: list[Node] = []

    def add(self, holders: Iterable[Holder]) -> None:
        """These will go."""
        for holder in holders:
            root = holder.node.root
            held = self.held.setdefault(root, {}).setdefault(holder.node, {})
            for cell, units in holder.amounts:
                held[cell] = held.get(cell, 0) + units
            if root in self.lifted:
                self.tree.remove(holder.node, holder.amounts)

    def lift(self, root: Node) -> None:
        """Look at this tree without those who go."""
        if root in self.held and root not in self.lifted:
            self.lifted.append(root)
            for node, amounts in self.held[root].items():
                self.tree.remove(node, list(amounts.items()))

    def back(self) -> None:
        """Look at all trees as they are."""
        for root in self.lifted:
            for node, amounts in self.held[root].items():
                self.tree.add(node, list(amounts.items()))
        self.lifted.clear()
