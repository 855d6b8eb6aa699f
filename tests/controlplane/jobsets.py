"""JobSets on the test cluster: a definition of the kind, and a stand-in for its controller.

Of the kind there is what a scheduler can see: suspend, replicatedJobs and the conditions. The stand-in makes the child
Jobs with the labels and owner references of the real controller, and suspends and resumes them as their JobSet says,
also when somebody else has done otherwise; those that it resumes get the node selector and tolerations of the JobSet. (https://jobset.sigs.k8s.io/docs/concepts/)
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controlplane.client import ApiError, Client, Object, wait_until_served

GROUP, VERSION = "jobset.x-k8s.io", "v1alpha2"
KIND = f"{GROUP}/{VERSION}/JobSet"
NAME, REPLICATED, INDEX = (f"jobset.sigs.k8s.io/{n}" for n in ("jobset-name", "replicatedjob-name", "job-index"))
PERIOD_SECONDS = 0.1

DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"jobsets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset", "listKind": "JobSetList"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            field: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for field in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}


async def serve_jobsets(admin: Client) -> None:
    """Install the kind and wait until it is served."""
    await admin.apply(copy.deepcopy(DEFINITION))
    await wait_until_served(admin, KIND)


@asynccontextmanager
async def jobset_controller(admin: Client) -> AsyncIterator[None]:
    """The stand-in, while the block lasts. What went wrong in it is raised at the end; what passes is tried again, as
    any controller does.
    """
    over = asyncio.Event()

    async def look() -> None:
        try:
            for jobset in await admin.list(KIND):
                await _reconcile(admin, jobset)
        except ApiError as error:
            if error.status not in (429, 500, 503, 504):
                raise

    async def work() -> None:
        while not over.is_set():
            await look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), PERIOD_SECONDS)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        over.set()
        await task


async def _reconcile(admin: Client, jobset: Object) -> None:
    meta, suspended = jobset["metadata"], bool(jobset["spec"].get("suspend"))
    there = {
        job["metadata"]["name"]: job
        for job in await admin.list("Job", namespace=meta["namespace"], labels=f"{NAME}={meta['name']}")
    }
    for job in _children(jobset, suspended):
        name = job["metadata"]["name"]
        found = there.get(name)
        try:
            if found is None:
                await admin.create(job, meta["namespace"])
            elif bool(found["spec"].get("suspend")) != suspended and not _finished(found):
                change = {"suspend": suspended} | ({} if suspended else _directives(job, found))
                await admin.patch("Job", name, {"spec": change}, namespace=meta["namespace"])
        except ApiError as error:
            # It was created, or has gone, or its namespace is going, meanwhile; or its template cannot be changed while
            # its pods are leaving.
            if error.status not in (404, 409, 422) and "being terminated" not in str(error):
                raise


def _children(jobset: Object, suspended: bool) -> list[Object]:
    meta, out = jobset["metadata"], []
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "JobSet", "name": meta["name"], "uid": meta["uid"]}
    for each in jobset["spec"]["replicatedJobs"]:
        for index in range(each.get("replicas", 1)):
            labels = {NAME: meta["name"], REPLICATED: each["name"], INDEX: str(index)}
            spec = copy.deepcopy(each["template"]["spec"]) | {"suspend": suspended, "completionMode": "Indexed"}
            pod_meta = spec["template"].setdefault("metadata", {})
            pod_meta["labels"] = pod_meta.get("labels", {}) | labels
            name = f"{meta['name']}-{each['name']}-{index}"
            references = [owner | {"controller": True, "blockOwnerDeletion": True}]
            about = {"name": name, "namespace": meta["namespace"], "labels": labels, "ownerReferences": references}
            out.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec})
    return out


def _directives(wanted: Object, found: Object) -> Object:
    """A Job that goes on gets node selector and tolerations of the template that it was made from."""
    now, before = (job["spec"]["template"]["spec"] for job in (wanted, found))
    selector, tolerations = now.get("nodeSelector", {}), now.get("tolerations", [])
    if (selector, tolerations) == (before.get("nodeSelector", {}), before.get("tolerations", [])):
        return {}
    gone = dict.fromkeys(before.get("nodeSelector", {}))
    return {"template": {"spec": {"nodeSelector": gone | selector, "tolerations": tolerations}}}


def _finished(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)
