"""Budgets that may not be exceeded, in random clusters against the exact optimum."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from tests.amounts import amount
from tests.oracle.case import decide
from tests.oracle.exact import least_harm
from tests.oracle.generate import case
from tests.oracle.problem import read


@pytest.mark.parametrize("mixed", [False, True], ids=["identical", "mixed"])
def test_a_plan_within_the_budgets_is_found_wherever_there_is_one(mixed):
    """It does the least harm of all; and where there is none the message says that it is for a budget."""
    found = {PREEMPT: 0, UNSCHEDULABLE: 0}
    for seed in range(amount(240, 50)):
        question = case(seed, mixed=mixed)
        problem = read(question)
        if not question.budgets or not problem.may_preempt:
            continue
        if any(len(problem.budgets.matching(pod)) > 1 for pod in problem.candidates()):
            continue  # the eviction API refuses those, whatever their budgets allow
        best = least_harm(problem)
        if best is None or not best.taken:
            continue
        strict = msgspec.structs.replace(question.options, strict_budgets=True)
        first = decide(msgspec.structs.replace(question, options=strict))[0]
        if best.harm.beyond_budget:
            assert first.outcome == UNSCHEDULABLE, f"seed {seed}"
            assert "PodDisruptionBudget" in first.message, f"seed {seed}: {first.message}"
        else:
            assert first.outcome == PREEMPT, f"seed {seed}: {first.message}"
            harm = problem.harm({v.uid for v in first.victims})
            assert harm[:3] == best.harm[:3], f"seed {seed}"
        found[first.outcome] += 1
    assert min(found.values()) >= amount(5, 1), found
