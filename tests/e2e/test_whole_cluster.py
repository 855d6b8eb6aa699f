"""A cluster without kube-scheduler: this process serves `default-scheduler`, and what users run there works."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.e2e.scheduler import RunningScheduler

pytestmark = pytest.mark.controlplane

NODES = 4
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "30"}


def node(number: int) -> Object:
    """A simulated node in one of two zones."""
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 2}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": ROOM, "allocatable": ROOM},
    }


def template(app: str, cpu: str = "500m", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """The pod template of a workload."""
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def workload(kind: str, name: str, version: str = "apps/v1", **spec: Any) -> Object:
    """A workload of this kind."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def selected(app: str) -> dict[str, Any]:
    """The selector of a workload."""
    return {"matchLabels": {"app": app}}


async def running(admin: Client, app: str) -> list[Object]:
    """Its pods that run and stay."""
    pods = await admin.list("Pod", "default", labels=f"app={app}")
    return [p for p in pods if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]


def nodes_of(pods: list[Object]) -> list[str]:
    """Where they are."""
    return sorted(p["spec"]["nodeName"] for p in pods)


@pytest.fixture
async def cluster(
    admin: Client, start_scheduler: Callable[..., AbstractAsyncContextManager[RunningScheduler]]
) -> AsyncIterator[Client]:
    """Four nodes, and nobody but this scheduler."""
    for number in range(NODES):
        await admin.apply(node(number))
    async with start_scheduler(profiles=[{"schedulerName": "default-scheduler"}]):
        yield admin


async def test_deployment_rolling_update_and_drain(cluster: Client) -> None:
    """Replicas spread over nodes, a new version replaces the old one, and a drained node's pods move elsewhere."""
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selected("web"),
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]
    made = workload(
        "Deployment",
        "web",
        replicas=8,
        selector=selected("web"),
        template=template("web", topologySpreadConstraints=spread),
    )
    await cluster.apply(made)
    await cluster.wait_for("Deployment", "web", lambda d: d["status"].get("availableReplicas") == 8)
    pods = await running(cluster, "web")
    assert nodes_of(pods) == [f"node-{n}" for n in range(NODES) for _ in range(2)]

    made["spec"]["template"] = template("web", cpu="600m", topologySpreadConstraints=spread)
    [changed] = await cluster.apply(made)

    def rolled_out(found: Object) -> bool:
        status = found["status"]
        seen = status.get("observedGeneration", 0) >= changed["metadata"]["generation"]
        return bool(
            seen and status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 8
        )

    await cluster.wait_for("Deployment", "web", rolled_out, timeout=60)
    budget = workload("PodDisruptionBudget", "web", "policy/v1", minAvailable=6, selector=selected("web"))
    await cluster.apply(budget)
    await cluster.wait_for("PodDisruptionBudget", "web", lambda b: b["status"].get("disruptionsAllowed", 0) == 2)
    await drain(cluster, "node-0")
    await cluster.wait_for("Deployment", "web", lambda d: d["status"].get("availableReplicas", 0) >= 6)
    assert "node-0" not in nodes_of(await running(cluster, "web"))


async def drain(admin: Client, name: str) -> None:
    """Cordon the node and evict what runs there, as `kubectl drain` does, waiting where a budget says so."""
    await admin.patch("Node", name, {"spec": {"unschedulable": True}})

    async def empty() -> bool:
        left = await admin.list("Pod", "default", fields=f"spec.nodeName={name}")
        for pod in left:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/eviction"
            try:
                await admin.request("POST", path, eviction)
            except ApiError as error:
                if error.status not in (404, 429):  # gone meanwhile, or the budget allows none now
                    raise
        return not left

    await wait_until(empty, 60, f"{name} is empty")


async def test_daemonset_follows_the_nodes(cluster: Client) -> None:
    """One pod per node, each on the node that it is meant for, also on one that joins later and on a cordoned one."""
    await cluster.patch("Node", "node-1", {"spec": {"unschedulable": True}})
    made = workload("DaemonSet", "agent", selector=selected("agent"), template=template("agent"))
    await cluster.apply(made)
    await cluster.wait_for("DaemonSet", "agent", lambda d: d["status"].get("numberAvailable") == NODES)
    await cluster.apply(node(NODES))
    await cluster.wait_for("DaemonSet", "agent", lambda d: d["status"].get("numberAvailable") == NODES + 1)
    assert nodes_of(await running(cluster, "agent")) == [f"node-{n}" for n in range(NODES + 1)]


async def test_job_runs_to_completion(cluster: Client) -> None:
    """More pods than fit at once, one after the other, until the Job is complete."""
    runs = {"sim.gangsched.dev/run-for": "1s"}
    pods = template("sum", cpu="5", annotations=runs, restartPolicy="Never")
    await cluster.apply(workload("Job", "sum", "batch/v1", completions=10, parallelism=6, template=pods))

    def complete(job: Object) -> bool:
        conditions = job["status"].get("conditions", [])
        return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)

    job = await cluster.wait_for("Job", "sum", complete, timeout=90)
    assert job["status"]["succeeded"] == 10
    assert not job["status"].get("failed")


async def test_a_critical_pod_gets_its_room(cluster: Client) -> None:
    """A pod of the class system-cluster-critical takes the room of ordinary ones, and their owner brings them back."""
    made = workload(
        "Deployment", "filler", replicas=16, selector=selected("filler"), template=template("filler", "1900m")
    )
    await cluster.apply(made)
    await cluster.wait_for("Deployment", "filler", lambda d: d["status"].get("availableReplicas") == 16)
    critical = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "critical", "namespace": "kube-system"},
        "spec": {**template("critical", "4")["spec"], "priorityClassName": "system-cluster-critical"},
    }
    await cluster.create(critical)

    def runs(found: Object) -> bool:
        return bool(found["status"].get("phase") == "Running")

    await cluster.wait_for("Pod", "critical", runs, "kube-system")
    await cluster.wait_for("Deployment", "filler", lambda d: d["status"].get("availableReplicas") == 14)
    pending = [p for p in await cluster.list("Pod", "default", labels="app=filler") if not p["spec"].get("nodeName")]
    assert len(pending) == 2
    await cluster.delete("Pod", "critical", "kube-system")
    await cluster.wait_for("Deployment", "filler", lambda d: d["status"].get("availableReplicas") == 16)
