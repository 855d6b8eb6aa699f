"""The volume filters: which nodes pass, what is said about the others, and that members of a gang see each other."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT
from gangsched.core.filters.node import NodeDeclaredFeatures
from gangsched.core.filters.volumes import volume_zones
from gangsched.core.options import Options
from gangsched.core.pipeline import default_pipeline
from gangsched.core.simulation import Simulation
from gangsched.core.volumes import Target, VolumeIndex
from gangsched.model.records import LabelSelector, NodeTerm, Requirement
from gangsched.model.volumes import (
    ClaimRef,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from tests.builders import LATER, MADE, PodBuilder, bound_claim, claim, gang, node, pod, reserved, selects, volume
from tests.core.harness import Built, Cluster, plan, world

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NODES = [node(f"n{i}").label(rack=f"r{i % 2}") for i in (1, 2, 3)]
DRIVER = MADE.provisioner


def passing(wanted: PodBuilder, *objects: Built) -> list[str]:
    """Names of the nodes that pass every filter."""
    sim = Simulation(world(*NODES, LATER, MADE, *objects).world.snapshot)
    mask = default_pipeline(Options()).mask(sim.snapshot.class_of(wanted.obj()), sim)
    return [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok]


def told(wanted: PodBuilder, *objects: Built) -> tuple[str, bool]:
    """What is said of a pod that no node takes, and whether preemption could help on any of them."""
    sim = Simulation(world(*NODES, LATER, MADE, *objects).world.snapshot)
    reasons, resolvable = default_pipeline(Options()).diagnose(sim.snapshot.class_of(wanted.obj()), sim)
    return ", ".join(r.told for r in reasons), bool(resolvable.any())


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
    ],
    ids=["missing", "deleting", "lost", "no-class", "prebound", "no-pv", "none", "far", "in-use", "space"],
)
def test_what_is_said(objects: list[Built], text: str, resolvable: bool) -> None:
    """Kube-scheduler's words; what concerns the pod alone is said without a number of nodes."""
    assert told(pod("p1").claims("c"), *objects) == (text, resolvable)


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
    mask = default_pipeline(Options()).mask(sim.snapshot.class_of(pod("p").claims("c").obj()), sim)
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
    mask = default_pipeline(Options()).mask(sim.snapshot.class_of(pod("p").claims("c").obj()), sim)
    assert [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok] == expected


def test_zone_labels_with_an_empty_part_are_ignored() -> None:
    """A label that cannot be read demands nothing."""
    assert volume_zones({ZONE: "a____b"}) == []
    assert volume_zones({ZONE: "a__b"}) == [(ZONE, ("a", "b"))]


# -- attach limits -----------------------------------------------------------------------------------------


def csi(name: str, **fields: Any) -> StorageObject:
    """A volume of the driver with limits."""
    return volume(name, driver=DRIVER, handle=f"h-{name}", **fields)


LIMITS = [CSINode(f"n{i}", ((DRIVER, 1),)) for i in (1, 2)]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([], ["n1", "n2", "n3"]),
        ([pod("o").on("n1").claims("other")], ["n2", "n3"]),
        ([pod("o").on("n1").claims("c")], ["n1", "n2", "n3"]),
        ([pod("o").on("n2").claims("unbound")], ["n1", "n3"]),
        ([pod("o").on("n1").claims("other").phase("Succeeded")], ["n1", "n2", "n3"]),
        ([VolumeAttachment("a", "n2", DRIVER, "w")], ["n1", "n3"]),
        ([VolumeAttachment("a", "n2", DRIVER, "v")], ["n1", "n2", "n3"]),
        ([pod("o").on("n1").claims("other"), VolumeAttachment("a", "n1", DRIVER, "w")], ["n2", "n3"]),
    ],
    ids=["free", "full", "shared", "in-flight", "finished", "attached", "attached-ours", "counted-once"],
)
def test_attach_limits(there: list[Built], expected: list[str]) -> None:
    """A volume counts once on a node, whoever uses it; a claim without a volume counts for its class's driver."""
    objects = [
        bound_claim("c", "v"),
        csi("v"),
        bound_claim("other", "w"),
        csi("w"),
        claim("unbound", "made"),
        *LIMITS,
    ]
    assert passing(pod("p").claims("c"), *objects, *there) == expected


def test_limits_are_told_and_can_be_cured() -> None:
    """Pods with volumes of their own may be evicted for it."""
    full = [CSINode(f"n{i}", ((DRIVER, 0),)) for i in (1, 2, 3)]
    assert told(pod("p").claims("c"), bound_claim("c", "v"), csi("v"), *full) == (
        "3 node(s) exceed max volume count",
        True,
    )


def test_a_gang_preempts_for_attachments() -> None:
    """Room for a volume is room like any other."""
    found = plan(
        node("n1"),
        CSINode("n1", ((DRIVER, 1),)),
        bound_claim("c", "v"),
        csi("v"),
        bound_claim("other", "w"),
        csi("w"),
        pod("low").priority(1).on("n1").claims("other"),
        pod("high").priority(5).claims("c"),
    )["d/high"]
    assert (found.outcome, [v.name for v in found.victims]) == (PREEMPT, ["low"])


@pytest.mark.parametrize("leaving", [False, True])
def test_a_claim_for_one_pod_is_freed_or_waited_for(leaving: bool) -> None:
    """Whoever uses the claim is evicted, or awaited when it leaves anyway, also from another node."""
    user = pod("low").priority(1).cpu(4).on("n1").claims("c")
    found = plan(
        node("n1"),
        node("n2"),
        bound_claim("c", "v", access_modes=("ReadWriteOncePod",)),
        volume("v"),
        user.terminating() if leaving else user,
        pod("high").priority(5).claims("c"),
    )["d/high"]
    if leaving:
        assert (found.outcome, [a.pod for a in found.awaiting]) == (WAIT, ["d/low"])
    else:
        assert (found.outcome, [v.name for v in found.victims]) == (PREEMPT, ["low"])


# -- disks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "wanted", "conflict"),
    [
        (("gcePersistentDisk", ("a",), True), ("gcePersistentDisk", ("a",), True), False),
        (("gcePersistentDisk", ("a",), True), ("gcePersistentDisk", ("a",), False), True),
        (("gcePersistentDisk", ("a",), False), ("gcePersistentDisk", ("b",), False), False),
        (("awsElasticBlockStore", ("a",), True), ("awsElasticBlockStore", ("a",), True), True),
        (("iscsi", ("iqn",), False), ("iscsi", ("iqn",), True), True),
        (("iscsi", ("iqn",), False), ("gcePersistentDisk", ("iqn",), False), False),
    ],
)
def test_disks_named_in_pods(there: Any, wanted: Any, conflict: bool) -> None:
    """The same disk twice on a node only if all read, and EBS not even then."""
    kind, ident, read_only = there
    other, name, only = wanted
    found = passing(
        pod("p").disk(other, *name, read_only=only), pod("o").on("n1").disk(kind, *ident, read_only=read_only)
    )
    assert ("n1" not in found) == conflict


@pytest.mark.parametrize(("monitors", "conflict"), [(("m1", "m2"), True), (("m3",), False)])
def test_rbd_images_of_one_cluster(monitors: tuple[str, ...], conflict: bool) -> None:
    """Two images of the same name are the same if the clusters share a monitor."""
    there = pod("o").on("n1").disk("rbd", "pool", "image", monitors=("m1",))
    assert ("n1" not in passing(pod("p").disk("rbd", "pool", "image", monitors=monitors), there)) == conflict


def test_a_pod_may_name_a_disk_twice() -> None:
    """Its reading does not hide its writing, and when it is gone all of it is."""
    there = pod("o").on("n1").disk("gcePersistentDisk", "a").disk("gcePersistentDisk", "a", read_only=True)
    cluster = Cluster(node("n1"), there, pod("p").disk("gcePersistentDisk", "a", read_only=True))
    cluster.run()
    assert cluster.pod("p").node == ""
    cluster.delete("o")
    cluster.pass_time(20)
    assert cluster.pod("p").node == "n1"


def test_members_do_not_share_a_disk() -> None:
    """Two members with the same disk go to different nodes, and are too many for one."""
    members = [pod(f"m{i}").gang("g").disk("awsElasticBlockStore", "vol") for i in (1, 2)]
    both = plan(node("n1"), node("n2"), gang("g").min(2), *members)["d/g"]
    assert sorted(p.node for p in both.placements) == ["n1", "n2"]
    assert plan(node("n1"), gang("g").min(2), *members)["d/g"].outcome == UNSCHEDULABLE


# -- members of a gang see each other ----------------------------------------------------------------------


def test_two_members_do_not_get_one_volume() -> None:
    """With one volume the gang does not fit; with two it does, each member where its volume is."""
    base: list[Built] = [node("n1"), node("n2"), LATER, gang("g").min(2), claim("c1"), claim("c2")]
    members = [pod(f"m{i}").gang("g").claims(f"c{i}") for i in (1, 2)]
    assert plan(*base, *members, volume("v1", "n1"))["d/g"].outcome == UNSCHEDULABLE
    found = plan(*base, *members, volume("v1", "n1"), volume("v2", "n2"))["d/g"]
    assert found.outcome == BIND
    assert sorted(p.node for p in found.placements) == ["n1", "n2"]


def test_members_count_for_limits_together() -> None:
    """A node that takes one more volume takes one member."""
    base: list[Built] = [node("n1"), MADE, gang("g").min(2), claim("c1", "made"), claim("c2", "made")]
    members = [pod(f"m{i}").gang("g").claims(f"c{i}") for i in (1, 2)]
    for limit, outcome in ((1, UNSCHEDULABLE), (2, BIND)):
        assert plan(*base, *members, CSINode("n1", ((DRIVER, limit),)))["d/g"].outcome == outcome


def test_members_with_one_claim_stay_together() -> None:
    """A new volume is made for one node: both users of the claim go there."""
    base: list[Built] = [*NODES, MADE, gang("g").min(2), claim("c", "made")]
    found = plan(*base, *(pod(f"m{i}").gang("g").claims("c") for i in (1, 2)))["d/g"]
    assert found.outcome == BIND
    assert len({p.node for p in found.placements}) == 1


def test_a_claim_for_one_pod_is_not_for_two_members() -> None:
    """ReadWriteOncePod holds within a gang."""
    base: list[Built] = [
        *NODES,
        LATER,
        gang("g").min(2),
        bound_claim("c", "v", access_modes=("ReadWriteOncePod",)),
        volume("v"),
    ]
    members = [pod(f"m{i}").gang("g").claims("c") for i in (1, 2)]
    assert plan(*base, *members)["d/g"].outcome == UNSCHEDULABLE


def test_later_gangs_see_what_earlier_ones_were_promised() -> None:
    """In one plan no volume is given away twice."""
    found = plan(
        node("n1"),
        LATER,
        claim("c1"),
        claim("c2"),
        volume("v1", "n1"),
        pod("a").priority(2).claims("c1"),
        pod("b").priority(1).claims("c2"),
    )
    assert [found["d/a"].outcome, found["d/b"].outcome] == [BIND, UNSCHEDULABLE]


def test_a_large_gang_with_claims_of_its_own_is_planned_like_one_without() -> None:
    """Members that differ in nothing but new volumes are counted, not tried out one by one."""
    nodes: list[Built] = [node(f"n{i:02}").cpu(4) for i in range(30)]
    victims: list[Built] = [pod(f"v{i:02}").cpu(3).priority(i).on(f"n{i:02}") for i in range(30)]
    members = [pod(f"m{i:02}").cpu(2).priority(99).gang("g") for i in range(24)]
    base: list[Built] = [MADE, gang("g").min(24), *nodes, *victims]
    plain = plan(*base, *members)["d/g"]
    claims = [claim(f"c{i:02}", "made") for i in range(24)]
    found = plan(*base, *claims, *(m.claims(f"c{i:02}") for i, m in enumerate(members)))["d/g"]
    assert found.outcome == plain.outcome == PREEMPT
    assert [v.name for v in found.victims] == [v.name for v in plain.victims]
    assert found.steps == plain.steps


def test_members_with_claims_on_the_same_volumes_are_tried_for_real() -> None:
    """Static volumes can be taken by one member only, whatever counting would say."""
    claims = [claim(f"c{i}") for i in range(3)]
    base: list[Built] = [LATER, gang("g").min(3), node("n1").cpu(9), node("n2").cpu(9), *claims]
    base += [volume("v1", "n1"), volume("v2", "n1"), volume("v3", "n2")]
    base += [pod(f"low{i}").cpu(9).priority(i).on(f"n{i}") for i in (1, 2)]
    found = plan(*base, *(pod(f"m{i}").cpu(1).priority(9).gang("g").claims(f"c{i}") for i in range(3)))["d/g"]
    assert [v.name for v in found.victims] == ["low1", "low2"]
    assert sorted(p.node for p in found.placements) == ["n1", "n1", "n2"]


def test_pods_without_volumes_are_not_asked_about_them() -> None:
    """No volume filter has anything to say about them."""
    sim = Simulation(world(*NODES).world.snapshot)
    wanted = sim.snapshot.class_of(pod("p").obj())
    names = [r.name for r in default_pipeline(Options()).filters if r.applies(wanted, sim)]
    assert not [n for n in names if n.startswith(("Volume", "NodeVolume"))]


def test_declared_features() -> None:
    """A pod that needs a feature goes to nodes that declare it."""
    core = world(node("n1"), msgspec.structs.replace(node("n2").obj(), features=("A", "B")))
    sim = Simulation(core.world.snapshot)
    rule = NodeDeclaredFeatures()
    wanted = sim.snapshot.class_of(pod("p").shape(node_features=("A",)).obj())
    assert rule.mask(rule.prepare(wanted, sim)).tolist() == [False, True]
    assert not rule.applies(sim.snapshot.class_of(pod("q").obj()), sim)


# -- the index ---------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_the_index_is_what_its_objects_make_it(steps: list[tuple[int, int, int]]) -> None:
    """In whatever order things come and go, attachments are those of an index built from what is there."""
    index = VolumeIndex()
    pods: dict[str, tuple[Any, str]] = {}
    objects: dict[tuple[str, str], StorageObject] = {}
    for what, i, j in steps:
        if what == 0:
            one = pod(f"p{i}").claims(f"c{j}").obj()
            if one.uid not in pods:
                pods[one.uid] = (one, f"n{j}")
                index.use(one, f"n{j}")
        elif what == 1:
            found = pods.pop(f"uid-d-p{i}", None)
            if found is not None:
                index.leave(*found)
        elif what == 8:
            if f"v{j}" not in index.taken:  # no two claims are promised the same volume
                index.forget(("d", f"c{i}"))
                index.assume(("d", f"c{i}"), Target(f"v{j}", "n0"))
        elif what == 9:
            index.forget(("d", f"c{i}"))
        else:
            record: StorageObject = [
                claim(f"c{i}", "made"),
                bound_claim(f"c{i}", f"v{j}", storage_class="made"),
                csi(f"v{i}"),
                volume(f"v{i}"),
                MADE,
                VolumeAttachment(f"a{i}", f"n{j}", DRIVER, f"v{i}"),
            ][what - 2]
            kind = type(record).__name__
            if (kind, record.name) in objects and objects[kind, record.name] == record:
                del objects[kind, record.name]
                index.drop(kind, getattr(record, "namespace", ""), record.name)
            else:
                objects[kind, record.name] = record
                index.put(record)
    again = VolumeIndex()
    for record in objects.values():
        again.put(record)
    for key, target in index.assumed.items():
        again.assume(key, target)
    for one, where in pods.values():
        again.use(one, where)
    assert index.attachments.nodes_of == again.attachments.nodes_of
    assert index.users == again.users


def test_a_volume_that_goes_before_its_claim_is_bound_leaves_no_trace() -> None:
    """One pod was counted while the promised volume was there, the other when a new one had to be made."""
    index = VolumeIndex()
    for record in (MADE, claim("c", "made"), volume("v")):
        index.put(record)
    index.assume(("d", "c"), Target("v", "n1"))
    one, other = (pod(name).claims("c").obj() for name in ("one", "other"))
    index.use(one, "n1")
    index.drop("PersistentVolume", "", "v")
    index.use(other, "n2")
    assert {tuple(nodes) for nodes in index.attachments.nodes_of.values()} == {("n1", "n2")}
    index.leave(one, "n1")
    index.leave(other, "n2")
    assert index.attachments.nodes_of == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=8))
def test_placing_and_taking_back_leaves_volumes_as_they_were(steps: list[tuple[int, int]]) -> None:
    """Masks after a rollback are those from before, whatever was placed."""
    claims = [claim(f"c{i}", "made" if i % 2 else "later") for i in range(4)]
    objects: list[Built] = [*NODES, LATER, MADE, *claims, volume("v1", "n1"), volume("v2"), *LIMITS]
    sim = Simulation(world(*objects).world.snapshot)
    pipeline = default_pipeline(Options())
    classes = [sim.snapshot.class_of(pod(f"p{i}").claims(f"c{i}").obj()) for i in range(4)]
    before = [pipeline.mask(c, sim) for c in classes]
    mark = sim.mark()
    for which, row in steps:
        if pipeline.mask(classes[which], sim)[row]:
            sim.place(classes[which], row)
    sim.rollback(mark)
    assert all(np.array_equal(b, pipeline.mask(c, sim)) for b, c in zip(before, classes, strict=True))
    assert sim.volumes.taken == {}
    assert sim.volumes.targets == {}


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 3), st.integers(0, 2))), max_size=10))
def test_free_volumes_kept_count_by_count_are_those_counted_anew(steps: list[tuple[int, int] | None]) -> None:
    """Whatever was placed and taken back (None), as many volumes are left for each claim as a new count finds."""
    claims = [claim(f"c{i}", gib=1 + i % 2) for i in range(4)]
    volumes = [volume("v1", "n1"), volume("v2", "n1", "n2", gib=2), volume("v3", gib=3), reserved("v4", "c3")]
    sim = Simulation(world(*NODES, LATER, *claims, *volumes).world.snapshot)
    pipeline = default_pipeline(Options())
    classes = [sim.snapshot.class_of(pod(f"p{i}").claims(f"c{i}").obj()) for i in range(4)]
    marks: list[int] = []
    for step in steps:
        if step is None:
            sim.rollback(marks.pop() if marks else 0)
        elif pipeline.mask(classes[step[0]], sim)[step[1]]:
            marks.append(sim.mark())
            sim.place(classes[step[0]], step[1])
        taken = {**sim.volumes.index.taken, **sim.volumes.taken}
        for each in map(sim.volumes.choices.candidates, claims):
            assert np.array_equal(sim.volumes._free_of(each), each.free(taken))


def test_what_is_news() -> None:
    """A new version alone, or another attachment, wakes nobody."""
    index = VolumeIndex()
    objects: list[StorageObject] = [claim("c"), volume("v"), MADE, CSIDriver(DRIVER), CSINode("n1", ((DRIVER, 1),))]
    assert [index.put(record) for record in objects] == [True] * 5
    assert [index.put(record) for record in objects] == [False] * 5
    assert not index.put(volume("v", version="9"))
    assert index.volumes["v"].version == "9"
    assert index.put(volume("v", phase="Released"))
    assert index.put(CSINode("n1", ((DRIVER, 2),)))
    assert not index.put(VolumeAttachment("a", "n1", DRIVER, "v"))
