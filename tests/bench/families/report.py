"""What a run has shown: a table, what is not met, and the details of what is wrong."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from gangsched.core.decision import PREEMPT
from tests.bench.families.judge import Answer, Finding, above, harm_text
from tests.bench.families.others import RULES


class Goal(msgspec.Struct, frozen=True):
    """What a family has to reach: the share of plans at the optimum, how far above it the worst may be (None: at will),
    the share of plans that state a gap of at most a tenth, and the median of the gaps stated (None: at will). ``quick``
    is of how many clusters a quick run tells that: where some plans may be worse, of so many that two are no miss.
    """

    at_optimum: float = 0.99
    worst: float | None = 0.05
    close: float = 0.0
    gap: float | None = 0.0
    quick: int = 5


KNOWN = Goal()
#: Where nothing is known by construction, where rules fix the order, and all others.
GOALS = {"tight": Goal(0.90, None, 0.90, None, quick=20), "quota": Goal(1.0, 0.0, 0.0, None)}
HEADER = (
    "family", "clusters", "missed", "optimum %", "worst +%", "needless", "broken", "rules", "lies", "gap", "<=10 %",
    "proven %", "ms", "max ms", "cut: needless", "lies", "worse", "kube", "broken", "harm %", "koord", "broken",
    "harm %",
)  # fmt: skip


class Summary(msgspec.Struct):
    """One family. ``gap`` is the median of the stated gaps, infinite where most plans state none; ``close`` is the
    share of plans that state one of at most a tenth; ``rivals`` has, for other schedulers, what
    :func:`_beside` says.
    """

    family: str
    clusters: int
    missed: int
    optimum: float
    worst: float
    needless: int
    broken: int
    rules: int
    lies: int
    gap: float
    close: float
    proven: float
    median_ms: float
    max_ms: float
    cut_needless: int
    cut_lies: int
    worse: int
    rivals: dict[str, tuple[float, int, float] | None] = {}

    def row(self) -> list[object]:
        """Its row of the table."""
        return [
            self.family, self.clusters, self.missed, _percent(self.optimum), _percent(self.worst), self.needless,
            self.broken, self.rules, self.lies, "-" if math.isinf(self.gap) else f"{self.gap:g}",
            _percent(self.close), _percent(self.proven), f"{self.median_ms:.0f}", f"{self.max_ms:.0f}",
            self.cut_needless, self.cut_lies, self.worse, *self._rival("kube-scheduler"), *self._rival("koordinator"),
        ]  # fmt: skip

    def _rival(self, name: str) -> tuple[str, str, str]:
        found = self.rivals.get(name)
        return ("-", "-", "-") if found is None else (f"{found[0]:.2f}", str(found[1]), f"{100 * found[2]:.0f}")

    def not_met(self) -> list[str]:
        """The goals that this family misses, in words."""
        goal = GOALS.get(self.family, KNOWN)
        out = [
            f"{count} {what}"
            for count, what in (
                (self.missed, "plans were not found though there is one"),
                (self.needless, "plans with a victim that could be put back"),
                (self.broken if goal.worst is not None else 0, "plans that break a budget or a gang needlessly"),
                (self.rules, "plans that are against the rules"),
                (self.lies, "plans say of themselves what is not so"),
                (self.cut_needless, "searches cut short have a victim that could be put back, or no plan"),
                (self.cut_lies, "searches cut short say what is not so, or break the rules"),
                (self.worse, "longer searches did more harm than shorter ones"),
            )
            if count
        ]
        if self.optimum < goal.at_optimum:
            out.append(f"{_percent(self.optimum)} % at the optimum, not {_percent(goal.at_optimum)}")
        if goal.worst is not None and self.worst > goal.worst:
            out.append(f"up to {_percent(self.worst)} % above the optimum, not {_percent(goal.worst)}")
        if self.close < goal.close:
            out.append(f"{_percent(self.close)} % state a gap of at most a tenth, not {_percent(goal.close)}")
        if goal.gap is not None and self.gap > goal.gap:
            out.append(f"median gap {'not stated' if math.isinf(self.gap) else f'{self.gap:g}'}, not {goal.gap:g}")
        return [f"{self.family}: {text}" for text in out]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def summary(family: str, findings: Sequence[Finding]) -> Summary:
    """The findings of one family."""
    usual = [f.answer for f in findings]
    planned = [a for a in usual if a.outcome == PREEMPT]
    cut = [a for f in findings for a in f.cut]
    gaps = [math.inf if a.gap is None else float(a.gap) for a in planned]
    return Summary(
        family,
        len(findings),
        sum(a.outcome != PREEMPT for a in usual),
        sum(a.at_optimum for a in usual) / max(1, len(usual)),
        max((a.excess for a in planned), default=0.0),
        sum(bool(a.needless) for a in planned),
        sum(a.broken for a in planned),
        sum(bool(a.wrong) for a in planned),
        sum(bool(a.lie) for a in planned),
        statistics.median_low(gaps) if gaps else math.inf,
        sum(a.gap_share is not None and a.gap_share <= 0.1 for a in planned) / max(1, len(planned)),
        sum(bool(a.optimal) for a in planned) / max(1, len(planned)),
        statistics.median([a.milliseconds for a in usual]) if usual else 0.0,
        max((a.milliseconds for a in usual), default=0.0),
        sum(bool(a.needless) or a.outcome != PREEMPT for a in cut),
        sum(bool(a.lie or a.wrong) for a in cut),
        sum(bool(f.worse) for f in findings),
        {name: _beside(findings, name) for name in RULES},
    )


def _beside(findings: Sequence[Finding], name: str) -> tuple[float, int, float] | None:
    """Another scheduler's victims as a multiple of ours, the gangs that it leaves broken, and the share of clusters in
    which it does more harm than we do, or leaves a gang broken.
    """
    both = [(f.answer, f.others[name]) for f in findings if name in f.others and f.answer.outcome == PREEMPT]
    planned = [(mine, theirs) for mine, theirs in both if theirs is not None]
    if not planned:
        return None
    ratio = sum(theirs.victims for _, theirs in planned) / max(1, sum(mine.victims for mine, _ in planned))
    more = sum(theirs.broken > 0 or above(theirs, mine) for mine, theirs in planned) / len(planned)
    return ratio, sum(theirs.broken for _, theirs in planned), more


def details(found: Finding) -> list[str]:
    """What is wrong with one cluster's plans, a line each; nothing where all is well."""
    head = f"{found.family} --seed {found.seed} ({found.title})"
    lines = []
    if said := wrong(found.answer, found):
        lines.append(f"{head}, {found.answer.milliseconds:.0f} ms{', stopped' * found.answer.stopped}: {said}")
    bad = [(a.steps, said) for a in found.cut if (said := wrong(a, found))]
    if bad:
        lines.append(f"{head}, cut off after {', '.join(str(steps) for steps, _ in bad)} steps: {bad[0][1]}")
    if found.worse:
        lines.append(f"{head}: {found.worse}")
    return lines


def wrong(answer: Answer, found: Finding) -> str:
    """What is wrong with one plan, in words. How good a search is that was cut off is left open."""
    if answer.outcome != PREEMPT:
        return f"{answer.outcome}: {answer.message}"
    out = [text for text in (answer.wrong, answer.needless, answer.lie) if text]
    if not answer.at_optimum and not answer.steps:
        work = f", work {100 * answer.work_excess:.1f} % above" if answer.work_excess else ""
        out.append(f"harm {harm_text(answer)}, least {harm_text(found.least)}{work}")
    return "; ".join(out)


def summaries(findings: Iterable[Finding]) -> list[Summary]:
    """One for each family, in the order of the first finding of each."""
    by_family: dict[str, list[Finding]] = {}
    for found in findings:
        by_family.setdefault(found.family, []).append(found)
    return [summary(family, some) for family, some in by_family.items()]


def worse_than(before: Iterable[Finding], now: Iterable[Finding]) -> list[str]:
    """Plans that do more harm than those of another version did to the same clusters, in words."""
    known = {(f.family, f.seed, f.title): f.answer for f in before}
    out = []
    for found in now:
        then = known.get((found.family, found.seed, found.title))
        if (
            then is not None
            and then.outcome == PREEMPT
            and (found.answer.outcome != PREEMPT or above(found.answer, then))
        ):
            mine = harm_text(found.answer) if found.answer.outcome == PREEMPT else found.answer.outcome
            out.append(f"{found.family} --seed {found.seed}: {mine}, and {harm_text(then)} before")
    return out
