"""Random clusters, random faults, random troubles, crashes anywhere: what may never happen does not.

    python -m tests.chaos [--count 20000] [--first 0] [--jobs N]
    python -m tests.chaos --seed 4711 [--history]     replays one, with all that happened
    python -m tests.chaos --parts queues,volumes      every seed has these parts, rather than a share of them ('': none)

A seed that fails is printed with what was wrong; the exit code is then 1. The last line says which failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from gangsched.cluster.sim import history as log
from tests.chaos.checks import problems
from tests.chaos.counted import beyond
from tests.chaos.play import play
from tests.chaos.refusals import REFUSED
from tests.chaos.scenario import PARTS, scenario

#: So often it is told on stderr how far it is.
PROGRESS_SECONDS = 10.0


class Result(msgspec.Struct):
    """What one seed came to."""

    seed: int
    problems: list[str]
    seen: Counter[str]


def run(seed: int, parts: Collection[str] | None = None) -> Result:
    """Play one seed; an exception is a problem like any other."""
    made = scenario(seed, parts=parts)
    seen: Counter[str] = Counter(t.name for t in made.troubles)
    seen.update(f"with {name}" for name in made.parts)
    try:
        played = play(made)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed must be printed
        return Result(seed, [f"{type(error).__name__}: {error}"], seen)
    seen["crashes"] = played.processes - 1
    history = played.world.history
    seen["preempting decisions"] = sum(d.outcome == "preempt" for d in played.decisions)
    seen["pods bound"] = sum(1 for e in history.with_verbs(log.BIND, actor=log.SCHEDULER) if e.outcome == log.OK)
    seen["pods evicted"] = sum(
        1 for e in history.with_verbs(log.DELETE, log.EVICT, actor=log.SCHEDULER) if e.outcome == log.OK and e.changed
    )
    seen.update({f"beyond the promise: {what}": count for what, count in beyond(played).items()})
    seen["Jobs suspended"] = sum(e.changed and e.outcome == log.OK for e in history.with_verbs(log.SUSPEND))
    seen["Jobs resumed"] = sum(e.changed and e.outcome == log.OK for e in history.with_verbs(log.RESUME))
    removed = [e for e in history.with_verbs(log.DELETE, log.EVICT, log.SUSPEND) if e.outcome == log.OK and e.changed]
    seen["rolled back"] = sum(bool(log.rolled_back_for(e)) for e in removed)
    seen["drained"] = sum(log.drained_by(e) is not None for e in removed)
    seen["claims bound or asked for"] = sum(
        e.changed and e.outcome == log.OK
        for e in history.with_verbs(log.BIND_VOLUME, log.SELECT_NODE, actor=log.SCHEDULER)
    )
    seen["claims given devices"] = sum(
        e.changed and e.outcome == log.OK for e in history.with_verbs(log.ALLOCATE, actor=log.SCHEDULER)
    )
    seen["claims released"] = sum(
        e.changed and e.outcome == log.OK for e in history.with_verbs(log.RELEASE_CLAIM, actor=log.SCHEDULER)
    )
    seen["Jobs complete"] = sum(1 for _ in history.with_verbs(log.COMPLETE))
    seen["writes that failed"] = sum(1 for e in history if e.actor == log.SCHEDULER and e.outcome != log.OK)
    seen["bindings refused"] = sum(e.outcome == REFUSED for e in history.with_verbs(log.BIND, actor=log.SCHEDULER))
    return Result(seed, problems(played), seen)


def main() -> int:
    """Run the seeds; 1 when any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="seeds to play (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, help="play this one only, and say what happened in it")
    parser.add_argument("--history", action="store_true", help="with --seed: every entry of the history")
    parser.add_argument("--parts", metavar="NAMES", help=f"of {','.join(PARTS)} (default: each seed draws)")
    args = parser.parse_args()
    parts = None if args.parts is None else [name for name in args.parts.split(",") if name]
    if parts is not None and (unknown := [name for name in parts if name not in PARTS]):
        parser.error(f"--parts: there is no {unknown[0]!r}, only {', '.join(PARTS)}")
    if args.seed is not None:
        return _replay(args.seed, args.history, parts)
    seen: Counter[str] = Counter()
    failed: list[int] = []
    began = told = time.perf_counter()
    with multiprocessing.Pool(args.jobs) as pool:
        seeds = range(args.first, args.first + args.count)
        for done, result in enumerate(pool.imap_unordered(partial(run, parts=parts), seeds, chunksize=20), 1):
            seen.update(result.seen)
            if result.problems:
                failed.append(result.seed)
                print(f"seed {result.seed}:", *result.problems, sep="\n    ", flush=True)
            now = time.perf_counter()
            if now >= told + PROGRESS_SECONDS:
                left = (now - began) * (args.count - done) / done
                print(
                    f"{done} of {args.count} seeds, {len(failed)} failed, {left:.0f} s left",
                    file=sys.stderr,
                    flush=True,
                )
                told = now
    for name, count in sorted(seen.items()):
        print(f"  {count:>9,}  {name.replace('_', ' ')}")
    print(verdict(seeds, failed, time.perf_counter() - began))
    return 1 if failed else 0


def verdict(seeds: range, failed: Sequence[int], seconds: float) -> str:
    """What has come of it, in one line."""
    names = ": " + ", ".join(map(str, sorted(failed))) if failed else ""
    return f"{len(seeds)} seeds ({seeds.start} to {seeds.stop - 1}) in {seconds:.0f} s, {len(failed)} failed{names}"


def _replay(seed: int, everything: bool, parts: Collection[str] | None) -> int:
    made = scenario(seed, parts=parts)
    played = play(made)
    print("parts:", *made.parts or ["none"])
    for crash in made.crashes:
        print(f"crash: {crash}")
    for trouble in made.troubles:
        print(f"trouble: {trouble.at_seconds} s {trouble.name}")
    for entry in played.world.history if everything else ():
        print(entry.number, *entry.as_json().values(), "" if entry.changed else "(unchanged)")
    found = problems(played)
    print(*found or ["nothing is wrong"], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
