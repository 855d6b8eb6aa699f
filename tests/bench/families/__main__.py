"""The choice of victims on clusters with an optimum that is known by construction. Run it to see the numbers.

    python -m tests.bench.families [--quick] [--count 100] [--seed 1] [--only FAMILY ...] [--cut 1 10 100 1000]
                                   [--jobs 2] [--json FILE] [--plot FILE] [--against FILE]

For each family: plans *missed* though there is one; how many are *at the optimum* in harm (a) and (b), and how far the
*worst* is above it in the first part of harm in which it is; plans with a victim, or half of the victims, that could
be put back (*needless*); plans that break a budget or interrupt a gang more than need be (*broken*); plans against the
*rules*; *lies*, plans that say something of their own gap that is not so; the median *gap* that they state, how many
state one of at most a tenth, and how many say that they are optimal (*proven*). The same clusters are planned again
with the search *cut* off after a few steps: then nothing may be needless or untrue either, and more steps must not do
more harm. For small clusters, what two other schedulers would evict by their rules: victims as a multiple of ours,
gangs that they leave below their minimum (*broken*), and in how many clusters they do more harm. One cluster again:
``--only FAMILY --seed N --count 1``. 1 is returned when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.bench.families.catalogue import FAMILIES
from tests.bench.families.judge import Finding
from tests.bench.families.picture import picture
from tests.bench.families.report import GOALS, HEADER, KNOWN, details, summaries, worse_than
from tests.bench.families.run import judged, seconds_since, tasks
from tests.bench.publish import record
from tests.bench.publish.machine import hardware
from tests.bench.publish.tables import table


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"small clusters, {KNOWN.quick} of most families")
    parser.add_argument("--count", type=int, help="clusters of each family (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--only", nargs="+", choices=sorted(FAMILIES), metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--cut", nargs="*", type=int, default=[1, 10, 100, 1000], help="steps to cut off after")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path, help="write all findings to this file")
    parser.add_argument("--plot", type=Path, help="write a picture (SVG) to this file")
    parser.add_argument("--against", type=Path, help="findings of another version: is any of its plans better?")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    families = given.only or list(FAMILIES)
    usual = {family: GOALS.get(family, KNOWN).quick if given.quick else 100 for family in families}
    end = {family: given.seed + (given.count or count) for family, count in usual.items()}
    everything = tasks(families, range(given.seed, max(end.values())), "quick" if given.quick else "full", given.cut)
    todo = [task for task in everything if task.seed < end[task.family]]
    findings: list[Finding] = []
    try:
        for found in judged(todo, given.jobs):
            findings.append(found)
            for line in details(found):
                print(line, flush=True)
            if len(findings) % 50 == 0:
                print(f"  {len(findings)} of {len(todo)} clusters, {seconds_since(start)}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"stopped after {len(findings)} of {len(todo)} clusters", file=sys.stderr)
    order = {family: n for n, family in enumerate(FAMILIES)}
    findings.sort(key=lambda f: (order[f.family], f.seed))
    found_of = summaries(findings)
    print(table(HEADER, [s.row() for s in found_of]))
    print(f"{len(findings)} clusters, {seconds_since(start)}")
    if given.json:
        record.write(findings, given.json)
    if given.plot:
        about = f"{len(findings)} clusters, seeds from {given.seed}, {hardware()}"
        given.plot.write_text(picture(findings, about), encoding="utf-8")
    wrong = [text for s in found_of for text in s.not_met()]
    if given.against:
        before = record.read(given.against, list[Finding])
        wrong += worse_than(before, findings)
    for text in wrong:
        print(f"NOT MET: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
