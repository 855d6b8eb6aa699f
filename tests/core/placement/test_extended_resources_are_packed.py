"""Pods that ask for an extended resource are packed on it, and others are spread, unless a profile says otherwise."""

from __future__ import annotations

import pytest

from gangsched.core.framework.arguments import NodeResourcesFitArgs, ScoringStrategy
from gangsched.core.plugins.resources import NodeResourcesFitScore
from tests.builders import gang, node, pod
from tests.core.harness import placed, plan


def test_the_tightest_fit_comes_first() -> None:
    """Of nodes with room for it the one with the least left, so that whole nodes stay free for those that need them."""
    nodes = [node(f"n{i}").cpu(64).gpu(8) for i in range(3)]
    running = [pod("r0").cpu(1).gpu(2).on("n0"), pod("r1").cpu(1).gpu(5).on("n1")]
    for asked, expected in ((1, "n1"), (3, "n1"), (4, "n0"), (7, "n2")):
        made = plan(*nodes, *running, pod("new").cpu(1).gpu(asked))
        assert placed(made["d/new"]) == {"new": expected}


def test_a_gang_of_small_members_leaves_whole_nodes_free() -> None:
    """Eight members of two GPUs fill two nodes of four, and a gang that wants the others whole starts too."""
    nodes = [node(f"n{i}").cpu(64).gpu(8) for i in range(4)]
    small = [pod(f"s{i}").cpu(1).gpu(2).gang("small") for i in range(8)]
    large = [pod(f"l{i}").cpu(1).gpu(8).gang("large") for i in range(2)]
    made = plan(*nodes, gang("small").min(8).created(1), gang("large").min(2).created(2), *small, *large)
    assert len(set(placed(made["d/small"]).values())) == 2
    assert made["d/large"].outcome == "bind"


def test_pods_without_stay_as_with_kube_scheduler() -> None:
    """The emptier node is better for them, GPUs or not."""
    nodes = [node(f"n{i}").cpu(8).gpu(8) for i in range(2)]
    made = plan(*nodes, pod("r").cpu(4).gpu(8).on("n0"), pod("p").cpu(1))
    assert placed(made["d/p"]) == {"p": "n1"}


@pytest.mark.parametrize("given", [NodeResourcesFitArgs(), None])
def test_a_setting_restores_the_default_of_kube_scheduler(given: NodeResourcesFitArgs | None) -> None:
    """A strategy that is named holds for all pods."""
    arguments = given or NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="LeastAllocated"))
    score = NodeResourcesFitScore(arguments.scoring_strategy.type, arguments.weights, arguments.shape)
    assert score.packs_extended == (given is not None)
