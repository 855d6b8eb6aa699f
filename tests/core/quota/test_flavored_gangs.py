"""Gangs whose flavor tolerates what they do not: it goes for every question about their nodes, not only the first."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, WithdrawNomination
from gangsched.model.constraints import Toleration
from gangsched.model.queues import ResourceFlavor
from tests.builders import NodeBuilder, node, pod
from tests.core.harness import Built, Cluster, nodes_of, reserved
from tests.core.queues import objects, queued
from tests.core.quota.world import flavor, group, queue

SPOT = ResourceFlavor("spot", {"kind": "spot"}, (), (Toleration("spot", "Exists"),))


def spot(name: str, cpu: float = 4) -> NodeBuilder:
    """A node that only those of the flavor ``spot`` tolerate."""
    return node(name).cpu(cpu).label(kind="spot").taint("spot")


def steady(name: str, cpu: float = 4) -> NodeBuilder:
    """A node of no flavor."""
    return node(name).cpu(cpu).label(kind="steady")


def quota() -> list[Built]:
    """Queue ``a`` with quota on spot nodes."""
    return objects(queue("a", "", group(flavor("spot", cpu=16)), within="LowerPriority"), SPOT)


def preempting(*kinds: type[object]) -> Cluster:
    """A gang of the queue evicts one of two pods on spot nodes; writes of these kinds are slow."""
    old = [queued(f"old{i}", "a", 4, priority=i).on(f"n{i}") for i in (1, 2)]
    cluster = Cluster(spot("n1"), spot("n2"), *quota(), *old)
    cluster.run()
    cluster.slow = lambda write: isinstance(write, kinds)
    cluster.show(queued("new", "a", 4, priority=5))
    cluster.run()
    return cluster


def test_a_plan_stands_when_its_node_changes() -> None:
    """What the flavor tolerates is tolerated when the node is looked at again."""
    cluster = preempting(Remove)
    cluster.show(spot("n1").label(more="labels"))
    cluster.run()
    assert not [a for a in cluster.log if isinstance(a, WithdrawNomination)]
    cluster.answer()
    cluster.leave()
    assert nodes_of(cluster.run()) == {"new": "n1"}


def test_a_plan_falls_when_its_node_leaves_the_flavor() -> None:
    """The labels of the flavor are as good as a node selector."""
    cluster = preempting(Mark)
    cluster.show(node("n1").cpu(4).label(kind="other").taint("spot"))
    cluster.answer()
    cluster.run()
    assert [a.node for a in cluster.log if isinstance(a, Nominate)][-1] == "n2"


def test_the_next_process_removes_those_that_were_marked() -> None:
    """And no others, though by now somebody of lower priority could leave instead."""
    cluster = preempting(Remove)
    cluster.show(spot("n0"), queued("newcomer", "a", 4, priority=-1).scheduler("other").on("n0"))
    cluster.restart()
    before = len(cluster.log)
    cluster.slow = lambda _: False
    cluster.run()
    assert [a.pod.name for a in cluster.log[before:] if isinstance(a, Remove)] == ["old1"]
    assert not [a for a in cluster.log[before:] if isinstance(a, WithdrawNomination)]


@pytest.mark.parametrize(("at", "expected"), [("n1", {}), ("n2", {"small": "n2"})], ids=["its own", "another"])
def test_strict_order_keeps_the_nodes_of_the_flavors(at: str, expected: dict[str, str]) -> None:
    """A gang that does not fit keeps what its queue may give it from those behind it, and nothing else."""
    big = [queued(f"g{i}", "a", 4, priority=5).light_gang("g", 2) for i in (1, 2)]
    cluster = Cluster(spot("n1"), steady("n2"), *quota(), *big, queue_policy="strict")
    cluster.run()
    cluster.show(pod("small").cpu(1).selector(kind="spot" if at == "n1" else "steady").tolerates("spot", "Exists"))
    assert nodes_of(cluster.run()) == expected


def test_room_is_reserved_on_nodes_of_the_flavors() -> None:
    """A starving gang gets the room of those that end by themselves where its flavor lets it run."""
    running = [pod(f"old-{name}").cpu(4).on(name).tolerates("spot", "Exists") for name in ("n1", "n2")]
    cluster = Cluster(spot("n1"), steady("n2"), *quota(), *running, queued("g", "a", 4), starvation_seconds=10.0)
    cluster.run()
    cluster.pass_time(20)
    assert [place.node for pods in reserved(cluster).values() for place in pods] == ["n1"]
