"""The report of shadow mode: once a day to the log and, where a folder is given, to files; at any time as a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gangsched import logs
from gangsched.core.actions import Action
from gangsched.core.events import Event
from gangsched.messages import beside
from gangsched.messages.text import join_names, pluralize
from gangsched.model.times import render_time
from gangsched.runtime.loop import Observer
from gangsched.runtime.shadow_figures import Comparison, Difference, Figures, Side

#: The beginning of the JSON of a report.
API_VERSION = "gangsched.dev/shadow/v1"
_DAY_SECONDS = 86_400.0
#: The page is written anew at most so often.
_PAGE_SECONDS = 5.0
_WIDTH = 34
#: Facts that no report can know.
_LIMITS = (
    beside.DIVERGES,
    beside.AT_ONCE,
    beside.LEAVING,
    beside.CONDITION,
    beside.FOR_WHOM,
    beside.CONTROLLERS,
)


class DailyReport(Observer):
    """Ends a time at midnight (UTC), and tells of it.

    ``names`` are those of the other scheduler, ``own`` that of this one; ``others`` counts the pods that wait for
    further schedulers. ``page`` is the report of the time that runs, for any thread.
    """

    def __init__(
        self,
        comparison: Comparison,
        names: Sequence[str],
        own: str,
        folder: Path | None,
        others: Callable[[], Mapping[str, int]],
    ) -> None:
        self.page = beside.NOTHING_YET
        self._comparison = comparison
        self._names = tuple(names)
        self._own = own
        self._folder = folder
        self._others = others
        self._ends = 0.0
        self._now = 0.0
        self._page_at = -math.inf
        self._log = logs.get("gangsched.shadow")

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._now = now
        if not self._comparison.figures.since:
            return
        if not self._ends:
            self._ends = (now // _DAY_SECONDS + 1) * _DAY_SECONDS
        if now >= self._ends:
            self._ends += _DAY_SECONDS
            self.tell(self._comparison.close_period(now))
        if now - self._page_at >= _PAGE_SECONDS:
            self._page_at = now
            self.page = self._text(self._comparison.upto(now))

    def finish(self) -> str:
        """Tell of the time that has begun, when no more will come; the text."""
        if not self._comparison.figures.since:
            return self.page
        return self.tell(self._comparison.close_period(self._now))

    def tell(self, figures: Figures) -> str:
        """Tell of a time that has ended now; the text."""
        text, fields = self._text(figures), fields_of(figures, self._now, self._names)
        self._log.info("shadow report", **fields)
        if self._folder is not None:
            name = f"shadow-{render_time(figures.since)[:16].replace(':', '')}"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                (self._folder / f"{name}.txt").write_text(text, encoding="utf-8")
                (self._folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(fields)) + b"\n")
            except OSError as error:
                self._log.warning("a report cannot be written", folder=str(self._folder), error=error.strerror)
        return text

    def _text(self, figures: Figures) -> str:
        return "\n".join(lines_of(figures, self._now, self._names, self._own, self._others())) + "\n"


def fields_of(figures: Figures, until: float, names: Sequence[str]) -> dict[str, Any]:
    """A report as JSON has it."""
    both = {"other": figures.real, "shadow": figures.own}
    return {
        "apiVersion": API_VERSION,
        "of": list(names),
        "since": render_time(figures.since),
        "until": render_time(until),
        **{name: _side(side) for name, side in both.items()},
        "startedInBoth": figures.real.waits.total(),
        "startedReallyOnly": figures.only_real,
        "startedHereOnly": figures.only_own,
        "differences": [
            {
                "gang": row.gang,
                "pods": row.pods,
                "evicted": row.evicted,
                "wouldEvict": row.would_evict,
                "wouldEvictPods": list(row.would_evict_pods),
                "waitSeconds": round(row.waited, 1),
                "wouldWaitSeconds": None if row.would_wait is None else round(row.would_wait, 1),
                "started": row.started,
            }
            for row in figures.differences
        ],
        "longestRoundSeconds": round(figures.longest_round, 1),
        "cannotKnow": list(_LIMITS),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "gangsStarted": side.started,
        "podsEvicted": side.evicted,
        "gangsEvictedFor": side.evicted_for,
        "gangsBroken": side.broken,
        "gangsRunInPart": side.in_part,
        "gangsWaiting": side.waiting,
        "waitSeconds": {name: side.quantile(share) for name, share in _SHARES.items()},
        "waitSecondsInSum": side.in_sum,
    }


_SHARES = {"median": 0.5, "p90": 0.9, "longest": 1.0}


def lines_of(figures: Figures, until: float, names: Sequence[str], own: str, others: Mapping[str, int]) -> list[str]:
    """A report as people read it."""
    sides = figures.real, figures.own
    both = figures.real.waits.total()
    rows: list[tuple[str, Callable[[Side], object]]] = [
        (beside.STARTED, lambda side: side.started),
        (beside.EVICTED, lambda side: side.evicted),
        (beside.EVICTED_FOR, lambda side: side.evicted_for),
        (beside.BROKEN, lambda side: side.broken),
        (beside.IN_PART, lambda side: side.in_part),
        (beside.WAITING, lambda side: side.waiting),
    ]
    if both:
        rows.append((beside.WAITED, lambda side: " / ".join(_span(side.quantile(each)) for each in _SHARES.values())))
        rows.append((beside.WAITED_IN_SUM, lambda side: _span(side.in_sum)))
    since, to = (render_time(each)[:16].replace("T", " ") for each in (figures.since, until))
    lines = [beside.HEAD(names=", ".join(names), since=since, until=f"{to} UTC", own=own), ""]
    lines.append(f"{'':<{_WIDTH}}{beside.REAL:>20}{beside.OWN:>20}")
    lines += [f"{name:<{_WIDTH}}{_cells(value(side) for side in sides)}" for name, value in rows]
    lines += ["", beside.OF_BOTH(count=both) if both else beside.NO_WAITS]
    if figures.only_real:
        known = join_names(figures.only_real_names, 3)
        lines.append(beside.NEVER_HERE(count=pluralize(figures.only_real, "gang"), names=known))
    if figures.only_own:
        known = join_names(figures.only_own_names, 3)
        lines.append(beside.NOT_STARTED_THERE(count=pluralize(figures.only_own, "gang"), names=known))
    if figures.differences:
        lines += ["", beside.LARGEST, *(f"  {_render_difference(row)}" for row in figures.differences)]
    if others:
        lines += ["", beside.LEFT_OUT(names=", ".join(f"{name} ({count})" for name, count in sorted(others.items())))]
    lines += ["", beside.LIMITS_HEAD, *(f"- {each}" for each in _LIMITS)]
    lines.append(f"- {beside.SLOWEST(seconds=_span(max(1, math.ceil(2 * figures.longest_round))))}")
    return lines


def _cells(values: Any) -> str:
    return "".join(f"{value!s:>20}" for value in values)


def _render_difference(row: Difference) -> str:
    more = row.would_evict - len(row.would_evict_pods)
    pods = [*row.would_evict_pods, *([f"{more} more"] if more else [])]
    waited = _span(row.waited)
    return beside.DIFFERENCE(
        gang=f"{row.gang} ({pluralize(row.pods, 'pod')})",
        real=row.evicted,
        own=row.would_evict,
        whom=beside.WHOM(pods=", ".join(pods)) if pods else "",
        waited=waited if row.started else beside.STILL_WAITS(wait=waited),
        would=beside.WOULD_WAIT if row.would_wait is None else _span(row.would_wait),
    )


def _span(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
