"""From the objects of ``resource.k8s.io`` to records of devices. ``v1beta1`` and ``v1beta2`` are read as ``v1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from gangsched.messages import devices, invalid
from gangsched.model import cel, quantity, wire
from gangsched.model.cel.values import Quantity, Semver
from gangsched.model.constraints import PodClaim, PodDevices
from gangsched.model.devices import (
    AllocatedDevice,
    Allocation,
    Capacity,
    ClaimSpec,
    Config,
    Constraint,
    Device,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    DeviceTaint,
    DeviceTaintRule,
    Place,
    Request,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from gangsched.model.errors import FieldError
from gangsched.model.quantity import RawQuantity
from gangsched.model.raw_devices import (
    ALL,
    EXACT_COUNT,
    RawAllocation,
    RawCapacity,
    RawClaimSpec,
    RawConstraint,
    RawDevice,
    RawDeviceClass,
    RawDeviceFields,
    RawDeviceTaintRule,
    RawExactRequest,
    RawRequest,
    RawResourceClaim,
    RawResourceClaimTemplate,
    RawResourceSlice,
    RawSelector,
)
from gangsched.model.selectors import node_term, toleration
from gangsched.model.times import parse_time


def resource_slice(raw: RawResourceSlice) -> ResourceSlice:
    """Return the slice. Raises :class:`FieldError`."""
    spec = raw.spec
    per_device = bool(spec.per_device_node_selection)
    made = tuple(
        _device(device, spec.driver, per_device, f"spec.devices[{i}]") for i, device in enumerate(spec.devices or ())
    )
    counters = {
        each.name: {
            name: _amount(c.value, f"spec.sharedCounters[{i}].counters.{name}") for name, c in each.counters.items()
        }
        for i, each in enumerate(spec.shared_counters or ())
    }
    twice = len(counters) < len(spec.shared_counters or ())
    why = devices.COUNTER_SET_TWICE_IN_SLICE if twice else ""
    odd = next((d.name for d in spec.devices or () if _fields(d).compatibility_groups), "")
    if odd:
        why = devices.compatibility_groups(device=odd)
    return ResourceSlice(
        raw.metadata.name,
        spec.driver,
        spec.pool.name,
        spec.pool.generation,
        spec.pool.resource_slice_count,
        _place(spec.node_name, spec.node_selector, spec.all_nodes, "spec"),
        per_device,
        made,
        {} if twice else counters,
        refused=why,
    )


def refused_slice(raw: RawResourceSlice) -> ResourceSlice:
    """Return a slice of which the devices cannot be understood: its pool counts as incomplete."""
    pool = raw.spec.pool
    return ResourceSlice(
        raw.metadata.name,
        raw.spec.driver,
        pool.name,
        pool.generation,
        pool.resource_slice_count,
        Place(everywhere=True),
        per_device=False,
        devices=(),
        counters={},
        refused=devices.NOT_UNDERSTOOD,
    )


def refused_claim(raw: RawResourceClaim) -> ResourceClaim:
    """Return a claim that cannot be understood: it keeps its devices, and pods with it wait."""
    results = raw.status.allocation.devices.results or () if raw.status.allocation is not None else ()
    given = tuple(AllocatedDevice(each.request, DeviceId(each.driver, each.pool, each.device)) for each in results)
    return ResourceClaim(
        raw.metadata.namespace or "default",
        raw.metadata.name,
        raw.metadata.uid,
        ClaimSpec(refused=devices.NOT_UNDERSTOOD),
        Allocation(given, ()) if given else None,
        tuple((each.resource, each.name, each.uid) for each in raw.status.reserved_for or ()),
        version=raw.metadata.resource_version,
    )


def device_class(raw: RawDeviceClass) -> DeviceClass:
    """Return the class. Raises :class:`FieldError`."""
    selectors = _selectors(raw.spec.selectors, "spec.selectors")
    created = parse_time(raw.metadata.creation_timestamp, "metadata.creationTimestamp")
    config = _configs(raw.spec.config)
    return DeviceClass(raw.metadata.name, selectors, raw.spec.extended_resource_name or "", created, config)


def taint_rule(raw: RawDeviceTaintRule) -> DeviceTaintRule:
    """Return the rule."""
    taint, selector = raw.spec.taint, raw.spec.device_selector
    found = DeviceTaint(taint.key, taint.value, taint.effect)
    if selector is None:
        return DeviceTaintRule(raw.metadata.name, found, selects=False)
    return DeviceTaintRule(raw.metadata.name, found, selector.driver or "", selector.pool or "", selector.device or "")


def claim_template(raw: RawResourceClaimTemplate) -> ResourceClaimTemplate:
    """Return the template."""
    return ResourceClaimTemplate(raw.metadata.namespace or "default", raw.metadata.name, claim_spec(raw.spec.spec))


def pod_devices(raw: wire.Pod) -> PodDevices | None:
    """Return the claims of a pod; None without any. If its status says so, an entry needs no claim."""
    spec, status = raw.spec, raw.status
    extended = status.extended_resource_claim_status
    if not spec.resource_claims and extended is None:
        return None
    made = {each.name: each.resource_claim_name or "" for each in status.resource_claim_statuses or ()}
    claims = tuple(
        PodClaim(
            each.name,
            each.resource_claim_name or made.get(each.name, ""),
            each.resource_claim_template_name or "",
        )
        for each in spec.resource_claims or ()
        if each.name not in made or made[each.name]
    )
    name = extended.resource_claim_name if extended is not None else ""
    return PodDevices(claims, name) if claims or name else None


def _configs(raw: Sequence[Mapping[str, Any]] | None) -> tuple[Config, ...]:
    out = []
    for each in raw or ():
        body = {name: value for name, value in each.items() if name != "requests"}
        out.append(Config(msgspec.json.encode(body, order="sorted").decode(), tuple(each.get("requests") or ())))
    return tuple(out)


def claim_spec(raw: RawClaimSpec) -> ClaimSpec:
    """Return what a claim asks. What is not supported is named in ``refused`` and is no error."""
    field = "spec.devices"
    try:
        requests = tuple(_request(r, f"{field}.requests[{i}]") for i, r in enumerate(raw.devices.requests or ()))
        constraints = tuple(
            _constraint(c, f"{field}.constraints[{i}]") for i, c in enumerate(raw.devices.constraints or ())
        )
    except FieldError as error:
        return ClaimSpec(refused=str(error))
    return ClaimSpec(requests, constraints, config=_configs(raw.devices.config))


def resource_claim(raw: RawResourceClaim) -> ResourceClaim:
    """Return the claim. Raises :class:`FieldError`."""
    meta, status = raw.metadata, raw.status
    return ResourceClaim(
        meta.namespace or "default",
        meta.name,
        meta.uid,
        claim_spec(raw.spec),
        _allocation(status.allocation) if status.allocation is not None else None,
        tuple((each.resource, each.name, each.uid) for each in status.reserved_for or ()),
        owner_uid=meta.controller.uid if meta.controller is not None else "",
        deleting=meta.deletion_timestamp is not None,
        version=meta.resource_version,
    )


def _fields(raw: RawDevice) -> RawDeviceFields:
    return raw.basic if raw.basic is not None else raw


def _device(raw: RawDevice, driver: str, per_device: bool, field: str) -> Device:
    of = _fields(raw)
    attributes = {
        name: _attribute(value, f"{field}.attributes.{name}") for name, value in (of.attributes or {}).items()
    }
    capacity = {name: _capacity(each, f"{field}.capacity.{name}") for name, each in (of.capacity or {}).items()}
    shared = bool(of.allow_multiple_allocations)
    seen = cel.Device(driver, attributes, {name: Quantity(c.value) for name, c in capacity.items()}, shared)
    unnamed = msgspec.json.encode(
        RawDeviceFields(*(getattr(of, name) for name in RawDeviceFields.__struct_fields__)), order="sorted"
    )
    return Device(
        raw.name,
        seen,
        capacity,
        tuple(DeviceTaint(t.key, t.value, t.effect) for t in of.taints or ()),
        tuple(
            (each.counter_set, name, _amount(c.value, f"{field}.consumesCounters[{i}].counters.{name}"))
            for i, each in enumerate(of.consumes_counters or ())
            for name, c in each.counters.items()
        ),
        _place(of.node_name, of.node_selector, of.all_nodes, field) if per_device else Place(),
        shared,
        bool(of.binds_to_node),
        tuple(of.binding_conditions or ()),
        tuple(of.binding_failure_conditions or ()),
        alike=unnamed.decode(),
    )


def _attribute(raw: Mapping[str, Any], field: str) -> Any:
    """The one value that is set. Kubernetes fails every selector on a device with an unknown type of value."""
    for kind, expected in (("bool", bool), ("int", int), ("string", str), ("version", str)):
        value = raw.get(kind)
        if value is None:
            continue
        if type(value) is not expected:
            raise FieldError(field, invalid.unsupported(what=f"{kind} {value!r}"))
        found = Semver.parse(str(value)) if kind == "version" else value
        if found is None:
            raise FieldError(field, invalid.unsupported(what=f"version {value!r}"))
        return found
    raise FieldError(field, invalid.unsupported(what=", ".join(raw) or "no value"))


def _amount(raw: RawQuantity, field: str) -> Decimal:
    try:
        return quantity.parse(raw)
    except FieldError as error:
        raise error.under(field) from None


def _capacity(raw: RawCapacity, field: str) -> Capacity:
    value = _amount(raw.value, f"{field}.value")
    policy = raw.request_policy
    if policy is None:
        return Capacity(value)
    where = f"{field}.requestPolicy"
    bounds = {name: _amount(each, f"{where}.validRange.{name}") for name, each in (policy.valid_range or {}).items()}
    return Capacity(
        value,
        _amount(policy.default, f"{where}.default") if policy.default is not None else None,
        bounds.get("min"),
        bounds.get("max"),
        bounds.get("step"),
        tuple(_amount(each, f"{where}.validValues") for each in policy.valid_values or ()),
        limited=policy.valid_range is not None or bool(policy.valid_values),
    )


def _place(node: str | None, selector: wire.NodeSelector | None, everywhere: bool | None, field: str) -> Place:
    terms = selector.node_selector_terms if selector is not None else None
    if terms is not None and len(terms) != 1:
        raise FieldError(f"{field}.nodeSelector", invalid.unsupported(what=f"{len(terms)} terms"))
    return Place(node or "", node_term(terms[0], f"{field}.nodeSelector") if terms else None, bool(everywhere))


def _selectors(raw: list[RawSelector] | None, field: str) -> tuple[str, ...]:
    out = []
    for i, each in enumerate(raw or ()):
        if each.cel is None:
            raise FieldError(f"{field}[{i}]", invalid.unsupported(what=devices.NO_EXPRESSION))
        out.append(each.cel.expression)
    return tuple(out)


def _request(raw: RawRequest, field: str) -> Request:
    if raw.first_available:
        found = tuple(_alternative(r, f"{field}.firstAvailable[{i}]") for i, r in enumerate(raw.first_available))
        return Request(raw.name, found, prioritized=True)
    return Request(raw.name, (_alternative(raw.exactly or raw, f"{field}.exactly"),))


def _alternative(raw: RawExactRequest, field: str) -> DeviceRequest:
    if not raw.device_class_name:
        raise FieldError(field, invalid.unsupported(what=devices.NO_CLASS_NAMED))
    if raw.allocation_mode not in {EXACT_COUNT, ALL}:
        raise FieldError(f"{field}.allocationMode", invalid.unsupported(what=raw.allocation_mode))
    if raw.derived_attributes:
        raise FieldError(f"{field}.derivedAttributes", invalid.unsupported(what="derived attributes"))
    asked = (raw.capacity.requests if raw.capacity is not None else None) or {}
    return DeviceRequest(
        raw.name,
        raw.device_class_name,
        _selectors(raw.selectors, f"{field}.selectors"),
        raw.count if raw.allocation_mode == EXACT_COUNT else None,
        bool(raw.admin_access),
        tuple(toleration(t, f"{field}.tolerations[{i}]") for i, t in enumerate(raw.tolerations or ())),
        tuple((name, _amount(each, f"{field}.capacity.requests.{name}")) for name, each in sorted(asked.items())),
    )


def _constraint(raw: RawConstraint, field: str) -> Constraint:
    attribute = raw.match_attribute or raw.distinct_attribute
    if not attribute:
        raise FieldError(field, invalid.unsupported(what=devices.NO_ATTRIBUTE))
    return Constraint(attribute, tuple(raw.requests or ()), distinct=not raw.match_attribute)


def _allocation(raw: RawAllocation) -> Allocation:
    terms = raw.node_selector.node_selector_terms if raw.node_selector is not None else None
    return Allocation(
        tuple(
            AllocatedDevice(
                each.request,
                DeviceId(each.driver, each.pool, each.device),
                bool(each.admin_access),
                each.share_id or "",
                tuple(
                    (name, _amount(units, "status.allocation.devices.results.consumedCapacity"))
                    for name, units in sorted((each.consumed_capacity or {}).items())
                ),
            )
            for each in raw.devices.results or ()
        ),
        tuple(node_term(t, "status.allocation.nodeSelector") for t in terms) if terms is not None else None,
    )
