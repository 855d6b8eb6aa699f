"""Jobs, their templates, and what is seen of them."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Client, Object, Recorder, load
from tests.e2e.stories import is_marked

SCHEDULER = "py-gang-scheduler"

MEMBERS = 8

BY, FOR = "gangsched.dev/suspended-by", "gangsched.dev/preempted-by"

URGENT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---"""

CLUSTER = (
    URGENT
    + """
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
)


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


async def leave(admin: Client, name: str) -> None:
    """The gang is deleted."""
    for number in (1, 2):
        await admin.delete("Pod", f"{name}-{number}")


def marked(recorder: Recorder) -> set[str]:
    """The pods that were marked as victims."""
    return {c.name for c in recorder.changes if is_marked(c)}


def finished(found: Object) -> bool:
    """The Job has come to an end, whichever."""
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)
