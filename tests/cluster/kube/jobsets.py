"""JobSets to write to."""

from __future__ import annotations

from typing import Any

from gangsched.core.actions import JobRef, ResumeJob
from gangsched.model.jobsets import JOBSET
from tests.controlplane.client import Client, Object

US = "py-gang-scheduler"


async def make_jobset(admin: Client, namespace: str, **spec: Any) -> Object:
    """Two Jobs of three pods."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": US, "restartPolicy": "Never", "containers": [container]}}
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": template}}}]
    meta = {"name": "js", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": jobs, **spec},
    }
    return await admin.create(body, namespace)


def reference(found: Object) -> JobRef:
    """Which JobSet it is."""
    meta = found["metadata"]
    return JobRef(meta["namespace"], meta["name"], meta["uid"], JOBSET)


def resume(found: Object, number: int = 2, *, held: bool = False) -> ResumeJob:
    """Let it go on."""
    return ResumeJob(number, reference(found), found["metadata"]["resourceVersion"], US, held=held)
