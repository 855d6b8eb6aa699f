"""Jobs and other owners that would fail by the loss of these victims, and the warnings about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gangsched.core.decision import Victim
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.preemption.blocks import uncounted, with_failed
from gangsched.messages import causes
from gangsched.messages.text import join_names, pluralize
from gangsched.model.dialects import role_in
from gangsched.model.dialects.operators import OPERATORS, Operator
from gangsched.model.jobset_survival import BY_RESTARTS
from gangsched.model.jobsets import JobSet
from gangsched.model.records import JOB, Job, Pod
from gangsched.model.survival import BY_INDEXES, BY_LIMIT, BY_POLICY, EVICTED, Fate, fate

if TYPE_CHECKING:
    from gangsched.core.world.world import World

#: So many are named in a message.
_NAMED = 3


def warnings(gone: Sequence[Victim], world: World, condemned: Condemned) -> tuple[str, ...]:
    """Jobs that would fail, and other owners of which it is known that they would, or may."""
    failed = failing(gone, world, condemned)
    out = [_would_fail_by(job, found, count) for job, found, count in failed]
    out += _with_jobs(failed, world)
    owners: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in (world.pods.get(victim.uid) for victim in gone):
        if pod is not None and pod.owner is not None and pod.owner.kind in OPERATORS:
            owners.setdefault((pod.owner.kind, pod.namespace, pod.owner.name), []).append(pod)
    for (kind, namespace, name), pods in sorted(owners.items()):
        would = _would_fail_with(OPERATORS[kind], namespace, name, pods, world)
        if would:
            out.append(causes.owner_would_fail(kind=kind, owner=f"{namespace}/{name}", would=would))
    return tuple(out)


def _with_jobs(failed: Sequence[tuple[Job, Fate, int]], world: World) -> Iterator[str]:
    """Return the results for the JobSets of these Jobs."""
    found: dict[str, tuple[JobSet, list[tuple[Job, str]]]] = {}
    for job, fate_, _ in failed:
        jobset = world.jobs.jobset_of(job)
        if jobset is not None:
            found.setdefault(jobset.key, (jobset, []))[1].append((job, fate_.reason))
    for key, (jobset, jobs) in sorted(found.items()):
        after, policy = jobset.after(jobs), jobset.failure_policy
        if after.cause == BY_RESTARTS and policy is not None:
            yield causes.jobset_would_fail_by_restarts(jobset=key, counted=policy.counted, most=policy.max_restarts)
        elif after.ends:
            why = causes.NO_FAILURE_POLICY if policy is None else causes.RULE_FAILS_JOBSET
            yield causes.jobset_would_fail(jobset=key, why=why)
        elif after.restarted:
            yield causes.jobset_would_restart(jobset=key)
        else:
            yield causes.jobset_would_make_jobs_anew(jobset=key, jobs=pluralize(len(jobs), "Job"))


def _would_fail_with(operator: Operator, namespace: str, name: str, pods: Iterable[Pod], world: World) -> str:
    """Whether an operator's object ``would`` fail without these pods, or ``may``; empty where it does not."""
    spec = world.membership.objects.get((operator.family, namespace, name))
    if spec is None:
        return operator.fails
    return "would" if any(role_in(pod, spec) in spec.fragile for pod in pods) else ""


def _would_fail_by(job: Job, found: Fate, count: int) -> str:
    if found.cause == BY_POLICY:
        return causes.job_would_fail_by_policy(job=job.key)
    if found.cause == BY_LIMIT:
        exceed = "pod exceeds" if count == 1 else "pods exceed"
        return causes.job_would_fail_by_backoff_limit(
            job=job.key, count=count, pods_exceed=exceed, backoff_limit=job.backoff_limit
        )
    indexes = f"{'index' if len(found.lost) == 1 else 'indexes'} {join_names([*map(str, found.lost)], _NAMED)}"
    if found.cause == BY_INDEXES:
        return causes.job_would_fail_by_indexes(job=job.key, indexes=indexes, most=job.max_failed_indexes)
    return causes.job_would_lose_indexes(job=job.key, indexes=indexes, limit=job.limit_per_index)


def failing(gone: Iterable[Victim], world: World, condemned: Condemned, key: str = "") -> list[tuple[Job, Fate, int]]:
    """The Jobs that would fail by the loss of these victims, how, and how many of them each loses. See :func:`fate_of`
    for the ``key``.
    """
    found = ((job, fate_of(job, uids, world, condemned, key), len(uids)) for job, uids in losing(gone, world))
    return [each for each in found if each[1].ends]


def losing(gone: Iterable[Victim], world: World) -> list[tuple[Job, set[str]]]:
    """The Jobs that lose pods with these victims, and which (UIDs): the Job controller counts a deleted pod as a failed
    one. Suspended Jobs lose none that would count.
    """
    lost: dict[tuple[str, str], set[str]] = {}
    for victim in gone if world.jobs else ():
        pod = world.pods.get(victim.uid) if victim.method != "suspend" else None
        if pod is not None and pod.owner is not None and pod.owner.kind == JOB:
            lost.setdefault((pod.namespace, pod.owner.name), set()).add(victim.uid)
    found = ((world.jobs.get(name), uids) for name, uids in sorted(lost.items()))
    return [(job, uids) for job, uids in found if job is not None]


def fate_of(
    job: Job,
    lost: Collection[str],
    world: World,
    condemned: Condemned,
    key: str = "",
    *,
    codes: Sequence[int] = EVICTED,
) -> Fate:
    """Return the result for a Job if these pods (UIDs) are deleted, with one of these exit codes.

    Others that are leaving may not have been counted yet. Pods that only later plans than the one with this ``key``
    remove are counted by those plans.
    """
    others = (p for p in world.jobs.pods_of(job) if p.uid not in lost)
    leaving = (p for p in others if not p.live or condemned.counts_on(p.uid, key))
    pods = (pod for uid in sorted(lost) if (pod := world.pods.get(uid)) is not None)
    return fate(with_failed(job, world), uncounted(job, [*leaving, *pods]), codes=codes)


def would_fail(job: Job, lost: Collection[str], world: World, condemned: Condemned) -> bool:
    """Return whether the Job fails if these of its pods (UIDs) are deleted; see :func:`fate_of`."""
    return fate_of(job, lost, world, condemned).ends
