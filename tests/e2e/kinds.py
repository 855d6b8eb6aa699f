"""Kinds of other projects on a cluster, as far as a scheduler sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controlplane.client import Client, Object, wait_until_served


def definition(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> Object:
    """A kind whose spec and status may be anything."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    scope = "Namespaced" if namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


@asynccontextmanager
async def served(admin: Client, *definitions: Object) -> AsyncIterator[None]:
    """These kinds are served while the block lasts; their objects go with them."""
    await admin.apply([*definitions])
    specs = [each["spec"] for each in definitions]
    await wait_until_served(admin, *(f"{s['group']}/{s['versions'][0]['name']}/{s['names']['kind']}" for s in specs))
    yield
    for each in definitions:
        await admin.delete("CustomResourceDefinition", each["metadata"]["name"])
