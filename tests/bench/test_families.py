"""Clusters with a known optimum: the generators against the exact oracle, and plans judged on small clusters."""

import pytest

from tests.bench.families import run
from tests.bench.families.catalogue import FAMILIES, cluster
from tests.bench.families.judge import judge
from tests.bench.families.site import TINY
from tests.oracle import exact
from tests.oracle.problem import read


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "quota"])
def test_the_known_optimum_is_that_of_the_exact_oracle(family):
    """On clusters small enough for it, HiGHS finds the same least harm (a) and (b), and work where that decides."""
    for seed in range(12):
        made = cluster(family, seed, TINY)
        optima = [found.harm for case in made.same if (found := exact.least_harm(read(case))) is not None]
        best = min(optima, key=lambda harm: harm[:3])
        assert (best.beyond_budget, best.levels) == (made.least.beyond, made.least.levels), (family, seed, made.title)
        if made.least.work is not None:
            assert best.work == pytest.approx(made.least.work, rel=1e-5), (family, seed, made.title)


@pytest.mark.parametrize("family", FAMILIES)
def test_plans_are_within_the_rules(family):
    """A plan is found, evicts nothing that it may not, places every member, and says nothing untrue of itself."""
    for task in run.tasks([family], range(2), "small", [1]):
        found = run.one(task)
        for answer in (found.answer, *found.cut):
            assert (answer.outcome, answer.wrong, answer.lie) == ("preempt", "", ""), (family, task.seed, found.title)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_a_cluster(family):
    """Generated twice, a cluster is the same, and so is its optimum."""
    one, other = (cluster(family, 5, TINY) for _ in range(2))
    assert repr(one) == repr(other)
    assert judge(family, 5, one).answer.victims == judge(family, 5, other).answer.victims
