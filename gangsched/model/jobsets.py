"""JobSets: what the planner must know of one.

A JobSet creates Jobs, and its controller runs or suspends all of them by its own ``spec.suspend``. A Job that another
client suspends is resumed at once. So it is the JobSet that is suspended. (https://jobset.sigs.k8s.io/docs/)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gangsched.messages import causes
from gangsched.model import wire
from gangsched.model.constraints import Named, Record
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.jobset_survival import JobSetFate, JobSetPolicy, JobSetRule, fate_of_jobset
from gangsched.model.records import NO_QUEUE, NO_STAKES, Job, Owner, Pod, QueueLabels, Stakes

GROUP, VERSION = "jobset.x-k8s.io", "v1alpha2"
#: The API kind, and the family of a JobSet that is planned as a gang while it has no pods.
JOBSET = "JobSet"
#: The family of the pods of a JobSet with a queue: they start together.
QUEUED_JOBSET = GROUP
#: A Job or JobSet of more pods does not wait as a gang that has none yet: its size is a number that users choose.
MAX_WITHOUT_PODS = 10_000
#: Annotation of a JobSet, of a Job template in it, and then of its Jobs and pods: each Job has a domain of this node
#: label to itself. Beside the other annotation users have labelled the nodes themselves, and nothing waits.
EXCLUSIVE, BY_NODE_LABELS = "alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector"
#: The label of its pods that says how often a JobSet had been restarted when it made them.
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


class ReplicatedJob(Record, frozen=True):
    """``replicas`` Jobs like ``job``, whose name is theirs without their index: ``<JobSet>-<name>``."""

    replicas: int
    job: Job


class JobSet(Named, frozen=True):
    """One JobSet.

    ``in_order`` says that some of its Jobs wait until others run or have finished. ``suspended_by`` is the scheduler
    that has suspended it to make room, ``suspended_since`` (seconds) since when it is suspended (0: its controller has
    not reported so); ``owner`` is its controller, ``gang``, ``deleting`` and ``evicted`` as in a Job.
    ``failure_policy`` is None where one failed Job is the end of it. ``elsewhere`` is as in a Job.
    """

    uid: str = ""
    created: float = 0.0
    replicated: tuple[ReplicatedJob, ...] = ()
    suspended: bool = False
    finished: bool = False
    in_order: bool = False
    queue: QueueLabels = NO_QUEUE
    suspended_by: str = ""
    version: str = ""
    owner: Owner | None = None
    suspended_since: float = 0.0
    gang: bool | None = None
    stakes: Stakes = NO_STAKES
    remark: Mistake | None = None
    deleting: bool = False
    evicted: bool = False
    failure_policy: JobSetPolicy | None = None
    elsewhere: bool = False

    def after(self, failed: Iterable[tuple[Job, str]]) -> JobSetFate:
        """Return the result when these Jobs of it fail, each for a reason."""
        names = ((job.name.removeprefix(f"{self.name}-").rpartition("-")[0], reason) for job, reason in failed)
        return fate_of_jobset(self.failure_policy, names)

    @property
    def template(self) -> Pod | None:
        """The pods of its first Job; None without Jobs."""
        return next((r.job.template for r in self.replicated if r.replicas), None)

    @property
    def wanted(self) -> int:
        """How many pods it runs at once when none has succeeded yet: replicas x min(parallelism, completions)."""
        return sum(r.replicas * r.job.wanted for r in self.replicated)


def exclusive_topology(owner: Owner | None, notes: Mapping[str, str]) -> str:
    """Return the node label of which a Job has a domain to itself, empty for none. The webhook of JobSet refuses pods
    of other indexes than 0 until that of index 0 has a node (https://github.com/kubernetes-sigs/jobset,
    pkg/webhooks/pod_admission_webhook.go).
    """
    of_jobset = owner is not None and owner.kind == JOBSET
    return notes.get(EXCLUSIVE, "") if of_jobset and BY_NODE_LABELS not in notes else ""


def why_it_cannot_wait(owner: Job | JobSet) -> FieldError | None:
    """What is wrong with a Job or JobSet that may not wait for its start; None where nothing is.

    It may be too large (a Job counts as one pod at least), or its pods would wait for ever because of an invalid
    template, which cannot be corrected.
    """
    return _mistake(owner) or _too_many(owner)


def _mistake(owner: Job | JobSet) -> FieldError | None:
    jobs = [("spec.template", owner)] if isinstance(owner, Job) else []
    if isinstance(owner, JobSet):
        jobs = [(f"spec.replicatedJobs[{i}].template.spec.template", e.job) for i, e in enumerate(owner.replicated)]
    for field, job in jobs:
        if job.template is not None and job.template.mistake is not None:
            return FieldError(*job.template.mistake).under(field)
    return None


def _too_many(owner: Job | JobSet) -> FieldError | None:
    if isinstance(owner, Job):
        text = causes.too_large_to_wait(pods=owner.wanted, most=MAX_WITHOUT_PODS, kind="Job")
        return FieldError("spec.parallelism", text) if owner.wanted > MAX_WITHOUT_PODS else None
    size = 0
    for i, each in enumerate(owner.replicated):
        size += each.replicas * max(1, each.job.wanted)
        if size > MAX_WITHOUT_PODS:
            text = causes.too_large_to_wait(pods=size, most=MAX_WITHOUT_PODS, kind="JobSet")
            return FieldError(f"spec.replicatedJobs[{i}].replicas", text)
    return None


class _DependsOn(wire.Wire):
    name: str = ""


class RawReplicatedJob(wire.Wire):
    """``replicas`` Jobs of one template."""

    name: str = ""
    replicas: int = 1
    template: wire.Job = msgspec.field(default_factory=wire.Job)
    depends_on: list[_DependsOn] | None = None


class _StartupPolicy(wire.Wire):
    startup_policy_order: str = ""


class _FailureRule(wire.Wire):
    action: str = ""
    on_job_failure_reasons: list[str] | None = None
    on_job_failure_message_patterns: list[str] | None = None
    target_replicated_jobs: list[str] | None = None


class _FailurePolicy(wire.Wire):
    max_restarts: int = 0
    rules: list[_FailureRule] | None = None


class _JobSetSpec(wire.Wire):
    replicated_jobs: list[RawReplicatedJob] = msgspec.field(default_factory=list)
    startup_policy: _StartupPolicy | None = None
    failure_policy: _FailurePolicy | None = None
    suspend: bool = False
    managed_by: str | None = None


class _JobsStatus(wire.Wire):
    job_restarts_count_towards_max: list[int] | None = None


class _JobSetStatus(wire.Wire):
    conditions: list[wire.Condition] | None = None
    restarts_count_towards_max: int = 0
    replicated_jobs_status: list[_JobsStatus] | None = None


class RawJobSet(wire.Object):
    """One JobSet."""

    spec: _JobSetSpec = msgspec.field(default_factory=_JobSetSpec)
    status: _JobSetStatus = msgspec.field(default_factory=_JobSetStatus)


def failure_policy(raw: RawJobSet) -> JobSetPolicy | None:
    """What it says about Jobs of it that fail; None: one is the end of it."""
    policy, status = raw.spec.failure_policy, raw.status
    if policy is None:
        return None
    rules = (
        JobSetRule(
            each.action,
            tuple(each.on_job_failure_reasons or ()),
            tuple(each.target_replicated_jobs or ()),
            bool(each.on_job_failure_message_patterns),
        )
        for each in policy.rules or ()
    )
    singly = sum(sum(each.job_restarts_count_towards_max or ()) for each in status.replicated_jobs_status or ())
    return JobSetPolicy(policy.max_restarts, tuple(rules), status.restarts_count_towards_max + singly)
