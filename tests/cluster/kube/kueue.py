"""The definitions of Kueue's objects, served by a cluster."""

from __future__ import annotations

import copy

from tests.controlplane.client import ApiError, Client, Object, wait_until

GROUP = "kueue.x-k8s.io"

#: Kueue's own kind: whoever serves it is Kueue.
WORKLOADS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"workloads.{GROUP}",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Workload", "plural": "workloads", "singular": "workload", "listKind": "WorkloadList"},
        "versions": [
            {"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


async def serve(admin: Client, *definitions: Object) -> None:
    """Install these definitions, and wait until they are served."""
    await admin.apply([copy.deepcopy(d) for d in definitions])

    async def served() -> bool:
        await admin.resources(refresh=True)
        try:
            for each in definitions:
                for version in each["spec"]["versions"]:
                    await admin.list(f"{GROUP}/{version['name']}/{each['spec']['names']['kind']}")
        except (LookupError, ApiError):
            return False
        return True

    await wait_until(served, what="the kinds are served")
