"""Groups of groups: each group names the one above it, and a whole tree is one gang, that of its root.

A tree is not scheduled while a group of it is not known yet, or while its groups contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from gangsched.messages import causes
from gangsched.model.dialects import BY_FAMILY
from gangsched.model.errors import Mistake
from gangsched.model.parts import as_roles, fewest
from gangsched.model.records import Gang, Part

#: API, namespace and name of a group object.
Key: TypeAlias = tuple[str, str, str]
#: So many levels at most, the groups of pods included (KEP-6012).
MAX_DEPTH = 4


class GroupTrees:
    """The groups that are in trees, as their objects describe them."""

    def __init__(self) -> None:
        #: True once there was a tree.
        self.used = False
        self._groups: dict[Key, Gang] = {}
        self._below: dict[Key, set[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._groups

    def put(self, key: Key, group: Gang | None) -> set[Key]:
        """Store a group, or forget it (None). Return it with all groups of which the gang may be another now."""
        self.used = True
        before = self._groups.pop(key, None)
        changed = {key, *self._with_root(key, before)}
        if before is not None and (above := _above(before)) is not None:
            self._below[above].discard(key)
        if group is not None:
            self._groups[key] = group
            if (above := _above(group)) is not None:
                self._below.setdefault(above, set()).add(key)
        return changed | {*self._with_root(key, group)}

    def _with_root(self, key: Key, group: Gang | None) -> Iterator[Key]:
        """Yield the groups above a group, and all below it."""
        found = group
        for _ in range(MAX_DEPTH):
            above = _above(found) if found is not None else None
            if above is None:
                break
            yield above
            found = self._groups.get(above)
        todo = [(key, MAX_DEPTH)]
        while todo:
            each, depth = todo.pop()
            for child in self._below.get(each, ()):
                yield child
                if depth > 1:
                    todo.append((child, depth - 1))

    def root_of(self, key: Key) -> Key | None:
        """Return the root of the tree that a group is in; None if it is in none, or if the root is not known."""
        found = self._groups.get(key)
        for _ in range(MAX_DEPTH - 1):
            above = _above(found) if found is not None else None
            if above is None:
                break
            key, found = above, self._groups.get(above)
        return key if found is not None and _above(found) is None and _holds_groups(found) else None

    def problem(self, key: Key) -> str:
        """Return why the members of a group or tree cannot start, in words: groups are missing, or in a circle."""
        first = found = self._groups.get(key)
        for _ in range(MAX_DEPTH - 1):
            above = _above(found) if found is not None else None
            if above is None:
                break
            found = self._groups.get(above)
            if found is None:
                return causes.group_above_missing(kind=BY_FAMILY[above[0]].kind, group="/".join(above[1:]))
        if found is not None and _above(found) is not None:
            return causes.groups_too_deep(most=MAX_DEPTH)
        whole = first is not None and _above(first) is None
        return next(filter(None, map(self._lacking, self._tree_of(key))), "") if whole else ""

    def _tree_of(self, key: Key) -> list[Gang]:
        """Return the groups of a tree by its root, which comes first."""
        root = self._groups[key]
        below = sorted({*self._with_root(key, root)} - {key})
        return [root, *(self._groups[each] for each in below if each in self._groups)]

    def gang(self, key: Key) -> Gang | None:
        """Return a group; of a root the gang of its tree."""
        found = self._groups.get(key)
        if found is None or not _holds_groups(found) or _above(found) is not None:
            return found
        tree = msgspec.structs.replace(self._part(key, found, MAX_DEPTH), topology=())  # that of the gang
        roles = as_roles(tree)
        return msgspec.structs.replace(
            found,
            min_member=max(1, fewest(tree)),
            roles=tuple((name, count) for name, count in roles or () if count),
            parts=tree if roles is None else None,
            mistake=found.mistake or _contradiction(self._tree_of(key)),
        )

    def _part(self, key: Key, group: Gang, depth: int) -> Part:
        """Return a group as a part of its tree."""
        if not _holds_groups(group):
            return Part(group.name, group.min_member, topology=group.topology)
        below = sorted(self._below.get(key, ())) if depth > 1 else ()
        parts = tuple(self._part(each, self._groups[each], depth - 1) for each in below)
        least = group.link.least if group.link is not None else None
        return Part(group.name, least=least, parts=parts, topology=group.topology)

    def _lacking(self, group: Gang) -> str:
        """Return how many groups a group of groups lacks, in words."""
        least = group.link.least if group.link is not None else None
        there = len(self._below.get((group.family, group.namespace, group.name), ()))
        if least is None or there >= least:
            return ""
        return causes.groups_missing(kind=group.kind, group=group.key, there=there, least=least)


def _holds_groups(group: Gang) -> bool:
    return group.link is not None and group.link.least is not None


def _above(group: Gang) -> Key | None:
    if group.link is None or not group.link.above:
        return None
    return BY_FAMILY[group.family].above, group.namespace, group.link.above


def _contradiction(groups: list[Gang]) -> Mistake | None:
    """Return what makes a tree invalid: a mistake in a group, or groups that differ in what a tree has once."""
    wrong = next((each for each in groups if each.mistake is not None), None)
    if wrong is not None and wrong.mistake is not None:
        return Mistake(f"{wrong.kind} {wrong.name}: {wrong.mistake.field}", wrong.mistake.message)
    root = groups[0]
    for each in groups[1:]:
        for field, mine, of_root in (
            ("workloadRef.workloadName", each.link and each.link.workload, root.link and root.link.workload),
            ("priority", each.priority, root.priority),
            ("priorityClassName", each.priority_class, root.priority_class),
        ):
            if mine != of_root:
                return Mistake(f"{each.kind} {each.name}: spec.{field}", causes.differs_from_root(root=root.name))
        if each.disruption == "gang" and root.disruption != "gang":
            return Mistake(f"{each.kind} {each.name}: spec.disruptionMode", causes.WHOLE_BELOW_SINGLE)
    return None
