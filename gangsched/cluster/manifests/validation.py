"""Checks of the API server on pods: requests above limits, and fractions of devices.

Rules: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources . That a device
is requested without a limit is let pass: the API server asks for the limit, and no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.errors import FieldError
from gangsched.model.quantity import parse

_NATIVE = ("kubernetes.io", "k8s.io")


def _whole(amount: Decimal) -> bool:
    """Return whether it is a whole number, however large: there is no remainder of one with too many digits."""
    return amount == amount.to_integral_value()


def check_resources(spec: wire.PodSpec, path: str = "spec") -> None:
    """Raises :class:`FieldError` for requests and limits that no API server accepts."""
    for field, resources in _lists(spec, path):
        requests, limits = resources.requests or {}, resources.limits or {}
        for name in (*requests, *limits):
            for kind, given in (("requests", requests), ("limits", limits)):
                if name in given and is_device(name) and not _whole(parse(given[name])):
                    text = invalid.part_of_device(value=given[name], resource=name)
                    raise FieldError(f"{field}.{kind}.{name}", text)
        for name in requests.keys() & limits.keys():
            asked, most = parse(requests[name]), parse(limits[name])
            if asked > most:
                raise FieldError(
                    f"{field}.requests.{name}", invalid.above_limit(value=requests[name], limit=limits[name])
                )
            if asked != most and is_device(name):
                raise FieldError(
                    f"{field}.requests.{name}", invalid.not_the_limit(value=requests[name], limit=limits[name])
                )


def _lists(spec: wire.PodSpec, path: str) -> Iterator[tuple[str, wire.ResourceRequirements]]:
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers or ())):
        for i, each in enumerate(containers):
            if each.resources is not None:
                yield f"{path}.{name}[{i}].resources", each.resources
    if spec.resources is not None:
        yield f"{path}.resources", spec.resources


def is_device(resource: str) -> bool:
    """Return whether a resource is counted in whole pieces which no two containers share."""
    domain, slash, _ = resource.partition("/")
    if not slash:
        return resource.startswith("hugepages-")
    return not any(domain == each or domain.endswith(f".{each}") for each in _NATIVE)
