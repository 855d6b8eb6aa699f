"""What was measured, as a picture: bars for the backlog cells, curves for the cells that show how it goes over time."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tests.bench.live import cells
from tests.bench.live.backlog import Result
from tests.bench.live.candidates import FLOOR, KUBE, OURS
from tests.bench.live.outcome import WINDOW_SECONDS, Outcome
from tests.bench.live.report import Report
from tests.bench.publish import svg

_SERIES = {FLOOR: 0, OURS: 1, KUBE: 2}
_TOLD = {FLOOR: "floor: a loop that only makes the calls"}
_COMING = {FLOOR: "floor: binds each gang when all its pods exist"}
_NODES = {cell.name: cell.nodes for cell in cells.ALL}
_WIDTH, _MARGIN, _LEFT, _RIGHT = 880.0, 24.0, 224.0, 690.0
_BAR, _STEP, _GROUP = 13.0, 16.0, 64.0
_CHART, _HIGH = 356.0, 130.0


def picture(report: Report) -> str:
    """An SVG: seconds to the last binding; how long gangs that arrive take, and how memory and latency go meanwhile."""
    parts, y = _bars(report.backlog)
    if report.arrival:
        more, y = _latencies(report.arrival, y + 22)
        parts += more
    for outcome in report.arrival:
        if len(outcome.windows) > 1 and outcome.candidate == OURS:
            more, y = _over_time(outcome, y + 22)
            parts += more
    most = max((len(r.runs) for r in report.backlog), default=1)
    runs = f"Bars are medians, thin lines the range, where up to {most} runs were made. " if most > 1 else ""
    when = f"; measured {report.measured}" if report.measured else ""
    about = f"{runs}Scheduler, API server and etcd share the machine: {report.machine}{when}."
    lines = textwrap.wrap(about, int((_WIDTH - 2 * _MARGIN) / svg.LETTER))
    parts += [svg.text(_MARGIN, y + 22 + 17 * n, each, "soft") for n, each in enumerate(lines)]
    return svg.document(
        _WIDTH, y + 22 + 17 * len(lines), "Seconds from the start of the process to the last binding", parts
    )


def _bars(results: Sequence[Result]) -> tuple[list[str], float]:
    """One group for each cell; and where they end."""
    names = list(dict.fromkeys(r.cell for r in results))
    times = [seconds for r in results for seconds in (r.seconds, *r.runs)]
    present = {r.candidate for r in results}
    # A bar begins where the axis does: well below the least of what is compared.
    low, high = svg.round_down(min(times, default=1.0) / 2), max(times, default=10.0)
    axis = svg.Axis(low, high, _LEFT, _RIGHT, logarithmic=True)
    top, bottom = 88.0, 88.0 + _GROUP * len(names)
    subtitle = "All pods exist when the process starts. Logarithmic: a step to the right is a multiple. Less is better."
    parts = [
        svg.text(_MARGIN, 32, "Seconds from the start of the process to the last binding", "title"),
        svg.text(_MARGIN, 50, subtitle, "soft"),
        svg.legend(_MARGIN, 72, [(_TOLD.get(c, c), n) for c, n in _SERIES.items() if c in present]),
    ]
    cut = {r.seconds for r in results if not r.finished}
    for tick in axis.ticks():
        x = axis.at(tick)
        parts.append(svg.line(x, top, x, bottom, "axis" if tick == low else "grid"))
        parts.append(svg.text(x, bottom + 15, f"{svg.number(tick)}{' s' if tick == low else ''}", "soft", "middle"))
    for seconds in sorted(cut):
        x = axis.at(seconds)
        parts.append(svg.line(x, top, x, bottom + 4, "limit"))
        parts.append(svg.text(x - 10, bottom + 15, f"{svg.number(seconds)}: cut off", "soft"))
    for n, name in enumerate(names):
        group = [r for r in results if r.cell == name]
        y = top + n * _GROUP + (_GROUP - _STEP * len(group)) / 2
        middle = top + (n + 0.5) * _GROUP
        parts.append(svg.text(_LEFT - 12, middle + (-2 if name in _NODES else 4), name, "", "end"))
        if name in _NODES:
            parts.append(svg.text(_LEFT - 12, middle + 13, f"{_NODES[name]:,} nodes", "soft", "end"))
        for r in group:
            parts += _bar(axis, y, r, {other.candidate: other for other in group})
            y += _STEP
    return parts, bottom + 22


def _bar(axis: svg.Axis, y: float, r: Result, group: dict[str, Result]) -> list[str]:
    """One time, the range of its runs, and how many times that of the floor or of ours it is."""
    end = axis.at(r.seconds)
    parts = [svg.box(axis.start, y, max(1.0, end - axis.start), _BAR, _SERIES.get(r.candidate, 3))]
    if len(r.runs) > 1:
        least, most = axis.at(min(r.runs)), axis.at(max(r.runs))
        middle = y + _BAR / 2
        parts.append(svg.line(least, middle, most, middle, "thin"))
        parts += [svg.line(x, middle - 3, x, middle + 3, "thin") for x in (least, most)]
        end = max(end, most)
    told = f"{r.seconds:.1f} s" if r.finished else f"> {r.seconds:.0f} s"
    if not r.finished:
        parts.append(svg.arrow(end, y, 7.0, _BAR, _SERIES.get(r.candidate, 3)))
        end += 7.0
    beside, more = {OURS: FLOOR, KUBE: OURS}.get(r.candidate, ""), ""
    if beside in group and group[beside].finished:
        times = r.seconds / group[beside].seconds
        ratio = f"{times:.1f}" if times < 10 else f"{times:.0f}"
        more = f"{'' if r.finished else '> '}{ratio} × {'floor' if beside == FLOOR else 'ours'}"
    second = end + 14 + len(told) * svg.LETTER
    parts += [
        svg.paper(end + 3, y, second - end + len(more) * svg.LETTER, _BAR),
        svg.text(end + 6, y + _BAR - 2.5, told, "bold" if r.candidate == OURS else ""),
        svg.text(second, y + _BAR - 2.5, more, "soft"),
    ]
    return parts


def _latencies(outcomes: Sequence[Outcome], top: float) -> tuple[list[str], float]:
    """One group for each cell in which pods arrive: bars to the median, lines to the p99; and where they end."""
    names = list(dict.fromkeys(o.cell for o in outcomes))
    times = [1e3 * seconds for o in outcomes for seconds in (o.gang_p50, o.gang_p99) if seconds > 0]
    low = svg.round_down(min(times, default=10.0) / 2)
    axis = svg.Axis(low, max([*times, 10 * low]), _LEFT, _RIGHT, logarithmic=True)
    first, bottom = top + 70.0, top + 70.0 + _GROUP * len(names)
    present = {o.candidate for o in outcomes}
    subtitle = (
        "From the creation of a gang's last member to its binding: bars are medians, lines go on to the p99. "
        "Logarithmic. CPU: with the start."
    )
    parts = [
        svg.text(_MARGIN, top + 12, "Milliseconds until a gang that arrives is bound", "title"),
        svg.text(_MARGIN, top + 30, subtitle, "soft"),
        svg.legend(_MARGIN, top + 52, [(_COMING.get(c, c), n) for c, n in _SERIES.items() if c in present]),
    ]
    for tick in axis.ticks():
        x = axis.at(tick)
        parts.append(svg.line(x, first, x, bottom, "axis" if tick == low else "grid"))
        parts.append(svg.text(x, bottom + 15, f"{svg.number(tick)}{' ms' if tick == low else ''}", "soft", "middle"))
    for n, name in enumerate(names):
        group = sorted((o for o in outcomes if o.cell == name), key=lambda o: _SERIES.get(o.candidate, 3))
        y = first + n * _GROUP + (_GROUP - _STEP * len(group)) / 2
        middle = first + (n + 0.5) * _GROUP
        lines = [*name.replace("; ", ";\n").splitlines(), f"{group[0].rate:.0f} pods/s"]
        for number, line in enumerate(lines):
            at = middle + 4 + 15 * (number - (len(lines) - 1) / 2)
            parts.append(svg.text(_LEFT - 12, at, line, "soft" if number == len(lines) - 1 else "", "end"))
        for o in group:
            parts += _latency(axis, y, o)
            y += _STEP
    return parts, bottom + 22


def _latency(axis: svg.Axis, y: float, o: Outcome) -> list[str]:
    """The median, the p99, both in words, and the processor time that a pod took."""
    if o.gang_p50 < 0:
        return [svg.text(axis.start + 6, y + _BAR - 2.5, "no gang was bound", "soft")]
    p50, p99, middle = axis.at(1e3 * o.gang_p50), axis.at(1e3 * o.gang_p99), y + _BAR / 2
    told = f"{1e3 * o.gang_p50:.0f}, {1e3 * o.gang_p99:.0f} ms"
    more = f"CPU {1e3 * o.cpu_seconds / max(1, o.bound):.1f} ms/pod"
    more += "" if o.finished else f", {o.bound} of {o.pods} bound"
    second = p99 + 14 + len(told) * svg.LETTER
    return [
        svg.box(axis.start, y, max(1.0, p50 - axis.start), _BAR, _SERIES.get(o.candidate, 3)),
        svg.line(p50, middle, p99, middle, "thin"),
        svg.line(p99, middle - 3, p99, middle + 3, "thin"),
        svg.paper(p99 + 3, y, second - p99 + len(more) * svg.LETTER, _BAR),
        svg.text(p99 + 6, y + _BAR - 2.5, told, "bold" if o.candidate == OURS else ""),
        svg.text(second, y + _BAR - 2.5, more, "soft"),
    ]


def _over_time(o: Outcome, top: float) -> tuple[list[str], float]:
    """Memory and latency of one run, side by side."""
    parts = [
        svg.text(_MARGIN, top + 12, f"Over time, {o.cell}: {o.rate:.0f} pods/s arrive, are bound, and deleted", "title")
    ]
    seconds = len(o.windows) * WINDOW_SECONDS
    y = top + 52
    second = _WIDTH - _MARGIN - _CHART
    parts.append(svg.text(_MARGIN + 34, top + 36, "resident memory of the process, MB"))
    memory, where = _chart(_MARGIN + 34, y, seconds, max((s.rss_mb for s in o.samples), default=1.0))
    told = [(where[0].at(s.seconds), where[1].at(s.rss_mb)) for s in o.samples if s.seconds <= seconds]
    parts += [*memory, svg.path(told, 1)]
    parts.append(svg.text(second, top + 36, "creation to binding of a pod, ms, by half minute"))
    latency, where = _chart(second, y, seconds, 1e3 * max(w.p99 for w in o.windows))
    parts += latency
    for series, name, values in ((1, "p99", [w.p99 for w in o.windows]), (3, "p50", [w.p50 for w in o.windows])):
        points = [
            (where[0].at((at + 0.5) * WINDOW_SECONDS), where[1].at(1e3 * value)) for at, value in enumerate(values)
        ]
        parts.append(svg.path(points, series, dots=True))
        parts.append(svg.text(points[-1][0] + 8, points[-1][1] + 4, name, "soft"))
    return parts, y + _HIGH + 22


def _chart(x: float, y: float, seconds: float, most: float) -> tuple[list[str], tuple[svg.Axis, svg.Axis]]:
    """A frame with its two axes: time, and something from zero on."""
    across = svg.Axis(0.0, seconds, x, x + _CHART - 34)
    up = svg.Axis(0.0, most * 1.08, y + _HIGH, y)
    parts = []
    for tick in up.ticks():
        parts.append(svg.line(across.start, up.at(tick), across.end, up.at(tick), "grid" if tick else "axis"))
        parts.append(svg.text(x - 6, up.at(tick) + 4, svg.number(tick), "soft", "end"))
    for n in range(int(seconds // WINDOW_SECONDS) + 1):
        at = n * WINDOW_SECONDS
        parts.append(svg.line(across.at(at), up.start, across.at(at), up.start + 4, "axis"))
        told = f"{at:.0f}{' s' if n == 0 else ''}"
        parts.append(svg.text(across.at(at), up.start + 16, told, "soft", "middle"))
    return parts, (across, up)
