"""How victims leave: deleted, evicted, or with the Job that owns them, or the JobSet of it, which is suspended.

The Job controller counts a deleted pod as a failed one: with the default backoffLimit of 6 a Job of eight dies at its
first preemption. When it is suspended instead, its controller deletes the pods without counting them, and the Job can
go on later. (https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job)
A Job of a JobSet is suspended with its JobSet: https://jobset.sigs.k8s.io/docs/tasks/ .
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.decision import UnitRef, Victim
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.options import Options
from gangsched.core.preemption.harm import Budgets
from gangsched.core.preemption.job_failures import fate_of, would_fail
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.core.quota.stop_policy import STOPPED
from gangsched.core.state.jobs import Suspendable, family_of
from gangsched.core.world.suspended import LENIENT, two_admitters
from gangsched.messages import causes
from gangsched.model.jobsets import JobSet, why_it_cannot_wait
from gangsched.model.preemptible import protected
from gangsched.model.records import Job, Pod
from gangsched.model.survival import ignores_evictions

if TYPE_CHECKING:
    from gangsched.core.world.world import World


SUSPEND = "suspend"


def by_suspension(
    victims: Sequence[Victim],
    world: World,
    condemned: Condemned,
    options: Options,
    priority: int,
    budgets: Budgets,
) -> tuple[Victim, ...]:
    """Return the victims by namespace/name, with the way of their eviction: with their Job or JobSet if it would end
    otherwise and all of its pods are victims, or if no pod of the JobSet would be left.

    With a workload that quota lets go, its Job is suspended in any case, and its other pods become victims too. If one
    of them may not be evicted for a preemptor of ``priority``, or its budgets do not allow it where they may not be
    broken, the pods of the workload are deleted after all.
    """
    jobs = _by_job(victims, world) if world.jobs else []
    if not jobs:
        return tuple(victims)
    out = {v.uid: v for v in victims}
    for job, chosen in jobs:
        whole = _as_a_whole(job, chosen, out, world, condemned, options, priority, budgets)
        if whole is None or (whole[0] and not _holds_quota(chosen)):
            continue
        others, beyond = whole
        for pod in others:
            unit, over = UnitRef(family_of(job), job.key), pod.uid in beyond
            names = budgets.keys(pod) if over else ()
            out[pod.uid] = Victim.of(pod, unit, _whole(job), over_budget=over, method=SUSPEND, budgets=names)
        for victim in chosen:
            out[victim.uid] = _with_job(victim, job)
    return tuple(sorted(out.values(), key=lambda v: v.key))


def _as_a_whole(
    job: Suspendable,
    chosen: Sequence[Victim],
    leaving: Collection[str],
    world: World,
    condemned: Condemned,
    options: Options,
    priority: int,
    budgets: Budgets,
) -> tuple[list[Pod], set[str]] | None:
    """The pods that leave with those chosen of a Job, of which only they are among all that are ``leaving`` (UIDs), and
    who of all of these goes beyond a budget (UIDs). None if the Job does not leave as a whole, for a preemptor of this
    priority.
    """
    if any(v.partial for v in chosen) or not may_suspend(job, world, options):
        return None
    if not (_holds_quota(chosen) or _would_end(job, chosen, world, condemned)):
        return None
    others = staying(job, world, condemned, leaving)
    if any(protected(p, options.evict_daemonset_pods) or p.priority >= priority or not p.bound for p in others):
        return None
    going = [p for uid in leaving if (p := world.pods[uid]).live]
    beyond = budgets.beyond([*going, *others]) if budgets else set()
    return None if options.strict_budgets and beyond else (others, beyond)


def staying(job: Suspendable, world: World, condemned: Condemned, leaving: Container[str]) -> list[Pod]:
    """The pods of a Job or JobSet that run, or whose binding is on its way, and that are not among those that leave
    (UIDs), nor made to leave by others.
    """
    return [p for p in _beside(job, world, leaving) if p.uid not in condemned]


def _beside(job: Suspendable, world: World, listed: Container[str]) -> list[Pod]:
    """The same with those that others make leave."""
    pods = (p for p in world.jobs.pods_of(job) if (p.bound and p.live) or p.uid in world.assumed)
    return [p for p in pods if p.uid not in listed]


def incomplete(victims: Iterable[Victim], listed: Container[str], world: World) -> bool:
    """Return True if pods that are not ``listed`` (UIDs) would leave with the Jobs of these victims. A Job takes along
    pods that other gangs evict, and those gangs may let them off.
    """
    jobs = _by_job((v for v in victims if v.method == SUSPEND), world)
    return any(not job.suspended and _beside(job, world, listed) for job, _ in jobs)


def suspended_for(world: World, victim: Victim | None) -> str:
    """The UID of the Job or JobSet that is suspended to make this victim leave; empty: none is."""
    owner = world.jobs.owner_of(world.pods[victim.uid]) if victim is not None and victim.method == SUSPEND else None
    return owner.uid if owner is not None else ""


def may_suspend(job: Suspendable, world: World, options: Options) -> bool:
    """Return True if we may suspend the Job, the suspension would last, and the Job would be resumed. Another
    controller that admits Jobs by their queue, or has admitted this one, would resume it at once.
    """
    lasts = job.owner is None or job.owner.kind in LENIENT
    if (job.queue.local_queue and not world.managed.active) or why_it_cannot_wait(job) is not None:
        return False
    if not (options.suspend_jobs and lasts and job.template is not None and not job.finished):
        return False
    gangs = {p.gang for p in world.jobs.pods_of(job)}
    return not two_admitters(world, job) and not any(world.managed.two_admitters((gang,)) for gang in gangs)


def _holds_quota(chosen: Sequence[Victim]) -> bool:
    """Return True if it leaves because of quota. As with Kueue, it is suspended then, and comes back when its queue has
    room.
    """
    return any(v.reason in REASON_TEXT or v.reason in STOPPED.values() for v in chosen)


def _would_end(owner: Suspendable, chosen: Sequence[Victim], world: World, condemned: Condemned) -> bool:
    """Return True if deleting these would end the Job or the JobSet, start the JobSet anew, or leave nothing of the
    JobSet.
    """
    mine = {v.uid for v in chosen}
    if isinstance(owner, Job):
        return would_fail(owner, mine, world, condemned)
    jobs = world.jobs.jobs_of(owner)
    of_job = {job.name: {p.uid for p in world.jobs.pods_of(job)} & mine for job in jobs}
    touched = [job for job in jobs if of_job[job.name]]
    fates = ((job, fate_of(job, of_job[job.name], world, condemned)) for job in touched)
    failed = [(job, found.reason) for job, found in fates if found.ends]
    after = owner.after(failed)
    if failed and (after.ends or after.restarted):
        return True
    return not staying(owner, world, condemned, mine) and not all(ignores_evictions(job) for job in touched)


def _by_job(victims: Iterable[Victim], world: World) -> list[tuple[Suspendable, list[Victim]]]:
    owners: dict[tuple[str, str], Suspendable] = {}
    found: dict[tuple[str, str], list[Victim]] = defaultdict(list)
    for victim in victims:
        pod = world.pods.get(victim.uid)
        owner = world.jobs.owner_of(pod) if pod is not None else None
        if owner is not None:
            key = owner.key, family_of(owner)
            owners[key] = owner
            found[key].append(victim)
    return [(owners[key], chosen) for key, chosen in sorted(found.items())]


def _with_job(victim: Victim, job: Suspendable) -> Victim:
    """A victim that leaves with its Job; if it has no group, the Job is its unit."""
    unit = UnitRef(family_of(job), job.key)
    if victim.unit.kind != "Pod" and victim.unit != unit:
        return msgspec.structs.replace(victim, method=SUSPEND)
    return msgspec.structs.replace(victim, method=SUSPEND, unit=unit, why=f"{victim.why}; {_whole(job)}")


def _whole(job: Suspendable) -> str:
    if isinstance(job, JobSet):
        return causes.jobset_suspended_whole(job=job.key)
    return causes.job_suspended_whole(job=job.key)


def budgets_of(world: World, condemned: Condemned, key: str = "", but: Container[str] = ()) -> Budgets:
    """The budgets as they are now for the plan with this key, charged for what is to leave before, other than these
    pods (UIDs). Where one has no status, all pods are walked: nothing to be done per workload.
    """
    found = Budgets(world.budgets.values(), (p for p in world.pods.values() if p.bound and p.live))
    if found:
        found.count(condemned.charges(key, but, world.now))
    return found
