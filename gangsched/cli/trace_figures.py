"""What a played trace shows in a few numbers: waits, how full the GPUs were, and what evictions cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import mean, quantiles
from typing import Any

import msgspec

from gangsched.cluster.manifests.traces import GPU, GPU_MILLI
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import History
from gangsched.model.records import Node, Pod


class Waits(msgspec.Struct, frozen=True, rename="camel"):
    """Seconds from the arrival of a job to the first binding of the last of its pods, over the jobs of a priority."""

    jobs: int
    never_started: int
    mean_seconds: float
    median_seconds: float
    p95_seconds: float


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """A whole trace. ``gpu_allocation`` is the share of all GPUs that pods had from the first arrival to the last;
    ``gpu_hours_lost`` is what evicted pods had computed, and ``gpu_hours_done`` what finished ones had. Rounded.
    """

    jobs: int
    makespan_seconds: float
    waits: Mapping[str, Waits]
    gpu_allocation: float
    evicted_pods: int
    interrupted_jobs: int
    gpu_hours_lost: float
    gpu_hours_done: float

    def fields(self) -> dict[str, Any]:
        """In the words of the contract."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


class _Life(msgspec.Struct):
    """One pod, from its creation to its end."""

    pod: Pod
    arrived: float
    replaces: bool
    bound: float | None = None
    ran: float | None = None
    ended: float | None = None
    done: bool = False
    evicted: bool = False

    @property
    def gpus(self) -> float:
        return gpus_of(dict(self.pod.shape.requests))

    @property
    def gpu_hours(self) -> float:
        """Computed so far, 0 without an end."""
        return 0.0 if self.ran is None or self.ended is None else (self.ended - self.ran) * self.gpus / 3600


def gpus_of(amounts: Mapping[str, int]) -> float:
    """GPUs in amounts of resources in base units."""
    return amounts.get(GPU, 0) + amounts.get(GPU_MILLI, 0) / 1000


def figures_of(history: History) -> Figures:
    """The figures of all Jobs of a finished run."""
    lives, capacity = _lives(history), 0.0
    for entry in history:
        if isinstance(entry.record, Node) and entry.verb == log.EXISTS:
            capacity += gpus_of(dict(entry.record.allocatable))
    jobs: dict[str, list[_Life]] = defaultdict(list)
    for life in lives.values():
        jobs[_job_of(life.pod)].append(life)
    by_priority: dict[int, list[float | None]] = defaultdict(list)
    for pods in jobs.values():
        first = [each for each in pods if not each.replaces]
        bound = [each.bound for each in first if each.bound is not None]
        waited = max(bound) - first[0].arrived if len(bound) == len(first) else None
        by_priority[first[0].pod.priority].append(waited)
    arrivals = [life.arrived for life in lives.values() if not life.replaces]
    begin, end = min(arrivals, default=0.0), max(arrivals, default=0.0)
    held = sum(life.gpus * _overlap(life, begin, end) for life in lives.values())
    evicted = [life for life in lives.values() if life.evicted]
    last = max((life.ended for life in lives.values() if life.ended is not None), default=0.0)
    return Figures(
        jobs=len(jobs),
        makespan_seconds=round(last - begin, 3),
        waits={str(priority): _waits(all_) for priority, all_ in sorted(by_priority.items(), reverse=True)},
        gpu_allocation=round(held / (capacity * (end - begin)), 4) if capacity and end > begin else 0.0,
        evicted_pods=len(evicted),
        interrupted_jobs=len({_job_of(life.pod) for life in evicted}),
        gpu_hours_lost=round(sum(life.gpu_hours for life in evicted), 3),
        gpu_hours_done=round(sum(life.gpu_hours for life in lives.values() if life.done), 3),
    )


def _lives(history: History) -> dict[str, _Life]:
    """All pods of Jobs by UID. Pods of a Job that come after others of it have ended replace those."""
    lives: dict[str, _Life] = {}
    arrived: dict[str, float] = {}
    for entry in history:
        if entry.kind != "Pod" or not entry.changed or entry.verb == log.EVENT:
            continue
        pod, life = entry.record, lives.get(entry.uid)
        if life is None:
            if isinstance(pod, Pod) and pod.owner is not None:
                first = arrived.setdefault(_job_of(pod), entry.at_seconds)
                lives[pod.uid] = _Life(pod, entry.at_seconds, replaces=entry.at_seconds > first)
            continue
        if life.ended is not None:
            continue
        if isinstance(pod, Pod):
            life.pod = pod
            life.bound = entry.at_seconds if pod.node and life.bound is None else life.bound
            life.ran = entry.at_seconds if pod.phase == "Running" and life.ran is None else life.ran
        if pod is None or pod.finished:
            life.ended = entry.at_seconds
            life.done = pod is not None and pod.phase == "Succeeded"
            life.evicted = not life.done and life.pod.disruption_target and life.bound is not None
    return lives


def _job_of(pod: Pod) -> str:
    return pod.owner.uid if pod.owner is not None else pod.uid


def _overlap(life: _Life, begin: float, end: float) -> float:
    """The seconds from ``begin`` to ``end`` in which the pod had its room."""
    if life.bound is None:
        return 0.0
    return max(0.0, min(end, end if life.ended is None else life.ended) - max(begin, life.bound))


def _waits(all_: list[float | None]) -> Waits:
    known = sorted(each for each in all_ if each is not None)
    cuts = quantiles(known, n=20, method="inclusive") if len(known) > 1 else [*known, 0.0] * 19
    times = (mean(known) if known else 0.0, cuts[9], cuts[18])
    return Waits(len(all_), len(all_) - len(known), *(round(seconds, 3) for seconds in times))
