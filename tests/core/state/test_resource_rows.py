"""Names of resources are users' to choose: what they cost is bounded, and given back."""

from __future__ import annotations

import pytest

from gangsched.core.state import snapshot
from gangsched.core.state.snapshot import OTHERS, UNOFFERED_AT_MOST
from gangsched.core.world import world
from tests.builders import node, pod
from tests.core.harness import Cluster


def names(number: int, first: int = 0) -> dict[str, int]:
    """One of each of so many resources that no node has."""
    return {f"example.com/r{i}": 1 for i in range(first, first + number)}


def test_names_that_no_node_offers_have_so_many_rows_at_most() -> None:
    """All beyond share one; such a pod waits, and says so; others are bound, also by what their node offers later."""
    greedy = [pod(f"p{i}").requests(**names(200, 200 * i)) for i in range(10)]
    cluster = Cluster(node("n0").cpu(8), *greedy, pod("honest").cpu(1))
    cluster.run()
    rows = cluster.core.world.snapshot.resources
    assert len(rows) <= 4 + UNOFFERED_AT_MOST + 1
    assert OTHERS in rows
    assert cluster.pod("honest").node == "n0"
    assert not any(cluster.pod(f"p{i}").node for i in range(10))
    cluster.show(node("n1").cpu(8).room(**{"example.com/new": 2}), pod("gpu").requests(**{"example.com/new": 1}))
    cluster.run()
    assert cluster.pod("gpu").node == "n1"
    assert len(cluster.core.world.snapshot.resources) == len(rows)


def test_rows_are_given_back_when_nobody_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """When shapes are forgotten so are the names that only they had; what is counted stays right."""
    monkeypatch.setattr(world, "_SPARE_SHAPES", 4)
    cluster = Cluster(node("n0").cpu(8).gpu(4), pod("runs").cpu(3).gpu(1).on("n0"))
    for i in range(30):
        cluster.show(pod(f"p{i}").requests(**names(20, 20 * i)))
        cluster.run()
        cluster.delete(f"p{i}")
        cluster.run()
    cluster.show(pod("more").cpu(5).gpu(3).priority(5), pod("last").cpu(1))
    cluster.run()
    known = cluster.core.world.snapshot
    assert len(known.resources) < 200
    assert known.allocatable.shape == known.used.shape == (len(known.resources), 1)
    assert (cluster.pod("more").node, cluster.pod("last").node) == ("n0", "")
    assert known.used[known.resource_row["nvidia.com/gpu"], 0] == 4


def test_the_bound_is_large_enough_for_what_is_in_use() -> None:
    """Vendors have some names each; a cluster whose nodes offer more has a row for each of those."""
    assert snapshot.UNOFFERED_AT_MOST >= 2 * 250
    many = node("n0").cpu(1).room(**{f"example.com/o{i}": 5 for i in range(600)})
    cluster = Cluster(many, pod("a").requests(**{"example.com/o599": 5}))
    cluster.run()
    assert cluster.pod("a").node == "n0"
