"""What an eviction costs: one definition, shared by the planner and by whatever judges it.

Two sets of victims are compared by, in this order: (a) pods removed beyond a disruption budget; (b) for each
unit priority from the highest down, gangs interrupted, then pods evicted; (b') the sum of the pods' costs; (c) work
lost; (d) the victims' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from gangsched.core.preemption.budgets import Budgets
from gangsched.model.records import Pod


class Loss(msgspec.Struct, frozen=True, gc=False):
    """One evicted pod. ``level`` is the priority it counts under: its unit's when the unit goes whole, else its own."""

    pod: Pod
    level: int


class Harm(NamedTuple):
    """Comparable: the smaller is the better choice.

    ``levels`` are (priority, gangs interrupted, pods evicted), highest priority first, only where something is
    lost; ``cost`` is what annotations of the pods say; ``work`` is in share of the cluster x seconds, rounded to 1e-6
    so that the order of summation does not matter. Where victims are compared by work, ``losses`` are (priority, gangs
    interrupted, cost, work, pods evicted), costs below 0 counting as 0; else there are none.
    """

    beyond_budget: int
    losses: tuple[tuple[int, int, int, float, int], ...]
    levels: tuple[tuple[int, int, int], ...]
    cost: int
    work: float
    names: tuple[str, ...]


NO_HARM = Harm(0, (), (), 0, 0.0, ())
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
        round(work, 6),
        tuple(sorted(loss.pod.key for loss in losses)),
    )


def _with_work(priority: int, gangs: int, pods: int, cost: float, work: float) -> tuple[int, int, int, float, int]:
    return priority, gangs, int(cost), round(work, 6), pods


def share(pod: Pod, cluster: Mapping[str, float]) -> float:
    """Share of the cluster that the pod requests."""
    return share_of(pod.shape.requests, cluster)


def share_of(requests: Sequence[tuple[str, int]], cluster: Mapping[str, float]) -> float:
    """Sum over resources of request / cluster allocatable; resources that no node has count nothing."""
    return sum(units / cluster[name] for name, units in requests if cluster.get(name))
