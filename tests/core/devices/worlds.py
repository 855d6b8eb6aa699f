"""Nodes with devices, and claims for them, as the API has them."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.core.events import Changed
from gangsched.model import convert_devices as convert
from gangsched.model import raw_devices
from gangsched.model.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice

GPU, NIC = "gpu.example.com", "nic.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"


def device(name: str, memory: str = "", **attributes: Any) -> dict[str, Any]:
    """A device with attributes (``root`` is its PCI root) and capacity ``memory``."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        found[ROOT if key == "root" else key] = {kind: value}
    return {"name": name, "attributes": found, **({"capacity": {"memory": {"value": memory}}} if memory else {})}


def pool(node: str, *devices: dict[str, Any], driver: str = GPU, name: str = "", **spec: Any) -> ResourceSlice:
    """All devices of a driver on a node; on all nodes for an empty one."""
    what = {"name": name or node or "all", "generation": 1, "resourceSliceCount": 1}
    place = {"nodeName": node} if node else {"allNodes": True}
    body = {"driver": driver, "pool": what, "devices": list(devices), **place, **spec}
    raw = {"metadata": {"name": f"{driver}-{name or what['name']}"}, "spec": body}
    return convert.resource_slice(msgspec.convert(raw, raw_devices.RawResourceSlice))


def gpus(node: str, count: int, **attributes: Any) -> ResourceSlice:
    """So many devices of the class ``gpu`` on a node, each with an identity of its own."""
    return pool(node, *(device(f"gpu-{i}", uuid=f"{node}-{i}", **attributes) for i in range(count)))


def device_class(name: str, driver: str = "", extended: str = "") -> DeviceClass:
    """All devices of a driver."""
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}] if driver else []
    spec = {"selectors": selectors, **({"extendedResourceName": extended} if extended else {})}
    return convert.device_class(msgspec.convert({"metadata": {"name": name}, "spec": spec}, raw_devices.RawDeviceClass))


def ask(count: int | None = 1, of: str = "gpu", name: str = "r", where: str = "", **fields: Any) -> dict[str, Any]:
    """A request for devices of a class; ``where`` is a selector, None asks for all."""
    exact: dict[str, Any] = {"deviceClassName": of, **fields}
    exact |= {"allocationMode": "All"} if count is None else {"count": count}
    if where:
        exact["selectors"] = [{"cel": {"expression": where}}]
    return {"name": name, "exactly": exact}


def spec_of(*requests: dict[str, Any], match: str = "", distinct: str = "") -> dict[str, Any]:
    """What a claim asks; all its devices are to share the attribute ``match``."""
    constraints = [{"matchAttribute": match}] if match else []
    constraints += [{"distinctAttribute": distinct}] if distinct else []
    return {"devices": {"requests": list(requests), "constraints": constraints}}


def claim(
    name: str,
    *requests: dict[str, Any],
    given: tuple[tuple[str, str, str], ...] = (),
    users: tuple[str, ...] = (),
    owner: str = "",
    node: str = "",
    **constraint: str,
) -> ResourceClaim:
    """A claim in the namespace ``d``: ``given`` are its devices (driver, pool, name), ``users`` the pods that it is
    reserved for, ``owner`` the pod that it was made for.
    """
    meta: dict[str, Any] = {"name": name, "namespace": "d", "uid": f"uid-claim-{name}"}
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": f"uid-d-{owner}", "controller": True}]
    status: dict[str, Any] = {}
    if given:
        results = [{"request": "r", "driver": d, "pool": p, "device": n} for d, p, n in given]
        status["allocation"] = {"devices": {"results": results}}
        if node:
            fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
            status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    if users:
        status["reservedFor"] = [{"resource": "pods", "name": u, "uid": f"uid-d-{u}"} for u in users]
    raw = {"metadata": meta, "spec": spec_of(*(requests or (ask(),)), **constraint), "status": status}
    return convert.resource_claim(msgspec.convert(raw, raw_devices.RawResourceClaim))


def held(name: str, node: str, *devices: str, users: tuple[str, ...], driver: str = GPU) -> ResourceClaim:
    """A claim that has devices of the node's pool."""
    given = tuple((driver, node, each) for each in devices)
    return claim(name, ask(len(devices)), given=given, users=users, node=node, owner=users[0])


def template(name: str, *requests: dict[str, Any], **constraint: str) -> ResourceClaimTemplate:
    """A template for claims."""
    meta = {"name": name, "namespace": "d"}
    raw = {"metadata": meta, "spec": {"spec": spec_of(*(requests or (ask(),)), **constraint)}}
    return convert.claim_template(msgspec.convert(raw, raw_devices.RawResourceClaimTemplate))


def tainted(driver: str, effect: str = "NoSchedule", device_name: str = "") -> DeviceTaintRule:
    """A rule that taints devices of a driver."""
    raw = {
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"driver": driver, **({"device": device_name} if device_name else {})},
            "taint": {"key": "ill", "effect": effect},
        },
    }
    return convert.taint_rule(msgspec.convert(raw, raw_devices.RawDeviceTaintRule))


CLASSES = (device_class("gpu", GPU), device_class("nic", NIC))
#: Two GPUs on one node, of which a pod ``with-devices`` has one.
DEVICES = tuple(
    Changed(each) for each in (*CLASSES, gpus("n1", 2), held("dc1", "n1", "gpu-0", users=("with-devices",)))
)
