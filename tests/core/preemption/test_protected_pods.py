"""Pods that are never victims, where they are all that keeps a gang from fitting, are named."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE, Decision, Unschedulable
from gangsched.model.constraints import PodTerm
from gangsched.model.preemptible import MARKED, OF_DAEMONSET, STATIC
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, plan
from tests.core.stories import members

MARK = "scheduling.koordinator.sh/disable-preemptible"


def decided(*objects: Built, **options: Any) -> Decision:
    """The decision for gang d/g at time 1000."""
    return plan(*objects, now=1000.0, **options)["d/g"]


def agent(name: str, on: str, priority: int = 0) -> PodBuilder:
    """A pod of DaemonSet d/agent that asks for one core."""
    return pod(name).cpu(1).priority(priority).owner("DaemonSet", "agent").on(on)


def stays(decision: Decision) -> dict[str, str]:
    """Why units are spared, by name."""
    return {s.unit.name: s.reason for s in decision.spared}


def test_what_stands_in_the_way_is_named_once_everything_else_could_leave() -> None:
    """The DaemonSet in the message, since the names of its pods change; the pods and why they stay in the plan."""
    found = decided(
        node("n1"), node("n2"), pod("low").cpu(3).on("n1"),
        agent("agent-1", "n1"), agent("agent-2", "n2"), pod("proxy").cpu(1).static().on("n2"),
        *members(2, 4),
    )  # fmt: skip
    assert found.outcome == UNSCHEDULABLE
    assert found.message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: the gang would not fit even if the only"
        " lower-priority pod were evicted; it would fit without 2 pods of DaemonSet d/agent and static pod d/proxy,"
        " which are never evicted."
    )
    assert stays(found) == {
        "d/agent-1": OF_DAEMONSET,
        "d/agent-2": OF_DAEMONSET,
        "d/low": "evicting it would not make the gang fit",
        "d/proxy": STATIC,
    }
    assert isinstance(found, Unschedulable)
    assert found.blockers == ("d/m1", "d/m2")


def test_only_those_are_named_whose_room_is_needed() -> None:
    """Not one that takes no room, nor one beside which the member fits, nor those of another node."""
    nothing = pod("a-idle").owner("DaemonSet", "idle").on("n1")
    found = decided(
        node("n1"), node("n2").cpu(1), nothing, agent("agent-1", "n1"), agent("agent-2", "n2"), *members(1, 4)
    )
    assert stays(found) == {"d/agent-1": OF_DAEMONSET}
    assert "it would fit without 1 pod of DaemonSet d/agent, which is never evicted" in found.message


def test_members_that_fit_one_by_one_and_not_together() -> None:
    """Each node has room for one member; it is for the third that the pods stand in the way."""
    found = decided(node("n1"), node("n2"), agent("agent-1", "n1"), agent("agent-2", "n2"), *members(3))
    assert "it would fit without 1 pod of DaemonSet d/agent" in found.message


def test_a_gang_that_would_not_fit_without_them_either_hears_nothing_of_them() -> None:
    """They are not the reason."""
    found = decided(node("n1"), agent("agent-1", "n1"), *members(1, 5))
    assert "agent" not in found.message
    assert not found.spared


@pytest.mark.parametrize(("priority", "named"), [(0, True), (10, False)])
def test_a_mark_is_named_where_priority_would_allow_eviction(priority: int, named: bool) -> None:
    """A pod of the preemptor's own priority is no victim with or without a mark; a DaemonSet's is named anyway."""
    marked = pod("marked").cpu(1).priority(priority).label(**{MARK: "true"}).on("n1")
    found = decided(node("n1"), marked, *members(1, 4))
    assert stays(found) == ({"d/marked": MARKED} if named else {})
    assert ("it would fit without pod d/marked, which is never evicted" in found.message) == named
    assert stays(decided(node("n1"), agent("agent-1", "n1", priority), *members(1, 4))) == {"d/agent-1": OF_DAEMONSET}


def test_daemonset_pods_that_may_be_evicted_are_not_in_the_way() -> None:
    """With evictDaemonSetPods they are victims like others, unless a mark excludes them."""
    cluster: list[Built] = [node("n1"), *members(1, 4)]
    assert decided(*cluster, agent("agent-1", "n1"), evict_daemonset_pods=True).outcome == PREEMPT
    marked = agent("agent-1", "n1").label(**{MARK: "true"})
    assert stays(decided(*cluster, marked, evict_daemonset_pods=True)) == {"d/agent-1": MARKED}


def test_pods_of_the_gang_itself_are_not_in_its_way() -> None:
    """Its bound members stay, marked or not."""
    mine = pod("m0").cpu(3).priority(10).gang("g").label(**{MARK: "true"}).on("n1")
    pending = [pod(f"m{i}").cpu(2).priority(10).gang("g") for i in (1, 2)]
    found = decided(node("n1"), node("n2").cpu(2), gang("g").min(3), mine, *pending)
    assert found.outcome == UNSCHEDULABLE
    assert not found.spared


def test_one_that_keeps_members_off_from_elsewhere() -> None:
    """A DaemonSet pod whose anti-affinity reaches over a zone is named, though it runs on another node."""
    term = PodTerm("zone", selects(app="g"), ("d",))
    far = pod("far").owner("DaemonSet", "far").shape(anti_affinity=(term,)).on("n2")
    member = pod("g1").cpu(4).priority(10).gang("g").label(app="g")
    found = decided(node("n1").label(zone="a"), node("n2").cpu(1).label(zone="a"), far, gang("g").min(1), member)
    assert stays(found) == {"d/far": OF_DAEMONSET}


def test_of_many_three_are_named() -> None:
    """A message is read by people; the plan has the others."""
    running = [pod(f"p{i}").cpu(1).static().on("n1") for i in range(4)]
    found = decided(node("n1"), *running, agent("z1", "n2"), node("n2"), *members(2, 4))
    assert (
        "it would fit without 1 pod of DaemonSet d/agent, static pod d/p0, static pod d/p1 and 2 more, which are never"
        " evicted" in found.message
    )
    assert len(found.spared) == 5


def test_a_great_many_are_not_all_looked_for() -> None:
    """What is said of them is true: there may be more."""
    nodes = [node(f"n{i}").cpu(2) for i in range(120)]
    running = [agent(f"a{i:03}", f"n{i}") for i in range(120)]
    found = decided(*nodes, *running, *members(110))
    assert (
        "it would fit without pods that are never evicted, among them 100 pods of DaemonSet d/agent." in found.message
    )
    assert len(found.spared) == 100
