"""Quota as the rest of the scheduler sees it: queues, who holds what of them, and the questions that a decision asks.

A decision for a gang with a queue has three steps: is it admissible (:meth:`Quota.problem`), its flavors and their
price (:meth:`Quota.assign`), and the possible victims in order (:meth:`Quota.candidates`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gangsched.core.quota.fair_sharing import FairRules, Shares
from gangsched.core.quota.flavors import Assignment, Chosen, FlavorAssigner, Mode
from gangsched.core.quota.preemption import (
    QUOTA_ALONE,
    REASON_TEXT,
    ClassicRules,
    Need,
    Nodes,
    Taken,
    VictimSearch,
    has_room,
    holders_of,
)
from gangsched.core.quota.tree import Amounts, Indexed, Node, Tree, lowest_fitting
from gangsched.core.quota.workloads import Admission, Holder, Holders, Workload
from gangsched.messages import causes
from gangsched.model.constraints import NAMESPACE_NAME, NO_LABELS, Labels
from gangsched.model.queues import (
    ANY,
    ANY_NODE,
    LOWER_OR_NEWER,
    NEVER,
    STOP_NONE,
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueObject,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from gangsched.model.selectors import selector_matches

#: Flavors that are tried one after another for one workload.
_MAX_FLAVORS = 64
#: Kueue's text for an unknown value.
_UNKNOWN = "UNKNOWN"


class Quota:
    """All queue objects and all admitted workloads.

    Objects may appear and disappear in any order. The tree is built again at the next question after a change. Answers
    depend on the objects and admissions alone, not on the order in which they came. Nothing here changes by asking.
    With ``fair_sharing`` queues that borrow are weighed by their shares, not by the priority of their workloads.
    """

    def __init__(self, fair_sharing: bool = False) -> None:
        self.fair_sharing = fair_sharing
        self.flavors: dict[str, ResourceFlavor] = {ANY_NODE: ResourceFlavor(ANY_NODE)}
        self.queues: dict[str, ClusterQueue] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.local_queues: dict[str, LocalQueue] = {}
        self.priority_classes: dict[str, WorkloadPriorityClass] = {}
        self.admissions: dict[str, Admission] = {}
        self._objects: dict[type[QueueObject], dict[str, Any]] = {
            ClusterQueue: self.queues,
            Cohort: self.cohorts,
            LocalQueue: self.local_queues,
            ResourceFlavor: self.flavors,
            WorkloadPriorityClass: self.priority_classes,
        }
        self._tree: Tree | None = None
        self._holders: Holders | None = None
        self._shares: Shares | None = None
        self._aside: dict[str, tuple[Node | None, Indexed]] = {}

    # -- objects -------------------------------------------------------------------------------------------

    def put(self, item: QueueObject) -> None:
        """Insert or replace an object."""
        self._objects[type(item)][_key(item)] = item
        self._tree = None if isinstance(item, ClusterQueue | Cohort) else self._tree

    def knows(self, item: QueueObject) -> bool:
        """Return True if the object is known as it is. Its status may have changed, which does not matter here."""
        return self._objects[type(item)].get(_key(item)) == item

    def remove(self, kind: type[QueueObject], key: str) -> None:
        """Remove an object of one of the kinds of :meth:`put`; ``key`` is ``namespace/name`` for a LocalQueue."""
        self._objects[kind].pop(key, None)
        self._tree = None if kind in (ClusterQueue, Cohort) else self._tree

    def flavors_of(self, queue: str) -> list[ResourceFlavor]:
        """The flavors for which a ClusterQueue has quota, those that exist."""
        spec = self.queues.get(queue)
        names = dict.fromkeys(f.flavor for group in (spec.groups if spec is not None else ()) for f in group.flavors)
        return [self.flavors[name] for name in names if name in self.flavors]

    @property
    def tree(self) -> Tree:
        """Queues and cohorts with the usage of all admissions."""
        if self._tree is None:
            self._tree = Tree(self.queues, self.cohorts)
            self._holders = Holders(self._tree)
            self._shares = Shares(self._holders)
            for admission in self.admissions.values():
                if admission.workload.queue in self._tree.queues:
                    self._holders.add(admission)
        return self._tree

    @property
    def holders(self) -> Holders:
        """Admissions by queue (those whose queue is gone hold nothing)."""
        self.tree  # noqa: B018 - builds what is out of date
        assert self._holders is not None
        return self._holders

    @property
    def shares(self) -> Shares:
        """Fair-sharing shares of queues and cohorts."""
        self.tree  # noqa: B018 - as above
        assert self._shares is not None
        return self._shares

    # -- admissions ----------------------------------------------------------------------------------------

    def admit(self, admission: Admission) -> None:
        """A workload holds quota from now on, or what it holds has changed. Nothing is checked: it is a fact."""
        self.admissions[admission.workload.uid] = admission
        if self._tree is not None and admission.workload.queue in self._tree.queues:
            self.holders.add(admission)

    def release(self, uid: str) -> None:
        """A workload holds quota no longer."""
        if self.admissions.pop(uid, None) is not None and self._tree is not None:
            self.holders.discard(uid)

    def set_aside(self, uids: Iterable[str]) -> None:
        """What is promised to these, and no pod of theirs uses yet, is free until :meth:`put_back`, which comes before
        any other change of admissions.
        """
        for uid in sorted(uids):
            holder = self.holders.by_uid.get(uid)
            if holder is not None:
                amounts = self.tree.indexed(holder.admission.promised)
                self.tree.remove(holder.node, amounts)
                self._aside[uid] = holder.node, amounts

    def put_back(self, uids: Iterable[str] | None = None) -> None:
        """Nothing of these is set aside any more, or of any."""
        for uid in list(self._aside) if uids is None else uids:
            node, amounts = self._aside.pop(uid, (None, ()))
            if node is not None:
                self.tree.add(node, amounts)

    # -- may it be admitted --------------------------------------------------------------------------------

    def queue_of(self, namespace: str, local_queue: str) -> tuple[str, str]:
        """``(ClusterQueue, problem)`` of a LocalQueue's name in a namespace. One that is stopped has both: no workload
        gets quota by it, and those that run keep that of its ClusterQueue.
        """
        if local_queue in self.queues and self.queues[local_queue].foreign:
            return local_queue, ""
        found = self.local_queues.get(f"{namespace}/{local_queue}")
        if found is None:
            return "", causes.local_queue_missing(local_queue=local_queue)
        if found.stop != STOP_NONE:
            return found.cluster_queue, causes.local_queue_stopped(local_queue=local_queue)
        return found.cluster_queue, ""

    def inactive(self, queue: str) -> str:
        """Why a ClusterQueue admits nothing, as the reason of its Active condition; empty if it does."""
        spec = self.queues[queue]
        if spec.stop != STOP_NONE:
            return "Stopped"
        flavors = [self.flavors.get(f.flavor) for g in spec.groups for f in g.flavors]
        if any(flavor is None or flavor.outdated for flavor in flavors):
            return "FlavorNotFound"
        if spec.checks:
            return "AdmissionCheckNotFound"
        return "CohortCycle" if spec.cohort in self.tree.cyclic else ""

    def problem(self, workload: Workload, namespace_labels: Labels = NO_LABELS) -> str:
        """Why a workload cannot even be considered, in Kueue's words; empty if it can."""
        spec = self.queues.get(workload.queue)
        if spec is None:
            return causes.not_found(kind="ClusterQueue", name=workload.queue)
        if self.inactive(workload.queue):
            return causes.queue_inactive(queue=workload.queue, why=self._why_inactive(spec))
        if not selector_matches(spec.namespaces, namespace_labels):
            return causes.NAMESPACE_NOT_SELECTED
        return ""

    def _why_inactive(self, spec: ClusterQueue) -> str:
        """Why a ClusterQueue that is inactive is, in words."""
        if spec.stop != STOP_NONE:
            return causes.queue_stopped(stop=spec.stop)
        for name in (f.flavor for g in spec.groups for f in g.flavors):
            flavor = self.flavors.get(name)
            if flavor is None:
                return causes.not_found(kind="ResourceFlavor", name=name)
            if flavor.outdated:
                return causes.not_understood(kind="ResourceFlavor", name=name)
        if spec.checks:
            return causes.check_not_run(checks=", ".join(spec.checks))
        return causes.COHORTS_IN_A_CIRCLE

    def selects(self, queue: str, namespace: str, labels: Labels | None) -> bool:
        """Return whether a ClusterQueue takes workloads of a namespace with these labels."""
        there = {NAMESPACE_NAME: namespace, **(labels or NO_LABELS)}
        return selector_matches(self.queues[queue].namespaces, there)

    # -- the decision --------------------------------------------------------------------------------------

    def assign(
        self,
        workload: Workload,
        resume: Mapping[tuple[str, str], int] = {},
        passed: Collection[Chosen] = (),
    ) -> Assignment:
        """Flavors for a workload and what they cost. Its ClusterQueue must exist.

        ``resume`` is that of an assignment that came to nothing, after which the search goes on. Flavors that are
        ``passed`` over are not looked at.
        """
        queue = self.queues[workload.queue]
        node = self.tree.queues[workload.queue]

        def oracle(cell: int, units: int) -> tuple[Mode, int]:
            need = Need(workload, ((cell, units),), frozenset((cell,)))
            leaving = [h for h, _ in holders_of(VictimSearch(self._rules(queue, need)).run())]
            with self.holders.without(leaving):
                level, _ = lowest_fitting(node, cell, units)
            if not leaving:
                return Mode.NO_CANDIDATES, level
            return (Mode.PREEMPT if any(h.node is node for h in leaving) else Mode.RECLAIM), level

        assigner = FlavorAssigner(self.tree, queue, self.flavors, oracle, self.fair_sharing, resume, passed)
        return assigner.run(workload)

    def assignments(self, workload: Workload) -> Iterator[Assignment]:
        """Yield flavors in the order in which they are tried: by the rules of the queue, and then, if some have quota
        and may lack only nodes, those that the rules avoided.
        """
        resume: Mapping[tuple[str, str], int] = {}
        passed: frozenset[Chosen] = frozenset()
        seen: list[Assignment] = []
        for _ in range(_MAX_FLAVORS):
            assignment = self.assign(workload, resume, passed)
            if passed and assignment.mode == Mode.NO_FIT:
                return
            yield assignment
            seen.append(assignment)
            if assignment.resume and assignment.resume != resume:
                resume = assignment.resume
                continue
            others = frozenset(c for each in seen for c in self._alternatives(workload, each))
            if others <= passed or not any(self._within_reach(workload, each) for each in seen):
                return
            passed, resume = others, {}

    def _within_reach(self, workload: Workload, assignment: Assignment) -> bool:
        """Return True if there is quota in these flavors, or would be after evictions, whatever the nodes are like."""
        if assignment.mode == Mode.FIT or assignment.mode.out_of_reach:
            return assignment.mode == Mode.FIT
        return bool(self.victims(workload, assignment))

    def _alternatives(self, workload: Workload, assignment: Assignment) -> frozenset[Chosen]:
        """The flavors of an assignment in whose place the queue has others, to be passed over by the next."""
        groups = self.queues[workload.queue].groups
        several = {resource for group in groups if len(group.flavors) > 1 for resource in group.resources}
        return frozenset(c for c in assignment.chosen if c[1] in several)

    def eligible(self, workload: Workload, assignment: Assignment) -> dict[str, str]:
        """Reasons by UID of all workloads that may be taken, in the order in which they would be."""
        return {h.admission.workload.uid: reason for h, reason in self._rules_for(workload, assignment).eligible()}

    def has_room(
        self, workload: Workload, gone: Iterable[str] = (), freed: Mapping[str, Amounts] = MappingProxyType({})
    ) -> bool:
        """Return whether there is quota in some flavors once these holders (UIDs) are gone and others have ``freed`` a
        part of theirs.
        """
        uids = sorted(set(gone))
        self.put_back(uids)  # they leave with all that they hold
        known = self.holders.by_uid
        leaving = [known[uid] for uid in uids if uid in known]
        for uid, amounts in freed.items():
            if uid in known:
                part = self.tree.indexed(amounts)
                leaving.append(Holder(known[uid].admission, known[uid].node, part, evicted=True))
        with self.holders.without(leaving):
            return any(assignment.mode == Mode.FIT for assignment in self.assignments(workload))

    def victims(self, workload: Workload, assignment: Assignment, nodes: Nodes = QUOTA_ALONE) -> list[Taken] | None:
        """Return the victims in the order of their choice, with which the workload has its quota and its ``nodes``;
        None if no eviction would help.
        """
        return VictimSearch(self._rules_for(workload, assignment), nodes).run()

    def may_find_victims(self, queue: str, priority: float, newcomer: Holder) -> bool:
        """Return True if workloads of this ClusterQueue and priority may find victims because ``newcomer`` holds quota.

        A queue is asked back what it borrows, from the moment when it borrows: so it is when usage rises, and not only
        when it falls, so that one that waits may find them. Amounts do not count: whether the victims are enough, a
        decision says.
        """
        node, other = self.tree.queues.get(queue), newcomer.node
        if node is None or node.root is not other.root:
            return False
        rules = self.queues[queue].preemption
        if node is other:
            same = rules.within == LOWER_OR_NEWER and newcomer.priority == priority
            return rules.within != NEVER and (newcomer.priority < priority or same)
        if rules.reclaim == NEVER or other.kept:
            return False
        if node.parent is not other.parent or node.root is not node.parent:  # cohorts in between may borrow, too
            return any(not n.within(newcomer.cells) for n in (other, *other.ancestors()))
        if other.within(newcomer.cells):
            return False
        if rules.reclaim != ANY:
            first = self.holders.first(other, False)  # beside the newcomer all of its queue may be victims now
            if first is None or first[0] > priority:
                return False
        alone = rules.borrow == NEVER and not self.fair_sharing
        return not alone or any(node.usage[cell] < node.subtree[cell] for cell in newcomer.cells)

    def no_longer_has(self, queue: str, amounts: Amounts) -> bool:
        """Return True if any of these amounts, each by itself, is more than a ClusterQueue can take now."""
        node = self.tree.queues.get(queue)
        return node is not None and not has_room(node, self.tree.indexed(amounts))

    def _rules_for(self, workload: Workload, assignment: Assignment) -> ClassicRules | FairRules:
        # If quota is free, nodes are short: any user of the requested resources may be in the way.
        short = assignment.needing_preemption or [cell for cell, _ in assignment.usage]
        cells = frozenset(self.tree.cells[cell] for cell in short)
        need = Need(workload, tuple(self.tree.indexed(assignment.usage)), cells)
        return self._rules(self.queues[workload.queue], need)

    def _rules(self, queue: ClusterQueue, need: Need) -> ClassicRules | FairRules:
        if self.fair_sharing:
            return FairRules(self.holders, self.shares, queue, need)
        return ClassicRules(self.holders, queue, need)

    # -- what is shown -------------------------------------------------------------------------------------

    def message(self, victim: Workload, reason: str, preemptor: Workload, owner_uid: str = "") -> str:
        """Texts of conditions and Events of a preempted workload, in Kueue's words."""
        return causes.preempted_in_queue(
            uid=preemptor.uid or _UNKNOWN,
            owner_uid=owner_uid or _UNKNOWN,
            reason=REASON_TEXT.get(reason) or _UNKNOWN,
            preemptor_path=self._path(preemptor.queue) or _UNKNOWN,
            preemptee_path=self._path(victim.queue) or _UNKNOWN,
        )

    def _path(self, queue: str) -> str:
        node: Node | None = self.tree.queues.get(queue)
        return node.path() if node is not None else ""


def _key(item: QueueObject) -> str:
    return item.key if isinstance(item, LocalQueue) else item.name
