"""The shape of a pod: its requirements for a node, with its effective resource requests.

Rules of requests:
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers ,
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/ , pod overhead and pod-level resources
(https://kubernetes.io/docs/concepts/workloads/management/).

Init containers run one after another beside the sidecars started before them; containers run
together beside all sidecars; the larger phase counts. Pod-level requests replace the sum for the resources
they name. Overhead is added to everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeTerm,
    PodShape,
    PodTerm,
    Requirement,
    SpreadConstraint,
)
from gangsched.model.errors import FieldError
from gangsched.model.quantity import base_units
from gangsched.model.selectors import label_selector, node_term, required_node_terms, toleration

#: The assumption of scoring for a container without requests for cpu or memory, so that such pods still spread out.
DEFAULT_SCORED = {"cpu": 100, "memory": 200 * 1024 * 1024}

_POD_LEVEL = ("cpu", "memory")
RESIZE_PENDING = "PodResizePending"
#: The limits of one pod, many times the usual size. With ten times as many a decision takes seconds on 1,000 nodes.
MAX_RESOURCES, MAX_NODE_TERMS, MAX_POD_TERMS, MAX_SPREADS = 250, 1_000, 500, 100


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

    While a container (or a sidecar, or the pod as a whole) is being resized in place, the largest of its desired,
    granted and actual requests counts. Desired requests that the kubelet has called infeasible do not count. ``scored``
    holds cpu and memory with :data:`DEFAULT_SCORED` for containers that ask for none; with pod-level requests only for
    resources that no container requests.
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
    """Return the pod-level requests with the defaults of the API server: with pod-level limits, the containers' sum
    where they request a resource, else the limit.
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
    """The kubelet's status of the resources of a pod: rules of in-place resizing, KEP-1287 and KEP-5419."""

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
        """Return the pod-level requests that count, of the requested resources."""
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


# -- shapes -----------------------------------------------------------------------------------------------------------


def pod_shape(meta: wire.ObjectMeta, spec: wire.PodSpec, status: wire.PodStatus, *, template: bool = False) -> PodShape:
    """The shape of a pod, or the one that pods of a template will have. Raises :class:`FieldError`."""
    affinity = spec.affinity or wire.Affinity()
    check_sizes(spec, affinity)
    requests, scored = pod_requests(spec, status)
    _at_most(len(requests), MAX_RESOURCES, "spec.containers", "resources")
    node_affinity = affinity.node_affinity or wire.NodeAffinity()
    near, apart = affinity.pod_affinity or wire.PodAffinity(), affinity.pod_anti_affinity or wire.PodAffinity()
    at = "spec.affinity"
    return PodShape(
        requests=frozen(requests),
        scored=frozen(scored),
        node_name=spec.node_name if template else "",
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_terms=required_node_terms(affinity, at),
        preferred_node_terms=_preferred_nodes(node_affinity, f"{at}.nodeAffinity"),
        tolerations=tuple(toleration(t, f"spec.tolerations[{i}]") for i, t in enumerate(spec.tolerations or ())),
        host_ports=_host_ports(spec),
        affinity=tuple(
            _pod_term(t, meta, f"{at}.podAffinity.required[{i}]") for i, t in enumerate(near.required or ())
        ),
        anti_affinity=tuple(
            _pod_term(t, meta, f"{at}.podAntiAffinity.required[{i}]") for i, t in enumerate(apart.required or ())
        ),
        preferred_affinity=tuple(
            (w.weight, _pod_term(w.pod_affinity_term, meta, f"{at}.podAffinity.preferred[{i}].podAffinityTerm"))
            for i, w in enumerate(near.preferred or ())
        ),
        preferred_anti_affinity=tuple(
            (w.weight, _pod_term(w.pod_affinity_term, meta, f"{at}.podAntiAffinity.preferred[{i}].podAffinityTerm"))
            for i, w in enumerate(apart.preferred or ())
        ),
        spread=tuple(
            _spread(c, meta, f"spec.topologySpreadConstraints[{i}]")
            for i, c in enumerate(spec.topology_spread_constraints or ())
        ),
        images=tuple(_image_name(c.image) for c in (*(spec.init_containers or ()), *spec.containers)),
        image_volumes=tuple(_image_name(v.image.reference) for v in spec.volumes or () if v.image is not None),
        node_features=required_node_features(spec),
    )


def check_sizes(spec: wire.PodSpec, affinity: wire.Affinity) -> None:
    """Raise :class:`FieldError` for lists that are so long that each decision about such a pod would take seconds. The
    API server bounds no more than the object.
    """
    required = affinity.node_affinity.required if affinity.node_affinity is not None else None
    of_nodes = affinity.node_affinity.preferred if affinity.node_affinity is not None else None
    near, apart = affinity.pod_affinity or wire.PodAffinity(), affinity.pod_anti_affinity or wire.PodAffinity()
    terms = len(required.node_selector_terms or ()) if required is not None else 0
    _at_most(terms + len(of_nodes or ()), MAX_NODE_TERMS, "spec.affinity.nodeAffinity", "terms")
    of_pods = sum(len(some or ()) for a in (near, apart) for some in (a.required, a.preferred))
    _at_most(of_pods, MAX_POD_TERMS, "spec.affinity", invalid.TERMS_ABOUT_PODS)
    _at_most(len(spec.topology_spread_constraints or ()), MAX_SPREADS, "spec.topologySpreadConstraints", "constraints")


def _at_most(count: int, most: int, field: str, what: str) -> None:
    if count > most:
        raise FieldError(field, invalid.more_than(count=count, what=what, most=most))


def _preferred_nodes(raw: wire.NodeAffinity, field: str) -> tuple[tuple[int, NodeTerm], ...]:
    path = f"{field}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        (p.weight, node_term(p.preference, f"{path}[{i}].preference")) for i, p in enumerate(raw.preferred or ())
    )


def _host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    out = set()
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        for port in container.ports or ():
            # With hostNetwork the API server copies containerPort to hostPort; manifests may not have it yet.
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                out.add(HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", number))  # noqa: S104
    return tuple(sorted(out, key=lambda p: (p.port, p.protocol, p.ip)))


def _with_label_keys(
    selector: LabelSelector | None, meta: wire.ObjectMeta, match: list[str] | None, mismatch: list[str] | None
) -> LabelSelector | None:
    """A selector with what matchLabelKeys and mismatchLabelKeys add: the pod's own values; absent keys add nothing."""
    if selector is None or not (match or mismatch):
        return selector
    labels = meta.labels or {}
    extra = [Requirement(k, "In", (labels[k],)) for k in sorted(match or ()) if k in labels]
    extra += [Requirement(k, "NotIn", (labels[k],)) for k in sorted(mismatch or ()) if k in labels]
    # The API server has already merged these into the selector of a stored pod: do not count them twice.
    return LabelSelector((*selector.requirements, *(r for r in extra if r not in selector.requirements)))


def _pod_term(raw: wire.PodAffinityTerm, meta: wire.ObjectMeta, field: str) -> PodTerm:
    if not raw.topology_key:
        raise FieldError(f"{field}.topologyKey", invalid.NO_TOPOLOGY_KEY_OF_AFFINITY)
    selector = _with_label_keys(
        label_selector(raw.label_selector, f"{field}.labelSelector"),
        meta,
        raw.match_label_keys,
        raw.mismatch_label_keys,
    )
    space = label_selector(raw.namespace_selector, f"{field}.namespaceSelector")
    names = tuple(sorted(raw.namespaces or ()))
    if not names and space is None:
        names = (meta.namespace,)
    return PodTerm(raw.topology_key, selector, names, space)


def _spread(raw: wire.TopologySpreadConstraint, meta: wire.ObjectMeta, field: str) -> SpreadConstraint:
    if raw.max_skew < 1:
        raise FieldError(f"{field}.maxSkew", invalid.below(value=raw.max_skew, least=1))
    if not raw.topology_key:
        raise FieldError(f"{field}.topologyKey", invalid.NO_TOPOLOGY_KEY_OF_SPREAD)
    selector = _with_label_keys(
        label_selector(raw.label_selector, f"{field}.labelSelector"), meta, raw.match_label_keys, None
    )
    if selector is not None and not selector.requirements:
        selector = None  # unlike elsewhere, kube-scheduler counts no pod here
    return SpreadConstraint(
        topology_key=raw.topology_key,
        max_skew=raw.max_skew,
        selector=selector,
        required=raw.when_unsatisfiable != "ScheduleAnyway",
        min_domains=raw.min_domains or 1,
        honor_affinity=raw.node_affinity_policy != "Ignore",
        honor_taints=raw.node_taints_policy == "Honor",
    )


def _image_name(name: str) -> str:
    """The name under which nodes report the image: with its tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def shape_key(spec: wire.PodSpec, status: wire.PodStatus) -> tuple[object, ...] | None:
    """Pods for which this is equal have the same shape. None where the pod's own labels or its volumes have a say."""
    if (
        spec.affinity is not None
        or spec.topology_spread_constraints
        or any(v.image is not None for v in spec.volumes or ())
        or any(c.type == RESIZE_PENDING for c in status.conditions or ())
    ):
        return None
    return (
        spec.containers,
        spec.init_containers,
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.tolerations,
        spec.host_network,
        spec.host_users,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
    )


# Features that a node must declare (``status.declaredFeatures``) before a pod may run there. The rules are those by
# which kube-scheduler's NodeDeclaredFeatures infers requirements from a pod's spec (Kubernetes 1.36). Older API servers
# drop or refuse the fields that require a feature, so nothing is inferred there.
RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


def required_node_features(spec: wire.PodSpec) -> tuple[str, ...]:
    """Names of features, sorted."""
    out = []
    containers = (*spec.containers, *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules or ()):
        out.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        out.append(USER_NAMESPACE_ON_HOST_NETWORK)
    return tuple(out)
