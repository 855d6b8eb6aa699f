"""ResourceQuotas that are about priority classes: how much of a namespace's pods of a class admission still lets pass.

Asked before pods exist, of Jobs that are suspended: later the API server asks itself. The API server may have such a
rule in its own configuration, too (``limitedResources`` of its admission plug-in), which cannot be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from gangsched.model import wire
from gangsched.model.constraints import Record
from gangsched.model.errors import FieldError
from gangsched.model.quantity import RawQuantity, base_units
from gangsched.model.records import Pod

_SCOPE = "PriorityClass"
_PODS = "pods"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class RawScope(wire.Wire):
    """One expression of a scope selector."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class RawScopeSelector(wire.Wire):
    """All expressions must hold."""

    match_expressions: list[RawScope] | None = None


class RawResourceQuotaSpec(wire.Wire):
    """What is limited, and for which pods."""

    hard: dict[str, RawQuantity] | None = None
    scopes: list[str] | None = None
    scope_selector: RawScopeSelector | None = None


class RawResourceQuotaStatus(wire.Wire):
    """What is used of it."""

    used: dict[str, RawQuantity] | None = None


class RawResourceQuota(wire.Object):
    """A ResourceQuota as the API has it."""

    spec: RawResourceQuotaSpec = msgspec.field(default_factory=RawResourceQuotaSpec)
    status: RawResourceQuotaStatus = msgspec.field(default_factory=RawResourceQuotaStatus)


class ResourceQuota(Record, frozen=True):
    """A ResourceQuota. ``scopes`` are its conditions on the class of a pod. ``left`` is the remaining amount of each
    resource that pods request, and of pods. Both are empty for a quota that is not about classes.
    """

    namespace: str
    name: str
    scopes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    left: tuple[tuple[str, int], ...] = ()

    def refuses(self, pods: Iterable[tuple[str, Pod, int]]) -> bool:
        """Return whether it would not let all of these pods pass: of the class that is given, and like this pod, so
        many.
        """
        asked = Counter[str]()
        for name, pod, count in pods:
            if all(_holds(operator, values, name) for operator, values in self.scopes):
                asked[_PODS] += count
                asked.update({resource: amount * count for resource, amount in pod.shape.requests})
        return any(asked[resource] > left for resource, left in self.left)


def _holds(operator: str, values: tuple[str, ...], name: str) -> bool:
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "Exists":
            return bool(name)
        case _:
            return not name


def resource_quota(raw: RawResourceQuota) -> ResourceQuota:
    """One ResourceQuota. Scopes other than classes are taken to hold: with them it would refuse less."""
    meta, spec = raw.metadata, raw.spec
    scopes: list[tuple[str, tuple[str, ...]]] = [("Exists", ())] if _SCOPE in (spec.scopes or ()) else []
    expressions = (spec.scope_selector.match_expressions if spec.scope_selector is not None else None) or ()
    scopes += [(each.operator, tuple(each.values or ())) for each in expressions if each.scope_name == _SCOPE]
    left: dict[str, int] = {}
    used = raw.status.used or {}
    for name, amount in (spec.hard or {}).items() if scopes else ():
        resource = _resource(name)
        found = _left(resource, amount, used.get(name, 0))
        if resource and found is not None:
            left[resource] = min(found, left.get(resource, found))
    return ResourceQuota(meta.namespace, meta.name, tuple(scopes), tuple(sorted(left.items())))


def _resource(name: str) -> str:
    """Return the resource of pods that a limit counts; empty if pods do not request it."""
    if name in (_PODS, "count/pods"):
        return _PODS
    return name if name in _COMPUTE else name.removeprefix("requests.") if name.startswith("requests.") else ""


def _left(resource: str, hard: RawQuantity, used: RawQuantity) -> int | None:
    """None for more than any pod can ask for."""
    try:
        return base_units(resource, hard) - base_units(resource, used)
    except FieldError:
        return None
