"""JobSets on a cluster."""

from __future__ import annotations

from tests.controlplane.client import Object
from tests.e2e.jobs import template

JOBS, MEMBERS = 2, 4


def jobset(name: str, queue: str = "", namespace: str = "default", **spec: object) -> Object:
    """Two Jobs of four pods, none of which may fail."""
    work = {"parallelism": MEMBERS, "completions": MEMBERS, "backoffLimit": 0, "template": template("1")}
    meta = {"name": name, "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {}}
    jobs = [{"name": "workers", "replicas": JOBS, "template": {"spec": work}}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": jobs, **spec},
    }
