"""Scores against values worked out by hand from kube-scheduler's formulas."""

from __future__ import annotations

import numpy as np
import pytest

from gangsched.core.framework.pipeline import Ranking, pipeline_of
from gangsched.core.framework.registry import PluginSet
from gangsched.core.options import Options
from gangsched.core.plugins.base import Score, normalised
from gangsched.core.plugins.node import NodeAffinityScore, TaintTolerationScore
from gangsched.core.plugins.resources import NodeResourcesBalancedAllocation, NodeResourcesFitScore
from gangsched.core.state.simulation import Simulation
from gangsched.model.constraints import NodeTerm, Requirement
from tests.builders import OURS, PodBuilder, node, pod
from tests.core.harness import Built, world


def simulated(*objects: Built) -> Simulation:
    """A simulation of these objects."""
    return Simulation(world(*objects).world.snapshot)


def scored(score: Score, sim: Simulation, wanted: PodBuilder) -> list[float]:
    """The scores of all nodes; asserts that one node alone is scored the same."""
    pod_class = sim.snapshot.class_of(wanted.obj())
    state = score.prepare(pod_class, sim, np.ones(sim.snapshot.size, dtype=np.bool_))
    values = [float(v) for v in score.values(state)]
    assert [score.value(state, row) for row in range(len(values))] == values
    return values


@pytest.mark.parametrize(
    ("strategy", "wanted", "expected"),
    [
        # n1: cpu (4-1-1)/4 = 50, memory (16-4-4)/16 = 50; n2: cpu 3/4 = 75, memory 12/16 = 75
        ("LeastAllocated", pod("p").cpu(1).memory(4), [50, 75]),
        # n1: cpu (4000-3500)*100/4000 = 12, memory (12Gi-200Mi)*100/16Gi = 73 -> 42; n2: 37, 98 -> 67
        ("LeastAllocated", pod("p").cpu(2.5), [42, 67]),
        # asks for nothing: counted as 100m and 200Mi; n1: cpu 72, memory 73 -> 72; n2: 97, 98 -> 97
        ("LeastAllocated", pod("p"), [72, 97]),
        # more than the node has: 0 for that resource; n1: (0 + 73)/2; n2: (0 + 98)/2
        ("LeastAllocated", pod("p").cpu(5), [36, 49]),
        ("MostAllocated", pod("p").cpu(1).memory(4), [50, 25]),
        ("MostAllocated", pod("p").cpu(3).memory(12), [100, 75]),
    ],
)
def test_node_resources_fit(strategy: str, wanted: PodBuilder, expected: list[float]) -> None:
    """Free (or used) share of cpu and memory after the pod, each cut to whole points, then averaged and cut."""
    sim = simulated(node("n1"), node("n2"), pod("a").cpu(1).memory(4).on("n1"))
    assert scored(NodeResourcesFitScore(strategy), sim, wanted) == expected


def test_most_allocated_counts_what_is_beyond_the_node_as_full() -> None:
    """Pods without requests are counted with defaults, which may be more than is left: that is full, not empty."""
    sim = simulated(node("n1").cpu(1).memory(16), *(pod(f"a{i}").on("n1") for i in range(11)))
    # cpu: 12 x 100m of 1000m -> 100; memory: 12 x 200Mi of 16Gi -> 14; average 57
    assert scored(NodeResourcesFitScore("MostAllocated"), sim, pod("p")) == [57]


def test_a_resource_that_a_node_does_not_have_is_not_averaged() -> None:
    """A node that lists no memory is scored by its cpu alone."""
    sim = simulated(node("n1").room(memory=0))
    assert scored(NodeResourcesFitScore(), sim, pod("p").cpu(1)) == [75]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        # n1 has cpu 50%, memory 0%: evenness 75. Alike before and after is the neutral 75.
        # n1: after 75%/25% -> 75; n2: after 25%/25% -> 100, before 100
        (pod("p").cpu(1).memory(4), [75, 75]),
        # n1: after 50%/50% -> 100, 50 + (50 + 25)/2 = 87; n2: after 0%/50% -> 75, 50 + (50 - 25)/2 = 62
        (pod("p").memory(8), [87, 62]),
        # n1: after 100%/0% -> 50, 50 + (50 - 25)/2 = 62; n2: after 50%/0% -> 75 -> 62
        (pod("p").cpu(2), [62, 62]),
    ],
)
def test_balanced_allocation(wanted: PodBuilder, expected: list[float]) -> None:
    """Half of 100 plus half of (50 + evenness with the pod - evenness without it), in whole points."""
    sim = simulated(node("n1"), node("n2"), pod("a").cpu(2).on("n1"))
    assert scored(NodeResourcesBalancedAllocation(), sim, wanted) == expected


def test_balanced_allocation_has_nothing_to_say_about_best_effort_pods() -> None:
    """Pods without requests change no balance: the score is skipped."""
    sim = simulated(node("n1"))
    assert not NodeResourcesBalancedAllocation().applies(sim.snapshot.class_of(pod("p").obj()), sim)
    assert NodeResourcesBalancedAllocation().applies(sim.snapshot.class_of(pod("p").memory(1).obj()), sim)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod("p"), [100, 50, 0]),
        (pod("p").tolerates("a", "Exists"), [100, 100, 0]),
        (pod("p").tolerates(operator="Exists", effect="PreferNoSchedule"), [100, 100, 100]),
        (pod("p").tolerates("b", "Exists", effect="NoSchedule"), [100, 50, 0]),
    ],
)
def test_soft_taints(wanted: PodBuilder, expected: list[float]) -> None:
    """The fewer untolerated soft taints the better, scaled to the worst node."""
    soft = "PreferNoSchedule"
    sim = simulated(node("n1").taint("hard"), node("n2").taint("a", effect=soft),
                    node("n3").taint("a", effect=soft).taint("b", effect=soft))  # fmt: skip
    assert scored(TaintTolerationScore(), sim, wanted) == expected


def test_preferred_node_affinity() -> None:
    """Weights of matching terms add up and are scaled to the best node."""

    def zone(value: str) -> NodeTerm:
        return NodeTerm((Requirement("zone", "In", (value,)),))

    sim = simulated(node("n1").label(zone="a"), node("n2").label(zone="b"), node("n3"))
    either = NodeTerm((Requirement("zone", "Exists"),))
    wanted = pod("p").prefers(10, zone("a")).prefers(5, either).prefers(50, NodeTerm())
    assert scored(NodeAffinityScore(), sim, wanted) == [100, 33, 0]


@pytest.mark.parametrize(
    ("raw", "feasible", "reverse", "expected"),
    [
        ([0, 3, 6], [True, True, True], False, [0, 50, 100]),
        ([0, 3, 6], [True, True, True], True, [100, 50, 0]),
        ([1, 3, 6], [True, True, False], False, [33, 100, 200]),
        ([0, 0], [True, True], False, [0, 0]),
        ([0, 0], [True, True], True, [100, 100]),
        ([5, 5], [False, False], False, [0, 0]),
    ],
)
def test_normalised(raw: list[float], feasible: list[bool], reverse: bool, expected: list[float]) -> None:
    """Scaled to the largest feasible value; without one everything is worst, or best when reversed."""
    out = normalised(np.array(raw, dtype=np.float64), np.array(feasible), reverse)
    assert out.tolist() == expected


def test_the_first_by_name_wins_among_equals() -> None:
    """No chance is involved: ties go to the first node by name, unlike upstream, where they are drawn."""
    sim = simulated(node("n2"), node("n1"), node("n3").cpu(2))
    wanted = sim.snapshot.class_of(pod("p").cpu(1).obj())
    sim.snapshot.shape_number(wanted.shape)
    ranking = Ranking(pipeline_of(), wanted, sim)
    assert ranking.best() == 0
    assert [row for _, row in ranking.leaders(2)] == [0, 1]


def test_weights_of_zero_turn_a_score_off() -> None:
    """Configured weights are used; what has none does not count."""
    sim = simulated(node("n1").taint("a", effect="PreferNoSchedule"), node("n2").cpu(3))
    wanted = sim.snapshot.class_of(pod("p").cpu(1).obj())
    sim.snapshot.shape_number(wanted.shape)
    assert Ranking(pipeline_of(), wanted, sim).best() == 1
    only_fit = Options(profiles=((OURS, PluginSet(scores=(("NodeResourcesFit", 1.0),))),))
    assert Ranking(pipeline_of(only_fit.plugins_of(only_fit.scheduler_names[0])), wanted, sim).best() == 0


def test_no_node_is_best_where_none_passes() -> None:
    """Where the filters refuse every node there is no best node."""
    sim = simulated(node("n1").cordoned())
    wanted = sim.snapshot.class_of(pod("p").obj())
    assert Ranking(pipeline_of(), wanted, sim).best() == -1
