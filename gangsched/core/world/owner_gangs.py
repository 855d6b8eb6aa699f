"""Pods that start together because of what owns them: a Job or JobSet that needs quota, and owners declared gangs.

Quota is admitted for a Job or JobSet as a whole. The others are declared by annotation, namespace or setting
(:mod:`gangsched.model.dialects.owners`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.state.group_trees import GroupTrees
from gangsched.core.state.jobs import WITHOUT_PODS, Jobs, OwnerKey, Suspendable, family_of, gang_of, templates_of
from gangsched.core.state.membership import Membership
from gangsched.core.state.ownership import Key, Ownership, same
from gangsched.model.constraints import Labels
from gangsched.model.dialects import BY_FAMILY, GROUP_HINT, owners
from gangsched.model.dialects.objects import OWNER_GROUPS
from gangsched.model.dialects.operators import FAMILIES, OPERATORS, RAY
from gangsched.model.jobsets import JOBSET, MAX_WITHOUT_PODS, QUEUED_JOBSET, JobSet
from gangsched.model.records import JOB, QUEUED_JOB, SINGLE, Announced, Gang, GangId, Job, Owner, Pod

#: Owners of pods of which no record is kept as such.
_NEVER_READ = ("Node",)
_FAMILIES = (QUEUED_JOB, QUEUED_JOBSET, owners.FAMILY, *FAMILIES)


class OwnerGangs:
    """The gangs of owners: their pods, and how many of them each needs.

    ``pods`` and ``namespaces`` (the labels of each) are those of the world; ``kinds`` are the kinds of owners that are
    gangs unless they or their namespace say otherwise.
    """

    def __init__(
        self,
        jobs: Jobs,
        membership: Membership,
        managed: Managed,
        pods: Mapping[str, Pod],
        namespaces: Mapping[str, Labels],
        kinds: Iterable[str],
        ownership: Ownership,
        trees: GroupTrees,
    ) -> None:
        self._jobs = jobs
        self._membership = membership
        self._managed = managed
        self._pods = pods
        self._namespaces = namespaces
        self._kinds = frozenset(kinds)
        self._ownership = ownership
        self._trees = trees

    # -- questions -----------------------------------------------------------------------------------------

    def placed(self, pod: Pod) -> Pod:
        """The pod as a member of its owner's gang; where it names a group of its own, or tries to, or starts by itself,
        with what the object of its group says about it. One that waits, and of which it is not clear whose it is, with
        the reason for that.
        """
        found = self._grouped(self._in_tree(pod) if self._trees.used else pod)
        unowned = self.unowned(pod) if not pod.node and pod.live else ""
        return found if found.unowned == unowned else msgspec.structs.replace(found, unowned=unowned)

    def unowned(self, pod: Pod) -> str:
        """Why it is not known whose a pod is, in words; empty where it is. A pod without a controller is its own."""
        if pod.owner is None:
            return ""
        named = key_in_labels(pod)
        found = self._ownership.unclear(pod.owner, pod.namespace)
        return found or (self._ownership.named(*named) if named is not None else "")

    def _in_tree(self, pod: Pod) -> Pod:
        """Return a pod as a member of the tree that its group is in, if it is in one."""
        dialect = BY_FAMILY.get(pod.gang.family)
        if dialect is None or not dialect.above:
            return pod
        key = dialect.below or pod.gang.family, pod.namespace, pod.hints.get(GROUP_HINT, pod.gang.name)
        gang = GangId(*(self._trees.root_of(key) or key), pod.scheduler)
        return pod if gang == pod.gang else msgspec.structs.replace(pod, gang=gang)

    def _grouped(self, pod: Pod) -> Pod:
        if pod.gang.family != SINGLE or pod.mistake is not None:
            said = self._membership.stakes.get((pod.gang.family, pod.gang.namespace, pod.gang.name))
            kept = said is not None and (said.never or self._reaches(said.never_from, pod))
            return pod if pod.kept == kept else msgspec.structs.replace(pod, kept=kept)
        group = owners.group_of(pod)
        if group:
            if not self._declared(owners.LEADER_WORKER_SET, pod.namespace, self._said_of_group(pod, group)):
                return pod
            return msgspec.structs.replace(pod, gang=GangId(owners.FAMILY, pod.namespace, group, pod.scheduler))
        owner = self._owner_of(pod)
        job = self._jobs.get((pod.namespace, owner.name)) if owner is not None and owner.kind == JOB else None
        job = job if job is not None and owner is not None and same(owner, job.uid) else None
        if job is not None and job.owner is not None:
            owner = job.owner  # the launcher of an MPIJob is the pod of a Job
        if owner is not None and owner.kind in OPERATORS:
            above = self._above(owner, pod.namespace)
            owner = above if above is not None and self._seen(above, pod.namespace) is not None else owner
            if self._is_gang(owner, pod):
                family = OPERATORS[owner.kind].family
                return msgspec.structs.replace(pod, gang=GangId(family, pod.namespace, owner.name, pod.scheduler))
        whole = self._starts_with(job) if job is not None else None
        if whole is None or not self._together(whole):
            return pod
        return msgspec.structs.replace(pod, gang=GangId(_family(whole), whole.namespace, whole.name, pod.scheduler))

    def _owner_of(self, pod: Pod) -> Owner | None:
        """Return the owner of a pod; an executor of Spark is owned by its driver, and so by what owns that."""
        driver = self._pods.get(pod.owner.uid) if pod.owner is not None and pod.owner.kind == "Pod" else None
        return pod.owner if driver is None or driver.namespace != pod.namespace else driver.owner

    def _said_of_group(self, pod: Pod, group: str) -> bool | None:
        """Return the declaration of a LeaderWorkerSet, or else of its pod. If it starts the leaders first, register its
        group.
        """
        of, key = OPERATORS[owners.LEADER_WORKER_SET].family, (owners.FAMILY, pod.namespace, group)
        known = self._membership.objects.get((of, pod.namespace, pod.labels[owners.NAME]))
        if known is not None and known.announces:
            self._membership.set_object(msgspec.structs.replace(known, family=owners.FAMILY, name=group, uid=""))
        elif key in self._membership.objects:
            self._membership.drop_object(*key)
        return known.declared if known is not None and known.declared is not None else owners.said_by(pod)

    def _seen(self, owner: Owner, namespace: str) -> Gang | None:
        """What is known of the object of an operator, not of another one of that name."""
        found = self._membership.objects.get((OPERATORS[owner.kind].family, namespace, owner.name))
        return found if found is not None and same(owner, found.uid) else None

    def _above(self, owner: Owner, namespace: str) -> Owner | None:
        """The owner of the object of an operator, where that is a part of it: the RayJob of a RayCluster."""
        known = self._seen(owner, namespace)
        above = known.owner if known is not None else None
        return above if above is not None and above.kind == OPERATORS[owner.kind].part_of else None

    def _is_gang(self, owner: Owner, pod: Pod) -> bool:
        """Return True if the operator's object that owns a pod is declared to be a gang."""
        known = self._seen(owner, pod.namespace)
        said = known.declared if known is not None and known.declared is not None else owners.said_by(pod)
        return self._declared(OPERATORS[owner.kind].counts_as, pod.namespace, said)

    def waits_for_owner(self, pod: Pod) -> bool:
        """Return True if the gang of a pod is unknown because its owner has not been seen or is gone."""
        if self.unowned(pod):
            return True
        if pod.owner is None or (pod.gang.family != SINGLE and not self._managed.active):
            return False
        if pod.owner.kind in OPERATORS and pod.gang.family == SINGLE:
            if owners.group_of(pod):
                return False  # its labels say which one
            above = self._above(pod.owner, pod.namespace)
            return self._unseen(pod.owner, pod.namespace) or self._unseen(above, pod.namespace)
        if pod.owner.kind != JOB or pod.gang.family in WITHOUT_PODS:
            return False
        job = self._jobs.job_of(pod)
        if job is None:
            return True
        if job.owner is None or job.owner.kind != JOBSET:
            return self._unseen(job.owner, pod.namespace)
        jobset = self._jobs.jobset_of(job)
        return jobset is None or self._unseen(jobset.owner, pod.namespace)

    def _unseen(self, owner: Owner | None, namespace: str) -> bool:
        return owner is not None and owner.kind in OPERATORS and self._seen(owner, namespace) is None

    def declared_in(self, namespace: str) -> bool:
        """Return True if a namespace declares its owners gangs."""
        return self._namespaces.get(namespace, {}).get(owners.GANG) == "true"

    def of_owner(self, kind: str, namespace: str, name: str) -> list[GangId]:
        """The gangs that the pods of a Job or JobSet are in, by scheduler."""
        family = QUEUED_JOB if kind == JOB else QUEUED_JOBSET
        if (family, namespace, name) not in self._membership.objects:
            return []
        found = (GangId(family, namespace, name, scheduler) for scheduler in sorted(self._membership.ours))
        return [gang for gang in found if self._membership.has_members(gang)]

    def _together(self, owner: Suspendable) -> bool:
        """Return True if all pods of a Job or JobSet start together, because it needs quota or is declared to be a
        gang.
        """
        if self._managed.active and self._jobs.queue_of(owner).local_queue:
            return True
        above = self._jobs.jobset_of(owner) if isinstance(owner, Job) else None
        top = above or owner
        train_job = top.owner if top.owner is not None and top.owner.kind in OPERATORS else None
        known = self._seen(train_job, owner.namespace) if train_job is not None else None
        said = top.gang if top.gang is not None or known is None else known.declared
        if said is None:
            said = next(map(owners.said_by, templates_of(top)), None)
        return self._declared(family_of(top), owner.namespace, said)

    def _starts_with(self, job: Job) -> Suspendable:
        """What the pods of a Job start with if they start together: the Job, or its JobSet where that does not start
        its Jobs in order, and this one has no queue of its own.
        """
        jobset = self._jobs.jobset_of(job)
        if jobset is None or jobset.in_order or job.queue.local_queue:
            return job
        return jobset if self._together(jobset) else job

    def _declared(self, kind: str | None, namespace: str, said: bool | None) -> bool:
        """Return True if an owner that counts as one of this kind, and says this itself, is declared to be a gang."""
        if said is not None:
            return said
        return kind is not None and (kind in self._kinds or self.declared_in(namespace))

    # -- changes: each returns the pods that are others because of it -----------------------------------------

    def owner_changed(self, pods: Iterable[Pod]) -> list[Pod]:
        """What is known of what owns these pods has changed."""
        return self._pods_in_other_gangs(pods)

    def put(self, owner: Suspendable) -> list[Pod]:
        """A Job or JobSet was created or changed."""
        before = self._jobs.put(owner)
        if isinstance(owner, JobSet):
            if isinstance(before, JobSet) and _as_gang(before) == _as_gang(owner):
                self._resize(owner)
                return []  # its status changes all the time
            return self._renew_jobset(owner, there=True)
        jobset = self._jobs.jobset_of(owner)
        counted = before if isinstance(before, Job) and before.owner == owner.owner else _model_of(owner, jobset)
        if counted is None or _at_once(counted) != _at_once(owner):  # most of its changes are others
            self._resize(jobset)
        return self._renew((owner.namespace, owner.name), owner)

    def forget_owner(self, key: OwnerKey) -> list[Pod]:
        """A Job or JobSet is gone."""
        gone = self._jobs.forget_owner(key)
        if isinstance(gone, JobSet):
            return self._renew_jobset(gone, there=False)
        if gone is not None:
            self._resize(self._jobs.jobset_of(gone))
        return self._renew(key[1:], None) if key[0] == JOB else []

    def _reaches(self, priority: int | None, pod: Pod) -> bool:
        """Return True if the priority of the pod's gang is at least this."""
        if priority is None:
            return False
        own = self._membership.own_priority(pod.gang)
        return (min(pod.priority, self._membership.most_priority(pod.gang)) if own is None else own) >= priority

    def renew_all(self, namespace: str = "") -> list[Pod]:
        """Queues count from now on, or no longer; or what the labels of this namespace say has changed."""
        there = [owner for owner in self._jobs.all() if namespace in ("", owner.namespace)]
        sets = [pod for o in there if isinstance(o, JobSet) for pod in self._renew_jobset(o, there=True)]
        jobs = [pod for o in there if isinstance(o, Job) for pod in self._renew((o.namespace, o.name), o)]
        here = [p for p in self._pods.values() if p.namespace == namespace]
        return jobs + sets + self._pods_in_other_gangs(p for p in here if p.owner is None or p.owner.kind != JOB)

    def group_changed(self, family: str, before: Gang | None, now: Gang | None) -> list[Pod]:
        """A group object, or that of an operator, was created, changed, or is gone."""
        gang = now or before
        if gang is None:
            return []
        if _spared(before) != _spared(now):
            return [self.placed(pod) for pod in self._membership.pods_of_group(family, gang.namespace, gang.name)]
        if family == OPERATORS[owners.LEADER_WORKER_SET].family:
            mine = (p for p in self._pods.values() if p.namespace == gang.namespace)
            return self._pods_in_other_gangs((p for p in mine if p.labels.get(owners.NAME) == gang.name), always=True)
        if family not in FAMILIES:
            return []
        seen = FAMILIES[family].group == RAY  # whose a cluster is, is known when both it and the RayJob are seen
        said = [(each.declared, seen) if each is not None else (None, False) for each in (before, now)]
        if said[0] == said[1]:
            return []
        owned = [each for each in self._jobs.all() if isinstance(each, JobSet) and _is_of(each, gang)]
        sets = [pod for jobset in owned for pod in self._renew_jobset(jobset, there=True)]
        pods = (p for p in self._pods.values() if p.namespace == gang.namespace and p.owner is not None)
        return sets + self._pods_in_other_gangs(pods)

    def _renew_jobset(self, jobset: JobSet, there: bool) -> list[Pod]:
        if there and not jobset.in_order and self._together(jobset):
            self._membership.set_object(self._whole(jobset))
        elif (QUEUED_JOBSET, jobset.namespace, jobset.name) in self._membership.objects:
            self._membership.drop_object(QUEUED_JOBSET, jobset.namespace, jobset.name)
        return [p for job in self._jobs.jobs_of(jobset) for p in self._renew((job.namespace, job.name), job)]

    def _resize(self, jobset: JobSet | None) -> None:
        """What is known of the Jobs of a JobSet that starts as a whole says how many pods that is."""
        if jobset is not None and (QUEUED_JOBSET, jobset.namespace, jobset.name) in self._membership.objects:
            self._membership.set_object(self._whole(jobset))

    def _whole(self, jobset: JobSet) -> Gang:
        """The gang of a JobSet. Where a Job has a domain to itself, the first of its pods starts when there is room for
        the others in that domain; these are made then.
        """
        if not any(each.job.exclusive for each in jobset.replicated):
            return _gang(jobset, self._size(jobset))
        there = {job.name: job for job in self._jobs.jobs_of(jobset)}
        found = []
        for each in jobset.replicated if self._size(jobset) <= MAX_WITHOUT_PODS else ():
            if self._is_of_gang(each.job):
                names = (f"{each.job.name}-{index}" for index in range(each.replicas))
                found += [msgspec.structs.replace(there.get(name, each.job), name=name) for name in names]
        return _staged(_gang(jobset, self._size(jobset)), found)

    def _size(self, jobset: JobSet) -> int:
        """How many pods a JobSet runs at once from now on, of those that :meth:`placed` makes members of it."""
        of_name = {each.job.name: each for each in jobset.replicated if self._is_of_gang(each.job)}
        size = sum(each.replicas * _at_once(each.job) for each in of_name.values())
        for job in self._jobs.jobs_of(jobset):
            each = of_name.get(job.name.rpartition("-")[0])
            if each is not None:
                size += _at_once(job) - _at_once(each.job)
        return size

    def _is_of_gang(self, job: Job) -> bool:
        pod = job.template
        ours = pod is None or (pod.gang.family == SINGLE and pod.scheduler in self._membership.ours)
        return ours and not job.queue.local_queue

    def _renew(self, key: tuple[str, str], job: Job | None) -> list[Pod]:
        if job is not None and self._starts_with(job) is job and self._together(job):
            queue = self._jobs.queue_of(job)
            gang = _staged(_gang(job, _at_once(job)), [job])
            self._membership.set_object(msgspec.structs.replace(gang, queue=queue))
        elif (QUEUED_JOB, *key) in self._membership.objects:
            self._membership.drop_object(QUEUED_JOB, *key)
        elif job is not None and (job.owner is None or job.owner.kind not in (JOBSET, *OPERATORS)):
            return []
        return self._pods_in_other_gangs(self._jobs.pods_named(key))

    def _pods_in_other_gangs(self, pods: Iterable[Pod], *, always: bool = False) -> list[Pod]:
        """Return the pods that are in another gang than before, or all of them."""
        out = []
        for pod in sorted(pods, key=lambda pod: pod.uid):
            self._membership.changed.add(pod.gang)
            alone = GangId(SINGLE, pod.namespace, pod.name, pod.scheduler)
            now = self.placed(msgspec.structs.replace(pod, gang=alone) if pod.gang.family in _FAMILIES else pod)
            if always or (now.gang, now.unowned) != (pod.gang, pod.unowned):
                out.append(now)
        return out


def owner_key(kind: str, group: str, namespace: str, name: str) -> Key | None:
    """Under which name an object is known as an owner, or (by its API) as a group; None for others. ``group`` is its
    API, or the family of its gangs.
    """
    if kind == "PodGroup":
        return FAMILIES[group].kind if group in FAMILIES else group, namespace, name
    known = kind in OWNER_GROUPS and kind not in _NEVER_READ and group in ("", OWNER_GROUPS[kind])
    return (kind, namespace, name) if known else None


def key_in_labels(pod: Pod) -> Key | None:
    """The owner of a pod that its labels name, above those that its reference leads to."""
    name = pod.labels.get(owners.NAME, "") if owners.group_of(pod) else ""
    return (owners.LEADER_WORKER_SET, pod.namespace, name) if name else None


def _is_of(jobset: JobSet, gang: Gang) -> bool:
    """Return True if the JobSet belongs to the TrainJob."""
    owner = jobset.owner
    named = owner is not None and (owner.kind, jobset.namespace, owner.name) == (gang.kind, gang.namespace, gang.name)
    return named and owner is not None and same(owner, gang.uid)


def _family(owner: Suspendable) -> str:
    return QUEUED_JOB if isinstance(owner, Job) else QUEUED_JOBSET


def _gang(owner: Suspendable, members: int) -> Gang:
    """A Job or JobSet starts with as many pods as it runs at once; a Job with fewer if it says so."""
    said = owner.scheduling if isinstance(owner, Job) else None
    made = gang_of(owner, _family(owner), max(1, members if said is None else min(members, said.min_member)))
    if said is None:
        return made
    return msgspec.structs.replace(made, topology=said.topology, disruption=said.disruption)


def _staged(gang: Gang, jobs: Iterable[Job]) -> Gang:
    """A gang of these Jobs, of which some may make their other pods when the first one has a node."""
    staged = [(job, _at_once(job)) for job in jobs]
    later = [(job, count) for job, count in staged if job.exclusive and count > 1]
    if not later:
        return gang
    roles = tuple((job.name, 1 if job.exclusive else count) for job, count in staged if count)
    announced = tuple(Announced(job.name, n, kept=True, within=job.exclusive, alike=True) for job, n in later)
    minimum = sum(count for _, count in roles)
    return msgspec.structs.replace(gang, min_member=max(1, minimum), roles=roles, announced=announced)


def _as_gang(jobset: JobSet) -> tuple[object, ...]:
    """Return the facts behind the gang of a JobSet, except its size."""
    said = jobset.gang, *map(owners.said_by, templates_of(jobset))
    return jobset.uid, jobset.queue, jobset.in_order, said


def _model_of(job: Job, jobset: JobSet | None) -> Job | None:
    """Return the part of a JobSet about one of its Jobs."""
    name = job.name.rpartition("-")[0]
    return next((each.job for each in jobset.replicated if each.job.name == name), None) if jobset is not None else None


def _at_once(job: Job) -> int:
    """How many pods a Job runs at once from now on. Without a number of completions none is made anew after the first
    that succeeds.
    """
    if job.finished:
        return 0
    return job.wanted if job.completions is not None else max(0, job.parallelism - job.succeeded)


def _spared(gang: Gang | None) -> tuple[object, ...]:
    """Return the facts that decide if the pods of a group object may be evicted."""
    if gang is None or gang.stakes.never_from is None:
        return (gang is not None and gang.stakes.never,)
    return gang.stakes.never_from, gang.priority_class
