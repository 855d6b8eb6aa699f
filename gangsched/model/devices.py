"""Devices by dynamic resource allocation: slices of pools, classes, and claims with their allocations.

The fields are those of ``resource.k8s.io/v1``. Amounts are exact.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from gangsched.model import cel
from gangsched.model.constraints import NodeTerm, Record, Toleration

GROUP = "resource.k8s.io"
#: The preferred version first.
VERSIONS = ("v1", "v1beta2", "v1beta1")
RULE_VERSIONS = ("v1", "v1beta2")
#: API kinds of the records in here.
DEVICE_KINDS = frozenset({"ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"})
#: The extended resource that each DeviceClass serves beside the one that it names (KEP-5004).
OF_CLASS = "deviceclass.resource.kubernetes.io/"
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


class Config(Record, frozen=True):
    """Settings for drivers, copied into allocations: for some ``requests`` (none named: for all). ``body`` is the rest
    of the entry as JSON.
    """

    body: str
    requests: tuple[str, ...] = ()


class DeviceClass(Record, frozen=True):
    """A class that requests name, with selectors that each of its devices matches."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: float = 0.0
    config: tuple[Config, ...] = ()


class DeviceTaintRule(Record, frozen=True):
    """A taint of all devices of a driver, of a pool, or of a name; each of these may be empty for any."""

    name: str
    taint: DeviceTaint
    driver: str = ""
    pool: str = ""
    device: str = ""
    #: False without a selector: no device is selected.
    selects: bool = True

    def concerns(self, driver: str, pool: str, device: str) -> bool:
        """True if the rule taints this device."""
        return self.selects and self.driver in {"", driver} and self.pool in {"", pool} and self.device in {"", device}


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
    config: tuple[Config, ...] = ()


class AllocatedDevice(Record, frozen=True):
    """One device of an allocation."""

    request: str
    device: DeviceId
    admin: bool = False
    share: str = ""
    consumed: tuple[tuple[str, Decimal], ...] = ()
    #: Of allocations that are to be written: copied from request and device.
    tolerations: tuple[Toleration, ...] = ()
    conditions: tuple[str, ...] = ()
    failure_conditions: tuple[str, ...] = ()


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


class ResourceClaimTemplate(Record, frozen=True):
    """The claims that are made for pods: one for each pod that names the template."""

    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()


DeviceObject: TypeAlias = ResourceSlice | DeviceClass | ResourceClaim | ResourceClaimTemplate | DeviceTaintRule
