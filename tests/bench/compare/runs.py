"""The measurements of `make compare`, one after another, each kept in the record as soon as it is there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from tests import readme
from tests.bench.compare import offline, record, tables
from tests.bench.compare.record import Measured, Record
from tests.bench.live import cells, suite
from tests.bench.live.backlog import LIMIT_SECONDS
from tests.bench.live.candidates import ALL, KUBE, compiled
from tests.bench.live.cells import Cell
from tests.bench.live.report import Report
from tests.bench.publish.record import load, today
from tests.controlplane import binaries, versions

#: The cells with evictions that take little time, whoever runs.
QUICK = tuple(cell.name for cell in (*cells.HARM[:4], cells.PREEMPTION[0]))
#: Who is not done by then is cut off, in seconds, in a quick run.
LIMIT_QUICK = 45.0
#: Cells with one gang, of which the rules of others can be asked.
BY_RULES = cells.HARM

#: Random clusters whose plans are compared.
CLUSTERS = 100

Keep = Callable[[Record], None]


def steps(only: Sequence[str], *, quick: bool) -> Iterator[suite.Step]:
    """What there is to run: cells whose pods exist before the process starts, each with every candidate."""
    names = only or (QUICK if quick else ())
    everybody = [candidate.name for candidate in ALL]
    for step in suite.steps(names, everybody, smoke=False, limit_seconds=limit(quick=quick)):
        if isinstance(step.cell, Cell) and step.cell in cells.ALL:
            yield step


def limit(*, quick: bool) -> float:
    """Seconds until somebody is cut off."""
    return LIMIT_QUICK if quick else LIMIT_SECONDS


def live(kept: Record, only: Sequence[str], *, quick: bool, keep: Keep) -> list[str]:
    """Run them; what failed, in words. Nobody may be late but kube-scheduler."""
    todo = list(steps(only, quick=quick))
    if not todo:
        return [f"no cell has {' or '.join(map(repr, only))} in its name"]
    binaries.find()
    compiled()
    seen = 0

    def got(report: Report) -> None:
        nonlocal seen
        for result in report.backlog[seen:]:
            kept.add(
                Measured(
                    kubernetes=versions.chosen()[0],
                    day=today(),
                    load=load(),
                    machine=report.machine,
                    result=result,
                )
            )
        seen = len(report.backlog)
        keep(kept)

    found = suite.run(todo, limit_seconds=limit(quick=quick), keep=got)
    late = [r for r in found.backlog if r.candidate != KUBE and not r.finished]
    return [*found.failed, *(f"{r.cell}: {r.candidate} was not done after {r.limit:.0f} s" for r in late)]


def by_rules(kept: Record, clusters: int) -> None:
    """What rules evict in cells, and in so many random clusters (0: what is known of those stays)."""
    kept.rules_day = today()
    kept.cells = {cell.name: offline.of_cell(cell) for cell in BY_RULES}
    if clusters:
        kept.clusters_day = today()
        kept.clusters = offline.of_random_clusters(clusters)


def everything(given: argparse.Namespace) -> int:
    """Run what the command line asks for, print it, and write it into the documentation; 1 when something failed."""
    kept = record.read()

    def keep(found: Record) -> None:
        if not given.no_write:
            record.write(found)

    failed = [] if given.offline else live(kept, given.only, quick=given.quick, keep=keep)
    some = given.offline or given.quick or given.only
    by_rules(kept, given.clusters if given.clusters is not None else 0 if some else CLUSTERS)
    keep(kept)
    print(tables.text(kept))
    for each in failed:
        print(f"FAILED: {each}")
    if not given.no_write:
        readme.main([])
    return int(bool(failed))
