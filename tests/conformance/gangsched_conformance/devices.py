"""The devices of a random cluster: a class, pools on some nodes, and claims of some pods."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from gangsched.core.world.world import World
from gangsched.model import convert_devices as convert
from gangsched.model import raw_devices
from gangsched.model.constraints import PodClaim, PodDevices
from gangsched.model.records import Pod

_CLASS, _DRIVER, _ENTRY = "gpu", "gpu.example.com", "devices"


def fill(world: World, chance: random.Random, nodes: Sequence[str], pods: Sequence[Pod]) -> list[Pod]:
    """Put a class, and a pool of up to 4 devices on most nodes. Return the pods, some with a claim for up to 2 devices.

    The claim of a pod with a node has devices of it. Pods for which no device is left get no claim.
    """
    index = world.snapshot.devices
    selectors = [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]
    raw: dict[str, Any] = {"metadata": {"name": _CLASS}, "spec": {"selectors": selectors}}
    index.put(convert.device_class(msgspec.convert(raw, raw_devices.RawDeviceClass)))
    free: dict[str, list[str]] = {}
    for name in nodes:
        if chance.random() < 0.7:
            free[name] = [f"gpu-{number}" for number in range(chance.randint(1, 4))]
            body = {
                "driver": _DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": each, "capacity": {"memory": {"value": chance.choice(("40Gi", "80Gi"))}}}
                    for each in free[name]
                ],
            }
            raw = {"metadata": {"name": f"{_DRIVER}-{name}"}, "spec": body}
            index.put(convert.resource_slice(msgspec.convert(raw, raw_devices.RawResourceSlice)))
    return [_with_claim(world, chance, free, pod) if chance.random() < 0.3 else pod for pod in pods]


def _with_claim(world: World, chance: random.Random, free: dict[str, list[str]], pod: Pod) -> Pod:
    count = chance.randint(1, 2)
    status: dict[str, Any] = {}
    if pod.node:
        left = free.get(pod.node, [])
        if len(left) < count:
            return pod
        given = [left.pop() for _ in range(count)]
        results = [{"request": "all", "driver": _DRIVER, "pool": pod.node, "device": each} for each in given]
        status["allocation"] = {"devices": {"results": results}}
        status["reservedFor"] = [{"resource": "pods", "name": pod.name, "uid": pod.uid}]
    name = f"{pod.name}-{_ENTRY}"
    owner = {"kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    request = {"name": "all", "exactly": {"deviceClassName": _CLASS, "count": count}}
    raw = {
        "metadata": {"name": name, "namespace": pod.namespace, "uid": f"uid-{name}", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }
    world.snapshot.devices.put(convert.resource_claim(msgspec.convert(raw, raw_devices.RawResourceClaim)))
    return msgspec.structs.replace(pod, devices=PodDevices((PodClaim(_ENTRY, name),)))
