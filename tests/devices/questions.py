"""What a question about claims means: records of its objects, and the allocator that answers it."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.core.devices.allocation import Allocator, in_use
from gangsched.core.devices.pools import Inventory
from gangsched.model import convert_devices, devices, raw_devices
from gangsched.model.devices import DeviceClass, ResourceClaim
from tests.devices.claims import LABELS


def slices_of(question: dict[str, Any]) -> list[devices.ResourceSlice]:
    """The slices of a question."""
    return [
        convert_devices.resource_slice(msgspec.convert(raw, raw_devices.RawResourceSlice)) for raw in question["slices"]
    ]


def claims_of(raw: list[dict[str, Any]]) -> list[ResourceClaim]:
    """The claims."""
    return [convert_devices.resource_claim(msgspec.convert(each, raw_devices.RawResourceClaim)) for each in raw]


def allocator(question: dict[str, Any]) -> Allocator:
    """The allocator for the node of a question."""
    classes: dict[str, DeviceClass] = {}
    for raw in question["classes"]:
        found = convert_devices.device_class(msgspec.convert(raw, raw_devices.RawDeviceClass))
        classes[found.name] = found
    pools = Inventory(slices_of(question)).pools("n1", LABELS)
    return Allocator("n1", pools, in_use(claims_of(question["allocated"])), classes)
