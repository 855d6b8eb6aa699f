"""Kueue's marks on a real API server, with ``quota.mode: own``: what two admitters would start is left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.kube.kueue import GROUP, WORKLOADS, serve
from tests.controlplane.client import Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, SCHEDULER, job, template
from tests.e2e.queues import install_queues
from tests.e2e.stories import Start, events, nodes_ready

pytestmark = pytest.mark.controlplane

QUEUE, GATE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission"
TEAM = "duo"
SPACE = f"{TEAM}-b"


@pytest.fixture
async def kueue(admin: Client) -> AsyncIterator[None]:
    """Queues, and Kueue's kind beside them."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    await install_queues(admin, TEAM)
    await serve(admin, WORKLOADS)
    yield
    await admin.delete("CustomResourceDefinition", WORKLOADS["metadata"]["name"])


def pod(name: str, **spec: Any) -> Object:
    """A pod of one core with a queue."""
    body = {"apiVersion": "v1", "kind": "Pod", **template("1")}
    body["metadata"] = {"name": name, "namespace": SPACE, "labels": {QUEUE: "local-queue"}}
    body["spec"] |= spec
    return body


async def told(admin: Client, name: str) -> Object:
    """The one Event about two admitters that an object gets."""

    async def there() -> list[Object]:
        return [e for e in await admin.list("events.k8s.io/v1/Event") if said(e, name)]

    found: list[Object] = await wait_until(there, timeout=90, what=f"{name} hears of two admitters")
    [event] = found
    return event


def said(event: Object, name: str) -> bool:
    """Is this such an Event, about the object of this name?"""
    return event.get("reason") == "TwoAdmitters" and event["regarding"]["name"] == name


async def runs(admin: Client, name: str) -> None:
    """Wait until the pod runs."""
    await admin.wait_for("Pod", name, lambda p: p["status"].get("phase") == "Running", namespace=SPACE, timeout=60)


async def test_what_kueue_admits_is_left_alone(admin: Client, start_scheduler: Start, kueue: None) -> None:
    """A pod with Kueue's gate and label, and a suspended Job with a Workload: each has one Event and does not run; a
    pod and a Job beside them do. When the marks are gone, they run too.
    """
    theirs = pod("gated", schedulingGates=[{"name": GATE}])
    theirs["metadata"]["labels"]["kueue.x-k8s.io/managed"] = "true"
    jobs = [job(n, parallelism=1, completions=1, suspend=True, template=template("1")) for n in ("theirs", "ours")]
    for each in jobs:
        each["metadata"] |= {"namespace": SPACE, "labels": {QUEUE: "local-queue"}}
    await admin.apply(jobs[0])
    owner = await admin.get("Job", "theirs", SPACE)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": owner["metadata"]["uid"]}
    meta = {"name": "job-theirs", "namespace": SPACE, "ownerReferences": [reference]}
    await admin.create({"apiVersion": f"{GROUP}/v1beta2", "kind": "Workload", "metadata": meta}, SPACE)
    async with start_scheduler(quota={"mode": "own"}):
        await admin.apply([theirs, pod("normal"), jobs[1]])
        await runs(admin, "normal")
        await admin.wait_for(
            "Job", "ours", lambda j: j.get("status", {}).get("ready", 0) == 1, namespace=SPACE, timeout=60
        )
        event = await told(admin, "gated")
        of_job = await told(admin, "theirs")
        kept = await admin.get("Pod", "gated", SPACE)
        held = await admin.get("Job", "theirs", SPACE)
        change = {"metadata": {"labels": {"kueue.x-k8s.io/managed": None}}, "spec": {"schedulingGates": None}}
        await admin.patch("Pod", "gated", change, namespace=SPACE)
        await runs(admin, "gated")
        await admin.delete(f"{GROUP}/v1beta2/Workload", "job-theirs", SPACE)
        await admin.wait_for(
            "Job", "theirs", lambda j: j.get("status", {}).get("ready", 0) == 1, namespace=SPACE, timeout=60
        )
    assert event["type"] == "Warning"
    assert f"Kueue (scheduling gate {GATE}) and {SCHEDULER} (quota.mode: own)" in event["note"]
    assert (of_job["regarding"]["kind"], of_job["type"]) == ("Job", "Warning")
    assert f"Kueue (Workload {SPACE}/job-theirs)" in of_job["note"]
    assert "nodeName" not in kept["spec"]
    assert held["spec"]["suspend"] is True
    assert len([e for e in await events(admin, "TwoAdmitters") if e["regarding"]["namespace"] == SPACE]) == 2
