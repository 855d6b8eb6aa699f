"""From a JobSet as the API spells it to the Jobs that its controller makes, and to its record.

Names and labels are those of the JobSet controller: https://jobset.sigs.k8s.io/docs/concepts/ .
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gangsched.model import wire
from gangsched.model.convert import SUSPENDED_BY, Converter
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import GROUP, JOBSET, VERSION, JobSet, ReplicatedJob
from gangsched.model.podset_info import WireDirectives, added_by_flavor, directives, without
from gangsched.model.queues import queue_labels
from gangsched.model.records import Owner
from gangsched.model.times import parse_time, true_since
from gangsched.model.wire_jobsets import JobSet as WireJobSet
from gangsched.model.wire_jobsets import ReplicatedJob as WireReplicatedJob

#: More Jobs than this are not made of one template.
MAX_REPLICAS = 100_000

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
_REPLICATED_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
_SIMULATION = "sim.gangsched.dev/"
_ENDS = ("Completed", "Complete", "Failed")


def job_set(convert: Converter, raw: WireJobSet) -> JobSet:
    """One JobSet. Raises :class:`FieldError`."""
    meta = raw.metadata
    owner = next((o for o in meta.owner_references or () if o.controller), None)
    policy = raw.spec.startup_policy
    in_order = policy is not None and policy.startup_policy_order == "InOrder"
    replicated = []
    found = added_by_flavor(meta.annotations)
    for i, (path, each) in enumerate(replicated_jobs(raw)):
        added = found[i] if i < len(found) else WireDirectives()
        try:
            job = convert.job(_before(child(raw, each), added))
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
        owner=Owner(owner.kind, owner.name, owner.uid) if owner else None,
    )


def _before(job: wire.Job, added: WireDirectives) -> wire.Job:
    """A Job whose template has not been in a flavor."""
    template = job.spec.template
    template = msgspec.structs.replace(template, spec=without(template.spec, added))
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, template=template))


def jobset_finished(raw: WireJobSet) -> bool:
    """Has the JobSet come to its end?"""
    return any(c.type in _ENDS and c.status == "True" for c in raw.status.conditions or ())


def replicated_jobs(raw: WireJobSet) -> Iterator[tuple[str, WireReplicatedJob]]:
    """Its templates of Jobs, each with its path in the JobSet. Raises :class:`FieldError` for one that makes no sense.

    References of ``dependsOn`` are checked too: its controller would wait for a name that does not come for ever.
    """
    names: list[str] = []
    for i, each in enumerate(raw.spec.replicated_jobs):
        path = f"spec.replicatedJobs[{i}]"
        if not each.name or each.name in names:
            problem = f"{each.name!r} is given twice" if each.name else "is missing"
            raise FieldError(f"{path}.name", problem)
        if not 0 <= each.replicas <= MAX_REPLICAS:
            raise FieldError(f"{path}.replicas", f"{each.replicas} is not between 0 and {MAX_REPLICAS}")
        for k, other in enumerate(each.depends_on or ()):
            if other.name not in names:
                has = ", ".join(names) or "none"
                problem = f"no replicated Job {other.name!r} comes before (known: {has})"
                raise FieldError(f"{path}.dependsOn[{k}].name", problem)
        names.append(each.name)
        yield path, each


def child(jobset: WireJobSet, replicated: WireReplicatedJob, index: int | None = None) -> wire.Job:
    """The Job of this index that the controller makes; without an index, what all of them have in common."""
    meta, template = jobset.metadata, replicated.template
    labels = {
        JOBSET_NAME: meta.name,
        _REPLICATED_NAME: replicated.name,
        _REPLICATED_REPLICAS: str(replicated.replicas),
    }
    name = f"{meta.name}-{replicated.name}"
    if index is not None:
        labels[_JOB_INDEX] = str(index)
        name = f"{name}-{index}"
    notes = {k: v for k, v in (meta.annotations or {}).items() if k.startswith(_SIMULATION)}
    owner = wire.OwnerReference(
        api_version=f"{GROUP}/{VERSION}", kind=JOBSET, name=meta.name, uid=meta.uid, controller=True
    )
    return wire.Job(
        metadata=wire.ObjectMeta(
            name=name,
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            labels=(template.metadata.labels or {}) | labels,
            annotations=notes | (template.metadata.annotations or {}),
            owner_references=[owner],
        ),
        spec=_spec(template.spec, labels, jobset.spec.suspend),
    )


def _spec(spec: wire.JobSpec, labels: dict[str, str], suspended: bool) -> wire.JobSpec:
    meta = spec.template.metadata
    template = wire.PodTemplate(
        metadata=wire.ObjectMeta(labels=(meta.labels or {}) | labels, annotations=meta.annotations),
        spec=spec.template.spec,
    )
    return msgspec.structs.replace(
        spec, template=template, suspend=spec.suspend or suspended, completion_mode="Indexed"
    )
