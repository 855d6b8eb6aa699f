"""What was measured, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tests.bench.live.backlog import Result
from tests.bench.live.candidates import FLOOR, KUBE, OURS
from tests.bench.live.outcome import Outcome
from tests.bench.publish.record import of_all_runs
from tests.bench.publish.tables import table


class Report(msgspec.Struct):
    """One run of the suite: where, what came out of it, what could not be measured, in words, and the day; ``telling``
    has what Events cost.
    """

    machine: str
    backlog: list[Result]
    arrival: list[Outcome]
    failed: list[str] = []
    measured: str = ""
    telling: list[Result] = []


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
                of_all_runs(r.runs),
                round(r.bound / r.seconds) if r.finished else "",
                r.removed or "",
                r.told,
                r.told_cpu_seconds,
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
        "of all runs",
        "pods/s",
        "removed",
        "all told s",
        "CPU s",
        "RSS MB",
        "calls/pod",
        "x floor",
        "kube / this",
    )
    return table(header, rows)


def harm_table(results: Sequence[Result]) -> str:
    """What each took from others, and the time and the means that it took itself, in cells with evictions."""
    evicting = {r.cell for r in results if r.removed}
    rows = [
        (
            r.cell,
            r.candidate,
            r.removed,
            r.broken,
            r.last_bind if r.finished else f"> {r.seconds:.0f}",
            r.cpu_seconds,
            r.peak_mb,
        )
        for r in results
        if r.cell in evicting
    ]
    header = ("cell", "scheduler", "pods evicted", "gangs broken", "last bind s", "CPU s", "RSS MB")
    return table(header, rows)


def telling_table(results: Sequence[Result]) -> str:
    """What it costs our scheduler to tell about gangs, beside the same without."""
    rows = [
        (
            r.candidate,
            r.last_bind,
            of_all_runs(r.runs),
            r.told,
            r.cpu_seconds,
            r.told_cpu_seconds,
            r.calls_per_pod,
            r.note,
        )
        for r in results
    ]
    header = ("told", "last bind s", "of all runs", "all told s", "CPU s bound", "CPU s told", "calls/pod", "note")
    return table(header, rows)


def arrival_table(outcomes: Sequence[Outcome]) -> str:
    """One line for each cell in which pods arrive."""
    header = (
        "cell",
        "scheduler",
        "pods/s",
        "floor's",
        "for s",
        "pods",
        "bare list s",
        "ready s",
        "pod p50 s",
        "pod p99 s",
        "gang p50 s",
        "gang p99 s",
        "x floor p50, p99",
        "RSS MB ready",
        "end",
        "peak",
        "CPU s",
        "lag p99 s",
        "calls/pod",
    )
    floors = {o.cell: o for o in outcomes if o.candidate == FLOOR}
    rows = [
        (
            o.cell,
            o.candidate,
            f"{o.rate:.0f}",
            f"{o.floor:.0f}" if o.floor else "",
            round(o.arriving) or "",
            f"{o.bound}/{o.pods}",
            o.bare_list,
            o.ready,
            *(each if each >= 0 else None for each in (o.pod_p50, o.pod_p99, o.gang_p50, o.gang_p99)),
            _beside_floor(o, floors.get(o.cell)),
            o.rss_ready_mb,
            o.rss_end_mb,
            o.peak_mb,
            o.cpu_seconds,
            o.loop_lag_p99 if o.loop_lag_p99 >= 0 else None,
            o.calls_per_pod,
        )
        for o in outcomes
    ]
    return table(header, rows)


def _beside_floor(o: Outcome, floor: Outcome | None) -> str:
    """The latencies of gangs in multiples of the floor's."""
    if floor is None or floor is o or min(o.gang_p50, floor.gang_p50) <= 0:
        return ""
    return f"{o.gang_p50 / floor.gang_p50:.1f}, {o.gang_p99 / floor.gang_p99:.1f}"


def windows_table(outcomes: Sequence[Outcome]) -> str:
    """How latency and memory go, half a minute after another."""
    rows = [
        (o.cell, o.candidate, f"{30 * n}-{30 * n + 30}", w.pods, w.p50, w.p99, w.rss_mb)
        for o in outcomes
        for n, w in enumerate(o.windows)
    ]
    return table(("cell", "scheduler", "seconds", "pods", "pod p50 s", "pod p99 s", "RSS MB"), rows)


def calls_table(results: Sequence[Result]) -> str:
    """What our scheduler asked the API server for, for each pod that was bound."""
    rows = []
    for r in results:
        if r.candidate == OURS:
            most = [f"{kind} {count / max(1, r.bound):.2f}" for kind, count in r.calls.items() if count >= r.bound / 20]
            rows.append((r.cell, r.calls_per_pod, ", ".join(most)))
    return table(("cell", "calls/pod", "of which"), rows)
