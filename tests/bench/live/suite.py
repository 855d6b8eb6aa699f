"""All cells, one after another; what is measured is kept after each."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.bench.live import arrival, backlog, cells, latency
from tests.bench.live.arrival import Arrival
from tests.bench.live.candidates import ALL, KUBE, OURS, TELLING, Candidate
from tests.bench.live.cells import Cell
from tests.bench.live.planes import Planes
from tests.bench.live.report import Report
from tests.bench.publish.machine import machine
from tests.bench.publish.record import today

#: For the estimate, on the slow side: what a control plane takes, objects per second while loading, pods bound and
#: removed per second by whoever does not take until he is cut off, each with its Event.
_PLANE_SECONDS, _LOADED, _BOUND, _REMOVED = 15.0, 700.0, 500.0, 200.0


class Step(NamedTuple):
    """One measurement, and how long it takes at most, in seconds."""

    cell: Cell | Arrival
    candidate: Candidate
    seconds: float

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.cell.name}: {self.candidate.name}"


def steps(
    only: Sequence[str], candidates: Sequence[str], *, smoke: bool, limit_seconds: float, rate: float = 0.0
) -> Iterator[Step]:
    """What there is to measure, cell by cell: those whose names contain one of ``only``.

    Args:
        only: parts of names; none: all cells.
        candidates: names of candidates.
        smoke: small cells.
        limit_seconds: who is not done by then is cut off, in backlog cells.
        rate: pods per second that arrive, instead of those of the cells (0).
    """

    def wanted(name: str) -> bool:
        return not only or any(part in name for part in only)

    chosen = [candidate for candidate in ALL if candidate.name in candidates]
    for cell in filter(lambda cell: wanted(cell.name), cells.ALL):
        told = cell.smaller() if smoke else cell
        yield from (Step(told, candidate, _estimate(told, candidate, limit_seconds)) for candidate in chosen)
    if wanted(cells.TELLING.name) and OURS in candidates:
        told = cells.TELLING.smaller() if smoke else cells.TELLING
        yield from (Step(told, candidate, _estimate(told, candidate, limit_seconds)) for candidate in TELLING)
    for each in filter(lambda each: wanted(each.name), arrival.ALL):
        coming = each.smaller() if smoke else each
        coming = coming.at(rate) if rate else coming
        for candidate in sorted(chosen, key=lambda candidate: candidate.name != OURS):  # whose rate the others get
            whose = coming if candidate.name == OURS else coming.bounded()
            yield Step(whose, candidate, _coming_estimate(whose))


def _coming_estimate(coming: Arrival) -> float:
    floor = coming.seconds / 3 if coming.share else 0.0
    return _loading(coming.cell) + (coming.seconds or coming.cell.pods / coming.rate) + floor + coming.last_seconds


def _estimate(cell: Cell, candidate: Candidate, limit_seconds: float) -> float:
    running = cell.pods / _BOUND + cell.evicted / _REMOVED + 5.0 + backlog.STILL_SECONDS
    limit = min(limit_seconds, cell.limit)
    return _loading(cell) + (limit if candidate.name == KUBE else min(limit, running))


def _loading(cell: Cell) -> float:
    return _PLANE_SECONDS + (cell.nodes + cell.victims + cell.pods + 2 * cell.gangs * (cell.size > 1)) / _LOADED


def run(
    todo: Sequence[Step],
    *,
    limit_seconds: float,
    repeat: int = 1,
    at_once: int = 1,
    found: Report | None = None,
    keep: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure; what ``found`` has already is not measured again. ``keep`` gets everything after each step.

    With ``repeat`` everybody but kube-scheduler runs so many times, and the run with the median time counts; of the
    first removals their own median. ``at_once`` is how many cells share the machine, and one control plane
    after another, which is for runs whose figures say nothing. A step that fails is noted, and the others go on.
    """
    report = found or Report(machine(), [], [])
    report.failed = []
    done = {(r.cell, r.candidate) for r in (*report.backlog, *report.telling)}
    done |= {(o.cell, o.candidate) for o in report.arrival}
    left = [step for step in todo if (step.cell.name, step.candidate.name) not in done]
    if left:
        report.measured = today()
    asyncio.run(_Run(left, limit_seconds, repeat, at_once, report, keep).all())
    order = [(step.cell.name, step.candidate.name) for step in todo]
    for results in (report.backlog, report.telling):
        results.sort(key=lambda r: _place(order, r.cell, r.candidate))
    report.arrival.sort(key=lambda o: _place(order, o.cell, o.candidate))
    keep(report)
    return report


def _place(order: Sequence[tuple[str, str]], cell: str, candidate: str) -> int:
    """What this run was not asked for comes first, as it was."""
    return order.index((cell, candidate)) if (cell, candidate) in order else -1


class _Run:
    """The steps of one run, and how far it is."""

    def __init__(
        self,
        todo: Sequence[Step],
        limit_seconds: float,
        repeat: int,
        at_once: int,
        report: Report,
        keep: Callable[[Report], None],
    ) -> None:
        self._todo = todo
        self._limit_seconds = limit_seconds
        self._repeat = repeat
        self._at_once = at_once
        self._planes = Planes(again=at_once > 1)
        self._report = report
        self._keep = keep
        self._began = time.monotonic()
        self._begun = 0
        self._left = sum(step.seconds * self._times(step) for step in todo)

    async def all(self) -> None:
        """Each cell with one candidate after another, since some take over what was found with the first."""
        _say(f"{len(self._todo)} measurements, {self._minutes_left():.0f} minutes at most")
        by_cell = [list(steps) for _, steps in itertools.groupby(self._todo, key=lambda step: step.cell.name)]
        if self._at_once > 1:  # the longest first, so that all end together
            by_cell.sort(key=lambda steps: -sum(step.seconds for step in steps))
        cells_left = iter(by_cell)

        async def work() -> None:
            for steps in cells_left:
                for step in steps:
                    await self._one(step)

        async with self._planes, asyncio.TaskGroup() as workers:
            for _ in range(self._at_once):
                workers.create_task(work())

    async def _one(self, step: Step) -> None:
        self._begun += 1
        minutes = (time.monotonic() - self._began) / 60
        where = f"[{self._begun}/{len(self._todo)}, after {minutes:.1f} min, {self._minutes_left():.0f} left at most]"
        _say(f"{where} {step.name} ...")
        try:
            await self._measure(step)
        except Exception as error:  # noqa: BLE001 - hours of others are not thrown away for one
            self._report.failed.append(f"{step.name}: {type(error).__name__}: {error}")
            _say(f"    {step.name}: FAILED: {type(error).__name__}: {error}")
        self._left -= step.seconds * self._times(step)
        self._keep(self._report)

    async def _measure(self, step: Step) -> None:
        if isinstance(step.cell, Arrival):
            outcome = await latency.measure(self._beside(step, step.cell), step.candidate.name, self._planes)
            self._report.arrival.append(outcome)
            _say(f"    {step.name}: {outcome.bound}/{outcome.pods} bound, gang p99 {outcome.gang_p99} s {outcome.note}")
            return
        results = [
            await backlog.measure(step.cell, step.candidate, self._limit_seconds, self._planes)
            for _ in range(self._times(step))
        ]
        result = backlog.combined(results)
        (self._report.telling if step.cell.name == cells.TELLING.name else self._report.backlog).append(result)
        _say(f"    {step.name}: {' '.join(f'{seconds:.1f}' for seconds in result.runs)} s {result.note}")

    def _beside(self, step: Step, coming: Arrival) -> Arrival:
        """The cell of the step, at the rate at which pods came for ours in this run, if they did."""
        rates = [o.rate for o in self._report.arrival if o.cell == coming.name and o.candidate == OURS]
        return coming.at(rates[0]) if rates and step.candidate.name != OURS else coming

    def _times(self, step: Step) -> int:
        return self._repeat if isinstance(step.cell, Cell) and step.candidate.name != KUBE else 1

    def _minutes_left(self) -> float:
        return self._left / self._at_once / 60


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
