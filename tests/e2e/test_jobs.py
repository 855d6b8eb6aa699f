"""Jobs as victims on a real API server: suspended, not failed, and back when there is room."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.client import Client, Object, Recorder, load
from tests.e2e.test_stories import Start, events, is_marked, nodes_ready

pytestmark = pytest.mark.controlplane

SCHEDULER = "py-gang-scheduler"
MEMBERS = 8
BY, FOR = "gangsched.dev/suspended-by", "gangsched.dev/preempted-by"

CLUSTER = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
status: {capacity: {cpu: "4", memory: 16Gi, pods: "50"}, allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {kubernetes.io/hostname: node-2}}
status: {capacity: {cpu: "4", memory: 16Gi, pods: "50"}, allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
"""


def template(cpu: str, **annotations: str) -> Object:
    """What the pods are."""
    return {
        "metadata": {"annotations": {f"sim.gangsched.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}},
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}],
        },
    }


def job(name: str, **spec: Any) -> Object:
    """A Job with as many pods as both nodes can hold, and the default backoffLimit."""
    spec = {"parallelism": MEMBERS, "completions": MEMBERS, **spec}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def urgent(name: str) -> list[Object]:
    """A gang of two that takes both nodes whole."""
    group = f"""
        apiVersion: scheduling.sigs.k8s.io/v1alpha1
        kind: PodGroup
        metadata: {{name: {name}, namespace: default}}
        spec: {{minMember: 2}}
    """
    pods = []
    for number in (1, 2):
        pod = {"apiVersion": "v1", "kind": "Pod", **template("4")}
        pod["metadata"] |= {
            "name": f"{name}-{number}",
            "namespace": "default",
            "labels": {"pod-group.scheduling.sigs.k8s.io": name},
        }
        pod["spec"]["priorityClassName"] = "urgent"
        pods.append(pod)
    return [*load(group), *pods]


async def active(admin: Client, name: str, count: int) -> Object:
    """The Job once so many of its pods run."""
    return await admin.wait_for("Job", name, lambda j: j.get("status", {}).get("ready", 0) == count, timeout=60)


async def preempt(admin: Client, name: str, victim: str) -> Object:
    """The gang comes and runs; the Job is what it is then."""
    await admin.apply(urgent(name))
    for number in (1, 2):
        await admin.wait_for("Pod", f"{name}-{number}", lambda p: p["status"].get("phase") == "Running", timeout=60)
    return await admin.get("Job", victim)


async def leave(admin: Client, name: str) -> None:
    """The gang is deleted."""
    for number in (1, 2):
        await admin.delete("Pod", f"{name}-{number}")


def marked(recorder: Recorder) -> set[str]:
    """The pods that were marked as victims."""
    return {c.name for c in recorder.changes if is_marked(c)}


async def test_a_job_of_eight_is_preempted_twice_and_completes(admin: Client, start_scheduler: Start) -> None:
    """With the default backoffLimit of 6 and without a queue: no pod of it ever counts as failed."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(job("train", template=template("1")))
        await active(admin, "train", MEMBERS)
        for name in ("first", "second"):
            before = {p["metadata"]["name"] for p in await admin.list("Pod") if p["metadata"]["name"] < "u"}
            found = await preempt(admin, name, "train")
            assert found["spec"]["suspend"] is True
            assert found["metadata"]["annotations"][BY] == SCHEDULER
            assert found["metadata"]["annotations"][FOR].startswith(f"default/{name}, plan ")
            assert {n for n in before if n.startswith("train-")} <= marked(recorder)
            await leave(admin, name)
            found = await active(admin, "train", MEMBERS)
            assert found["spec"]["suspend"] is False
            assert BY not in found["metadata"].get("annotations", {})
            assert found["status"].get("failed", 0) == 0
        for pod in await admin.list("Pod"):
            note = {"metadata": {"annotations": {"sim.gangsched.dev/run-for": "1s"}}}
            await admin.patch("Pod", pod["metadata"]["name"], note)
        done = await admin.wait_for("Job", "train", finished, timeout=60)
        told = [e for e in await events(admin, "Preempted") if e["regarding"]["kind"] == "Job"]
        resumed = [e for e in await events(admin, "Resumed") if e["reportingController"] == SCHEDULER]
    assert {c["type"] for c in done["status"]["conditions"] if c["status"] == "True"} >= {"Complete"}
    assert done["status"]["succeeded"] == MEMBERS
    assert done["status"].get("failed", 0) == 0
    assert sorted(e["note"].split()[6] for e in told) == ["default/first", "default/second"]
    assert len(resumed) == 2


def finished(found: Object) -> bool:
    """The Job has come to an end, whichever."""
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


async def test_a_job_comes_back_after_a_restart(admin: Client, start_scheduler: Start) -> None:
    """The scheduler that suspended it is gone; the next one knows from the Job that it may go on."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler():
        await admin.apply(job("train", template=template("1")))
        await active(admin, "train", MEMBERS)
        assert (await preempt(admin, "first", "train"))["spec"]["suspend"] is True
    await leave(admin, "first")
    async with start_scheduler():
        found = await active(admin, "train", MEMBERS)
    assert (found["spec"]["suspend"], found["status"].get("failed", 0)) == (False, 0)


async def test_a_job_that_its_user_suspends_stays_so(admin: Client, start_scheduler: Start) -> None:
    """Only what bears our annotation is ours to resume."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler():
        await admin.apply(job("theirs", suspend=True, template=template("1")))
        await admin.apply(job("other", parallelism=1, completions=1, template=template("1", run_for="1s")))
        await admin.wait_for("Job", "other", finished, timeout=60)
        found = await admin.get("Job", "theirs")
    assert found["spec"]["suspend"] is True
    assert not await admin.list("Pod", labels="job-name=theirs")
