"""How good the choice of victims is: random small clusters against the exact optimum. Run it to see the numbers.

    python -m tests.bench.quality_small [--count 2000] [--first 0] [--no-anti-affinity] [--list 50]
    python -m tests.bench.quality_small --seed 27 --show

Even seeds have identical members, odd ones mixed; every third cluster has anti-affinity. *Feasible*: a plan is found
whenever there is one. *Harm equal*: components (a) to (c) are those of the optimum. *Needless*: plans with a victim
that could have been put back. *Rules*: planner and judge differ on what is allowed; each is a fault of one of them.
The search has its default budget; *cut short* are the plans for which that was not enough.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from gangsched.core.decision import PREEMPT
from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.preemption.harm import Harm
from tests.bench.publish.tables import table
from tests.oracle.case import Case
from tests.oracle.generate import case
from tests.oracle.judge import BETTER, EQUAL, ILLEGAL, MISSED, OUTCOME, WORSE, Finding, judge

KINDS = ("identical", "mixed", "identical, apart", "mixed, apart")


def anti_affinity_is_built() -> bool:
    """Does the planner have a filter for pod anti-affinity?"""
    return any("Affinity" in f.name and f.sees_pods for f in pipeline_of().filters)


def kind_of(seed: int, apart: bool) -> tuple[bool, bool]:
    """``(mixed, anti_affinity)`` of the cluster of a seed."""
    return seed % 2 == 1, apart and seed % 3 == 0


def made(seed: int, apart: bool) -> Case:
    """The cluster of a seed."""
    mixed, anti_affinity = kind_of(seed, apart)
    return case(seed, mixed=mixed, anti_affinity=anti_affinity)


class Tally:
    """Findings counted by kind of cluster."""

    def __init__(self) -> None:
        self.findings: dict[int, tuple[str, Finding]] = {}

    def add(self, seed: int, apart: bool, finding: Finding) -> None:
        """Count one."""
        mixed, anti_affinity = kind_of(seed, apart)
        self.findings[seed] = (KINDS[mixed + 2 * anti_affinity], finding)

    def of(self, kinds: tuple[str, ...]) -> list[Finding]:
        """The findings of these kinds of clusters."""
        return [f for kind, f in self.findings.values() if kind in kinds]

    def rows(self) -> list[list[object]]:
        """One row per kind of cluster, and the sum."""
        groups: list[tuple[str, tuple[str, ...]]] = [(k, (k,)) for k in KINDS if self.of((k,))]
        groups += [("all identical", KINDS[0::2]), ("all mixed", KINDS[1::2]), ("all", KINDS)]
        return [self._row(title, self.of(kinds)) for title, kinds in groups if self.of(kinds)]

    @staticmethod
    def _row(title: str, found: list[Finding]) -> list[object]:
        verdicts = Counter(f.verdict for f in found)
        solvable = [f for f in found if f.expected == PREEMPT]
        planned = [f for f in solvable if f.outcome == PREEMPT]
        times = sorted(f.seconds for f in found)
        return [
            title,
            len(found),
            len(solvable),
            percent(len(found) - verdicts[MISSED] - verdicts[OUTCOME], len(found)),
            percent(sum(f.verdict == EQUAL for f in planned), len(planned)),
            sum(f.needless > 0 for f in found),
            verdicts[WORSE],
            verdicts[ILLEGAL] + verdicts[BETTER],
            f"{1e3 * times[len(times) // 2]:.1f}",
            f"{1e3 * times[-1 - len(times) // 100]:.1f}",
            sum(f.stopped for f in found),
        ]

    def listed(self) -> list[list[object]]:
        """Every disagreement, by seed."""
        return [
            [
                seed,
                kind,
                f.verdict,
                f.outcome,
                f.expected,
                f.needless,
                "cut" if f.stopped else "",
                short(f.mine),
                short(f.best),
                f.why,
            ]
            for seed, (kind, f) in sorted(self.findings.items())
            if f.verdict != EQUAL or f.needless
        ]


HEADER = ["clusters", "number", "need victims", "feasible %", "harm equal %", "needless", "worse", "rules", "p50 ms"]
HEADER += ["p99 ms", "cut short"]


def percent(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{100.0 * part / whole:.2f}" if whole else "-"


def short(harm: Harm | None) -> str:
    """Components (a) to (c) in one cell."""
    if harm is None:
        return ""
    levels = " ".join(f"{p}:{gangs}g{pods}p" for p, gangs, pods in harm.levels)
    return f"a={harm.beyond_budget} {levels} w={harm.work:.1f}"


def show(seed: int, apart: bool) -> None:
    """One cluster, the plan and the optimum in full."""
    question = made(seed, apart)
    print(f"seed {seed}: {question.title}\n")
    print(table(["node", "allocatable", "labels", "notes"], [
        [n.name, amounts(n.allocatable), n.labels.get("topology.kubernetes.io/zone", ""),
         " ".join([*(t.key for t in n.taints), *(["cordoned"] if n.unschedulable else []),
                   *([] if n.ready else ["not ready"])])]
        for n in question.nodes
    ]))  # fmt: skip
    print(table(["gang", "min", "priority", "disruption", "group"], [
        [g.key, g.min_member, g.priority, g.disruption, ",".join(g.group)] for g in question.gangs
    ]))  # fmt: skip
    print(table(["pod", "node", "gang", "prio", "requests", "started", "notes"], [
        [p.name, p.node, p.gang.name if p.gang.family != "Pod" else "", p.priority, amounts(p.shape.requests),
         f"{p.started:.0f}" if p.node else "",
         " ".join([*(f"{k.rpartition('/')[2]}={v}" for k, v in p.labels.items()),
                   *(["terminating"] if p.deleting_since else []), *([p.owner.kind] if p.owner else []),
                   *(f"{k.rpartition('/')[2]}:{v}" for k, v in p.shape.node_selector),
                   *(f"apart({t.topology_key.rpartition('/')[2]},{t.selector.requirements[0].key}="
                     f"{t.selector.requirements[0].values[0]})" for t in p.shape.anti_affinity if t.selector)])]
        for p in sorted(question.pods, key=lambda p: (not p.node, p.node, p.gang.name, p.name))
    ]))  # fmt: skip
    for budget in question.budgets:
        wanted = budget.selector.requirements[0].values if budget.selector else ()
        print(f"budget {budget.name}: app in {wanted}, allowed {budget.allowed}, unavailable {budget.max_unavailable}")
    found = judge(question)
    print(f"\nverdict {found.verdict} {found.why}\nplanner {found.outcome}: {short(found.mine)}\n   {found.victims}")
    print(f"optimum {found.expected}: {short(found.best)}\n   {found.best_victims}\nneedless {found.needless}")


def amounts(requests: tuple[tuple[str, int], ...]) -> str:
    """Amounts in the units that the clusters are made of."""
    unit = {"cpu": 500, "memory": 1 << 30, "example.com/disk": 10 << 30}
    return " ".join(f"{k.rpartition('/')[2]}={v // unit.get(k, 1)}" for k, v in requests)


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 when a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="clusters (default 2000)")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--list", type=int, default=1000, help="disagreements to list at most")
    parser.add_argument("--seed", type=int, help="only this cluster")
    parser.add_argument("--show", action="store_true", help="with --seed: print all of it")
    parser.add_argument("--anti-affinity", action=argparse.BooleanOptionalAction, default=anti_affinity_is_built())
    given = parser.parse_args(arguments)
    if given.seed is not None and given.show:
        show(given.seed, given.anti_affinity)
        return 0
    start = time.perf_counter()
    tally = measure(given.first if given.seed is None else given.seed, given.count if given.seed is None else 1,
                    given.anti_affinity)  # fmt: skip
    print(table(HEADER, tally.rows()))
    listed = tally.listed()
    if listed:
        print(f"{len(listed)} disagreements (replay one: --seed N --show)")
        header = ["seed", "clusters", "verdict", "planner", "optimum", "needless", "", "its harm", "least harm", "why"]
        print(table(header, listed[: given.list]))
    print(f"{time.perf_counter() - start:.0f} s; anti-affinity {'on' if given.anti_affinity else 'off'}")
    problems = misses(tally)
    for problem in problems:
        print(f"NOT MET: {problem}")
    return 1 if problems else 0


def measure(first: int, count: int, apart: bool) -> Tally:
    """Judge the clusters of so many seeds."""
    tally = Tally()
    for seed in range(first, first + count):
        tally.add(seed, apart, judge(made(seed, apart)))
    return tally


def misses(tally: Tally) -> list[str]:
    """The targets that are not met, in words. One plan may always be worse, so that a small sample can pass at all."""
    out = []
    every = tally.of(KINDS)
    wrong = sum(f.verdict in (MISSED, OUTCOME) for f in every)
    if wrong:
        out.append(f"feasible whenever the optimum is: {wrong} of {len(every)} are not")
    if needless := sum(f.needless > 0 for f in every):
        out.append(f"no victim that could be put back: {needless} plans have one")
    if rules := sum(f.verdict in (ILLEGAL, BETTER) for f in every):
        out.append(f"planner and judge differ about the rules: {rules}")
    for title, kinds, target in (("identical", KINDS[0::2], 0.995), ("mixed", KINDS[1::2], 0.97)):
        planned = [f for f in tally.of(kinds) if f.expected == f.outcome == PREEMPT]
        equal = sum(f.verdict == EQUAL for f in planned)
        if len(planned) - equal > max(1, int((1 - target) * len(planned))):
            out.append(f"harm equal with {title} members: {percent(equal, len(planned))} %, wanted {100 * target} %")
    return out


if __name__ == "__main__":
    sys.exit(main())
