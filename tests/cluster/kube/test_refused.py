"""Pods and nodes that cannot be understood, from the frames of a watch to what is decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from gangsched.cluster.kube.client import Client, ListMeta, Page
from gangsched.cluster.kube.reflector import Reflector
from gangsched.cluster.kube.resources import CORE_RESOURCES, SERVED_APIS
from gangsched.core.events import Event, GangGone, ObjectRefused, PodChanged
from gangsched.model.convert import Converter
from tests.builders import OURS, gang, node, pod
from tests.core.harness import Cluster, nodes_of, reports, texts


class Server:
    """Lists nothing, and then tells what happens, once."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._objects = objects
        self.told = asyncio.Event()

    async def list_pages(self, *_: Any) -> AsyncGenerator[Page, None]:
        """An empty list."""
        yield Page(ListMeta(resource_version="1"), b'{"items": []}')

    async def watch_lines(self, *_: Any, **__: Any) -> AsyncGenerator[list[bytes], None]:
        """All changes, and silence."""
        yield [json.dumps({"type": "MODIFIED", "object": each}).encode() for each in self._objects]
        self.told.set()
        await asyncio.sleep(3600)


async def events_of(name: str, *objects: dict[str, Any]) -> list[Event]:
    """What is made of these states of objects of one resource."""
    out: list[Event] = []
    server = Server(*objects)
    resources = [*CORE_RESOURCES, *(api.resource(api.versions[0]) for api in SERVED_APIS)]
    resource = next(each for each in resources if each.name == name)
    task = asyncio.create_task(Reflector(resource, cast("Client", server), Converter(), out.extend).run())
    await server.told.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return out


def seen(kind: str, name: str, version: int, spec: Any, **status: Any) -> dict[str, Any]:
    """An object as the server shows it."""
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta | ({} if kind == "Node" else {"namespace": "d"}), "spec": spec, "status": status}


def runs(version: int, cpu: Any, **spec: Any) -> dict[str, Any]:
    """A pod on n1."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return seen("Pod", "runs", version, {"nodeName": "n1", "containers": containers, **spec}, phase="Running")


@pytest.mark.parametrize("first", [[], [runs(2, "1")]], ids=["at first sight", "later"])
@pytest.mark.parametrize(
    ("state", "left"),
    [
        (runs(3, "3", preemptionPolicy="Sometimes"), {"small"}),
        (runs(3, "1e30"), set()),
        (runs(3, {}), set()),
    ],
    ids=["readable requests", "absurd requests", "wrong types"],
)
async def test_a_bound_pod_takes_room(first: list[dict[str, Any]], state: dict[str, Any], left: set[str]) -> None:
    """What can be read of its requests, else its whole node, at first sight or later, and it is told once."""
    events = await events_of("pods", *first, state, state)
    cluster = Cluster(node("n1"), pod("big").cpu(2), pod("small").cpu(1), *events)
    cluster.run()
    assert nodes_of(cluster.log).keys() == left
    assert sum(isinstance(event, ObjectRefused) for event in events) == 1
    assert len(reports(cluster.log, "InvalidObject")) == 1


async def test_a_pod_that_is_bound_while_it_cannot_be_read_takes_room() -> None:
    """Each state counts, though only the first is told."""
    waiting = runs(2, "1e30") | {"status": {"phase": "Pending"}}
    waiting["spec"] = waiting["spec"] | {"nodeName": ""}
    events = await events_of("pods", waiting, runs(3, "1e30"), runs(4, "1"))
    assert [e.pod.node for e in events if isinstance(e, PodChanged)] == ["", "n1", "n1"]
    assert sum(isinstance(event, ObjectRefused) for event in events) == 1
    cluster = Cluster(node("n1"), pod("big").cpu(3), *events)
    cluster.run()
    assert nodes_of(cluster.log) == {"big": "n1"}


async def test_a_pod_of_ours_that_cannot_be_read_any_more_waits() -> None:
    """It is not placed by what was known before; it says why, and goes on when it is mended."""
    spec = {"schedulerName": OURS, "containers": []}
    events = await events_of(
        "pods",
        seen("Pod", "p", 2, spec),
        seen("Pod", "p", 3, spec | {"tolerations": [{"operator": "Is"}]}),
    )
    cluster = Cluster(node("n1"), *events)
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert [reason for reason, _ in texts(cluster.log, "p")] == ["InvalidObject"]
    assert len(reports(cluster.log, "InvalidObject")) == 1
    cluster.show(*await events_of("pods", seen("Pod", "p", 4, spec)))
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n1"}


@pytest.mark.parametrize("cpu", ["lots", {}])
async def test_a_node_that_shrinks_out_of_sight_takes_no_new_pods(cpu: Any) -> None:
    """Its old size does not count for new pods when the new one cannot be read."""
    events = await events_of(
        "nodes",
        seen("Node", "n1", 2, {}, allocatable={"cpu": "8", "pods": "9"}),
        seen("Node", "n1", 3, {}, allocatable={"cpu": cpu, "pods": "9"}),
    )
    cluster = Cluster(*events, pod("p").cpu(1))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert len(reports(cluster.log, "InvalidObject")) == 1


@pytest.mark.parametrize("family", ["scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io"])
async def test_a_group_that_cannot_be_read_any_more_holds_its_gang(family: str) -> None:
    """Whichever API it is of, its gang does not go on by what was known before."""
    policy: dict[str, Any] = {"minMember": -1, "schedulingPolicy": {"gang": {"minCount": -1}}}
    events = await events_of(f"podgroups.{family}", seen("PodGroup", "g", 3, policy))
    cluster = Cluster(node("n1"), gang("g").family(family).min(1), *events, pod("m").cpu(1).gang("g", family))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert "was refused" in texts(cluster.log, "m")[-1][1]
    cluster.show(GangGone(family, "d", "g"), gang("g").family(family).min(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"m": "n1"}
