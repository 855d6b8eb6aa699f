"""Jobs to write to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gangsched.core.actions import JobRef, ResumeJob, SuspendJob
from tests.cluster.kube.conftest import Reader
from tests.controlplane.client import Client, Object

Make = Callable[..., Awaitable[Reader]]

US = "py-gang-scheduler"


async def make_job(admin: Client, namespace: str, queue: str = "", **spec: Any) -> Object:
    """A Job whose pods nobody places."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]}}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {}},
        "spec": {"parallelism": 2, "template": template, **spec},
    }
    return await admin.create(body, namespace)


def reference(job: Object) -> JobRef:
    """Which Job it is."""
    meta = job["metadata"]
    return JobRef(meta["namespace"], meta["name"], meta["uid"])


def suspend(job: Object, version: str = "", number: int = 1) -> SuspendJob:
    """Suspend it on behalf of a gang."""
    version = version or job["metadata"]["resourceVersion"]
    return SuspendJob(number, reference(job), version, US, "ns/vip", "p-1")


def resume(job: Object, number: int = 2) -> ResumeJob:
    """Let it go on."""
    return ResumeJob(number, reference(job), job["metadata"]["resourceVersion"], US)
