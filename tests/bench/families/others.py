"""What two other schedulers would evict by their published rules, with this product's filters to say what fits.

*kube-scheduler 1.36*, preemption for pod groups: every unit of lower priority leaves; if the gang then fits, units come
back one by one, those beyond a budget first, the most important first, each if the gang still fits. Gangs without
surplus are units, all other pods are single. *Koordinator 1.x*, job preemption: every pod of lower priority leaves
every node, members go to the cheapest node one after another, then each node takes back what it can; pods are single,
and budgets do not count. Both are told generously: nothing fails on the way, and the first finds every placement that
the product finds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from gangsched.core.planning.context import SchedulingContext
from gangsched.model.records import SINGLE, GangId, Pod
from tests.bench.families.known import Cluster, Levels
from tests.bench.families.reading import Reading
from tests.oracle.generate import PREEMPTOR_PRIORITY

#: Evictable pods, and members, up to which this is found out: the first rule places the gang once for each pod.
_MOST_PODS, _MOST_MEMBERS = 300, 32


class Evicted(msgspec.Struct):
    """How many pods leave, how many gangs run on below their minimum, and the harm in parts (a) and (b)."""

    victims: int
    broken: int
    beyond: int
    levels: Levels


Rule = Callable[[Reading, SchedulingContext], "Evicted | None"]


def small_enough(cluster: Cluster) -> bool:
    """Is it quick to find out for this cluster? Quota has rules of its own."""
    members = sum(not p.node for p in cluster.pods)
    pods = sum(p.priority < PREEMPTOR_PRIORITY and bool(p.node) for p in cluster.pods)
    return members <= _MOST_MEMBERS and pods <= _MOST_PODS and not cluster.victims


def fits(attempt: SchedulingContext, gone: Iterable[str]) -> bool:
    """Do the members fit once these pods (UIDs) are gone? Asked of the product's placement, with all filters."""
    slot_of = attempt.world.snapshot.table.slot_of
    slots = np.array(sorted({*attempt.terminating().tolist(), *(slot_of[uid] for uid in gone)}), dtype=np.int64)
    return attempt.fit(slots) is not None


def kube_scheduler(reading: Reading, attempt: SchedulingContext) -> Evicted | None:
    """The victims of kube-scheduler 1.36, None when it finds none."""
    groups: dict[object, list[Pod]] = defaultdict(list)
    for pod in reading.running.values():
        rigid = pod.gang.family != SINGLE and not reading.surplus(pod.gang)
        groups[pod.gang if rigid else pod.uid].append(pod)
    units = [g for g in groups.values() if all(p.priority < PREEMPTOR_PRIORITY and not p.static for p in g)]
    units.sort(key=lambda g: (-max(p.priority for p in g), len(g) == 1, -len(g), min(p.started for p in g), g[0].key))
    gone = {p.uid for g in units for p in g}
    if not fits(attempt, gone):
        return None
    beyond = reading.budgets.beyond([p for g in units for p in g])
    for unit in sorted(units, key=lambda g: not any(p.uid in beyond for p in g)):
        without = gone.difference(p.uid for p in unit)
        if fits(attempt, without):
            gone = without
    return _evicted(reading, gone)


def koordinator(reading: Reading, attempt: SchedulingContext) -> Evicted | None:
    """The victims of Koordinator's job preemption, None when it finds none."""
    by_node: dict[str, list[Pod]] = defaultdict(list)
    staying: dict[str, list[Pod]] = defaultdict(list)
    for pod in reading.running.values():
        lower = pod.priority < PREEMPTOR_PRIORITY and not pod.static
        (by_node if lower else staying)[pod.node].append(pod)
    snapshot = attempt.world.snapshot
    sim = attempt.simulation()
    slots = [snapshot.table.slot_of[p.uid] for pods in by_node.values() for p in pods]
    sim.lift_all(np.array(sorted(slots), dtype=np.int64))
    rank = {p: n for n, p in enumerate(sorted({p.priority for pods in by_node.values() for p in pods}))}
    cost = np.zeros(snapshot.size)
    for name, pods in by_node.items():
        jobs: dict[GangId, int] = {}
        for pod in sorted(pods, key=lambda p: p.name):
            jobs.setdefault(pod.gang, rank[pod.priority])
        cost[snapshot.row_of[name]] = sum(jobs.values())
    pipeline = attempt.placer.pipeline
    used: dict[str, list[Pod]] = defaultdict(list)
    for member in sorted(reading.members, key=lambda p: p.name):
        found = snapshot.class_of(member)
        mask = pipeline.mask(found, sim)
        if not mask.any():
            return None
        row = int(np.where(mask, cost, np.inf).argmin())
        sim.place(found, row)
        used[snapshot.nodes[row].name].append(member)
    if any(key for g in reading.cluster.gangs if g.name == "want" for key, _ in g.topology):
        return None  # it plans topology by rules of its own
    gone: set[str] = set()
    for name, members in used.items():
        here = [*staying[name], *members]
        for pod in sorted(by_node[name], key=lambda p: (-p.priority, p.gang.key, p.name)):
            if reading.crowded(name, [*here, pod]):
                gone.add(pod.uid)
            else:
                here.append(pod)
    return _evicted(reading, gone)


def _evicted(reading: Reading, gone: set[str]) -> Evicted:
    """A gang is left broken if it goes on with fewer members than it needs, and did not before."""
    lost: dict[GangId, int] = defaultdict(int)
    for uid in gone:
        lost[reading.running[uid].gang] += 1
    broken = 0
    for gang, count in lost.items():
        if gang.family != SINGLE and count < len(reading.bound[gang]):
            broken += count > reading.surplus(gang)
    harm = reading.harm(gone)
    return Evicted(len(gone), broken, harm.beyond_budget, harm.levels)


RULES: dict[str, Rule] = {"kube-scheduler": kube_scheduler, "koordinator": koordinator}
