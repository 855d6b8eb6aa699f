"""From wire structs to records, with equal parts interned.

The same conversion serves watch events and manifests, so a rule about a field is written once. Every method
raises :class:`~gangsched.model.errors.FieldError` for a value that cannot be understood; the caller knows
which object (and file) it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gangsched.messages import invalid
from gangsched.model import children, job_policies, wire
from gangsched.model.children import COMPLETION_INDEX, WireDirectives, added_by_flavor, directives, without
from gangsched.model.constraints import NAMESPACE_NAME, NO_LABELS, Labels, PodShape
from gangsched.model.convert_devices import pod_devices
from gangsched.model.dialects import GROUP_HINT, HINT_PREFIXES, IN_TREES, membership, remark, ungrouped, upstream
from gangsched.model.dialects.dialect import EVICTED
from gangsched.model.dialects.objects import GANG_OWNERS, owner_of
from gangsched.model.dialects.owners import GANG, declared
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.held import without_held
from gangsched.model.indexes import ranges
from gangsched.model.jobsets import (
    JobSet,
    RawJobSet,
    RawReplicatedJob,
    ReplicatedJob,
    exclusive_topology,
    failure_policy,
)
from gangsched.model.managed_by import other_controller
from gangsched.model.preemptible import KEYS as STAKES
from gangsched.model.preemptible import preemption_toleration, stakes_of
from gangsched.model.queues import queue_labels
from gangsched.model.records import (
    PREEMPT_LOWER,
    PREEMPT_NEVER,
    SINGLE,
    Budget,
    Condition,
    GangId,
    Intervals,
    Job,
    Namespace,
    Node,
    Owner,
    Pod,
    PodSelector,
    PriorityClass,
)
from gangsched.model.selectors import label_selector, taint
from gangsched.model.shapes import parse_list, pod_shape, shape_key
from gangsched.model.survival import parse_indexes, with_numbers
from gangsched.model.times import clamp_duration, parse_duration, parse_time, true_since
from gangsched.model.volumes import pod_volumes

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
#: On a pod of a Job: how many pods of its index have failed before, and what keeps it until the Job has counted it.
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_TRACKING = "batch.kubernetes.io/job-tracking"
_DIGITS = 10


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
                "spec.preemptionPolicy",
                invalid.neither(value=repr(spec.preemption_policy), one=PREEMPT_LOWER, other=PREEMPT_NEVER),
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
                | ({GROUP_HINT: gang.name} if gang.family in IN_TREES else {})
            ),
            priority=spec.priority or 0,
            preemption_policy=spec.preemption_policy or PREEMPT_LOWER,
            node=spec.node_name,
            phase=phase,
            created=created,
            started=parse_time(status.start_time, "status.startTime") or created,
            deleting_since=deleting,
            grace_seconds=30.0 if grace is None else clamp_duration(float(grace)),
            nominated_node=status.nominated_node_name,
            gates=tuple(g.name for g in spec.scheduling_gates or ()),
            owner=owner,
            static=_MIRROR in notes and owner is not None and owner.kind == "Node",
            scheduled_condition=conditions.get("PodScheduled"),
            disruption=conditions.get("DisruptionTarget"),
            intent=conditions.get(INTENT_CONDITION),
            evicted_for=conditions.get(OWNERS_CONDITION),
            version=meta.resource_version,
            priority_class=spec.priority_class_name,
            volumes=pod_volumes(meta.name, spec.volumes),
            devices=pod_devices(raw),
            mistake=mistake,
            remark=remark(gang, meta) or self._without_gang(gang, owner, raw) or unclear,
            stakes=stakes,
            ungrouped=ungrouped(gang, meta, spec),
            deadline_seconds=spec.active_deadline_seconds,
            ended=_ended(conditions.get("Ready")) if phase == "Succeeded" else 0.0,
            completion_index=_number(notes.get(COMPLETION_INDEX), -1),
            index_failures=_number(notes.get(_INDEX_FAILURES), 0),
            ready=(ready := conditions.get("Ready")) is None or ready.status == "True",
            finalizers=tuple(meta.finalizers or ()) if deleting is not None else (),
            tracked=(deleting is None and phase not in ("Succeeded", "Failed")) or _TRACKING in (meta.finalizers or ()),
        )

    @staticmethod
    def _without_gang(gang: GangId, owner: Owner | None, raw: wire.Pod) -> Mistake | None:
        """What of a pod that is a gang of one looks as if it were a member of another gang."""
        if gang.family != SINGLE:
            return None
        if raw.spec.workload_ref is not None:
            return Mistake("spec.workloadRef", invalid.WORKLOAD_REF)
        if declared(raw.metadata.annotations or {}) and (owner is None or owner.kind not in GANG_OWNERS):
            named = f"a {owner.of_api()[1]}" if owner is not None else "no owner"
            return Mistake(f"metadata.annotations[{GANG}]", invalid.gang_without_owner(owner=named))
        return None

    def _shape_as_before(self, meta: wire.ObjectMeta, spec: wire.PodSpec, status: wire.PodStatus) -> PodShape:
        """The shape of a pod. Most are like the one before, of one template."""
        key = shape_key(spec, status)
        if key is None:
            return self._shape(meta, spec, status)
        if self._last_shape is None or self._last_shape[0] != key:
            self._last_shape = key, self._shape(meta, spec, status)
        return self._last_shape[1]

    def _shape(
        self, meta: wire.ObjectMeta, spec: wire.PodSpec, status: wire.PodStatus, *, template: bool = False
    ) -> PodShape:
        shape = pod_shape(meta, spec, status, template=template)
        if len(self._shapes) > 50_000:  # every image tag makes a new one
            self._shapes.clear()
        return self._shapes.setdefault(shape, shape)

    def shape_of_template(self, meta: wire.ObjectMeta, spec: wire.PodSpec) -> PodShape:
        """The shape that pods of a template will have."""
        return self._shape(meta, spec, wire.PodStatus(), template=True)

    def node(self, raw: wire.Node) -> Node:
        """One node; allocatable falls back to capacity, ``pods`` to 110, no conditions to Ready."""
        meta, spec, status = raw.metadata, raw.spec, raw.status
        field = "status.capacity" if status.allocatable is None else "status.allocatable"
        room = parse_list(status.capacity if status.allocatable is None else status.allocatable, field)
        room.setdefault("pods", 110)
        ready = next((c.status for c in status.conditions or () if c.type == "Ready"), "True")
        taints, held = without_held(tuple(taint(t, f"spec.taints[{i}]") for i, t in enumerate(spec.taints or ())))
        return Node(
            name=meta.name,
            uid=meta.uid,
            labels=self._intern_labels(meta.labels),
            allocatable=tuple(sorted(room.items())),
            taints=taints,
            unschedulable=spec.unschedulable,
            ready=ready == "True",
            deleting=bool(meta.deletion_timestamp),
            images=tuple(sorted((n, i.size_bytes) for i in status.images or () for n in i.names or ())),
            created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
            version=meta.resource_version,
            features=tuple(sorted(status.declared_features or ())),
            held=held,
        )

    def budget(self, raw: wire.PodDisruptionBudget) -> Budget:
        """One PodDisruptionBudget."""
        meta, spec, status = raw.metadata, raw.spec, raw.status
        for field, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
            if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit()) and not value.isdigit():
                raise FieldError(f"spec.{field}", invalid.not_a_number_or_percentage(value=value))
        return Budget(
            namespace=meta.namespace,
            name=meta.name,
            selector=label_selector(spec.selector, "spec.selector"),
            allowed=status.disruptions_allowed,
            min_available=spec.min_available,
            max_unavailable=spec.max_unavailable,
            disrupted=tuple(sorted(status.disrupted_pods or ())),
            healthy=status.current_healthy or 0,
            desired=status.desired_healthy or 0,
            outdated=status.disruptions_allowed is not None and status.observed_generation < meta.generation,
            always_allow=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        )

    def namespace(self, raw: wire.Namespace) -> Namespace:
        """One namespace with its labels."""
        name = raw.metadata.name
        # The API server gives every namespace this label; manifests may not have it yet.
        labels = self._intern_labels({**(raw.metadata.labels or {}), NAMESPACE_NAME: name})
        return Namespace(name, labels, bool(raw.metadata.deletion_timestamp) or raw.status.phase == "Terminating")

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
        meta, spec, status = raw.metadata, raw.spec, raw.status
        uncounted = status.uncounted_terminated_pods
        counted = frozenset((uncounted.failed if uncounted is not None else None) or ())
        added = next(iter(added_by_flavor(meta.annotations)), WireDirectives())
        stakes, unclear = stakes_of(meta.annotations)
        said, scheduling = declared(meta.annotations or {}), upstream.gang_of_job(raw)
        without_flavor = wire.PodTemplate(spec.template.metadata, without(spec.template.spec, added))
        return Job(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            completions=spec.completions,
            backoff_limit=job_policies.backoff_limit(spec),
            failed=status.failed + len(counted),
            suspended=spec.suspend,
            suspended_since=true_since(status.conditions, "Suspended"),
            queue=queue_labels(meta.labels or {}),
            succeeded=status.succeeded,
            finished=job_finished(raw),
            suspended_by=(meta.annotations or {}).get(SUSPENDED_BY, ""),
            owner=owner_of(meta),
            template=self.pod(children.pod(meta, without_flavor)),
            version=meta.resource_version,
            added=directives(added),
            gang=scheduling is not None or None if said is None else said,
            scheduling=scheduling,
            stakes=stakes,
            remark=unclear,
            deadline_seconds=spec.active_deadline_seconds,
            counted=counted,
            failure_rules=job_policies.failure_rules(spec),
            awaits_end=job_policies.awaits_end(spec),
            indexed=spec.completion_mode == "Indexed",
            limit_per_index=spec.backoff_limit_per_index,
            max_failed_indexes=spec.max_failed_indexes,
            failed_indexes=failed_indexes(raw),
            completed_indexes=_below(parse_indexes(status.completed_indexes), spec.completions),
            success_rules=job_policies.success_rules(spec),
            deleting=bool(meta.deletion_timestamp),
            evicted=_evicted(raw.status.conditions),
            exclusive=exclusive_topology(owner_of(meta), meta.annotations or {}),
            elsewhere=other_controller(raw) is not None,
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


def _number(text: str | None, without: int) -> int:
    """Return the number of an annotation, as the Job controller reads it. Any other value counts as none."""
    return int(text) if text is not None and text.isdecimal() and len(text) < _DIGITS else without


def _ended(ready: Condition | None) -> float:
    """When a pod that has ended was no longer ready; 0: that is not known."""
    return ready.since if ready is not None and ready.status == "False" else 0.0


def pod_selector(
    raw: wire.Service | wire.ReplicationController | wire.ReplicaSet | wire.StatefulSet,
) -> PodSelector:
    """Return the selector of an object. A Service or ReplicationController without a selector selects no pod."""
    selector = raw.spec.selector
    if isinstance(selector, dict):
        selector = wire.LabelSelector(match_labels=selector) if selector else None
    found = label_selector(selector, "spec.selector")
    meta = raw.metadata
    return PodSelector(
        type(raw).__name__,
        meta.namespace,
        meta.name,
        found,
        uid=meta.uid,
        owner=owner_of(meta),
        deleting=bool(meta.deletion_timestamp),
    )


def daemon_set(raw: wire.DaemonSet) -> PodSelector:
    """Return the record of a DaemonSet, of which only the existence counts."""
    meta = raw.metadata
    return PodSelector(
        "DaemonSet",
        meta.namespace,
        meta.name,
        uid=meta.uid,
        owner=owner_of(meta),
        deleting=bool(meta.deletion_timestamp),
    )


def _evicted(conditions: Iterable[wire.Condition] | None) -> bool:
    """Return True if a condition in the status says that pods have been evicted. Users cannot write it."""
    return any(each.type == EVICTED and each.status == "True" for each in conditions or ())


def _condition(raw: wire.Condition, i: int) -> Condition:
    return Condition(
        raw.status,
        raw.reason,
        raw.message,
        parse_time(raw.last_transition_time, f"status.conditions[{i}].lastTransitionTime"),
    )


def job_finished(job: wire.Job) -> bool:
    """Return True if the Job has ended, or its controller has decided that it ends."""
    ends = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
    return any(c.type in ends and c.status == "True" for c in job.status.conditions or ())


def failed_indexes(job: wire.Job) -> Intervals:
    """The indexes of a Job that have failed for good, of those that it has. Raises :class:`FieldError`."""
    if job.spec.completion_mode != "Indexed":
        return ()
    failed = with_numbers(tuple(ranges(job.status.failed_indexes or "", "status.failedIndexes")), ())
    return _below(failed, job.spec.completions)


def _below(indexes: Intervals, completions: int | None) -> Intervals:
    """Return those of the indexes that the Job still has, because its completions may have been lowered."""
    most = (completions or 0) - 1
    return tuple((first, min(last, most)) for first, last in indexes if first <= most)


def annotated_duration(notes: Mapping[str, str], key: str) -> float | None:
    """Seconds that an annotation says; None without it. Raises :class:`FieldError`."""
    raw = notes.get(key)
    return None if raw is None else parse_duration(raw, f"metadata.annotations[{key}]")


#: More Jobs than this are not made of one template.
MAX_REPLICAS = 100_000

_ENDS = ("Completed", "Complete", "Failed")


def job_set(convert: Converter, raw: RawJobSet) -> JobSet:
    """One JobSet. Raises :class:`FieldError`."""
    meta = raw.metadata
    policy = raw.spec.startup_policy
    in_order = policy is not None and policy.startup_policy_order == "InOrder"
    replicated = []
    found = added_by_flavor(meta.annotations)
    stakes, unclear = stakes_of(meta.annotations)
    for i, (path, each) in enumerate(replicated_jobs(raw)):
        added = found[i] if i < len(found) else WireDirectives()
        try:
            job = convert.job(_before(children.job(raw, each), added))
        except FieldError as error:
            raise error.under(f"{path}.template.spec.template") from None
        replicated.append(ReplicatedJob(each.replicas, msgspec.structs.replace(job, added=directives(added))))
    return JobSet(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        replicated=tuple(replicated),
        suspended=raw.spec.suspend,
        suspended_since=true_since(raw.status.conditions, "Suspended"),
        finished=jobset_finished(raw),
        in_order=in_order or any(r.depends_on for r in raw.spec.replicated_jobs),
        queue=queue_labels(meta.labels or {}),
        suspended_by=(meta.annotations or {}).get(SUSPENDED_BY, ""),
        version=meta.resource_version,
        owner=owner_of(meta),
        gang=declared(meta.annotations or {}),
        stakes=stakes,
        remark=unclear,
        deleting=bool(meta.deletion_timestamp),
        evicted=_evicted(raw.status.conditions),
        failure_policy=failure_policy(raw),
        elsewhere=other_controller(raw) is not None,
    )


def _before(job: wire.Job, added: WireDirectives) -> wire.Job:
    """A Job whose template has not been in a flavor."""
    template = job.spec.template
    template = msgspec.structs.replace(template, spec=without(template.spec, added))
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, template=template))


def jobset_finished(raw: RawJobSet) -> bool:
    """Return True if the JobSet has ended."""
    return any(c.type in _ENDS and c.status == "True" for c in raw.status.conditions or ())


def replicated_jobs(raw: RawJobSet) -> Iterator[tuple[str, RawReplicatedJob]]:
    """Its templates of Jobs, each with its path in the JobSet. Raises :class:`FieldError` for one that makes no sense.

    References of ``dependsOn`` are checked too: its controller would wait for a name that does not come for ever.
    """
    names: list[str] = []
    for i, each in enumerate(raw.spec.replicated_jobs):
        path = f"spec.replicatedJobs[{i}]"
        if not each.name or each.name in names:
            problem = invalid.given_twice(name=each.name) if each.name else "is missing"
            raise FieldError(f"{path}.name", problem)
        if not 0 <= each.replicas <= MAX_REPLICAS:
            raise FieldError(f"{path}.replicas", invalid.not_between(value=each.replicas, low=0, high=MAX_REPLICAS))
        for k, other in enumerate(each.depends_on or ()):
            if other.name not in names:
                has = ", ".join(names) or "none"
                problem = invalid.no_replicated_job(name=other.name, has=has)
                raise FieldError(f"{path}.dependsOn[{k}].name", problem)
        names.append(each.name)
        yield path, each
