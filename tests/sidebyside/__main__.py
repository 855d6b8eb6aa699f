"""``python -m tests.sidebyside --count 300 --seed 1``: compare, print every disagreement and a summary."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from tests.sidebyside.generate import AREAS
from tests.sidebyside.kube_side import KubeSide, settings
from tests.sidebyside.preemption import Outcomes, preemptions
from tests.sidebyside.run import Tally, side_by_side


def main() -> int:
    """Parse the command line; 0 when nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.sidebyside", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="pods to compare (default 300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="CASE", help="number of the first cluster")
    parser.add_argument("--pods", type=int, default=4, help="pods for each cluster (default 4)")
    parser.add_argument("--without", action="append", default=[], choices=[*AREAS, "resize"], help="leave an area out")
    parser.add_argument("--preemptions", type=int, default=60, help="cases of preemption to compare (default 60)")
    options = parser.parse_args()
    started = time.monotonic()
    tally, outcomes = asyncio.run(_run(options))
    seconds = time.monotonic() - started
    print(
        f"{tally.pods} pods on {tally.clusters} clusters in {seconds:.0f} s: {tally.scheduled} scheduled, "
        f"{tally.pods - tally.scheduled} not; asked again {tally.repeated} times; "
        f"{len(tally.disagreements)} disagreements; {len(tally.illegal)} illegal placements; "
        f"{len(tally.checker)} disagreements of the checker"
    )
    print(f"gangs: {tally.gangs['bound']} placed, {tally.gangs['unschedulable']} cannot be")
    for text, times in tally.reasons.most_common():
        print(f"{times:5} pods were told: {text}")
    for plugin, times in tally.scored.most_common():
        print(f"{times:5} pods had unlike scores by {plugin}")
    for why, times in sorted(tally.explained.items()):
        print(f"explained {times} times: {why}")
    print(
        f"{outcomes.cases} cases of preemption: kube-scheduler evicts in {outcomes.preempted}; the same harm in "
        f"{outcomes.same}, less in {outcomes.better}, more in {len(outcomes.worse)}; only it finds victims in "
        f"{len(outcomes.only_theirs)}, only we in {outcomes.only_ours}; {len(outcomes.illegal)} illegal placements"
    )
    wrong = [*tally.disagreements, *tally.illegal, *tally.checker]
    wrong += [*outcomes.worse, *outcomes.only_theirs, *outcomes.illegal]
    return 1 if wrong else 0


async def _run(options: argparse.Namespace) -> tuple[Tally, Outcomes]:
    with (
        tempfile.TemporaryDirectory(prefix="side-by-side-") as folder,
        ControlPlane(Path(folder), **settings()) as plane,
    ):
        async with Client(plane.admin_kubeconfig) as client:
            kube = KubeSide(plane, client)
            await kube.prepare()

            def tell(text: str) -> None:
                print(text, flush=True)

            tally = await side_by_side(
                kube,
                options.seed,
                options.count,
                first=options.first,
                pods_per_cluster=options.pods,
                without=frozenset(options.without),
                tell=tell,
            )
            return tally, await preemptions(kube, options.seed, options.preemptions, first=options.first, tell=tell)


if __name__ == "__main__":
    sys.exit(main())
