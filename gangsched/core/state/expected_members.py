"""Members of gangs that are expected: they do not exist yet, and are known by what they ask for and by their number.

Members of a suspended Job or JobSet are expected until it goes on, members that a gang announces until others of it
run. An object of some hundred bytes may ask for ten thousand pods. What is kept of them is one of each kind, and how
many are like it. All are made when one is asked for, as in a decision, and forgotten afterwards, unless room is kept
for them: that has its bound in the size of the cluster. They are never among the pods that the cluster has reported.

Of what a gang announces as a sum of resources without shapes (``minResources``) each resource is divided into parts for
itself, on nodes that the first member admits: a sum says neither how many members there will be nor which of its
resources belong together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple, overload

import msgspec

from gangsched.core.agenda import pause
from gangsched.model.constraints import NO_LABELS, Labels, PodShape
from gangsched.model.dialects import role_of
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import Announced, Gang, GangId, Pod
from gangsched.model.shapes import total

#: A resource of a sum is divided into at most so many parts, each of these base units or of a power of two of them:
#: where nodes have room for whole cores and gigabytes, parts fill them without a rest.
MOST_PARTS = 24
_LEAST = {"cpu": 125, "memory": 64 << 20, "ephemeral-storage": 64 << 20}


#: Seconds for which room is kept for pods that are to come, from the last that came.
PODS_COME_SECONDS = 30.0
#: Seconds before an owner whose pods did not come is let go on again; twice as long after each further time.
FIRST_PAUSE_SECONDS = 30.0
#: So long (seconds) does it count against a namespace, and after so many in that time no room is kept.
REMEMBERED_SECONDS, AT_MOST = 3600.0, 6


class Expected(NamedTuple):
    """Members ``like`` this one, so many ``of_each`` Job.

    Their numbers, from ``first`` on, come behind ``name`` and ``uid``, in the UID with ``between`` before them. If the
    names are those of several ``jobs``, the number of the Job comes in between.
    """

    like: Pod
    name: str
    uid: str
    of_each: int
    jobs: range | None = None
    first: int = 0
    between: str = "/"

    @property
    def number(self) -> int:
        """How many there are."""
        return self.of_each * (1 if self.jobs is None else len(self.jobs))

    @property
    def what(self) -> str:
        """The role of announced members, or the resource of which they are parts."""
        return self.name[len(self.like.gang.name) + 1 :]

    def names(self) -> Iterator[tuple[str, str]]:
        """The name and the UID of each."""
        numbers = range(self.first, self.first + self.of_each)
        for job in ("",) if self.jobs is None else (f"-{index}" for index in self.jobs):
            name, uid = self.name + job, self.uid + job
            yield from ((f"{name}-{index}", f"{uid}{self.between}{index}") for index in numbers)

    def pods(self) -> Iterator[Pod]:
        """Make each of them."""
        return (msgspec.structs.replace(self.like, name=name, uid=uid) for name, uid in self.names())


class Members:
    """Members of gangs by UID: the pods that the cluster has ``reported``, and expected ones that were ``made``.

    They can be looked up, as the members of a plan are. They cannot be walked over: a walk is over what is reported.
    """

    def __init__(self, reported: Mapping[str, Pod], made: Mapping[str, Pod]) -> None:
        self._reported = reported
        self._made = made

    def get(self, uid: str) -> Pod | None:
        """Return the member, or None if there is none of this UID."""
        found = self._reported.get(uid)
        return self._made.get(uid) if found is None else found

    def __getitem__(self, uid: str) -> Pod:
        found = self._reported.get(uid)
        return self._made[uid] if found is None else found

    def __contains__(self, uid: str) -> bool:
        return uid in self._reported or uid in self._made


class ExpectedMembers:
    """The members of the gangs that have no pods: some ``Expected`` for each gang, and those that were made of them."""

    def __init__(self) -> None:
        #: By UID, those that were made and are not forgotten yet.
        self.made: dict[str, Pod] = {}
        self._expected: dict[GangId, tuple[Expected, ...]] = {}
        #: Those of them in name order, by gang; the gang whose members were made first is the first.
        self._open: dict[GangId, list[Pod]] = {}
        self._ever_made: set[GangId] = set()

    def __contains__(self, gang: object) -> bool:
        return gang in self._expected

    def __iter__(self) -> Iterator[GangId]:
        return iter(self._expected)

    def members_of(self, gang: GangId) -> tuple[Expected, ...]:
        """Return the expected members of a gang."""
        return self._expected.get(gang, ())

    def number(self, gang: GangId) -> int:
        """Return how many members of a gang are expected."""
        return sum(each.number for each in self.members_of(gang))

    def pods(self, gang: GangId) -> list[Pod]:
        """Return the expected members of a gang in name order. They are made if they are not there."""
        found = self._open.get(gang)
        if found is None:
            made = (pod for each in self.members_of(gang) for pod in each.pods())
            found = self._open[gang] = sorted(made, key=lambda pod: (pod.name, pod.uid))
            self.made.update((pod.uid, pod) for pod in found)
            self._ever_made.add(gang)
        return found

    def replace(self, gang: GangId, expected: Sequence[Expected]) -> list[str]:
        """Expect exactly these members of a gang from now on. Returns the UIDs of earlier ones that were ever made."""
        self._forget(gang)
        before = self._expected.pop(gang, ())
        if expected:
            self._expected[gang] = tuple(expected)
        if gang not in self._ever_made:
            return []
        self._ever_made.discard(gang)
        return [uid for each in before for _, uid in each.names()]

    def forget_made(self, needed: Callable[[GangId], bool]) -> None:
        """Forget members that were made, the oldest first, until as many are left as one gang may have. Those of gangs
        that are ``needed`` stay.
        """
        over = [gang for gang in self._open if not needed(gang)] if self._open else ()
        number = sum(len(self._open[gang]) for gang in over)
        for gang in over:
            if number > MAX_WITHOUT_PODS:
                number -= len(self._open[gang])
                self._forget(gang)

    def _forget(self, gang: GangId) -> None:
        for pod in self._open.pop(gang, ()):
            self.made.pop(pod.uid, None)

    def shapes(self) -> Iterator[PodShape]:
        """Return what they ask of a node."""
        return (each.like.shape for expected in self._expected.values() for each in expected)


class Pods(Sequence[Pod]):
    """The expected members of a gang in name order. They are counted without being made."""

    def __init__(self, members: ExpectedMembers, gang: GangId) -> None:
        self._members = members
        self._gang = gang

    def __len__(self) -> int:
        return self._members.number(self._gang)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._members.pods(self._gang))

    @overload
    def __getitem__(self, index: int) -> Pod: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pod]: ...
    def __getitem__(self, index: int | slice) -> Pod | Sequence[Pod]:
        return self._members.pods(self._gang)[index]


class Resumes:
    """Jobs and JobSets that were resumed, and whose pods did not come: by UID of an owner how often, and when last; by
    namespace when that was, of all owners.

    A quota, an admission policy or a missing object refuses pods only when they are created. Room is held for them
    nevertheless, so a user could block others by writing such Jobs. The owner pauses, longer each time; and room is
    kept for other Jobs of its namespace for a shorter time each, in the end for none.
    """

    def __init__(self) -> None:
        self._owners: dict[str, tuple[int, float]] = {}
        self._namespaces: dict[str, list[float]] = {}

    def record_without_pods(self, owner: str, namespace: str, now: float) -> float:
        """Record that no pod has come. Return when the owner may be resumed again (seconds)."""
        times, _ = self._owners.get(owner, (0, 0.0))
        self._owners[owner] = times + 1, now
        self._namespaces[namespace] = [*self._recent(namespace, now), now][-AT_MOST:]
        if len(self._owners) > 10_000:
            del self._owners[next(iter(self._owners))]
        return self.not_before(owner)

    def came(self, owner: str) -> None:
        """All of its pods have come."""
        self._owners.pop(owner, None)

    def not_before(self, owner: str) -> float:
        """When the owner may be let go on (seconds)."""
        times, at = self._owners.get(owner, (0, -math.inf))
        return at + pause(FIRST_PAUSE_SECONDS, times)

    def seconds(self, namespace: str, now: float) -> float:
        """For how long room is kept for pods of this namespace that are to come."""
        times = len(self._recent(namespace, now))
        return 0.0 if times >= AT_MOST else PODS_COME_SECONDS / 2.0**times

    def _recent(self, namespace: str, now: float) -> list[float]:
        found = [at for at in self._namespaces.get(namespace, ()) if at > now - REMEMBERED_SECONDS]
        if not found:
            self._namespaces.pop(namespace, None)
        return found


def announced_members(spec: Gang, gang: GangId, there: Sequence[Pod], *, kinds: bool = False) -> list[Expected]:
    """Return the announced members that are not among those ``there``, which count as the first of them. With ``kinds``
    there is one of each kind only.
    """
    most = 1 if kinds else None
    like = there[0]
    known = Counter(role_of(pod, spec) for pod in there)

    def expected(name: str, shape: PodShape, labels: Labels, first: int, number: int) -> Expected:
        template = Pod(
            gang.namespace,
            "",
            "",
            shape,
            gang,
            gang.scheduler,
            labels,
            priority=like.priority,
            preemption_policy=like.preemption_policy,
            created=like.created,
        )
        prefix = f"{gang.family}/{gang.key}/{name}"
        return Expected(template, f"{gang.name}-{name}", prefix, number, first=first, between="-")

    out = []
    for each in spec.announced:
        same = next((pod for pod in there if role_of(pod, spec) == each.role), None)
        if same is None and each.alike:
            continue
        beside = (same or like) if each.within or each.alike else None
        shape, labels = _beside(each, beside) if beside is not None else (each.shape, NO_LABELS)
        first = known[each.role]
        number = len(range(first, each.count)[:most])
        if number:
            out.append(expected(each.role, shape, labels, first, number))
    taken = total(pod.shape.requests for pod in there) if spec.min_resources else {}
    for resource, units in spec.min_resources:
        parts, first = islice(_parts(resource, units - taken.get(resource, 0)), most), 0
        for size, same_size in groupby(parts):
            number = len([*same_size])
            out.append(expected(resource, _part_shape(like.shape, resource, size), NO_LABELS, first, number))
            first += number
    return out


def _beside(announced: Announced, other: Pod) -> tuple[PodShape, Labels]:
    """What an announced member asks of a node, and its labels: with the terms and labels of the member beside it that
    choose the domain in which both will be.
    """
    if announced.alike:
        return other.shape, other.labels
    own, key = announced.shape, announced.within
    shape = msgspec.structs.replace(
        own,
        affinity=(*own.affinity, *(term for term in other.shape.affinity if term.topology_key == key)),
        anti_affinity=(*own.anti_affinity, *(t for t in other.shape.anti_affinity if t.topology_key == key)),
    )
    return shape, other.labels


def most_of(spec: Gang) -> int:
    """Return how many members a gang announces at most."""
    return sum(each.count for each in spec.announced) + MOST_PARTS * len(spec.min_resources)


def amount_of(member: Pod) -> int:
    """Return how much of a resource (base units) an announced member is; a member of a role counts as one."""
    return member.shape.requests[0][1] if member.shape.is_part else 1


def role_or_resource(member: Pod) -> str:
    """Return the role of an announced member, or the resource of which it is a part."""
    return member.name[len(member.gang.name) + 1 :].rpartition("-")[0]


def _parts(resource: str, units: int) -> Iterator[int]:
    size = _LEAST.get(resource, 1)
    while size * MOST_PARTS < units:
        size *= 2
    while units > 0:
        yield min(size, units)
        units -= size


def _part_shape(of: PodShape, resource: str, units: int) -> PodShape:
    """A part of a resource on nodes that this shape admits."""
    return PodShape(
        requests=((resource, units),),
        scored=tuple((name, units if name == resource else 0) for name in ("cpu", "memory")),
        node_selector=of.node_selector,
        node_terms=of.node_terms,
        tolerations=of.tolerations,
        is_part=True,
    )
