"""The parts of a gang of which some must be whole before it starts: KAI's trees of sub-groups, Volcano's sub-groups.

The choice of these parts depends on the existing members. It is settled before places are looked for: those that lack
no member, then those that have most members in their places, then by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, islice, product

import msgspec

from gangsched.model.constraints import Labels
from gangsched.model.records import Gang, Part
from gangsched.model.selectors import selector_matches


def part_of(whole: Part, labels: Labels) -> str:
    """Return the name of a member's part by its labels: the first part that selects it, with the values of the keys
    that divide it; empty for none.
    """
    for each in whole.parts:
        values = [labels.get(key, "") for key in each.keys]
        if all(values) and (each.selector is None or selector_matches(each.selector, labels)):
            return "/".join((each.name, *values))
    return ""


def constrained(part: Part) -> Part | None:
    """Return the first part of this tree that has a topology, or is to be apart from its siblings; None for none."""
    if part.topology or part.distinct:
        return part
    return next(filter(None, map(constrained, part.parts)), None)


def anywhere(part: Part) -> Part:
    """Return the part without a topology, and all parts within it."""
    return msgspec.structs.replace(part, topology=(), distinct="", parts=tuple(map(anywhere, part.parts)))


def is_divided(part: Part) -> bool:
    """Return True if the part is only a rule by which its members are divided into parts."""
    return part.least is not None and not part.parts


def leaves(gang: Gang) -> list[str]:
    """Return the names of the parts of a gang that have members."""
    if gang.parts is None:
        return [name for name, _ in gang.roles]
    out, todo = [], [gang.parts]
    while todo:
        part = todo.pop()
        todo += part.parts
        if part.least is None:
            out.append(part.name)
    return sorted(out)


def fewest(part: Part) -> int:
    """How few members may start: those of the smallest parts of which there must be so many."""
    if part.least is None:
        return part.count
    if part.parts:
        return sum(sorted(map(fewest, part.parts))[: part.least])
    return part.least * part.count


def as_roles(part: Part) -> tuple[tuple[str, int], ...] | None:
    """How many members of each role there must be where no part can be left out and none has a topology; None
    otherwise.
    """
    if part.topology or part.distinct:
        return None
    if part.least is None:
        return ((part.name, part.count),)
    within = [as_roles(each) for each in part.parts]
    if len(within) > part.least or not within:
        return None
    return tuple(sorted(each for roles in within if roles is not None for each in roles)) if all(within) else None


def needed(part: Part, there: Mapping[str, int], placed: Mapping[str, int]) -> dict[str, int]:
    """How many members of each role must start together. ``there`` counts members by role, with those ``placed``."""
    if part.least is None:
        return {part.name: part.count}
    found = _ranked(part, there, placed)
    out: dict[str, int] = {}
    for _, wanted in found[: part.least]:
        out |= wanted
    if len(found) < part.least:  # those that are not there yet
        out[f"{part.name}/"] = (part.least - len(found)) * part.count
    return out


def starting_choices(
    part: Part, there: Mapping[str, int], placed: Mapping[str, int], most: int
) -> list[dict[str, int]]:
    """Return the ways to choose what must start together, as :func:`needed` has it, its own first; at most so many.
    Parts that have placed members are in all of them, and parts that lack members in none.
    """
    if part.least is None or not part.parts:
        return [needed(part, there, placed)]
    found = _ranked(part, there, placed)
    fixed = [each for each, wanted in found if any(placed.get(role, 0) for role in wanted)][: part.least]
    free = [
        each
        for each, wanted in found
        if each not in fixed and all(there.get(role, 0) >= count for role, count in wanted.items())
    ]
    if len(found) <= part.least or len(fixed) + len(free) <= part.least:
        chosen = [[each for each, _ in found[: part.least]]]
    else:
        chosen = [[*fixed, *some] for some in islice(combinations(free, part.least - len(fixed)), most)]
    out: list[dict[str, int]] = []
    for some in chosen:
        within = islice(product(*(starting_choices(each, there, placed, most) for each in some)), most - len(out))
        out += [{role: count for wanted in each for role, count in wanted.items()} for each in within]
    return out


def further(part: Part, there: Mapping[str, int], placed: Mapping[str, int]) -> list[dict[str, int]]:
    """Return what may join those that must start: for each further part how many members of each role it needs."""
    if part.least is None:
        some = there.get(part.name, 0)
        if part.count or not some or placed.get(part.name, 0):
            return []
        return [{part.name: number} for number in dict.fromkeys((some, 1))]  # all that are there, else the first
    found = _ranked(part, there, placed)
    within = [more for each, _ in found if each is not part for more in further(each, there, placed)]
    return within + [wanted for _, wanted in found[part.least :]]


def _ranked(part: Part, there: Mapping[str, int], placed: Mapping[str, int]) -> list[tuple[Part, dict[str, int]]]:
    """The parts within a part, or its divisions, with what each needs: those that start first come first."""
    found = [(each, needed(each, there, placed)) for each in part.parts]
    if not part.parts:
        divisions = (role for role in there if role == part.name or role.startswith(f"{part.name}/"))
        found = [(part, {role: part.count}) for role in divisions]

    def rank(one: tuple[Part, dict[str, int]]) -> tuple[int, int, list[str]]:
        wanted = one[1]
        lack = sum(max(0, count - there.get(role, 0)) for role, count in wanted.items())
        return lack, -sum(min(count, placed.get(role, 0)) for role, count in wanted.items()), sorted(wanted)

    return sorted(found, key=rank)


def members_to_keep(gang: Gang) -> tuple[int, dict[str, int]]:
    """Return how many members a running gang must keep, in all and of each role: those that start it, and those created
    later that it needs.
    """
    roles = dict(gang.roles)
    minimum = gang.min_member
    for each in gang.announced:
        if each.kept:
            minimum += max(0, each.count - roles.get(each.role, 0))
            roles[each.role] = max(each.count, roles.get(each.role, 0))
    return minimum, roles
