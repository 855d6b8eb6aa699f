"""Removals that wait for their turn while something changes."""

from __future__ import annotations

from typing import Any

from gangsched.core.actions import Remove
from tests.builders import gang, node, pod
from tests.core.harness import Cluster


def two_gangs(**options: Any) -> Cluster:
    """Gang g of two needs both nodes, on which gang low of two runs; their removals wait."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("low").min(2).priority(1),
        gang("g").min(2).timeout(60),
        *(pod(f"w{i}").cpu(3).priority(1).gang("low").on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
        **options,
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    return cluster


def whole_gang(**options: Any) -> Cluster:
    """The same; w1 has left, the removal of w2 waits."""
    cluster = two_gangs(**options)
    cluster.answer("w1")
    cluster.run()
    return cluster
