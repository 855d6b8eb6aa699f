"""What it costs to hold nodes: the cells with evictions, with the taint and without, in turns.

    python -m tests.bench.live.holding [--repeat 3] [--only TEXT]

Prints for each cell the median seconds from the start of the process to the last binding, and the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys

from tests.bench.live import cells
from tests.bench.live.backlog import LIMIT_SECONDS, Result, measure
from tests.bench.live.candidates import OURS, Candidate, compiled, configured
from tests.bench.live.cells import Cell
from tests.bench.live.planes import Planes
from tests.bench.publish.tables import table

WITHOUT, WITH = (
    Candidate(f"holdRoom: {mode}", configured(preemption={"holdRoom": mode}), OURS) for mode in ("never", "always")
)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live.holding", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (default: 3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose name contains this")
    parser.add_argument("--smoke", action="store_true", help="small cells")
    args = parser.parse_args()
    chosen = [cell.smaller() if args.smoke else cell for cell in cells.PREEMPTION if args.only in cell.name]
    compiled()
    print(asyncio.run(_all(chosen, args.repeat)))
    return 0


async def _all(chosen: list[Cell], repeat: int) -> str:
    rows = []
    planes = Planes(again=False)
    for cell in chosen:
        found: dict[str, list[float]] = {WITHOUT.name: [], WITH.name: []}
        for number in range(repeat):
            for candidate in (WITHOUT, WITH) if number % 2 == 0 else (WITH, WITHOUT):
                result: Result = await measure(cell, candidate, LIMIT_SECONDS, planes)
                found[candidate.name].append(result.seconds)
                print(f"{cell.name}: {candidate.name}: {result.seconds}", file=sys.stderr, flush=True)
        medians = [statistics.median(found[c.name]) for c in (WITHOUT, WITH)]
        ratio = medians[1] / medians[0]
        rows.append((cell.name, f"{medians[0]:.2f}", f"{medians[1]:.2f}", f"{ratio:.2f}"))
    return table(("cell", "without", "with", "ratio"), rows)


if __name__ == "__main__":
    sys.exit(main())
