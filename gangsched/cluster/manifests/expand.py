"""The Jobs of a JobSet and the pods of a Job, for manifests that a controller has not acted on yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gangsched.messages import invalid
from gangsched.model import children, wire
from gangsched.model.children import JOB_NAME, JOBSET_NAME, OLD_JOB_NAME
from gangsched.model.convert import job_finished
from gangsched.model.convert_jobsets import jobset_finished, replicated_jobs
from gangsched.model.errors import FieldError
from gangsched.model.wire_jobsets import JobSet

#: More pods than this are not made of one input.
MAX_PODS = 100_000


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
            raise FieldError(f"{path}.{name}", invalid.below(value, 0))
    if spec.suspend or job_finished(job):
        return 0
    wanted = parallelism
    if spec.completions is not None:
        wanted = min(parallelism, max(0, spec.completions - job.status.succeeded))
    if wanted > MAX_PODS:
        raise FieldError(f"{path}.parallelism", invalid.too_many_pods(wanted, MAX_PODS))
    return wanted


def pods_of(job: wire.Job, count: int) -> Iterator[wire.Pod]:
    """``count`` pods of the Job's template, as its controller would create them."""
    common = children.pod(job.metadata, job.spec.template)
    for index in range(count):
        yield children.indexed_pod(common, index, labelled=job.spec.completion_mode == "Indexed")


def jobs_of(jobset: JobSet) -> Iterator[tuple[wire.Job, str]]:
    """The Jobs of a JobSet, each with the path of its spec in the JobSet. Raises :class:`FieldError`."""
    if jobset_finished(jobset):
        return
    for path, replicated in replicated_jobs(jobset):
        for index in range(replicated.replicas):
            yield children.job(jobset, replicated, index), f"{path}.template.spec"
