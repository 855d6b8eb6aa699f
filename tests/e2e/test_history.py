"""Who was evicted, when the pod, its Event and the scheduler are gone, on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.on_a_cluster import ran
from tests.controlplane.client import Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, job, template, urgent
from tests.e2e.stories import Start, nodes_ready
from tests.pages import read_schema

pytestmark = pytest.mark.controlplane
#: Pods that stop until they are killed.
SLOW = {"terminationGracePeriodSeconds": 100}
CONDITION = "gangsched.dev/PodsEvicted"


async def ready(admin: Client, kind: str, name: str, field: str) -> None:
    """All four pods of the owner run."""
    await admin.wait_for(kind, name, lambda found: found.get("status", {}).get(field, 0) == 4, timeout=60)


def says(found: Object) -> list[str]:
    """What the condition of an owner says, if it is there."""
    return [c["message"] for c in found["status"].get("conditions", []) if c["type"] == CONDITION]


async def says_who_stops(admin: Client, kubeconfig: Path) -> None:
    """While victims stop, the answer about the gang names them, and that about a victim the gang."""
    out = ""

    async def named() -> bool:
        nonlocal out
        out = (await ran(kubeconfig, "explain", "first", "-n", "default"))[1]
        return "4 pods evicted for it are stopping: default/web-" in " ".join(out.split())

    try:
        await wait_until(named, 60, "the gang waits for those that were evicted for it", interval=0.5)
    except AssertionError as error:
        error.add_note(out)
        raise
    slow = [p["metadata"]["name"] for p in await admin.list("Pod", "default") if "deletionTimestamp" in p["metadata"]]
    out = (await ran(kubeconfig, "explain", f"pod/{slow[0]}", "-n", "default"))[1]
    assert "LEAVING  it was evicted for default/first and stops, until " in out.splitlines()[1], out
    for name in slow:
        await admin.delete("Pod", name, grace_seconds=0)


async def test_evictions_can_be_asked_for_afterwards(
    admin: Client, start_scheduler: Start, scheduler_kubeconfig: Path
) -> None:
    """Record, condition of the Job and Event of the ReplicaSet outlive the pods and the scheduler."""
    labels = {"app": "web"}
    web = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {**template("1")["spec"], "restartPolicy": "Always", **SLOW},
            },
        },
    }
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler():
        await admin.apply([job("train", template=template("1"), parallelism=4, completions=4, backoffLimit=20)])
        await admin.apply([web])
        await ready(admin, "Job", "train", "ready")
        await ready(admin, "ReplicaSet", "web", "readyReplicas")
        victims = {p["metadata"]["name"] for p in await admin.list("Pod", "default")}
        await admin.apply(urgent("first"))
        await says_who_stops(admin, scheduler_kubeconfig)
        for number in (1, 2):
            await admin.wait_for("Pod", f"first-{number}", lambda p: p["status"].get("phase") == "Running", timeout=60)
        found = await admin.wait_for("Job", "train", lambda j: bool(says(j)), timeout=60)
    assert "Preempted 4 pods for gang default/first" in says(found)[0]
    events = [e for e in await admin.list("events.k8s.io/v1/Event") if e.get("reason") == "PodsEvicted"]
    assert {e["regarding"]["name"] for e in events} >= {"web"}
    for event in events:
        await admin.delete("events.k8s.io/v1/Event", event["metadata"]["name"], event["metadata"]["namespace"])
    assert not victims & {p["metadata"]["name"] for p in await admin.list("Pod", "default")}

    code, out, err = await ran(scheduler_kubeconfig, "history", "-o", "json", "--since", "10m")
    assert code == 0, err
    document = json.loads(out)
    jsonschema.validate(document, read_schema("history-v1"))
    preempted = [each for each in document["lines"] if "gang default/first " in each["message"]]
    pods = [o for each in preempted if each["kind"] == "Pod" for o in each["objects"]]
    assert {o["name"] for o in pods} == victims
    assert {o["node"] for o in pods} == {"node-1", "node-2"}
    for name in (min(victims), f"pod/{max(victims)}", "job/train", "deployment/web"):
        code, out, err = await ran(scheduler_kubeconfig, "why-evicted", name, "-n", "default")
        assert code == 0, err
        assert "Preempted by gang default/first (priority 1000" in out
        code, out, err = await ran(scheduler_kubeconfig, "explain", name, "-n", "default")
        told = " ".join(out.split())
        assert code == 0, err
        assert "made room for gang default/first at" in told, told
        assert "to protect it: a priority of 1000 or more" in told, told
    code, out, err = await ran(scheduler_kubeconfig, "why-evicted", "default/nobody")
    assert code == 2
    assert out.startswith("NO SCHEDULER IS LEADING since ")
    assert len(out.splitlines()) == 1, out
    assert "no eviction of pod default/nobody is on record, which begins at 20" in err
