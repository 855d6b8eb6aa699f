"""Play a public trace.

    python -m tests.bench.traces policies FORMAT FILE [--jobs N] [--svg FILE]
    python -m tests.bench.traces packing FILE [--seeds N] [--published FILE] [--svg FILE]
    python -m tests.bench.traces eta FORMAT FILE [--jobs N] [--questions N] [--every N]

``policies`` plays it under each order of victims; ``packing`` draws pods of multigpu50 until 130 % of the GPUs are
asked for, beside the figures that FGD's authors publish; ``eta`` asks for the starts of jobs that wait and compares.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from tests.bench.publish.tables import table
from tests.bench.traces import backtest, packing, played


def main(argv: Sequence[str] | None = None) -> int:
    """Play, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traces", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for name in ("policies", "eta"):
        each = kinds.add_parser(name)
        each.add_argument("form", metavar="FORMAT")
        each.add_argument("file", metavar="FILE")
        each.add_argument("--jobs", type=int, default=3000)
    kinds.choices["policies"].add_argument("--svg", metavar="FILE")
    kinds.choices["eta"].add_argument("--questions", type=int, default=40)
    kinds.choices["eta"].add_argument("--every", type=int, default=10, help="ask when so many more gangs began to wait")
    packs = kinds.add_parser("packing")
    packs.add_argument("file", metavar="FILE")
    packs.add_argument("--seeds", type=int, default=3)
    packs.add_argument("--published", metavar="FILE", help="analysis_allo_discrete.csv of FGD's authors, for --svg")
    packs.add_argument("--svg", metavar="FILE")
    args = parser.parse_args(argv)
    if args.kind == "policies":
        runs = played.play(args.form, args.file, args.jobs)
        sys.stdout.write(played.rows(runs))
        if args.svg:
            Path(args.svg).write_text(played.picture(runs, f"{args.form}, the first {args.jobs} jobs"))
        return 0
    if args.kind == "packing":
        return _packing(args)
    answers = backtest.asked(args.form, args.file, args.jobs, args.questions, every=args.every)
    known = sorted(abs(a.likely - a.really) for a in answers if a.likely is not None and a.really is not None)
    named = [each for each in answers if each.latest is not None]
    inside = sum(each.inside for each in named)
    share = f"{inside / len(named):.1%}" if named else "-"
    if known:
        print(f"the likely start is off by {known[len(known) // 2]:.0f} s in the median of {len(known)}")
    print(f"{len(answers)} answers, {len(named)} with an interval, {inside} starts in it ({share})")
    return 0


def _packing(args: argparse.Namespace) -> int:
    rows: list[list[object]] = [[f"published: {name}", "", f"{at:.2f}"] for name, at in packing.PUBLISHED.items()]
    drawn: dict[str, list[float]] = {}
    for strategy in ("LeastAllocated", "MostAllocated"):
        for whole in (False, True):
            curves = [packing.curve(Path(args.file), strategy, seed, whole=whole) for seed in range(args.seeds)]
            name = "whole GPUs only" if whole else "all pods"
            rows.append([strategy, name, f"{mean(curve[-1][1] for curve in curves):.2f}"])
            if not whole:
                drawn[f"this scheduler, {strategy}"] = packing.by_load(curves)
    sys.stdout.write(table(["scores", "pods", "% allocated at 130 %"], rows))
    if args.svg:
        others = packing.published(Path(args.published)) if args.published else {}
        kept = {f"published: {name}": others[name] for name in ("Random", "BestFit", "FGD") if name in others}
        Path(args.svg).write_text(packing.picture({**drawn, **kept}, f"{args.seeds} seeds; published: the mean of 10"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
