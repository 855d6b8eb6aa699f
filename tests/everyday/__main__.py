"""Play everyday clusters: lives in the simulator, answers of commands, pods beside a real kube-scheduler,
or an hour of ordinary traffic on a real control plane.

    python -m tests.everyday lives --first 0 --count 500
    python -m tests.everyday answers --first 0 --count 50
    python -m tests.everyday beside --first 0 --pods 2000
    python -m tests.everyday traffic --minutes 60

It prints what is wrong with each seed. Exit code 1: something is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.amounts import fresh_seed
from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from tests.everyday.answers import answers
from tests.everyday.beside import EverydaySide, beside
from tests.everyday.lives import Life
from tests.everyday.traffic import traffic
from tests.sidebyside.kube_side import settings

PLAYS: dict[str, Callable[[int], list[str]]] = {
    "lives": lambda seed: Life(seed).play(),
    "answers": lambda seed: answers(seed)[0],
}


def wrong(play: Callable[[int], list[str]], seed: int) -> list[str]:
    """What is wrong with one seed, an error included."""
    try:
        return play(seed)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return [traceback.format_exc()]


async def _beside(seed: int, pods: int) -> int:
    with tempfile.TemporaryDirectory(prefix="everyday-") as folder, ControlPlane(Path(folder), **settings()) as plane:
        async with Client(plane.admin_kubeconfig) as client:
            kube = EverydaySide(plane, client)
            await kube.prepare()
            print(f"seed {seed}", flush=True)
            tally = await beside(kube, seed, pods, lambda text: print(text, flush=True))
    for text, times in tally.reasons.most_common():
        print(f"{times:5} pods were told: {text}")
    for why, times in sorted(tally.explained.items()):
        print(f"explained {times} times: {why}")
    print(
        f"seed {seed}: {tally.pods} pods on {tally.clusters} clusters, {tally.scheduled} scheduled; "
        f"{len(tally.disagreements)} differences, {len(tally.illegal)} illegal placements, "
        f"{len(tally.checker)} differences of the checker"
    )
    return 1 if tally.disagreements or tally.illegal or tally.checker else 0


async def _traffic(seconds: float) -> int:
    with tempfile.TemporaryDirectory(prefix="everyday-") as folder:
        seen = await traffic(Path(folder), seconds)
    waits = sorted(seen.waits) or [0.0]
    median, late = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    print(
        f"{len(seen.waits)} pods were bound: p50 {median:.3f} s, p99 {late:.3f} s, "
        f"longest {waits[-1]:.3f} s; {seen.gangs_bound} of {seen.gangs} gangs; memory "
        f"{max(seen.memory) / 2**20:.0f} MiB at most, last quarter {seen.growth:.3f} times the second"
    )
    for text in seen.wrong():
        print(text)
    return 1 if seen.wrong() else 0


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.everyday", description=__doc__)
    parser.add_argument("what", choices=(*PLAYS, "beside", "traffic"))
    parser.add_argument("--first", type=int, metavar="SEED", help="default: 0; beside: one that is new, and printed")
    parser.add_argument("--count", type=int, default=100, metavar="SEEDS")
    parser.add_argument("--pods", type=int, default=300, help="pods to ask kube-scheduler about (default 300)")
    parser.add_argument("--minutes", type=float, default=60.0, help="of traffic (default 60)")
    given = parser.parse_args()
    if given.what == "traffic":
        return asyncio.run(_traffic(60.0 * given.minutes))
    if given.what == "beside":
        return asyncio.run(_beside(fresh_seed() if given.first is None else given.first, given.pods))
    count, given.first = 0, given.first or 0
    for seed in range(given.first, given.first + given.count):
        found = wrong(PLAYS[given.what], seed)
        count += bool(found)
        for text in found:
            print(f"seed {seed}: {text}", flush=True)
    print(f"{given.count} seeds from {given.first}: {count} wrong")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
