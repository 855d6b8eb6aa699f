"""Gangs and GangGroups: their members, and whether they are complete."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from gangsched.core.state import census as censuses
from gangsched.core.state.census import Census
from gangsched.core.state.expected_members import Expected, ExpectedMembers, announced_members, most_of
from gangsched.core.state.scheduler_names import SchedulerNames
from gangsched.messages import causes
from gangsched.model.dialects import gang_from_member, needs_object, role_of
from gangsched.model.dialects.operators import COUNTS_ALL, OPERATORS
from gangsched.model.errors import Mistake
from gangsched.model.jobsets import QUEUED_JOBSET
from gangsched.model.parts import needed, starting_choices
from gangsched.model.records import (
    NO_STAKES,
    PREEMPT_LOWER,
    PREEMPT_NEVER,
    QUEUED_JOB,
    SINGLE,
    Gang,
    GangId,
    Pod,
    PriorityClass,
    Stakes,
)

ONLY_WAITING = "only-waiting"


#: From so many members on, what is known of a gang is kept until one of them changes.
_LARGE = 16


class Standing(NamedTuple):
    """The lowest priority of a gang's live members, and of the others; None where there are none. ``never``: some live
    member does not preempt.
    """

    live: int | None
    others: int | None
    never: bool


class _Facts:
    """Cached facts about the current members of one gang."""

    __slots__ = ("census", "of_members", "standing")

    def __init__(self) -> None:
        self.census: Census | None = None
        self.of_members: tuple[object, ...] | None = None
        self.standing: Standing | None = None


class View(NamedTuple):
    """A gang of ours beside those of its GangGroup: these ``gangs`` and why it stands ``alone``, see
    :meth:`Membership.group`. ``waits``: some member of them is not placed yet.
    """

    gangs: tuple[GangId, ...]
    alone: str
    waits: bool


def _rules_of(gang: Gang) -> Gang:
    """A group without what changes all the time, by our own doing too, and means nothing to a decision."""
    return msgspec.structs.replace(gang, status=None, generation=0)


class Membership:
    """Pods by gang, and group objects. ``ours`` are the scheduler names whose pods we place.

    ``assumed`` are the pods (UIDs) whose binding is on its way: they count as bound. ``classes`` are the
    PriorityClasses by name, ``names`` the names of ours that others may have.
    """

    def __init__(
        self,
        ours: Iterable[str],
        classes: Mapping[str, PriorityClass] = MappingProxyType({}),
        names: SchedulerNames | None = None,
    ) -> None:
        self.ours = frozenset(ours)
        self.assumed: Container[str] = ()
        self._classes = classes
        self._names = names or SchedulerNames()
        self.objects: dict[tuple[str, str, str], Gang] = {}
        #: The node labels of layers, by the keys that constraints of gangs have for them.
        self.layers: dict[str, tuple[str, ...]] = {}
        #: How long pods of a queue of another API run before those of the same queue, and others, may evict them
        #: (seconds).
        self.minimum_run_times: dict[str, tuple[float, float]] = {}
        #: The statements of group objects about the loss of their pods.
        self.stakes: dict[tuple[str, str, str], Stakes] = {}
        #: The pods that the cluster has reported, by UID.
        self.members: dict[GangId, dict[str, Pod]] = {}
        #: The members of suspended Jobs and JobSets, of which there are no pods.
        self.expected = ExpectedMembers()
        #: How many of these gangs are of each scheduler name.
        self.of_scheduler = Counter[str]()
        #: UIDs of the members that make a mistake, of each gang and mistake.
        self._mistaken: dict[tuple[GangId, Mistake], set[str]] = {}
        self._specs: dict[GangId, Gang | None] = {}  # what is known of gangs with members, once it was asked for
        #: Gangs of which something has changed since quota looked at them: their pods, their object, where they run.
        self.changed: set[GangId] = set()
        self._unsorted: set[GangId] = set()
        # What follows from the members of a gang: kept of large gangs, for a change of one member must not cost a look
        # at all of them more than once, and of the one that was asked about last, for it is asked about again and again
        # while it is decided.
        self._facts: dict[GangId, _Facts] = {}
        self._last: tuple[GangId, _Facts] | None = None

    # -- changes -------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> None:
        """Insert or replace a pod."""
        if pod.gang not in self.members:
            self.of_scheduler[pod.gang.scheduler] += 1
        group = self.members.setdefault(pod.gang, {})
        before = group.get(pod.uid)
        if before is not None:
            self._forget_mistakes(before)
        elif group:
            self._unsorted.add(pod.gang)
        for each in _mistakes(pod):
            self._mistaken.setdefault((pod.gang, each), set()).add(pod.uid)
        group[pod.uid] = pod
        if before is None or _said_by(before) != _said_by(pod):
            self._specs.pop(pod.gang, None)
        self.forget_facts(pod.gang)

    def drop_pod(self, pod: Pod) -> None:
        """Remove a pod."""
        self._specs.pop(pod.gang, None)
        self.forget_facts(pod.gang)
        group = self.members.get(pod.gang)
        if group is not None:
            before = group.pop(pod.uid, None)
            if before is not None:
                self._forget_mistakes(before)
            if not group:
                del self.members[pod.gang]
                self.of_scheduler -= Counter((pod.gang.scheduler,))
                self._unsorted.discard(pod.gang)

    def expect(self, gang: GangId, expected: Sequence[Expected]) -> list[str]:
        """Expect exactly these members of a gang without pods. Returns the UIDs of earlier ones that were ever made."""
        self.of_scheduler -= Counter([gang.scheduler] if gang in self.expected else ())
        self.of_scheduler += Counter([gang.scheduler] if expected else ())
        before = self.expected.replace(gang, expected)
        self._specs.pop(gang, None)
        self.forget_facts(gang)
        return before

    def _forget_mistakes(self, pod: Pod) -> None:
        for each in _mistakes(pod):
            uids = self._mistaken.get((pod.gang, each), set())
            uids.discard(pod.uid)
            if not uids:
                self._mistaken.pop((pod.gang, each), None)

    def forget_facts(self, gang: GangId) -> None:
        """Forget what was derived for a gang: a pod of it has changed, or a binding has begun or ended."""
        self.changed.add(gang)
        self._facts.pop(gang, None)
        if self._last is not None and self._last[0] == gang:
            self._last = None

    def _facts_of(self, gang: GangId) -> _Facts:
        if self._last is not None and self._last[0] == gang:
            return self._last[1]
        found = self._facts.get(gang)
        if found is None:
            found = _Facts()
            if len(self.members.get(gang, ())) >= _LARGE:
                self._facts[gang] = found
        self._last = gang, found
        return found

    def set_object(self, gang: Gang) -> bool:
        """Insert or replace a group object; returns whether decisions may be others because of it."""
        key = (gang.family, gang.namespace, gang.name)
        before = self.objects.get(key)
        self.objects[key] = gang
        self._object_changed(*key, gang.stakes)
        other = before is None or _rules_of(before) != _rules_of(gang)
        if other:
            self._counts_otherwise(gang.family)
        return other

    def drop_object(self, family: str, namespace: str, name: str) -> None:
        """Remove a group object."""
        self.objects.pop((family, namespace, name), None)
        self._object_changed(family, namespace, name, NO_STAKES)
        self._counts_otherwise(family)

    def _counts_otherwise(self, family: str) -> None:
        """An object is another by more than its status: a group may be counted by it."""
        if family == OPERATORS[COUNTS_ALL].family:
            self._specs.clear()

    def _object_changed(self, family: str, namespace: str, name: str, stakes: Stakes) -> None:
        for scheduler in self.of_scheduler:
            self._specs.pop(GangId(family, namespace, name, scheduler), None)
        self.stakes.pop((family, namespace, name), None)
        if stakes != NO_STAKES:
            self.stakes[family, namespace, name] = stakes

    # -- questions -----------------------------------------------------------------------------------------

    def is_ours(self, gang: GangId) -> bool:
        """True when this scheduler places the gang's members, and no other scheduler does."""
        return gang.scheduler in self.ours and gang.scheduler not in self._names.taken

    def topology(self, spec: Gang) -> tuple[tuple[str, bool], ...]:
        """The constraints of a gang, by node labels."""
        return self.levels(spec.topology)

    def kept_together(self, spec: Gang) -> tuple[tuple[str, bool], ...]:
        """The constraints of a gang and of all its parts."""
        parts = [spec.parts] if spec.parts is not None else []
        found = [*spec.topology]
        for part in parts:
            found += [*part.topology, *([(part.distinct, True)] if part.distinct else [])]
            parts += part.parts
        return self.levels(found)

    def levels(self, topology: Iterable[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
        """Constraints by node labels; of two layers of one label the stricter counts."""
        found: dict[str, bool] = {}
        for key, required in topology:
            for label in self.layers.get(key, (key,)):
                found[label] = found.get(label, False) or required
        return tuple(found.items())

    def gangs(self) -> Iterator[GangId]:
        """Return the gangs that have members, expected ones included."""
        return chain(self.members, self.expected)

    def has_members(self, gang: GangId) -> bool:
        """Return whether a gang has pods, or expected members."""
        return gang in self.members or gang in self.expected

    def pods(self, gang: GangId) -> Iterator[Pod]:
        """Return the gang's members in name order. Expected ones are made."""
        return iter(self.expected.pods(gang)) if gang in self.expected else self.known_pods(gang)

    def kinds(self, gang: GangId) -> Iterable[Pod]:
        """Return the gang's pods in name order; of expected members one of each kind."""
        return [each.like for each in self.expected.members_of(gang)] or self.known_pods(gang)

    def known_pods(self, gang: GangId) -> Iterator[Pod]:
        """Return the gang's pods that the cluster knows, in name order."""
        members = self.members.get(gang, {})
        if gang in self._unsorted:
            members = dict(sorted(members.items(), key=lambda item: (item[1].name, item[0])))
            self.members[gang] = members
            self._unsorted.discard(gang)
        return iter([*members.values()])

    def pods_of_group(self, family: str, namespace: str, name: str) -> list[Pod]:
        """The pods of a group, whatever their schedulers."""
        gangs = (GangId(family, namespace, name, scheduler) for scheduler in sorted(self.of_scheduler))
        return [pod for gang in gangs for pod in self.pods(gang)]

    def new_mistakes(self, pod: Pod) -> list[Mistake]:
        """What is wrong with this state of a pod, as far as no known member of its gang makes the same mistake."""
        return [each for each in _mistakes(pod) if (pod.gang, each) not in self._mistaken]

    def mistaken(self, gangs: Iterable[GangId]) -> bool:
        """Return True if the group object of one of these gangs has a mistake, so that its wishes are unknown."""
        specs = map(self.spec, gangs)
        return any(spec is not None and spec.mistake is not None for spec in specs)

    def spec(self, gang: GangId) -> Gang | None:
        """What is known about the gang: its object, else what the oldest of the members says that say how many are
        needed; None if nothing is.
        """
        known = self._specs.get(gang)
        if known is None and gang not in self._specs:
            known = self._known(gang)
            # Pods of others are too many, and seldom asked about.
            if self.has_members(gang) and (gang.family != SINGLE or gang.scheduler in self.ours):
                self._specs[gang] = known
        return known

    def _known(self, gang: GangId) -> Gang | None:
        if gang.family == SINGLE:
            return self._single(gang)
        found = self.objects.get((gang.family, gang.namespace, gang.name))
        if found is not None:
            return self._in_stages(found)
        return self._from_members(gang) if gang in self.members else None

    def _in_stages(self, found: Gang) -> Gang:
        """A group object of which the controller counts members that it makes when the others run: what may be waited
        for is what it makes before.
        """
        if found.owner is None or found.owner.kind != COUNTS_ALL:
            return found
        above = self.objects.get((OPERATORS[COUNTS_ALL].family, found.namespace, found.owner.name))
        if above is None or not above.announced or above.uid != found.owner.uid:
            return found
        return msgspec.structs.replace(found, min_member=min(found.min_member, above.min_member))

    def _from_members(self, gang: GangId) -> Gang | None:
        """Return the gang from the oldest member with valid statements; None if a member needs a group object."""
        members = self.members[gang].values()
        if any(map(needs_object, members)):
            return None
        oldest_first = sorted(members, key=lambda p: (p.created, p.name, p.uid))
        return next(filter(None, map(gang_from_member, oldest_first)), None)

    def _single(self, gang: GangId) -> Gang | None:
        pod = next(iter(self.members.get(gang, {}).values()), None)
        if pod is None or (pod.ungrouped and not pod.node):
            return None
        return Gang(
            SINGLE,
            gang.namespace,
            gang.name,
            kind="Pod",
            uid=pod.uid,
            created=pod.created,
            disruption="pod",
            mistake=pod.mistake,
        )

    def census(self, gang: GangId) -> Census:
        """The gang's members by what they are doing. Not to be modified."""
        facts = self._facts_of(gang)
        if facts.census is None:
            facts.census = self._count(gang)
        return facts.census

    def _count(self, gang: GangId) -> Census:
        if gang in self.expected:
            return censuses.of_expected(gang, self.expected)
        return censuses.of_pods(gang, self.known_pods(gang), self.assumed)

    def gangs_of_its_group(self, gang: GangId) -> list[GangId]:
        """The gangs that its GangGroup lists, those that do not list it included."""
        spec = self.spec(gang)
        return spec.grouped(gang.scheduler) if spec is not None else []

    def group(self, gang: GangId) -> tuple[tuple[GangId, ...], str]:
        """``(gangs, problem)``: the GangGroup that this gang belongs to, in key order.

        A GangGroup exists only when every listed gang exists and lists the same set; otherwise the gang stands
        alone with the problem in words, and waits.
        """
        spec = self.spec(gang)
        if spec is None or not spec.group:
            return (gang,), ""
        if spec.key not in spec.group:
            return (gang,), causes.gang_group_without_itself(spec=spec.key)
        out = []
        for key, other_id in zip(spec.group, spec.grouped(gang.scheduler), strict=True):
            other = self.spec(other_id)
            if other is None:
                return (gang,), causes.gang_of_group_missing(key=key)
            if other.group != spec.group:
                return (gang,), causes.gang_group_differs(key=key)
            out.append(other_id)
        return tuple(out), ""

    def view(self, gang: GangId) -> View | None:
        """Summary facts about a gang; None if it is not ours."""
        if not self.is_ours(gang):
            return None
        gangs, alone = self.group(gang)
        return View(gangs, alone, any(map(self.waits, gangs)))

    def chosen(
        self, gang: GangId, pending: Sequence[Pod], needed: int, short: Mapping[str, int] | None = None
    ) -> Sequence[Pod]:
        """Those of these members of which any so many may start the gang. Where it needs some of each role, which they
        are is settled here: of each role the first, then the first of all others. ``short`` are those of one of its
        :meth:`ways`.
        """
        spec = self.spec(gang)
        short = {**(short if short is not None else self.short_of(gang, spec) if spec is not None else {})}
        if spec is None or not short:
            return pending
        first: list[Pod] = []
        others: list[Pod] = []
        for pod in pending:
            role = role_of(pod, spec)
            (first if short.get(role, 0) > 0 else others).append(pod)
            short[role] = short.get(role, 0) - 1
        kept = {pod.uid for pod in (*first, *others)[:needed]}
        return [pod for pod in pending if pod.uid in kept]

    def short_of(self, gang: GangId, spec: Gang) -> dict[str, int]:
        """How many members of each role are still to be placed before the gang may start, without those of none."""
        if not spec.roles and spec.parts is None:
            return {}
        placed = Counter(role_of(pod, spec) for pod in self.placed(gang))
        wanted = dict(spec.roles)
        if spec.parts is not None:
            there = placed + Counter(role_of(pod, spec) for pod in self.census(gang).pending)
            wanted = needed(spec.parts, there, placed)
        return {role: count - placed[role] for role, count in wanted.items() if count > placed[role]}

    def starting_choices(self, gang: GangId, most: int) -> list[dict[str, int]]:
        """The ways in which the parts of a gang may start: how many members of each role are still to be placed."""
        spec = self.spec(gang)
        if spec is None or spec.parts is None:
            return []
        placed = Counter(role_of(pod, spec) for pod in self.placed(gang))
        there = placed + Counter(role_of(pod, spec) for pod in self.census(gang).pending)
        found = starting_choices(spec.parts, there, placed, most)
        return [{role: n - placed[role] for role, n in wanted.items() if n > placed[role]} for wanted in found]

    def absent(self, gang: GangId, there: Sequence[Pod], *, kinds: bool = False) -> list[Expected]:
        """Return the members that a gang announces and that are not among these, which are at least one; or one of each
        of their ``kinds``.
        """
        spec = self.spec(gang)
        if spec is None or not spec.announces or not there:
            return []
        return announced_members(spec, gang, there, kinds=kinds)

    def absent_at_start(self, gang: GangId, *, kinds: bool = False) -> list[Pod]:
        """Return those that are absent beside the members that a gang needs before it may start; none once it has."""
        spec = self.spec(gang)
        if spec is None or not spec.announces:
            return []
        census = self.census(gang)
        needed = 0 if census.bound else self.required(gang, census)
        there = self.chosen(gang, census.pending, needed)[:needed]
        return [pod for each in self.absent(gang, there, kinds=kinds) for pod in each.pods()]

    def size(self, gangs: Iterable[GangId]) -> int:
        """How many members a decision about these gangs looks at, at most."""
        specs = [(self.spec(gang), len(self.census(gang).pending)) for gang in gangs]
        return sum(pending + (most_of(spec) if spec is not None else 0) for spec, pending in specs)

    def placed(self, gang: GangId) -> list[Pod]:
        """Members that are on nodes, or have succeeded."""
        pods = self.known_pods(gang)
        return [p for p in pods if p.phase == "Succeeded" or (p.live and (p.node or p.uid in self.assumed))]

    def lacking(self, gangs: Iterable[GangId]) -> tuple[int, ...]:
        """Of each gang, how many members are still to be placed before it may start."""
        return tuple(self.required(gang, self.census(gang)) for gang in gangs)

    def has_minimum(self, gangs: Iterable[GangId]) -> bool:
        """Return whether as many members of each gang are placed as it needs, of each role: the others are surplus."""
        for gang in gangs:
            spec = self.spec(gang) if gang.family != SINGLE else None
            if spec is None:
                return False
            census = self.census(gang)
            if self.counts_towards_minimum(gang, spec, census) < max(1, spec.min_member):
                return False
            if self.required(gang, census):
                return False
        return True

    def required(self, gang: GangId, census: Census) -> int:
        """Members still to be placed before the gang may start."""
        spec = self.spec(gang)
        if spec is None or (spec.match_policy == ONLY_WAITING and not census.pending):
            return 0
        return self.required_beside(gang, spec, census, self.short_of(gang, spec))

    def required_beside(self, gang: GangId, spec: Gang, census: Census, short: Mapping[str, int]) -> int:
        """Members still to be placed before the gang may start, where so many of each role are short."""
        return max(0, spec.min_member - self.counts_towards_minimum(gang, spec, census), sum(short.values()))

    def strict(self, gang: GangId) -> bool:
        """Return True if its bound members are removed when others cannot be bound."""
        spec = self.spec(gang)
        return spec is None or spec.strict

    @staticmethod
    def counts_towards_minimum(gang: GangId, spec: Gang, census: Census) -> int:
        """How many count towards the minimum already. That of a Job is what it runs from now on, so those of it that
        have succeeded do not.
        """
        if spec.match_policy == ONLY_WAITING:
            return 0  # only those that are not placed yet count
        return len(census.bound) + (0 if gang.family in (QUEUED_JOB, QUEUED_JOBSET) else census.succeeded)

    def half_bound(self, gangs: Collection[GangId]) -> bool:
        """Return True if some members are bound, and fewer than these gangs need together. It is False where each
        member starts by itself.
        """
        seen = [(gang, self.census(gang)) for gang in gangs]
        return any(c.bound for _, c in seen) and any(self.required(g, c) for g, c in seen) and not self._apart(gangs)

    def _apart(self, gangs: Iterable[GangId]) -> bool:
        """Return True if each member of these starts by itself."""
        specs = [self.spec(gang) for gang in gangs]
        return all(spec is not None and spec.match_policy == ONLY_WAITING and spec.min_member == 1 for spec in specs)

    def created(self, gangs: Iterable[GangId]) -> float:
        """Age for the queue: the group object's, or the oldest member's; of a GangGroup the oldest gang's."""
        out = []
        for gang in gangs:
            found = self.objects.get((gang.family, gang.namespace, gang.name))
            out.append(
                found.created if found is not None else min((p.created for p in self._members(gang)), default=0.0)
            )
        return min(out, default=0.0)

    def waits(self, gang: GangId) -> bool:
        """Return True if the gang has members that are not placed yet."""
        census = self.census(gang)
        return bool(census.pending or census.gated)

    def decisive_facts(self, gangs: Iterable[GangId]) -> tuple[object, ...]:
        """Return the own facts of these gangs on which a decision depends. Equal facts give equal decisions."""
        out: list[object] = []
        for gang in gangs:
            spec = self.spec(gang)
            out.append((_rules_of(spec) if spec is not None else None, self._facts_of_members(gang)))
        return tuple(out)

    def _facts_of_members(self, gang: GangId) -> tuple[object, ...]:
        """Return the facts of its members. Of a large gang it is the same object until a member changes, and so equal
        to itself.
        """
        facts = self._facts_of(gang)
        if facts.of_members is None and gang in self.expected:
            facts.of_members = self.expected.members_of(gang)
        elif facts.of_members is None:
            census = self.census(gang)
            looks = [
                (p.uid, id(p.shape), p.priority, p.preemption_policy, p.labels, p.hints, p.devices)
                for p in census.pending
            ]
            facts.of_members = looks, [p.uid for p in census.bound]
        return facts.of_members

    def preemptor_priority(self, gangs: Iterable[GangId]) -> int:
        """The lowest of the gangs' own priorities or, where a gang has none, of its live members'; of all members' once
        none is live: those that terminate hold what they hold with the same priority as before. A class that nothing
        has admitted may lower that.
        """
        out: list[int] = []
        others: list[int] = []
        for gang in gangs:
            own = self.own_priority(gang)
            if own is not None:
                out.append(own)
                continue
            standing, most = self._standing(gang), self.most_priority(gang)
            if standing.live is not None:
                out.append(int(min(standing.live, most)))
            if standing.others is not None:
                others.append(int(min(standing.others, most)))
        return min(out or others, default=0)

    def own_priority(self, gang: GangId) -> int | None:
        """Return the priority of the group object, or of the PriorityClass that it names, where groups are trusted.

        None where they are not, or where the group says nothing.
        """
        spec = self.spec(gang)
        if spec is None or gang.scheduler not in self._names.trusted:
            return None
        return self._said_by_group(spec)

    def most_priority(self, gang: GangId) -> float:
        """Return the priority that a gang without one of its own has at most: what its group says lowers it only.

        ResourceQuotas for PriorityClasses restrict pods, and no admission restricts which class a group names.
        """
        spec = self.spec(gang)
        found = self._said_by_group(spec) if spec is not None else None
        return math.inf if found is None else found

    def _said_by_group(self, spec: Gang) -> int | None:
        """The resolved priority of the group object, else that of the PriorityClass that it names."""
        if spec.priority is not None:
            return spec.priority
        found = self._classes.get(spec.priority_class) if spec.priority_class else None
        return None if found is None else found.value

    def policy(self, gangs: Iterable[GangId]) -> str:
        """``Never`` when any gang or any live member says so."""
        for gang in gangs:
            spec = self.spec(gang)
            if (spec is not None and spec.preemption_policy == PREEMPT_NEVER) or self._standing(gang).never:
                return PREEMPT_NEVER
        return PREEMPT_LOWER

    def _members(self, gang: GangId) -> Collection[Pod]:
        """Return the members as :meth:`kinds` does, in any order."""
        return [each.like for each in self.expected.members_of(gang)] or self.members.get(gang, {}).values()

    def _standing(self, gang: GangId) -> Standing:
        facts = self._facts_of(gang)
        if facts.standing is None:
            pods = self._members(gang)
            live = [p for p in pods if p.live]
            facts.standing = Standing(
                live=min((p.priority for p in live), default=None),
                others=min((p.priority for p in pods if not p.live), default=None),
                never=any(p.preemption_policy == PREEMPT_NEVER for p in live),
            )
        return facts.standing


def _said_by(pod: Pod) -> tuple[object, ...]:
    """Return a pod's statements about its gang. Most changes of a pod do not change them."""
    return pod.labels, pod.hints, pod.created, pod.mistake


def _mistakes(pod: Pod) -> tuple[Mistake, ...]:
    if pod.mistake is None and pod.remark is None:
        return ()
    return tuple(each for each in (pod.mistake, pod.remark) if each is not None)
