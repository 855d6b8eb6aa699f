"""What was measured, as tables, as JSON, and as a picture."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path

import msgspec

from tests.bench.live.arrival import Outcome
from tests.bench.live.backlog import Result
from tests.bench.live.candidates import FLOOR, KUBE, OURS
from tests.bench.table import table


class Report(msgspec.Struct):
    """One run of the suite: where, what came out of it, and what could not be measured, in words."""

    machine: str
    backlog: list[Result]
    arrival: list[Outcome]
    failed: list[str] = []


def machine() -> str:
    """The processor, its cores, the memory, the interpreter."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {gib:.0f} GiB, Python {platform.python_version()}"


def backlog_table(results: Sequence[Result]) -> str:
    """Each time beside the floor's and kube-scheduler's of the same run."""
    by = {(r.cell, r.candidate): r for r in results}
    rows = []
    for r in results:
        floor, kube = by.get((r.cell, FLOOR)), by.get((r.cell, KUBE))
        rows.append(
            (
                r.cell,
                r.candidate,
                r.first_removal,
                r.first_bind,
                r.last_bind if r.finished else f"> {r.seconds:.0f}",
                round(r.bound / r.seconds) if r.finished else "",
                r.removed or "",
                r.cpu_seconds,
                r.peak_mb,
                r.calls_per_pod,
                f"{r.seconds / floor.seconds:.2f}" if floor is not None and r is not floor else "",
                f"{kube.seconds / r.seconds:.1f}" if kube is not None and r is not kube else "",
            )
        )
    header = (
        "cell",
        "scheduler",
        "first removal s",
        "first bind s",
        "last bind s",
        "pods/s",
        "removed",
        "CPU s",
        "RSS MB",
        "calls/pod",
        "x floor",
        "kube / this",
    )
    return table(header, rows)


def arrival_table(outcomes: Sequence[Outcome]) -> str:
    """One line for each cell in which pods arrive."""
    header = (
        "cell",
        "pods/s",
        "floor's",
        "pods",
        "bare list s",
        "ready s",
        "pod p50 s",
        "pod p99 s",
        "gang p50 s",
        "gang p99 s",
        "RSS MB ready",
        "end",
        "peak",
        "CPU s",
        "lag p99 s",
        "calls/pod",
    )
    rows = [
        (
            o.cell,
            f"{o.rate:.0f}",
            f"{o.floor:.0f}" if o.floor else "",
            f"{o.bound}/{o.pods}",
            o.bare_list,
            o.ready,
            o.pod_p50,
            o.pod_p99,
            o.gang_p50,
            o.gang_p99,
            o.rss_ready_mb,
            o.rss_end_mb,
            o.peak_mb,
            o.cpu_seconds,
            o.loop_lag_p99,
            o.calls_per_pod,
        )
        for o in outcomes
    ]
    return table(header, rows)


def windows_table(outcomes: Sequence[Outcome]) -> str:
    """How latency and memory go, half a minute after another."""
    rows = [
        (o.cell, f"{30 * n}-{30 * n + 30}", w.pods, w.p50, w.p99, w.rss_mb)
        for o in outcomes
        for n, w in enumerate(o.windows)
    ]
    return table(("cell", "seconds", "pods", "pod p50 s", "pod p99 s", "RSS MB"), rows)


def calls_table(results: Sequence[Result]) -> str:
    """What our scheduler asked the API server for, for each pod that was bound."""
    rows = []
    for r in results:
        if r.candidate == OURS:
            most = [f"{kind} {count / max(1, r.bound):.2f}" for kind, count in r.calls.items() if count >= r.bound / 20]
            rows.append((r.cell, r.calls_per_pod, ", ".join(most)))
    return table(("cell", "calls/pod", "of which"), rows)


_COLOURS = {FLOOR: "#9aa5b1", OURS: "#2f6fde", KUBE: "#e08a3c"}
_BAR, _GAP, _GROUP, _LEFT, _WIDE, _RIGHT = 14, 3, 22, 240, 420, 130


def picture(results: Sequence[Result]) -> str:
    """An SVG: seconds to the last bind as bars, for each cell one group."""
    names = list(dict.fromkeys(r.cell for r in results))
    longest = max((r.seconds for r in results), default=1.0)
    parts: list[str] = []
    y = 46
    for name in names:
        group = [r for r in results if r.cell == name]
        middle = y + len(group) * (_BAR + _GAP) / 2 + 3
        parts.append(f'<text x="{_LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
        for r in group:
            width = max(1.0, r.seconds / longest * _WIDE)
            told = f"{r.seconds:.1f} s" if r.finished else f"not done in {r.seconds:.0f} s"
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{_COLOURS[r.candidate]}"/>'
            )
            parts.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + _BAR - 3}" class="n">{told}</text>')
            y += _BAR + _GAP
        y += _GROUP
    legend = [c for c in (FLOOR, OURS, KUBE) if any(r.candidate == c for r in results)]
    for n, candidate in enumerate(legend):
        x = _LEFT + n * 140
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{_COLOURS[candidate]}"/>')
        parts.append(f'<text x="{x + 18}" y="24">{escape(candidate)}</text>')
    width = _LEFT + _WIDE + _RIGHT
    style = "text{font:12px sans-serif;fill:#333} .n{fill:#666}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img">'
        f"<title>Seconds from the start of the process to the last binding</title><style>{style}</style>"
        f'<rect width="{width}" height="{y}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )
