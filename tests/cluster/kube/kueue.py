"""The definitions of Kueue's objects, served by a cluster."""

from __future__ import annotations

import copy

from tests.controlplane.client import Client, Object, wait_until_served

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
    kinds = [
        f"{GROUP}/{version['name']}/{each['spec']['names']['kind']}"
        for each in definitions
        for version in each["spec"]["versions"]
    ]
    await wait_until_served(admin, *kinds)
