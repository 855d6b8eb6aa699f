"""The volume filters: which nodes pass for a pod's claims, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import SelectNode
from gangsched.core.decision import BIND
from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.plugins.volumes import volume_zones
from gangsched.core.state.simulation import Simulation
from gangsched.core.volumes.index import Target
from gangsched.model.constraints import LabelSelector, NodeTerm, Requirement
from gangsched.model.volumes import ClaimRef, CSIDriver, CSINode, CSIStorageCapacity, StorageClass, StorageObject
from tests.builders import LATER, MADE, bound_claim, claim, node, pod, reserved, selects, volume
from tests.core.harness import Built, Cluster, plan, world
from tests.core.volumes.worlds import (
    DRIVER,
    NODES,
    passing,
    told,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


CONFLICT = "3 node(s) didn't find available persistent volumes to bind"
IN_USE = (
    "3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@pytest.mark.parametrize(
    ("objects", "text", "resolvable"),
    [
        ([], 'persistentvolumeclaim "c" not found', False),
        ([claim("c", deleting=True)], 'persistentvolumeclaim "c" is being deleted', False),
        (
            [claim("c", volume_name="v", phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            False,
        ),
        ([claim("c", "other")], "pod has unbound immediate PersistentVolumeClaims", False),
        ([claim("c", volume_name="v")], "pod has unbound immediate PersistentVolumeClaims", False),
        ([bound_claim("c", "v")], 'persistentvolume "v" not found', False),
        ([claim("c")], CONFLICT, False),
        (
            [bound_claim("c", "v"), volume("v", "elsewhere")],
            "3 node(s) didn't match PersistentVolume's node affinity",
            False,
        ),
        (
            [bound_claim("c", "v", access_modes=("ReadWriteOncePod",)), volume("v"), pod("p").on("n1").claims("c")],
            IN_USE,
            True,
        ),
        (
            [claim("c", "made"), CSIDriver(DRIVER, storage_capacity=True)],
            "3 node(s) did not have enough free storage",
            False,
        ),
        (
            [claim("c", "made"), CSIDriver(DRIVER, must_run=True), CSINode("n1", drivers=("other",))],
            f"3 {DRIVER} CSI driver is not installed on the node",
            False,
        ),
    ],
    ids=["missing", "deleting", "lost", "no-class", "prebound", "no-pv", "none", "far", "in-use", "space", "driver"],
)
def test_what_is_said(objects: list[Built], text: str, resolvable: bool) -> None:
    """Kube-scheduler's words; what concerns the pod alone is said without a number of nodes."""
    assert told(pod("p1").claims("c"), *objects) == (text, resolvable)


@pytest.mark.parametrize("must_run", [True, False])
def test_nodes_without_the_driver(must_run: bool) -> None:
    """They are refused only if the CSIDriver asks for that."""
    objects: list[Built] = [
        CSIDriver(DRIVER, must_run=must_run),
        CSINode("n2", drivers=(DRIVER,)),
        bound_claim("c", "v"),
    ]
    found = passing(pod("p").claims("c"), *objects, volume("v", driver=DRIVER, handle="h"))
    assert found == (["n2"] if must_run else ["n1", "n2", "n3"])


def test_a_driver_that_comes_to_a_node() -> None:
    """The pod that waits for it starts then."""
    cluster = Cluster(*NODES, LATER, MADE, CSIDriver(DRIVER, must_run=True), claim("c", "made"), pod("p").claims("c"))
    cluster.run()
    assert not cluster.pod("p").node
    cluster.show(CSINode("n3", drivers=(DRIVER,)))
    cluster.run()
    assert {a.node for a in cluster.log if isinstance(a, SelectNode)} == {"n3"}


def test_the_message_of_a_gang_without_its_claim() -> None:
    """The pod's event reads like kube-scheduler's."""
    found = plan(*NODES, pod("p").claims("c"))["d/p"]
    assert found.message.startswith('0/3 nodes are available: persistentvolumeclaim "c" not found.')
    assert found.unplaced[0].reasons == ('persistentvolumeclaim "c" not found',)


@pytest.mark.parametrize(
    ("owned_by", "expected"),
    [
        ("uid-d-p", "ok"),
        ("uid-another", "PVC d/p-scratch was not created for pod d/p (pod is not owner)"),
        (None, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'),
    ],
)
def test_ephemeral_volumes(owned_by: str | None, expected: str) -> None:
    """The claim of a generic ephemeral volume must be there, and belong to the very pod."""
    claims = [] if owned_by is None else [claim("p-scratch", "made", owner_uid=owned_by)]
    found = plan(*NODES, MADE, *claims, pod("p").claims(owned=("scratch",)))["d/p"]
    if expected == "ok":
        assert found.outcome == BIND
    else:
        assert expected in found.message


def test_pods_without_volumes_are_not_asked_about_them() -> None:
    """No volume filter has anything to say about them."""
    sim = Simulation(world(*NODES).world.snapshot)
    wanted = sim.snapshot.class_of(pod("p").obj())
    names = [r.name for r in pipeline_of().filters if r.applies(wanted, sim)]
    assert not [n for n in names if n.startswith(("Volume", "NodeVolume"))]


# -- existing volumes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([volume("v", "n2")], ["n2"]),
        ([volume("v", "n1", "n3")], ["n1", "n3"]),
        ([volume("v")], ["n1", "n2", "n3"]),
        ([volume("v", gib=0)], []),
        ([volume("v", storage_class="made")], []),
        ([volume("v", access_modes=("ReadOnlyMany",))], []),
        ([volume("v", access_modes=("ReadOnlyMany", "ReadWriteOnce"))], ["n1", "n2", "n3"]),
        ([volume("v", mode="Block")], []),
        ([volume("v", phase="Released")], []),
        ([volume("v", deleting=True)], []),
        ([volume("v", attributes_class="gold")], []),
        ([volume("v", claim=ClaimRef("d", "another"))], []),
        ([reserved("v", "c", "n3")], ["n3"]),
        ([volume("v", "n1", claim=ClaimRef("d", "c", "uid-of-an-earlier-c"))], []),
        ([reserved("v", "c", "n3"), volume("w", "n1")], ["n3"]),
        ([volume("v", node_terms=(NodeTerm((Requirement("rack", "NotIn", ("r1",)),)),))], ["n2"]),
    ],
)
def test_a_claim_waits_for_a_volume(volumes: list[StorageObject], expected: list[str]) -> None:
    """A claim without a volume goes where one is that it can be bound to."""
    assert passing(pod("p").claims("c"), claim("c"), *volumes) == expected


def test_a_claim_selects_volumes_by_labels() -> None:
    """A selector leaves only volumes with these labels."""
    volumes = [volume("v", "n1", labels={"disk": "ssd"}), volume("w", "n2")]
    assert passing(pod("p").claims("c"), claim("c", selector=selects(disk="ssd")), *volumes) == ["n1"]


def test_several_claims_of_a_pod_need_several_volumes() -> None:
    """Two claims fit where two volumes are; a large one leaves the small volume to the other."""
    claims = [claim("small", gib=1), claim("large", gib=5)]
    wanted = pod("p").claims("large", "small")
    one_each = [volume(f"v{n}-{i}", f"n{n}", gib=g) for n, i, g in ((1, 0, 9), (2, 0, 9), (2, 1, 2), (3, 0, 2))]
    assert passing(wanted, *claims, *one_each) == ["n2"]


@pytest.mark.parametrize("taken_by", ["another gang", "ourselves"])
def test_a_volume_that_is_promised_is_not_there(taken_by: str) -> None:
    """What is being bound for somebody else is taken; one's own claim goes where its volume is."""
    core = world(*NODES, LATER, claim("c"), claim("other"), volume("v", "n1"), volume("w", "n2", gib=2))
    index = core.world.snapshot.volumes
    index.assume(("d", "other" if taken_by == "another gang" else "c"), Target("v", "n1"))
    sim = Simulation(core.world.snapshot)
    mask = pipeline_of().mask(sim.snapshot.class_of(pod("p").claims("c").obj()), sim)
    assert mask.tolist() == ([False, True, False] if taken_by == "another gang" else [True, False, False])


# -- new volumes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topologies", "expected"),
    [
        ((), ["n1", "n2", "n3"]),
        (((("rack", ("r0",)),),), ["n2"]),
        (((("rack", ("r0",)),), (("kubernetes.io/hostname", ("n3",)),)), ["n2", "n3"]),
        (((("rack", ("r1",)), ("kubernetes.io/hostname", ("n3",))),), ["n3"]),
        (((),), []),
    ],
)
def test_a_class_makes_volumes_where_it_may(topologies: Any, expected: list[str]) -> None:
    """AllowedTopologies: any of the terms, all of its requirements."""
    storage_class = StorageClass("zoned", DRIVER, waits=True, topologies=topologies)
    assert passing(pod("p").claims("c"), storage_class, claim("c", "zoned")) == expected


def test_a_class_without_a_provisioner_makes_none() -> None:
    """The name kubernetes.io/no-provisioner says that there is none."""
    storage_class = StorageClass("local", "kubernetes.io/no-provisioner", waits=True)
    assert passing(pod("p").claims("c"), storage_class, claim("c", "local")) == []


def test_a_selected_node_is_kept() -> None:
    """Whoever has asked for a volume on a node gets it there, also after a restart."""
    assert passing(pod("p").claims("c"), claim("c", "made", selected_node="n2")) == ["n2"]


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        ([("r0", 10)], ["n2"]),
        ([("r0", 1), ("r1", 5)], ["n1", "n3"]),
        ([("r0", None)], []),
        ([(None, 10)], []),
    ],
)
def test_capacity_of_a_driver_that_tells_it(capacities: list[tuple[str | None, int]], expected: list[str]) -> None:
    """Only nodes with access to enough storage of the class."""
    told_of = [
        CSIStorageCapacity("d", f"s{i}", "made", selects(rack=rack) if rack else None, size and size << 30)
        for i, (rack, size) in enumerate(capacities)
    ]
    driver = CSIDriver(DRIVER, storage_capacity=True)
    assert passing(pod("p").claims("c"), claim("c", "made", gib=5), driver, *told_of) == expected


def test_capacity_of_another_class_does_not_count() -> None:
    """Capacity is told class by class."""
    other = CSIStorageCapacity("d", "s", "later", LabelSelector(), 100 << 30)
    assert passing(pod("p").claims("c"), claim("c", "made"), CSIDriver(DRIVER, storage_capacity=True), other) == []


# -- zones -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({ZONE: "a"}, ["a1", "none"]),
        ({ZONE: "a__b"}, ["a1", "b1", "none"]),
        ({ZONE: "a__ "}, ["a1", "b1", "none", "old"]),
        ({OLD_ZONE: "a"}, ["a1", "none", "old"]),
        ({ZONE: "a", REGION: "south"}, ["none"]),
        ({}, ["a1", "b1", "none", "old"]),
    ],
)
def test_zones_of_a_volume(labels: dict[str, str], expected: list[str]) -> None:
    """Nodes with zone labels must have one of the volume's; those without any are a cluster of one zone."""
    nodes = [
        node("a1").label(**{ZONE: "a", REGION: "north"}),
        node("b1").label(**{ZONE: "b", REGION: "north"}),
        node("old").label(**{OLD_ZONE: "a"}),
        node("none"),
    ]
    core = world(*nodes, bound_claim("c", "v"), volume("v", labels=labels), LATER)
    sim = Simulation(core.world.snapshot)
    mask = pipeline_of().mask(sim.snapshot.class_of(pod("p").claims("c").obj()), sim)
    assert [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok] == expected


def test_zone_labels_with_an_empty_part_are_ignored() -> None:
    """A label that cannot be read demands nothing."""
    assert volume_zones({ZONE: "a____b"}) == []
    assert volume_zones({ZONE: "a__b"}) == [(ZONE, ("a", "b"))]
