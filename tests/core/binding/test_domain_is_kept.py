"""A gang keeps to its domain from the decision to the last binding, or moves as a whole."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import Bind, Write
from gangsched.core.decision import group_key
from gangsched.core.events import Outcome
from gangsched.core.planning.context import KnownPlan
from gangsched.model.records import GangId
from tests.builders import OURS, SIGS, GangBuilder, NodeBuilder, PodBuilder, gang, node, pod
from tests.core.harness import Cluster, nodes_of, writes

G = GangId(SIGS, "d", "g", OURS)


def rack(name: str, *nodes: str) -> list[NodeBuilder]:
    """Nodes of one rack."""
    return [node(n).label(rack=name) for n in nodes]


def wants(minimum: int = 2, required: bool = True) -> GangBuilder:
    """The gang, asking for one rack."""
    return gang("g").min(minimum).field(topology=(("rack", required),))


def full(name: str, on: str, priority: int = 0) -> PodBuilder:
    """A pod that leaves no room for a member on its node."""
    return pod(name).cpu(3).priority(priority).on(on)


MEMBERS = [pod(f"g{i}").cpu(3).priority(5).gang("g") for i in range(2)]
RACKS = [*rack("a", "a1", "a2"), *rack("b", "b1", "b2")]


def evicting(*objects: PodBuilder, required: bool = True) -> Cluster:
    """A cluster in which the gang waits for its victims ``x`` and ``y`` in rack ``a``; rack ``b`` is worse."""
    cluster = Cluster(
        *RACKS, full("x", "a1"), full("y", "a2"), full("v", "b1", 1), full("w", "b2", 1), *objects,
        wants(required=required), *MEMBERS,
    )  # fmt: skip
    cluster.run()
    assert [p.name for p in cluster.pods.values() if p.deleting_since is not None] == ["x", "y"]
    return cluster


@pytest.mark.parametrize("required", [True, False])
def test_the_gang_goes_where_its_victims_left(required: bool) -> None:
    """A rack that has become free meanwhile is no reason to go elsewhere."""
    cluster = evicting(required=required)
    cluster.delete("v")
    cluster.delete("w")
    cluster.leave("x", "y")
    assert sorted(nodes_of(cluster.run()).values()) == ["a1", "a2"]


def test_a_plan_across_domains_is_kept_when_a_domain_turns_up() -> None:
    """Rather one domain than two, but the nominated nodes are promised: they come first."""
    cluster = Cluster(*RACKS, full("x", "a1"), full("v", "a2", 1), full("y", "b1"), full("w", "b2", 1),
                      wants(required=False), *MEMBERS)  # fmt: skip
    cluster.run()
    assert sorted(p.nominated_node for p in cluster.pods.values() if p.nominated_node) == ["a1", "b1"]
    cluster.delete("w")
    cluster.leave()
    assert sorted(nodes_of(cluster.run()).values()) == ["a1", "b1"]


def test_a_thief_in_the_domain_moves_the_whole_gang() -> None:
    """One node is taken by another scheduler: the gang never uses what is left of both racks."""
    cluster = evicting()
    cluster.delete("v")
    cluster.delete("w")
    cluster.show(pod("thief").cpu(3).priority(9).scheduler("other").on("a1"))
    cluster.leave("x", "y")
    cluster.pass_time(60.0)
    assert {cluster.pod(f"g{i}").node for i in range(2)} == {"b1", "b2"}


def test_a_node_that_leaves_the_domain_breaks_the_plan() -> None:
    """Its label changes while the victims are leaving: the gang is decided again, for one domain."""
    cluster = evicting()
    cluster.show(node("a2").label(rack="b"))
    cluster.run()
    cluster.leave()
    cluster.pass_time(60.0)
    cluster.leave()
    cluster.run()
    nodes = {cluster.pod(f"g{i}").node for i in range(2)}
    assert len(nodes) == 2
    assert nodes <= {"a2", "b1", "b2"}


def test_still_holds_asks_for_one_domain() -> None:
    """A plan holds as long as its nodes share the label, with bound members too."""
    cluster = evicting()
    group = cluster.core._run.groups[group_key((G,))]
    assert group.plan is not None

    def holds() -> bool:
        assert group.plan is not None
        decider, waits = cluster.core.decider, cluster.core.ledger.waits(group.key)
        return decider.still_holds(KnownPlan((G,), group.plan.placements, waits)).holds

    assert holds()
    world = cluster.core.world
    world.snapshot.set_node(node("a2").label(rack="b").obj())
    assert not holds()
    world.snapshot.set_node(node("a2").label(rack="a").obj())
    assert holds()
    world.set_pod(pod("other").cpu(0.5).gang("g").on("b1").obj())
    assert not holds()


def test_a_member_that_could_not_be_bound_follows_the_others() -> None:
    """One binding fails for good and its node fills up: the member waits for its domain, whatever room others have."""
    cluster = Cluster(*RACKS, full("w", "b1", 9), wants(), *MEMBERS)
    refused: list[str] = []

    def judge(action: Write) -> tuple[Outcome, str] | None:
        if isinstance(action, Bind) and action.pod.name == "g1" and not refused:
            refused.append(action.node)
            cluster.show(full("thief", action.node, 9))
            return Outcome.CONFLICT, "no"
        return None

    cluster.judge = judge
    cluster.run()
    cluster.pass_time(30.0)
    first = cluster.pod("g0").node
    assert (first[0], refused[0][0], cluster.pod("g1").node) == ("a", "a", "")
    cluster.delete("thief")
    cluster.pass_time(30.0)
    assert cluster.pod("g1").node == refused[0]


def test_a_restart_completes_the_gang_in_its_domain() -> None:
    """Half of the gang is bound, and nothing else is known: the other half joins it."""
    bound = msgspec.structs.replace(MEMBERS[0].obj(), node="b1", phase="Running")
    cluster = Cluster(*RACKS, wants(), bound, MEMBERS[1])
    actions = cluster.run()
    assert (nodes_of(actions), [kind for kind, _ in writes(actions)]) == ({"g1": "b2"}, ["Bind"])
