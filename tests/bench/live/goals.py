"""What the whole process has to reach in each cell, in multiples of what was measured beside it in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.live import arrival, cells
from tests.bench.live.backlog import Result
from tests.bench.live.candidates import FLOOR, KUBE, OURS
from tests.bench.live.outcome import Outcome
from tests.bench.live.report import Report
from tests.bench.publish.tables import table

#: Memory and latency have grown when the last window of a run has so many times what is usual in it.
GROWTH_RSS, GROWTH_LATENCY = 1.1, 1.5


class Wanted(NamedTuple):
    """Of one backlog cell: ``floor`` is the longest time in multiples of the floor's, ``kube`` the least that
    kube-scheduler's time is in multiples of ours; ``evicted`` how many pods may go; seconds, and MB.
    """

    floor: float | None = None
    kube: float | None = None
    first_removal: float | None = None
    rss_mb: float | None = None
    evicted: int | None = None


class Goal(NamedTuple):
    """One line: of which cell, what shall be how, how it is; ``met`` is None where something was not measured."""

    cell: str
    what: str
    measured: str
    met: bool | None


_NO_SLOWER = 1.0
_SINGLE, _SMALL, _MIDDLE, _LARGE = (cell.name for cell in cells.BACKLOG)
_PODS, _SOME, _GANGS = (cell.name for cell in cells.PREEMPTION)
WANTED = {
    _SINGLE: Wanted(floor=1 / 0.6, kube=2.0),
    _SMALL: Wanted(floor=1 / 0.55, kube=10.0),
    _MIDDLE: Wanted(floor=1 / 0.55, kube=10.0),
    _LARGE: Wanted(kube=12.0, rss_mb=350.0),
    _PODS: Wanted(floor=1.8, kube=_NO_SLOWER, first_removal=1.5, evicted=1000),
    _SOME: Wanted(floor=1.8, kube=_NO_SLOWER, evicted=800),
    _GANGS: Wanted(floor=1.8, kube=_NO_SLOWER, evicted=1000),
    **{cell.name: Wanted(evicted=cell.evicted or None) for cell in (*cells.HARM, *cells.UPSTREAM, *cells.PEERS)},
}
READY_LISTS, GANG_P99_SECONDS, RSS_MB, LAG_P99_SECONDS = 4.0, 1.0, 400.0, 0.05


def goals(report: Report) -> list[Goal]:
    """All of them, in the order of the cells."""
    by = {(r.cell, r.candidate): r for r in report.backlog}
    found = [
        goal
        for cell, wanted in WANTED.items()
        for goal in _backlog(cell, wanted, *(by.get((cell, name)) for name in (OURS, FLOOR, KUBE)))
    ]
    outcomes = {o.cell: o for o in report.arrival if o.candidate == OURS}
    found += _large(outcomes.get(arrival.LARGE.name))
    found += _churn(outcomes.get(arrival.CHURN.name))
    return found


def goals_table(report: Report) -> str:
    """With ``met``, ``missed``, or what it is when something was not measured."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    rows = [(g.cell, g.what, g.measured, words[g.met]) for g in goals(report)]
    return table(("cell", "goal", "measured", ""), rows)


def _backlog(
    cell: str, wanted: Wanted, ours: Result | None, floor: Result | None, kube: Result | None
) -> Iterator[Goal]:
    if wanted.floor is not None:
        times = ours.seconds / floor.seconds if ours and floor else None
        met = None if times is None or ours is None else ours.finished and times <= wanted.floor
        yield Goal(cell, f"<= {wanted.floor:.2f} x floor", _number(times), met)
    if wanted.kube is not None:
        times = kube.seconds / ours.seconds if ours and kube else None
        met = None if times is None or ours is None else ours.finished and times >= wanted.kube
        yield Goal(cell, f"kube-scheduler takes >= {wanted.kube:g} x as long", _number(times), met)
    if wanted.first_removal is not None:
        first = ours.first_removal if ours else None
        yield Goal(
            cell,
            f"first removal <= {wanted.first_removal:g} s after process start",
            _number(first),
            None if ours is None else first is not None and first <= wanted.first_removal,
        )
    if wanted.evicted is not None:
        gone, whole = (ours.removed, not ours.broken) if ours else (None, True)
        met = None if gone is None else gone <= wanted.evicted and whole
        yield Goal(cell, f"<= {wanted.evicted} pods evicted, no gang broken", _number(gone), met)
    if wanted.rss_mb is not None:
        peak = ours.peak_mb if ours else None
        yield Goal(cell, f"RSS <= {wanted.rss_mb:g} MB", _number(peak), None if peak is None else peak <= wanted.rss_mb)


def _large(found: Outcome | None) -> Iterator[Goal]:
    cell = arrival.LARGE.name
    lists = found.ready / found.bare_list if found else None
    yield Goal(cell, f"ready <= {READY_LISTS:g} x a bare list", _number(lists), _below(lists, READY_LISTS))
    p99 = found.gang_p99 if found else None
    bound = found is not None and found.finished
    met = None if p99 is None else bound and p99 <= GANG_P99_SECONDS
    yield Goal(cell, f"gang p99 <= {GANG_P99_SECONDS:g} s", _number(p99), met)
    peak = found.peak_mb if found else None
    yield Goal(cell, f"RSS <= {RSS_MB:g} MB", _number(peak), _below(peak, RSS_MB))


def _churn(found: Outcome | None) -> Iterator[Goal]:
    """Usual is the median of the windows after the first one, in which caches fill."""
    cell = arrival.CHURN.name
    rss = latency = None
    if found is not None and len(found.windows) > 2:
        rss = found.windows[-1].rss_mb / statistics.median(w.rss_mb for w in found.windows[1:])
        latency = found.windows[-1].p99 / max(1e-9, statistics.median(w.p99 for w in found.windows[1:]))
    told = "the last half minute <= {:g} x the median one"
    yield Goal(cell, f"no growth: RSS of {told.format(GROWTH_RSS)}", _number(rss), _below(rss, GROWTH_RSS))
    met = None if latency is None or found is None else found.finished and latency <= GROWTH_LATENCY
    yield Goal(cell, f"no growth: pod p99 of {told.format(GROWTH_LATENCY)}", _number(latency), met)
    lag = found.loop_lag_p99 if found else None
    yield Goal(cell, f"I/O loop lag p99 <= {LAG_P99_SECONDS * 1000:g} ms", _number(lag), _below(lag, LAG_P99_SECONDS))


def _below(value: float | None, limit: float) -> bool | None:
    return None if value is None else value <= limit


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
