"""The lower bound of the exhaustive search cuts branches off, never the best choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gangsched.core.preemption import bound
from tests.bench.worlds import World
from tests.builders import gang, node, pod
from tests.core.harness import Built, plan
from tests.oracle.case import Case
from tests.oracle.generate import case


def without(made: Case, patch: pytest.MonkeyPatch) -> Any:
    """The decision of a search that looks everywhere."""
    patch.setattr(bound.Bound, "exceeds", lambda *args, **more: False)
    return World(made).decide().decisions[0]


@pytest.mark.parametrize("seed", range(0, 80, 2))
def test_nothing_better_is_missed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal members in a random cluster: with the bound and without it, the same victims."""
    made = case(seed, mixed=False)
    quick = World(made).decide().decisions[0]
    slow = without(made, monkeypatch)
    assert (quick.outcome, [v.key for v in quick.victims]) == (slow.outcome, [v.key for v in slow.victims])
    assert quick.steps <= slow.steps


def test_equal_gangs_are_not_tried_in_every_combination() -> None:
    """Twenty gangs of two, any five of which would do: the choice is proved to be as good as any within the budget."""
    objects: list[Built] = [node(f"n{i:02d}").cpu(2) for i in range(20)]
    for i in range(20):
        objects.append(gang(f"low{i:02d}").min(2))
        objects += [pod(f"low{i:02d}-{j}").cpu(1).gang(f"low{i:02d}").on(f"n{i:02d}", started=i) for j in (0, 1)]
    objects += [pod(f"m{i}").cpu(2).priority(10).gang("want") for i in range(5)]
    found = plan(*objects, gang("want").min(5).priority(10), now=1000.0)["d/want"]
    assert not found.stopped
    assert found.steps < 1000
    assert {v.unit.name for v in found.victims} == {f"d/low{i}" for i in range(15, 20)}  # those that ran least


def test_parts_of_what_is_there_cost_their_share() -> None:
    """The best value first, and of the last only as much as is needed."""
    gains, costs = np.array([2.0, 2.0, 4.0, 0.0]), np.array([10.0, 1.0, 8.0, 0.0])
    assert bound._cheapest(gains, costs, 2) == 1
    assert bound._cheapest(gains, costs, 4) == 1 + 8 / 2
    assert bound._cheapest(gains, costs, 7) == 1 + 8 + 5
