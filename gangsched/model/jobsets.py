"""JobSets: what the planner must know of one.

A JobSet makes Jobs, and its controller lets each of them run or not, as its own ``spec.suspend`` says: a Job of it that
somebody else suspends is resumed at once. So it is the JobSet that is suspended. (https://jobset.sigs.k8s.io/docs/)
"""

from __future__ import annotations

import msgspec

from gangsched.model.records import NO_QUEUE, Job, Pod, QueueLabels

GROUP, VERSION = "jobset.x-k8s.io", "v1alpha2"
#: The API kind, and the family of a JobSet that is planned as a gang while it has no pods.
JOBSET = "JobSet"
#: The family of the pods of a JobSet with a queue: they start together.
QUEUED_JOBSET = GROUP


class ReplicatedJob(msgspec.Struct, frozen=True, gc=False):
    """``replicas`` Jobs like ``job``, whose name is theirs without their index: ``<JobSet>-<name>``."""

    replicas: int
    job: Job


class JobSet(msgspec.Struct, frozen=True, gc=False):
    """One JobSet.

    ``in_order`` says that some of its Jobs wait until others run or have finished. ``suspended_by`` is the scheduler
    that has suspended it to make room.
    """

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    replicated: tuple[ReplicatedJob, ...] = ()
    suspended: bool = False
    finished: bool = False
    in_order: bool = False
    queue: QueueLabels = NO_QUEUE
    suspended_by: str = ""
    version: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def template(self) -> Pod | None:
        """What the pods of its first Job will be; None without Jobs."""
        return next((r.job.template for r in self.replicated if r.replicas), None)

    @property
    def wanted(self) -> int:
        """How many pods it runs at once when none has succeeded yet: replicas x min(parallelism, completions)."""
        return sum(r.replicas * r.job.wanted for r in self.replicated)
