"""The parts of the gangs that are decided together, as a tree, and the domains that they may be in.

Every part may have to be in one domain of some node labels. The labels of a part include those of the parts around it,
so the domains of a part lie inside the domain of the part around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gangsched.core.planning.topology import Level, split_over
from gangsched.core.state.membership import Membership
from gangsched.core.state.snapshot import Snapshot
from gangsched.messages import causes
from gangsched.model.dialects import role_of
from gangsched.model.parts import is_divided
from gangsched.model.records import Gang, GangId, Part, Pod

Keys = tuple[str, ...]
#: Node labels with the values that they have in a domain.
Labels = tuple[tuple[str, str], ...]
#: The members of one leaf: their gang, and their role in it.
Leaf = tuple[GangId, str]


class Branch(msgspec.Struct, eq=False):
    """One part. It has to be in one domain of ``keys``, the keys of the parts around it included. ``soft`` are narrower
    levels that it rather has, the widest first. If it is ``apart``, no sibling may be in its domain: domains in which
    siblings run already are ``barred``. Siblings have one ``family``. A leaf has ``members`` that are to be placed.
    ``bound`` are the ``(name, row)`` of all members below it that have a node.
    """

    name: str
    keys: Keys
    soft: tuple[Keys, ...] = ()
    apart: bool = False
    leaf: Leaf | None = None
    members: tuple[Pod, ...] = ()
    bound: tuple[tuple[str, int], ...] = ()
    children: tuple[Branch, ...] = ()
    barred: frozenset[int] = frozenset()
    family: int = 0

    def fingerprint(self) -> Hashable:
        """Equal for branches of which the same is asked, whatever their names."""
        members = frozenset(Counter(id(pod.shape) for pod in self.members).items())
        below = frozenset(Counter(each.fingerprint() for each in self.children).items())
        return self.keys, self.soft, self.apart, members, frozenset(row for _, row in self.bound), below

    def leaves(self) -> Iterator[Branch]:
        """Yield the leaves below it, or itself."""
        if self.leaf is not None:
            yield self
        for each in self.children:
            yield from each.leaves()

    def all(self) -> Iterator[Branch]:
        """Yield it and everything below it."""
        yield self
        for each in self.children:
            yield from each.all()


class Assignment(NamedTuple):
    """The labels of the domain of each leaf, and how many parts are outside a level that they rather have."""

    within: Mapping[Leaf, Labels]
    misses: int = 0


class Wanted(NamedTuple):
    """One gang: its members to be placed now, and those that have a node with their rows."""

    gang: GangId
    spec: Gang
    members: Sequence[Pod]
    bound: Sequence[tuple[Pod, int]]


class PartTree:
    """The tree below ``root``, in a snapshot that is settled. ``problem`` says why its members cannot be placed."""

    def __init__(self, snapshot: Snapshot, root: Branch) -> None:
        self.root = root
        self.problem = ""
        self._snapshot = snapshot
        self._levels: dict[Keys, Level] = {}
        for number, each in enumerate(root.all()):
            for child in each.children:
                child.family = number
            if each.keys and not self.level(each.keys).names:
                self.problem = causes.no_node_has_label(keys=", ".join(each.keys))
            elif each.keys and each.bound and self.pin(each) is None:
                said = split_over(self.level(each.keys), each.bound)
                self.problem = causes.of_part(part=each.name, problem=said) if each.name else said
            self._bar(each.children)

    def _bar(self, siblings: Sequence[Branch]) -> None:
        """Keep siblings out of the domains in which others run that are to be apart from them."""
        for each in siblings if any(one.apart for one in siblings) else ():
            others = (one for one in siblings if one is not each and (one.apart or each.apart))
            codes = self.level(each.keys).codes
            each.barred = frozenset(int(codes[row]) for one in others for _, row in one.bound)

    def level(self, keys: Keys) -> Level:
        """The domains of these keys."""
        found = self._levels.get(keys)
        if found is None:
            found = self._levels[keys] = Level(self._snapshot, keys)
        return found

    def pin(self, branch: Branch) -> int | None:
        """The domain in which members of the branch run; None if none does."""
        return self.level(branch.keys).common([row for _, row in branch.bound]) if branch.bound else None

    def labels(self, keys: Keys, number: int) -> Labels:
        """The node labels of a domain."""
        return tuple(zip(keys, self.level(keys).names[number], strict=True))

    def at(self, rows: Mapping[str, int]) -> Assignment | None:
        """The assignment in which the members (UIDs) in ``rows`` are there; None if the tree does not allow that."""
        within: dict[Leaf, Labels] = {}

        def allows(branch: Branch, around: Labels) -> bool:
            placed = _rows_below(branch, rows)
            if branch.keys and placed:
                number = self.level(branch.keys).common(placed)
                if number is None:
                    return False
                around = self.labels(branch.keys, number)
            if branch.leaf is not None:
                within[branch.leaf] = around
            return all(allows(each, around) for each in branch.children)

        return Assignment(within) if allows(self.root, ()) and self.are_apart(rows) else None

    def keeps_apart(self, assignment: Assignment) -> bool:
        """Return True if the assignment has no two siblings in a domain that one of them has for itself."""
        for branch in self.root.all():
            taken: dict[Labels, bool] = {}
            for each in branch.children if any(each.apart for each in branch.children) else ():
                found = (assignment.within.get(leaf.leaf) for leaf in each.leaves() if leaf.leaf is not None)
                for labels in {tuple(label for label in of if label[0] in each.keys) for of in found if of}:
                    if labels in taken and (each.apart or taken[labels]):
                        return False
                    taken[labels] = each.apart
        return True

    def are_apart(self, rows: Mapping[str, int]) -> bool:
        """Return True if no two siblings share a domain that one of them has for itself."""
        for branch in self.root.all():
            if not any(each.apart for each in branch.children):
                continue
            taken: dict[tuple[Keys, int], bool] = {}
            for each in branch.children:
                for number in {int(self.level(each.keys).codes[row]) for row in _rows_below(each, rows)}:
                    place = each.keys, number
                    if place in taken and (each.apart or taken[place]):
                        return False
                    taken[place] = each.apart
        return True


def _rows_below(branch: Branch, rows: Mapping[str, int]) -> list[int]:
    """The rows of the members of a branch: of those that run, and of those in ``rows``."""
    found = [rows[pod.uid] for leaf in branch.leaves() for pod in leaf.members if pod.uid in rows]
    return [*(row for _, row in branch.bound), *found]


def tree_of(
    snapshot: Snapshot, membership: Membership, wanted: Iterable[Wanted], around: Sequence[tuple[str, bool]]
) -> PartTree:
    """The tree of these gangs; ``around`` are the constraints of all of them together."""
    keys = tuple(dict.fromkeys(key for key, required in around if required))
    children: list[Branch] = []
    for each in wanted:
        members: dict[str, list[Pod]] = {}
        bound: dict[str, list[tuple[str, int]]] = {}
        for pod in each.members:
            members.setdefault(role_of(pod, each.spec), []).append(pod)
        for pod, row in each.bound:
            bound.setdefault(role_of(pod, each.spec), []).append((pod.key, row))
        grower = _Grower(each.gang, members, bound, membership.levels)
        if each.spec.parts is not None:
            children.append(grower.branch(each.spec.parts, keys))
        children += [grower.leaf(role, keys) for role in sorted({*members, *bound} - grower.used)]
    return PartTree(snapshot, _joined("", keys, _soft(keys, around), children))


class _Grower:
    """Makes the branches of one gang; ``used`` are the roles that they have."""

    def __init__(
        self,
        gang: GangId,
        members: Mapping[str, Sequence[Pod]],
        bound: Mapping[str, Sequence[tuple[str, int]]],
        levels: Callable[[Sequence[tuple[str, bool]]], tuple[tuple[str, bool], ...]],
    ) -> None:
        self._gang = gang
        self._members = members
        self._bound = bound
        self._levels = levels
        self.used: set[str] = set()

    def branch(self, part: Part, keys: Keys) -> Branch:
        """The branch of a part inside a domain of these keys."""
        if not is_divided(part):
            return self._own(part, part.name, keys)
        known = {*self._members, *self._bound}
        roles = sorted(role for role in known if role == part.name or role.startswith(f"{part.name}/"))
        return _joined("", keys, (), [self._own(part, role, keys) for role in roles])

    def leaf(self, role: str, keys: Keys, soft: tuple[Keys, ...] = ()) -> Branch:
        """The members of one role."""
        self.used.add(role)
        members, bound = tuple(self._members.get(role, ())), tuple(self._bound.get(role, ()))
        return Branch(role, keys, soft, leaf=(self._gang, role), members=members, bound=bound)

    def _own(self, part: Part, name: str, keys: Keys) -> Branch:
        """The branch of a part, or of one division of it, which has the topology of the part for itself."""
        levels = self._levels(part.topology)
        path = [key for key, _ in self._levels(((part.distinct, True),))] if part.distinct else []
        apart, required = next(reversed(path), ""), [key for key, needs in levels if needs]
        if apart not in required:
            required = [*path, *required]
        inner = tuple(dict.fromkeys((*keys, *required)))
        soft = _soft(inner, levels)
        if part.parts:
            made = _joined(name, inner, soft, [self.branch(each, inner) for each in part.parts])
        else:
            made = self.leaf(name, inner, soft)
        if not apart:
            return made
        outer = inner[: inner.index(apart) + 1]
        made.apart = outer == inner
        return made if made.apart else msgspec.structs.replace(_joined(name, outer, (), [made]), apart=True)


def _joined(name: str, keys: Keys, soft: tuple[Keys, ...], children: Sequence[Branch]) -> Branch:
    bound = tuple(each for child in children for each in child.bound)
    return Branch(name, keys, soft, bound=bound, children=tuple(children))


def _soft(keys: Keys, levels: Sequence[tuple[str, bool]]) -> tuple[Keys, ...]:
    """The narrower levels that are preferred, the widest first."""
    out, inner = [], keys
    for key, required in levels:
        if not required and key not in inner:
            inner = (*inner, key)
            out.append(inner)
    return tuple(out)
