"""Volumes in use: how many a node takes, claims for one pod, and disks that pods name."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE, WAIT
from gangsched.model.volumes import CSINode, VolumeAttachment
from tests.builders import bound_claim, claim, gang, node, pod, volume
from tests.core.harness import Built, Cluster, plan
from tests.core.volumes.worlds import (
    DRIVER,
    LIMITS,
    csi,
    passing,
    told,
)

# -- attach limits -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("users", [1, 2], ids=["its own", "shared"])
def test_members_with_disks_take_no_more_than_they_need(users: int) -> None:
    """A node gives back a volume when the last of the pods that use it leaves: then those go, and nobody else."""
    objects: list[Built] = [gang("g").min(2)]
    for i in range(4):
        objects += [node(f"n{i}"), CSINode(f"n{i}", ((DRIVER, 1),)), bound_claim(f"o{i}", f"w{i}"), csi(f"w{i}")]
        objects += [pod(f"v{i}{k}").priority(1 + i).on(f"n{i}").claims(f"o{i}") for k in range(users)]
        objects += [pod(f"x{i}").priority(0).on(f"n{i}")]
    for i in range(2):
        objects += [bound_claim(f"c{i}", f"d{i}"), csi(f"d{i}"), pod(f"m{i}").priority(9).gang("g").claims(f"c{i}")]
    found = plan(*objects)["d/g"]
    assert sorted(v.name for v in found.victims) == [f"v{i}{k}" for i in range(2) for k in range(users)]
    assert found.optimal or users > 1


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
