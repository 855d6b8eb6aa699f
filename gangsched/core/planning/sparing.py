"""Victims that nobody needs any more because others leave with their Job or JobSet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from gangsched.core.decision import Victim

#: So often it is asked whether the gang fits without some of the victims; it costs a placement of the gang each time.
MAX_TRIES = 24


def needless(victims: Sequence[Victim], fits_without: Callable[[frozenset[str]], bool]) -> frozenset[str]:
    """Victims (UIDs) of which none need leave: ``fits_without`` says whether the gang fits when these stay.

    Units stay or leave as a whole, and those whose removal does most harm stay first. Many are asked about at once, and
    only where they do not all stay, half of them; after :data:`MAX_TRIES` questions the others leave.
    """
    units: dict[object, list[Victim]] = defaultdict(list)
    for victim in victims:
        units[victim.uid if victim.partial else victim.unit].append(victim)
    dearest_first = sorted(units.values(), key=_harm)
    spared: frozenset[str] = frozenset()
    ranges = [dearest_first] if dearest_first else []
    for _ in range(MAX_TRIES):
        if not ranges:
            break
        asked = ranges.pop()
        staying = spared.union(v.uid for unit in asked for v in unit)
        if fits_without(staying):
            spared = staying
        elif len(asked) > 1:
            half = len(asked) // 2
            ranges += [asked[half:], asked[:half]]
    return spared


def _harm(unit: Sequence[Victim]) -> tuple[int, int, int, str]:
    """Sorts the unit first whose removal does most harm."""
    return -sum(v.over_budget for v in unit), -max(v.priority for v in unit), -len(unit), min(v.key for v in unit)
