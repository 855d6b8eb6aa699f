"""Empty the cluster between tests: faster than a new one, and the next test finds nothing of the last."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine

from gangsched.cluster.kube.client import METADATA_LIST
from tests.controlplane.client import ApiError, Client, Object, Resource, wait_until

# Kept: what the control plane itself made, would only make again, or what was installed once for all tests.
KEPT_KINDS = {
    "ControllerRevision",  # goes with its owner
    "EndpointSlice",
    "Endpoints",
    "Role",
    "RoleBinding",
    "ServiceAccount",
}
KEPT_NAMES = {
    ("ConfigMap", "kube-root-ca.crt"),
    ("Service", "kubernetes"),
}
SYSTEM_NAMESPACES = {"kube-public", "kube-system"}
CLUSTER_KINDS = {
    "Node",
    "PriorityClass",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "VolumeAttachment",
    "DeviceClass",
    "ResourceSlice",
    "DeviceTaintRule",
}


async def wipe(admin: Client, stored: Callable[[], set[str]] | None = None) -> None:
    """Delete namespaced objects, nodes, priority classes, volumes and custom objects; return when they are gone.

    Namespaces stay, empty: no test uses the name of another's, and the end of one takes a request for each kind, which
    is a third of a second of the processor in all.

    ``stored`` says of which resources, by plural, there are any; without it each is asked for.
    """
    custom = {each["spec"]["group"] for each in await admin.list("CustomResourceDefinition")}
    targets = []
    seen: set[tuple[str, str]] = set()
    for resource in await admin.resources(refresh=bool(custom)):
        group = resource.api_version.rpartition("/")[0]
        known = resource.namespaced or resource.kind in CLUSTER_KINDS or group in custom
        # One version of a kind is enough, and events.k8s.io shows the same objects as the old group.
        if not known or resource.kind in KEPT_KINDS or not {"list", "delete"} <= resource.verbs:
            continue
        if (group, resource.kind) in seen or group == "events.k8s.io":
            continue
        seen.add((group, resource.kind))
        targets.append(resource)

    async def there() -> list[Resource]:
        if stored is None:
            return targets
        plurals = await asyncio.to_thread(stored)
        return [each for each in targets if each.plural in plurals]

    # Owners before what they own: else a controller makes the pods again that were just deleted.
    first = [
        each
        for each in await there()
        if each.api_version.startswith(("batch/", "apps/")) or each.kind == "ReplicationController"
    ]
    await _delete_all(admin, first)
    await _delete_all(admin, [each for each in await there() if each not in first])

    async def gone() -> bool:
        # Components write Events all the time: nobody waits until there are none.
        looked_at = [each for each in await there() if each.kind != "Event"]
        remains = await asyncio.gather(*(_leftovers(admin, each) for each in looked_at))
        left = [(resource, things) for resource, things in zip(looked_at, remains, strict=True) if things]
        for resource, things in left:
            await asyncio.gather(*(_force(admin, resource, thing) for thing in things))
        return not left

    await wait_until(gone, timeout=60.0, what="the cluster is empty again")


async def _leftovers(admin: Client, resource: Resource) -> list[Object]:
    try:
        answer = await admin.request("GET", resource.path(), accept=METADATA_LIST)
    except ApiError as error:
        if error.status in {404, 405}:  # a CRD that went in the meantime
            return []
        raise
    return [each["metadata"] for each in answer["items"] or () if not _kept(resource, each["metadata"])]


def _kept(resource: Resource, metadata: Object) -> bool:
    return (
        metadata.get("namespace") in SYSTEM_NAMESPACES
        or (resource.kind, metadata["name"]) in KEPT_NAMES
        or (resource.kind == "PriorityClass" and metadata["name"].startswith("system-"))
        or (resource.kind == "Lease" and metadata["name"].startswith("apiserver-"))
    )


async def _delete_all(admin: Client, resources: list[Resource]) -> None:
    """One DELETE of a collection for each kind and namespace that has objects."""
    found = await asyncio.gather(*(_leftovers(admin, each) for each in resources))
    requests: list[Coroutine[None, None, object]] = []
    for resource, things in zip(resources, found, strict=True):
        spaces: dict[str | None, list[Object]] = defaultdict(list)
        for thing in things:
            spaces[thing.get("namespace")].append(thing)
        for namespace, members in spaces.items():
            if resource.namespaced and "deletecollection" in resource.verbs:
                requests.append(_delete(admin, resource.path(namespace=namespace)))
            else:
                requests += [_delete(admin, resource.path(member["name"], namespace)) for member in members]
    await asyncio.gather(*requests)


async def _delete(admin: Client, path: str) -> None:
    """DELETE of an object or a collection, which may have gone since it was read, as a kind goes with its CRD."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    try:
        await admin.request("DELETE", path, body)
    except ApiError as error:
        if error.status != 404:
            raise


async def _force(admin: Client, resource: Resource, metadata: Object) -> None:
    """What survived the first round has finalizers, or was made after it."""
    if metadata.get("finalizers"):
        path = resource.path(metadata["name"], metadata.get("namespace"))
        try:
            await admin.request(
                "PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json"
            )
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
    await _delete(admin, resource.path(metadata["name"], metadata.get("namespace")))
