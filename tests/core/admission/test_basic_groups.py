"""Groups of the upstream API without a gang: each member starts by itself, as if it were in none."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from gangsched.core.lifecycle.group_statuses import GroupStatuses
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, plan

FAMILY = "scheduling.k8s.io"


def basic(name):
    """A group with the basic policy."""
    return gang(name).family(FAMILY).min(1).field(match_policy="only-waiting", disruption="pod")


BASIC = basic("g")


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


def steps(monkeypatch, grouped):
    """How many instructions of the interpreter the core takes to bind pods that fit, statuses of groups aside."""
    count, pods = 0, [pod(f"m{i}").cpu(1) for i in range(40)]
    groups = [basic(f"g{i}") for i in range(40)] if grouped else []
    for i, _ in enumerate(groups):
        pods[i].gang(f"g{i}", FAMILY)

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = "gangsched/core" in frame.f_code.co_filename
        count += event == "opcode"
        return traced

    monkeypatch.setattr(GroupStatuses, "update", lambda *_: None)
    before = sys.gettrace()
    sys.settrace(traced)
    try:
        cluster = Cluster(*(node(f"n{i}").cpu(10) for i in range(4)), *groups, *pods)
        cluster.run()
    finally:
        sys.settrace(before)
    assert all(each.node for each in cluster.pods.values())
    return count


def test_a_group_for_each_pod_costs_next_to_nothing(monkeypatch):
    """Newer clusters make one for nearly every pod: the core takes hardly more steps than without."""
    assert steps(monkeypatch, grouped=True) < 1.02 * steps(monkeypatch, grouped=False)
