"""Volcano on a test cluster, as far as a scheduler sees it: PodGroups, their members, and a Lease that is renewed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from tests.controlplane.client import Client, Object
from tests.e2e.jobs import template

GROUP = "scheduling.volcano.sh/v1beta1/PodGroup"


def lease(name: str, namespace: str) -> Object:
    """Another scheduler's, as it is renewed at this moment."""
    spec = {
        "holderIdentity": f"{name}-0",
        "leaseDurationSeconds": 3,
        "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


@asynccontextmanager
async def volcano(
    admin: Client, name: str = "volcano", namespace: str = "volcano-system"
) -> AsyncIterator[Callable[[], bool]]:
    """A scheduler that does nothing but live, with a Lease of its own, and a way to end it."""

    async def live() -> None:
        while True:
            await admin.apply(lease(name, namespace))
            await asyncio.sleep(0.5)

    task = asyncio.create_task(live())
    try:
        yield task.cancel
    finally:
        task.cancel()


def group(name: str, minimum: int, **tasks: int) -> Object:
    """A PodGroup as Volcano's controllers write it."""
    spec = {"minMember": minimum, "minTaskMember": tasks, "minResources": {"cpu": "6"}, "queue": "default"}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def member(name: str, of: str, task: str) -> Object:
    """A pod of the group that needs a node of its own."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template("3")}
    notes = {"scheduling.k8s.io/group-name": of, "volcano.sh/task-spec": task}
    pod["metadata"] |= {"name": name, "namespace": "default", "annotations": notes}
    pod["spec"]["schedulerName"] = "volcano"
    return pod


def phase(of: str) -> Callable[[Object], bool]:
    """Has the group this phase?"""
    return lambda found: bool(found.get("status", {}).get("phase") == of)
