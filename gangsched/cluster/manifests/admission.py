"""The work of the API server and its controllers before a scheduler sees objects: priorities, Jobs of a JobSet, pods of
a Job, claims and volumes.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/ ,
https://kubernetes.io/docs/concepts/storage/persistent-volumes/ and, for generic ephemeral volumes,
https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/ .
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from gangsched.messages import invalid
from gangsched.messages.text import and_nearest
from gangsched.model import children, wire
from gangsched.model.children import JOB_NAME, JOBSET_NAME, OLD_JOB_NAME
from gangsched.model.convert import failed_indexes, job_finished, jobset_finished, replicated_jobs
from gangsched.model.dialects.objects import owner_of
from gangsched.model.errors import FieldError, Place, Problem
from gangsched.model.indexes import how_many, others, ranges
from gangsched.model.jobsets import JOBSET, RawJobSet, exclusive_topology
from gangsched.model.records import JOB, PREEMPT_LOWER, PREEMPT_NEVER
from gangsched.model.volumes import (
    BIND_COMPLETED,
    RawClaimReference,
    RawClaimSpec,
    RawPersistentVolume,
    RawPersistentVolumeClaim,
    RawStorageClass,
    is_default_class,
)

#: PriorityClasses that every cluster has.
BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
#: The API server refuses more than this for other classes.
MAX_USER_PRIORITY = 1_000_000_000

Prioritised: TypeAlias = wire.PodSpec | wire.UpstreamPodGroupSpec


class PriorityAdmission:
    """Resolves ``priorityClassName`` into a priority and a preemption policy."""

    def __init__(
        self,
        found: Iterable[tuple[Place, wire.PriorityClass]],
        warnings: list[Problem],
        known: Sequence[wire.PriorityClass] = (),
    ) -> None:
        """Take in all classes of the input, beside those that are ``known`` already.

        Raises :class:`~gangsched.model.errors.InputError` for one the API server would refuse.
        """
        self._classes = {name: wire.PriorityClass(value=value) for name, value in BUILT_IN.items()}
        self._classes |= {each.metadata.name: each for each in known}
        self._default = next((each for each in known if each.global_default), None)
        for place, each in found:
            with place.named():
                _check(each)
            self._classes[each.metadata.name] = each
            if each.global_default:
                if self._default is not None:
                    text = invalid.SEVERAL_DEFAULTS
                    warnings.append(place.warning("globalDefault", text))
                if self._default is None or each.value < self._default.value:
                    self._default = each

    def pod(self, meta: wire.ObjectMeta, spec: wire.PodSpec, path: str = "spec") -> None:
        """Set priority and preemption policy of a pod, or of the template at ``path``. Raises :class:`FieldError`."""
        if meta.uid and spec.priority is not None:
            return  # it comes from an API server, which has resolved it with the classes of that time
        if spec.priority_class_name or self._default is not None:
            self._resolve(spec, path)
            return
        if spec.priority not in (None, 0):
            text = invalid.priority_without_class(priority=spec.priority, kind="pod")
            raise FieldError(f"{path}.priority", text)
        spec.priority = 0

    def group(self, meta: wire.ObjectMeta, spec: wire.UpstreamPodGroupSpec) -> None:
        """Set the priority of a PodGroup that names a class (or takes the default one).

        Without either it stays without a priority of its own, as on a cluster that does not serve the field,
        and its members' priorities count. Raises :class:`FieldError`.
        """
        if meta.uid and spec.priority is not None:
            return
        if spec.priority_class_name or self._default is not None:
            self._resolve(spec, "spec")
        elif spec.priority not in (None, 0):
            text = invalid.priority_without_class(priority=spec.priority, kind="group")
            raise FieldError("spec.priority", text)

    def _resolve(self, spec: Prioritised, path: str) -> None:
        name = spec.priority_class_name
        found = self._classes.get(name) if name else self._default
        if found is None:
            hint = and_nearest(name, self._classes, 0.7)
            raise FieldError(f"{path}.priorityClassName", invalid.no_priority_class(name=name, hint=hint))
        name = name or found.metadata.name
        if spec.priority not in (None, found.value):
            text = invalid.priority_not_of_class(priority=spec.priority, value=found.value, name=name)
            raise FieldError(f"{path}.priority", text)
        policy = found.preemption_policy or PREEMPT_LOWER
        if spec.preemption_policy not in (None, policy):
            text = invalid.policy_not_of_class(preemption_policy=spec.preemption_policy, policy=policy, name=name)
            raise FieldError(f"{path}.preemptionPolicy", text)
        spec.priority, spec.preemption_policy, spec.priority_class_name = found.value, policy, name


def _check(each: wire.PriorityClass) -> None:
    if each.preemption_policy not in (None, PREEMPT_LOWER, PREEMPT_NEVER):
        text = invalid.neither(value=repr(each.preemption_policy), one=PREEMPT_LOWER, other=PREEMPT_NEVER)
        raise FieldError("preemptionPolicy", text)
    if each.metadata.name not in BUILT_IN and each.value > MAX_USER_PRIORITY:
        text = invalid.priority_too_high(value=each.value, most=MAX_USER_PRIORITY)
        raise FieldError("value", text)
    if each.value < -(2**31) or each.value >= 2**31:
        raise FieldError("value", invalid.not_32_bits(value=each.value))


#: More pods than this are not made of one input.
MAX_PODS = 100_000


class Owners:
    """The Jobs and JobSets of the input that already have pods, or Jobs, in it."""

    def __init__(self, pods: Iterable[wire.Pod], jobs: Iterable[wire.Job]) -> None:
        self._jobs: set[tuple[str, str]] = set()
        self._jobsets: set[tuple[str, str]] = set()
        for pod in pods:
            labels = pod.metadata.labels or {}
            names = {labels.get(JOB_NAME), labels.get(OLD_JOB_NAME), _owner(pod.metadata, JOB)}
            self._jobs.update((pod.metadata.namespace, n) for n in names if n)
            self._note_jobset(pod.metadata)
        for job in jobs:
            self._note_jobset(job.metadata)

    def _note_jobset(self, meta: wire.ObjectMeta) -> None:
        names = {(meta.labels or {}).get(JOBSET_NAME), _owner(meta, JOBSET)}
        self._jobsets.update((meta.namespace, n) for n in names if n)

    def has_pods(self, job: wire.Job) -> bool:
        """Return True if the input holds pods of the Job."""
        return (job.metadata.namespace, job.metadata.name) in self._jobs

    def is_expanded(self, jobset: RawJobSet) -> bool:
        """Return True if the input holds Jobs or pods of the JobSet."""
        return (jobset.metadata.namespace, jobset.metadata.name) in self._jobsets


def _owner(meta: wire.ObjectMeta, kind: str) -> str:
    """The name of the controller, if it is of this kind; Jobs of other APIs are of another."""
    owner = owner_of(meta)
    return owner.name if owner is not None and owner.kind == kind else ""


def pods_wanted(job: wire.Job, path: str = "spec") -> int:
    """How many pods the Job runs at once: min(parallelism, completions that are still missing); 0 while suspended.

    Raises :class:`FieldError` for counts below zero or beyond :data:`MAX_PODS`.
    """
    spec = job.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    for name, value in (("parallelism", parallelism), ("completions", spec.completions)):
        if value is not None and value < 0:
            raise FieldError(f"{path}.{name}", invalid.below(value=value, least=0))
    if spec.suspend or job_finished(job):
        return 0
    wanted = parallelism
    if spec.completions is not None:
        wanted = min(parallelism, max(0, spec.completions - job.status.succeeded - how_many(failed_indexes(job))))
    if wanted > MAX_PODS:
        raise FieldError(f"{path}.parallelism", invalid.too_many_pods(wanted=wanted, most=MAX_PODS))
    return wanted


def pods_of(job: wire.Job, count: int) -> Iterator[wire.Pod]:
    """``count`` pods of the Job's template, as its controller would create them: of an Indexed Job for the first
    indexes that are neither completed nor failed. Where they have a domain to themselves only the first one is made
    before that has a node. Raises :class:`FieldError`.
    """
    common = children.pod(job.metadata, job.spec.template)
    indexed = job.spec.completion_mode == "Indexed"
    key = exclusive_topology(owner_of(job.metadata), job.metadata.annotations or {})
    indexes: Iterable[int] = range(count)
    if indexed and job.spec.completions is not None:
        over = ranges(job.status.completed_indexes, "status.completedIndexes")
        over += ranges(job.status.failed_indexes or "", "status.failedIndexes")
        indexes = itertools.islice(others(over, job.spec.completions), count)
    for index in itertools.islice(indexes, 1) if key else indexes:
        pod = children.indexed_pod(common, index, labelled=indexed)
        value = (pod.metadata.labels or {}).get(children.JOB_KEY, "")
        if key:
            everywhere = wire.LabelSelector()
            pod = wire.Pod(pod.metadata, children.exclusive(pod.spec, key, children.JOB_KEY, value, everywhere))
        yield pod


def jobs_of(jobset: RawJobSet) -> Iterator[tuple[wire.Job, str]]:
    """The Jobs of a JobSet, each with the path of its spec in the JobSet. Raises :class:`FieldError`."""
    if jobset_finished(jobset):
        return
    for path, replicated in replicated_jobs(jobset):
        for index in range(replicated.replicas):
            yield children.job(jobset, replicated, index), f"{path}.template.spec"


_CLASS = "volume.beta.kubernetes.io/storage-class"


class _Template(wire.Object):
    """``volumeClaimTemplate`` of a generic ephemeral volume."""

    spec: RawClaimSpec = msgspec.field(default_factory=RawClaimSpec)


class StorageAdmission:
    """Completes claims and volumes of the input; ``found`` are all of its objects, ``default`` a default class."""

    def __init__(self, found: Iterable[wire.Object], default: str = "") -> None:
        known = list(found)
        defaults = [o.metadata for o in known if isinstance(o, RawStorageClass) and is_default_class(o)]
        newest = max((m.creation_timestamp or "" for m in defaults), default="")
        self._default = min((m.name for m in defaults if (m.creation_timestamp or "") == newest), default=default)
        self._volumes = {o.metadata.name: o for o in known if isinstance(o, RawPersistentVolume)}
        self._claims = {
            (o.metadata.namespace, o.metadata.name): o for o in known if isinstance(o, RawPersistentVolumeClaim)
        }
        for claim in self._claims.values():
            self._join(claim)

    def _join(self, claim: RawPersistentVolumeClaim) -> None:
        """A claim without a status that names a volume is bound to it, if nothing contradicts it."""
        self.claim(claim)
        volume = self._volumes.get(claim.spec.volume_name)
        if claim.status.phase or volume is None:
            return
        ref, meta = volume.spec.claim_ref, claim.metadata
        if ref is None:
            volume.spec.claim_ref = RawClaimReference(meta.namespace, meta.name, meta.uid)
        elif (ref.namespace, ref.name) != (meta.namespace, meta.name) or (ref.uid and ref.uid != meta.uid):
            return
        volume.status.phase = claim.status.phase = "Bound"
        meta.annotations = {**(meta.annotations or {}), BIND_COMPLETED: "yes"}

    def claim(self, claim: RawPersistentVolumeClaim) -> None:
        """A claim that names no class gets the default one; an empty name asks for none."""
        notes = claim.metadata.annotations or {}
        if claim.spec.storage_class_name is None and _CLASS not in notes and self._default:
            claim.spec.storage_class_name = self._default

    def ephemeral(self, pod: wire.Pod) -> Iterator[RawPersistentVolumeClaim]:
        """The claims of a pod's generic ephemeral volumes that the input does not have. Raises :class:`FieldError`."""
        for i, volume in enumerate(pod.spec.volumes or ()):
            meta = pod.metadata
            if volume.ephemeral is None or (meta.namespace, f"{meta.name}-{volume.name}") in self._claims:
                continue
            path = f"spec.volumes[{i}].ephemeral.volumeClaimTemplate"
            try:
                template = msgspec.convert(volume.ephemeral.volume_claim_template or {}, _Template)
            except msgspec.ValidationError as error:
                raise FieldError(path, str(error)) from None
            owner = wire.OwnerReference("v1", "Pod", meta.name, meta.uid, controller=True)
            claim = RawPersistentVolumeClaim(
                wire.ObjectMeta(
                    name=f"{meta.name}-{volume.name}",
                    namespace=meta.namespace,
                    creation_timestamp=meta.creation_timestamp,
                    labels=template.metadata.labels,
                    annotations=template.metadata.annotations,
                    owner_references=[owner],
                ),
                template.spec,
            )
            self.claim(claim)
            self._claims[meta.namespace, claim.metadata.name] = claim
            yield claim
