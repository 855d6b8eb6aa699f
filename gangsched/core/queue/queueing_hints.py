"""Events that can help a gang: the queueing hints of kube-scheduler, for gangs.

A gang that does not fit is parked. What happens afterwards wakes it only if a decision could come out otherwise:

* Filters that look at one node at a time (resources, ports, taints, labels) can be helped only by an event on a node
  that could then take one of the gang's members, once every pod that may leave it has left. A node that cannot take
  any is as useless as it was.
* Filters that look across nodes are helped by pods that their terms select, and by nodes that come, go or change.
* Preemption is helped by whatever makes more pods evictable.
* Quota is helped by what others in the tree of cohorts give back, and by those who borrow more of it than before, which
  may be asked back. A gang that has quota and lacks nodes evicts only what is lower in the pods' priority, too; once
  others have taken that quota, by the rules of its queue alone.

What is asked is which filters have something to say about the members now, not which ones refused them when they were
last tried: with several events one after the other the two differ, and a gang that trusted the second would sleep
through the last of them. A filter of others says which events it cares about (attribute ``hints``); without that, all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import isin
from gangsched.core.events import Change, Hint
from gangsched.core.framework.registry import PluginError
from gangsched.core.planning.context import SchedulingContext
from gangsched.core.planning.cycle import Decider
from gangsched.core.plugins.base import Filter
from gangsched.core.plugins.node import clash
from gangsched.core.queue.signature import Signature
from gangsched.core.quota.assignment import in_flavors
from gangsched.core.quota.tree import Amounts
from gangsched.core.quota.workloads import Holder
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.termcounts import Selection, selection_of
from gangsched.core.world.world import World
from gangsched.model.queues import ResourceFlavor
from gangsched.model.records import SINGLE, GangId, Pod

#: Filters that look at one node at a time, and what can turn their answer about it.
_NEAR: dict[str, Hint] = {
    "NodeUnschedulable": Hint.NODE_ADDED | Hint.NODE_TAINTS,
    "NodeGoing": Hint.NODE_ADDED | Hint.NODE_TAINTS,
    "NodeName": Hint.NODE_ADDED,
    "TaintToleration": Hint.NODE_ADDED | Hint.NODE_TAINTS,
    "NodeAffinity": Hint.NODE_ADDED | Hint.NODE_LABELS,
    "NodePorts": Hint.NODE_ADDED | Hint.ROOM,
    "NodeResourcesFit": Hint.NODE_ADDED | Hint.NODE_ROOM | Hint.ROOM,
}
#: As integers: this is asked for every event and every gang that waits, and members of Flag are ten times as slow.
ON_THE_NODE: dict[str, int] = {name: hint.value for name, hint in _NEAR.items()}
#: What can turn the answer of any of them.
NEAR = int(np.bitwise_or.reduce([*ON_THE_NODE.values()]))

_NODES_ELSEWHERE = Hint.NODE_ADDED | Hint.NODE_GONE | Hint.NODE_LABELS | Hint.NODE_TAINTS
#: Filters that look across nodes.
ANYWHERE: dict[str, int] = {
    "PodTopologySpread": (_NODES_ELSEWHERE | Hint.ROOM | Hint.PODS).value,
    "InterPodAffinity": (_NODES_ELSEWHERE | Hint.ROOM | Hint.PODS | Hint.NAMESPACES).value,
}
#: What can turn the answer of any of these.
ELSEWHERE = int(np.bitwise_or.reduce([*ANYWHERE.values()]))

DOMAINS = (Hint.NODE_ADDED | Hint.NODE_GONE | Hint.NODE_LABELS).value
OF_PODS = (Hint.ROOM | Hint.PODS | Hint.VICTIMS).value
ANY, ROOM, VICTIMS, CLASSES, BUDGET = (
    hint.value for hint in (Hint.ANY, Hint.ROOM, Hint.VICTIMS, Hint.CLASSES, Hint.BUDGET)
)


class QueueingHints:
    """Answers for one batch of events, about the gangs of one signature at a time."""

    def __init__(self, world: World, decider: Decider, strict_budgets: bool, changes: Sequence[Change]) -> None:
        self._world = world
        self._decider = decider
        self._strict_budgets = strict_budgets
        self._changes = changes
        # Under strict order, what those ahead could use depends on the nodes and on where their volumes are.
        turning = Hint.TURN | Hint.NODE | Hint.VOLUMES if decider.ledger.turns.strict else Hint.TURN
        #: May gangs be helped that others ahead of them keep something from?
        self.turns = any(c.kind & turning for c in changes)
        self._freed = {c.tree for c in changes if c.kind & Hint.QUOTA}
        self._newcomers = self._new_holders()
        #: May any workload have quota that it had not?
        self.everywhere = "" in self._freed or any(c.kind & Hint.NAMESPACES for c in changes)

    @property
    def trees(self) -> set[str]:
        """The roots of the cohort trees in which a workload may have quota that it had not."""
        return self._freed | self._newcomers.keys()

    def queues(self, tree: str, known: Iterable[str]) -> list[str]:
        """Return those of the LocalQueues ``known`` in this tree in which that may be so."""
        if self.everywhere or tree in self._freed:
            return list(known)
        managed, newcomers = self._world.managed, self._newcomers[tree]
        return [q for q in known if any(managed.may_find_victims(q, math.inf, h) for h in newcomers)]

    def reserving(self) -> list[str]:
        """Groups for which room is reserved that may be worth nothing now."""
        nodes = {c.node for c in self._changes if c.kind & Hint.NODE}
        turns = self._decider.ledger.turns
        return sorted(made.holder for made in turns.reserved() if any(p.node in nodes for p in made.pods))

    def gives_quota(self, signature: Signature, had: Amounts = ()) -> bool:
        """Return True if such gangs may have quota that they had not, or ask for what they ``had`` in another way. Any
        gang may be managed when a queue object has changed.
        """
        if self.everywhere:
            return True
        if signature.queue is None:
            return False
        local_queue, priority, tree, _ = signature.queue
        if tree in self._freed:
            return True
        managed, newcomers = self._world.managed, self._newcomers.get(tree, ())
        if not signature.preempts or not newcomers:
            return False
        if any(managed.may_find_victims(local_queue, priority, h) for h in newcomers):
            return True
        queue, _ = managed.quota.queue_of(*local_queue.split("/"))
        return managed.quota.no_longer_has(queue, had)

    @property
    def of_quota(self) -> bool:
        """Return True if any of the events may give quota to any gang."""
        return self.everywhere or bool(self._freed or self._newcomers)

    def may_give_quota(self, signature: Signature, had: Amounts) -> bool:
        """Return True if gangs that ``had`` quota, if they are in a queue, may have other quota now."""
        return "" in self._freed or (signature.queue is not None and self.gives_quota(signature, had))

    def helps(self, signature: Signature, gangs: Sequence[GangId]) -> bool:
        """Return True if any of the events may help gangs like these, which are one group, where quota is as it was."""
        try:
            with self._decider.contained.about(gangs):
                return self._judged(signature, gangs)
        except PluginError:
            return True  # the decision will say whose fault it is

    def _judged(self, signature: Signature, gangs: Sequence[GangId]) -> bool:
        job = self._decider.context(gangs, kinds=True)
        may_leave = self._holds_quota if signature.queue is not None else None
        judge = _Judge(job, signature, may_leave, self._flavors(signature))
        return any(self._may_help(judge, change) for change in self._changes) and judge.enough()

    def _flavors(self, signature: Signature) -> list[ResourceFlavor]:
        """Flavors with requirements for the nodes of such gangs, or that let them run on further nodes."""
        if signature.queue is None:
            return []
        quota = self._world.managed.quota
        queue, _ = quota.queue_of(*signature.queue[0].split("/"))
        return [f for f in quota.flavors_of(queue) if f.labels or f.tolerations]

    def _holds_quota(self, pod: Pod) -> bool:
        return self._world.managed.holder_of(pod.gang) is not None

    def _new_holders(self) -> dict[str, list[Holder]]:
        """Workloads that hold quota from now on, or may be displaced from now on, by the root of their tree."""
        managed, found = self._world.managed, dict[str, Holder]()
        for change in self._changes if managed.active else ():
            if change.kind & (Hint.VICTIMS | Hint.PODS | Hint.PROMISED) and change.pod is not None:
                holder = managed.holder_of(change.pod.gang)
                if holder is not None and change.pod.gang not in self._decider.ledger.binding:
                    found[holder.admission.workload.uid] = holder
        out: dict[str, list[Holder]] = {}
        for uid in sorted(found):
            out.setdefault(found[uid].node.root.name, []).append(found[uid])
        return out

    def _may_help(self, judge: _Judge, change: Change) -> bool:
        if judge.preempts and self._frees(judge, change):
            return True
        if judge.job.in_domains and change.kind.value & DOMAINS:
            return True
        return any(judge.turns(rule, pod, change) for pod in judge.classes for rule in judge.rules(pod))

    def _frees(self, judge: _Judge, change: Change) -> bool:
        """Return True if the gang may evict more than before, or other pods."""
        kind: int = change.kind.value
        if kind & CLASSES:
            return True
        if self._strict_budgets:
            if kind & BUDGET:
                return True
            if kind & OF_PODS and any(b.allowed is None for b in self._world.budgets.values()):
                return True  # budgets without a status follow the pods
        if change.pod is None:
            return bool(kind & VICTIMS)
        if not kind & OF_PODS:
            return False
        if change.pod.gang.family != SINGLE:
            return self._has_lower(change.pod.gang, judge.job.priority)
        return bool(kind & VICTIMS) and judge.takes_any(change.node)

    def _has_lower(self, gang: GangId, priority: int) -> bool:
        """The surplus of a gang depends on all its members, wherever they are."""
        members = self._world.membership.members.get(gang, {}).values()
        return any(p.bound and p.priority < priority for p in members)


class _Judge:
    """Compares the events with the classes of a gang's pending members, its priority, and the pods that ``may_leave``
    whatever their priority, because quota may be asked back (None: none).

    Members that need quota run where any of the ``flavors`` lets them: they have the tolerations of all, and the labels
    of none. That wakes a gang too often rather than too seldom.
    """

    def __init__(
        self,
        job: SchedulingContext,
        signature: Signature,
        may_leave: Callable[[Pod], bool] | None,
        flavors: Sequence[ResourceFlavor],
    ) -> None:
        self.job = job
        self.preempts = signature.preempts
        self.may_leave = may_leave
        self.sim = job.simulation()
        self._takes: dict[tuple[int, str], bool] = {}
        self._rules: dict[int, list[Filter]] = {}
        #: By the number of each of :attr:`classes` the forms in which filters may have something to say about it.
        self._forms: dict[int, list[PodClass]] = {}
        self.classes = self._in_any(signature, flavors) if flavors else signature.classes

    def _in_any(self, signature: Signature, flavors: Sequence[ResourceFlavor]) -> tuple[PodClass, ...]:
        """The classes of such members in whichever of these flavors."""
        class_of, members = self.sim.snapshot.class_of, dict[int, Pod]()
        missing = {c.ident for c in signature.classes}
        for pod in (p for census in self.job.census.values() for p in census.pending):
            if not missing:
                break
            ident = class_of(pod).ident
            members.setdefault(ident, pod)
            missing.discard(ident)
        out: dict[int, PodClass] = {}
        for pod in members.values():
            bound = in_flavors(pod.shape, flavors)
            free = msgspec.structs.replace(pod.shape, tolerations=bound.tolerations)
            found = class_of(msgspec.structs.replace(pod, shape=free))
            out[found.ident] = found
            forms = class_of(pod), class_of(msgspec.structs.replace(pod, shape=bound))
            self._forms.setdefault(found.ident, []).extend(forms)
        return tuple(out.values())

    def rules(self, pod: PodClass) -> list[Filter]:
        """The filters that have something to say about this class."""
        if pod.ident not in self._rules:
            filters, forms = self.job.placer.pipeline.filters, self._forms.get(pod.ident, (pod,))
            self._rules[pod.ident] = [rule for rule in filters if any(rule.applies(form, self.sim) for form in forms)]
        return self._rules[pod.ident]

    def turns(self, rule: Filter, pod: PodClass, change: Change) -> bool:
        """Return True if the event may turn the filter's refusal of this class."""
        declared: Hint | None = getattr(rule, "hints", None)
        near = ON_THE_NODE.get(rule.name) if declared is None else None
        kind: int = change.kind.value
        if self.preempts and kind & VICTIMS:
            kind |= ROOM  # a pod that may be evicted from now on is as good as one that leaves, wherever it is
        if near is not None:
            return bool(near & kind) and (not change.node or self._takes_one(pod, change.node))
        hints = declared.value if declared is not None else ANYWHERE.get(rule.name, ANY)
        if not hints & kind:
            return False
        if rule.name not in ANYWHERE or change.pod is None:
            return True
        if rule.name == "PodTopologySpread" and not any(c.required for c in pod.shape.spread):
            return True  # constraints of the profile, on pods that are not the same for every class
        seen = [change.pod] if change.before is None else [change.pod, change.before]
        return any(_concerns(self.sim, pod, other) for other in seen)

    def enough(self) -> bool:
        """Return True unless counting shows too little room for all required members after every pod that may leave has
        left. Only members that are all alike can be counted without placing them.
        """
        if len(self.classes) != 1 or not self.job.required or (self.preempts and self.may_leave is not None):
            return True
        (pod,) = self.classes
        if pod.volumes is not None or pod.devices is not None:
            return True  # room or not, a claim that has turned up is not "not found" any more
        table = self.sim.snapshot.table
        slots = table.occupied()
        leave = isin(slots, self.job.terminating())
        if self.preempts:
            leave |= table.priority[slots] < self.job.priority
        mark = self.sim.mark()
        self.sim.lift_all(slots[leave])
        index, amounts = self.sim.snapshot.vector(pod.shape)
        wanted = amounts > 0
        each = np.floor(self.sim.free[index[wanted]] / amounts[wanted, None]).min(axis=0)
        self.sim.rollback(mark)
        mask = self.job.placer.pipeline.static_mask(pod, self.sim)
        return bool(np.maximum(each[mask], 0.0).sum() >= self.job.required)

    def takes_any(self, node: str) -> bool:
        """Return True if the node could take a member once every pod that may leave it has left."""
        return not node or any(self._takes_one(pod, node) for pod in self.classes)

    def _takes_one(self, pod: PodClass, node: str) -> bool:
        key = (pod.ident, node)
        if key not in self._takes:
            self._takes[key] = self._could_take(pod, node)
        return self._takes[key]

    def _could_take(self, pod: PodClass, node: str) -> bool:
        sim = self.sim
        row = sim.snapshot.row_of.get(node)
        if row is None or not self.job.placer.pipeline.static_mask(pod, sim)[row]:
            return False
        index, amounts = sim.snapshot.vector(pod.shape)
        free = sim.free[:, row].copy()
        for other in sim.snapshot.pods_on(node):
            leaves = other.priority < self.job.priority or (self.may_leave is not None and self.may_leave(other))
            going = other.deleting_since is not None or other.uid in self.job.ledger.condemned
            if going or (self.preempts and leaves):
                used, units = sim.snapshot.vector(other.shape)
                np.add.at(free, used, units)
            elif pod.shape.host_ports and clash(pod.shape.host_ports, other.shape.host_ports):
                return False
        return bool((free[index] >= amounts).all())


def _concerns(sim: Simulation, pod: PodClass, other: Pod) -> bool:
    """Return True if a term of either of the two selects the other, as far as it can make a node unfit."""
    shape, selects = pod.shape, sim.snapshot.terms.selects
    mine = [selection_of(t) for t in (*shape.affinity, *shape.anti_affinity)]
    mine += [Selection(c.selector, (pod.namespace,)) for c in shape.spread if c.required]
    if any(selects(s, other.namespace, other.labels) for s in mine):
        return True
    return any(selects(selection_of(t), pod.namespace, pod.labels) for t in other.shape.anti_affinity)
