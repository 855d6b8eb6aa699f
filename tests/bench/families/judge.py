"""One cluster, the planner's answers with different budgets of steps, and what is wrong with them."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from gangsched.core.arrays import union
from gangsched.core.decision import PREEMPT, Decision, Verdict
from gangsched.core.planning.context import Question, SchedulingContext
from gangsched.core.planning.cycle import Decider
from gangsched.core.planning.outcomes import Outcomes
from tests.bench.families.known import Cluster, Least, Levels, Part, least_of
from tests.bench.families.others import RULES, Evicted, fits, small_enough
from tests.bench.families.reading import Reading
from tests.bench.worlds import World

#: Plans with up to so many units are looked through unit by unit, as far as the questions below reach.
ONE_BY_ONE = 300
#: A placement is about so many looks at one node for one member; so many looks are spent on the question whether
#: anything could be put back.
_LOOKS = 3_000_000
#: At the optimum nothing can be put back: putting it back would do less harm. Some are asked all the same.
_ASKED_AT_OPTIMUM = 8


class Answer(msgspec.Struct):
    """What came of one plan.

    ``steps`` is the budget (0: the usual one). ``wrong`` says what is against the rules. ``excess`` is by how much the
    plan is above the optimum in the first part of harm in which it is, as a share of the optimum there (of one, where
    that is 0). ``broken`` says that a budget is exceeded or a gang interrupted more than need be. ``needless`` says
    what could be put back, ``asked`` how many things were tried. ``lie`` says what is not true of what the plan says
    of itself. ``gap`` is the bound that it states: 0 where it says that it is optimal, None where it says nothing;
    ``gap_share`` is the same as a share of what the plan has in that part of harm.
    """

    steps: int
    outcome: str
    milliseconds: float
    spent: int = 0
    stopped: bool = False
    victims: int = 0
    at_optimum: bool = False
    excess: float = 0.0
    broken: bool = False
    owners: int = 0
    work: float = 0.0
    work_excess: float = 0.0
    wrong: str = ""
    needless: str = ""
    asked: int = 0
    lie: str = ""
    optimal: bool | None = None
    gap: int | None = None
    gap_share: float | None = None
    beyond: int = 0
    levels: Levels = ()
    message: str = ""


class Finding(msgspec.Struct):
    """One cluster: the plan with the usual budget, those that were cut short, and the other schedulers' victims."""

    family: str
    seed: int
    title: str
    least: Least
    nodes: int
    answer: Answer
    cut: list[Answer] = []
    worse: str = ""
    others: dict[str, Evicted | None] = {}
    seconds: float = 0.0


def judge(family: str, seed: int, cluster: Cluster, cuts: Sequence[int] = ()) -> Finding:
    """Ask the planner, with its usual budget and cut off after so many steps, and compare with the optimum."""
    start = time.perf_counter()
    court = Court(cluster)
    usual = court.answer(0)
    found = Finding(family, seed, cluster.title, cluster.least, len(cluster.nodes), usual)
    found.cut = [court.answer(steps) for steps in sorted(cuts)]
    found.worse = never_worse([*found.cut, usual])
    if small_enough(cluster):
        found.others = {name: rule(court.reading, court.attempt()) for name, rule in RULES.items()}
    found.seconds = time.perf_counter() - start
    return found


def never_worse(answers: Sequence[Answer]) -> str:
    """What is wrong if plans, in the order of their budgets, do more harm with more steps; empty if they do not."""
    planned = [a for a in answers if a.outcome == PREEMPT]
    for fewer, more in pairwise(planned):
        then = more.owners > fewer.owners
        if more.owners == fewer.owners:
            then = more.work > fewer.work * (1 + 1e-6)
        if above(more, fewer) or (differing(more, fewer) is None and then):
            return f"{harm_text(more)} after {more.steps or 'all'} steps, {harm_text(fewer)} after {fewer.steps}"
    return ""


class Court:
    """A warm world with the cluster in it, and the optimum."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.reading = Reading(cluster)
        self.warm = World(cluster)
        self._known: dict[frozenset[str], tuple[str, int]] = {}

    def answer(self, steps: int) -> Answer:
        """One plan, judged."""
        decider = self.warm.decider
        if steps:
            options = msgspec.structs.replace(self.cluster.options, search_steps=steps)
            decider = Decider(self.warm.world, decider.ledger, options)
        gangs = self.warm.gangs[0]
        start = time.thread_time()
        verdict = decider.decide(Question(gangs))
        return self.judged(verdict, steps, 1e3 * (time.thread_time() - start))

    def judged(self, verdict: Verdict, steps: int = 0, milliseconds: float = 0.0) -> Answer:
        """What is to be said of a plan."""
        decision = verdict.decisions[0]
        out = Answer(steps, verdict.outcome, milliseconds, decision.steps, decision.stopped, len(verdict.victims))
        out.message = decision.message[:200]
        if verdict.outcome != PREEMPT:
            out.excess = 1.0
            return out
        victims = [v.uid for v in verdict.victims]
        units, wrong = self.reading.units(victims)
        if wrong:
            out.wrong = "; ".join(wrong[:3])
            out.broken = True
            return out
        out.wrong = self.reading.misplaced(victims, verdict.placements)
        if not self.reading.beyond(verdict.victims):
            out.wrong = out.wrong or "the victims marked as beyond a budget are not those counted"
        self._compare(victims, out)
        out.lie = self._untrue(decision, out)
        out.optimal = decision.optimal
        if decision.optimal:
            out.gap, out.gap_share = 0, 0.0
        elif decision.gap is not None:
            out.gap = decision.gap.at_most
            out.gap_share = out.gap / max(1, value(out, (decision.gap.component, decision.gap.priority)))
        key = frozenset(victims)
        if key not in self._known:
            self._known[key] = self._needless(units, out.at_optimum)
        out.needless, out.asked = self._known[key]
        return out

    def _compare(self, victims: Sequence[str], out: Answer) -> None:
        if self.cluster.victims and self.cluster.victims != set(victims):
            out.wrong = out.wrong or "not the victims of the rules of quota"
            out.excess = 1.0
            return
        found = self.reading.harm(victims)
        mine, best = least_of(found), self.cluster.least
        out.beyond, out.levels, out.owners, out.work = mine.beyond, mine.levels, found.owners, found.work
        part = self._above_in(mine)
        out.at_optimum = part is None
        if part is None:
            if best.work is not None:
                out.work_excess = max(0.0, found.work / best.work - 1.0) if best.work else 0.0
                out.at_optimum = out.work_excess < 1e-6
                out.excess = 0.0 if out.at_optimum else out.work_excess
            return
        if not above(mine, best):
            out.wrong = out.wrong or f"less harm than is possible: {harm_text(mine)}, at least {harm_text(best)}"
            return
        here, there = value(mine, part), value(best, part)
        out.excess = (here - there) / max(1, there)
        out.broken = part[0] in ("pdb", "gangs")

    def _above_in(self, of: Answer | Least) -> Part | None:
        """The first part of harm that is not that of the optimum, as far as is known what that is."""
        best = self.cluster.least
        part = differing(of, best)
        if part is None or best.doubt is None or place(part) < place(best.doubt):
            return part
        return part if part == best.doubt and value(of, part) > value(best, part) else None

    def _untrue(self, decision: Decision, out: Answer) -> str:
        """What the plan says of itself and is not so."""
        if self.cluster.victims:
            return "" if decision.optimal is None else "quota's rules fix the order, and the plan speaks of an optimum"
        part = self._above_in(out)
        if decision.optimal:
            if decision.gap is not None:
                return "optimal, and a gap"
            return "" if part is None else f"optimal, with {harm_text(out)} for {harm_text(self.cluster.least)}"
        if decision.optimal is None:
            return "" if decision.gap is None else "a gap, and not a word about the optimum"
        if decision.gap is None:
            return "not optimal, and no gap"
        stated: Part = (decision.gap.component, decision.gap.priority if decision.gap.component != "pdb" else 0)
        if part is None:
            return ""
        if place(part) < place(stated):
            return f"proven up to {stated}, above the optimum in {part}"
        excess = value(out, part) - value(self.cluster.least, part)
        if part == stated and excess > decision.gap.at_most:
            return f"at most {decision.gap.at_most} more in {stated}: it is {excess}"
        return ""

    # -- what could be put back ----------------------------------------------------------------------------

    def _needless(self, units: list[list[str]], at_optimum: bool) -> tuple[str, int]:
        """What of these units could be put back, all others gone, as the product's own placement sees it: one unit, or
        a half of them. And how many questions that took.
        """
        members = len(self.reading.members)
        most = max(12, min(ONE_BY_ONE, _LOOKS // (len(self.cluster.nodes) * members)))
        chance = random.Random(len(units))
        one_by_one = units if len(units) <= most else chance.sample(units, most)
        if at_optimum:
            one_by_one = one_by_one[:_ASKED_AT_OPTIMUM]
        attempt = None if self.cluster.victims else self.attempt()
        asked = 0
        for some in (*_halves(units, chance), *([u] for u in one_by_one)):
            asked += 1
            back = {uid for unit in some for uid in unit}
            gone = [uid for unit in units for uid in unit if uid not in back]
            if back and (fits(attempt, gone) if attempt is not None else self._fits_quota(gone)):
                names = sorted(self.reading.running[uid].key for uid in back)
                return f"{len(some)} of {len(units)} units could be put back ({names[0]} ...)", asked
        return "", asked

    def attempt(self) -> SchedulingContext:
        """The product's placement of the gang, to be asked what it needs."""
        gangs = self.warm.gangs[0]
        return self.warm.decider.context(gangs)

    def _fits_quota(self, gone: Collection[str]) -> bool:
        """Have the members both nodes and quota once these pods (UIDs) are gone?"""
        gangs = self.warm.gangs[0]
        world, known = self.warm.world, self.warm.world.pods
        for job in self.warm.decider.contexts(gangs, displacing=True):
            if Outcomes(job).once_gone(union(job.terminating(), job.slots(frozenset(gone)))) is not None:
                there = [world.snapshot.table.pods[slot] for slot in job.terminating().tolist()]
                leaving = [*(known[uid] for uid in gone), *(pod for pod in there if pod is not None)]
                return world.managed.still_holds(gangs, leaving)
        return False


def _halves(units: list[list[str]], chance: random.Random) -> list[list[list[str]]]:
    """Each half of the units, in their order and in one of no meaning."""
    if len(units) < 2:
        return []
    out = []
    for order in (units, chance.sample(units, len(units))):
        middle = len(order) // 2
        out += [order[:middle], order[middle:]]
    return out


# -- parts of harm ---------------------------------------------------------------------------------------------------


#: Has parts (a) and (b) of harm.
Harmful = Answer | Least | Evicted


def differing(one: Harmful, other: Harmful) -> Part | None:
    """The first part of harm in which two differ; None if they are equal."""
    parts: list[Part] = [("pdb", 0)]
    for priority in sorted({p for p, _, _ in (*one.levels, *other.levels)}, reverse=True):
        parts += [("gangs", priority), ("pods", priority)]
    return next((p for p in parts if value(one, p) != value(other, p)), None)


def above(one: Harmful, other: Harmful) -> bool:
    """Does the one do more harm, at the first part in which they differ?"""
    part = differing(one, other)
    return part is not None and value(one, part) > value(other, part)


def value(of: Harmful, part: Part) -> int:
    """The number of a part."""
    if part[0] == "pdb":
        return of.beyond
    _, gangs, pods = next((level for level in of.levels if level[0] == part[1]), (0, 0, 0))
    return gangs if part[0] == "gangs" else pods


def place(part: Part) -> tuple[int, int, int]:
    """Where a part comes in the order in which they are compared."""
    return (0, 0, 0) if part[0] == "pdb" else (1, -part[1], part[0] == "pods")


def harm_text(of: Answer | Least) -> str:
    """Harm (a) and (b) in a few characters: gangs and pods by priority."""
    return f"a={of.beyond} " + " ".join(f"{p}:{gangs}g{pods}p" for p, gangs, pods in of.levels)
