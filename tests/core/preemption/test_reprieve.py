"""Whatever the gang can do without comes back, for few questions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gangsched.core.arrays import Bools, Ints
from gangsched.core.preemption.fit import Returnable, reprieve


class Wanted:
    """A gang that fits as long as ``needed`` says so of the pods (numbers) that are away; ``sure`` says that counting
    knows of single units that may not return. Counts questions.
    """

    steps = 0

    def __init__(self, away: Sequence[int], needed: Any, *, monotone: bool = True, sure: bool = False) -> None:
        self.away = set(away)
        self.exact = True
        self.monotone = monotone
        self.questions = 0
        self._needed = needed
        self._sure = sure

    def remove(self, slots: Ints) -> None:
        self.away.update(slots.tolist())

    def give_back(self, slots: Ints) -> None:
        self.away.difference_update(slots.tolist())

    def fits(self) -> bool:
        self.questions += 1
        return bool(self._needed(self.away))

    def returns(self, slots: Ints) -> bool:
        self.give_back(slots)
        if self.fits():
            return True
        self.remove(slots)
        return False

    def may_return(self, options: Sequence[Ints]) -> Bools:
        if not self._sure:
            return np.ones(len(options), dtype=np.bool_)
        return np.array([self._needed(self.away.difference(o.tolist())) for o in options], dtype=np.bool_)

    def hint(self, rows: Mapping[str, int], *, least: bool = False) -> None:
        raise NotImplementedError

    def rows(self) -> dict[str, int]:
        raise NotImplementedError

    def save(self) -> Any:
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        raise NotImplementedError


def unit(*slots: int, core: Sequence[int] = ()) -> Returnable:
    """Pods that come back together, lower numbers first."""
    return Returnable(np.array(slots, dtype=np.int64), np.array(core, dtype=np.int64), (slots[0],))


def came_back(fit: Wanted, units: Sequence[Returnable]) -> list[int]:
    """The pods that came back; they are not away any more."""
    back = [s for slots in reprieve(fit, units) for s in slots.tolist()]
    assert not fit.away.intersection(back)
    return sorted(back)


@pytest.mark.parametrize("sure", [False, True], ids=["asked", "counted"])
def test_nothing_returnable_is_left(sure: bool) -> None:
    """Random units on random nodes, of which so many have to stay away per node: each of those left is needed."""
    for seed in range(40):
        chance = random.Random(seed)
        units, last = [], 0
        while last < 40:
            size = min(chance.choice((1, 1, 1, 3)), 40 - last)
            units.append(unit(*range(last, last + size)))
            last += size
        node = [chance.randrange(6) for _ in range(40)]
        least = [chance.randint(0, node.count(n)) for n in range(6)]

        def needed(away: set[int], node: list[int] = node, least: list[int] = least) -> bool:
            return all(sum(node[s] == n for s in away) >= least[n] for n in range(6))

        fit = Wanted(range(40), needed, sure=sure)
        came_back(fit, units)
        assert needed(fit.away)
        for some in units:
            slots = set(some.slots.tolist())
            assert not slots <= fit.away or not needed(fit.away - slots), f"seed {seed}"


def test_the_most_harmful_come_back_first() -> None:
    """Two of three have to stay away: the first in order returns."""
    fit = Wanted(range(3), lambda away: len(away) >= 2)
    assert came_back(fit, [unit(2), unit(0), unit(1)]) == [0]


@pytest.mark.parametrize("needed", [0, 1, 3])
def test_few_questions_where_most_come_back(needed: int) -> None:
    """Of a thousand units as many questions are asked as there are halves down to each that stays, and up again."""
    kept = {n * 333 for n in range(needed)}
    fit = Wanted(range(1000), lambda away: kept <= away)
    assert came_back(fit, [unit(n) for n in range(1000)]) == [n for n in range(1000) if n not in kept]
    assert fit.questions <= 1 + 20 * needed


@pytest.mark.parametrize("returns", [0, 1, 2])
def test_one_question_about_each_where_most_are_needed(returns: int) -> None:
    """Of a thousand units of which nearly all stay away hardly more questions are asked than there are units."""
    kept = set(range(1000)) - {300 * n for n in range(returns)}
    fit = Wanted(range(1000), lambda away: kept <= away)
    assert came_back(fit, [unit(n) for n in range(1000)]) == [300 * n for n in range(returns)]
    assert fit.questions <= 1010 + returns


def test_no_question_about_what_counting_knows() -> None:
    """Where every unit is certain to be needed none is asked about."""
    fit = Wanted(range(100), lambda away: len(away) == 100, sure=True)
    assert came_back(fit, [unit(n) for n in range(100)]) == []
    assert fit.questions == 0


def test_the_core_of_a_gang_comes_back_without_its_surplus() -> None:
    """Not all of the gang can return; all but the member that it can spare can."""
    fit = Wanted(range(3), bool)
    assert came_back(fit, [unit(0, 1, 2, core=(0, 1))]) == [0, 1]


@pytest.mark.parametrize("monotone", [False, True])
def test_whoever_was_refused_is_asked_again_where_fewer_victims_may_help(monotone: bool) -> None:
    """The first may return only once the second has."""
    fit = Wanted((0, 1), lambda away: away != {1}, monotone=monotone)
    assert came_back(fit, [unit(0), unit(1)]) == [0, 1]


def test_what_a_gang_can_spare_comes_back_one_by_one_after_its_core() -> None:
    """Not all of it can return; the core does, and then each member for which there is room."""
    fit = Wanted(range(4), lambda away: 2 in away)
    assert came_back(fit, [unit(0, 1, 2, 3, core=(0, 1))]) == [0, 1, 3]
