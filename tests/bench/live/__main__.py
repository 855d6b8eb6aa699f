"""How long the whole process takes, on a real API server: this scheduler, kube-scheduler, and the floor.

    python -m tests.bench.live [--smoke] [--only TEXT] [--candidates gangsched,floor] [--json FILE] [--svg FILE]

Backlog cells: all pods exist before the process starts, and each candidate gets a fresh control plane. Arrival cells:
pods come at a steady rate while our scheduler runs. The API server's watch says when a pod was bound or removed.
``--smoke`` runs small cells: that says whether everything works, and nothing about speed. ``--show`` makes tables and
picture of earlier results.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from tests.bench.live import arrival, backlog, cells
from tests.bench.live.candidates import ALL, FLOOR, KUBE, OURS
from tests.bench.live.report import Report, arrival_table, backlog_table, calls_table, machine, picture


def main() -> int:
    """Run and print; 1 when a cell of ours was not finished."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small cells")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--candidates", default=",".join(c.name for c in ALL), help="default: %(default)s")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds until somebody is cut off (default: 180)")
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    parser.add_argument("--svg", metavar="FILE", help="draw the backlog cells there")
    parser.add_argument("--show", metavar="FILE", help="measure nothing: show the results in this file")
    args = parser.parse_args()
    if args.show:
        found = msgspec.json.decode(Path(args.show).read_bytes(), type=Report)
    else:
        found = run(args.only, args.candidates.split(","), smoke=args.smoke, limit_seconds=args.limit)
    print(found.machine)
    for text in (backlog_table(found.backlog), calls_table(found.backlog), arrival_table(found.arrival)):
        print(f"\n{text}")
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    if args.svg:
        Path(args.svg).write_text(picture(found.backlog), encoding="utf-8")
    done = [r.finished for r in found.backlog if r.candidate != KUBE] + [o.finished for o in found.arrival]
    return 0 if all(done) else 1


def run(only: str, candidates: list[str], *, smoke: bool, limit_seconds: float) -> Report:
    """Measure the cells whose name contains ``only``."""
    found = Report(machine(), [], [])
    for cell in cells.ALL:
        for candidate in ALL:
            if only not in cell.name or candidate.name not in candidates:
                continue
            print(f"{cell.name}: {candidate.name} ...", file=sys.stderr, flush=True)
            told = cell.smaller() if smoke else cell
            result = asyncio.run(backlog.measure(told, candidate, limit_seconds))
            found.backlog.append(result)
            print(f"    {result.seconds:.1f} s {result.note}", file=sys.stderr, flush=True)
    floor = next((r for r in found.backlog if r.candidate == FLOOR and r.cell == cells.BACKLOG[0].name), None)
    rate = arrival.CHURN_SHARE * floor.bound / floor.seconds if floor is not None and not smoke else None
    for each in (arrival.LARGE, arrival.churn(rate) if rate else arrival.churn()):
        if only not in each.name or OURS not in candidates:
            continue
        print(f"{each.name} ...", file=sys.stderr, flush=True)
        found.arrival.append(asyncio.run(arrival.measure(each.smaller() if smoke else each)))
    return found


if __name__ == "__main__":
    sys.exit(main())
