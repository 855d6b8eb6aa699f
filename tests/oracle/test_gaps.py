"""What a plan says about how good it is, against the exact optimum."""

import random

import pytest

from gangsched.core.preemption import branch_and_bound
from gangsched.core.preemption.harm import Harm, gap
from gangsched.core.preemption.lower_bound import LowerBound
from tests.amounts import amount
from tests.core.preemption.asked import asked_in
from tests.oracle.exact import Program, least_harm
from tests.oracle.generate import case
from tests.oracle.model import Infeasible
from tests.oracle.problem import Problem, read


def components(harm: Harm, levels: list[int]) -> list[tuple[str, int, int]]:
    """The components of harm that are compared, from the top."""
    found = {p: (g, n) for p, g, n in harm.levels}
    out = [("pdb", 0, harm.beyond_budget)]
    for level in levels:
        gangs, pods = found.get(level, (0, 0))
        out += [("gangs", level, gangs), ("pods", level, pods)]
    return out


def wrong(mine: Harm, best: Harm, said) -> str:
    """What is not true of a gap (None: proven), in words."""
    levels = sorted(
        {p for h in (mine, best) for p, _, _ in h.levels} | ({said.priority} if said else set()), reverse=True
    )
    for (component, level, count), (_, _, least) in zip(
        components(mine, levels), components(best, levels), strict=True
    ):
        if said is not None and (component, level) == (said.component, said.priority):
            return "" if 0 <= count - least <= said.at_most else f"{component} at {level}: {count}, not {least}, {said}"
        if count != least:
            return f"{component} at {level}: {count}, not {least}, before {said}"
    return "" if said is None else f"no such component: {said}"


def any_plan(problem: Problem, chance: random.Random) -> Harm | None:
    """The harm of some legal plan among a part of the candidates; mostly far from the least."""
    some = {p.uid for p in problem.candidates() if chance.random() < 0.8}
    program = Program(problem, may_take=some)
    try:
        solved = program.model.minimise({c: chance.choice((-1, 0, 1, 2)) for c in program.y.values()})
    except Infeasible:
        return None
    return problem.harm(program.taken(solved))


@pytest.mark.parametrize("quick", [False, True], ids=["tried to the end", "places alone"])
@pytest.mark.parametrize("mixed", [False, True], ids=["identical", "mixed"])
@pytest.mark.parametrize("apart", [False, True], ids=["", "apart"])
def test_a_gap_is_true(mixed, apart, quick, monkeypatch):
    """Of the plan that is found, and of others that work: no floor is above the optimum, at any component."""
    judged = proven = 0
    if quick:
        monkeypatch.setattr(branch_and_bound, "MAX_DECISIONS", -1)
    for seed in range(quick, amount(60, 36), 2):
        question = case(seed, mixed=mixed, anti_affinity=apart)
        problem = read(question)
        best = least_harm(problem) if problem.may_preempt else None
        if best is None or not best.taken or not any(g.name == "want" for g in question.gangs):
            continue
        made = asked_in(question)
        choice = made.search().run()
        assert choice is not None, f"seed {seed}"
        assert wrong(choice.harm, best.harm, choice.gap) == "", f"seed {seed}"
        judged, proven = judged + 1, proven + (choice.gap is None)
        bound = LowerBound(made.candidates, made.demand)
        other = any_plan(problem, random.Random(seed))
        if other is not None:
            assert wrong(other, best.harm, gap(other, bound.floor(other))) == "", f"seed {seed}, another plan"
    assert judged >= amount(10, 3)
    assert proven >= judged // 4
