"""Who has to go, policy by policy. Cores of CPU; every case is a small cohort that is full."""

from typing import Any

import msgspec
import pytest

from tests.core.quota.world import World, cohort, exceeds, flavor, group, own, queue, workload

OWN, RECLAIM, BORROWING = "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"


# -- within the own queue ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("within", "priority", "queued", "victims"),
    [
        ("Never", 9, 0, {}),
        ("LowerPriority", 9, 0, {"low": OWN}),
        ("LowerPriority", 1, 0, {}),
        ("LowerPriority", 5, 0, {"low": OWN}),
        ("LowerOrNewerEqualPriority", 1, 0, {"low": OWN}),
        ("LowerOrNewerEqualPriority", 1, 50, {}),
        ("LowerOrNewerEqualPriority", 0, 0, {}),
    ],
)
def test_within_the_queue(within, priority, queued, victims):
    """Lower priority goes; equal priority only if it came to the queue later and the policy says so."""
    world = World(queue("q", cpu=4, within=within))
    world.runs("low", "q", priority=1, queued=50, cpu=2)
    world.runs("high", "q", priority=5, queued=10, cpu=2)
    assert world.victims(workload("new", "q", priority=priority, queued=queued, cpu=2)) == victims


def test_the_order_within_a_queue():
    """Lowest priority first; among equals whoever was admitted last, however long it had waited."""
    world = World(queue("q", cpu=4, within="LowerPriority"))
    world.runs("early", "q", priority=1, queued=1, cpu=1)
    world.runs("late", "q", priority=1, queued=0, cpu=1)
    world.runs("middle", "q", priority=2, cpu=2)
    assert set(world.victims(workload("new", "q", priority=9, cpu=1))) == {"late"}
    assert set(world.victims(workload("new", "q", priority=9, cpu=2))) == {"early", "late"}


def test_those_already_told_to_leave_are_taken_first():
    """An evicted workload still holds its quota: waiting for it costs nobody anything."""
    world = World(queue("q", cpu=4, within="LowerPriority"))
    world.runs("low", "q", priority=1, cpu=2)
    world.runs("leaving", "q", priority=5, cpu=2, leaving=True)
    found = world.decide(workload("new", "q", priority=9, cpu=2))
    assert (found.outcome, found.victims, [a.pod for a in found.awaiting]) == ("wait", (), ["d/leaving"])


def test_those_already_told_to_leave_keep_their_priority():
    """Nobody gets the quota of one that leaves who could not have displaced it."""
    world = World(queue("q", cpu=4, within="LowerPriority"))
    world.runs("leaving", "q", priority=5, cpu=4, leaving=True)
    assert world.decide(workload("new", "q", priority=5, cpu=2)).outcome == "unschedulable"
    assert world.decide(workload("new", "q", priority=6, cpu=2)).outcome == "wait"


def test_nobody_goes_when_it_would_not_help():
    """A request that does not fit even without all candidates displaces none of them."""
    world = World(queue("q", cpu=4, within="LowerPriority"))
    world.runs("low", "q", priority=1, cpu=1)
    world.runs("high", "q", priority=9, cpu=3)
    assert world.victims(workload("new", "q", priority=5, cpu=2)) == {}


def test_whoever_is_not_needed_is_put_back():
    """The small ones are taken first, but once the big one has to go they may stay."""
    world = World(queue("q", cpu=6, within="LowerPriority"))
    world.runs("big", "q", priority=2, cpu=4)
    world.runs("small-1", "q", priority=1, cpu=1)
    world.runs("small-2", "q", priority=1, cpu=1)
    assert set(world.victims(workload("new", "q", priority=9, cpu=4))) == {"big"}


def test_only_users_of_the_missing_resource_are_candidates():
    """Who holds nothing of what is missing is left alone, although its priority is the lowest."""
    world = World(queue("q", "", group(flavor(cpu=4)), group(flavor("gpus", gpu=2)), within="LowerPriority"))
    world.runs("cpu-only", "q", priority=0, cpu=1)
    world.runs("gpu-user", "q", priority=5, flavor="gpus", gpu=2)
    assert set(world.victims(workload("new", "q", priority=9, cpu=1, gpu=1))) == {"gpu-user"}


# -- reclaiming what is one's own ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reclaim", "priority", "victims"),
    [
        ("Never", 9, {}),
        ("LowerPriority", 9, {"borrower": RECLAIM}),
        ("LowerPriority", 5, {}),
        ("Any", 9, {"borrower": RECLAIM}),
        ("Any", 0, {"borrower": RECLAIM}),
    ],
)
def test_reclaiming_nominal_quota(reclaim, priority, victims):
    """What is lent out comes back: from lower priority, from anybody, or not at all."""
    world = World(queue("mine", "all", cpu=4, reclaim=reclaim), queue("other", "all", cpu=0))
    world.runs("borrower", "other", priority=5, cpu=4)
    assert world.victims(workload("new", "mine", priority=priority, cpu=4)) == victims


def test_no_digging_into_what_others_own():
    """Once a queue is back within its nominal quota its remaining workloads are safe, even when more is needed."""
    world = World(queue("mine", "all", cpu=4, reclaim="Any"), queue("other", "all", cpu=2))
    for i in range(6):
        world.runs(f"w{i}", "other", cpu=1)
    assert set(world.victims(workload("new", "mine", cpu=4))) == {"w2", "w3", "w4", "w5"}
    assert world.victims(workload("new", "mine", cpu=5)) == {}


def test_a_queue_within_its_quota_is_no_candidate():
    """Borrowing alone makes a candidate: a third queue that uses what it owns keeps it, whatever its priority."""
    world = World(
        queue("mine", "all", cpu=2, reclaim="Any"), queue("fair", "all", cpu=2), queue("greedy", "all", cpu=0)
    )
    world.runs("keeps", "fair", priority=0, cpu=2)
    world.runs("goes", "greedy", priority=9, cpu=2)
    assert world.victims(workload("new", "mine", cpu=2)) == {"goes": RECLAIM}


def test_other_queues_first():
    """Quota that is lent out is taken back before lower priority of the own queue is displaced."""
    world = World(queue("mine", "all", cpu=4, within="LowerPriority", reclaim="Any"), queue("other", "all", cpu=0))
    world.runs("own", "mine", priority=0, cpu=2)
    world.runs("borrower", "other", priority=9, cpu=2)
    assert world.victims(workload("new", "mine", priority=5, cpu=2)) == {"borrower": RECLAIM}
    assert world.victims(workload("new", "mine", priority=5, cpu=4)) == {"borrower": RECLAIM, "own": OWN}


# -- borrowing while others have to go -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("borrow", "threshold", "priority", "victims"),
    [
        ("Never", None, 9, {}),
        ("LowerPriority", None, 9, {"b": BORROWING}),
        ("LowerPriority", None, 5, {}),
        ("LowerPriority", 5, 9, {"b": BORROWING}),
        ("LowerPriority", 4, 9, {}),
        ("LowerPriority", 9, 5, {}),
    ],
)
def test_borrowing_at_the_expense_of_others(borrow, threshold, priority, victims):
    """Beyond its own quota a queue displaces borrowers by borrowWithinCohort only: lower ones, up to the threshold."""
    world = World(
        queue("mine", "all", cpu=1, reclaim="Any", borrow=borrow, threshold=threshold),
        queue("other", "all", cpu=1),
        queue("lends", "all", cpu=4),
    )
    world.runs("b", "other", priority=5, cpu=6)
    assert world.victims(workload("new", "mine", priority=priority, cpu=3)) == victims


def test_above_the_threshold_only_without_borrowing():
    """A borrower above the threshold goes for a request within nominal quota, and for no more than that."""
    world = World(
        queue("mine", "all", cpu=2, reclaim="Any", borrow="LowerPriority", threshold=0),
        queue("other", "all", cpu=0),
        queue("lends", "all", cpu=2),
    )
    world.runs("b", "other", priority=5, cpu=4)
    assert world.victims(workload("new", "mine", priority=9, cpu=2)) == {"b": RECLAIM}
    assert world.victims(workload("new", "mine", priority=9, cpu=3)) == {}


def test_own_queue_while_borrowing():
    """Without borrowWithinCohort who asks for more than nominal quota displaces nobody, of its own queue neither."""
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({}, {}),
        ({"reclaim": "Any", "borrow": "LowerPriority"}, {"low": OWN}),
    ]
    for policy, victims in cases:
        world = World(queue("mine", "all", cpu=1, within="LowerPriority", **policy), queue("lends", "all", cpu=3))
        world.runs("low", "mine", priority=0, cpu=4)
        assert world.victims(workload("new", "mine", priority=9, cpu=4)) == victims


# -- limits ----------------------------------------------------------------------------------------------------------


def test_lending_limits_keep_quota_at_home():
    """What a queue does not lend is not there for others, and is there for itself although others borrow."""
    world = World(queue("keeps", "all", cpu=own(4, lending=1)), queue("other", "all", cpu=2))
    assert exceeds(world.decide(workload("w", "other", cpu=4)))
    world.runs("b", "other", cpu=3)
    assert world.decide(workload("mine", "keeps", cpu=3)).outcome == "bind"
    assert world.assign(workload("mine", "keeps", cpu=4)).mode.name == "NO_CANDIDATES"


def test_borrowing_limits_stop_the_borrower():
    """Up to the limit there is no victim; beyond it no victim would help."""
    world = World(queue("mine", "all", cpu=own(1, borrowing=2), reclaim="Any"), queue("lends", "all", cpu=9))
    assert world.decide(workload("w", "mine", cpu=3)).outcome == "bind"
    assert exceeds(world.decide(workload("w", "mine", cpu=4)))
    world.runs("r", "mine", cpu=2)
    assert world.victims(workload("w", "mine", cpu=2)) == {}


# -- trees of cohorts ------------------------------------------------------------------------------------------------


def departments(**policy: Any) -> World:
    """Two departments under one company; ``left`` has two teams, ``right`` one; the company adds 2 cores."""
    return World(
        cohort("company", cpu=2),
        cohort("left", "company"),
        cohort("right", "company"),
        queue("left-1", "left", cpu=2, **policy),
        queue("left-2", "left", cpu=2),
        queue("right-1", "right", cpu=2),
    )


def test_the_whole_tree_can_be_borrowed():
    """A team may use all that nobody else uses, from both departments and the company."""
    world = departments()
    found = world.assign(workload("w", "left-1", cpu=8))
    assert (found.mode.name, found.level) == ("FIT", 2)
    assert world.assign(workload("w", "left-1", cpu=4)).level == 1
    assert world.assign(workload("w", "left-1", cpu=2)).level == 0


def test_quota_of_the_department_comes_back_whatever_the_priority():
    """Inside its department's quota a team has the better right: with ``Any`` also over higher priority elsewhere."""
    world = departments(reclaim="Any")
    world.runs("far", "right-1", priority=9, cpu=8)
    assert world.victims(workload("new", "left-1", priority=0, cpu=4)) == {"far": RECLAIM}


def test_beyond_the_department_priority_decides():
    """What belongs to the company or to the other department is displaced only by borrowWithinCohort."""
    for borrow, victims in (("Never", {}), ("LowerPriority", {"far": BORROWING})):
        world = departments(reclaim="Any", borrow=borrow)
        world.runs("far", "right-1", priority=0, cpu=8)
        assert world.victims(workload("new", "left-1", priority=5, cpu=6)) == victims


def test_the_better_right_goes_before_lower_priority():
    """Over the other department the team has a right, over its sister only priority: the former goes first."""
    world = departments(reclaim="Any", borrow="LowerPriority")
    world.put(cohort("left", "company", cpu=2))
    world.runs("mine", "left-1", cpu=2)
    world.runs("sister", "left-2", priority=0, cpu=3)
    world.runs("far", "right-1", priority=3, cpu=5)
    assert world.victims(workload("new", "left-1", priority=9, cpu=1)) == {"far": RECLAIM}


def test_a_department_within_its_quota_is_left_alone():
    """A team that borrows from its sister only does not cost the other department anything."""
    world = departments(reclaim="Any")
    world.runs("shared", "left-1", cpu=1)
    world.put(queue("right-2", "right", cpu=0))
    world.runs("inner", "right-2", priority=0, cpu=2)
    world.runs("sister", "left-2", priority=0, cpu=5)
    assert world.victims(workload("new", "left-1", priority=0, cpu=1)) == {"sister": RECLAIM}


def test_limits_of_a_department():
    """A department that may borrow 1 and lends 1 is bounded as a whole."""
    limits = group(flavor(cpu=own(0, borrowing=1, lending=0)))
    world = World(
        cohort("company", cpu=9),
        cohort("left", "company", limits),
        queue("left-1", "left", cpu=2),
        queue("left-2", "left", cpu=2),
        queue("right-1", "company", cpu=1),
    )
    assert world.decide(workload("w", "left-1", cpu=5)).outcome == "bind"
    assert exceeds(world.decide(workload("w", "left-1", cpu=6)))
    assert world.decide(workload("w", "right-1", cpu=10)).outcome == "bind"
    assert exceeds(world.decide(workload("w", "right-1", cpu=11)))


def test_cohorts_in_a_circle_admit_nothing():
    """A cycle of parents disables every queue below it, and no other."""
    world = World(
        cohort("a", "b"), cohort("b", "a"), cohort("c", "a"), queue("bad", "c", cpu=1), queue("good", "other", cpu=1)
    )
    assert world.quota.problem(workload("w", "bad", cpu=1)) == "ClusterQueue bad is inactive: its cohorts form a circle"
    assert world.quota.inactive("bad") == "CohortCycle"
    assert world.quota.problem(workload("w", "good", cpu=1)) == ""


def test_a_very_tall_tree_is_refused_and_not_a_crash():
    """Thousands of cohorts above one another are a mistake; those near the top still work."""
    chain = [cohort(f"c{i}", f"c{i - 1}" if i else "") for i in range(5000)]
    world = World(*chain, queue("deep", "c4999", cpu=1), queue("high", "c5", cpu=1))
    assert world.quota.inactive("deep") == "CohortCycle"
    assert world.decide(workload("w", "high", cpu=1)).outcome == "bind"


# -- several resources and flavors -----------------------------------------------------------------------------------


def test_victims_must_cover_all_resources_that_are_missing():
    """CPU and GPUs are both short: victims are taken until both fit."""
    world = World(queue("q", "", group(flavor(cpu=4)), group(flavor("gpus", gpu=2)), within="LowerPriority"))
    world.runs("cpu", "q", priority=0, cpu=4)
    world.runs("gpu", "q", priority=1, flavor="gpus", gpu=2)
    assert set(world.victims(workload("new", "q", priority=9, cpu=4, gpu=1))) == {"cpu", "gpu"}


def test_one_resource_within_and_one_beyond_nominal():
    """GPUs of its own are taken back while it borrows CPU that is not short; it has no right to CPU that is."""
    world = World(
        queue("mine", "all", group(flavor(cpu=0)), group(flavor("gpus", gpu=2)), reclaim="Any"),
        queue("other", "all", group(flavor(cpu=2)), group(flavor("gpus", gpu=0))),
    )
    world.runs("b", "other", flavor="gpus", gpu=2)
    assert world.victims(workload("new", "mine", gpu=2)) == {"b": RECLAIM}
    world.runs("c", "other", cpu=1)
    assert world.victims(workload("new", "mine", gpu=2, cpu=1)) == {"b": RECLAIM}
    world.runs("d", "other", cpu=1)
    assert world.victims(workload("new", "mine", gpu=2, cpu=1)) == {}


def test_of_a_queue_that_is_kept_nothing_is_taken_back():
    """It uses more than its own, by whichever rules; its own workloads may still displace each other."""
    for fair in (False, True):
        world = World(
            queue("mine", "all", group(flavor(cpu=1)), reclaim="Any"),
            msgspec.structs.replace(queue("other", "all", group(flavor(cpu=1)), within="LowerPriority"), kept=True),
            fair=fair,
        )
        world.runs("b", "other", cpu=2)
        assert world.victims(workload("new", "mine", cpu=1)) == {}
        assert set(world.victims(workload("newer", "other", priority=9, cpu=1))) == {"b"}
