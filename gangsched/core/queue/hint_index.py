"""Which gangs that sleep a change may help, looked up for all of them at once.

:mod:`.queueing_hints` answers exactly, for one signature and one change, and that takes a simulation. With thousands of
signatures most answers are no for a reason that arrays can tell. Either the node has too little room for any member
even when every pod that may leave has left, or no term selects the pod. The remaining signatures are checked exactly. A
signature that would be answered yes is never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.events import Change, Hint
from gangsched.core.keyed_sets import KeyedSets
from gangsched.core.planning.cycle import Decider
from gangsched.core.plugins.base import Filter
from gangsched.core.queue import queueing_hints as exact
from gangsched.core.queue.signature import Signature
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.termcounts import Selection, selection_of
from gangsched.core.world.world import World
from gangsched.model.records import SINGLE, GangId, Pod

#: Names of resources that are compared; more than these are not, so that the names that users choose cost nothing.
_COLUMNS = 64
#: Filters of which the pod alone tells that they have nothing to say. Of others that is not asked here.
_SILENT: Mapping[str, Callable[[PodClass], bool]] = {
    "NodeDeclaredFeatures": lambda pod: not pod.shape.node_features,
    "NodeAffinityNames": lambda pod: not pod.shape.node_terms,
    "VolumeRestrictions": lambda pod: pod.volumes is None,
    "NodeVolumeLimits": lambda pod: pod.volumes is None,
    "VolumeBinding": lambda pod: pod.volumes is None,
    "VolumeZone": lambda pod: pod.volumes is None,
    "DynamicResources": lambda pod: pod.devices is None,
}


class HintIndex:
    """The signatures of gangs that sleep, one row for each class of their members."""

    def __init__(self, world: World, decider: Decider, strict_budgets: bool) -> None:
        self.world = world
        self.decider = decider
        self.strict_budgets = strict_budgets
        self.column: dict[str, int] = {}
        self.asks: Floats = np.zeros((0, 0))
        self.priority: Ints = np.zeros(0, dtype=np.int64)
        self._used: Bools = np.zeros(0, dtype=np.bool_)
        self.preempts: Bools = np.zeros(0, dtype=np.bool_)
        #: Members in a queue: by its rules any pod may leave for them.
        self.queued: Bools = np.zeros(0, dtype=np.bool_)
        self._kept_together: Bools = np.zeros(0, dtype=np.bool_)
        #: The kinds of changes that may turn a filter that looks at more than one node, or is unknown here.
        self._elsewhere: Ints = np.zeros(0, dtype=np.int64)
        self.owner: list[Signature | None] = []
        self.classes: list[PodClass | None] = []
        self._rows: dict[Signature, list[int]] = {}
        self._turn: dict[Signature, int] = {}
        self._turns = 0
        self._free: list[int] = []
        #: The rows whose terms make the selection.
        self.selecting: KeyedSets[Selection, int] = KeyedSets()

    def __iter__(self) -> Iterator[Signature]:
        return iter(self._rows)

    # -- sleeping signatures --------------------------------------------------------------------------------

    def add(self, signature: Signature) -> None:
        """Gangs of this signature sleep."""
        if signature in self._rows:
            return
        self._turns += 1
        self._turn[signature] = self._turns
        filters = self.decider.pipeline(signature.scheduler).filters
        self._rows[signature] = [self._add(signature, pod, filters) for pod in signature.classes]

    def remove(self, signature: Signature) -> None:
        """Remove a signature of which no gang sleeps."""
        for row in self._rows.pop(signature, ()):
            pod = self.classes[row]
            for selection in _selections(pod) if pod is not None else ():
                self.selecting.discard(selection, row)
            self.owner[row] = self.classes[row] = None
            self._used[row] = False
            self._free.append(row)
        self._turn.pop(signature, None)

    def _add(self, signature: Signature, pod: PodClass, filters: Sequence[Filter]) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.owner[row], self.classes[row], self._used[row] = signature, pod, True
        self.priority[row], self.preempts[row] = signature.priority, signature.preempts
        self.queued[row], self._kept_together[row] = signature.queue is not None, any(signature.topology)
        self._elsewhere[row] = _elsewhere(pod, filters)
        self.asks[row] = 0.0
        for name, units in (("pods", 1), *pod.shape.requests):
            column = self._column_of(name)
            if column is not None:
                self.asks[row, column] = max(units, self.asks[row, column])
        for selection in _selections(pod):
            self.selecting.add(selection, row)
        return row

    def _column_of(self, name: str) -> int | None:
        found = self.column.get(name)
        if found is None and len(self.column) < _COLUMNS:
            found = self.column[name] = len(self.column)
            self.asks = np.concatenate([self.asks, np.zeros((len(self.asks), 1))], axis=1)
        return found

    def _grow(self) -> None:
        before = len(self.owner)
        more = max(64, before)
        self.asks = np.concatenate([self.asks, np.zeros((more, len(self.column)))])
        self.priority = np.concatenate([self.priority, np.zeros(more, dtype=np.int64)])
        self._elsewhere = np.concatenate([self._elsewhere, np.zeros(more, dtype=np.int64)])
        none = np.zeros(more, dtype=np.bool_)
        self._used, self.preempts = np.concatenate([self._used, none]), np.concatenate([self.preempts, none])
        self.queued = np.concatenate([self.queued, none])
        self._kept_together = np.concatenate([self._kept_together, none])
        self.owner += [None] * more
        self.classes += [None] * more
        self._free += range(before + more - 1, before - 1, -1)

    # -- what is worth asking ------------------------------------------------------------------------------

    def signatures_helped(self, changes: Sequence[Change]) -> list[Signature]:
        """Return the signatures that any of the changes may help, in the order in which they were added."""
        if not self._rows:
            return []
        self.world.snapshot.align_rows()
        look = _Look(self)
        out: Bools = np.zeros(len(self.owner), dtype=np.bool_)
        for change in changes:
            out |= self._worth(change, look)
        out &= self._used
        found = {owner for row in np.flatnonzero(out).tolist() if (owner := self.owner[row]) is not None}
        return sorted(found, key=self._turn.__getitem__)

    def _worth(self, change: Change, look: _Look) -> Bools:
        kind: int = change.kind.value
        out = self._frees(change, kind, look)
        if kind & exact.DOMAINS:
            out |= self._kept_together
        # A pod that may be evicted from now on is as good as one that leaves.
        as_room = np.where(self.preempts, kind | exact.ROOM if kind & exact.VICTIMS else kind, kind)
        out |= (self._elsewhere & as_room) != 0
        near = (as_room & exact.NEAR) != 0
        if near.any():
            out |= near & look.takes(change.node) if change.node else near
        if kind & exact.ELSEWHERE or kind & exact.VICTIMS:
            self._selected(change, out, look)
        return out

    def _frees(self, change: Change, kind: int, look: _Look) -> Bools:
        """Return the rows whose gangs may evict more than before, or other pods."""
        if kind & exact.CLASSES or (self.strict_budgets and self._budgets(kind)):
            return self.preempts.copy()
        none: Bools = np.zeros(len(self.owner), dtype=np.bool_)
        if change.pod is None:
            return self.preempts.copy() if kind & exact.VICTIMS else none
        if not kind & exact.OF_PODS:
            return none
        if change.pod.gang.family != SINGLE:
            return self.preempts & (self.priority > look.least(change.pod.gang))
        if not kind & exact.VICTIMS:
            return none
        return self.preempts & look.takes(change.node) if change.node else self.preempts.copy()

    def _budgets(self, kind: int) -> bool:
        """Return True if a budget may grant more. Budgets without a status follow the pods."""
        if kind & exact.BUDGET:
            return True
        return bool(kind & exact.OF_PODS) and any(b.allowed is None for b in self.world.budgets.values())

    def _selected(self, change: Change, out: Bools, look: _Look) -> None:
        """Add the rows of which a term selects the pod, or which a term of the pod selects."""
        if change.pod is None:
            # Every node and namespace matters to those that look across nodes, their own terms or those of others.
            if self.world.snapshot.terms.carried:
                out |= True
            for rows in self.selecting.values():
                out[[*rows]] = True
            return
        for pod in (change.pod, change.before):
            if pod is not None:
                for rows in look.selecting(pod):
                    out[[*rows]] = True
                look.selected_by(pod, out)


class _Look:
    """Cached answers for one batch of changes."""

    def __init__(self, index: HintIndex) -> None:
        self._index = index
        self._world = index.world
        self._takes: dict[str, Bools] = {}
        self._least: dict[GangId, int] = {}

    def takes(self, node: str) -> Bools:
        """Return for each class whether the node could take one pod once all pods that may leave it have left. It is
        True if that is unsure.
        """
        if node not in self._takes:
            self._takes[node] = self._could_take(node)
        return self._takes[node]

    def _could_take(self, node: str) -> Bools:
        index, snapshot = self._index, self._world.snapshot
        row = snapshot.row_of.get(node)
        if row is None:
            return np.zeros(len(index.owner), dtype=np.bool_)
        names, rows = list(index.column), [snapshot.resource_row.get(name, -1) for name in index.column]
        known = np.array(rows, dtype=np.int64)
        whole = np.where(known >= 0, snapshot.allocatable[known, row], 0.0)
        level = np.where(known >= 0, whole - snapshot.used[known, row], 0.0)
        condemned = self._index.decider.ledger.condemned
        here = snapshot.pods_on(node)
        going = [pod for pod in here if pod.deleting_since is not None or pod.uid in condemned]
        gone = {pod.uid for pod in going}
        stay = sorted((pod for pod in here if pod.uid not in gone), key=lambda pod: pod.priority)
        for pod in going:
            level = level + self._taken(pod, known)
        levels = [level]
        for pod in stay:
            level = level + self._taken(pod, known)
            levels.append(level)
        leaves = np.searchsorted(np.array([p.priority for p in stay], dtype=np.int64), index.priority)
        room = np.array(levels)[np.where(index.preempts, leaves, 0)]
        room[index.queued & index.preempts] = whole
        limitless = self._limitless(names)
        room[:, limitless] = np.inf
        return np.asarray((index.asks <= room).all(axis=1))

    def _taken(self, pod: Pod, known: Ints) -> Floats:
        snapshot = self._world.snapshot
        out = np.zeros(len(snapshot.resources) + 1)
        rows, amounts = snapshot.vector(pod.shape)
        out[rows] = amounts
        return np.asarray(out[known])  # the last one is nothing

    def _limitless(self, names: Sequence[str]) -> list[int]:
        """The columns of which there is always enough for some scheduler name."""
        world, decider = self._world, self._index.decider
        limits = [decider.pipeline(name).unlimited for name in sorted(world.membership.ours)]
        asked = [limit for limit in limits if limit is not None]
        return [i for i, name in enumerate(names) if any(limit(name) for limit in asked)]

    def least(self, gang: GangId) -> int:
        """The lowest priority of a bound member."""
        if gang not in self._least:
            members = self._world.membership.members.get(gang, {}).values()
            self._least[gang] = min((p.priority for p in members if p.bound), default=2**62)
        return self._least[gang]

    def selecting(self, pod: Pod) -> Iterable[set[int]]:
        """The rows whose terms select the pod."""
        selects = self._world.snapshot.terms.selects
        for selection, rows in self._index.selecting.items():
            if selects(selection, pod.namespace, pod.labels):
                yield rows

    def selected_by(self, pod: Pod, out: Bools) -> None:
        """Add the rows that the pod keeps off by a term of its own."""
        selects = self._world.snapshot.terms.selects
        for selection in map(selection_of, pod.shape.anti_affinity):
            for row, other in enumerate(self._index.classes):
                if other is not None and not out[row]:
                    out[row] = selects(selection, other.namespace, other.labels)


def _selections(pod: PodClass) -> list[Selection]:
    """The pods that its terms look at, as far as they can make a node unfit."""
    shape = pod.shape
    out = [selection_of(t) for t in (*shape.affinity, *shape.anti_affinity)]
    return [*out, *(Selection(c.selector, (pod.namespace,)) for c in shape.spread if c.required)]


def _elsewhere(pod: PodClass, filters: Iterable[Filter]) -> int:
    """The kinds of changes of which it only matters whether they happened."""
    out = 0
    for rule in filters:
        declared: Hint | None = getattr(rule, "hints", None)
        if declared is None and rule.name in exact.ON_THE_NODE:
            continue
        if declared is None and rule.name in exact.ANYWHERE:
            defaults = getattr(rule, "rules", None)
            if defaults is not None and not any(c.required for c in pod.shape.spread) and defaults(pod):
                out |= exact.ANYWHERE[rule.name]
        elif rule.name not in _SILENT or not _SILENT[rule.name](pod):
            out |= declared.value if declared is not None else exact.ANY
    return out
