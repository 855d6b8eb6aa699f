"""The most victims that one decision may have, and the search for a choice within that.

A choice of the least harm that has too many is searched again with pods of different priority alike: below a threshold
and above it. With a threshold above all, that is the choice of fewest pods; the lower it is, the more the victims'
priority counts. What is found is where the search for the least harm within the cap begins.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from gangsched.core.options import Options
from gangsched.core.preemption.search import Choice, Limits, Search
from gangsched.core.preemption.units import Units


class Cap(NamedTuple):
    """``most`` victims are allowed, because of this ``setting``."""

    most: int
    setting: str


def cap_of(options: Options, required: int) -> Cap | None:
    """The most victims for gangs that are decided together and need so many members; None if there is no cap."""
    found = []
    if options.max_victims:
        found.append(Cap(options.max_victims, "preemption.maxVictims"))
    if options.max_victims_per_member:
        most = math.floor(options.max_victims_per_member * required + 1e-9)
        found.append(Cap(most, "preemption.maxVictimsPerMember"))
    return min(found, default=None)


class Begin(Protocol):
    """Begins a search of ``max_steps``; with ``ignore_budgets`` as if there were no disruption budgets."""

    def __call__(self, max_steps: int, limits: Limits, *, ignore_budgets: bool = False) -> Search: ...


def within(units: Units, begin: Begin, most: int, max_steps: int, *, strict: bool) -> tuple[Choice | None, int, int]:
    """The least harmful choice of at most so many of these units' pods that was found; how many pods the smallest
    choice has that was found; and the steps spent.
    """
    spent = 0
    found: list[Choice] = []

    def look(bands: tuple[int, ...], *, ignore_budgets: bool = False) -> int | None:
        nonlocal spent
        search = begin(max(0, max_steps - spent), Limits(bands=bands), ignore_budgets=ignore_budgets)
        choice = search.run()
        spent += search.spent
        if choice is not None and len(choice.taken) <= most:
            found.append(choice)
        return None if choice is None else len(choice.taken)

    smallest = look(())
    if not found and not strict:
        fewer = look((), ignore_budgets=True)
        smallest = fewer if smallest is None else min(smallest, fewer or smallest)
    if not found:
        return None, smallest or 0, spent
    table = units.snapshot.table
    levels = sorted({*table.priority[units.everything()].tolist(), *(b.priority for b in units.blocks)})
    low, high = 0, len(levels) - 1
    while low < high:
        middle, before = (low + high) // 2, len(found)
        look((levels[middle],))
        if len(found) > before:
            high = middle
        else:
            low = middle + 1
    search = begin(max(0, max_steps - spent), Limits(most=most, known=tuple(found)))
    choice = search.run()
    return choice, min(len(c.taken) for c in found), spent + search.spent
