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


def pod_requests(
    spec: wire.PodSpec, allocated: dict[str, dict[str, int]] | None = None
) -> tuple[dict[str, int], dict[str, int]]:
    """``(requests, scored)`` of a pod, base units.

    ``allocated`` gives, by container name, what the kubelet has granted during an in-place resize: until the
    resize is done the larger of the two counts. ``scored`` holds cpu and memory with
    :data:`DEFAULT_SCORED` for containers that ask for none.
    """
    running: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    init_peak: dict[str, int] = {}
    scored_running = dict.fromkeys(DEFAULT_SCORED, 0)
    scored_sidecars = dict.fromkeys(DEFAULT_SCORED, 0)
    scored_peak = dict.fromkeys(DEFAULT_SCORED, 0)
    for i, container in enumerate(spec.init_containers or ()):
        own = container_requests(container, f"spec.initContainers[{i}]")
        scored = _with_defaults(own)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            _add(scored_sidecars, scored)
            own, scored = {}, {}
        _raise_to(init_peak, _sum(sidecars, own))
        _raise_to(scored_peak, _sum(scored_sidecars, scored))
    for i, container in enumerate(spec.containers):
        own = container_requests(container, f"spec.containers[{i}]")
        if allocated and container.name in allocated:
            _raise_to(own, allocated[container.name])
        _add(running, own)
        _add(scored_running, _with_defaults(own))
    total = _sum(running, sidecars)
    _raise_to(total, init_peak)
    scored = _sum(scored_running, scored_sidecars)
    _raise_to(scored, scored_peak)
    if spec.resources is not None:
        whole = parse_list(spec.resources.requests, "spec.resources.requests")
        for name, units in parse_list(spec.resources.limits, "spec.resources.limits").items():
            # A pod-level limit is a request only where no container asks for that resource.
            if name not in whole and name not in total:
                whole[name] = units
        for name, units in whole.items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                total[name] = units
                if name in scored:
                    scored[name] = units
    overhead = parse_list(spec.overhead, "spec.overhead")
    _add(total, overhead)
    _add(scored, {k: v for k, v in overhead.items() if k in scored})
    return total, scored


def _with_defaults(own: dict[str, int]) -> dict[str, int]:
    return {name: own.get(name, default) for name, default in DEFAULT_SCORED.items()}


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
        if units > into.get(name, 0):
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
