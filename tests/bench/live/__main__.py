"""How long the whole process takes, on a real API server: this scheduler, kube-scheduler, and the floor.

    python -m tests.bench.live [--smoke] [--only TEXT] [--candidates gangsched,floor] [--json FILE] [--svg FILE]

Backlog cells: all pods exist before the process starts, and each candidate gets a fresh control plane. Arrival cells:
pods come at a steady rate while a scheduler runs. The API server's watch says when a pod was bound or removed.
Without options everything is measured, in at most an hour; the file of ``--json`` is written after each measurement,
and ``--resume`` goes on where a run was ended. ``--smoke`` runs small cells, two at once on two control planes, within
three minutes: that says whether everything works, and nothing about speed. ``--show`` makes tables and picture of
earlier results.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.live import suite
from tests.bench.live.backlog import LIMIT_SECONDS
from tests.bench.live.candidates import ALL, KUBE, compiled
from tests.bench.live.goals import goals_table
from tests.bench.live.picture import picture
from tests.bench.live.report import (
    Report,
    arrival_table,
    backlog_table,
    calls_table,
    harm_table,
    telling_table,
    windows_table,
)
from tests.bench.publish import record

#: Who is not done by then in a smoke run is cut off; and so many cells are measured at once, each on the control plane
#: of the one before: most of the time would be that of planes which start and stop.
SMOKE_SECONDS, SMOKE_AT_ONCE = 60.0, 2


def main() -> int:
    """Run and print; 1 when a cell of ours was not finished."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--smoke", action="store_true", help="small cells")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="cells whose name contains this; can be repeated"
    )
    parser.add_argument("--candidates", default=",".join(c.name for c in ALL), help="default: %(default)s")
    parser.add_argument(
        "--limit", type=float, help=f"seconds until somebody is cut off (default: 180; with --smoke {SMOKE_SECONDS:g})"
    )
    parser.add_argument(
        "--rate", type=float, default=0.0, metavar="PODS_PER_S", help="let so many pods arrive, instead of the cells'"
    )
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of everybody but kube-scheduler, of which the median one counts"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there too, after each measurement")
    parser.add_argument("--resume", action="store_true", help="measure only what that file does not have")
    parser.add_argument("--svg", metavar="FILE", help="draw them there")
    parser.add_argument("--show", metavar="FILE", help="measure nothing: show the results in this file")
    args = parser.parse_args()
    if args.resume and not args.json:
        parser.error("--resume needs --json")
    unknown = set(args.candidates.split(",")) - {c.name for c in ALL}
    if unknown:
        parser.error(f"there is no candidate {', '.join(sorted(unknown))}")
    if args.show:
        found = record.read(Path(args.show), Report)
    else:
        earlier = record.read(Path(args.json), Report) if args.resume and Path(args.json).exists() else None
        limit = args.limit or (SMOKE_SECONDS if args.smoke else LIMIT_SECONDS)
        chosen = args.candidates.split(",")
        todo = list(suite.steps(args.only, chosen, smoke=args.smoke, limit_seconds=limit, rate=args.rate))
        if not todo:
            parser.error(f"no cell has {' or '.join(map(repr, args.only))} in its name, or nobody runs in it")
        if not args.smoke:
            compiled()
        found = suite.run(
            todo,
            limit_seconds=limit,
            repeat=args.repeat,
            at_once=SMOKE_AT_ONCE if args.smoke else 1,
            found=earlier,
            keep=lambda report: record.write(report, Path(args.json)) if args.json else None,
        )
    print(found.machine)
    texts = [backlog_table(found.backlog), harm_table(found.backlog), calls_table(found.backlog)]
    texts = texts if found.backlog else []
    if found.telling:
        texts.append(telling_table(found.telling))
    if found.arrival:
        texts += [arrival_table(found.arrival), windows_table(found.arrival)]
    if not args.smoke:
        texts.append(goals_table(found))
    for text in texts:
        print(f"\n{text}", end="")
    for text in found.failed:
        print(f"FAILED: {text}")
    if args.svg:
        Path(args.svg).write_text(picture(found), encoding="utf-8")
    done = [r.finished for r in (*found.backlog, *found.telling) if r.candidate != KUBE]
    done += [o.finished for o in found.arrival if o.candidate != KUBE]
    return 0 if all(done) and not found.failed else 1


if __name__ == "__main__":
    sys.exit(main())
