"""Scores of configured resources and shapes against kube-scheduler's formulas, worked out in whole numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.plugins.base import Score
from gangsched.core.plugins.resources import NodeResourcesBalancedAllocation, NodeResourcesFitScore
from gangsched.core.state.simulation import Simulation
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.core.harness import world

CPU_GPU = (("cpu", 1), ("nvidia.com/gpu", 3))
FILL = ((0, 0), (100, 10))


def scored(score: Score, wanted: PodBuilder, *objects: NodeBuilder | PodBuilder) -> list[float]:
    """The scores of all nodes; asserts that one node alone is scored the same."""
    sim = Simulation(world(*objects).world.snapshot)
    state = score.prepare(sim.snapshot.class_of(wanted.obj()), sim, np.ones(sim.snapshot.size, dtype=np.bool_))
    values = [float(value) for value in score.values(state)]
    assert [score.value(state, row) for row in range(len(values))] == values
    return values


def test_extended_resources_count_for_pods_that_ask_for_them() -> None:
    """Cpu (4000 - 1000) / 4000 = 75 once, GPUs (4 - 1) / 4 = 75 thrice; without GPUs cpu alone: (4 - 2) / 4."""
    score = NodeResourcesFitScore("LeastAllocated", CPU_GPU)
    assert scored(score, pod("a").cpu(1).gpu(2), node("n0").cpu(4).gpu(8)) == [75.0]
    assert scored(score, pod("a").cpu(1).gpu(1), node("n0").cpu(4).gpu(2)) == [(75 + 3 * 50) // 4]
    assert scored(score, pod("a").cpu(2), node("n0").cpu(4).gpu(2)) == [50.0]


def test_nodes_without_a_resource_are_ranked_by_the_others() -> None:
    """A resource that a node has not, or that nobody has, is left out of its mean."""
    score = NodeResourcesFitScore("MostAllocated", (*CPU_GPU, ("example.com/nowhere", 5)))
    assert scored(score, pod("a").cpu(1).gpu(1), node("n0").cpu(4), node("n1").cpu(4).gpu(2)) == [25.0, 43.0]


def test_what_is_there_counts() -> None:
    """Pods on the node take of what is ranked: cpu (1 + 1) / 4, GPUs (3 + 1) / 8, both 50."""
    score = NodeResourcesFitScore("MostAllocated", CPU_GPU)
    assert scored(score, pod("a").cpu(1).gpu(1), node("n0").cpu(4).gpu(8), pod("b").cpu(1).gpu(3).on("n0")) == [50.0]


@pytest.mark.parametrize(
    ("shape", "percent_used", "expected"),
    [
        (FILL, 25, 25),
        (FILL, 100, 100),
        (((0, 10), (100, 0)), 25, 75),
        (((20, 2), (80, 8)), 10, 20),
        (((20, 2), (80, 8)), 50, 50),
        (((20, 2), (80, 8)), 90, 80),
        (((0, 10), (30, 0)), 10, 67),  # 100 - 1000/30 = 100 - 33, cut towards zero
        (((50, 5),), 10, 50),
    ],
)
def test_shapes(shape: tuple[tuple[int, int], ...], percent_used: int, expected: int) -> None:
    """Straight between the points, level beyond them, in whole numbers that are cut towards zero."""
    score = NodeResourcesFitScore("RequestedToCapacityRatio", (("cpu", 1),), shape)
    assert scored(score, pod("a").cpu(percent_used / 10), node("n0").cpu(10)) == [float(expected)]


def test_a_resource_that_scores_nothing_has_no_weight() -> None:
    """With RequestedToCapacityRatio a score of 0 is not counted: the mean is that of the others."""
    score = NodeResourcesFitScore("RequestedToCapacityRatio", (("cpu", 1), ("memory", 1)), ((50, 0), (100, 10)))
    assert scored(score, pod("a").cpu(3).memory(1), node("n0").cpu(4).memory(16)) == [50.0]
    assert scored(score, pod("a").cpu(1).memory(1), node("n0").cpu(4).memory(16)) == [0.0]


def test_more_than_there_is_counts_as_full() -> None:
    """A pod that does not fit any more is scored at the end of the shape."""
    score = NodeResourcesFitScore("RequestedToCapacityRatio", (("cpu", 1),), FILL)
    assert scored(score, pod("a").cpu(3), node("n0").cpu(4), pod("b").cpu(3).on("n0")) == [100.0]


@given(
    rooms=st.lists(st.integers(1, 40), min_size=2, max_size=2),
    asked=st.lists(st.integers(1, 60), min_size=2, max_size=2),
    weights=st.lists(st.integers(1, 100), min_size=2, max_size=2),
    points=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda p: p[0]
    ),
)
def test_shapes_are_those_of_whole_numbers(
    rooms: list[int], asked: list[int], weights: list[int], points: list[tuple[int, int]]
) -> None:
    """For any shape, room and request the score is what exact arithmetic gives."""
    shape = sorted(points)
    total = weight = 0
    for room, want, each in zip(rooms, asked, weights, strict=True):
        percent = 100 if want > room else want * 100 // room
        score = _at(shape, percent)
        if score > 0:
            total += score * each
            weight += each
    expected = int(Fraction(total, weight) + Fraction(1, 2)) if weight else 0
    resources = (("cpu", weights[0]), ("nvidia.com/gpu", weights[1]))
    built = NodeResourcesFitScore("RequestedToCapacityRatio", resources, shape)
    wanted = pod("a").cpu(asked[0]).gpu(asked[1])
    assert scored(built, wanted, node("n0").cpu(rooms[0]).gpu(rooms[1])) == [float(expected)]


def _at(shape: list[tuple[int, int]], percent: int) -> int:
    """The broken line through the points, ten times as high, in exact fractions cut towards zero."""
    if percent <= shape[0][0]:
        return shape[0][1] * 10
    for (x0, y0), (x1, y1) in pairwise(shape):
        if percent <= x1:
            return y0 * 10 + int(Fraction((y1 - y0) * 10 * (percent - x0), x1 - x0))
    return shape[-1][1] * 10


def test_balance_of_three_resources() -> None:
    """Fractions 1/4, 1/2, 3/4 deviate by 0.2041 after the pod and by nothing before: 50 + (50 + 79 - 100) / 2 = 64."""
    score = NodeResourcesBalancedAllocation(("cpu", "memory", "nvidia.com/gpu"))
    wanted = pod("a").cpu(1).memory(8).gpu(3)
    assert scored(score, wanted, node("n0").cpu(4).memory(16).gpu(4)) == [64.0]


def test_balance_leaves_out_what_is_not_asked_for() -> None:
    """A pod without GPUs is scored by cpu and memory, as by default."""
    three = NodeResourcesBalancedAllocation(("cpu", "memory", "nvidia.com/gpu"))
    nodes = [node("n0").cpu(4).memory(16).gpu(4), node("n1").cpu(4).memory(4)]
    wanted = pod("a").cpu(1).memory(2)
    assert scored(three, wanted, *nodes) == scored(NodeResourcesBalancedAllocation(), wanted, *nodes)
