"""All cells, one after another; what is measured is kept after each."""

from __future__ import annotations

import asyncio
import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.bench.live import arrival, backlog, cells
from tests.bench.live.arrival import Arrival
from tests.bench.live.candidates import ALL, FLOOR, KUBE, OURS, TELLING, Candidate, compiled
from tests.bench.live.cells import Cell
from tests.bench.live.machine import machine
from tests.bench.live.report import Report

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
        for candidate in chosen:
            if candidate.name != FLOOR:
                whose = coming if candidate.name == OURS else coming.bounded()
                yield Step(whose, candidate, _coming_estimate(whose))


def _coming_estimate(coming: Arrival) -> float:
    floor = coming.seconds / 3 if coming.share else 0.0
    return _loading(coming.cell) + (coming.seconds or coming.cell.pods / coming.rate) + floor + coming.last_seconds


def _estimate(cell: Cell, candidate: Candidate, limit_seconds: float) -> float:
    running = cell.pods / _BOUND + cell.evicted / _REMOVED + 5.0 + backlog.STILL_SECONDS
    return _loading(cell) + (limit_seconds if candidate.name == KUBE else min(limit_seconds, running))


def _loading(cell: Cell) -> float:
    victims = cell.nodes * cell.victims_per_node
    return _PLANE_SECONDS + (cell.nodes + victims + cell.pods + 2 * cell.gangs * (cell.size > 1)) / _LOADED


def run(
    todo: Sequence[Step],
    *,
    limit_seconds: float,
    repeat: int = 1,
    found: Report | None = None,
    keep: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure; what ``found`` has already is not measured again. ``keep`` gets everything after each step.

    With ``repeat`` everybody but kube-scheduler runs so many times, and the run with the median time counts; of the
    first removals their own median. A step that fails is noted, and the others go on.
    """
    compiled()
    report = found or Report(machine(), [], [])
    report.failed = []
    done = {(r.cell, r.candidate) for r in (*report.backlog, *report.telling)}
    done |= {(o.cell, o.candidate) for o in report.arrival}
    todo = [step for step in todo if (step.cell.name, step.candidate.name) not in done]
    if todo:
        report.measured = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    times = [_times(step, repeat) for step in todo]
    left = sum(step.seconds * n for step, n in zip(todo, times, strict=True))
    _say(f"{len(todo)} measurements, {left / 60:.0f} minutes at most")
    began = time.monotonic()
    for number, (step, many) in enumerate(zip(todo, times, strict=True), 1):
        minutes = (time.monotonic() - began) / 60
        _say(f"[{number}/{len(todo)}, after {minutes:.1f} min, {left / 60:.0f} left at most] {step.name} ...")
        try:
            _measure(step, many, limit_seconds, report)
        except Exception as error:  # noqa: BLE001 - hours of others are not thrown away for one
            report.failed.append(f"{step.name}: {type(error).__name__}: {error}")
            _say(f"    FAILED: {type(error).__name__}: {error}")
        left -= step.seconds * many
        keep(report)
    return report


def _times(step: Step, repeat: int) -> int:
    return repeat if isinstance(step.cell, Cell) and step.candidate.name != KUBE else 1


def _measure(step: Step, many: int, limit_seconds: float, report: Report) -> None:
    if isinstance(step.cell, Arrival):
        outcome = asyncio.run(arrival.measure(_beside(step, report), step.candidate.name))
        report.arrival.append(outcome)
        _say(f"    {outcome.bound}/{outcome.pods} bound, gang p99 {outcome.gang_p99} s {outcome.note}")
        return
    results = [asyncio.run(backlog.measure(step.cell, step.candidate, limit_seconds)) for _ in range(many)]
    result = backlog.combined(results)
    (report.telling if step.cell.name == cells.TELLING.name else report.backlog).append(result)
    _say(f"    {' '.join(f'{seconds:.1f}' for seconds in result.runs)} s {result.note}")


def _beside(step: Step, report: Report) -> Arrival:
    """The cell of the step, at the rate at which pods came for ours in this run, if they did."""
    assert isinstance(step.cell, Arrival)
    rates = [o.rate for o in report.arrival if o.cell == step.cell.name and o.candidate == OURS]
    return step.cell.at(rates[0]) if rates and step.candidate.name != OURS else step.cell


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
