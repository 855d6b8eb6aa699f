"""Prices are compared as harm is: by budgets, then by priority from the highest down, gangs before pods, then work."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from gangsched.core.preemption.candidates import Digit, Tariff
from gangsched.core.preemption.harm import Harm
from tests.bench.worlds import cluster
from tests.builders import gang, node, pdb, pod
from tests.core.harness import Built
from tests.core.preemption.asked import Asked, asked, asked_in


def full(chance: random.Random, priorities: int) -> list[Built]:
    """Six nodes full of single pods of random priorities and ages, a gang, and a budget that some are under."""
    levels = chance.sample(range(-1000, 9), priorities)
    out: list[Built] = [pdb("p").selects(app="x").allows(1), gang("low").min(3)]
    for row in range(6):
        out.append(node(f"n{row}"))
        for number in range(4):
            made = pod(f"v{row}-{number}").cpu(1).priority(chance.choice(levels)).label(app=chance.choice("xy"))
            if number == 0 and row < 3:
                made = made.gang("low").priority(levels[0])
            out.append(made.on(f"n{row}", chance.randint(0, 900)))
    return [*out, *(pod(f"g{i}").cpu(3).priority(10).gang("g") for i in range(2)), gang("g").min(2)]


def tariff_of(made: Asked) -> Tariff:
    """Prices when all single pods may leave."""
    return Tariff(made.candidates, made.candidates.single)


def choices(made: Asked, chance: random.Random, count: int) -> list[tuple[complex, Harm]]:
    """Random pods, the whole gang among them or not: ``(price, harm)``."""
    tariff, candidates, out = tariff_of(made), made.candidates, []
    search = made.search()
    singles = np.flatnonzero(candidates.single).tolist()
    for _ in range(count):
        some = sorted(chance.sample(singles, chance.randint(0, 6)))
        price = complex(tariff.pods[some].sum())
        taken = {int(candidates.slot[n]) for n in some}
        if chance.random() < 0.3:
            (number,) = [n for n, unit in enumerate(candidates.units_of) if unit.whole]
            price += complex(tariff.whole[number])
            taken.update(candidates.units_of[number].slots.tolist())
        harm = search.harm_of(taken)
        out.append((price + harm.beyond_budget * tariff.beyond, harm))
    return out


@pytest.mark.parametrize("priorities", [1, 2, 5, 12])
def test_prices_are_in_the_order_of_harm(priorities: int) -> None:
    """Of any two sets of victims the cheaper one does less harm, work included."""
    for seed in range(5):
        chance = random.Random(seed)
        made = asked(*full(chance, priorities), now=1000.0)
        found = choices(made, chance, 40)
        order = sorted(range(len(found)), key=lambda n: (found[n][0].real, found[n][0].imag))
        for cheaper, dearer in pairwise(found[n][1] for n in order):
            one, other = cheaper[:-2], dearer[:-2]
            assert one <= other, f"seed {seed}"
            assert one < other or cheaper.work <= dearer.work + 1e-5, f"seed {seed}"


def test_a_price_can_be_read() -> None:
    """What was paid for comes out of a price again, component by component."""
    chance = random.Random(3)
    made = asked(*full(chance, 4), now=1000.0)
    tariff = tariff_of(made)
    for price, harm in choices(made, chance, 30):
        read = {(d.component, d.level): count for d, count in tariff.read(price) if count}
        expected = {("pdb", 0): harm.beyond_budget}
        for level, gangs, pods in harm.levels:
            expected |= {("gangs", level): gangs, ("pods", level): pods}
        assert read == {name: count for name, count in expected.items() if count}


def counted(digits: list[Digit]) -> tuple[int, int]:
    """How many digits are in the real part, how many in the imaginary part."""
    return sum(bool(d.weight.real) for d in digits), sum(bool(d.weight.imag) for d in digits)


def test_digits_that_the_real_part_does_not_hold_go_to_the_imaginary_part() -> None:
    """With many pods of many priorities: each has its digit, and one more of a higher one outweighs all lower ones."""
    case = cluster(nodes=40, pods=2400, gang_size=1, members=4, member=(46, 32), victim=(1, 1))
    made = asked_in(case)
    candidates = made.candidates
    for count in (3, 6):
        candidates.levels = np.arange(count)
        candidates.level = candidates.level_of = np.arange(candidates.size, dtype=np.int64) % count
        tariff = tariff_of(made)
        assert counted(tariff.digits) == ((3, 0) if count == 3 else (5, 1))
        for level in range(1, count):
            one = complex(tariff.pods[candidates.level == level][:1].sum())
            below = complex(tariff.pods[candidates.level < level].sum())
            assert (one.real, one.imag) > (below.real, below.imag)


def test_what_there_are_no_bits_for_costs_nothing() -> None:
    """More priorities than fit: the lowest are not told apart, and no higher one suffers."""
    case = cluster(nodes=40, pods=2400, gang_size=1, members=4, member=(46, 32), victim=(1, 1))
    made = asked_in(case)
    candidates = made.candidates
    candidates.levels = np.arange(12)
    candidates.level = candidates.level_of = np.arange(candidates.size, dtype=np.int64) % 12
    tariff = tariff_of(made)
    real, imaginary = counted(tariff.digits)
    assert 0 < real + imaginary < 12
    assert all(d.weight for d in tariff.digits[: real + imaginary])
    assert not any(d.weight for d in tariff.digits[real + imaginary :])


def test_where_nothing_may_leave_there_are_no_prices() -> None:
    """Everything is under a budget that allows nothing: no pod has a digit."""
    made = asked(node("n1"), pod("v").cpu(4).on("n1"), pod("g").cpu(4).priority(9))
    tariff = Tariff(made.candidates, np.zeros(1, dtype=np.bool_))
    assert (tariff.digits, tariff.pods.real.tolist()) == ([], [0.0])
