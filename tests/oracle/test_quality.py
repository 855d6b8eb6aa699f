"""The planner against the exact optimum on random clusters; the full run is ``python -m tests.bench.quality_small``."""

import random

import pytest

from tests.bench import quality_small
from tests.oracle.case import decide

COUNT = 240


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


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_order_of_events_does_not_matter(seed):
    """The same cluster told in another order gets the same decision."""
    question = quality_small.made(seed, apart=False)
    events = question.events()
    random.Random(seed).shuffle(events)
    told = [(d.outcome, d.placements, d.victims, d.awaiting, d.message) for d in decide(question)]
    retold = [(d.outcome, d.placements, d.victims, d.awaiting, d.message) for d in decide(question, events)]
    assert told == retold
