"""Every built-in filter about nodes, ports and resources: which nodes pass, what is said about the others."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.decision import UNSCHEDULABLE
from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.plugins.base import Filter
from gangsched.core.plugins.node import (
    NodeAffinity,
    NodeAffinityNames,
    NodeDeclaredFeatures,
    NodeGoing,
    NodeName,
    NodePorts,
    NodeResourcesFit,
    NodeUnschedulable,
    TaintToleration,
    clash,
    tolerates,
)
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Phantom, Simulation
from gangsched.model.constraints import HostPort, NodeTerm, Requirement, Taint, Toleration
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.core.harness import Built, plan, world


def simulated(*objects: Built, held: tuple[Phantom, ...] = ()) -> Simulation:
    """A simulation of these objects."""
    return Simulation(world(*objects).world.snapshot, held)


def class_of(sim: Simulation, builder: PodBuilder) -> PodClass:
    """The class of a pod that is not in the cluster."""
    sim.snapshot.shape_number(builder.obj().shape)
    return sim.snapshot.class_of(builder.obj())


def passing(rule: Filter, sim: Simulation, builder: PodBuilder) -> list[str]:
    """Names of the nodes that pass one filter; all of them when it does not apply."""
    wanted = class_of(sim, builder)
    names = [n.name for n in sim.snapshot.nodes]
    if not rule.applies(wanted, sim):
        return names
    return [n for n, ok in zip(names, rule.mask(rule.prepare(wanted, sim)), strict=True) if ok]


def a_term(key: str, operator: str, *values: str) -> NodeTerm:
    """A node selector term with one label requirement."""
    return NodeTerm((Requirement(key, operator, values),))


def called(*names: str) -> NodeTerm:
    """A node selector term that names nodes."""
    return NodeTerm((), (Requirement("metadata.name", "In", names),))


NODES: list[NodeBuilder] = [
    node("n1").label(zone="a"),
    node("n2").label(zone="b").taint("dedicated", "ml"),
    node("n3").label(zone="b", disk="ssd").cordoned(),
    node("n4").taint("soft", effect="PreferNoSchedule"),
    node("n5").taint("down", effect="NoExecute"),
    node("n6").deleting(),
]
ALL = ["n1", "n2", "n3", "n4", "n5", "n6"]


@pytest.mark.parametrize(
    ("rule", "wanted", "expected"),
    [
        (NodeUnschedulable(), pod("p"), ["n1", "n2", "n4", "n5", "n6"]),
        (NodeUnschedulable(), pod("p").tolerates("node.kubernetes.io/unschedulable", "Exists"), ALL),
        (NodeUnschedulable(), pod("p").tolerates(operator="Exists"), ALL),
        (NodeGoing(), pod("p"), ["n1", "n2", "n3", "n4", "n5"]),
        (NodeName(), pod("p"), ALL),
        (NodeName(), pod("p").shape(node_name="n2"), ["n2"]),
        (NodeName(), pod("p").shape(node_name="gone"), []),
        (TaintToleration(), pod("p"), ["n1", "n3", "n4", "n6"]),
        (TaintToleration(), pod("p").tolerates("dedicated", value="ml"), ["n1", "n2", "n3", "n4", "n6"]),
        (TaintToleration(), pod("p").tolerates("dedicated", value="web"), ["n1", "n3", "n4", "n6"]),
        (TaintToleration(), pod("p").tolerates(operator="Exists", effect="NoExecute"), ["n1", "n3", "n4", "n5", "n6"]),
        (TaintToleration(), pod("p").tolerates(operator="Exists"), ALL),
        (NodeAffinity(), pod("p"), ALL),
        (NodeAffinity(), pod("p").selector(zone="b"), ["n2", "n3"]),
        (NodeAffinity(), pod("p").selector(zone="b", disk="ssd"), ["n3"]),
        (NodeAffinity(), pod("p").requires(a_term("zone", "In", "a"), a_term("disk", "Exists")), ["n1", "n3"]),
        (NodeAffinity(), pod("p").selector(zone="b").requires(a_term("zone", "In", "a")), []),
        (NodeAffinity(), pod("p").requires(), []),
        (NodeAffinity(), pod("p").requires(NodeTerm()), []),
        (NodeAffinity(), pod("p").requires(NodeTerm((), (Requirement("metadata.name", "In", ("n4",)),))), ["n4"]),
        (NodeAffinityNames(), pod("p"), ALL),
        (NodeAffinityNames(), pod("p").requires(called("n4")), ["n4"]),
        (NodeAffinityNames(), pod("p").requires(called("n4"), called("n1", "n9")), ["n1", "n4"]),
        (NodeAffinityNames(), pod("p").requires(called("n4"), a_term("zone", "In", "a")), ALL),
    ],
)
def test_filters_about_nodes(rule: Filter, wanted: PodBuilder, expected: list[str]) -> None:
    """Cordons, names, taints, selectors and affinity, as kube-scheduler decides them."""
    assert passing(rule, simulated(*NODES), wanted) == expected


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("k", "Equal", "v"), Taint("k", "v"), True),
        (Toleration("k", "Equal", "v"), Taint("k", "w"), False),
        (Toleration("k", "Equal", "v", "NoExecute"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("k", "Exists"), Taint("k", "any", "NoExecute"), True),
        (Toleration("j", "Exists"), Taint("k"), False),
        (Toleration("", "Exists"), Taint("k", "v", "NoExecute"), True),
        (Toleration("", "Equal", ""), Taint("k", ""), False),
        (Toleration("k", "Gt", "5"), Taint("k", "6"), True),
        (Toleration("k", "Gt", "5"), Taint("k", "5"), False),
        (Toleration("k", "Lt", "5"), Taint("k", "4"), True),
        (Toleration("k", "Lt", "5"), Taint("k", "x"), False),
        (Toleration("k", "Lt", "5"), Taint("k", "04"), False),
        (Toleration("k", "Lt", "5"), Taint("k", "1_0"), False),
        (Toleration("k", "Gt", "-5"), Taint("k", "-4"), True),
        (Toleration("k", "Gt", "5"), Taint("k", "9223372036854775808"), False),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, expected: bool) -> None:
    """The operators of tolerations, the effect that is left out, the key that is left out."""
    assert tolerates((toleration,), taint) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), True),
        (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.2", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "UDP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 81), False),
    ],
)
def test_ports_clash(a: HostPort, b: HostPort, expected: bool) -> None:
    """One pod per address, protocol and port; 0.0.0.0 stands for every address."""
    assert clash((a,), (b,)) is expected
    assert clash((b,), (a,)) is expected


def test_ports_see_pods_come_and_go_in_the_simulation() -> None:
    """A port is free while its holder is lifted, and taken again after the return or by a pod placed in thought."""
    sim = simulated(node("n1"), node("n2"), pod("a").port(80).on("n1"))
    wanted = class_of(sim, pod("p").port(80, "10.0.0.1"))
    rule = NodePorts()
    state = sim.state(rule, wanted)
    assert rule.mask(state).tolist() == [False, True]
    mark = sim.mark()
    sim.lift(sim.snapshot.table.slot_of["uid-d-a"])
    assert rule.mask(state).tolist() == [True, True]
    sim.place(wanted, 1)
    assert rule.mask(state).tolist() == [True, False]
    sim.rollback(mark)
    assert rule.mask(state).tolist() == [False, True]
    (failure,) = rule.failures(state)
    assert (failure.text, failure.resolvable) == ("node(s) didn't have free ports for the requested pod ports", True)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod("p"), ["big", "small"]),
        (pod("p").cpu(1), ["big", "small"]),
        (pod("p").cpu(1.5), ["big"]),
        (pod("p").cpu(3), ["big"]),
        (pod("p").cpu(3.001), []),
        (pod("p").memory(3.5), ["big"]),
        (pod("p").gpu(1), ["big"]),
        (pod("p").gpu(3), []),
    ],
)
def test_resources(wanted: PodBuilder, expected: list[str]) -> None:
    """Free is allocatable minus what pods request; what a node does not list it does not have."""
    sim = simulated(
        node("big").cpu(4).memory(8).gpu(2),
        node("small").cpu(1).memory(1),
        node("full").cpu(8).pods(1),
        pod("a").cpu(1).memory(4).on("big"),
        pod("b").on("full"),
    )
    assert passing(NodeResourcesFit(), sim, wanted) == expected


def test_a_node_that_is_over_committed_takes_pods_that_ask_for_nothing() -> None:
    """Only what a pod asks for must be free, however far the rest is over-committed."""
    sim = simulated(node("n1").cpu(1), pod("a").cpu(3).on("n1"))
    assert passing(NodeResourcesFit(), sim, pod("p").memory(1)) == ["n1"]
    assert passing(NodeResourcesFit(), sim, pod("p").cpu(0.001)) == []


def test_held_room_is_taken() -> None:
    """A phantom takes room and ports as a pod would."""
    made = pod("ghost").cpu(3).port(80)
    core = world(node("n1"), node("n2"))
    sim = Simulation(core.world.snapshot, [Phantom(core.world.snapshot.class_of(made.obj()), "u", "n1")])
    assert passing(NodeResourcesFit(), sim, pod("p").cpu(2)) == ["n2"]
    assert passing(NodePorts(), sim, pod("p").port(80)) == ["n2"]


@pytest.mark.parametrize(
    ("wanted", "reasons", "helpful"),
    [
        (pod("p").cpu(2), [("Insufficient cpu", 3)], ["n1", "n2"]),
        (pod("p").cpu(5), [("Insufficient cpu", 3)], []),
        (pod("p").cpu(2).memory(15), [("Insufficient cpu", 3), ("Insufficient memory", 3)], ["n1", "n2"]),
        (pod("p").selector(zone="a").cpu(2), [("Insufficient cpu", 1), (NodeAffinity.text, 2)], ["n1"]),
        (pod("p").selector(zone="x").cpu(99), [(NodeAffinity.text, 3)], []),
    ],
)
def test_diagnosis(wanted: PodBuilder, reasons: list[tuple[str, int]], helpful: list[str]) -> None:
    """Each node is charged to the first filter that refuses it, with all its reasons; eviction cures only room."""
    sim = simulated(
        node("n1").label(zone="a"),
        node("n2").label(zone="b"),
        node("n3").label(zone="b").cpu(1.5),
        pod("a").cpu(3).memory(2).on("n1"),
        pod("b").cpu(3).memory(2).on("n2"),
        pod("c").memory(2).on("n3"),
    )
    found, resolvable = pipeline_of().diagnose(class_of(sim, wanted), sim)
    assert [(r.text, r.nodes) for r in found] == reasons
    assert [n.name for n, ok in zip(sim.snapshot.nodes, resolvable, strict=True) if ok] == helpful


def test_pods_with_resource_claims_are_refused() -> None:
    """A pod that claims a device is never bound as if the claim were not there, and says why."""
    found = plan(node("n1"), pod("p").cpu(1).devices("c"))["d/p"]
    assert found.outcome == UNSCHEDULABLE
    assert "ResourceClaim c not found" in found.message


def test_declared_features() -> None:
    """A pod that needs a feature goes to nodes that declare it."""
    sim = simulated(node("n1"), msgspec.structs.replace(node("n2").obj(), features=("A", "B")))
    rule = NodeDeclaredFeatures()
    assert passing(rule, sim, pod("p").shape(node_features=("A",))) == ["n2"]
    assert not rule.applies(class_of(sim, pod("q")), sim)
