"""A waiting gang is deleted on a real API server, its owner before its pods: nobody is evicted for what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.controlplane.client import Client, Object, load, wait_until
from tests.controlplane.jobsets import jobset_controller, serve_jobsets
from tests.e2e.jobs import CLUSTER, SCHEDULER, template
from tests.e2e.kinds import definition, served
from tests.e2e.stories import Start, events, is_marked, nodes_ready, running

pytestmark = pytest.mark.controlplane

#: How often each kind is deleted.
ROUNDS = 4
#: More pods than both nodes can take, each as large as one of those that run.
SIZE = 6
GANG = {"gangsched.dev/gang": "true"}
TORCH, RAY, JOBSET = "kubeflow.org/v1/PyTorchJob", "ray.io/v1/RayCluster", "jobset.x-k8s.io/v1alpha2/JobSet"
GROUP, LABEL = "scheduling.sigs.k8s.io/v1alpha1", "pod-group.scheduling.sigs.k8s.io"


@pytest.fixture
async def operators(admin: Client) -> AsyncIterator[None]:
    """Their kinds are served; of JobSets a stand-in of the controller makes the Jobs."""
    await serve_jobsets(admin)
    torch = definition("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    ray = definition("ray.io", "v1", "RayCluster", "rayclusters")
    async with served(admin, torch, ray), jobset_controller(admin):
        yield


def urgent() -> Object:
    """What the waiting pods are: each could take the place of one that runs."""
    made = template("2")
    made["spec"]["priorityClassName"] = "urgent"
    return made


def object_of(api: str, name: str, spec: Object) -> Object:
    """An owner that is declared a gang."""
    version, _, kind = api.rpartition("/")
    meta = {"name": name, "namespace": "default", "annotations": GANG}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def job_spec(**labels: str) -> Object:
    """A Job of them."""
    made = urgent()
    made["metadata"]["labels"] = labels
    return {"parallelism": SIZE, "completions": SIZE, "completionMode": "Indexed", "template": made}


def labels_of(api: str, index: int) -> dict[str, str]:
    """The role of a pod, as its operator labels it."""
    if api == TORCH:
        prefix = "training.kubeflow.org/replica"
        return {f"{prefix}-type": "worker", f"{prefix}-index": f"{index}"}
    return {"ray.io/node-type": "worker" if index else "head", "ray.io/group": "w" if index else "headgroup"}


async def owned(admin: Client, api: str, name: str) -> None:
    """The pods that an operator would make."""
    version, _, kind = api.rpartition("/")
    uid = (await admin.get(api, name))["metadata"]["uid"]
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    for index in range(SIZE):
        pod = {"apiVersion": "v1", "kind": "Pod", **urgent()}
        pod["metadata"] |= {"name": f"{name}-{index}", "namespace": "default", "ownerReferences": [owner]}
        pod["metadata"]["labels"] = labels_of(api, index)
        await admin.apply(pod)


async def start(admin: Client, kind: str, name: str) -> str:
    """A gang of this kind is created; returns the API of what is to be deleted."""
    match kind:
        case "Job":
            await admin.apply(object_of("batch/v1/Job", name, job_spec()))
            return "Job"
        case "JobSet":
            jobs = [{"name": "w", "replicas": 1, "template": {"spec": job_spec()}}]
            await admin.apply(object_of(JOBSET, name, {"replicatedJobs": jobs}))
            return JOBSET
        case "RayCluster":
            groups = [{"groupName": "w", "replicas": SIZE - 1, "template": {"spec": {}}}]
            await admin.apply(object_of(RAY, name, {"headGroupSpec": {"template": {}}, "workerGroupSpecs": groups}))
            await owned(admin, RAY, name)
            return RAY
        case "PyTorchJob":
            await admin.apply(object_of(TORCH, name, {"pytorchReplicaSpecs": {"Worker": {"replicas": SIZE}}}))
            await owned(admin, TORCH, name)
            return TORCH
    await admin.apply(object_of("batch/v1/Job", name, job_spec(**{LABEL: name})))
    uid = (await admin.get("Job", name))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    meta: dict[str, Any] = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    await admin.apply({"apiVersion": GROUP, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": SIZE}})
    return "Job"


@pytest.mark.parametrize("kind", ["Job", "JobSet", "RayCluster", "PyTorchJob", "the owner of a PodGroup"])
async def test_what_is_left_of_a_deleted_gang_evicts_nobody(
    admin: Client, start_scheduler: Start, operators: None, kind: str
) -> None:
    """Four pods of low priority fill the nodes; a gang of six of a high priority waits, and is deleted in the
    background: its owner goes before its pods do.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    low = []
    for index in range(4):
        pod = {"apiVersion": "v1", "kind": "Pod", **template("2")}
        pod["metadata"] |= {"name": f"low-{index}", "namespace": "default"}
        low.append(pod)
    names = [pod["metadata"]["name"] for pod in low]
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(low)
        await running(admin, names)
        for number in range(ROUNDS):
            name = f"wide-{number}"
            api = await start(admin, kind, name)

            async def told(name: str = name) -> bool:
                found = await events(admin, "FailedScheduling")
                return sum(e["regarding"]["name"].startswith(name) for e in found) >= SIZE

            await wait_until(told, timeout=90, what="its members are told why they wait")
            await admin.delete(api, name)

            async def left() -> bool:
                return {p["metadata"]["name"] for p in await admin.list("Pod")} == set(names)

            await wait_until(left, timeout=90, what="its pods are removed")
        found = {p["metadata"]["name"]: p for p in await admin.list("Pod")}
    assert {c.name for c in recorder.changes if is_marked(c)} == set()
    assert {name: p["spec"]["nodeName"] != "" for name, p in found.items()} == dict.fromkeys(names, True)
    assert all(p["spec"]["schedulerName"] == SCHEDULER for p in found.values())
