"""Nothing lost, shown on a real API server: kills, hand-overs, a faulty network, rivals, overload, mutants.

    python -m tests.resilience kills [--count 100] [--only one|two|frozen]
    python -m tests.resilience proxy
    python -m tests.resilience load [--pods 100000]
    python -m tests.resilience mutants

Each prints a table and ends with 1 when anything in it is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.bench.publish.tables import table
from tests.controlplane.plane import ControlPlane
from tests.resilience import crashes, crowd, mutants, overload, proxyload
from tests.resilience.crashes import FROZEN, ONE, TWO, Outcome
from tests.resilience.findings import Findings

_SHORT = {"one": ONE, "two": TWO, "frozen": FROZEN}


def main() -> int:
    """Parse and run; 0 when all is well."""
    parser = argparse.ArgumentParser(prog="python -m tests.resilience", description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    kills = commands.add_parser("kills", help="processes end and freeze at random moments while gangs preempt")
    kills.add_argument("--count", type=int, default=100, help="kills of the only process (default: 100)")
    kills.add_argument("--handovers", type=int, default=20, help="hand-overs of two replicas (default: 20)")
    kills.add_argument("--freezes", type=int, default=10, help="SIGSTOPs of two replicas (default: 10)")
    kills.add_argument("--seed", type=int, default=0)
    kills.add_argument("--only", choices=tuple(_SHORT), help="one mode")
    kills.add_argument("--keep", type=Path, help="keep logs and the audit log in this folder")
    proxy = commands.add_parser("proxy", help="stories, many gangs, another scheduler, overload: behind a faulty proxy")
    proxy.add_argument("--gangs", type=int, default=500, help="gangs in the storm (default: 500)")
    proxy.add_argument("--nodes", type=int, default=40, help="nodes for them (default: 40)")
    proxy.add_argument("--rivals", type=int, default=300, help="pods of kube-scheduler beside (default: 300)")
    proxy.add_argument("--seconds", type=float, default=20.0, help="how long each overload lasts (default: 20)")
    proxy.add_argument("--seed", type=int, default=0)
    proxy.add_argument("--only", choices=("stories", "load", "rival", "overload"), help="one part")
    proxy.add_argument("--keep", type=Path, help="keep logs and the audit log in this folder")
    load = commands.add_parser("load", help="very many pods: memory, requests on their way, probes, lease, loop lag")
    load.add_argument("--pods", type=int, default=100_000, help="how many (default: 100000)")
    load.add_argument("--keep", type=Path, help="keep logs in this folder")
    mutants_ = commands.add_parser("mutants", help="the tests tested: each safeguard is removed once")
    mutants_.add_argument("--only", default="", help="mutants whose name contains this")
    args = parser.parse_args()
    return {"kills": _kills, "proxy": _proxy, "load": _load, "mutants": _mutants}[args.command](args)


def _kills(args: argparse.Namespace) -> int:
    counts = {ONE: args.count, TWO: args.handovers, FROZEN: args.freezes}
    outcomes = []
    for short, mode in _SHORT.items():
        if args.only in (None, short):
            print(f"{mode}: {counts[mode]} times, seed {args.seed} ...", file=sys.stderr, flush=True)
            keep = args.keep / short if args.keep else None
            outcomes.append(asyncio.run(crashes.play(mode, counts[mode], args.seed, keep)))
    print(render(outcomes))
    return 0 if all(o.good for o in outcomes) else 1


def _proxy(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="resilience-") as name:
        folder = args.keep or Path(name)
        loads: list[proxyload.Outcome] = []
        overloads: list[overload.Outcome] = []
        if args.only in (None, "stories"):
            loads += asyncio.run(_with_plane(folder / "stories", proxyload.stories, args.seed))
        if args.only in (None, "load"):
            loads.append(asyncio.run(_with_plane(folder / "load", _many, args)))
        if args.only in (None, "rival"):
            loads.append(asyncio.run(_with_plane(folder / "rival", _beside, args, kube_scheduler=proxyload.RIVAL)))
        for number, (kind, weather) in enumerate(overload.KINDS.items()):
            if args.only in (None, "overload"):
                print(f"{kind} ...", file=sys.stderr, flush=True)
                part = folder / f"overload-{number}"
                part.mkdir(parents=True, exist_ok=True)
                overloads.append(asyncio.run(overload.overload(kind, args.seconds, part, weather)))
    print(render_loads(loads))
    if overloads:
        print(render_overloads(overloads))
    return 0 if all(o.good for o in loads) and all(o.good for o in overloads) else 1


async def _with_plane(folder: Path, play: Callable[..., Awaitable[Any]], argument: Any, **options: Any) -> Any:
    """Run one part on a control plane of its own."""
    print(f"{folder.name} ...", file=sys.stderr, flush=True)
    plane = ControlPlane(folder / "plane", audit=True, **options)
    await asyncio.to_thread(plane.start)  # this makes the folder, too
    try:
        return await play(plane, folder, argument)
    finally:
        await asyncio.to_thread(plane.stop)


async def _many(plane: ControlPlane, folder: Path, args: argparse.Namespace) -> proxyload.Outcome:
    return await proxyload.load(plane, folder, args.seed, gangs=args.gangs, nodes=args.nodes)


async def _beside(plane: ControlPlane, folder: Path, args: argparse.Namespace) -> proxyload.Outcome:
    gangs, nodes = args.gangs // 5, max(4, args.nodes // 4)
    return await proxyload.load(
        plane, folder, args.seed, gangs=gangs, nodes=nodes, rivals=args.rivals, stormy=False, at_once=60
    )


def _load(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="resilience-") as name:
        outcome = asyncio.run(crowd.crowd(args.pods, args.keep or Path(name)))
    print(render_crowd(outcome))
    return 0 if outcome.good else 1


def _mutants(args: argparse.Namespace) -> int:
    chosen = [m for m in mutants.MUTANTS if args.only in m.name]
    with mutants.Runner() as runner:
        first, verdicts = runner.unchanged(chosen), [runner.run(m) for m in chosen]
    print(mutants.render([first, *verdicts]))
    return 0 if not first.killed and all(v.killed for v in verdicts) else 1


def render_loads(outcomes: list[proxyload.Outcome]) -> str:
    """The table of stories and loads, what went wrong on purpose, and what is wrong."""
    header = (
        "what",
        "gangs whole",
        "pods bound",
        "seconds",
        "preempting plans",
        "victims planned",
        "evicted",
        "faults",
        "late, given up",
        "pods of the other",
        "beyond room, by us / the other",
        "oldest picture ms",
        "longest underway ms",
        "known when it left",
        "gangs planned again",
        "violations",
    )
    rows = [
        (
            o.name,
            o.gangs,
            o.pods,
            f"{o.seconds:.0f}",
            o.preemptions,
            o.planned,
            o.evicted,
            sum(o.faults.values()),
            o.late,
            o.rivals,
            f"{o.beyond_by_us} / {o.beyond_by_others}",
            f"{o.oldest_picture_ms:.0f}",
            f"{o.underway_ms:.0f}",
            o.learned,
            o.planned_again,
            sum(map(len, o.violations.values())),
        )
        for o in outcomes
    ]
    lines = [table(header, rows)]
    for o in outcomes:
        lines.append(f"{o.name}: " + (", ".join(f"{n} {what}" for what, n in sorted(o.faults.items())) or "no faults"))
        lines += _wrong(o.name, o)
    return "\n".join(lines)


def render_overloads(outcomes: list[overload.Outcome]) -> str:
    """The table of overloads."""
    header = (
        "overload",
        "seconds",
        "gangs whole meanwhile",
        "gangs whole",
        "429",
        "most requests at once",
        "probes answered",
        "slowest ms",
        "loop lag p99 ms below",
        "leaders",
    )
    rows = [
        (
            o.name,
            f"{o.seconds:.0f}",
            o.gangs_during,
            o.gangs,
            o.refused,
            o.at_once,
            o.probes,
            f"{o.slowest_probe_ms:.0f}",
            f"{o.lag_ms:.0f}",
            o.leaders,
        )
        for o in outcomes
    ]
    lines = [table(header, rows)]
    for o in outcomes:
        lines += _wrong(o.name, o)
    return "\n".join(lines)


def render_crowd(o: crowd.Outcome) -> str:
    """The table of very many pods, one figure a line."""
    rows = [
        ("pods", f"{o.pods}"),
        ("loaded per second", f"{o.loaded_per_second:.0f}"),
        ("bound by us", f"{o.bound}"),
        ("seconds", f"{o.seconds:.0f}"),
        *((f"resident memory, {when}", f"{mb:.0f} MB") for when, mb in o.rss_mb.items()),
        ("resident memory, highest", f"{o.peak_mb:.0f} MB"),
        ("most requests at once", f"{o.at_once}"),
        ("longest time between two renewals of the lease", f"{o.lease_gap_seconds:.1f} s"),
        ("holders of the lease", f"{o.leaders}"),
        ("probes answered, slowest", f"{o.probes}, {o.slowest_probe_ms:.0f} ms"),
        ("loop lag, p99 below", f"{o.lag_ms:.0f} ms"),
        ("lag of a loop that does nothing, p99", f"{o.idle_lag_ms:.1f} ms"),
    ]
    return "\n".join([table(("what", "how much"), rows), *(f"wrong: {text}" for text in [*o.problems, *o.slow])])


def _wrong(name: str, found: Findings) -> list[str]:
    lines = []
    for kind, texts in found.violations.items():
        lines += [f"{name}: {kind}: {len(texts)}"] if texts else []
        lines += [f"    {text}" for text in texts[:10]]
    return [*lines, *(f"{name}: {text}" for text in [*found.problems, *found.slow])]


def render(outcomes: list[Outcome]) -> str:
    """The table, and below it what is wrong."""
    header = (
        "mode",
        "kills",
        "stops",
        "freezes",
        "just after a step",
        "minutes",
        "gangs whole",
        "preempting plans",
        "victims planned",
        "evicted",
        "writes judged",
        "late, given up",
        "late, sent before",
        "late, refused",
        "late, stopped meanwhile",
        "violations",
        "hand-over p50/max s",
    )
    rows = [
        (
            o.mode,
            o.kills,
            o.stops,
            o.freezes,
            o.struck,
            f"{o.seconds / 60:.1f}",
            o.gangs,
            o.preemptions,
            o.planned,
            o.evicted,
            o.writes,
            o.late,
            o.on_the_wire,
            o.fenced,
            o.midway,
            sum(map(len, o.violations.values())),
            _handovers(o),
        )
        for o in outcomes
    ]
    lines = [table(header, rows)]
    for o in outcomes:
        lines += _wrong(o.mode, o)
    return "\n".join(lines)


def _handovers(outcome: Outcome) -> str:
    return "; ".join(
        f"{what} {sorted(times)[len(times) // 2]:.1f}/{max(times):.1f}" for what, times in outcome.handovers.items()
    )


if __name__ == "__main__":
    sys.exit(main())
