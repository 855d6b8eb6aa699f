"""Members beyond the minimum of a gang, and the gangs behind it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of, plan


def elastic(name: str, members: int, priority: int = 0, age: float = 0.0) -> list[Any]:
    """A gang that needs two, of so many members."""
    pods = [pod(f"{name}-{i}").cpu(1).priority(priority).gang(name) for i in range(members)]
    return [gang(name).min(2).created(age), *pods]


def placed(decisions: dict[str, Any], name: str) -> int:
    """How many members of a gang have a place."""
    return len(decisions[f"d/{name}"].placements)


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [(2, (2, 0, 0)), (4, (2, 2, 0)), (6, (2, 2, 2)), (7, (3, 2, 2)), (9, (4, 3, 2)), (20, (4, 3, 2))],
)
def test_every_gang_gets_its_minimum_before_one_gets_more(cpus: int, expected: tuple[int, int, int]) -> None:
    """Surplus is placed in the order of the queue, from what the minimums leave; there is one decision for each."""
    known = [node("n1").cpu(cpus), *elastic("a", 4, age=1), *elastic("b", 3, age=2), *elastic("c", 2, age=3)]
    made = plan(*known)
    assert tuple(placed(made, name) for name in "abc") == expected
    assert list(made) == ["d/a", "d/b", "d/c"]
    assert made["d/a"].message == f"{expected[0]} members can start now"
    assert len(made["d/a"].unplaced) == 4 - expected[0]
    cluster = Cluster(*known)
    cluster.run()
    bound = nodes_of(cluster.log)
    assert tuple(sum(name.startswith(f"{g}-") for name in bound) for g in "abc") == expected


def test_with_another_setting_surplus_comes_with_the_minimum() -> None:
    """And a gang of higher priority never waits for one of a lower."""
    known = [node("n1").cpu(4), *elastic("a", 4, age=1), *elastic("b", 2, age=2)]
    made = plan(*known, surplus_after=False)
    assert (placed(made, "a"), placed(made, "b")) == (4, 0)
    made = plan(node("n1").cpu(4), *elastic("a", 4, priority=1), *elastic("b", 2))
    assert (placed(made, "a"), placed(made, "b")) == (4, 0)


def test_a_gang_that_has_its_minimum_waits_behind_those_that_have_not() -> None:
    """It is older, and its pods are; members that make up its minimum again are no surplus."""
    running = [pod(f"a-{i}").cpu(1).gang("a").on("n1") for i in range(2)]
    more = [pod(f"a-{i}").cpu(1).gang("a") for i in (2, 3)]
    known = [node("n1").cpu(4), gang("a").min(2).created(1), *elastic("b", 2, age=9)]
    made = plan(*known, *running, *more)
    assert (placed(made, "a"), placed(made, "b")) == (0, 2)
    made = plan(*known, running[0], *more)
    assert (placed(made, "a"), placed(made, "b")) == (1, 2)
