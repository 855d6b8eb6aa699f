"""A gang that asks for one rack, on a real API server."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.client import Client, Object
from tests.e2e.stories import EXAMPLES, Start, Story, nodes_ready, running

pytestmark = pytest.mark.controlplane

SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
RACK = "example.com/rack"


def fake_node(name: str, rack: str) -> Object:
    """A node with four cores in a rack, kept by KWOK."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, RACK: rack},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        },
    }


def worker(name: str, **spec: object) -> Object:
    """A pod that takes three of a node's four cores."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


def low(name: str, node: str) -> Object:
    """A pod of low priority that occupies a node and takes its time to leave."""
    return worker(name, nodeName=node, priorityClassName="low-priority", terminationGracePeriodSeconds=3)


async def test_a_gang_takes_the_rack_where_least_has_to_go(admin: Client, start_scheduler: Start) -> None:
    """One pod leaves one rack and both members go there, though single free nodes are in two racks."""
    names = [f"{rack}-{n}" for rack in ("left", "right") for n in (1, 2)]
    occupied = ["left-1", "left-2", "right-2"]
    gather = {"gatherStrategy": [{"layer": RACK, "strategy": "MustGather"}]}
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "annotations": {SPEC: json.dumps(gather)}},
        "spec": {"minMember": 2},
    }
    members = ["train-0", "train-1"]
    async with start_scheduler():
        await admin.apply([fake_node(name, name.partition("-")[0]) for name in [*names, "spare-1"]])
        await admin.apply(EXAMPLES / "koordinator" / "10-priorityclasses.yaml")
        await nodes_ready(admin)
        await admin.apply([low(f"low-{node}", node) for node in occupied])
        await running(admin, [f"low-{node}" for node in occupied])
        async with admin.record("Pod") as recorder:
            await admin.apply(group)
            for name in members:
                pod = worker(name, schedulerName="py-gang-scheduler", priorityClassName="high-priority")
                pod["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "train"}
                await admin.apply(pod)
            await running(admin, members)
        Story(recorder, members, ["low-right-2"]).check_order()
        assert {(await admin.get("Pod", name))["spec"]["nodeName"] for name in members} == {"right-1", "right-2"}
        assert {change.name for change in recorder.changes} == {*members, "low-right-2"}
