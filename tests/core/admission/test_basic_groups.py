"""Groups of the upstream API without a gang: each member starts by itself, as if it were in none."""

from __future__ import annotations

import pytest

from tests.builders import gang, node, pod
from tests.core.harness import Cluster, plan

FAMILY = "scheduling.k8s.io"
BASIC = gang("g").family(FAMILY).min(1).field(match_policy="only-waiting", disruption="pod")


def member(name, on=""):
    """One of its pods."""
    made = pod(name).cpu(1).priority(10).gang("g", FAMILY)
    return made.on(on) if on else made


@pytest.mark.parametrize("runs", [0, 1, 2])
def test_each_member_may_evict(runs):
    """However many of them run already."""
    bound = [member(f"a{i}", on="n") for i in range(runs)]
    low = pod("low").cpu(1).priority(0).on("n")
    found = plan(node("n").cpu(runs + 1), BASIC, *bound, low, member("z"))["d/g"]
    assert (found.outcome, [victim.name for victim in found.victims]) == ("preempt", ["low"])


def test_all_of_them_start_one_after_another():
    """Each as soon as its victim is gone."""
    lows = [pod(f"low{i}").cpu(1).priority(0).on("n") for i in range(3)]
    cluster = Cluster(node("n").cpu(3), BASIC, *lows, *(member(f"m{i}") for i in range(3)))
    for _ in range(3):
        cluster.run()
        cluster.leave()
        cluster.pass_time(1)
    cluster.run()
    assert [cluster.pod(f"m{i}").node for i in range(3)] == ["n"] * 3


@pytest.mark.parametrize("rollback", [False, True])
def test_a_member_that_does_not_fit_is_no_reason_to_remove_another(rollback):
    """A group of which some members run is not bound in part."""
    cluster = Cluster(node("n").cpu(1), BASIC, member("a"), member("b"), rollback=rollback)
    cluster.run()
    cluster.pass_time(600)
    cluster.run()
    assert cluster.pod("a").node == "n"
    assert cluster.pod("a").deleting_since is None
    assert "bound in part" not in str(cluster.log)
