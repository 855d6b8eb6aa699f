"""``gangsched snapshot`` writes a real cluster as a file that is decided as the cluster is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gangsched.cluster.kube.dump import _scrubbed
from tests.cli.on_a_cluster import make_class, pod, ran
from tests.controlplane.client import Client, Object

SECRET = "correct-horse-battery-staple"


def secretive(name: str, **spec: object) -> Object:
    """A pod with secrets where people have them."""
    made = pod(name, **spec)
    made["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": SECRET,
        "scheduling.koordinator.sh/x": "kept",
    }
    made["spec"]["containers"][0] |= {
        "command": ["run", f"--password={SECRET}"],
        "env": [{"name": "PASSWORD", "value": SECRET}],
    }
    return made


async def command(kubeconfig: Path | None, *arguments: str) -> str:
    """What it prints."""
    code, out, errors = await ran(kubeconfig, *arguments)
    assert code == 0, errors
    return out


def untimed(text: str) -> dict[str, Any]:
    """A plan without how long it took."""
    answer: dict[str, Any] = json.loads(text)
    for decision in answer["decisions"]:
        del decision["planMilliseconds"]
    return answer


async def test_a_snapshot_is_decided_as_the_cluster_is(
    admin: Client,
    namespace: str,
    crds: list[str],
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """Pods, groups, classes, budgets, claims and Jobs are in it; nothing of what pods run with, nor other notes."""
    await make_nodes(2, cpu=4)
    await make_class(admin, f"high-{namespace}")
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    await admin.create({**group, "spec": {"minMember": 2}}, namespace)
    for number in range(2):
        await admin.create(secretive(f"low-{number}", nodeName=f"node-{number}"), namespace)
        member = secretive(f"new-{number}", schedulerName="py-gang-scheduler", priorityClassName=f"high-{namespace}")
        member["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "g"}
        await admin.create(member, namespace)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await admin.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}, namespace
    )
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await admin.create(secretive("stateful", schedulerName="py-gang-scheduler", volumes=[volume]), namespace)
    moment = ("--now", "2100-01-01T00:00:00Z", "-o", "json")
    file = tmp_path / "cluster.json"
    await command(scheduler_kubeconfig, "snapshot", "-o", str(file))
    text = await asyncio.to_thread(file.read_text)
    offline = untimed(await command(None, "plan", "-f", str(file), *moment))
    assert offline == untimed(await command(scheduler_kubeconfig, "plan", "--cluster", *moment))
    assert {d["gang"]: d["outcome"] for d in offline["decisions"]}[f"{namespace}/g"] == "preempt"
    assert SECRET not in text
    assert '"scheduling.koordinator.sh/x": "kept"' in text
    part = json.loads(await command(scheduler_kubeconfig, "snapshot", "-n", "default"))
    assert {each["metadata"].get("namespace") for each in part["items"]} <= {None, "default"}
    assert {"Node", "PriorityClass"} <= {each["kind"] for each in part["items"]}


def test_notes_of_templates_are_scrubbed_too() -> None:
    """A Job has them at two places."""
    notes = {"annotations": {"team": "a", "gangsched.dev/x": "b"}}
    kept = {"annotations": {"gangsched.dev/x": "b"}}
    assert _scrubbed({"metadata": notes, "spec": {"template": {"metadata": notes}, "list": [notes]}}) == {
        "metadata": kept,
        "spec": {"template": {"metadata": kept}, "list": [kept]},
    }
