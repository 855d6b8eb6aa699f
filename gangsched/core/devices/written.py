"""An allocation as ``status.allocation`` of a claim has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from gangsched.model.constraints import NodeTerm, Requirement, Toleration
from gangsched.model.devices import AllocatedDevice, Allocation, ClaimSpec, Config, DeviceClass

_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


def written(spec: ClaimSpec, allocation: Allocation, classes: Mapping[str, DeviceClass]) -> str:
    """Return the JSON of an allocation, with the settings for drivers that class and claim have."""
    devices: dict[str, Any] = {"results": [_result(each) for each in allocation.devices]}
    config = [*_of_classes(spec, allocation, classes), *_of_claim(spec, allocation)]
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


def _of_classes(
    spec: ClaimSpec, allocation: Allocation, classes: Mapping[str, DeviceClass]
) -> Iterator[dict[str, Any]]:
    """The settings of each class, once, for the requests that it serves."""
    requests: dict[str, list[str]] = {}
    for name, device_class in _served(spec, allocation):
        requests.setdefault(device_class, []).append(name)
    for device_class, names in requests.items():
        found = classes.get(device_class)
        for each in found.config if found is not None else ():
            yield _entry(each, _FROM_CLASS, names)


def _of_claim(spec: ClaimSpec, allocation: Allocation) -> Iterator[dict[str, Any]]:
    """The settings of the claim, for all requests or for those that they name, as far as these were chosen."""
    served = {name for name, _ in _served(spec, allocation)} | {each.name for each in spec.requests}
    for each in spec.config:
        if not each.requests or served & set(each.requests):
            yield _entry(each, _FROM_CLAIM, each.requests)


def _served(spec: ClaimSpec, allocation: Allocation) -> Iterator[tuple[str, str]]:
    """The name of each request, with that of the chosen alternative, and its class."""
    given = {each.request for each in allocation.devices}
    for request in spec.requests:
        for each in request.alternatives:
            name = f"{request.name}/{each.name}" if request.prioritized else request.name
            if name in given:
                yield name, each.device_class


def _entry(config: Config, source: str, requests: Iterable[str]) -> dict[str, Any]:
    found = {"source": source, **msgspec.json.decode(config.body)}
    names = list(requests)
    return found | ({"requests": names} if names else {})
