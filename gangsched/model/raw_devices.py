"""The objects of ``resource.k8s.io`` as the API has them, in ``v1`` and its betas."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.model import wire
from gangsched.model.quantity import RawQuantity

EXACT_COUNT, ALL = "ExactCount", "All"


class RawPolicy(wire.Wire):
    """``Policy`` of ``resource.k8s.io``."""

    default: RawQuantity | None = None
    valid_values: list[RawQuantity] | None = None
    valid_range: dict[str, RawQuantity] | None = None


class RawCapacity(wire.Wire):
    """``Capacity`` of ``resource.k8s.io``."""

    value: RawQuantity = "0"
    request_policy: RawPolicy | None = None


class RawCounter(wire.Wire):
    """``Counter`` of ``resource.k8s.io``."""

    value: RawQuantity = "0"


class RawConsumption(wire.Wire):
    """``Consumption`` of ``resource.k8s.io``."""

    counter_set: str = ""
    counters: dict[str, RawCounter] = msgspec.field(default_factory=dict)


class RawCounterSet(wire.Wire):
    """``CounterSet`` of ``resource.k8s.io``."""

    name: str = ""
    counters: dict[str, RawCounter] = msgspec.field(default_factory=dict)


class RawTaint(wire.Wire):
    """``Taint`` of ``resource.k8s.io``."""

    key: str = ""
    value: str = ""
    effect: str = ""


class RawDeviceFields(wire.Wire):
    """``DeviceFields`` of ``resource.k8s.io``."""

    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, RawCapacity] | None = None
    consumes_counters: list[RawConsumption] | None = None
    node_name: str | None = None
    node_selector: wire.NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[RawTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    compatibility_groups: Any = None


class RawDevice(RawDeviceFields):
    """``Device`` of ``resource.k8s.io``."""

    name: str = ""
    basic: RawDeviceFields | None = None  # v1beta1


class RawPool(wire.Wire):
    """``Pool`` of ``resource.k8s.io``."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class RawSliceSpec(wire.Wire):
    """``SliceSpec`` of ``resource.k8s.io``."""

    driver: str = ""
    pool: RawPool = msgspec.field(default_factory=RawPool)
    node_name: str | None = None
    node_selector: wire.NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[RawDevice] | None = None
    shared_counters: list[RawCounterSet] | None = None


class RawResourceSlice(wire.Object):
    """A ResourceSlice as the API has it."""

    spec: RawSliceSpec = msgspec.field(default_factory=RawSliceSpec)


class RawCel(wire.Wire):
    """``Cel`` of ``resource.k8s.io``."""

    expression: str = ""


class RawSelector(wire.Wire):
    """``Selector`` of ``resource.k8s.io``."""

    cel: RawCel | None = None


class RawClassSpec(wire.Wire):
    """``ClassSpec`` of ``resource.k8s.io``."""

    selectors: list[RawSelector] | None = None
    config: list[dict[str, Any]] | None = None
    extended_resource_name: str | None = None


class RawDeviceClass(wire.Object):
    """A DeviceClass as the API has it."""

    spec: RawClassSpec = msgspec.field(default_factory=RawClassSpec)


class RawCapacityRequests(wire.Wire):
    """``CapacityRequests`` of ``resource.k8s.io``."""

    requests: dict[str, RawQuantity] | None = None


class RawExactRequest(wire.Wire):
    """``ExactRequest`` of ``resource.k8s.io``."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[RawSelector] | None = None
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: list[wire.Toleration] | None = None
    capacity: RawCapacityRequests | None = None
    derived_attributes: Any = None


class RawRequest(RawExactRequest):
    """``exactly`` is of v1 and v1beta2; v1beta1 has its fields beside the name."""

    exactly: RawExactRequest | None = None
    first_available: list[RawExactRequest] | None = None


class RawConstraint(wire.Wire):
    """``Constraint`` of ``resource.k8s.io``."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class RawDevices(wire.Wire):
    """``Devices`` of ``resource.k8s.io``."""

    requests: list[RawRequest] | None = None
    constraints: list[RawConstraint] | None = None
    config: list[dict[str, Any]] | None = None


class RawClaimSpec(wire.Wire):
    """The specification of a claim, or that of a template's claims."""

    devices: RawDevices = msgspec.field(default_factory=RawDevices)


class RawResult(wire.Wire):
    """``Result`` of ``resource.k8s.io``."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, RawQuantity] | None = None


class RawResults(wire.Wire):
    """``Results`` of ``resource.k8s.io``."""

    results: list[RawResult] | None = None


class RawAllocation(wire.Wire):
    """``Allocation`` of ``resource.k8s.io``."""

    devices: RawResults = msgspec.field(default_factory=RawResults)
    node_selector: wire.NodeSelector | None = None


class RawConsumer(wire.Wire):
    """``Consumer`` of ``resource.k8s.io``."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class RawClaimStatus(wire.Wire):
    """``ClaimStatus`` of ``resource.k8s.io``."""

    allocation: RawAllocation | None = None
    reserved_for: list[RawConsumer] | None = None


class RawResourceClaim(wire.Object):
    """A ResourceClaim as the API has it."""

    spec: RawClaimSpec = msgspec.field(default_factory=RawClaimSpec)
    status: RawClaimStatus = msgspec.field(default_factory=RawClaimStatus)


class RawClaimTemplateSpec(wire.Wire):
    """``ClaimTemplateSpec`` of ``resource.k8s.io``."""

    spec: RawClaimSpec = msgspec.field(default_factory=RawClaimSpec)


class RawResourceClaimTemplate(wire.Object):
    """A ResourceClaimTemplate as the API has it."""

    spec: RawClaimTemplateSpec = msgspec.field(default_factory=RawClaimTemplateSpec)


class RawDeviceSelector(wire.Wire):
    """``DeviceSelector`` of ``resource.k8s.io``."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RawTaintRuleSpec(wire.Wire):
    """``TaintRuleSpec`` of ``resource.k8s.io``."""

    device_selector: RawDeviceSelector | None = None
    taint: RawTaint = msgspec.field(default_factory=RawTaint)


class RawDeviceTaintRule(wire.Object):
    """A DeviceTaintRule as the API has it."""

    spec: RawTaintRuleSpec = msgspec.field(default_factory=RawTaintRuleSpec)
