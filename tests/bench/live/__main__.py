"""From a backlog to the last bind, on a real API server: this scheduler, kube-scheduler, and the floor.

    python -m tests.bench.live [--smoke] [--only TEXT] [--candidates gangsched,floor] [--json FILE]

Each cell and candidate gets a fresh control plane; all pods exist before the process starts. The API server's watch
says when a pod was bound or removed. ``--smoke`` runs small cells: that says whether everything works, and nothing
about speed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

import msgspec

from tests.bench.live import cells
from tests.bench.live.backlog import Result, measure
from tests.bench.live.candidates import ALL, FLOOR, KUBE
from tests.bench.table import table


def main() -> int:
    """Run and print; 1 when a cell of ours was not finished."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small cells")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--candidates", default=",".join(c.name for c in ALL), help="default: %(default)s")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds until somebody is cut off (default: 180)")
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    args = parser.parse_args()
    wanted = args.candidates.split(",")
    results: list[Result] = []
    for cell in cells.ALL:
        if args.only not in cell.name:
            continue
        for candidate in ALL:
            if candidate.name not in wanted:
                continue
            told = cell.smaller() if args.smoke else cell
            print(f"{cell.name}: {candidate.name} ...", file=sys.stderr, flush=True)
            result = asyncio.run(measure(told, candidate, args.limit))
            results.append(result)
            print(f"    {result.seconds:.1f} s {result.note}", file=sys.stderr, flush=True)
    print(render(results))
    if args.json:
        Path(args.json).write_text(json.dumps(msgspec.to_builtins(results), indent=2) + "\n", encoding="utf-8")
    return 0 if all(r.finished for r in results if r.candidate != KUBE) else 1


def render(results: list[Result]) -> str:
    """The table, each time beside the floor's and kube-scheduler's of the same run."""
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


if __name__ == "__main__":
    sys.exit(main())
