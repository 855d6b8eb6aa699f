"""Suspended Jobs and JobSets as gangs that wait for room.

While one is suspended it has no pods. Its members are *expected* (:mod:`gangsched.core.state.expected_members`), as
its template describes them: from when the last of its pods is gone until it is resumed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import msgspec

from gangsched.core.decision import group_key
from gangsched.core.state.expected_members import Expected
from gangsched.core.state.jobs import OwnerKey, Suspendable, family_of, gang_of, key_of
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.model.children import merged
from gangsched.model.constraints import PodDevices, PodVolumes
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import MAX_WITHOUT_PODS, JobSet, ReplicatedJob, why_it_cannot_wait
from gangsched.model.records import PREEMPT_LOWER, PREEMPT_NEVER, GangId, Job, Pod

#: Controllers that leave it to others whether what they make is suspended. That of a JobSet, say, would end it at once.
LENIENT = ("CronJob",)


def expecting(world: World) -> set[OwnerKey]:
    """Return the Jobs and JobSets whose members are expected."""
    return {(g.family, g.namespace, g.name) for g in world.membership.expected}


def expects(world: World, key: OwnerKey) -> bool:
    """Return True if this Job or JobSet has expected members."""
    return any(GangId(*key, scheduler) in world.membership.expected for scheduler in world.membership.ours)


def with_queue(world: World) -> list[OwnerKey]:
    """The Jobs and JobSets that are suspended and have a queue."""
    owners = (o for o in world.jobs.all() if o.suspended and o.queue.local_queue)
    return [key_of(o) for o in owners]


def ours(world: World, owner: Suspendable) -> bool:
    """Return True if it is suspended, by us or until its queue has room, and may be resumed."""
    return _waits(world, owner) and _problem(world, owner) is None


def refusal(world: World, owner: Suspendable) -> FieldError | None:
    """Why a Job or JobSet that is suspended never goes on; None if it may, or if that is not up to us."""
    return _problem(world, owner) if _waits(world, owner) else None


def _waits(world: World, owner: Suspendable) -> bool:
    """One that is about to be deleted waits for nothing, and the pods of one that runs elsewhere do not come here."""
    if owner.deleting or owner.elsewhere or world.ownership.unclear(owner.owner, owner.namespace):
        return False
    return bool(_scheduler_of(world, owner)) and owner.suspended and not owner.finished and owner.wanted > 0


def _problem(world: World, owner: Suspendable) -> FieldError | None:
    """The Jobs of a JobSet may want more pods than it says of them."""
    problem = why_it_cannot_wait(owner)
    if problem is not None or isinstance(owner, Job):
        return problem
    wanted = sum(max(0, each.job.wanted) * each.number for each in _planned(world, owner) if not each.job.finished)
    text = causes.too_large_to_wait(pods=wanted, most=MAX_WITHOUT_PODS, kind="JobSet")
    return FieldError("spec.replicatedJobs", text) if wanted > MAX_WITHOUT_PODS else None


def _scheduler_of(world: World, owner: Suspendable) -> str:
    """By which of our scheduler names it goes on when it is suspended; empty where that is not up to us.

    An object without a record of ours waits for its queue if its pods are to be ours.
    """
    template, by = owner.template, owner.suspended_by
    if template is None or two_admitters(world, owner):
        return ""
    if held(world, owner):
        by = template.scheduler
    return by if by in world.membership.ours else ""


def two_admitters(world: World, owner: Suspendable) -> str:
    """What is wrong with a Job or JobSet that Kueue admits as well; empty if it is not so."""
    scheduler = owner.suspended_by or (owner.template.scheduler if owner.template is not None else "")
    return world.managed.two_admitters((GangId(family_of(owner), owner.namespace, owner.name, scheduler),))


def held(world: World, owner: Suspendable) -> bool:
    """Return True if it is suspended without a record of ours and starts when its queue has room.

    That is what ``suspend: true`` means beside a queue label; so Jobs are written for Kueue, too. An object with a
    controller above it is left to that controller.
    """
    if owner.owner is not None and owner.owner.kind not in LENIENT:
        return False
    queued = bool(owner.queue.local_queue) and not owner.suspended_by and world.managed.active
    return queued and not two_admitters(world, owner)


def renew(world: World, key: OwnerKey) -> set[GangId]:
    """Expect the members of a Job or JobSet as what is known of it asks for, or none; returns the gangs that this
    touches.
    """
    owner = world.jobs.find(*key)
    kinds: list[Expected] = []
    if owner is not None and ours(world, owner) and not world.jobs.pods_of(owner):
        kinds = _expected(world, owner)
    wanted = {kinds[0].like.gang: tuple(kinds)} if kinds else {}
    membership = world.membership
    gangs = [GangId(*key, scheduler) for scheduler in sorted(membership.ours)]
    there = {gang: found for gang in gangs if (found := membership.expected.members_of(gang))}
    if there == wanted:
        return set()
    for gang, before in there.items():
        for uid in membership.expect(gang, ()):
            world.managed.forget_pod(uid)
        _count_volumes(world, before, -1)
    if owner is not None and wanted:
        number = sum(kind.number for kind in kinds)
        membership.set_object(gang_of(owner, family_of(owner), number, "gang"))
        for gang in wanted:
            for kind in kinds:
                world.snapshot.shape_number(kind.like.shape)
            _count_volumes(world, kinds, +1)
            membership.expect(gang, kinds)
    else:
        membership.drop_object(*key)
    return {*there, *wanted}


def _count_volumes(world: World, kinds: Sequence[Expected], sign: int) -> None:
    """Claims of expected members are in use, or are no longer."""
    for kind in kinds:
        if kind.like.volumes is not None:
            world.snapshot.volumes.count_pod(kind.like, sign)


def forget_made(world: World, holders: Container[str]) -> None:
    """Forget expected members that were made for what is over, but for those of ``holders``, which hold room."""
    membership = world.membership
    membership.expected.forget_made(lambda gang: group_key(membership.group(gang)[0]) in holders)


def _expected(world: World, owner: Suspendable) -> list[Expected]:
    scheduler = _scheduler_of(world, owner)
    gang = GangId(family_of(owner), owner.namespace, owner.name, scheduler)
    out: list[Expected] = []
    classes: list[str] = []
    for planned in _planned(world, owner):
        job, template = planned.job, planned.job.template
        if template is None or job.finished or job.wanted < 1 or not planned.number:
            continue
        name, priority, policy = _priority(world, template)
        if not may_evict(world, owner):
            policy = PREEMPT_NEVER
        classes.append(name)
        like = msgspec.structs.replace(
            template,
            name="",
            uid="",
            gang=gang,
            scheduler=scheduler,
            priority=priority,
            preemption_policy=policy,
            node="",
            phase="Pending",
            created=owner.created,
            started=owner.created,
            gates=(),
            volumes=_claims_that_stay(template.volumes),
            devices=_claims_to_come(template.devices),
        )
        out.append(Expected(like, job.name, job.uid, job.wanted, planned.indexes))
    if _refused_by_quota(world, owner.namespace, classes, out):
        out = [each._replace(like=msgspec.structs.replace(each.like, preemption_policy=PREEMPT_NEVER)) for each in out]
    return out


def _refused_by_quota(world: World, namespace: str, classes: list[str], kinds: list[Expected]) -> bool:
    """Return whether a ResourceQuota for priority classes would refuse any of these pods, of these classes.
    Then room that others leave is of no use to them.
    """
    asked = [(name, kind.like, kind.number) for name, kind in zip(classes, kinds, strict=True)]
    return any(quota.refuses(asked) for quota in world.pod_quotas.get(namespace, {}).values())


def may_evict(world: World, owner: Suspendable) -> bool:
    """Return whether others may be evicted for a Job or JobSet that has no pods.

    Its users can write the annotation that says by whom it was suspended, but not its status: where that says that its
    pods were evicted, there have been pods that admission has let pass. With a queue the rules of that count.
    """
    queued = world.managed.active and bool(world.jobs.queue_of(owner).local_queue)
    return owner.evicted or queued or not owner.suspended_by


class _Planned(NamedTuple):
    """A Job; or, with ``indexes``, those of these indexes that a JobSet is going to have, which are like it and have
    its name and UID with their index.
    """

    job: Job
    indexes: range | None = None

    @property
    def number(self) -> int:
        """How many Jobs that are."""
        return 1 if self.indexes is None else len(self.indexes)


def _planned(world: World, owner: Suspendable) -> list[_Planned]:
    """The Job, or all Jobs that a JobSet has or will have. A started Job may have succeeded in part."""
    if isinstance(owner, Job):
        return [_Planned(owner)]
    there = world.jobs.jobs_of(owner)
    replaced = _said_by_flavor(world, owner)
    out = []
    for each in owner.replicated:
        made = msgspec.structs.replace(each.job, uid=f"{owner.uid}/{each.job.name}")
        found = {index: job for job in there if (index := _index(job, each)) is not None}
        before = 0
        for index, job in sorted(found.items()):
            out.append(_Planned(made, range(before, index)))
            before = index + 1
            if job.template is not None:
                job = msgspec.structs.replace(job, template=merged(job.template, each.job.template, but=replaced))
            out.append(_Planned(job))
        out.append(_Planned(made, range(before, each.replicas)))
    return out


def _index(job: Job, of: ReplicatedJob) -> int | None:
    """The index of a Job among those that a JobSet makes alike; None where it is none of them."""
    raw = job.name.removeprefix(f"{of.job.name}-") if job.name.startswith(f"{of.job.name}-") else ""
    index = int(raw) if raw.isdecimal() and raw.isascii() and len(raw) < 10 else of.replicas
    return index if index < of.replicas and str(index) == raw else None


def _said_by_flavor(world: World, owner: JobSet) -> set[str]:
    """Labels that a JobSet gets of whichever flavor it goes on in: what its Jobs have of an earlier one does not
    hold then. Other labels they keep.
    """
    quota = world.managed.quota
    queue = quota.queues.get(quota.queue_of(owner.namespace, owner.queue.local_queue)[0])
    out: set[str] = set()
    for group in queue.groups if queue is not None else ():
        found = (quota.flavors.get(each.flavor) for each in group.flavors)
        labels = [set(flavor.labels) if flavor is not None else set() for flavor in found]
        out |= set.intersection(*labels) if labels else set()
    return out


def _priority(world: World, template: Pod) -> tuple[str, int, str]:
    """Return what admission gives the pods of a template: the class that it names, else the default class, with its
    priority and policy.

    What the template says itself is not asked: of a Job the API server checks neither, only of pods.
    """
    found = world.classes.get(template.priority_class)
    if found is None and not template.priority_class:
        defaults = [c for c in world.classes.values() if c.global_default]
        found = min(defaults, key=lambda c: (c.value, c.name), default=None)
    if found is None:
        return template.priority_class, 0, PREEMPT_LOWER
    return found.name, found.value, found.preemption_policy


def _claims_to_come(devices: PodDevices | None) -> PodDevices | None:
    """The claims that a pod will have: those of templates are made with it."""
    return None if devices is None else msgspec.structs.replace(devices, planned=True)


def _claims_that_stay(volumes: PodVolumes | None) -> PodVolumes | None:
    """The claims of generic ephemeral volumes come and go with a pod: there are none for an expected member."""
    if volumes is None or not volumes.owned:
        return volumes
    claims = tuple(c for c in volumes.claims if c not in volumes.owned)
    return msgspec.structs.replace(volumes, claims=claims, owned=()) if claims or volumes.disks else None
