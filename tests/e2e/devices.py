"""Device classes, slices of a driver that does not run, claims and templates, and pods that use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.controlplane.client import Change, Object

DRIVER, CLASS = "gpu.example.com", "gpu.example.com"
API = "resource.k8s.io/v1"


def device_class(name: str = CLASS, driver: str = DRIVER) -> Object:
    """A class with all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": [selector]}}


def resource_slice(node: str, devices: int = 4, driver: str = DRIVER) -> Object:
    """The pool of one node: ``gpu-0``, ``gpu-1`` and so on."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{i}"} for i in range(devices)],
        },
    }


def claim_spec(count: int = 1, of: str = CLASS) -> Object:
    """A request for so many devices of a class."""
    return {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": of, "count": count}}]}}


def claim(name: str, count: int = 1, of: str = CLASS) -> Object:
    """A claim that pods name."""
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": claim_spec(count, of)}


def template(name: str, count: int = 1, of: str = CLASS) -> Object:
    """A template from which each pod gets a claim of its own."""
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": claim_spec(count, of)},
    }


def pod(
    name: str, claims: dict[str, str] | None = None, templates: dict[str, str] | None = None, **spec: Any
) -> Object:
    """A pod of ours with claims, and with claims from templates, by the names that it gives them."""
    named = [{"name": ref, "resourceClaimName": of} for ref, of in (claims or {}).items()]
    made = [{"name": ref, "resourceClaimTemplateName": of} for ref, of in (templates or {}).items()]
    used = {"claims": [{"name": each["name"]} for each in (*named, *made)], "requests": {"cpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "py-gang-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": used}],
            "resourceClaims": [*named, *made],
            **spec,
        },
    }


def devices_of(claim: Object) -> list[tuple[str, str, str]]:
    """The devices that a claim has: driver, pool and name."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return [(each["driver"], each["pool"], each["device"]) for each in results]


def users_of(claim: Object) -> list[str]:
    """The UIDs of all for which it is reserved."""
    return [each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or []]


def given_twice(changes: Iterable[Change]) -> list[str]:
    """Devices that two claims had at a time, as a watch has shown."""
    holder: dict[tuple[str, str, str], str] = {}
    out = []
    for change in changes:
        name = change.object["metadata"]["name"]
        holder = {device: claim for device, claim in holder.items() if claim != name}
        for device in devices_of(change.object) if change.type != "DELETED" else ():
            if device in holder:
                out.append(f"{'/'.join(device)}: {holder[device]} and {name}")
            holder[device] = name
    return out
