"""Flavors: which one each resource of a workload gets, and at what price; and those in which pods hold quota.

Rules: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavorfungibility . Pod set by pod set and group by group
the flavors are walked in the queue's order. A flavor is as good as the worst of its resources. The walk stops at the
first that is good enough for the queue's ``flavorFungibility``; otherwise the best one seen is taken.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

import msgspec

from gangsched.core.decision import Flavors
from gangsched.core.plugins.node import tolerates
from gangsched.core.quota.tree import Amounts, Cell, Tree, lowest_fitting
from gangsched.core.quota.workloads import PODS, Admission, PodSet, Workload, quantity
from gangsched.core.state.jobs import Jobs
from gangsched.core.state.membership import Membership
from gangsched.core.state.simulation import Phantom
from gangsched.messages import causes
from gangsched.model.constraints import NO_LABELS, Labels, PodShape
from gangsched.model.queues import (
    MAY_STOP,
    NEVER,
    PREEMPTION_FIRST,
    TRY_NEXT,
    ClusterQueue,
    Fungibility,
    ResourceFlavor,
    ResourceGroup,
)
from gangsched.model.records import JOB, NO_STAKES, GangId, Node, Pod
from gangsched.model.selectors import requirement_matches


class Mode(enum.IntEnum):
    """The conditions under which a flavor is available, the worst first.

    ``NO_CANDIDATES``: quota would have to be freed, and no workload may be evicted. ``PREEMPT``: a workload of the own
    queue is evicted. ``RECLAIM``: only workloads of other queues have to.
    """

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def needs_preemption(self) -> bool:
        """Neither free nor out of reach."""
        return self not in (Mode.NO_FIT, Mode.FIT)

    @property
    def out_of_reach(self) -> bool:
        """True if even evictions would not give it."""
        return self <= Mode.NO_CANDIDATES


#: ``(pod set, resource, flavor)``: the flavor of a resource of a pod set.
Chosen = tuple[str, str, str]

#: ``oracle(cell number, units) -> (mode, level)``: what preemption could do for one resource in one flavor.
Oracle = Callable[[int, int], tuple[Mode, int]]


class FlavorChoice(msgspec.Struct, frozen=True):
    """The flavor of one resource; ``level`` is how far away its quota is (0: the queue's own)."""

    flavor: str
    mode: Mode
    level: int


class Shortage(msgspec.Struct, frozen=True):
    """A flavor with too little quota of a resource: of what is ``asked`` it has so much ``left`` now, and
    would have at ``most`` if no workload held any.
    """

    flavor: str
    resource: str
    asked: int
    left: int
    most: int

    @property
    def lasts(self) -> bool:
        """Return whether even an empty queue would not have it."""
        return self.asked > self.most


class PodSetFlavors(msgspec.Struct, frozen=True):
    """Flavors of one pod set by resource; empty when there are none. ``problems`` say why not, or not yet, and
    ``shortages`` which of them are of quota.
    """

    name: str
    choices: Mapping[str, FlavorChoice]
    problems: tuple[str, ...] = ()
    shortages: tuple[Shortage, ...] = ()


class Assignment(msgspec.Struct, frozen=True):
    """Flavors for a whole workload.

    ``mode`` is the worst of all; ``level`` the farthest quota that is borrowed; ``usage`` what the workload will hold.
    ``message`` says why not, in Kueue's words. ``resume`` says, by pod set and resource, after which flavor the next
    attempt should begin, where flavors are left to try.
    """

    mode: Mode
    level: int
    pod_sets: tuple[PodSetFlavors, ...]
    usage: Amounts
    message: str = ""
    resume: Mapping[tuple[str, str], int] = {}

    @property
    def chosen(self) -> frozenset[Chosen]:
        """The flavors of all resources."""
        return frozenset((ps.name, resource, c.flavor) for ps in self.pod_sets for resource, c in ps.choices.items())

    @property
    def needing_preemption(self) -> tuple[tuple[str, str], ...]:
        """The cells for which quota has to be freed."""
        out = {(c.flavor, r) for ps in self.pod_sets for r, c in ps.choices.items() if c.mode.needs_preemption}
        return tuple(sorted(out))


def mismatch(flavor: ResourceFlavor, shape: PodShape) -> str:
    """Why pods of this shape cannot run in the flavor; empty if they can.

    Taints are tolerated by the pod or by the flavor itself. Of selectors and affinity only the keys that the flavor
    labels are compared: what else the pod asks of its node the flavor does not know.
    """
    for taint in flavor.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not (
            tolerates(shape.tolerations, taint) or tolerates(flavor.tolerations, taint)
        ):
            return causes.flavor_taint(taint=taint.key, value=taint.value, effect=taint.effect, flavor=flavor.name)
    labels = flavor.labels
    if any(labels.get(key, value) != value for key, value in shape.node_selector):
        return causes.flavor_affinity(flavor=flavor.name)
    terms = [[e for e in term.expressions if e.key in labels] for term in shape.node_terms or ()]
    # Terms are alternatives: one that says nothing about the flavor's keys admits it.
    if terms and all(terms) and not any(all(requirement_matches(e, labels) for e in term) for term in terms):
        return causes.flavor_affinity(flavor=flavor.name)
    return ""


def better(one: tuple[Mode, int], other: tuple[Mode, int], fungibility: Fungibility) -> bool:
    """Return True if (mode, level) ``one`` is preferred to ``other``. Flavors that cannot be had now are never
    preferred to others.
    """
    (mode, level), (other_mode, other_level) = one, other
    if Mode.NO_FIT in (mode, other_mode):
        return mode != Mode.NO_FIT
    if (mode == Mode.NO_CANDIDATES) != (other_mode == Mode.NO_CANDIDATES):
        return other_mode == Mode.NO_CANDIDATES
    if fungibility.preference == PREEMPTION_FIRST:
        return (-level, mode) > (-other_level, other_mode)
    return (mode, -level) > (other_mode, -other_level)


class _Found(msgspec.Struct):
    """The flavor search of one group. ``tried`` is the number of the last flavor that was looked at."""

    choices: dict[str, FlavorChoice]
    problems: list[str]
    shortages: list[Shortage]
    tried: int = -1


class FlavorAssigner:
    """Finds flavors in the present state of ``tree``; see :meth:`gangsched.core.quota.quota.Quota.assign`."""

    def __init__(
        self,
        tree: Tree,
        queue: ClusterQueue,
        flavors: Mapping[str, ResourceFlavor],
        oracle: Oracle,
        fair_sharing: bool,
        resume: Mapping[tuple[str, str], int],
        passed: Collection[Chosen],
    ) -> None:
        self.tree = tree
        self.queue = queue
        self.node = tree.queues[queue.name]
        self.flavors = flavors
        self.oracle = oracle
        self.resume = resume
        self.passed = passed
        policy = queue.preemption
        # A workload that borrows may displace others only under these settings.
        self.displaces_while_borrowing = policy.borrow != NEVER or (fair_sharing and policy.reclaim != NEVER)
        self.group_of = {r: g for g in queue.groups for r in g.resources}
        self.covered = dict.fromkeys(self.group_of, 0)
        self.usage: dict[tuple[str, str], int] = {}
        self.left: dict[tuple[str, str], int] = {}

    def run(self, workload: Workload) -> Assignment:
        """Flavors for a whole workload, and at what price."""
        out: list[PodSetFlavors] = []
        mode, level = Mode.FIT, 0
        for pod_set in workload.pod_sets:
            found, fits = self._pod_set(pod_set)
            out.append(found)
            if not fits:
                mode, level = Mode.NO_FIT, 0
                break
            for resource, choice in found.choices.items():
                mode, level = min(mode, choice.mode), max(level, choice.level)
                cell = (choice.flavor, resource)
                self.usage[cell] = self.usage.get(cell, 0) + pod_set.requests(self.covered)[resource]
        message = "; ".join(
            causes.no_flavors_for_pod_set(pod_set=p.name, names=", ".join(sorted(p.problems)))
            for p in out
            if p.problems
        )
        usage = tuple(sorted((cell, units) for cell, units in self.usage.items() if units))
        return Assignment(mode, level, tuple(out), usage, message, self.left)

    def _pod_set(self, pod_set: PodSet) -> tuple[PodSetFlavors, bool]:
        """The flavors of one pod set, and whether it has one for each resource that it asks for."""
        requests = pod_set.requests(self.covered)
        choices: dict[str, FlavorChoice] = {}
        problems: list[str] = []
        shortages: list[Shortage] = []
        for resource, units in requests.items():
            group = self.group_of.get(resource)
            if resource in choices or (group is None and not units):
                continue
            if group is None and self.queue.foreign:
                continue
            if group is None:
                text = causes.resource_not_in_queue(resource=resource)
                return PodSetFlavors(pod_set.name, {}, (text,)), False
            found = self._group(pod_set, group, {r: requests[r] for r in sorted(group.resources) if r in requests})
            problems += found.problems
            shortages += found.shortages
            if not found.choices:
                return PodSetFlavors(pod_set.name, {}, tuple(found.problems), tuple(found.shortages)), False
            choices.update(found.choices)
            if 0 <= found.tried < len(group.flavors) - 1:
                self.left.update({(pod_set.name, r): found.tried for r in found.choices})
        return PodSetFlavors(pod_set.name, choices, tuple(problems), tuple(shortages)), True

    def _group(self, pod_set: PodSet, group: ResourceGroup, requests: Mapping[str, int]) -> _Found:
        """The flavor of one group's resources for one pod set."""
        found = _Found({}, [], [])
        best = (Mode.NO_FIT, 0)
        what = (pod_set.name, next(iter(requests)))
        for i in range(self.resume.get(what, -1) + 1, len(group.flavors)):
            name = group.flavors[i].flavor
            found.tried = i
            if (*what, name) in self.passed:
                continue
            flavor = self.flavors.get(name)
            problem = causes.not_found(kind="flavor", name=name) if flavor is None else mismatch(flavor, pod_set.shape)
            if problem:
                found.problems.append(problem)
                continue
            worst, choices = self._flavor(name, requests, found)
            if worst[0] == Mode.NO_FIT:
                continue
            if better(worst, best, self.queue.fungibility):
                best, found.choices = worst, choices
            if not _look_further(worst, self.queue.fungibility):
                best, found.choices = worst, choices
                break
        # Not "the worst is FIT": by preference a resource that borrows counts as worse than one that preempts.
        if found.choices and all(c.mode == Mode.FIT for c in found.choices.values()):
            found.problems, found.shortages = [], []
        return found

    def _flavor(
        self, name: str, requests: Mapping[str, int], found: _Found
    ) -> tuple[tuple[Mode, int], dict[str, FlavorChoice]]:
        """The worst (mode, level) of the resources in one flavor, and the choice for each."""
        worst = (Mode.FIT, 0)
        choices: dict[str, FlavorChoice] = {}
        for resource, units in requests.items():
            mode, level, problem = self._cell(name, resource, units, found.shortages)
            if problem:
                found.problems.append(problem)
            if better(worst, (mode, level), self.queue.fungibility):
                worst = (mode, level)
            if mode == Mode.NO_FIT:
                return worst, {}
            choices[resource] = FlavorChoice(name, mode, level)
        return worst, choices

    def _cell(self, flavor: str, resource: str, units: int, shortages: list[Shortage]) -> tuple[Mode, int, str]:
        """``(mode, level, problem)`` of one resource in one flavor; a problem is noted among the ``shortages``."""
        node, cell = self.node, self.tree.cells[flavor, resource]
        before = self.usage.get((flavor, resource), 0)
        wanted = before + units
        if wanted > node.potential[cell]:
            shortages.append(Shortage(flavor, resource, wanted, max(0, node.available(cell)), node.potential[cell]))
            text = causes.quota_insufficient(
                resource=resource,
                flavor=flavor,
                before=quantity(resource, before),
                requested=quantity(resource, units),
                most=quantity(resource, node.potential[cell]),
            )
            return Mode.NO_FIT, 0, text
        level, more_above = lowest_fitting(node, cell, wanted)
        room = max(0, node.available(cell))
        if wanted <= room:
            return Mode.FIT, level, ""
        shortages.append(Shortage(flavor, resource, wanted, room, node.potential[cell]))
        missing = quantity(resource, wanted - room)
        text = causes.unused_quota_insufficient(resource=resource, flavor=flavor, missing=missing)
        if wanted <= node.nominal[cell] or more_above or self.displaces_while_borrowing:
            mode, level = self.oracle(cell, wanted)
            return mode, level, text
        return Mode.NO_FIT, level, text


def _look_further(found: tuple[Mode, int], fungibility: Fungibility) -> bool:
    """Return True if the next flavor is tried although this one can be had."""
    mode, level = found
    if mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
        return True
    if mode != Mode.FIT and fungibility.when_can_preempt == TRY_NEXT:
        return True
    return level > 0 and fungibility.when_can_borrow != MAY_STOP


def used_by(pods: Iterable[tuple[PodShape, Flavors]]) -> Amounts:
    """Return the quota that pods of these shapes hold together, each in its flavors."""
    out: dict[Cell, int] = {}
    for shape, flavors in pods:
        of, requests = dict(flavors), dict(shape.requests)
        requests[PODS] = 0 if shape.is_part else 1
        for resource, units in requests.items():
            if units and resource in of:
                cell = of[resource], resource
                out[cell] = out.get(cell, 0) + units
    return tuple(sorted(out.items()))


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


def gave_back(before: Mapping[str, Admission | None], now: Mapping[str, Admission]) -> set[str]:
    """The queues in which those who held ``before`` (by UID) leave others more now than then. Quota that moves from one
    of them to another, as from a Job to the gang of its pods, is not free in between.
    """
    out, less = set[str](), dict[tuple[str, Cell], int]()
    for uid, then in before.items():
        after = now.get(uid)
        if then is not None and after is not None:
            left = dict(then.gives_back)
            if any(units > left.get(cell, 0) for cell, units in after.gives_back):
                out.add(then.workload.queue)
        for sign, held in ((1, then), (-1, after)):
            if held is not None:
                for cell, units in held.usage:
                    key = held.workload.queue, cell
                    less[key] = less.get(key, 0) + sign * units
    return out | {queue for (queue, _), units in less.items() if units > 0}


class PodFlavors:
    """The flavors of pods, by UID: those that they were given, as the ledger has it, else those that were found for the
    node of each.

    ``flavors`` are those that exist, by name; ``node`` finds a node; ``given`` is kept in the ledger. They change with
    the world.
    """

    def __init__(
        self,
        flavors: Mapping[str, ResourceFlavor],
        node: Callable[[str], Node | None],
        given: dict[str, tuple[Flavors, float]],
    ) -> None:
        self._existing = flavors
        self._node = node
        self._given = given
        self._found: dict[str, tuple[Flavors, float]] = {}
        self._gone: set[str] = set()

    def give(self, uid: str, flavors: Flavors, now: float) -> None:
        """The pod is going to run in these flavors."""
        self._given[uid] = flavors, now
        self._gone.discard(uid)

    def given(self, uid: str) -> Flavors | None:
        """The flavors of the pod; None if that is nothing, or not known."""
        return self._given[uid][0] if uid in self._given else None

    def _known(self, uid: str) -> tuple[Flavors, float] | None:
        return self._given.get(uid) or self._found.get(uid)

    def pod_gone(self, uid: str) -> None:
        """The pod no longer exists. What it was given is known until :meth:`keep` says that it is not needed: it may
        have been an expected member of a Job that goes on.
        """
        if self._known(uid) is not None:
            self._gone.add(uid)

    def keep(self, held: Iterable[Phantom]) -> None:
        """Of pods that are gone only those matter to whom room is promised."""
        if not self._gone:
            return
        promised = {place.uid for place in held}
        for uid in self._gone - promised:
            self._given.pop(uid, None)
            self._found.pop(uid, None)
        self._gone &= promised

    def forget_found(self) -> None:
        """Cached results for nodes are dropped, because queue objects have changed."""
        self._found.clear()

    def clear(self) -> None:
        """No workload needs quota any more."""
        self._given.clear()
        self._found.clear()
        self._gone.clear()

    def since(self, pod: Pod) -> float:
        """When the pod got its quota: when it was promised or bound by this process, else when it started."""
        known = self._given.get(pod.uid)
        return known[1] if known is not None else pod.started or pod.created

    def promised_since(self, places: Sequence[Phantom]) -> list[float]:
        """The same of members that are nominated, where it is known."""
        return [known[1] for place in places if (known := self._known(place.uid)) is not None]

    def of_promised(self, uid: str, shape: PodShape, node: str, queue: ClusterQueue) -> Flavors:
        """The flavors of a member that is nominated to a node; an earlier process may have chosen them."""
        known = self._known(uid)
        if known is not None:
            return known[0]
        return flavors_of_node(shape, queue, self._existing, self._node(node))

    def of_pod(self, pod: Pod, queue: ClusterQueue) -> Flavors:
        """The flavors in which a pod runs: those it was given, else the first of each group that its node is of."""
        known = self._known(pod.uid)
        if known is not None:
            return known[0]
        node = self._node(pod.node)
        found = flavors_of_node(pod.shape, queue, self._existing, node)
        if node is not None:
            self._found[pod.uid] = found, pod.started
        return found
