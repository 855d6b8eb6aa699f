"""An allocation as ``status.allocation`` of a claim has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gangsched.model.constraints import NodeTerm, Requirement, Toleration
from gangsched.model.devices import AllocatedDevice, Allocation, ClaimSpec, Config, DeviceClass

_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


def written(spec: ClaimSpec, allocation: Allocation, classes: Mapping[str, DeviceClass]) -> str:
    """Return the JSON of an allocation, with the settings for drivers that class and claim have."""
    devices: dict[str, Any] = {"results": [_result(each) for each in allocation.devices]}
    config = list(_settings(spec, allocation, classes))
    if config:
        devices["config"] = config
    out: dict[str, Any] = {"devices": devices}
    if allocation.terms is not None:
        out["nodeSelector"] = {"nodeSelectorTerms": [_term(each) for each in allocation.terms]}
    return msgspec.json.encode(out).decode()


def _result(each: AllocatedDevice) -> dict[str, Any]:
    optional: dict[str, Any] = {
        "adminAccess": each.admin,
        "tolerations": [_toleration(t) for t in each.tolerations],
        "bindingConditions": list(each.conditions),
        "bindingFailureConditions": list(each.failure_conditions),
        "shareID": each.share,  # the writer gives each its id
        "consumedCapacity": {name: f"{amount:f}" for name, amount in each.consumed},  # without an exponent
    }
    driver, pool, device = each.device
    named = {"request": each.request, "driver": driver, "pool": pool, "device": device}
    return named | {name: value for name, value in optional.items() if value}


def _toleration(each: Toleration) -> dict[str, Any]:
    fields = {"key": each.key, "operator": each.operator, "value": each.value, "effect": each.effect}
    out: dict[str, Any] = {name: value for name, value in fields.items() if value}
    if each.seconds is not None:
        out["tolerationSeconds"] = each.seconds
    return out


def _term(term: NodeTerm) -> dict[str, Any]:
    parts = {"matchExpressions": term.expressions, "matchFields": term.fields}
    return {name: [_requirement(each) for each in found] for name, found in parts.items() if found}


def _requirement(each: Requirement) -> dict[str, Any]:
    found = {"key": each.key, "operator": each.operator}
    return found | ({"values": list(each.values)} if each.values else {})


def _settings(spec: ClaimSpec, allocation: Allocation, classes: Mapping[str, DeviceClass]) -> Iterator[dict[str, Any]]:
    """The settings of each class, once, for the requests that it serves; then those of the claim for all requests, or
    for those that they name, as far as these were chosen. Without names they are for all.
    """
    served = dict(_served(spec, allocation))
    by_class: dict[str, list[str]] = {}
    for name, device_class in served.items():
        by_class.setdefault(device_class, []).append(name)
    for device_class, names in by_class.items():
        found = classes.get(device_class)
        for each in found.config if found is not None else ():
            yield _entry(each, _FROM_CLASS, () if _all_of(spec, names) else names)
    known = served.keys() | {each.name for each in spec.requests}
    for each in spec.config:
        if not each.requests or known & set(each.requests):
            left_out = served.keys() - set(each.requests)
            everything = all(name.partition("/")[0] in each.requests for name in left_out)
            yield _entry(each, _FROM_CLAIM, () if everything else each.requests)


def _all_of(spec: ClaimSpec, names: Iterable[str]) -> bool:
    return {name.partition("/")[0] for name in names} == {each.name for each in spec.requests}


def _served(spec: ClaimSpec, allocation: Allocation) -> Iterator[tuple[str, str]]:
    """The name of each request, with that of the chosen alternative, and its class."""
    given = {each.request for each in allocation.devices}
    for request in spec.requests:
        for each in request.alternatives:
            name = f"{request.name}/{each.name}" if request.prioritized else request.name
            if name in given:
                yield name, each.device_class


def _entry(config: Config, source: str, requests: Sequence[str]) -> dict[str, Any]:
    found = {"source": source, **msgspec.json.decode(config.body)}
    return found | ({"requests": list(requests)} if requests else {})
