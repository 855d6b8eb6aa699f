"""The Jobs of a JobSet and the pods of a Job, for manifests that a controller has not acted on yet.

Names and labels are those that the controllers give, except that pod names end in the index instead of a
random suffix, so that the same input always gives the same names. Sources:
https://kubernetes.io/docs/concepts/workloads/controllers/job/ and https://jobset.sigs.k8s.io/docs/concepts/ .
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gangsched.cluster.manifests.kinds import JobSet
from gangsched.model import wire
from gangsched.model.errors import FieldError

#: More pods than this are not made of one input.
MAX_PODS = 100_000

JOB_NAME = "batch.kubernetes.io/job-name"
OLD_JOB_NAME = "job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_SIMULATION = "sim.gangsched.dev/"
_TEMPLATE = "spec.template"


class Owners:
    """Which Jobs and JobSets of the input have pods, or Jobs, in it already."""

    def __init__(self, pods: Iterable[wire.Pod], jobs: Iterable[wire.Job]) -> None:
        self._jobs: set[tuple[str, str]] = set()
        self._jobsets: set[tuple[str, str]] = set()
        for pod in pods:
            labels = pod.metadata.labels or {}
            names = {labels.get(JOB_NAME), labels.get(OLD_JOB_NAME), *_owners(pod.metadata, "Job")}
            self._jobs.update((pod.metadata.namespace, n) for n in names if n)
            self._note_jobset(pod.metadata)
        for job in jobs:
            self._note_jobset(job.metadata)

    def _note_jobset(self, meta: wire.ObjectMeta) -> None:
        names = {(meta.labels or {}).get(JOBSET_NAME), *_owners(meta, "JobSet")}
        self._jobsets.update((meta.namespace, n) for n in names if n)

    def has_pods(self, job: wire.Job) -> bool:
        """Does the input hold pods of the Job?"""
        return (job.metadata.namespace, job.metadata.name) in self._jobs

    def is_expanded(self, jobset: JobSet) -> bool:
        """Does the input hold Jobs or pods of the JobSet?"""
        return (jobset.metadata.namespace, jobset.metadata.name) in self._jobsets


def _owners(meta: wire.ObjectMeta, kind: str) -> list[str]:
    return [o.name for o in meta.owner_references or () if o.controller and o.kind == kind]


def pods_wanted(job: wire.Job, path: str = "spec") -> int:
    """How many pods the Job runs at once: min(parallelism, completions that are still missing); 0 while suspended.

    Raises :class:`FieldError` for counts below zero or beyond :data:`MAX_PODS`.
    """
    spec = job.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    for name, value in (("parallelism", parallelism), ("completions", spec.completions)):
        if value is not None and value < 0:
            raise FieldError(f"{path}.{name}", f"{value} is below 0")
    if spec.suspend or _finished(job.status.conditions):
        return 0
    wanted = parallelism
    if spec.completions is not None:
        wanted = min(parallelism, max(0, spec.completions - job.status.succeeded))
    if wanted > MAX_PODS:
        raise FieldError(f"{path}.parallelism", f"{wanted} pods are more than the {MAX_PODS} that one input may make")
    return wanted


def pods_of(job: wire.Job, count: int) -> Iterator[wire.Pod]:
    """``count`` pods of the Job's template, as its controller would create them."""
    meta, template = job.metadata, job.spec.template
    labels = {
        **(template.metadata.labels or {}),
        JOB_NAME: meta.name,
        OLD_JOB_NAME: meta.name,
        "batch.kubernetes.io/controller-uid": meta.uid,
        "controller-uid": meta.uid,
    }
    notes = {k: v for k, v in (meta.annotations or {}).items() if k.startswith(_SIMULATION)}
    notes |= template.metadata.annotations or {}
    owner = wire.OwnerReference(api_version="batch/v1", kind="Job", name=meta.name, uid=meta.uid, controller=True)
    for index in range(count):
        own = {COMPLETION_INDEX: str(index)}
        yield wire.Pod(
            metadata=wire.ObjectMeta(
                name=f"{meta.name}-{index}",
                namespace=meta.namespace,
                creation_timestamp=meta.creation_timestamp,
                labels=labels | own if job.spec.completion_mode == "Indexed" else labels,
                annotations=notes | own,
                owner_references=[owner],
            ),
            spec=template.spec,
        )


def jobs_of(jobset: JobSet) -> Iterator[tuple[wire.Job, str]]:
    """The Jobs of a JobSet, each with the path of its spec in the JobSet. Raises :class:`FieldError`."""
    meta = jobset.metadata
    if _finished(jobset.status.conditions):
        return
    owner = wire.OwnerReference(
        api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name=meta.name, uid=meta.uid, controller=True
    )
    notes = {k: v for k, v in (meta.annotations or {}).items() if k.startswith(_SIMULATION)}
    names: set[str] = set()
    for i, replicated in enumerate(jobset.spec.replicated_jobs):
        path = f"spec.replicatedJobs[{i}]"
        if not replicated.name or replicated.name in names:
            problem = f"{replicated.name!r} is given twice" if replicated.name else "is missing"
            raise FieldError(f"{path}.name", problem)
        names.add(replicated.name)
        if not 0 <= replicated.replicas <= MAX_PODS:
            raise FieldError(f"{path}.replicas", f"{replicated.replicas} is not between 0 and {MAX_PODS}")
        template = replicated.template
        for index in range(replicated.replicas):
            labels = {
                JOBSET_NAME: meta.name,
                "jobset.sigs.k8s.io/replicatedjob-name": replicated.name,
                "jobset.sigs.k8s.io/replicatedjob-replicas": str(replicated.replicas),
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            job = wire.Job(
                metadata=wire.ObjectMeta(
                    name=f"{meta.name}-{replicated.name}-{index}",
                    namespace=meta.namespace,
                    creation_timestamp=meta.creation_timestamp,
                    labels=(template.metadata.labels or {}) | labels,
                    annotations=notes | (template.metadata.annotations or {}),
                    owner_references=[owner],
                ),
                spec=_child_spec(template.spec, labels, jobset.spec.suspend),
            )
            yield job, f"{path}.template.spec"


def _child_spec(spec: wire.JobSpec, labels: dict[str, str], suspended: bool) -> wire.JobSpec:
    meta = spec.template.metadata
    template = wire.PodTemplate(
        metadata=wire.ObjectMeta(labels=(meta.labels or {}) | labels, annotations=meta.annotations),
        spec=spec.template.spec,
    )
    return msgspec.structs.replace(
        spec, template=template, suspend=spec.suspend or suspended, completion_mode="Indexed"
    )


def _finished(conditions: list[wire.Condition] | None) -> bool:
    return any(c.type in ("Complete", "Completed", "Failed") and c.status == "True" for c in conditions or ())
