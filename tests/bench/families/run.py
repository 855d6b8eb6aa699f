"""The run: clusters of all families judged by several processes."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence

import msgspec

from gangsched.runtime.memory import raise_thresholds
from tests.bench.families import catalogue
from tests.bench.families.judge import Finding, judge
from tests.bench.families.site import FULL, QUICK, SMALL, Size

SIZES = {"full": FULL, "quick": QUICK, "small": SMALL}


class Task(msgspec.Struct, frozen=True):
    """One cluster to be judged: a name in :data:`SIZES`, and steps after which the search is cut off."""

    family: str
    seed: int
    size: str
    cuts: tuple[int, ...]


def one(task: Task) -> Finding:
    """Generate and judge."""
    size: Size = SIZES[task.size]
    return judge(task.family, task.seed, catalogue.cluster(task.family, task.seed, size), task.cuts)


def tasks(families: Sequence[str], seeds: Sequence[int], size: str, cuts: Sequence[int]) -> list[Task]:
    """All clusters, families in turn, so that a run that is stopped has seen something of each."""
    return [Task(family, seed, size, tuple(cuts)) for seed in seeds for family in families]


def judged(todo: Sequence[Task], jobs: int) -> Iterator[Finding]:
    """The findings, as they come."""
    if jobs <= 1:
        restore = raise_thresholds()
        try:
            yield from map(one, todo)
        finally:
            restore()
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_begin) as pool:
        yield from pool.imap_unordered(one, todo)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends the others, and tells what they have found
    raise_thresholds()


def seconds_since(start: float) -> str:
    """For people."""
    return f"{time.perf_counter() - start:.0f} s"
