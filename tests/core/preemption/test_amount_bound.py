"""What places cost at least, by the amounts that members ask for, against the least price of any places."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from gangsched.core.preemption import lower_bound, places
from gangsched.core.preemption.lower_bound import amount_bound
from gangsched.core.preemption.node_prices import MAY, Offer
from tests.amounts import amount
from tests.builders import gang, node, pod
from tests.core.harness import Built
from tests.core.preemption.asked import Asked, asked
from tests.core.preemption.crowds import RULES, crowd, found_and_least, tariff


def bound(made: Asked) -> float:
    """With all candidates on offer."""
    offer = Offer(np.full(made.candidates.size, MAY), tariff(made))
    return amount_bound(made.places(lower=True).nodes, offer)


@pytest.mark.parametrize("rule", RULES)
def test_no_places_cost_less_than_the_bound(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all amounts told apart or few, exact ones or rounded ones."""
    judged = 0
    for seed in range(amount(14, 6)):
        made = asked(*crowd(seed, rule))
        _, least = found_and_least(made)
        if least is None:
            continue
        judged += 1
        for cells, amounts in product((1024, 3), (48, 3)):
            monkeypatch.setattr(lower_bound, "_CELLS", cells)
            monkeypatch.setattr(lower_bound, "_AMOUNTS", amounts)
            assert bound(made) <= least.real + 1e-6, f"seed {seed}, {cells} cells, {amounts} amounts"
    assert judged >= amount(4, 1)


def test_pods_that_cost_nothing_are_room_too() -> None:
    """Nodes that differ only in pods without a price are not equal: no places cost less than the bound."""
    judged = 0
    for seed in range(amount(100, 40)):
        chance = random.Random(seed)
        question: list[Built] = []
        for row in range(8):
            dear, cheap = chance.choice((1, 2)), chance.choice((6, 7, 8))
            question += [node(f"n{row}").cpu(dear + cheap), pod(f"v{row}").cpu(dear).priority(2).on(f"n{row}")]
            question.append(pod(f"w{row}").cpu(cheap).priority(1).on(f"n{row}"))
        made = asked(*question, *members(*(chance.choice((5, 7)) for _ in range(8))))
        offer = made.offer((made.candidates.level == 2).astype(float).tolist())
        found = made.places().best(offer)
        if found is None or not found.price.real:
            continue
        judged += 1
        least = amount_bound(made.places(lower=True).nodes, offer)
        assert least <= found.price.real + 1e-6, f"seed {seed}"
    assert judged >= amount(10, 4)


def full(nodes: int, holds: int, free: float = 0.0) -> list[Built]:
    """Nodes that each hold so many pods of one CPU, with this part of a CPU free beside them."""
    out: list[Built] = []
    for row in range(nodes):
        out.append(node(f"n{row}").cpu(holds + free))
        out += [pod(f"v{row}-{n}").cpu(1).priority(1).on(f"n{row}") for n in range(holds)]
    return out


def members(*sizes: int) -> list[Built]:
    """A gang whose members ask for so many CPUs each."""
    mine = [pod(f"g{n}").cpu(size).priority(9).label(job="g").gang("g") for n, size in enumerate(sizes)]
    return [*mine, gang("g").min(len(sizes))]


@pytest.mark.parametrize("sizes", [(1, 3), (5, 5, 2), (7, 4, 2, 1, 1), (8, 6, 5, 3, 2, 1)])
def test_members_that_are_worth_whole_pods_need_as_many_gone(sizes: tuple[int, ...]) -> None:
    """Less than a pod is free on each node: with half a CPU on each of eight nodes a sum over all of them would do with
    four pods less.
    """
    made = asked(*full(8, 8, free=0.5), *members(*sizes))
    each = tariff(made)[0].real
    assert bound(made) == pytest.approx(each * sum(sizes))


def test_nodes_count_in_whole_members() -> None:
    """Members of three and of five CPUs on nodes of seven: each node holds one of them, or two of three."""
    made = asked(*full(6, 7), *members(5, 5, 5, 3, 3))
    each = tariff(made)[0].real
    assert bound(made) == pytest.approx(each * 21)
    _, least = found_and_least(asked(*full(2, 4), *members(3, 1, 1)))
    assert least is not None
    assert bound(asked(*full(2, 4), *members(3, 1, 1))) == pytest.approx(least.real)


def test_the_plan_of_many_kinds_is_proven_where_a_table_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search says that its plan is optimal; without the bound by amounts it says that there is a gap."""
    monkeypatch.setattr(places, "_TABLE", 0)
    question = [*full(40, 12, free=0.5), *members(*(9, 8, 5, 4, 2, 1) * 8)]
    choice = asked(*question).search().run()
    assert choice is not None
    assert choice.harm.levels == ((1, 0, 29 * 8),)
    assert choice.gap is None
    monkeypatch.setattr(lower_bound, "amount_bound", lambda *_: 0.0)
    without = asked(*question).search().run()
    assert without is not None
    assert without.gap is not None


def test_a_kind_that_finds_no_node_has_no_price() -> None:
    """The bound is nothing that cannot be had."""
    made = asked(*full(3, 4), *members(5, 1))
    assert bound(made) == 0.0
