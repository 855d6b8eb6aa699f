"""Blocks: the units that may be taken together or singly, and the owners whose pods end together.

A *block* is everything that may be taken of one gang (of one GangGroup, of one Job that would end): single pods up to a
limit per gang, or the whole, everywhere in the cluster. A Job that does not survive one more deleted pod ends, and its
other pods with it (:mod:`gangsched.model.survival`); a JobSet is suspended as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from gangsched.core.arrays import Ints, distinct
from gangsched.core.decision import UnitRef, names_of
from gangsched.core.options import Options
from gangsched.core.state.jobs import Suspendable
from gangsched.core.state.membership import Membership
from gangsched.core.state.podtable import TERMINATING, JobId
from gangsched.model.records import SINGLE, Gang, GangId, Job, Pod
from gangsched.model.survival import REASONS, allowance

if TYPE_CHECKING:
    from gangsched.core.world.world import World


class Survivor(msgspec.Struct, frozen=True, eq=False):
    """A Job, the slots of its pods by name, which of these may be deleted (``free``), and how many: at most all."""

    job: Job
    slots: tuple[int, ...]
    free: frozenset[int]
    limit: int


class Ending(msgspec.Struct, eq=False):
    """A Job or JobSet of several pods that does not survive the loss of all of them.

    ``slots`` are those of all of its pods that do not leave yet, on whatever node; ``gangs`` the numbers of the groups
    that these are in; ``numbers`` those of its Jobs in the table. ``known`` is a cache that is valid until its Jobs or
    pods change.
    """

    owner: Suspendable
    jobs: tuple[Survivor, ...]
    slots: Ints
    gangs: frozenset[int]
    numbers: frozenset[int]
    known: Any = None


class Owners:
    """The Jobs and JobSets of a cluster, as far as pods end with them. Pods in ``condemned`` slots leave anyway."""

    def __init__(self, world: World, condemned: Collection[int] = ()) -> None:
        self._world = world
        self._condemned = frozenset(map(int, condemned))
        busy = (world.snapshot.table.pods[slot] for slot in self._condemned)
        owners = (world.jobs.owner_of(pod) for pod in busy if pod is not None)
        #: Pods of these are condemned: what is known of them holds for this decision only.
        self._busy: dict[str, Ending | None] = dict.fromkeys((o.uid for o in owners if o is not None), None)
        self._asked: set[str] = set()

    def endings(self, slots: Ints) -> list[Ending]:
        """Return the owners of the pods in these slots."""
        table = self._world.snapshot.table
        numbers = table.job[slots]
        out: dict[str, Ending] = {}
        for number in distinct(numbers[numbers >= 0]).tolist():
            found = self._ending_of(table.job_ids[number])
            if found is not None:
                out[found.owner.uid] = found
        return list(out.values())

    def beside(self, gangs: Iterable[GangId]) -> list[int]:
        """Return the slots of pods that end together with a Job or JobSet of which these gangs have members."""
        world = self._world
        members = (pod for gang in sorted(gangs) for pod in world.membership.known_pods(gang))
        jobs = {job.key: job for pod in members if (job := world.jobs.job_of(pod)) is not None}
        found = (self._ending_of((job.namespace, job.name, job.uid)) for job in jobs.values())
        return sorted({int(slot) for each in found if each is not None for slot in each.slots})

    def _ending_of(self, ident: JobId) -> Ending | None:
        world = self._world
        job = world.jobs.get(ident[:2])
        if job is None or job.uid != ident[2]:
            return None
        owner = self._that_ends(job)
        known = world.jobs.known
        if owner.uid in self._busy:
            if owner.uid not in self._asked:
                self._asked.add(owner.uid)
                self._busy[owner.uid] = self._made(owner)
            return self._busy[owner.uid]
        if owner.uid not in known:
            known[owner.uid] = self._made(owner)
        found: Ending | None = known[owner.uid]
        return found

    def _that_ends(self, job: Job) -> Suspendable:
        """Return what ends with a Job: its JobSet, unless that creates each failed Job again and
        continues the others.
        """
        jobset = self._world.jobs.jobset_of(job)
        if jobset is None or jobset.failure_policy is None:
            return jobset or job
        every = self._world.jobs.jobs_of(jobset)
        worst = (jobset.after((each, reason) for each in every) for reason in REASONS)
        return jobset if any(fate.ends or fate.restarted for fate in worst) else job

    def _made(self, owner: Suspendable) -> Ending | None:
        table = self._world.snapshot.table
        jobs = []
        for job in self._world.jobs.jobs_of(owner):
            pods = self._world.jobs.pods_of(job)
            there = [table.slot_of[p.uid] for p in pods if p.uid in table.slot_of]
            slots = tuple(s for s in there if not table.flags[s] & TERMINATING and s not in self._condemned)
            leaving = uncounted(job, (p for p in pods if self._leaves(p)))
            staying = [p for p in pods if table.slot_of.get(p.uid) in slots]
            may = allowance(with_failed(job, self._world), leaving, staying)
            free = frozenset(slots if may is None else (table.slot_of[uid] for uid in may.free))
            jobs.append(Survivor(job, slots, free, len(slots) if may is None else may.most))
        found: Ints = np.array([s for each in jobs for s in each.slots], dtype=np.int64)
        if len(found) < 2 or all(each.limit == len(each.slots) for each in jobs):
            return None
        numbers = frozenset(distinct(table.gang[found]).tolist())
        gangs = frozenset(n for n in numbers if table.gang_ids[n].family != SINGLE)
        return Ending(owner, tuple(jobs), found, gangs, frozenset(table.job[found].tolist()))

    def _leaves(self, pod: Pod) -> bool:
        """Return True if the pod terminates or is being evicted for others."""
        return not pod.live or self._world.snapshot.table.slot_of.get(pod.uid, -1) in self._condemned


def uncounted(job: Job, pods: Iterable[Pod]) -> list[Pod]:
    """Return the evicted pods that their Job has not counted yet."""
    return [p for p in pods if p.tracked and p.uid not in job.counted]


def with_failed(job: Job, world: World) -> Job:
    """A Job with the pods that have failed and are not in its status yet.

    One with a limit per index keeps them until they are replaced.
    """
    if job.limit_per_index is None:
        return job
    pods = world.jobs.pods_named((job.namespace, job.name))
    failed = (p for p in pods if p.phase == "Failed" and p.owner is not None and p.owner.uid == job.uid)
    return msgspec.structs.replace(job, failed=job.failed + len(uncounted(job, failed)))


def joined(endings: Iterable[Ending], groups: dict[int, tuple[int, ...]]) -> list[tuple[list[Ending], set[int]]]:
    """A set that ends together: Jobs and JobSets that have pods in the same gang, with the numbers of all these gangs.
    ``groups`` has, for each gang, those that are decided with it.
    """
    out: dict[int, tuple[list[Ending], set[int]]] = {}
    of_gang: dict[int, int] = {}
    for ident, ending in enumerate(endings):
        if not ending.gangs:
            out[ident] = [ending], set()
            continue
        gangs = {g for n in ending.gangs for g in groups[n]}
        mine = [ending]
        for other in {of_gang[g] for g in gangs if g in of_gang}:
            more, theirs = out.pop(other)
            mine, gangs = more + mine, gangs | theirs
        out[ident] = mine, gangs
        of_gang.update(dict.fromkeys(gangs, ident))
    return list(out.values())


OFF, MINIMAL, ATOMIC, ELASTIC = "off", "minimal", "atomic", "elastic"


NO_SLOTS: Ints = np.zeros(0, dtype=np.int64)


#: To sort gangs by: namespace, name, family, scheduler.
by_key: Callable[[GangId], tuple[str, str, str, str]] = itemgetter(1, 2, 0, 3)


class Part(msgspec.Struct):
    """One gang inside a block, or the pods of one Job that are in no gang (``gang`` is then that of the first of them).

    ``bound`` are the slots of its bound, live pods; ``single`` those of them that may be taken one by one, at
    most ``limit`` of them; ``minimum`` is its min_member. ``counts`` is False where groups are ignored, and of a Job.
    """

    gang: GangId
    ref: UnitRef
    bound: list[int]
    single: list[int]
    limit: int
    minimum: int
    counts: bool = True

    @property
    def grouped(self) -> bool:
        """True if its pods are members of a gang."""
        return self.gang.family != SINGLE


class Block(msgspec.Struct):
    """A set that may be evicted together. ``whole`` are all its slots, or empty when it cannot be taken whole.

    ``number`` is its own among all blocks; ``priority`` is that of the whole unit; ``ref`` names the whole unit. Blocks
    are shared by decisions and not changed.
    """

    number: int
    ref: UnitRef
    parts: list[Part]
    whole: list[int]
    priority: int
    gangs: tuple[int, ...]  # numbers of the gangs of its pods, single ones included
    array: Ints = NO_SLOTS  # ``whole`` again, for array operations
    interrupts: int = 0  # gangs that are interrupted when it leaves whole
    singles: Sequence[int] = ()  # slots that may be taken one by one (each part up to its limit)

    def __post_init__(self) -> None:
        self.array = np.array(self.whole, dtype=np.int64)
        self.singles = [s for part in self.parts for s in part.single]
        if any(len(part.bound) > part.limit for part in self.parts):
            self.interrupts = sum(part.counts for part in self.parts)


class Known(msgspec.Struct):
    """The block of a gang all of whose live pods may be taken, as it was made from these settings, this group and these
    Jobs.
    """

    options: Options
    spec: Gang | None
    block: Block
    endings: tuple[Ending, ...] = ()


def mode_of(spec: Gang | None, options: Options) -> str:
    """How a gang may be taken apart: its own wish, as far as the options heed it, or what they say for all."""
    mode = options.gang_mode
    if spec is not None and spec.disruption == "gang":
        return ATOMIC
    if spec is not None and spec.disruption == "pod" and options.pod_disruption_mode == "honor":
        return OFF if mode == OFF else MINIMAL
    return mode


def ref_of(membership: Membership, gangs: Sequence[GangId]) -> UnitRef:
    """Return the pods that are evicted with all of these gangs."""
    if len(gangs) > 1:
        return UnitRef("GangGroup", names_of(gangs))
    spec = membership.spec(gangs[0])
    return UnitRef(spec.kind if spec is not None else "PodGroup", gangs[0].key)
