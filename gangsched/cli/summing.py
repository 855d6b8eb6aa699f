"""Long lists for people in few lines: members by node group, victims by unit and namespace. JSON has all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from gangsched.cli.answers import natural
from gangsched.core.decision import Placement, Victim
from gangsched.messages import sums
from gangsched.messages.text import join_names, pluralize

#: Longer lists are summed.
MOST_LINES = 20
#: So many sums are shown, and so many names in each of them.
_SUMS, _NAMES = 6, 3
#: Return the parts in which the names of the nodes of a group differ.
_LAST = re.compile(r"[-.]?[0-9a-z]*[0-9][0-9a-z]*$")
_DIGITS = re.compile(r"[0-9]+")


def members(placements: Sequence[Placement]) -> list[str]:
    """How many go to which group of nodes: those whose names begin alike."""
    nodes: dict[str, list[str]] = {}
    for placement in placements:
        nodes.setdefault(_group(placement.node), []).append(placement.node)
    lines = []
    for group in sorted(nodes, key=lambda name: (-len(nodes[name]), natural(name))):
        names = sorted(set(nodes[group]), key=natural)
        lines.append(
            sums.members(
                members=pluralize(len(nodes[group]), "member"),
                nodes=pluralize(len(names), "node"),
                names=names[0] if len(names) == 1 else sums.first_to_last(first=names[0], last=names[-1]),
            )
        )
    return _few(lines)


def _group(node: str) -> str:
    """Return the common part of the names of nodes of one group."""
    return _LAST.sub("", node) or _DIGITS.sub("0", node)


def victims(found: Sequence[Victim]) -> list[str]:
    """How many pods of how many units leave in which namespace, with their priorities and what budgets say."""
    lines = []
    spaces = groupby(sorted(found, key=lambda v: natural(v.namespace)), lambda v: v.namespace)
    by_space = [(space, list(pods)) for space, pods in spaces]
    for space, pods in sorted(by_space, key=lambda each: (-len(each[1]), natural(each[0]))):
        units = sorted({f"{v.unit.kind} {v.unit.name}" for v in pods}, key=natural)
        low, high = min(v.priority for v in pods), max(v.priority for v in pods)
        beyond = sum(v.over_budget for v in pods)
        lines.append(
            sums.victims(
                namespace=space,
                pods=pluralize(len(pods), "pod"),
                units=pluralize(len(units), "unit"),
                names=join_names(units, _NAMES),
                priority=str(low) if low == high else sums.first_to_last(first=low, last=high),
            )
            + (sums.beyond_budgets(pods=pluralize(beyond, "pod")) if beyond else "")
        )
    return _few(lines)


def leaving(pods: Iterable[str]) -> list[str]:
    """How many of these pods (``namespace/name``) are in which namespace."""
    spaces: dict[str, int] = {}
    for pod in pods:
        space = pod.partition("/")[0]
        spaces[space] = spaces.get(space, 0) + 1
    lines = [
        sums.leaving(namespace=space, pods=pluralize(spaces[space], "pod"))
        for space in sorted(spaces, key=lambda s: (-spaces[s], natural(s)))
    ]
    return _few(lines)


def _few(lines: list[str]) -> list[str]:
    if len(lines) <= _SUMS:
        return lines
    return [*lines[: _SUMS - 1], sums.more_sums(count=len(lines) - _SUMS + 1)]
