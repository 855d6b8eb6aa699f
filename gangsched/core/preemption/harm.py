"""The cost of an eviction: one definition, shared by the planner and its judges.

Two sets of victims are compared by, in this order: (a) pods removed beyond a disruption budget; (b) for each
unit priority from the highest down, gangs interrupted, then pods evicted; (b') the sum of the pods' costs; (b'') how
many owners lose pods; (c) work lost; (d) the victims' names.

A pod's own annotations about its work override its group's, and those the Job's and the JobSet's. A gang that starts
again starts from one checkpoint: of those that members name the oldest, and the longest of their restart costs; both
are then every member's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from gangsched.core.arrays import Floats, Ints, distinct
from gangsched.core.decision import Gap
from gangsched.core.ledger.condemned import CondemnedPod
from gangsched.core.state.podtable import STARTING, UNREADY, PodTable
from gangsched.core.state.snapshot import Snapshot
from gangsched.messages import causes
from gangsched.model.budgets import asks_budgets, desired_healthy, is_charged, is_known
from gangsched.model.constraints import Labels
from gangsched.model.records import SINGLE, Budget, Pod, Stakes
from gangsched.model.selectors import selector_matches
from gangsched.model.times import render_duration

if TYPE_CHECKING:
    from gangsched.core.world.world import World


class Budgets:
    """The budgets of the cluster, with the room that each has left.

    ``pods`` are the bound, non-terminating pods from which a budget without a status is computed. An empty
    selector selects every pod of its namespace (policy/v1).
    """

    def __init__(self, budgets: Iterable[Budget], pods: Iterable[Pod] = ()) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        self._charged: set[str] = set()  # namespaces with budgets that name pods whose eviction is under way
        for budget in sorted(budgets, key=lambda b: b.key):
            self._by_namespace.setdefault(budget.namespace, []).append(budget)
            if budget.disrupted:
                self._charged.add(budget.namespace)
        self._matches: dict[tuple[str, int], tuple[Labels, tuple[Budget, ...], tuple[str, ...]]] = {}
        unknown = {b.key for group in self._by_namespace.values() for b in group if b.allowed is None}
        self._without_status = frozenset(unknown)
        if unknown:
            self._compute(unknown, pods)
        #: When a budget allows more by then, be there a new status or not (seconds).
        self.more_at = math.inf
        self.allowed: dict[str, int] = {}
        for group in self._by_namespace.values():
            for budget in group:
                self.allowed[budget.key] = 0 if budget.outdated else budget.allowed or 0

    def _compute(self, unknown: Container[str], pods: Iterable[Pod]) -> None:
        """Give the budgets without a status the one that these pods lead to."""
        found: dict[str, list[Pod]] = {}
        for pod in pods:
            for budget in self._selecting(pod)[0]:
                if budget.key in unknown:
                    found.setdefault(budget.key, []).append(pod)
        for group in self._by_namespace.values():
            group[:] = [from_pods(b, found.get(b.key, ())) if b.key in unknown else b for b in group]
        self._matches.clear()

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def matching(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that a disruption of this pod would be charged to."""
        found = self._selecting(pod)[0]
        if pod.namespace in self._charged:
            # A pod in disruptedPods has been charged already: the API server counts it as gone.
            found = tuple(b for b in found if pod.name not in b.disrupted)
        return found if _is_healthy(pod) else tuple(b for b in found if is_charged(b, pod))

    def selecting(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that have a say in its eviction: with several of them the API server refuses it."""
        return self._selecting(pod)[0] if asks_budgets(pod) else ()

    def keys(self, pod: Pod) -> tuple[str, ...]:
        """The keys of the budgets that a disruption of this pod would be charged to."""
        if pod.namespace in self._charged or not _is_healthy(pod):
            return tuple(b.key for b in self.matching(pod))
        found = self._matches.get((pod.namespace, id(pod.labels)))
        return found[2] if found is not None else self._selecting(pod)[1]

    def by_budget(self, table: PodTable, slots: Ints) -> dict[str, Ints]:
        """Of these slots, those whose disruption each budget would be charged for, by its key; in key order."""
        kins = table.kin[slots]
        found: dict[str, list[Ints]] = {}
        for kin in distinct(kins).tolist():
            namespace, labels = table.kins[kin]
            for budget in self._matching(namespace, labels)[0]:
                mine = slots[kins == kin]
                odd = (table.flags[mine] & (STARTING | UNREADY)) != 0
                if budget.disrupted or odd.any():  # charged already, or the API server lets them go without it
                    pods = ((s, table.pods[s]) for s in mine.tolist())
                    charged = [s for s, p in pods if p is None or _is_charged(budget, p)]
                    mine = np.array(charged, dtype=np.int64)
                found.setdefault(budget.key, []).append(mine)
        return {key: np.concatenate(found[key]) for key in sorted(found)}

    def draws(self, pods: Iterable[Pod]) -> Counter[str]:
        """How many of these pods each budget would be charged for."""
        out: Counter[str] = Counter()
        for pod in pods:
            for key in self.keys(pod):
                out[key] += 1
        return out

    def _selecting(self, pod: Pod) -> tuple[tuple[Budget, ...], tuple[str, ...]]:
        return self._matching(pod.namespace, pod.labels)

    def _matching(self, namespace: str, labels: Labels) -> tuple[tuple[Budget, ...], tuple[str, ...]]:
        """The budgets of this namespace whose selector selects these labels, and their keys."""
        group = self._by_namespace.get(namespace)
        if not group:
            return (), ()
        key = (namespace, id(labels))
        found = self._matches.get(key)
        if found is None:
            matching = tuple(b for b in group if selector_matches(b.selector, labels))
            # The labels are kept so that their id stays their own.
            found = self._matches[key] = labels, matching, tuple(b.key for b in matching)
        return found[1], found[2]

    def charge(self, pods: Iterable[Pod]) -> None:
        """These pods leave: so much less is allowed from now on."""
        for key, count in self.draws(pods).items():
            self.allowed[key] -= count

    def count(self, leaving: Iterable[CondemnedPod]) -> None:
        """Charge what no status counts yet. A budget without a status does not count pods that have been seen to
        leave.
        """
        for charge in leaving:
            for key in self.keys(charge.pod):
                if key not in charge.counted and (charge.left is None or key not in self._without_status):
                    self.allowed[key] = max(0, self.allowed[key] - 1)
                    self.more_at = min(self.more_at, charge.charged_until)

    def unbreakable(self, pods: Iterable[Pod]) -> set[str]:
        """UIDs of the pods that the Eviction API refuses: those whose budget allows no disruption now, and those under
        several budgets.
        """
        out: set[str] = set()
        for pod in pods:
            if len(self.selecting(pod)) > 1 or any(self.allowed[b.key] <= 0 for b in self.matching(pod)):
                out.add(pod.uid)
        return out

    def beyond(self, victims: Sequence[Pod]) -> set[str]:
        """UIDs of the victims that go beyond a budget.

        Victims are walked by priority, highest first, then by namespace/name; one is beyond if any matching
        budget has nothing left, otherwise it takes one from each.
        """
        if not self._by_namespace:
            return set()
        left = dict(self.allowed)
        out: set[str] = set()
        for pod in sorted(victims, key=lambda p: (-p.priority, p.key)):
            keys = self.keys(pod)
            if any(left[key] <= 0 for key in keys):
                out.add(pod.uid)
                continue
            for key in keys:
                left[key] -= 1
        return out

    def exceeded(self, victims: Iterable[Pod]) -> tuple[str, ...]:
        """The budgets (namespace/name) of the victims that go beyond one, in order."""
        pods = list(victims)
        beyond = self.beyond(pods)
        return tuple(sorted({key for p in pods if p.uid in beyond for key in self.keys(p)}))


def _is_charged(budget: Budget, pod: Pod) -> bool:
    return pod.name not in budget.disrupted and is_charged(budget, pod)


def _is_healthy(pod: Pod) -> bool:
    return pod.ready and asks_budgets(pod)


def from_pods(budget: Budget, pods: Iterable[Pod]) -> Budget:
    """Return the budget with the status that these pods lead to, as if all that its controllers want ran."""
    there = list(pods)
    healthy, desired = sum(pod.ready for pod in there), desired_healthy(budget, len(there))
    allowed = max(0, healthy - desired) if is_known(budget, there) else 0
    return msgspec.structs.replace(budget, allowed=allowed, healthy=healthy, desired=desired)


class Loss(msgspec.Struct, frozen=True, gc=False):
    """One evicted pod. ``level`` is the priority it counts under: its unit's when the unit goes whole, else its own."""

    pod: Pod
    level: int


class Harm(NamedTuple):
    """Comparable: the smaller is the better choice.

    ``levels`` are (priority, gangs interrupted, pods evicted), highest priority first, only where something is
    lost; ``cost`` is what annotations of the pods say; ``owners`` is how many gangs, controllers and pods without
    either lose something; ``work`` is in share of the cluster x seconds, rounded to 1e-6
    so that the order of summation does not matter. Where victims are compared by work, ``losses`` are (priority, gangs
    interrupted, cost, work, pods evicted), costs below 0 counting as 0; else there are none.
    """

    beyond_budget: int
    losses: tuple[tuple[int, int, int, float, int], ...]
    levels: tuple[tuple[int, int, int], ...]
    cost: int
    owners: int
    work: float
    names: tuple[str, ...]


NO_HARM = Harm(0, (), (), 0, 0, 0.0, ())
#: A component of harm: ``pdb``, or ``gangs`` or ``pods`` of a priority.
Component = tuple[str, int]


def components(beyond_budget: int, levels: Iterable[tuple[int, int, int]]) -> dict[Component, int]:
    """What is not zero in (a) and (b) of a harm or of what bounds one, from what is compared first on."""
    out: dict[Component, int] = {("pdb", 0): beyond_budget}
    for priority, gangs, pods in levels:
        out["gangs", priority], out["pods", priority] = gangs, pods
    return {component: count for component, count in out.items() if count}


def place(component: Component) -> tuple[bool, int, bool]:
    """To sort components by: what is compared first."""
    kind, priority = component
    return kind != "pdb", -priority, kind == "pods"


class Floor(NamedTuple):
    """No plan does less harm: ``beyond_budget`` and ``levels`` are as in :class:`Harm`, as far as is proven."""

    beyond_budget: int
    levels: tuple[tuple[int, int, int], ...]


def gap(harm: Harm, floor: Floor) -> Gap | None:
    """How far the harm is from the floor at the first component that differs; None if none does."""
    mine, least = (components(of.beyond_budget, of.levels) for of in (harm, floor))
    for component in sorted({*mine, *least}, key=place):
        more = mine.get(component, 0) - least.get(component, 0)
        if more > 0:
            return Gap(*component, more)
        if more < 0:
            return None  # paid for by a component before, which was equal
    return None


def harm(
    losses: Sequence[Loss],
    interrupted: Iterable[int],
    budgets: Budgets,
    cluster: Mapping[str, float],
    now: float,
    since: Callable[[Pod], float] = attrgetter("started"),
    *,
    by_work: bool = False,
) -> Harm:
    """The harm of evicting these pods.

    ``interrupted`` has the unit priority of each interrupted gang, once per gang; ``cluster`` the allocatable
    amount of each resource in the whole cluster, in base units; ``since`` tells since when a pod's work is unsaved;
    ``by_work`` that work counts before the number of pods.
    """
    levels: dict[int, list[int]] = {}
    for priority in interrupted:
        levels.setdefault(priority, [0, 0])[0] += 1
    work = 0.0
    lost: dict[int, list[float]] = {}
    shares: dict[int, float] = {}  # by identity: most pods share their shape with others
    for loss in losses:
        level, pod = loss.level, loss.pod
        if level not in levels:
            levels[level] = [0, 0]
        levels[level][1] += 1
        shape = id(pod.shape)
        if shape not in shares:
            shares[shape] = share(pod, cluster)
        mine = shares[shape] * max(0.0, now - since(pod))
        work += mine
        if by_work:
            of_level = lost.setdefault(level, [0, 0.0])
            of_level[0] += max(0, pod.stakes.cost)
            of_level[1] += mine
    counts = tuple((p, gangs, pods) for p, (gangs, pods) in sorted(levels.items(), reverse=True))
    return Harm(
        len(budgets.beyond([loss.pod for loss in losses])),
        tuple(_with_work(*level, *lost.get(level[0], (0, 0.0))) for level in counts) if by_work else (),
        counts,
        sum(loss.pod.stakes.cost for loss in losses),
        len({whose(loss.pod) for loss in losses}),
        round(work, 6),
        tuple(sorted(loss.pod.key for loss in losses)),
    )


def _with_work(priority: int, gangs: int, pods: int, cost: float, work: float) -> tuple[int, int, int, float, int]:
    return priority, gangs, int(cost), round(work, 6), pods


def whose(pod: Pod) -> Hashable:
    """Return the owner of the pod: its gang, else its controller, else the pod."""
    if pod.gang.family != SINGLE:
        return pod.gang
    owner = pod.owner
    return (pod.namespace, owner.kind, owner.name, owner.uid) if owner is not None else pod.uid


def share(pod: Pod, cluster: Mapping[str, float]) -> float:
    """Share of the cluster that the pod requests."""
    return share_of(pod.shape.requests, cluster)


def share_of(requests: Sequence[tuple[str, int]], cluster: Mapping[str, float]) -> float:
    """Sum over resources of request / cluster allocatable; resources that no node has count nothing."""
    return sum(units / cluster[name] for name, units in requests if cluster.get(name))


class Unsaved(msgspec.Struct, frozen=True, eq=False):
    """``(slots,)`` since when the work of each pod is unsaved, restart costs taken off (seconds); and its last
    checkpoint, NaN without one. It is ``always`` given, or else where owners have annotated anything.
    """

    since: Floats
    checkpoint: Floats
    always: bool = False


def unsaved(world: World, now: float, *, always: bool = False) -> Unsaved | None:
    """The statements of owners about all pods; None without any annotation, unless it is ``always`` given."""
    table = world.snapshot.table
    size = table.size
    own, restart = table.checkpoint[:size], table.restart[:size]
    groups, jobs = world.membership.stakes, world.jobs.stakes
    if not groups and not jobs and np.isnan(own).all() and np.isnan(restart).all():
        return Unsaved(table.started[:size].copy(), own.copy(), always) if always else None
    gang = np.where(table.gang[:size] >= 0, table.gang[:size], len(table.gang_ids))
    said: dict[int, Stakes] = {}
    if groups:
        ids = table.gang_ids
        for number in np.flatnonzero(~table.alone[: len(ids)]).tolist():
            found = groups.get((ids[number].family, ids[number].namespace, ids[number].name))
            if found is not None:
                said[number] = found
    by_job = {n: world.jobs.stakes_of(key[:2]) for n, key in enumerate(table.job_ids)} if jobs else {}

    def nearest(mine: Floats, of: Callable[[Stakes], float | None], among: np.ufunc, none: float) -> Floats:
        of_gang = np.full(len(table.gang_ids) + 1, none)
        some = ~np.isnan(mine)
        among.at(of_gang, gang[some], mine[some])
        for number, found in said.items():
            value = of(found)
            if of_gang[number] == none and value is not None:
                of_gang[number] = value
        out = of_gang[gang]
        if by_job:
            of_job = np.full(len(table.job_ids) + 1, none)
            for number, several in by_job.items():
                of_job[number] = next((v for s in several if (v := of(s)) is not None), none)
            out = np.where(out == none, of_job[table.job[:size]], out)
        return np.where(out == none, np.nan, out)

    checkpoint = nearest(own, lambda s: s.checkpoint, np.minimum, np.inf)
    lasts = nearest(restart, lambda s: s.restart_seconds, np.maximum, -1.0)
    since = np.fmax(table.started[:size], np.minimum(checkpoint, now)) - np.nan_to_num(lasts)
    return Unsaved(since, checkpoint, always)


def work_lost(snapshot: Snapshot, cluster: Mapping[str, float], now: float, found: Unsaved | None = None) -> Floats:
    """``(slots,)`` the work that would be lost with each pod: share of the cluster x seconds."""
    table = snapshot.table
    shares = np.array([share_of(shape.requests, cluster) for shape in snapshot.shapes])
    sizes = shares[table.shape[: table.size]] if len(shares) else np.zeros(table.size)
    since = table.started[: table.size] if found is None else found.since
    return np.asarray(sizes * np.maximum(0.0, now - since))


def weights(costs: Ints, works: Floats) -> Floats:
    """``(slots,)`` what pods that are otherwise equal are compared by: their costs first, then the work lost."""
    if not len(costs) or costs.min() == costs.max():
        return works
    return np.asarray((costs - costs.min()) * (1.0 + works.sum()) + works)


def render_lost_work(pods: Iterable[Pod], slots: Sequence[int], found: Unsaved | None, now: float) -> str:
    """``3.2 GPU-hours lost, last checkpoint 12m ago`` of these pods together; empty if nothing is known of them."""
    if found is None:
        return ""
    at, pods = np.array(slots, dtype=np.int64), list(pods)
    known = found.checkpoint[at]
    started = np.array([pod.started for pod in pods])
    if not found.always and np.isnan(known).all() and (found.since[at] == started).all():
        return ""
    seconds = np.maximum(0.0, now - found.since[at])
    text = f"{_hours(pods, seconds.tolist())} lost"
    if not np.isnan(known).all():
        text += causes.and_last_checkpoint(duration=render_duration(round(max(0.0, now - float(np.nanmin(known))))))
    return text


def _hours(pods: Sequence[Pod], seconds: Sequence[float]) -> str:
    """In GPU-hours where there are GPUs, else in CPU-hours."""
    gpus = cpus = 0.0
    for pod, spent in zip(pods, seconds, strict=True):
        for name, units in pod.shape.requests:
            if name.endswith("/gpu"):
                gpus += units * spent / 3600.0
            elif name == "cpu":
                cpus += units / 1000.0 * spent / 3600.0
    amount, unit = (gpus, "GPU-hours") if gpus else (cpus, "CPU-hours")
    return f"{amount:.1f} {unit}" if amount >= 0.05 or not amount else causes.less_than(unit=unit)
