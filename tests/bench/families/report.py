"""What a run has shown: a table, what is not met, and the details of what is wrong."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from gangsched.core.decision import PREEMPT
from tests.bench.families.judge import Answer, Finding, harm_text

#: Of the clusters of a family, how many are at the optimum at least; how far above one may be.
AT_OPTIMUM, WORST = 0.99, 0.05
HEADER = (
    "family", "clusters", "missed", "optimum %", "worst +%", "needless", "broken", "rules", "gap wrong", "gap",
    "proven %", "ms", "max ms", "cut: needless", "lies", "worse", "kube", "broken", "koord", "broken",
)  # fmt: skip


class Summary(msgspec.Struct):
    """One family."""

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
    proven: float
    median_ms: float
    max_ms: float
    cut_needless: int
    cut_lies: int
    worse: int
    rivals: dict[str, tuple[float, int] | None] = {}

    def row(self) -> list[object]:
        """Its row of the table."""
        return [
            self.family, self.clusters, self.missed, f"{100 * self.optimum:.1f}", f"{100 * self.worst:.1f}",
            self.needless, self.broken, self.rules, self.lies, "-" if math.isinf(self.gap) else f"{self.gap:g}",
            f"{100 * self.proven:.0f}", f"{self.median_ms:.0f}", f"{self.max_ms:.0f}", self.cut_needless,
            self.cut_lies, self.worse, *self._rival("kube-scheduler"), *self._rival("koordinator"),
        ]  # fmt: skip

    def _rival(self, name: str) -> tuple[str, str]:
        found = self.rivals.get(name)
        return ("-", "-") if found is None else (f"{found[0]:.2f}x", str(found[1]))

    def not_met(self) -> list[str]:
        """The goals that this family misses, in words."""
        out = [
            f"{self.family}: {count} {what}"
            for count, what in (
                (self.missed, "plans were not found though there is one"),
                (self.needless, "plans with a victim that could be put back"),
                (self.broken, "plans that break a budget or a gang needlessly"),
                (self.rules, "plans that are against the rules"),
                (self.lies, "plans with a gap that is not true"),
                (self.cut_needless, "searches cut short left a victim that could be put back, or found no plan"),
                (self.cut_lies, "searches cut short told a gap that is not true, or broke the rules"),
                (self.worse, "longer searches did more harm than shorter ones"),
            )
            if count
        ]
        return [*out, *self._quality()]

    def _quality(self) -> list[str]:
        out = []
        if self.optimum < AT_OPTIMUM:
            out.append(f"{self.family}: {100 * self.optimum:.1f} % at the optimum, not {100 * AT_OPTIMUM:.0f}")
        if self.worst > WORST:
            out.append(f"{self.family}: up to {100 * self.worst:.1f} % above the optimum, not {100 * WORST:.0f}")
        if self.gap > 0:
            out.append(f"{self.family}: median gap {'not told' if math.isinf(self.gap) else f'{self.gap:g}'}, not 0")
        return out


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
        sum(bool(a.optimal) for a in planned) / max(1, len(planned)),
        statistics.median([a.milliseconds for a in usual]) if usual else 0.0,
        max((a.milliseconds for a in usual), default=0.0),
        sum(bool(a.needless) or a.outcome != PREEMPT for a in cut),
        sum(bool(a.lie or a.wrong) for a in cut),
        sum(bool(f.worse) for f in findings),
    )


def details(found: Finding) -> list[str]:
    """What is wrong with one cluster's plans, a line each; nothing where all is well."""
    head = f"{found.family} --seed {found.seed} ({found.title})"
    lines = []
    for answer in (found.answer, *found.cut):
        if said := wrong(answer, found):
            when = f"cut off after {answer.steps} steps" if answer.steps else f"{answer.milliseconds:.0f} ms"
            lines.append(f"{head}, {when}{', stopped' if answer.stopped else ''}: {said}")
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
