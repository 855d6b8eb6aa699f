"""Labels, taints and other properties as columns, so that selectors are array comparisons: those of nodes by row, those
of pods by kin number.

HyperNodes count as labels of nodes: the domain of each tier in which a node is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Codes, Floats, Ints, isin
from gangsched.core.state.podtable import PodTable
from gangsched.model.constraints import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Labels,
    LabelSelector,
    NodeTerm,
    Requirement,
    Taint,
)
from gangsched.model.quantity import integer
from gangsched.model.records import MAX_TIER, TIER, TIER_NAME, HyperMember, HyperNode, Node
from gangsched.model.selectors import requirement_matches, selector_matches

ABSENT = -1
#: Integers below this are exact as floating numbers, and those above compare the same with them.
_EXACT = 2**53
_NAMESPACE = ""  # no label has an empty key


class LabelColumn:
    """The values of one label key: ``codes[i]`` indexes ``values``; :data:`ABSENT` where the label is missing."""

    def __init__(self) -> None:
        self.codes: Codes = np.zeros(0, dtype=np.int32)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}
        self._integers: Floats = np.zeros(0)  # of the values; NaN for what is none, and at the end

    def set(self, i: int, value: str | None) -> None:
        """The value of one that has a place in the column."""
        self.codes[i] = self._code(value)

    def extend(self, values: Iterable[str | None]) -> None:
        """The values of those that come next."""
        self.codes = np.concatenate([self.codes, np.array([self._code(v) for v in values], dtype=np.int32)])

    def _code(self, value: str | None) -> int:
        if value is None:
            return ABSENT
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code

    def among(self, wanted: tuple[str, ...], codes: Codes | None = None) -> Bools:
        """Return which of the ``codes`` (all of the column) stand for one of the ``wanted`` values."""
        if codes is None:
            codes = self.codes
        chosen = [self._code_of[v] for v in wanted if v in self._code_of]
        if len(chosen) == 1:
            return np.asarray(codes == chosen[0])
        return isin(codes, chosen)

    def holds(self, req: Requirement, codes: Codes) -> Bools:
        """For which of the codes a requirement on this label holds."""
        if req.operator == IN:
            return self.among(req.values, codes)
        if req.operator == NOT_IN:
            return ~self.among(req.values, codes)
        if req.operator == EXISTS:
            return np.asarray(codes != ABSENT)
        if req.operator == DOES_NOT_EXIST:
            return np.asarray(codes == ABSENT)
        return np.asarray(self._compared(req)[codes])  # ABSENT = -1 indexes the False at the end

    def _compared(self, req: Requirement) -> Bools:
        """For which values Gt or Lt holds, and False: integers are compared at once, else one by one."""
        bound = integer(req.values[0]) if req.operator in (GT, LT) and len(req.values) == 1 else None
        if bound is None or abs(bound) >= _EXACT:
            return np.array([requirement_matches(req, {req.key: v}) for v in self.values] + [False])
        if len(self._integers) != len(self.values) + 1:
            found = [integer(value) for value in self.values]
            self._integers = np.array([math.nan if n is None else float(n) for n in [*found, None]])
        return np.asarray(self._integers > bound if req.operator == GT else self._integers < bound)


class KinColumns:
    """Namespaces and labels by the kin numbers of a pod table, made when first asked for and extended as pods come."""

    def __init__(self, table: PodTable) -> None:
        self._table = table
        self._columns: dict[str, LabelColumn] = {}
        self._generation = table.kin_generation

    def in_namespaces(self, kins: Ints, test: Callable[[str], bool]) -> Bools:
        """``(len(kins),)``: those in a namespace for which the test holds; it is asked once per namespace."""
        column = self._column(_NAMESPACE)
        answers = np.array([test(name) for name in column.values] or [False], dtype=np.bool_)
        return np.asarray(answers[column.codes[kins]])

    def selected(self, kins: Ints, selector: LabelSelector | None) -> Bools:
        """``(len(kins),)``: those whose labels the selector selects; None selects nothing."""
        if selector is None:
            return np.zeros(len(kins), dtype=np.bool_)
        mask = np.ones(len(kins), dtype=np.bool_)
        for requirement in selector.requirements:
            column = self._column(requirement.key)
            mask &= column.holds(requirement, column.codes[kins])
        return mask

    def _column(self, key: str) -> LabelColumn:
        """The column of a label key (or of the namespace), with all kins that there are by now."""
        if self._generation != self._table.kin_generation:
            self._generation = self._table.kin_generation
            self._columns.clear()
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn()
        new = self._table.kins[len(column.codes) :]
        if new:
            column.extend(namespace if key == _NAMESPACE else labels.get(key) for namespace, labels in new)
        return column


_OLD_TAINTS = 256
_OLD_VALUES = 256


class NodeColumns:
    """The nodes by row, with columns that are made when first asked for and kept current row by row.

    ``generation`` changes whenever rows or labels of nodes do.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.row_of: dict[str, int] = {}
        self.generation = 0
        self._labels: dict[str, LabelColumn] = {}
        self._taint_codes: Codes | None = None
        self._taint_sets: list[tuple[Taint, ...]] = []
        self._taint_code_of: dict[tuple[Taint, ...], int] = {}
        self._flags: dict[str, Bools] = {}

    @property
    def size(self) -> int:
        """Number of nodes N."""
        return len(self.nodes)

    def renumber(self, nodes: list[Node], take: Ints) -> None:
        """These are the nodes: row i was row ``take[i]`` so far; :meth:`update` has to follow for each that is -1.

        Columns most of whose values no node has any more are made anew when asked for: each node has a hostname of its
        own.
        """
        self.nodes = nodes
        self.row_of = {node.name: row for row, node in enumerate(nodes)}
        self.generation += 1
        few = 2 * len(take) + _OLD_VALUES
        self._labels = {key: column for key, column in self._labels.items() if len(column.values) <= few}
        if not (take >= 0).any():  # nothing to go by: made anew when asked for
            self._labels.clear()
            self._taint_codes = None
            self._flags.clear()
        for column in self._labels.values():
            column.codes = column.codes[take]
        if self._taint_codes is not None:
            self._taint_codes = self._taint_codes[take]
        self._flags = {name: flags[take] for name, flags in self._flags.items()}

    def update(self, row: int, node: Node) -> None:
        """One node changed."""
        for key, column in self._labels.items():
            column.set(row, node.labels.get(key))
        if self._taint_codes is not None:
            self._taint_codes[row] = self._taint_code(node.taints)
        for name, flags in self._flags.items():
            flags[row] = getattr(node, name)

    def label(self, key: str) -> LabelColumn:
        """The column of one label key."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn()
            column.extend(node.labels.get(key) for node in self.nodes)
        return column

    def taints(self) -> tuple[Codes, list[tuple[Taint, ...]]]:
        """``(codes, sets)``: ``sets[codes[row]]`` are the taints of a node. Few nodes differ in their taints.

        Sets that no node has any more are dropped now and then: autoscalers put the time into theirs.
        """
        if self._taint_codes is None or len(self._taint_sets) > self.size + _OLD_TAINTS:
            self._taint_sets, self._taint_code_of = [], {}
            self._taint_codes = np.array([self._taint_code(n.taints) for n in self.nodes], dtype=np.int32)
        return self._taint_codes, self._taint_sets

    def flag(self, name: str) -> Bools:
        """A boolean attribute of all nodes (``unschedulable``, ``ready``, ``deleting``)."""
        flags = self._flags.get(name)
        if flags is None:
            flags = self._flags[name] = np.array([getattr(n, name) for n in self.nodes], dtype=np.bool_)
        return flags

    def requirement(self, req: Requirement) -> Bools:
        """Rows for which one label requirement holds."""
        column = self.label(req.key)
        return column.holds(req, column.codes)

    def term(self, term: NodeTerm) -> Bools:
        """Rows that one node selector term matches; a term without requirements matches none."""
        size = self.size
        if not term.expressions and not term.fields:
            return np.zeros(size, dtype=np.bool_)
        mask = np.ones(size, dtype=np.bool_)
        for req in term.expressions:
            mask &= self.requirement(req)
        for req in term.fields:
            named = np.zeros(size, dtype=np.bool_)
            if req.key == "metadata.name":
                named[[self.row_of[v] for v in req.values if v in self.row_of]] = True
            mask &= named if req.operator == IN else ~named
        return mask

    def _taint_code(self, taints: tuple[Taint, ...]) -> int:
        code = self._taint_code_of.get(taints)
        if code is None:
            code = self._taint_code_of[taints] = len(self._taint_sets)
            self._taint_sets.append(taints)
        return code


#: Domains are not followed through more levels than this: they may be in each other by mistake.
_DEEPEST = 16


class HyperNodes:
    """The tree of domains. After a change, if ``changed``, the caller lets the nodes be :meth:`labelled` again."""

    def __init__(self) -> None:
        self.changed = False
        self._domains: dict[str, HyperNode] = {}
        # By the kind of their members (HyperNodes or nodes): domains by a member's name, and those to be asked.
        self._by_name: dict[bool, dict[str, list[HyperNode]]] = {}
        self._others: dict[bool, list[tuple[HyperMember, HyperNode]]] = {}

    def __bool__(self) -> bool:
        return bool(self._domains)

    def put(self, name: str, domain: HyperNode | None) -> None:
        """A domain is this from now on, or is no more."""
        if self._domains.get(name) == domain:
            return
        self._domains.pop(name, None)
        if domain is not None:
            self._domains[name] = domain
        self.changed = True
        self._by_name.clear()

    def labelled(self, node: Node) -> Node:
        """The node with the domain that it is in of each tier, the first by name; a tier in which it has none of its
        own is that below it, also above the tree.
        """
        if not self._by_name:
            self._index()
        own = {key: value for key, value in node.labels.items() if not key.startswith((TIER, TIER_NAME))}
        found: dict[int, HyperNode] = {}
        inside = self._with_member(False, node.name, own)
        for _ in range(_DEEPEST):
            for each in inside:
                found.setdefault(each.tier, each)
            above = {d.name: d for each in inside for d in self._with_member(True, each.name, {})}
            inside = [above[name] for name in sorted(above)]
        tiers = dict[str, str]()
        for tier in range(MAX_TIER + 1 if found else 0):
            below = tiers.get(f"{TIER}{tier - 1}", "")
            tiers[f"{TIER}{tier}"] = found[tier].name if tier in found else below
        tiers |= {TIER_NAME + each.tier_name: each.name for each in found.values() if each.tier_name}
        now: Labels = {**own, **{key: name for key, name in tiers.items() if name}}
        return node if now == node.labels else msgspec.structs.replace(node, labels=now)

    def _index(self) -> None:
        self._by_name, self._others = {False: {}, True: {}}, {False: [], True: []}
        for _, domain in sorted(self._domains.items()):
            for each in domain.members:
                if each.name:
                    self._by_name[each.hyper].setdefault(each.name, []).append(domain)
                else:
                    self._others[each.hyper].append((each, domain))

    def _with_member(self, hyper: bool, name: str, labels: Labels) -> Iterable[HyperNode]:
        """The domains that have a member of this name and these labels, by name."""
        found = {domain.name: domain for domain in self._by_name[hyper].get(name, ())}
        for member, domain in self._others[hyper]:
            if (member.pattern and re.search(member.pattern, name)) or selector_matches(member.selector, labels):
                found[domain.name] = domain
        return [found[key] for key in sorted(found)]
