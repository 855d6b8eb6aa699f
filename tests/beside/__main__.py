"""Rounds beside kube-scheduler: does the room that is freed for a gang reach it, whoever wants it meanwhile?

    python -m tests.beside [--count 50] [--seed 0] [--hold auto|always|never] [--troubles] [--keep FOLDER]

Prints a table and ends with 1 when a round was not good. With --troubles each round has something go wrong: the leader
is killed in each phase, writes to nodes fail, another client edits taints, a node is made anew.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.bench.publish.tables import table
from tests.beside.rounds import OTHERS, Outcome, Round, play, rounds
from tests.beside.troubles import TROUBLES, Stage
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import running_scheduler
from tests.faulty_proxy import FaultyProxy


def main() -> int:
    """Parse and run; 0 when all is well."""
    parser = argparse.ArgumentParser(prog="python -m tests.beside", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=50, help="rounds (default: 50)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of them (default: 0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hold", choices=("auto", "always", "never"), default="auto", help="preemption.holdRoom")
    parser.add_argument("--troubles", action="store_true", help="one round for each trouble instead")
    parser.add_argument("--keep", type=Path, help="keep logs in this folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beside-") as name:
        outcomes = asyncio.run(_play(args, args.keep or Path(name)))
    print(render(outcomes))
    return 0 if all(outcome.good for outcome in outcomes) else 1


async def _play(args: argparse.Namespace, folder: Path) -> list[Outcome]:
    outcomes = []
    plane = ControlPlane(folder / "plane", kube_scheduler=OTHERS)
    await asyncio.to_thread(plane.start)  # this makes the folder, too
    try:
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
            if args.troubles:
                return await _troubles(plane, admin, folder)
            preemption = {"holdRoom": args.hold}
            async with running_scheduler(plane.scheduler_kubeconfig, folder, preemption=preemption):
                for made in list(rounds(args.first + args.count, args.seed))[args.first :]:
                    outcome = await play(admin, plane.admin_kubeconfig, folder, made)
                    outcomes.append(outcome)
                    print(_said(outcome), file=sys.stderr, flush=True)
    finally:
        await asyncio.to_thread(plane.stop)
    return outcomes


async def _troubles(plane: ControlPlane, admin: Client, folder: Path) -> list[Outcome]:
    outcomes = []
    with FaultyProxy(plane.server, plane.ca_file) as proxy:
        kubeconfig = plane.kubeconfig(SCHEDULER_USER, proxy.url)
        stage = Stage(admin, plane.admin_kubeconfig, kubeconfig, proxy, folder)
        for number, (name, trouble) in enumerate(TROUBLES.items()):
            made = Round(number, nodes=4, kind="Deployment", grace=5, members=4, wanting=2)
            outcome = await trouble(stage, made)
            outcomes.append(outcome)
            print(f"{name}: {_said(outcome)}", file=sys.stderr, flush=True)
    return outcomes


def _said(outcome: Outcome) -> str:
    made, what = outcome.round, "whole" if outcome.whole else "IN PART" if outcome.in_part else "LOST"
    shape = f"{made.kind} {made.nodes} nodes, grace {made.grace} s, {made.members} members"
    others = f"{made.wanting} wanting, {made.more} more{', daemons' if made.daemons else ''}"
    counts = f"evicted {outcome.evicted} of {outcome.planned} planned"
    times = f"{outcome.seconds:.1f} s (span {outcome.span:.2f}), released after {outcome.released:.1f} s"
    lost = f", {outcome.lost} TAINTS LOST" if outcome.lost else ""
    return f"{made.number:3}  {what}  {shape}, {others}: {counts}, {times}{lost}"


def render(outcomes: list[Outcome]) -> str:
    """How many rounds ended how, by the kind of controller."""
    header = ("victims of", "rounds", "whole", "in part", "evicted", "planned", "more than planned", "taints left")
    rows = []
    for kind in dict.fromkeys(o.round.kind for o in outcomes):
        theirs = [o for o in outcomes if o.round.kind == kind]
        rows.append(_row(kind, theirs))
    return table(header, [*rows, _row("all", outcomes)])


def _row(name: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    counts = (
        len(outcomes),
        sum(o.whole for o in outcomes),
        sum(o.in_part for o in outcomes),
        sum(o.evicted for o in outcomes),
        sum(o.planned for o in outcomes),
        sum(o.evicted > o.planned for o in outcomes),
        sum(o.released < 0 for o in outcomes),
    )
    return (name, *map(str, counts))


if __name__ == "__main__":
    sys.exit(main())
