"""The flavors in which a gang is tried. Requirements of a flavor for nodes count as those of the pods, and quota limits
the further members.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gangsched.core.decision import Awaited, Flavors, QuotaUse
from gangsched.core.quota.flavors import Assignment, Mode, mismatch
from gangsched.core.quota.gang_workloads import Claim, Managed
from gangsched.core.quota.tree import Amounts, Indexed, Node
from gangsched.core.quota.workloads import PODS, PodSet, Workload, quantity
from gangsched.model.constraints import PodShape
from gangsched.model.queues import ClusterQueue, ResourceFlavor
from gangsched.model.records import GangId, Pod

#: So many shapes of pods in flavors are kept; those of pods that are long gone are among them.
MAX_SHAPES = 4096
#: The most combinations of flavors that are tried for a pod.
MAX_FORMS = 64


def in_flavors(shape: PodShape, flavors: Sequence[ResourceFlavor]) -> PodShape:
    """A shape as pods have it that are admitted in these flavors: their labels as node selector, their tolerations."""
    labels: Mapping[str, str] = {key: value for f in flavors for key, value in f.labels.items()}
    selector = tuple(sorted({**labels, **dict(shape.node_selector)}.items()))
    more = tuple(t for f in flavors for t in f.tolerations if t not in shape.tolerations)
    if selector == tuple(sorted(shape.node_selector)) and not more:
        return shape
    return msgspec.structs.replace(shape, node_selector=selector, tolerations=(*shape.tolerations, *more))


def admitted(managed: Managed, pod: Pod, flavors: Flavors) -> Pod:
    """A pod as it is when it is admitted in these flavors."""
    key = pod.shape, flavors
    known = managed.shapes
    shape = known.get(key)
    if shape is None:
        if len(known) >= MAX_SHAPES:
            known.clear()  # only a cache: a shape that is made again costs others their caches, too
        found = [managed.quota.flavors.get(name) for name in dict.fromkeys(name for _, name in flavors)]
        shape = known[key] = in_flavors(pod.shape, [f for f in found if f is not None])
    return pod if shape is pod.shape else msgspec.structs.replace(pod, shape=shape)


class Nominated:
    """Return the members of a group as nominated: in their assigned flavors, or in those of ``given`` by UID, else in
    those of the node. Without a queue they are as they are.
    """

    def __init__(self, managed: Managed, gangs: Sequence[GangId], given: Mapping[str, Flavors] = {}) -> None:
        self._managed = managed
        self._queue = managed.queue_of(gangs)
        self._given = given

    def on(self, pod: Pod, node: str) -> Pod:
        """A member on this node."""
        if self._queue is None:
            return pod
        flavors = self._given.get(pod.uid)
        if flavors is None:
            flavors = self._managed.flavors_at(self._queue, pod, node)
        return admitted(self._managed, pod, flavors)


def forms(managed: Managed, queue: ClusterQueue, pod: Pod) -> Iterator[Pod]:
    """A pod in each combination of flavors in which the queue might ever admit it, whatever is left of their quota."""
    asked = {name for name, units in pod.shape.requests if units} | {PODS}
    known = managed.quota.flavors
    choices = [
        [
            tuple((resource, f.flavor) for resource in group.resources if resource in asked)
            for f in group.flavors
            if f.flavor in known and not mismatch(known[f.flavor], pod.shape)
        ]
        for group in queue.groups
        if not asked.isdisjoint(group.resources)
    ]
    for chosen in itertools.islice(itertools.product(*choices), MAX_FORMS):
        yield admitted(managed, pod, tuple(sorted(pair for part in chosen for pair in part)))


class NoQuota:
    """The assignment of gangs that need no quota."""

    mode = Mode.FIT
    refused: Mapping[str, str] = {}
    awaited: tuple[Awaited, ...] = ()

    @staticmethod
    def member(pod: Pod) -> Pod:
        """A pending member as it is."""
        return pod

    @staticmethod
    def choose(pending: Sequence[Pod], needed: int) -> Sequence[Pod]:  # noqa: ARG004 - no certain ones are asked for
        """The members of which so many are needed."""
        return pending

    @staticmethod
    def joining(pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the further members that may join."""
        return pods

    @staticmethod
    def use(placed: Iterable[str]) -> QuotaUse | None:  # noqa: ARG004 - whoever is placed
        """None: they have no queue."""
        return None


#: For all gangs without a queue.
NO_QUOTA = NoQuota()


class QuotaAssignment:
    """An assignment of flavors to a claim.

    ``freed`` is what workloads that have to go, or to shrink, give back, each at its queue; ``awaited`` are
    terminating pods that hold quota without which there is not enough. ``refused`` says, by UID, why further members
    may not join.
    """

    def __init__(self, managed: Managed, claim: Claim, assignment: Assignment, now: float) -> None:
        self.managed = managed
        self.claim = claim
        self.assignment = assignment
        self.now = now
        self.freed: Sequence[tuple[Node, Indexed]] = ()
        self.awaited: tuple[Awaited, ...] = ()
        self.refused: dict[str, str] = {}
        self._flavors = dict(_by_shape(claim.workload.pod_sets, assignment))
        self._extra: dict[str, Flavors] = {}

    @property
    def mode(self) -> Mode:
        """The condition under which the workload can have these flavors."""
        return self.assignment.mode

    @property
    def workload(self) -> Workload:
        """The workload that asks."""
        return self.claim.workload

    @property
    def waited_for(self) -> bool:
        """True if the gang waits for quota that it is promised in these flavors."""
        given = self.managed.promised_flavors(self.workload.uid)
        return any(given.get(p.uid) == self._flavors.get(p.shape) for p in self.claim.members if p.uid in given)

    @property
    def had(self) -> Amounts:
        """Return the members for which quota is free now, cell by cell."""
        lacking = self.assignment.needing_preemption
        return tuple(each for each in self.assignment.usage if each[0] not in lacking)

    # -- requirements of flavors ---------------------------------------------------------------------------

    def member(self, pod: Pod) -> Pod:
        """A pending member with what its flavors ask of its node."""
        return admitted(self.managed, pod, self._flavors.get(pod.shape, ()))

    @staticmethod
    def choose(pending: Sequence[Pod], needed: int) -> Sequence[Pod]:
        """Quota is requested for certain members."""
        return pending[:needed]

    # -- further members -----------------------------------------------------------------------------------

    def joining(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return those of these members, in order, for which quota is left beside the required ones, each with the
        requirements of its flavors for its node. No workload is displaced for them.
        """
        quota, workload = self.managed.quota, self.workload
        if not pods or self.assignment.mode == Mode.NO_FIT:
            self.refused.update((p.uid, self.assignment.message) for p in pods)
            return []
        node = quota.tree.queues[workload.queue]
        added = [quota.tree.indexed(self.assignment.usage)]
        quota.tree.add(node, added[0])
        out = []
        for pod in pods:
            alone = msgspec.structs.replace(workload, pod_sets=(PodSet("further", 1, pod.shape),))
            found = quota.assign(alone)
            if found.mode != Mode.FIT:
                self.refused[pod.uid] = found.message
                continue
            added.append(quota.tree.indexed(found.usage))
            quota.tree.add(node, added[-1])
            self._extra[pod.uid] = dict(_by_shape(alone.pod_sets, found))[pod.shape]
            out.append(admitted(self.managed, pod, self._extra[pod.uid]))
        for amounts in added:
            quota.tree.remove(node, amounts)
        return out

    # -- results for a decision ----------------------------------------------------------------------------

    def use(self, placed: Iterable[str]) -> QuotaUse:
        """Return the quota that the members with these UIDs will hold; without any, the assumed one."""
        wanted = set(placed)
        of = {p.uid: self._flavors.get(p.shape, ()) for p in self.claim.members} | self._extra
        chosen = [flavors for uid, flavors in of.items() if uid in wanted or (not wanted and uid not in self._extra)]
        names: dict[str, list[str]] = {}
        for resource, flavor in sorted(pair for flavors in chosen for pair in flavors):
            if flavor not in names.setdefault(resource, []):
                names[resource].append(flavor)
        return QuotaUse(
            self.workload.queue,
            tuple((resource, ",".join(found)) for resource, found in sorted(names.items())),
            self._borrowed() if wanted else (),
            {uid: of[uid] for uid in sorted(wanted) if uid in of},
            self.assignment.message,
        )

    def _borrowed(self) -> tuple[tuple[str, str], ...]:
        """Return the amount that the queue borrows for the workload once its victims are gone."""
        return borrowed(self.managed, self.workload.queue, self.assignment.usage, self.freed)


def borrowed(
    managed: Managed, queue: str, usage: Amounts, freed: Iterable[tuple[Node, Indexed]] = ()
) -> tuple[tuple[str, str], ...]:
    """By resource, what a queue borrows of what ``usage`` asks for, with it and without what is ``freed`` at queues."""
    tree = managed.quota.tree
    node = tree.queues[queue]
    less: dict[int, int] = {}
    for cell, units in (amount for of, amounts in freed if of is node for amount in amounts):
        less[cell] = less.get(cell, 0) + units
    out: dict[str, int] = {}
    for (flavor, resource), units in usage:
        cell = tree.cells[flavor, resource]
        over = node.usage[cell] - less.get(cell, 0) + units - node.nominal[cell]
        if over > 0:
            out[resource] = out.get(resource, 0) + over
    return tuple((resource, quantity(resource, units)) for resource, units in sorted(out.items()))


def _by_shape(sets: Sequence[PodSet], assignment: Assignment) -> list[tuple[PodShape, Flavors]]:
    chosen = {p.name: tuple(sorted((r, c.flavor) for r, c in p.choices.items())) for p in assignment.pod_sets}
    return [(s.shape, chosen.get(s.name, ())) for s in sets]
