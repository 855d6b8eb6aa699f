"""How much work is lost with each pod: since when it has been at it unsaved, as stamps and owners say.

A pod's own annotations override its group's, and those the Job's and the JobSet's. A gang that starts
again starts from one checkpoint: of those that members name the oldest, and the longest of their restart costs; both
are then every member's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from gangsched.core.arrays import Floats, Ints
from gangsched.core.preemption.harm import share_of
from gangsched.core.state.snapshot import Snapshot
from gangsched.messages import causes
from gangsched.model.records import Pod, Stakes
from gangsched.model.times import render_duration

if TYPE_CHECKING:
    from gangsched.core.world.world import World


class Unsaved(msgspec.Struct, frozen=True, eq=False):
    """``(slots,)`` since when the work of each pod is unsaved, restart costs taken off (seconds); and its last
    checkpoint, NaN without one. It is ``always`` given, or else where owners have annotated anything.
    """

    since: Floats
    checkpoint: Floats
    always: bool = False


def unsaved(world: World, now: float, *, always: bool = False) -> Unsaved | None:
    """What owners say of all pods; None without any annotation, unless it is ``always`` given."""
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


def told(pods: Iterable[Pod], slots: Sequence[int], found: Unsaved | None, now: float) -> str:
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
        text += causes.and_last_checkpoint(render_duration(round(max(0.0, now - float(np.nanmin(known))))))
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
    return f"{amount:.1f} {unit}" if amount >= 0.05 or not amount else causes.less_than(unit)
