"""A trace under each policy: makespan, waits, how full the GPUs were, and what evictions cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gangsched.cli.simulation import simulate
from gangsched.cli.trace_figures import Figures, figures_of
from gangsched.core.options import Options
from gangsched.model.times import LONGEST_SECONDS, render_duration
from tests.bench.publish import svg
from tests.bench.publish.tables import table
from tests.bench.traces import formats
from tests.bench.traces.policies import BY_WORK, POLICIES, chosen_by
from tests.judge.invariants import violations

#: In a simulation only events can help a gang that waits.
OPTIONS = msgspec.structs.replace(Options(), flush_seconds=LONGEST_SECONDS)


class Played(NamedTuple):
    """A policy, what came of it, and the seconds of CPU that the run took."""

    policy: str
    figures: Figures
    violations: int
    cpu_seconds: float


def play(form: str, path: str, jobs: int | None, policies: Sequence[str] = tuple(POLICIES)) -> list[Played]:
    """The trace under each policy, on the same nodes."""
    trace = formats.loaded(form, path, OPTIONS.scheduler_names[0], most=jobs)
    out = []
    for policy in policies:
        options = msgspec.structs.replace(OPTIONS, harm_by_work=policy == BY_WORK)
        begun = time.process_time()
        with chosen_by(policy):
            run = simulate(trace.events, options, until_seconds=LONGEST_SECONDS)
        spent = time.process_time() - begun
        out.append(Played(policy, figures_of(run.history), len(violations(run.history, options)), spent))
        print(f"  {policy}: {spent:.0f} s", flush=True)
    return out


def rows(played: Sequence[Played]) -> str:
    """The figures as a table, a row for each policy."""
    classes = list(played[0].figures.waits)
    header = ["victims by", "makespan", "GPUs allocated", "evicted pods", "jobs", "GPU-hours lost", "violations"]
    header += [f"wait {priority}: mean" for priority in classes] + [f"95 % of {priority}" for priority in classes]
    lines = []
    for each in played:
        of = each.figures
        waits = [render_duration(round(of.waits[c].mean_seconds)) for c in classes]
        waits += [render_duration(round(of.waits[c].p95_seconds)) for c in classes]
        span = render_duration(round(of.makespan_seconds))
        cells = [span, f"{of.gpu_allocation:.1%}", of.evicted_pods, of.interrupted_jobs, f"{of.gpu_hours_lost:.0f}"]
        lines.append([each.policy, *cells, each.violations, *waits])
    return table(header, lines)


def picture(played: Sequence[Played], about: str) -> str:
    """An SVG: a bar for each policy, of the pods evicted and of the GPU-hours lost."""
    names, wide, between, margin = 190.0, 250.0, 60.0, 24.0
    columns = {
        "pods evicted": [float(p.figures.evicted_pods) for p in played],
        "GPU-hours lost": [p.figures.gpu_hours_lost for p in played],
    }
    parts = [svg.text(margin, 32, "Evictions of a trace, by the order of victims", "title")]
    bottom = 72.0 + 26 * len(played)
    for number, (title, values) in enumerate(columns.items()):
        left = margin + names + number * (wide + between)
        axis = svg.Axis(0.0, max(*values, 1.0), left, left + wide)
        parts.append(svg.text(left, 58, title))
        for row, value in enumerate(values):
            y = 72.0 + 26 * row
            parts.append(svg.box(left, y, axis.at(value) - left, 16, 1 if row < 2 else 0))
            parts.append(svg.text(axis.at(value) + 6, y + 13, f"{value:,.0f}", "soft"))
            if number == 0:
                parts.append(svg.text(margin, y + 13, played[row].policy))
    parts.append(svg.text(margin, bottom + 20, about, "soft"))
    return svg.document(margin * 2 + names + 2 * wide + 2 * between, bottom + 36, "Evictions of a trace", parts)
