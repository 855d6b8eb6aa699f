"""Gangs that are decided in the same moment, on a real API server: their plans know of each other.

All pods are there before the scheduler starts, so that it decides them one after the other before any victim has left.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.controlplane.client import Client, Object, Recorder, wait_until
from tests.e2e.stories import Start, nodes_ready, running

pytestmark = pytest.mark.controlplane

OURS = "py-gang-scheduler"
GROUP = "pod-group.scheduling.sigs.k8s.io"
GANG_GROUP = "gang.scheduling.koordinator.sh/groups"


def node(name: str) -> Object:
    """A node with four cores, kept by KWOK."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": room, "allocatable": room},
    }


def priority(name: str, value: int) -> Object:
    """A PriorityClass."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


CLASSES = [priority("low", 1), priority("middle", 2), priority("high", 5)]


def pod(name: str, level: str, gang: str = "", **spec: Any) -> Object:
    """A pod that takes a whole node."""
    labels = {"app": name.partition("-")[0], **({GROUP: gang} if gang else {})}
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "4"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "containers": [container],
            "priorityClassName": level,
            "terminationGracePeriodSeconds": 2,
            "schedulerName": OURS,
            **spec,
        },
    }


def gang(name: str, minimum: int, **annotations: str) -> Object:
    """A PodGroup."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"minMember": minimum},
    }


async def there(admin: Client, *running_pods: Object, others: tuple[Object, ...] = ()) -> None:
    """Each of these pods runs on a node of its own."""
    await admin.apply([*CLASSES, *(node(f"on-{p['metadata']['name']}") for p in running_pods)])
    await nodes_ready(admin)
    await admin.apply([*others])
    for each in running_pods:
        each["spec"]["nodeName"] = f"on-{each['metadata']['name']}"
    await admin.apply([*running_pods])
    await running(admin, [p["metadata"]["name"] for p in running_pods])


async def come(admin: Client, start_scheduler: Start, *pods: Object, **preemption: Any) -> set[str]:
    """These pods wait when the scheduler starts; the names of all that have left when they run."""
    await admin.apply([*pods])
    names = [p["metadata"]["name"] for p in pods if p["kind"] == "Pod"]
    async with admin.record("Pod") as recorder, start_scheduler(preemption=preemption):
        await running(admin, names)
    return left(recorder)


def left(recorder: Recorder) -> set[str]:
    """The pods that were seen to terminate."""
    return {change.name for change in recorder.changes if change.terminating}


async def test_ten_preemptors_take_one_replica(admin: Client, start_scheduler: Start) -> None:
    """Nine of ten replicas have to be available: one of them leaves, and nine pods that are worth more."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"minAvailable": 9, "selector": {"matchLabels": {"app": "web"}}},
    }
    web = [pod(f"web-{i}", "low") for i in range(10)]
    others = [pod(f"other-{i}", "middle") for i in range(10)]
    await there(admin, *web, *others, others=(budget,))

    async def counted() -> bool:
        found = await admin.get("PodDisruptionBudget", "keep")
        return bool(found.get("status", {}).get("disruptionsAllowed") == 1)

    await wait_until(counted, what="the budget allows one disruption")
    gone = await come(admin, start_scheduler, *(pod(f"new-{i}", "high") for i in range(10)))
    assert len(gone) == 10
    assert len([name for name in gone if name.startswith("web")]) == 1


async def test_an_elastic_gang_keeps_its_minimum(admin: Client, start_scheduler: Start) -> None:
    """Of five members, of which three are needed, one or two leave for six pods, and for the others single pods."""
    members = [pod(f"train-{i}", "low", "train") for i in range(5)]
    singles = [pod(f"single-{i}", "low") for i in range(5)]
    await there(admin, *members, *singles, others=(gang("train", 3),))
    gone = await come(admin, start_scheduler, *(pod(f"new-{i}", "high") for i in range(6)))
    assert len(gone) == 6
    assert len([name for name in gone if name.startswith("train")]) in (1, 2)


async def test_a_gang_group_leaves_once(admin: Client, start_scheduler: Start) -> None:
    """Its two gangs leave together for the first pod; the second takes what that leaves, and the third another pod."""
    both = {GANG_GROUP: json.dumps(["default/left", "default/right"])}
    members = [pod("left-0", "low", "left"), pod("right-0", "low", "right")]
    specs = (gang("left", 1, **both), gang("right", 1, **both))
    await there(admin, *members, pod("worth-0", "middle"), pod("worth-1", "middle"), others=specs)
    gone = await come(admin, start_scheduler, *(pod(f"new-{i}", "high") for i in range(3)))
    assert gone > {"left-0", "right-0"}
    assert len(gone) == 3


async def test_twenty_gangs_of_three_evict_sixty_pods(admin: Client, start_scheduler: Start) -> None:
    """What is left of a gang of four that leaves whole is for the next one: 60 pods leave, and not 80."""
    victims = [pod(f"v{g}-{i}", "low", f"v{g}") for g in range(20) for i in range(4)]
    await there(admin, *victims, others=tuple(gang(f"v{g}", 4) for g in range(20)))
    gangs = [gang(f"p{g}", 3) for g in range(20)]
    members = [pod(f"p{g}-{i}", "high", f"p{g}") for g in range(20) for i in range(3)]
    gone = await come(admin, start_scheduler, *gangs, *members, gangMode="atomic")
    assert len(gone) == 60


async def test_room_that_is_freed_anyway_is_waited_for(admin: Client, start_scheduler: Start) -> None:
    """A pod terminates: the gang waits until it is gone, and nobody is evicted for it."""
    await there(admin, pod("leaves-0", "low", terminationGracePeriodSeconds=15), pod("stays-0", "low"))
    async with admin.record("Pod") as recorder, start_scheduler():
        await admin.delete("Pod", "leaves-0")
        await admin.apply(pod("new-0", "high"))
        nominated = await recorder.wait(lambda c: c.name == "new-0" and c.object["status"].get("nominatedNodeName"))
        assert nominated.object["status"]["nominatedNodeName"] == "on-leaves-0"
        await running(admin, ["new-0"])
    assert left(recorder) == {"leaves-0"}
    assert (await admin.get("Pod", "new-0"))["spec"]["nodeName"] == "on-leaves-0"
