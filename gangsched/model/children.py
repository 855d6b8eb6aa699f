"""What controllers make: the pods of a Job and the Jobs of a JobSet, with the names and labels that they give them.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/job/ and https://jobset.sigs.k8s.io/docs/concepts/ .
"""

from __future__ import annotations

import msgspec

from gangsched.model import wire
from gangsched.model.jobsets import GROUP, JOBSET, VERSION
from gangsched.model.wire_jobsets import JobSet, ReplicatedJob

JOB_NAME = "batch.kubernetes.io/job-name"
OLD_JOB_NAME = "job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
_REPLICATED_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
#: Annotations for simulations; what is made gets those of its owner.
SIMULATION = "sim.gangsched.dev/"


def pod(job: wire.ObjectMeta, template: wire.PodTemplate) -> wire.Pod:
    """What all pods of a Job have in common, under the name of the Job."""
    own = {JOB_NAME: job.name, OLD_JOB_NAME: job.name}
    own |= {"batch.kubernetes.io/controller-uid": job.uid, "controller-uid": job.uid}
    return wire.Pod(_made(job, ("batch/v1", "Job"), template.metadata, own), template.spec)


def indexed_pod(common: wire.Pod, index: int, *, labelled: bool) -> wire.Pod:
    """The pod of this index; its name ends in the index instead of a random suffix. Those of Indexed Jobs are
    ``labelled`` with it.
    """
    meta = common.metadata
    own = {COMPLETION_INDEX: str(index)}
    return wire.Pod(
        msgspec.structs.replace(
            meta,
            name=f"{meta.name}-{index}",
            labels={**(meta.labels or {}), **own} if labelled else meta.labels,
            annotations={**(meta.annotations or {}), **own},
        ),
        common.spec,
    )


def job(jobset: JobSet, replicated: ReplicatedJob, index: int | None = None) -> wire.Job:
    """The Job of this index that a JobSet makes; without an index, what all of them have in common."""
    template = replicated.template
    labels = {
        JOBSET_NAME: jobset.metadata.name,
        _REPLICATED_NAME: replicated.name,
        _REPLICATED_REPLICAS: str(replicated.replicas),
    }
    if index is not None:
        labels[_JOB_INDEX] = str(index)
    meta = _made(jobset.metadata, (f"{GROUP}/{VERSION}", JOBSET), template.metadata, labels)
    meta.name = f"{meta.name}-{replicated.name}" + ("" if index is None else f"-{index}")
    pods = template.spec.template
    own = wire.ObjectMeta(labels=(pods.metadata.labels or {}) | labels, annotations=pods.metadata.annotations)
    spec = msgspec.structs.replace(
        template.spec,
        template=wire.PodTemplate(own, pods.spec),
        suspend=template.spec.suspend or jobset.spec.suspend,
        completion_mode="Indexed",
    )
    return wire.Job(meta, spec)


def _made(
    owner: wire.ObjectMeta, kind: tuple[str, str], template: wire.ObjectMeta, labels: dict[str, str]
) -> wire.ObjectMeta:
    """Metadata under the name of the owner, which is of this ``(apiVersion, kind)``."""
    notes = {key: text for key, text in (owner.annotations or {}).items() if key.startswith(SIMULATION)}
    return wire.ObjectMeta(
        name=owner.name,
        namespace=owner.namespace,
        creation_timestamp=owner.creation_timestamp,
        labels={**(template.labels or {}), **labels},
        annotations={**notes, **(template.annotations or {})},
        owner_references=[wire.OwnerReference(*kind, owner.name, owner.uid, controller=True)],
    )
