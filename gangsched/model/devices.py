"""Devices by dynamic resource allocation: slices of pools, classes, and claims with their allocations.

The fields are those of ``resource.k8s.io/v1``; ``v1beta1`` and ``v1beta2`` are read as that. Amounts are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import msgspec

from gangsched.messages import devices, invalid
from gangsched.model import cel, quantity, wire
from gangsched.model.cel.values import Quantity, Semver
from gangsched.model.constraints import NodeTerm, Record, Toleration
from gangsched.model.errors import FieldError
from gangsched.model.quantity import RawQuantity
from gangsched.model.selectors import node_term, toleration

EXACT_COUNT, ALL = "ExactCount", "All"
#: Effects of taints that keep a device from requests that do not tolerate them.
_KEEPING_OFF = frozenset({"NoSchedule", "NoExecute"})
#: Devices of one claim, and pods that may reserve it.
MAX_RESULTS = 32
MAX_RESERVED = 256

#: ``(namespace, name)``.
ClaimKey: TypeAlias = tuple[str, str]


class DeviceId(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    name: str


class DeviceTaint(Record, frozen=True):
    """A taint of a device."""

    key: str
    value: str
    effect: str

    @property
    def keeps_off(self) -> bool:
        """True if requests have to tolerate it."""
        return self.effect in _KEEPING_OFF


class Capacity(Record, frozen=True):
    """An amount of a device, and what requests for a part of it are rounded to."""

    value: Decimal
    default: Decimal | None = None
    least: Decimal | None = None
    most: Decimal | None = None
    step: Decimal | None = None
    values: tuple[Decimal, ...] = ()
    #: A range or list of values limits what may be asked.
    limited: bool = False


class Place(Record, frozen=True):
    """The nodes that reach a device or the devices of a slice: one by name, those of a term, or all."""

    node: str = ""
    term: NodeTerm | None = None
    everywhere: bool = False

    @property
    def known(self) -> bool:
        """False if none is set, as in a form that is newer than this product."""
        return bool(self.node) or self.term is not None or self.everywhere


class Device(Record, frozen=True):
    """One device. ``seen`` is what selectors see, ``counters`` what it consumes: (counter set, counter, amount)."""

    name: str
    seen: cel.Device
    capacity: dict[str, Capacity]
    taints: tuple[DeviceTaint, ...] = ()
    counters: tuple[tuple[str, str, Decimal], ...] = ()
    #: Only of slices with ``perDeviceNodeSelection``.
    place: Place = Place()
    shared: bool = False
    binds_to_node: bool = False
    conditions: tuple[str, ...] = ()
    failure_conditions: tuple[str, ...] = ()
    #: Equal for devices that differ by name only.
    alike: str = ""

    def attribute(self, name: str) -> tuple[str, Any] | None:
        """Return type and value of an attribute by its full name, or None."""
        domain, _, ident = name.partition("/")
        found = self.seen.attributes.get(name)
        if found is None and domain == self.seen.driver:
            found = self.seen.attributes.get(ident)
        return None if found is None else (type(found).__name__, found)


class ResourceSlice(Record, frozen=True):
    """A part of a pool: devices or counters."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    place: Place
    per_device: bool
    devices: tuple[Device, ...]
    #: ``counter set -> counter -> amount``.
    counters: dict[str, dict[str, Decimal]]
    #: Why the slice cannot be understood; its pool then counts as incomplete.
    refused: str = ""


class DeviceClass(Record, frozen=True):
    """A class that requests name, with selectors that each of its devices matches."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: float = 0.0


class DeviceRequest(Record, frozen=True):
    """A request, or one alternative of it. ``count`` is None for all devices that match."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, Decimal], ...] = ()

    def tolerates(self, taint: DeviceTaint) -> bool:
        """True if a toleration matches the taint."""
        return any(
            t.effect in {"", taint.effect}
            and t.key in {"", taint.key}
            and (t.operator == "Exists" or (t.operator in {"", "Equal"} and t.value == taint.value))
            for t in self.tolerations
        )


class Request(Record, frozen=True):
    """Alternatives in the order of preference; most requests have one."""

    name: str
    alternatives: tuple[DeviceRequest, ...]
    #: The alternatives have names of their own: ``request/alternative``.
    prioritized: bool = False


class Constraint(Record, frozen=True):
    """All devices of the requests (none named: of all) share an attribute, or differ in it if ``distinct``."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False

    def concerns(self, request: str, alternative: str) -> bool:
        """True if it is about devices of this request."""
        return not self.requests or request in self.requests or f"{request}/{alternative}" in self.requests


class ClaimSpec(Record, frozen=True):
    """The requests of a claim. ``refused`` says what of it is not supported, by name."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    refused: str = ""


class AllocatedDevice(Record, frozen=True):
    """One device of an allocation."""

    request: str
    device: DeviceId
    admin: bool = False
    share: str = ""
    consumed: tuple[tuple[str, Decimal], ...] = ()


class Allocation(Record, frozen=True):
    """The devices of a claim. ``terms`` is None if they can be used from every node."""

    devices: tuple[AllocatedDevice, ...]
    terms: tuple[NodeTerm, ...] | None = None


class ResourceClaim(Record, frozen=True):
    """A claim. ``reserved_for`` is ``(resource, name, uid)`` of who may use it."""

    namespace: str
    name: str
    uid: str = ""
    spec: ClaimSpec = ClaimSpec()
    allocation: Allocation | None = None
    reserved_for: tuple[tuple[str, str, str], ...] = ()
    owner_uid: str = ""
    deleting: bool = False
    version: str = ""

    @property
    def key(self) -> ClaimKey:
        """``(namespace, name)``."""
        return (self.namespace, self.name)


# -- how the API spells them -------------------------------------------------------------------------------------------


class _Policy(wire.Wire):
    default: RawQuantity | None = None
    valid_values: list[RawQuantity] | None = None
    valid_range: dict[str, RawQuantity] | None = None


class _Capacity(wire.Wire):
    value: RawQuantity = "0"
    request_policy: _Policy | None = None


class _Counter(wire.Wire):
    value: RawQuantity = "0"


class _Consumption(wire.Wire):
    counter_set: str = ""
    counters: dict[str, _Counter] = msgspec.field(default_factory=dict)


class _CounterSet(wire.Wire):
    name: str = ""
    counters: dict[str, _Counter] = msgspec.field(default_factory=dict)


class _Taint(wire.Wire):
    key: str = ""
    value: str = ""
    effect: str = ""


class _DeviceFields(wire.Wire):
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, _Capacity] | None = None
    consumes_counters: list[_Consumption] | None = None
    node_name: str | None = None
    node_selector: wire.NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[_Taint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    compatibility_groups: Any = None


class _Device(_DeviceFields):
    name: str = ""
    basic: _DeviceFields | None = None  # v1beta1


class _Pool(wire.Wire):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class _SliceSpec(wire.Wire):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    node_name: str | None = None
    node_selector: wire.NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[_Device] | None = None
    shared_counters: list[_CounterSet] | None = None


class RawResourceSlice(wire.Object):
    """A ResourceSlice as the API has it."""

    spec: _SliceSpec = msgspec.field(default_factory=_SliceSpec)


class _Cel(wire.Wire):
    expression: str = ""


class _Selector(wire.Wire):
    cel: _Cel | None = None


class _ClassSpec(wire.Wire):
    selectors: list[_Selector] | None = None
    extended_resource_name: str | None = None


class RawDeviceClass(wire.Object):
    """A DeviceClass as the API has it."""

    spec: _ClassSpec = msgspec.field(default_factory=_ClassSpec)


class _CapacityRequests(wire.Wire):
    requests: dict[str, RawQuantity] | None = None


class _ExactRequest(wire.Wire):
    name: str = ""
    device_class_name: str = ""
    selectors: list[_Selector] | None = None
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: list[wire.Toleration] | None = None
    capacity: _CapacityRequests | None = None
    derived_attributes: Any = None


class _Request(_ExactRequest):
    """``exactly`` is of v1 and v1beta2; v1beta1 has its fields beside the name."""

    exactly: _ExactRequest | None = None
    first_available: list[_ExactRequest] | None = None


class _Constraint(wire.Wire):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _Devices(wire.Wire):
    requests: list[_Request] | None = None
    constraints: list[_Constraint] | None = None


class RawClaimSpec(wire.Wire):
    """The specification of a claim, or that of a template's claims."""

    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Result(wire.Wire):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, RawQuantity] | None = None


class _Results(wire.Wire):
    results: list[_Result] | None = None


class _Allocation(wire.Wire):
    devices: _Results = msgspec.field(default_factory=_Results)
    node_selector: wire.NodeSelector | None = None


class _Consumer(wire.Wire):
    resource: str = ""
    name: str = ""
    uid: str = ""


class _ClaimStatus(wire.Wire):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class RawResourceClaim(wire.Object):
    """A ResourceClaim as the API has it."""

    spec: RawClaimSpec = msgspec.field(default_factory=RawClaimSpec)
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)


# -- from there to records ---------------------------------------------------------------------------------------------


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


def device_class(raw: RawDeviceClass, created: float = 0.0) -> DeviceClass:
    """Return the class. Raises :class:`FieldError`."""
    selectors = _selectors(raw.spec.selectors, "spec.selectors")
    return DeviceClass(raw.metadata.name, selectors, raw.spec.extended_resource_name or "", created)


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
    return ClaimSpec(requests, constraints)


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


def _fields(raw: _Device) -> _DeviceFields:
    return raw.basic if raw.basic is not None else raw


def _device(raw: _Device, driver: str, per_device: bool, field: str) -> Device:
    of = _fields(raw)
    attributes = {
        name: _attribute(value, f"{field}.attributes.{name}") for name, value in (of.attributes or {}).items()
    }
    capacity = {name: _capacity(each, f"{field}.capacity.{name}") for name, each in (of.capacity or {}).items()}
    shared = bool(of.allow_multiple_allocations)
    seen = cel.Device(driver, attributes, {name: Quantity(c.value) for name, c in capacity.items()}, shared)
    unnamed = msgspec.json.encode(
        _DeviceFields(*(getattr(of, name) for name in _DeviceFields.__struct_fields__)), order="sorted"
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


def _capacity(raw: _Capacity, field: str) -> Capacity:
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


def _selectors(raw: list[_Selector] | None, field: str) -> tuple[str, ...]:
    out = []
    for i, each in enumerate(raw or ()):
        if each.cel is None:
            raise FieldError(f"{field}[{i}]", invalid.unsupported(what=devices.NO_EXPRESSION))
        out.append(each.cel.expression)
    return tuple(out)


def _request(raw: _Request, field: str) -> Request:
    if raw.first_available:
        found = tuple(_alternative(r, f"{field}.firstAvailable[{i}]") for i, r in enumerate(raw.first_available))
        return Request(raw.name, found, prioritized=True)
    return Request(raw.name, (_alternative(raw.exactly or raw, f"{field}.exactly"),))


def _alternative(raw: _ExactRequest, field: str) -> DeviceRequest:
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


def _constraint(raw: _Constraint, field: str) -> Constraint:
    attribute = raw.match_attribute or raw.distinct_attribute
    if not attribute:
        raise FieldError(field, invalid.unsupported(what=devices.NO_ATTRIBUTE))
    return Constraint(attribute, tuple(raw.requests or ()), distinct=not raw.match_attribute)


def _allocation(raw: _Allocation) -> Allocation:
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
