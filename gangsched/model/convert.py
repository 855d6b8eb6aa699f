"""From wire structs to records, with equal parts interned.

The same conversion serves watch events and manifests, so a rule about a field is written once. Every method
raises :class:`~gangsched.model.errors.FieldError` for a value that cannot be understood; the caller knows
which object (and file) it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from gangsched.messages import invalid
from gangsched.model import children, wire
from gangsched.model.convert_volumes import pod_volumes
from gangsched.model.dialects import HINT_PREFIXES, membership, remark
from gangsched.model.dialects.owners import declared
from gangsched.model.errors import FieldError
from gangsched.model.podset_info import WireDirectives, added_by_flavor, directives, without
from gangsched.model.preemption_toleration import preemption_toleration
from gangsched.model.queues import queue_labels
from gangsched.model.records import (
    NAMESPACE_NAME,
    NO_LABELS,
    PREEMPT_LOWER,
    PREEMPT_NEVER,
    Budget,
    Condition,
    HostPort,
    Job,
    Labels,
    LabelSelector,
    Namespace,
    Node,
    NodeTerm,
    Owner,
    Pod,
    PodSelector,
    PodShape,
    PodTerm,
    PriorityClass,
    Requirement,
    SpreadConstraint,
    Taint,
)
from gangsched.model.requests import RESIZE_PENDING, frozen, parse_list, pod_requests
from gangsched.model.selectors import label_selector, node_term, required_node_terms, toleration
from gangsched.model.stakes import KEYS as STAKES
from gangsched.model.stakes import stakes_of
from gangsched.model.times import parse_duration, parse_time, true_since

#: Our own condition types on pods.
INTENT_CONDITION = "gangsched.dev/Nominated"
OWNERS_CONDITION = "gangsched.dev/EvictedFor"
#: Annotations of PriorityClasses: how long victims of the class run at least, how long preemptors of it wait.
MINIMUM_RUN_TIME = "gangsched.dev/minimum-run-time"
PREEMPTION_DELAY = "gangsched.dev/preemption-delay"
#: Annotations of Jobs: which scheduler has suspended it to make room, and for which gang (and by which plan).
SUSPENDED_BY = "gangsched.dev/suspended-by"
PREEMPTED_BY = "gangsched.dev/preempted-by"
_MIRROR = "kubernetes.io/config.mirror"
_SOURCE = "kubernetes.io/config.source"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Converter:
    """Makes records; keeps one copy of every distinct shape and label set it has seen."""

    def __init__(self) -> None:
        self._shapes: dict[PodShape, PodShape] = {}
        self._last_shape: tuple[tuple[object, ...], PodShape] | None = None
        self._labels: dict[tuple[tuple[str, str], ...], Labels] = {}

    def pod(self, raw: wire.Pod) -> Pod:
        """One pod."""
        meta, spec, status = raw.metadata, raw.spec, raw.status
        if spec.preemption_policy not in (None, PREEMPT_LOWER, PREEMPT_NEVER):
            raise FieldError(
                "spec.preemptionPolicy", invalid.neither(repr(spec.preemption_policy), PREEMPT_LOWER, PREEMPT_NEVER)
            )
        created = parse_time(meta.creation_timestamp, "metadata.creationTimestamp")
        notes = meta.annotations or {}
        gang, mistake = membership(meta, spec)
        conditions = {c.type: _condition(c, i) for i, c in enumerate(status.conditions or ())}
        owner = owner_of(meta)
        stakes, unclear = stakes_of(notes, of_pod=True)
        grace = meta.deletion_grace_period_seconds
        if grace is None:
            grace = spec.termination_grace_period_seconds
        deleting = None
        if meta.deletion_timestamp:
            deleting = parse_time(meta.deletion_timestamp, "metadata.deletionTimestamp")
        phase = status.phase or ("Running" if spec.node_name else "Pending")
        return Pod(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            shape=self._shape_as_before(meta, spec, status),
            gang=gang,
            scheduler=spec.scheduler_name,
            labels=self._intern_labels(meta.labels),
            hints=self._intern_labels(
                {k: v for k, v in notes.items() if k.startswith(HINT_PREFIXES) and k not in STAKES}
            ),
            priority=spec.priority or 0,
            preemption_policy=spec.preemption_policy or PREEMPT_LOWER,
            node=spec.node_name,
            phase=phase,
            created=created,
            started=parse_time(status.start_time, "status.startTime") or created,
            deleting_since=deleting,
            grace_seconds=30.0 if grace is None else float(grace),
            nominated_node=status.nominated_node_name,
            gates=tuple(g.name for g in spec.scheduling_gates or ()),
            owner=owner,
            static=_MIRROR in notes or notes.get(_SOURCE) in ("file", "http") or bool(owner and owner.kind == "Node"),
            scheduled_condition=conditions.get("PodScheduled"),
            disruption=conditions.get("DisruptionTarget"),
            intent=conditions.get(INTENT_CONDITION),
            evicted_for=conditions.get(OWNERS_CONDITION),
            version=meta.resource_version,
            priority_class=spec.priority_class_name,
            volumes=pod_volumes(meta.name, spec.volumes),
            mistake=mistake,
            remark=remark(gang, meta) or unclear,
            stakes=stakes,
            deadline_seconds=spec.active_deadline_seconds,
            ended=_ended(conditions.get("Ready")) if phase == "Succeeded" else 0.0,
        )

    def _shape_as_before(self, meta: wire.ObjectMeta, spec: wire.PodSpec, status: wire.PodStatus) -> PodShape:
        """The shape of a pod. Most are like the one before, of one template."""
        key = shape_key(spec, status)
        if key is None:
            return self._shape(meta, spec, status)
        if self._last_shape is None or self._last_shape[0] != key:
            self._last_shape = key, self._shape(meta, spec, status)
        return self._last_shape[1]

    def shape_of_template(self, meta: wire.ObjectMeta, spec: wire.PodSpec) -> PodShape:
        """The shape that pods of a template will have."""
        return self._shape(meta, spec, wire.PodStatus(), template=True)

    def _shape(
        self, meta: wire.ObjectMeta, spec: wire.PodSpec, status: wire.PodStatus, template: bool = False
    ) -> PodShape:
        requests, scored = pod_requests(spec, status)
        affinity = spec.affinity or wire.Affinity()
        node_affinity = affinity.node_affinity or wire.NodeAffinity()
        near, apart = affinity.pod_affinity or wire.PodAffinity(), affinity.pod_anti_affinity or wire.PodAffinity()
        at = "spec.affinity"
        shape = PodShape(
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
            resource_claims=bool(spec.resource_claims),
            node_features=required_node_features(spec),
        )
        if len(self._shapes) > 50_000:  # every image tag makes a new one
            self._shapes.clear()
        return self._shapes.setdefault(shape, shape)

    def node(self, raw: wire.Node) -> Node:
        """One node; allocatable falls back to capacity, ``pods`` to 110, no conditions to Ready."""
        meta, spec, status = raw.metadata, raw.spec, raw.status
        field = "status.capacity" if status.allocatable is None else "status.allocatable"
        room = parse_list(status.capacity if status.allocatable is None else status.allocatable, field)
        room.setdefault("pods", 110)
        ready = next((c.status for c in status.conditions or () if c.type == "Ready"), "True")
        return Node(
            name=meta.name,
            uid=meta.uid,
            labels=self._intern_labels(meta.labels),
            allocatable=tuple(sorted(room.items())),
            taints=tuple(taint(t, f"spec.taints[{i}]") for i, t in enumerate(spec.taints or ())),
            unschedulable=spec.unschedulable,
            ready=ready == "True",
            deleting=bool(meta.deletion_timestamp),
            images=tuple(sorted((n, i.size_bytes) for i in status.images or () for n in i.names or ())),
            created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
            version=meta.resource_version,
            features=tuple(sorted(status.declared_features or ())),
        )

    def budget(self, raw: wire.PodDisruptionBudget) -> Budget:
        """One PodDisruptionBudget."""
        meta, spec, status = raw.metadata, raw.spec, raw.status
        for field, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
            if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit()) and not value.isdigit():
                raise FieldError(f"spec.{field}", invalid.not_a_number_or_percentage(value))
        return Budget(
            namespace=meta.namespace,
            name=meta.name,
            selector=label_selector(spec.selector, "spec.selector"),
            allowed=status.disruptions_allowed,
            min_available=spec.min_available,
            max_unavailable=spec.max_unavailable,
            disrupted=tuple(sorted(status.disrupted_pods or ())),
        )

    def namespace(self, raw: wire.Namespace) -> Namespace:
        """One namespace with its labels."""
        name = raw.metadata.name
        # The API server gives every namespace this label; manifests may not have it yet.
        return Namespace(name, self._intern_labels({**(raw.metadata.labels or {}), NAMESPACE_NAME: name}))

    def priority_class(self, raw: wire.PriorityClass) -> PriorityClass:
        """One PriorityClass, with what its annotations say about the patience of victims and preemptors."""
        notes = raw.metadata.annotations or {}
        return PriorityClass(
            raw.metadata.name,
            raw.value,
            raw.global_default,
            raw.preemption_policy or PREEMPT_LOWER,
            annotated_duration(notes, MINIMUM_RUN_TIME),
            annotated_duration(notes, PREEMPTION_DELAY),
            *preemption_toleration(notes, raw.value),
        )

    def job(self, raw: wire.Job) -> Job:
        """One batch/v1 Job."""
        meta, spec = raw.metadata, raw.spec
        on_disruption = _on_disruption(spec.pod_failure_policy)
        added = next(iter(added_by_flavor(meta.annotations)), WireDirectives())
        stakes, unclear = stakes_of(meta.annotations)
        without_flavor = wire.PodTemplate(spec.template.metadata, without(spec.template.spec, added))
        return Job(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            completions=spec.completions,
            backoff_limit=_backoff_limit(spec),
            failed=raw.status.failed,
            suspended=spec.suspend,
            suspended_since=true_since(raw.status.conditions, "Suspended"),
            ignores_disruption=on_disruption == "Ignore",
            fails_on_disruption=on_disruption == "FailJob",
            queue=queue_labels(meta.labels or {}),
            succeeded=raw.status.succeeded,
            finished=job_finished(raw),
            suspended_by=(meta.annotations or {}).get(SUSPENDED_BY, ""),
            owner=owner_of(meta),
            template=self.pod(children.pod(meta, without_flavor)),
            version=meta.resource_version,
            added=directives(added),
            gang=declared(meta.annotations or {}),
            stakes=stakes,
            remark=unclear,
            deadline_seconds=spec.active_deadline_seconds,
        )

    def _intern_labels(self, raw: Mapping[str, str] | None) -> Labels:
        if not raw:
            return NO_LABELS
        key = tuple(sorted(raw.items()))
        found = self._labels.get(key)
        if found is None:
            if len(self._labels) > 200_000:  # labels unique to each pod must not pile up for ever
                self._labels.clear()
            found = self._labels[key] = dict(key)
        return found


def _ended(ready: Condition | None) -> float:
    """When a pod that has ended was no longer ready; 0: that is not known."""
    return ready.since if ready is not None and ready.status == "False" else 0.0


def owner_of(meta: wire.ObjectMeta) -> Owner | None:
    """The controller of an object."""
    found = meta.controller
    return None if found is None else Owner(found.kind, found.name, found.uid)


def pod_selector(
    raw: wire.Service | wire.ReplicationController | wire.ReplicaSet | wire.StatefulSet,
) -> PodSelector:
    """What an object selects pods by; a Service or ReplicationController without a selector selects nothing."""
    selector = raw.spec.selector
    if isinstance(selector, dict):
        selector = wire.LabelSelector(match_labels=selector) if selector else None
    found = label_selector(selector, "spec.selector")
    return PodSelector(type(raw).__name__, raw.metadata.namespace, raw.metadata.name, found)


def _image_name(name: str) -> str:
    """The name under which nodes report the image: with its tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _condition(raw: wire.Condition, i: int) -> Condition:
    return Condition(
        raw.status,
        raw.reason,
        raw.message,
        parse_time(raw.last_transition_time, f"status.conditions[{i}].lastTransitionTime"),
    )


def taint(raw: wire.Taint, field: str) -> Taint:
    """One taint. Raises :class:`FieldError`."""
    if raw.effect not in _EFFECTS:
        raise FieldError(f"{field}.effect", invalid.none_of(repr(raw.effect), ", ".join(_EFFECTS)))
    return Taint(raw.key, raw.value, raw.effect)


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
        raise FieldError(f"{field}.maxSkew", invalid.below(raw.max_skew, 1))
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


def job_finished(job: wire.Job) -> bool:
    """Has the Job come to its end, or has its controller decided that it has?"""
    ends = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
    return any(c.type in ends and c.status == "True" for c in job.status.conditions or ())


def _on_disruption(policy: wire.PodFailurePolicy | None) -> str:
    """The action of the first rule that an evicted pod matches by its condition; ``Count`` without one."""
    for rule in (policy.rules if policy else None) or ():
        if any(c.type == "DisruptionTarget" and c.status == "True" for c in rule.on_pod_conditions or ()):
            return rule.action
    return "Count"


def _backoff_limit(spec: wire.JobSpec) -> int:
    """The API server's default: 6, or as good as none where each index has a limit of its own."""
    if spec.backoff_limit is not None:
        return spec.backoff_limit
    return 6 if spec.backoff_limit_per_index is None else 2**31 - 1


def annotated_duration(notes: Mapping[str, str], key: str) -> float | None:
    """Seconds that an annotation says; None without it. Raises :class:`FieldError`."""
    raw = notes.get(key)
    return None if raw is None else parse_duration(raw, f"metadata.annotations[{key}]")


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
        spec.resource_claims,
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
