"""Gangs without a group object on a real API server: a Job by its annotation, a training job by the setting."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.client import Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, job, template
from tests.e2e.kinds import definition, served
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


LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"


@pytest.fixture
async def operators(admin: Client) -> AsyncIterator[None]:
    """Their kinds are served."""
    torch = definition("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    leader_worker_sets = definition("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
    async with served(admin, torch, leader_worker_sets):
        yield


async def test_a_training_job_of_another_operator(admin: Client, start_scheduler: Start, operators: None) -> None:
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


def stateful(name: str, policy: str) -> Object:
    """A StatefulSet of two pods, of which each needs a node of its own."""
    made = template("3")
    made["metadata"]["labels"] = {"app": name}
    made["spec"].pop("restartPolicy")
    spec = {"replicas": 2, "podManagementPolicy": policy, "serviceName": name, "template": made}
    meta = {"name": name, "namespace": "default", "annotations": {"gangsched.dev/gang": "true"}}
    selector = {"matchLabels": {"app": name}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": {**spec, "selector": selector}}


def of_group(worker: int, cpu: str) -> Object:
    """A pod of the first group of a LeaderWorkerSet, as its controller makes it."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template(cpu)}
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {f"{prefix}name": "serve", f"{prefix}group-index": "0", f"{prefix}worker-index": str(worker)}
    name = f"serve-0-{worker}" if worker else "serve-0"
    pod["metadata"] |= {"name": name, "namespace": "default", "labels": labels, "annotations": {f"{prefix}size": "2"}}
    return pod


async def test_stateful_sets_and_leaders_that_are_ready_first(
    admin: Client, start_scheduler: Start, operators: None
) -> None:
    """While one of two nodes is taken, a StatefulSet that creates all pods at once has both waiting, and one that
    creates them one by one its first: for room that its second will need. So does the leader of a LeaderWorkerSet; it
    starts beside the room of its worker, which a pod that comes before that worker does not get.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    blocker = {"apiVersion": "v1", "kind": "Pod", **template("3")}
    blocker["metadata"] |= {"name": "blocker", "namespace": "default"}

    async def told(*names: str) -> None:
        async def all_told() -> bool:
            return set(names) <= {e["regarding"]["name"] for e in await events(admin, "FailedScheduling")}

        await wait_until(all_told, timeout=60, what=f"{names} are told why they wait")

    async with start_scheduler():
        await admin.apply(blocker)
        await running(admin, ["blocker"])
        await admin.apply([stateful("db", "Parallel"), stateful("log", "OrderedReady")])
        await told("db-0", "db-1", "log-0")
        waiting = [await admin.get("Pod", name) for name in ("db-0", "db-1", "log-0")]
        await admin.delete("StatefulSet", "db")
        await admin.delete("Pod", "blocker")
        await running(admin, ["log-0", "log-1"])
        await admin.delete("StatefulSet", "log")
        spec = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 2, "workerTemplate": template("3")}}
        meta = {"name": "serve", "namespace": "default", "annotations": {"gangsched.dev/gang": "true"}}
        version, _, kind = LWS.rpartition("/")
        await admin.apply({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})
        blocker["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
        blocker["spec"]["nodeName"] = "node-1"
        second = {**blocker, "spec": {**blocker["spec"], "nodeName": "node-2"}}
        second["metadata"] = {**blocker["metadata"], "name": "second"}
        await admin.apply([blocker, second])
        await running(admin, ["blocker", "second"])
        await admin.apply(of_group(0, "1"))
        await told("serve-0")
        await admin.delete("Pod", "second")
        await running(admin, ["serve-0"])
        third = {"apiVersion": "v1", "kind": "Pod", **template("3")}
        third["metadata"] |= {"name": "third", "namespace": "default"}
        await admin.apply(third)
        await told("third")
        await admin.apply(of_group(1, "3"))
        await running(admin, ["serve-0-1"])
    assert [p["spec"].get("nodeName") for p in waiting] == [None, None, None]
