"""The planner against the exact optimum on random clusters; the full run is ``python -m tests.bench.quality_small``."""

import random

import pytest

from tests.amounts import amount
from tests.bench import quality_large, quality_small
from tests.oracle import generate_large
from tests.oracle.case import decide, told

COUNT = amount(240, 120)


@pytest.fixture(scope="module")
def tally():
    """The judged clusters of the first seeds."""
    return quality_small.measure(0, COUNT, quality_small.anti_affinity_is_built())


def test_planner_is_as_good_as_the_targets_say(tally):
    """Feasible whenever the optimum is, nothing needless, and the least harm nearly always."""
    assert quality_small.misses(tally) == [], tally.listed()


def test_clusters_are_worth_judging(tally):
    """Enough of the random clusters need victims, in every kind of cluster."""
    for row in tally.rows():
        assert int(str(row[2])) * 2 >= int(str(row[1])), row


@pytest.mark.parametrize("seed", range(amount(36, 9)))
def test_order_of_events_does_not_matter(seed):
    """The same cluster told in another order gets the same decision: identical, mixed and with anti-affinity."""
    question = quality_small.made(seed, apart=True)
    events = question.events()
    random.Random(seed).shuffle(events)
    assert told(decide(question)) == told(decide(question, events))


@pytest.mark.parametrize("seed", [5])
def test_order_of_events_does_not_matter_in_larger_clusters(seed):
    """Nor where sets of gangs are searched, for identical members and for mixed ones."""
    question = generate_large.case(seed, mixed=seed % 3 == 2)
    events = question.events()
    random.Random(seed).shuffle(events)
    assert told(decide(question)) == told(decide(question, events))


@pytest.mark.parametrize("seed", [13, 16, 20, 28])
def test_larger_clusters_meet_the_bound(seed):
    """Gangs and single pods chosen together, with budgets, surplus and mixed members: none too many."""
    row = quality_large.measure(seed, 30.0)
    assert (row.outcome, row.worse, row.gap) == ("preempt", "", 0.0)


@pytest.mark.parametrize(
    ("seed", "worse", "gap"),
    [(15, "gangs at 0: 4, bound 3", 0.0), (25, "", 0.02), (70, "gangs at 0: 6, bound 5", 0.16)],
)
def test_larger_clusters_stay_near_the_bound(seed, worse, gap):
    """Where surplus and budgets of many gangs have to go round, one gang too many may go; no more than that."""
    row = quality_large.measure(seed, 30.0)
    assert row.outcome == "preempt"
    assert row.worse in ("", worse)
    assert row.gap is None or row.gap <= gap
