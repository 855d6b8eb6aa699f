"""Fair sharing: shares, and who gives way. Cores of CPU."""

import math
from typing import Any

from gangsched.core.quota.fair_sharing import FINAL_SHARE, INITIAL_SHARE, Share, passes
from tests.core.quota.world import World, cohort, flavor, group, queue, workload

OWN, RECLAIM, FAIR = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"
ANY: dict[str, Any] = {"reclaim": "Any"}


def fair(*objects) -> World:
    """A world with fair sharing."""
    return World(*objects, fair=True)


def share(world, name):
    """The share of a queue or cohort in permille."""
    tree = world.quota.tree
    return world.quota.shares.share_of(tree.queues.get(name) or tree.cohorts[name]).weighted


# -- shares ----------------------------------------------------------------------------------------------------------


def test_a_share_is_what_is_borrowed_of_what_can_be():
    """Usage beyond nominal quota by all that the cohort could lend; nothing while it is within."""
    world = fair(queue("a", "all", cpu=2), queue("b", "all", cpu=8))
    world.runs("w1", "a", cpu=2)
    assert share(world, "a") == 0
    world.runs("w2", "a", cpu=3)
    assert share(world, "a") == 300
    assert share(world, "b") == 0


def test_the_dominant_resource_counts():
    """Of two resources the one of which more is borrowed, in proportion; flavors of a resource are added up."""
    world = fair(
        queue("a", "all", group(flavor("x", cpu=0, memory=0), flavor("y", cpu=0, memory=0))),
        queue("b", "all", group(flavor("x", cpu=4, memory=100), flavor("y", cpu=4, memory=100))),
    )
    world.runs("w1", "a", flavor="x", cpu=1, memory=10)
    assert share(world, "a") == 125
    world.runs("w2", "a", flavor="y", cpu=1, memory=50)
    assert share(world, "a") == 300


def test_weights_divide_and_zero_is_infinite():
    """Twice the weight is half the share; whoever has weight 0 and borrows comes last."""
    world = fair(
        queue("light", "all", cpu=0, weight=2.0), queue("none", "all", cpu=0, weight=0.0), queue("b", "all", cpu=10)
    )
    assert share(world, "none") == 0
    world.runs("w1", "light", cpu=4)
    world.runs("w2", "none", cpu=1)
    assert share(world, "light") == 200
    assert share(world, "none") == math.inf


def test_cohorts_have_shares_too():
    """A department's share is what it borrows from the company."""
    world = fair(cohort("company", cpu=10), cohort("left", "company"), queue("a", "left", cpu=2))
    world.runs("w", "a", cpu=5)
    assert share(world, "left") == 250
    assert share(world, "company") == 0


def test_strategies():
    """At most their share after the loss, or less than their share before it."""
    low, middle, high = Share(100.0), Share(200.0), Share(300.0)
    assert passes(FINAL_SHARE, middle, high, middle)
    assert not passes(FINAL_SHARE, middle, high, low)
    assert passes(INITIAL_SHARE, middle, high, low)
    assert not passes(INITIAL_SHARE, middle, middle, low)


# -- victims ---------------------------------------------------------------------------------------------------------


def test_the_larger_share_gives_way():
    """Two queues that only borrow: the one with more gives up until both have the same."""
    world = fair(queue("a", "all", cpu=0, **ANY), queue("b", "all", cpu=0, **ANY), queue("lends", "all", cpu=6))
    for i in range(6):
        world.runs(f"b{i}", "b", cpu=1)
    assert world.victims(workload("new", "a", cpu=1)) == {"b5": FAIR}
    assert set(world.victims(workload("new", "a", cpu=3))) == {"b3", "b4", "b5"}
    assert world.victims(workload("new", "a", cpu=4)) == {}


def test_priority_does_not_protect_from_fairness():
    """With ``Any`` the larger share gives way whatever its priority; with ``LowerPriority`` only if that is lower."""
    for reclaim, victims in (("Any", {"b": FAIR}), ("LowerPriority", {})):
        world = fair(queue("a", "all", cpu=0, reclaim=reclaim), queue("b", "all", cpu=0), queue("l", "all", cpu=6))
        world.runs("keeps", "b", priority=9, cpu=3)
        world.runs("b", "b", priority=9, cpu=3)
        assert world.victims(workload("new", "a", priority=0, cpu=2)) == victims


def test_more_than_the_final_share():
    """A single large workload leaves less than the newcomer takes: it goes if its queue had more than that before."""
    world = fair(queue("a", "all", cpu=0, **ANY), queue("b", "all", cpu=0, **ANY), queue("l", "all", cpu=6))
    world.runs("big", "b", cpu=5)
    assert world.victims(workload("new", "a", cpu=3)) == {"big": FAIR}
    assert world.victims(workload("new", "a", cpu=5)) == {}


def test_nominal_quota_comes_back_whatever_the_shares():
    """A request within nominal quota takes what is lent out, as reclamation."""
    world = fair(queue("a", "all", cpu=3, **ANY), queue("b", "all", cpu=0, weight=100.0))
    world.runs("b", "b", cpu=3)
    assert world.victims(workload("new", "a", cpu=3)) == {"b": RECLAIM}


def test_the_own_queue_may_be_the_one_with_the_largest_share():
    """Lower priority of the own queue goes when its share is the highest."""
    world = fair(
        queue("a", "all", cpu=0, within="LowerPriority", **ANY), queue("b", "all", cpu=0), queue("l", "all", cpu=6)
    )
    world.runs("own", "a", priority=0, cpu=4)
    world.runs("b", "b", priority=9, cpu=2)
    assert world.victims(workload("new", "a", priority=5, cpu=2)) == {"own": OWN}


def test_weights_decide():
    """The same usage weighs less with a larger weight: the other queue gives way."""
    world = fair(
        queue("a", "all", cpu=0, **ANY),
        queue("heavy", "all", cpu=0, weight=4.0),
        queue("light", "all", cpu=0),
        queue("l", "all", cpu=8),
    )
    for i in range(4):
        world.runs(f"heavy{i}", "heavy", cpu=1)
        world.runs(f"light{i}", "light", cpu=1)
    assert world.victims(workload("new", "a", cpu=1)) == {"light3": FAIR}


def test_departments_are_compared_before_teams():
    """The lowest common cohort decides: a modest team in a greedy department gives way."""
    world = fair(
        cohort("company", cpu=8),
        cohort("left", "company"),
        cohort("right", "company"),
        queue("a", "left", cpu=0, **ANY),
        queue("b", "right", cpu=0),
        queue("c", "right", cpu=0),
    )
    for i in range(4):
        world.runs(f"b{i}", "b", cpu=1)
        world.runs(f"c{i}", "c", cpu=1)
    assert set(world.victims(workload("new", "a", cpu=4))) == {"b2", "b3", "c2", "c3"}


def test_the_demo_of_two_teams_under_fair_sharing():
    """Seven cores on top of five: the newcomer's share would be the larger one, and nobody has to go."""
    world = fair(queue("a", "ab", cpu=0, **ANY), queue("b", "ab", cpu=0), queue("shared", "ab", cpu=10))
    world.runs("b", "b", priority=100, cpu=5)
    assert world.victims(workload("new", "a", priority=1000, cpu=7)) == {}
