"""Measure this scheduler beside kube-scheduler, and write what comes out into README.md and docs/compare.md.

    make compare [KUBERNETES=1.37] [ARGS="--quick | --offline | --only TEXT"]

Live cells run on a control plane of that version (the newest that is pinned), which is built first if need be: the bare
client, this scheduler and kube-scheduler, with seconds, pods evicted, gangs broken, processor time and memory. Then the
rules that other schedulers publish are asked what they would evict. All within 90 minutes; ``--quick`` runs the cells
with evictions that say most, within 10; ``--offline`` the rules alone, within seconds, without a control plane.
What was measured before and is not measured now stays, with its day.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.controlplane import versions

_MINUTES_QUICK = 10


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 1 when a run of ours was not finished."""
    parser = argparse.ArgumentParser(
        prog="make compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"some cells, within {_MINUTES_QUICK} minutes")
    parser.add_argument("--offline", action="store_true", help="rules only: no control plane")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cells whose name contains this")
    parser.add_argument("--clusters", type=int, help="random clusters (100 in a full run, else those of before stay)")
    parser.add_argument("--no-write", action="store_true", help="print only")
    given = parser.parse_args(arguments)
    os.environ.setdefault(versions.VARIABLE, list(versions.pinned())[-1])
    from tests.bench.compare import runs

    return runs.everything(given)


if __name__ == "__main__":
    sys.exit(main())
