"""Gangs with volumes on a real API server, whose volume controller binds what the scheduler asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.controlplane.client import Client, Object, Recorder
from tests.e2e.stories import Start, running
from tests.e2e.volumes import claim, storage_class, volume

pytestmark = pytest.mark.controlplane

MakeNodes = Callable[..., Awaitable[list[str]]]
SELECTED = "volume.kubernetes.io/selected-node"
PROVISIONER = "example.com/made-by-the-test"


def member(name: str, claim_name: str, cpu: str = "3") -> Object:
    """A member of gang `data` that mounts a claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"pod-group.scheduling.sigs.k8s.io": "data"},
        },
        "spec": {
            "schedulerName": "py-gang-scheduler",
            "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}],
        },
    }


GROUP: Object = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {"minMember": 2},
}


def revision(recorder: Recorder, holds: Callable[[Object], bool]) -> list[int]:
    """When each object first was so, in revisions of the store, which count changes of all kinds."""
    found: dict[str, int] = {}
    for change in recorder.changes:
        if holds(change.object):
            found.setdefault(change.name, int(change.object["metadata"]["resourceVersion"]))
    return sorted(found.values())


async def test_a_gang_is_bound_where_its_volumes_are(
    admin: Client, start_scheduler: Start, make_nodes: MakeNodes
) -> None:
    """One member goes where the only volume is, the other gets a new one; both claims are bound before either pod."""
    nodes = await make_nodes(3)
    await admin.apply([storage_class("local", "kubernetes.io/no-provisioner"), storage_class("made", PROVISIONER)])
    await admin.apply(
        [volume("on-node-1", "local", nodes[1]), claim("data-0", "local"), claim("data-1", "made"), GROUP]
    )
    async with start_scheduler(), admin.record("Pod") as pods, admin.record("PersistentVolumeClaim") as claims:
        await admin.apply([member("m0", "data-0"), member("m1", "data-1")])
        asked = await admin.wait_for(
            "PersistentVolumeClaim", "data-1", lambda c: SELECTED in c["metadata"].get("annotations", {})
        )
        node = asked["metadata"]["annotations"][SELECTED]
        assert node != nodes[1], "there is no room beside the other member"
        await admin.wait_for("PersistentVolumeClaim", "data-0", lambda c: c["status"].get("phase") == "Bound")
        for name in ("m0", "m1"):
            assert "nodeName" not in (await admin.get("Pod", name))["spec"]
        await admin.apply(volume("made-for-data-1", "made", node, asked))  # as a provisioner would
        await running(admin, ["m0", "m1"])
        assert (await admin.get("Pod", "m0"))["spec"]["nodeName"] == nodes[1]
        assert (await admin.get("Pod", "m1"))["spec"]["nodeName"] == node
        assert (await admin.get("PersistentVolumeClaim", "data-0"))["spec"]["volumeName"] == "on-node-1"
    bound = revision(claims, lambda c: "pv.kubernetes.io/bind-completed" in c["metadata"].get("annotations", {}))
    placed = revision(pods, lambda p: "nodeName" in p["spec"])
    assert len(bound) == len(placed) == 2
    assert max(bound) < min(placed)


async def test_a_restart_while_volumes_are_bound(admin: Client, start_scheduler: Start, make_nodes: MakeNodes) -> None:
    """The second process finds what the first has asked for, and waits for it on the same node."""
    nodes = await make_nodes(2)
    await admin.apply([storage_class("made", PROVISIONER), claim("data-0", "made"), claim("data-1", "made"), GROUP])
    async with start_scheduler():
        await admin.apply([member("m0", "data-0"), member("m1", "data-1")])
        asked = {
            name: await admin.wait_for(
                "PersistentVolumeClaim", name, lambda c: SELECTED in c["metadata"].get("annotations", {})
            )
            for name in ("data-0", "data-1")
        }
    chosen = {name: c["metadata"]["annotations"][SELECTED] for name, c in asked.items()}
    assert set(chosen.values()) == set(nodes)
    async with start_scheduler():
        for name, node in chosen.items():
            await admin.apply(volume(f"made-for-{name}", "made", node, asked[name]))
        await running(admin, ["m0", "m1"])
    for pod, name in (("m0", "data-0"), ("m1", "data-1")):
        assert (await admin.get("Pod", pod))["spec"]["nodeName"] == chosen[name]


async def test_why_a_pod_with_volumes_waits(admin: Client, start_scheduler: Start, make_nodes: MakeNodes) -> None:
    """The condition says what is missing, in kube-scheduler's words, until it is there."""
    nodes = await make_nodes(2)
    await admin.apply([storage_class("local", "kubernetes.io/no-provisioner"), {**GROUP, "spec": {"minMember": 1}}])
    async with start_scheduler():
        await admin.apply(member("m0", "data-0"))

        async def told(text: str) -> None:
            def said(pod: Object) -> bool:
                conditions = {c["type"]: c.get("message", "") for c in pod["status"].get("conditions", [])}
                return text in conditions.get("PodScheduled", "")

            await admin.wait_for("Pod", "m0", said)

        await told('persistentvolumeclaim "data-0" not found')
        await admin.apply(claim("data-0", "local"))
        await told("2 node(s) didn't find available persistent volumes to bind")
        await admin.apply(volume("late", "local", nodes[0]))
        await running(admin, ["m0"])
    assert (await admin.get("Pod", "m0"))["spec"]["nodeName"] == nodes[0]
