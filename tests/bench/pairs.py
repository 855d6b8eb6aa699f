"""One measurement in two checkouts, in turns: is the second slower than the first?

    python -m tests.bench.pairs BEFORE AFTER [--pairs 5] [--repeat 7] [--only NAME ...]

Each pair runs the scenarios of ``tests.bench.speed`` by time of the processor, in one folder with a checkout and then
in the other, with the Python that runs this. The table has the median and the interquartile range of each. A scenario
is slower when its median is worse by more than 3 % and by more than it varies anyway; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.publish.tables import table

#: What is slower by no more than this is not slower.
TOLERATED = 0.03
_MEASURED = re.compile(r"^  (.+): ([0-9.]+) ms$", re.MULTILINE)


def measured(text: str) -> dict[str, float]:
    """Milliseconds of each scenario, from what ``tests.bench.speed`` says while it runs."""
    return {name: float(number) for name, number in _MEASURED.findall(text)}


def run(checkout: Path, repeat: int, only: Sequence[str]) -> dict[str, float]:
    """Measure once in this checkout."""
    command = [sys.executable, "-m", "tests.bench.speed", "--cpu", "--no-memory", "--repeat", str(repeat)]
    done = subprocess.run(
        [*command, *(["--only", *only] if only else [])],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,  # a limit that is not met is no matter of this comparison
    )
    found = measured(done.stderr)
    if not found:
        raise RuntimeError(f"nothing was measured in {checkout}:\n{done.stderr[-2000:]}")
    return found


def spread(values: Sequence[float]) -> float:
    """The interquartile range; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def slower(before: Sequence[float], after: Sequence[float]) -> bool:
    """Is the median worse by more than what is tolerated, and by more than either varies by itself?"""
    first, second = statistics.median(before), statistics.median(after)
    return second - first > max(TOLERATED * first, spread(before), spread(after))


def report(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> tuple[str, list[str]]:
    """The table, and the names of those that are slower. What only one of them measures is left out."""
    rows: list[list[object]] = []
    found = []
    for name in (name for name in before if name in after):
        medians = statistics.median(before[name]), statistics.median(after[name])
        late = slower(before[name], after[name])
        found += [name] if late else []
        ranges = spread(before[name]), spread(after[name])
        rows.append(
            [name, *(f"{n:.1f}" for pair in zip(medians, ranges, strict=True) for n in pair),
             f"{medians[1] / medians[0]:.2f}", "SLOWER" if late else "ok"]
        )  # fmt: skip
    return table(["scenario", "before ms", "range", "after ms", "range", "ratio", ""], rows), found


def main(arguments: list[str] | None = None) -> int:
    """Run the pairs; 1 when anything is slower."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pairs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path, help="a folder with the checkout to compare with")
    parser.add_argument("after", type=Path, help="a folder with the checkout that is judged")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=7, help="plans per scenario and run (default: %(default)s)")
    parser.add_argument("--only", nargs="*", default=[], help="names of scenarios; none: all")
    given = parser.parse_args(arguments)
    times: tuple[dict[str, list[float]], dict[str, list[float]]] = (defaultdict(list), defaultdict(list))
    for number in range(given.pairs):
        for known, checkout in zip(times, (given.before, given.after), strict=True):
            for name, milliseconds in run(checkout.resolve(), given.repeat, given.only).items():
                known[name].append(milliseconds)
        print(f"  pair {number + 1} of {given.pairs}", file=sys.stderr, flush=True)
    text, found = report(*times)
    print(text)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
