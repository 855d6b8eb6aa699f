"""What pods hold of quota: by the flavors that they were given, or by those of the node on which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from gangsched.core.quota.workloads import PODS, Admission, Cell
from gangsched.core.state.jobs import Jobs
from gangsched.core.state.membership import Membership
from gangsched.core.state.simulation import Phantom
from gangsched.model.queues import ClusterQueue, ResourceFlavor
from gangsched.model.records import JOB, NO_LABELS, NO_STAKES, GangId, Labels, Node, Pod, PodShape

#: ``((resource, flavor), …)`` of one pod, in name order.
Flavors = tuple[tuple[str, str], ...]


def used(shape: PodShape, flavors: Flavors) -> Iterator[tuple[Cell, int]]:
    """What a pod holds in these flavors."""
    of = dict(flavors)
    for resource, units in shape.requests:
        if resource in of and resource != PODS:
            yield (of[resource], resource), units
    if PODS in of:
        yield (of[PODS], PODS), 1


def boost_of(gangs: Iterable[GangId], pods: Iterable[Pod], membership: Membership, jobs: Jobs) -> int:
    """By how much a workload that holds quota defends itself above its priority, as annotations say: the nearest
    counts, and of several members the lowest.
    """
    pods = list(pods)
    owners = dict.fromkeys((p.namespace, p.owner.name) for p in pods if p.owner is not None and p.owner.kind == JOB)
    groups = (membership.stakes.get((g.family, g.namespace, g.name), NO_STAKES) for g in gangs)
    levels = ([p.stakes for p in pods], list(groups), *zip_longest(*map(jobs.stakes_of, owners), fillvalue=NO_STAKES))
    said = ([s.boost for s in level if s.boost is not None] for level in levels)
    return next((min(found) for found in said if found), 0)


def flavors_of_node(
    shape: PodShape, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], node: Node | None
) -> Flavors:
    """The first flavor of each resource group whose labels the node has, else its first."""
    asked = {name for name, units in shape.requests if units} | {PODS}
    labels = node.labels if node is not None else NO_LABELS
    out: list[tuple[str, str]] = []
    for group in queue.groups:
        names = [f.flavor for f in group.flavors]
        fitting = (n for n in names if n in flavors and _is_of(labels, flavors[n]))
        chosen = next(fitting, names[0])
        out += [(resource, chosen) for resource in group.resources if resource in asked]
    return tuple(sorted(out))


def _is_of(labels: Labels, flavor: ResourceFlavor) -> bool:
    return all(labels.get(key) == value for key, value in flavor.labels.items())


def holds_less(before: Admission, after: Admission) -> bool:
    """Is there anything of which others may have more now?"""
    if before.workload.queue != after.workload.queue or (after.evicted and not before.evicted):
        return True
    now = dict(after.usage)
    return any(units > now.get(cell, 0) for cell, units in before.usage)


def gave_back(before: Mapping[str, Admission | None], now: Mapping[str, Admission]) -> set[str]:
    """The queues in which those who held ``before`` (by UID) leave others more now than then. What only moves from one
    of them to another, as from a Job to the gang of its pods, is not free in between.
    """
    out, less = set[str](), dict[tuple[str, Cell], int]()
    for uid, then in before.items():
        after = now.get(uid)
        if then is not None and after is not None and after.evicted and not then.evicted:
            out.add(then.workload.queue)
        for sign, held in ((1, then), (-1, after)):
            if held is not None:
                for cell, units in held.usage:
                    key = held.workload.queue, cell
                    less[key] = less.get(key, 0) + sign * units
    return out | {queue for (queue, _), units in less.items() if units > 0}


class PodFlavors:
    """The flavors of pods, by UID: those that they were given, else those that were found for the node of each.

    ``flavors`` are those that exist, by name; ``node`` finds a node. Both change with the world.
    """

    def __init__(self, flavors: Mapping[str, ResourceFlavor], node: Callable[[str], Node | None]) -> None:
        self._existing = flavors
        self._node = node
        self._of: dict[str, tuple[Flavors, float]] = {}
        self._given: set[str] = set()
        self._gone: set[str] = set()

    def give(self, uid: str, flavors: Flavors, now: float) -> None:
        """The pod is going to run in these flavors."""
        self._of[uid] = flavors, now
        self._given.add(uid)
        self._gone.discard(uid)

    def given(self, uid: str) -> Flavors | None:
        """What the pod was given; None if that is nothing, or not known."""
        return self._of[uid][0] if uid in self._given else None

    def gone(self, uid: str) -> None:
        """The pod no longer exists. What it was given is known until :meth:`keep` says that it is not needed: it may
        have been a stand-in of a Job that goes on.
        """
        if uid in self._of:
            self._gone.add(uid)

    def keep(self, held: Iterable[Phantom]) -> None:
        """Of pods that are gone only those matter to whom room is promised."""
        if not self._gone:
            return
        promised = {place.uid for place in held}
        for uid in self._gone - promised:
            self._of.pop(uid, None)
            self._given.discard(uid)
        self._gone &= promised

    def forget_found(self) -> None:
        """What was found for nodes may be wrong: queue objects have changed."""
        for uid in [uid for uid in self._of if uid not in self._given]:
            del self._of[uid]

    def clear(self) -> None:
        """No workload needs quota any more."""
        self._of.clear()
        self._given.clear()
        self._gone.clear()

    def since(self, pod: Pod) -> float:
        """When the pod got its quota: when it was promised or bound by this process, else when it started."""
        known = self._of.get(pod.uid)
        return known[1] if known is not None and pod.uid in self._given else pod.started or pod.created

    def promised_since(self, places: Sequence[Phantom]) -> list[float]:
        """The same of members that are nominated, where it is known."""
        return [self._of[place.uid][1] for place in places if place.uid in self._of]

    def of_promised(self, uid: str, shape: PodShape, node: str, queue: ClusterQueue) -> Flavors:
        """The flavors of a member that is nominated to a node; an earlier process may have chosen them."""
        known = self._of.get(uid)
        if known is not None:
            return known[0]
        return flavors_of_node(shape, queue, self._existing, self._node(node))

    def of_pod(self, pod: Pod, queue: ClusterQueue) -> Flavors:
        """The flavors in which a pod runs: those it was given, else the first of each group that its node is of."""
        known = self._of.get(pod.uid)
        if known is not None:
            return known[0]
        node = self._node(pod.node)
        found = flavors_of_node(pod.shape, queue, self._existing, node)
        if node is not None:
            self._of[pod.uid] = found, pod.started
        return found
