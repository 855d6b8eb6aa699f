"""From a JobSet as the API spells it to its record."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gangsched.messages import invalid
from gangsched.model import children, wire
from gangsched.model.convert import SUSPENDED_BY, Converter, owner_of
from gangsched.model.dialects.owners import declared
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import JobSet, ReplicatedJob
from gangsched.model.podset_info import WireDirectives, added_by_flavor, directives, without
from gangsched.model.queues import queue_labels
from gangsched.model.stakes import stakes_of
from gangsched.model.times import parse_time, true_since
from gangsched.model.wire_jobsets import JobSet as WireJobSet
from gangsched.model.wire_jobsets import ReplicatedJob as WireReplicatedJob

#: More Jobs than this are not made of one template.
MAX_REPLICAS = 100_000

_ENDS = ("Completed", "Complete", "Failed")


def job_set(convert: Converter, raw: WireJobSet) -> JobSet:
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
            problem = invalid.given_twice(each.name) if each.name else "is missing"
            raise FieldError(f"{path}.name", problem)
        if not 0 <= each.replicas <= MAX_REPLICAS:
            raise FieldError(f"{path}.replicas", invalid.not_between(each.replicas, 0, MAX_REPLICAS))
        for k, other in enumerate(each.depends_on or ()):
            if other.name not in names:
                has = ", ".join(names) or "none"
                problem = invalid.no_replicated_job(other.name, has)
                raise FieldError(f"{path}.dependsOn[{k}].name", problem)
        names.append(each.name)
        yield path, each
