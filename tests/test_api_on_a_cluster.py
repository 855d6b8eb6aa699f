"""``gangsched.load`` reads a real API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gangsched import load, plan
from tests.controlplane.client import Client, Object


def pod(name: str, namespace: str, cpu: str) -> Object:
    """A pod of this scheduler."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "py-gang-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_a_cluster_and_what_would_be_applied_to_it(
    admin: Client, namespace: str, scheduler_kubeconfig: Path
) -> None:
    """What is there and what is given are decided together; nothing is written."""
    await admin.create(pod("there", namespace, "2"), namespace)

    def outcomes() -> dict[str, str]:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}
        given = pod("given", namespace, "1"), {**node, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}
        cluster = load(*given, kubeconfig=scheduler_kubeconfig)
        return {each.gang: each.outcome for each in plan(cluster).decisions}

    found = await asyncio.to_thread(outcomes)
    assert found == {f"{namespace}/given": "bind", f"{namespace}/there": "unschedulable"}  # what has no age is oldest
    assert [each["metadata"]["name"] for each in await admin.list("Pod", namespace)] == ["there"]
