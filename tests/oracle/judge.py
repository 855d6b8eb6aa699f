"""One case, the planner's answer and the optimum side by side."""

from __future__ import annotations

import time

import msgspec

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT, Decision
from gangsched.core.preemption.harm import Harm
from tests.oracle.brute import accepts, at
from tests.oracle.case import Case, decide
from tests.oracle.exact import could_stay, fits, least_harm
from tests.oracle.problem import Problem, read

#: Kinds of verdicts, best first. ``better`` and ``illegal`` mean that planner and judge disagree about the rules.
EQUAL, WORSE, MISSED, OUTCOME, ILLEGAL, BETTER = "equal", "worse", "missed", "outcome", "illegal", "better"


class Finding(msgspec.Struct):
    """What came out. ``needless`` victims could have been put back; ``seconds`` is what the plan took."""

    verdict: str
    outcome: str
    expected: str
    mine: Harm | None
    best: Harm | None
    needless: int
    seconds: float
    stopped: bool
    why: str = ""
    victims: tuple[str, ...] = ()
    best_victims: tuple[str, ...] = ()


def judge(case: Case) -> Finding:
    """Ask the planner, solve exactly, compare."""
    start = time.perf_counter()
    decisions = decide(case)
    seconds = time.perf_counter() - start
    problem = read(case)
    expected, best = _solve(problem)
    first = decisions[0]
    finding = Finding(EQUAL, first.outcome, expected, None, best[1] if best else None, 0, seconds, first.stopped)
    if best:
        finding.best_victims = tuple(sorted(p.key for p in problem.candidates() if p.uid in best[0]))
    finding.victims = tuple(v.key for v in first.victims)
    if first.outcome != expected:
        finding.verdict = MISSED if (first.outcome, expected) == (UNSCHEDULABLE, PREEMPT) else OUTCOME
        return finding
    finding.why = wrong_places(problem, decisions) or bind_refuses(case, decisions)
    if finding.why:
        finding.verdict = ILLEGAL
    elif first.outcome == PREEMPT and best:
        _compare(problem, first, best[1], finding)
    return finding


def _solve(problem: Problem) -> tuple[str, tuple[frozenset[str], Harm] | None]:
    if fits(problem, lift=False):
        return BIND, None
    if fits(problem, lift=True):
        return WAIT, None
    found = least_harm(problem) if problem.may_preempt else None
    return (PREEMPT, (found.taken, found.harm)) if found else (UNSCHEDULABLE, None)


def _compare(problem: Problem, decision: Decision, best: Harm, finding: Finding) -> None:
    taken = {v.uid for v in decision.victims}
    try:
        finding.mine = mine = problem.harm(taken)
    except ValueError as error:
        finding.verdict, finding.why = ILLEGAL, str(error)
        return
    beyond = {v.uid for v in decision.victims if v.over_budget}
    if beyond != problem.budgets.beyond([p for p in problem.candidates() if p.uid in taken]):
        finding.verdict, finding.why = ILLEGAL, "the victims marked as beyond a budget are not those counted"
        return
    finding.needless = could_stay(problem, taken)
    counts = mine.beyond_budget, mine.levels, mine.owners
    least = best.beyond_budget, best.levels, best.owners
    slack = 1e-5 * max(1.0, best.work)
    if counts < least or (counts == least and mine.work < best.work - slack):
        finding.verdict = BETTER
    elif counts != least or mine.work > best.work + slack:
        finding.verdict = WORSE


def bind_refuses(case: Case, decisions: tuple[Decision, ...]) -> str:
    """Carry the plan out: with victims and terminating pods gone, the next decision must be to bind, as nominated."""
    if decisions[0].outcome not in (WAIT, PREEMPT):
        return ""
    gone = {v.uid for v in decisions[0].victims}
    places = {p.uid: p.node for d in decisions for p in d.placements}
    left = [p for p in case.pods if p.uid not in gone and (p.deleting_since is None or not p.node)]
    told = [msgspec.structs.replace(p, nominated_node=places.get(p.uid, "")) for p in left]
    again = decide(msgspec.structs.replace(case, pods=told))
    if again[0].outcome != BIND:
        return f"once everybody has left the decision is {again[0].outcome}: {again[0].message}"
    bound = {p.uid: p.node for d in again for p in d.placements}
    moved = sorted(uid for uid, node in places.items() if bound.get(uid) != node)
    return f"once everybody has left, {moved[0]} is not bound where it was nominated" if moved else ""


def wrong_places(problem: Problem, decisions: tuple[Decision, ...]) -> str:
    """What is wrong with the placements, in words: each member placed once, where it fits when the victims are gone."""
    first = decisions[0]
    gone = {v.uid for v in first.victims}
    waits = first.outcome in (WAIT, PREEMPT)
    here = [p for p in problem.present if p.uid not in gone] + ([] if waits else list(problem.leaving))
    places = {p.uid: p.node for d in decisions for p in d.placements}
    for want in problem.wants:
        placed = [m for m in want.members if m.uid in places]
        if first.outcome != UNSCHEDULABLE and len(placed) < want.required:
            return f"{len(placed)} of {want.required} required members of {want.gang.key} placed"
    members = [m for want in problem.wants for m in want.members if m.uid in places]
    for member in members:
        if not accepts(problem, here, member, places[member.uid]):
            return f"{member.key} does not fit on {places[member.uid]}"
        here.append(at(member, places[member.uid]))
    awaited = {a.uid for d in decisions for a in d.awaiting}
    for pod in (p for p in problem.leaving if waits and p.uid in awaited and p.node not in places.values()):
        # Elsewhere only a pod that keeps a member off its domain, or that a member keeps off, need be awaited.
        if all(accepts(problem, [p for p in [*here, pod] if p.uid != m.uid], m, places[m.uid]) for m in members):
            return f"awaits {pod.key}, which is in nobody's way"
    return ""
