"""What a search among the victims of gangs of many sizes may take, and what it no longer takes."""

from __future__ import annotations

import numpy as np
import pytest

from gangsched.core.options import Options
from gangsched.core.preemption import places
from gangsched.core.preemption.places import Places
from tests.amounts import amount
from tests.bench.kinds import decide
from tests.builders import gang, node, pod
from tests.core.harness import Built, plan, victims
from tests.core.preemption.asked import asked

NODES = amount(300, 150)


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("kinds", [1, 8, 62, 63, 64, 65, 128, amount(500, 200)])
def test_a_gang_of_any_number_of_sizes_takes_four_budgets_at_most(kinds: int, *, spread: bool) -> None:
    """On hundreds of nodes that are full, with and without a rule about zones, which costs no more victims."""
    found, _ = decide(kinds, NODES, spread=spread)
    assert (found.outcome, len(found.placements)) == ("preempt", max(kinds, 60))
    assert found.steps <= 4 * Options().search_steps
    assert len(found.victims) <= 2 * len(found.placements)


def different(count: int, free: float = 0.0) -> list[Built]:
    """Full nodes, and a gang of members of so many sizes that need most of a node each."""
    full: list[Built] = [node(f"n{n:03}").cpu(4 + free) for n in range(count)]
    full += [pod(f"v{n:03}").cpu(4).priority(1).on(f"n{n:03}") for n in range(count)]
    mine = [pod(f"g{n:03}").cpu(3 + n / 1000).priority(9).gang("g") for n in range(count)]
    return [*full, gang("g").min(count), *mine]


def test_hundreds_of_sizes_are_not_counted_in_all_numbers() -> None:
    """Each kind by itself and with all larger ones; of many kinds only every so many."""
    assert len([*asked(*different(8)).demand.parts()]) == 8 + 7
    assert len([*asked(*different(200)).demand.parts()]) <= 2 * 64
    assert len([*asked(*different(65)).demand.parts()]) <= 2 * 64


def test_amounts_say_that_there_is_no_room() -> None:
    """What all members ask for together, of each resource, where each by itself would find a place."""
    demand = asked(*different(6)).demand
    need = demand.request.T @ np.array(demand.need, dtype=np.float64)
    free = np.tile(need[:, None] / 6, (1, 6))
    assert demand.amounts(free)
    assert not demand.amounts(free * 0.999)


def test_levels_that_have_too_little_together_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what leaves is dearer, and all is needed: places are looked for once, with all of it."""
    full: list[Built] = [node(f"n{n}").cpu(4) for n in range(8)]
    full += [pod(f"v{n}-{k}").cpu(2).priority(k).on(f"n{n}") for n in range(8) for k in (0, 1)]
    mine = [pod(f"g{n:02}").cpu(1.8 + n / 1000).priority(9).gang("g") for n in range(16)]
    looked = []
    best = Places.best

    def counted(self: Places, offer: object) -> object:
        looked.append(offer)
        return best(self, offer)  # type: ignore[arg-type]

    monkeypatch.setattr(Places, "best", counted)
    monkeypatch.setattr("gangsched.core.preemption.search.Search._concentrate", lambda _: None)
    assert len(victims(plan(*full, gang("g").min(16), *mine)["d/g"])) == 16
    assert len(looked) == 1


def test_a_dear_order_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it takes, the first order is gone through: there is a plan, and it has what is needed."""
    monkeypatch.setattr(places, "_WORK", 0)
    assert len(victims(plan(*different(70))["d/g"])) == 70
