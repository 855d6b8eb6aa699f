"""Gangs without a group object on a real API server: a Job by its annotation, a training job by the setting."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.e2e.jobs import CLUSTER, job, template
from tests.e2e.stories import Start, events, nodes_ready, running

pytestmark = pytest.mark.controlplane


def pair(name: str, *, gang: bool) -> Object:
    """A Job of two pods, of which each needs a node of its own."""
    made = job(name, parallelism=2, completions=2, completionMode="Indexed", template=template("3"))
    if gang:
        made["metadata"]["annotations"] = {"gangsched.dev/gang": "true"}
    return made


async def test_it_starts_whole_or_not_at_all(admin: Client, start_scheduler: Start) -> None:
    """One node is free: the Job with the annotation waits, the one without takes that node, and when both nodes are
    free the gang starts.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    blocker = {"apiVersion": "v1", "kind": "Pod", **template("3")}
    blocker["metadata"] |= {"name": "blocker", "namespace": "default"}
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(blocker)
        await running(admin, ["blocker"])
        await admin.apply(pair("whole", gang=True))
        await admin.wait_for("Job", "whole", lambda j: j.get("status", {}).get("active", 0) == 2, timeout=60)
        await admin.apply(pair("loose", gang=False))
        await admin.wait_for("Job", "loose", lambda j: j.get("status", {}).get("ready", 0) == 1, timeout=60)
        waiting = [p for p in await admin.list("Pod") if p["metadata"]["name"].startswith("whole-")]
        await admin.delete("Job", "loose")
        await admin.delete("Pod", "blocker")
        await admin.wait_for("Job", "whole", lambda j: j.get("status", {}).get("ready", 0) == 2, timeout=60)
    assert len(waiting) == 2
    assert [p["spec"].get("nodeName") for p in waiting] == [None, None]
    assert {c.name.rpartition("-")[0] for c in recorder.changes if c.name.startswith("whole")} == {"whole-0", "whole-1"}


TORCH = "kubeflow.org/v1/PyTorchJob"


def definition() -> Object:
    """The kind, as far as a scheduler sees it."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "PyTorchJob", "plural": "pytorchjobs", "singular": "pytorchjob", "listKind": "PyTorchJobList"}
    spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "pytorchjobs.kubeflow.org"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec,
    }


@pytest.fixture
async def pytorch_jobs(admin: Client) -> AsyncIterator[None]:
    """The kind is served."""
    await admin.apply(definition())
    await wait_until_served(admin, TORCH)
    yield
    await admin.delete("CustomResourceDefinition", "pytorchjobs.kubeflow.org")


async def test_a_training_job_of_another_operator(admin: Client, start_scheduler: Start, pytorch_jobs: None) -> None:
    """By the setting, without any annotation: a master and a worker wait for the second node."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    roles = {role: {"replicas": 1} for role in ("Master", "Worker")}
    made = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"pytorchReplicaSpecs": roles},
    }
    await admin.apply(made)
    uid = (await admin.get(TORCH, "train"))["metadata"]["uid"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": uid, "controller": True}
    pods = []
    for name in ("blocker", "train-master-0", "train-worker-0"):
        pod = {"apiVersion": "v1", "kind": "Pod", **template("3")}
        pod["metadata"] |= {"name": name, "namespace": "default"}
        if name != "blocker":
            pod["metadata"]["ownerReferences"] = [owner]
        pods.append(pod)
    async with start_scheduler(gangs={"owners": ["PyTorchJob"]}):
        await admin.apply(pods[0])
        await running(admin, ["blocker"])
        await admin.apply(pods[1:])

        async def told() -> bool:
            found = await events(admin, "FailedScheduling")
            return {"train-master-0", "train-worker-0"} <= {e["regarding"]["name"] for e in found}

        await wait_until(told, timeout=60, what="both are told why they wait")
        waiting = [await admin.get("Pod", p["metadata"]["name"]) for p in pods[1:]]
        await admin.delete("Pod", "blocker")
        await running(admin, ["train-master-0", "train-worker-0"])
    assert [p["spec"].get("nodeName") for p in waiting] == [None, None]
