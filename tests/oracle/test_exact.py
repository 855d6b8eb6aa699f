"""The judge is judged first: the exact model against trying everything, on clusters small enough for that."""

import pytest

from tests.amounts import amount
from tests.oracle import brute, exact
from tests.oracle.generate import TINY, case
from tests.oracle.problem import read

SEEDS = range(amount(120, 45))


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("anti_affinity", [False, True])
def test_model_and_brute_force_agree(mixed, anti_affinity):
    """Both find a plan for the same clusters, with the same least harm (a) to (c)."""
    solved = 0
    for seed in SEEDS:
        problem = read(case(seed, mixed=mixed, anti_affinity=anti_affinity, size=TINY))
        if len(problem.candidates()) > 8:
            continue
        expected = brute.least_harm(problem)
        found = exact.least_harm(problem)
        assert (found is None) == (expected is None), f"seed {seed}"
        if found is not None and expected is not None:
            assert found.harm[:3] == expected[1][:3], f"seed {seed}"
            assert found.harm.owners == expected[1].owners, f"seed {seed}"
            assert found.harm.work == pytest.approx(expected[1].work), f"seed {seed}"
            solved += bool(found.taken)
    assert solved >= amount(20, 5)


@pytest.mark.parametrize("lift", [False, True])
def test_model_and_backtracking_agree_on_what_fits(lift):
    """Without victims the model and the search for a placement say the same, with and without terminating pods."""
    answers = set()
    for seed in SEEDS:
        problem = read(case(seed, mixed=seed % 2 == 1, anti_affinity=seed % 3 == 0, size=TINY))
        fits = exact.fits(problem, lift=lift)
        assert fits == (brute.place(problem, lift=lift) is not None), f"seed {seed}"
        answers.add(fits)
    assert answers == {True, False}


def test_optimum_has_no_victim_that_could_stay():
    """The least harmful set is also one from which nothing can be put back."""
    checked = 0
    for seed in range(40):
        problem = read(case(seed, mixed=seed % 2 == 1))
        best = exact.least_harm(problem)
        if best is not None and best.taken:
            assert exact.could_stay(problem, best.taken) == 0, f"seed {seed}"
            checked += 1
    assert checked >= 10


def test_needless_victims_are_counted():
    """All candidates taken at once are more than the optimum needs, and the difference shows."""
    problem = read(case(8, mixed=False))
    best = exact.least_harm(problem)
    assert best is not None
    everyone = {p.uid for p in problem.candidates()}
    assert exact.could_stay(problem, everyone) > 0
    assert exact.could_stay(problem, everyone) <= len(everyone)


def test_same_seed_same_cluster():
    """A seed is a cluster: generated twice, it is the same."""
    assert repr(case(7, mixed=True, anti_affinity=True)) == repr(case(7, mixed=True, anti_affinity=True))
    assert repr(case(7, mixed=True)) != repr(case(9, mixed=True))
