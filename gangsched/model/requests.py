"""The effective resource requests of a pod.

Rules: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers ,
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/ , pod overhead and pod-level resources
(https://kubernetes.io/docs/concepts/workloads/management/).

Init containers run one after another beside the sidecars started before them; containers run
together beside all sidecars; the larger phase counts. Pod-level requests replace the sum for the resources
they name. Overhead is added to everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.model import wire
from gangsched.model.errors import FieldError
from gangsched.model.quantity import base_units

#: What scoring assumes for a container that asks for no cpu or memory, so that such pods still spread out.
DEFAULT_SCORED = {"cpu": 100, "memory": 200 * 1024 * 1024}

_POD_LEVEL = ("cpu", "memory")
RESIZE_PENDING = "PodResizePending"


def parse_list(raw: wire.Quantities | None, field: str) -> dict[str, int]:
    """A resource list in base units. Raises :class:`FieldError` naming ``field.resource``."""
    out: dict[str, int] = {}
    for name, value in (raw or {}).items():
        try:
            out[name] = base_units(name, value)
        except FieldError as error:
            raise error.under(f"{field}.{name}") from None
    return out


def container_requests(container: wire.Container, field: str) -> dict[str, int]:
    """Requests of one container; a limit without a request is the request, as the API server defaults it."""
    resources = container.resources
    if resources is None:
        return {}
    requests = parse_list(resources.requests, f"{field}.resources.requests")
    if resources.limits:
        for name, units in parse_list(resources.limits, f"{field}.resources.limits").items():
            requests.setdefault(name, units)
    return requests


def pod_requests(spec: wire.PodSpec, status: wire.PodStatus | None = None) -> tuple[dict[str, int], dict[str, int]]:
    """``(requests, scored)`` of a pod, base units.

    While a container (or a sidecar, or the pod as a whole) is being resized in place, the largest of what is asked for,
    what the kubelet has granted and what is in force counts; what is asked for does not once the kubelet has called
    it infeasible. ``scored`` holds cpu and memory with :data:`DEFAULT_SCORED` for containers that ask for none; with
    pod-level requests only for resources that no container requests.
    """
    granted = _Granted(status or wire.PodStatus())
    init, running = [], []
    for i, container in enumerate(spec.init_containers or ()):
        own = container_requests(container, f"spec.initContainers[{i}]")
        sidecar = container.restart_policy == "Always"
        init.append((granted.container(container.name, own) if sidecar else own, sidecar))
    for i, container in enumerate(spec.containers):
        running.append(granted.container(container.name, container_requests(container, f"spec.containers[{i}]")))
    total = _together(init, running, {})
    whole = granted.pod(_pod_level(spec.resources, total)) if spec.resources is not None else {}
    missing = DEFAULT_SCORED
    if whole:
        missing = {name: units for name, units in DEFAULT_SCORED.items() if name not in total and name not in whole}
    counted = _together(init, running, missing)
    total.update(whole)
    counted.update(whole)
    if spec.overhead:
        overhead = parse_list(spec.overhead, "spec.overhead")
        _add(total, overhead)
        _add(counted, overhead)
    return total, {name: counted.get(name, 0) for name in DEFAULT_SCORED}


def _pod_level(resources: wire.ResourceRequirements, total: dict[str, int]) -> dict[str, int]:
    """What the pod as a whole asks for, defaulted as the API server does it: with pod-level limits, the containers' sum
    where they ask for a resource, else the limit.
    """
    whole = parse_list(resources.requests, "spec.resources.requests")
    limits = parse_list(resources.limits, "spec.resources.limits")
    if limits:
        whole = {**{name: total[name] for name in _POD_LEVEL if name in total}, **whole}
        for name, units in limits.items():
            if name not in total:
                whole.setdefault(name, units)
    return {name: units for name, units in whole.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


class _Granted:
    """What the kubelet says about the resources of a pod: rules of in-place resizing, KEP-1287 and KEP-5419."""

    def __init__(self, status: wire.PodStatus) -> None:
        self._status = status
        self._infeasible = any(c.type == RESIZE_PENDING and c.reason == "Infeasible" for c in status.conditions or ())
        self._known = {
            c.name: self._read(c, f"status.{field}[{i}]")
            for field, found in (
                ("containerStatuses", status.container_statuses),
                ("initContainerStatuses", status.init_container_statuses),
            )
            for i, c in enumerate(found or ())
            if c.resources is not None
        }

    @staticmethod
    def _read(status: wire.ContainerStatus | wire.PodStatus, field: str) -> dict[str, int]:
        out = parse_list(status.resources.requests if status.resources else None, f"{field}.resources.requests")
        _raise_to(out, parse_list(status.allocated_resources, f"{field}.allocatedResources"))
        return out

    def container(self, name: str, asked: dict[str, int]) -> dict[str, int]:
        """The requests of a container that count."""
        return self._larger(asked, self._known[name]) if name in self._known else asked

    def pod(self, asked: dict[str, int]) -> dict[str, int]:
        """The pod-level requests that count, of the resources that are asked for."""
        if not asked or self._status.resources is None:
            return asked
        larger = self._larger(asked, self._read(self._status, "status"))
        return {name: larger.get(name, 0) for name in asked}

    def _larger(self, asked: dict[str, int], granted: dict[str, int]) -> dict[str, int]:
        out = dict(granted)
        if not self._infeasible:
            _raise_to(out, asked)
        return out


def _together(
    init: list[tuple[dict[str, int], bool]], running: list[dict[str, int]], missing: dict[str, int]
) -> dict[str, int]:
    """The larger of the phases; ``init`` says of each whether it is a sidecar, ``missing`` what stands in for a request
    that a container does not make.
    """
    total: dict[str, int] = {}
    for own in running:
        _add(total, {**missing, **own} if missing else own)
    if init:
        sidecars: dict[str, int] = {}
        peak: dict[str, int] = {}
        for own, sidecar in init:
            if sidecar:
                _add(sidecars, {**missing, **own})
                _raise_to(peak, sidecars)
            else:
                _raise_to(peak, _sum(sidecars, {**missing, **own}))
        _add(total, sidecars)
        _raise_to(total, peak)
    return total


def _add(into: dict[str, int], what: dict[str, int]) -> None:
    for name, units in what.items():
        into[name] = into.get(name, 0) + units


def _sum(*parts: dict[str, int]) -> dict[str, int]:
    out: dict[str, int] = {}
    for part in parts:
        _add(out, part)
    return out


def _raise_to(into: dict[str, int], floor: dict[str, int]) -> None:
    for name, units in floor.items():
        if name not in into or units > into[name]:  # an explicit zero is a request too: no default stands in for it
            into[name] = units


def frozen(amounts: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """A resource list as a hashable, ordered tuple without zeros."""
    return tuple(sorted((name, units) for name, units in amounts.items() if units))


def total(shapes: Iterable[tuple[tuple[str, int], ...]]) -> dict[str, int]:
    """The sum of frozen resource lists."""
    out: dict[str, int] = {}
    for shape in shapes:
        _add(out, dict(shape))
    return out
