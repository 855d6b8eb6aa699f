"""Several heads in one cycle, and the queues from which they come."""

from gangsched.core.quota.cycle import Status
from gangsched.core.quota.ordering import Again, Pending
from gangsched.model.queues import Fungibility
from tests.core.quota.world import World, flavor, group, own, queue, workload


def what(outcomes):
    """Status and victims by name, in order."""
    return [(o.workload.name, o.status, sorted(v.workload.name for v in o.victims)) for o in outcomes]


# -- the order of heads ----------------------------------------------------------------------------------------------


def test_who_borrows_least_is_first():
    """A head within nominal quota goes before one of higher priority that borrows; then priority, then age decide."""
    world = World(*(queue(q, "all", cpu=2) for q in ("a", "b", "c", "d")))
    heads = [
        workload("borrows", "a", priority=9, cpu=3),
        workload("old", "b", queued=1, cpu=1),
        workload("new", "c", queued=2, cpu=1),
        workload("high", "d", queued=3, priority=1, cpu=1),
    ]
    assert [o.workload.name for o in world.cycle(*heads)] == ["high", "old", "new", "borrows"]


def test_a_later_head_does_not_count_on_what_an_earlier_one_took():
    """Both would fit alone; the second is told that it no longer does."""
    world = World(queue("a", "all", cpu=2), queue("b", "all", cpu=2))
    found = world.cycle(workload("first", "a", cpu=3), workload("second", "b", queued=1, cpu=3))
    assert what(found) == [("first", Status.ADMITTED, []), ("second", Status.SKIPPED, [])]
    assert found[1].message == "Workload no longer fits after processing another workload"


# -- two preemptors --------------------------------------------------------------------------------------------------


def shared(*names: str) -> World:
    """Queues that own 2 cores each, all lent to ``greedy``."""
    return World(*(queue(n, "all", cpu=2, reclaim="Any") for n in names), queue("greedy", "all", cpu=0))


def test_two_preemptors_with_victims_of_their_own():
    """Each takes another victim, both in the same cycle."""
    world = shared("a", "b")
    world.runs("g1", "greedy", cpu=2)
    world.runs("g2", "greedy", cpu=2)
    found = world.cycle(workload("pa", "a", cpu=2), workload("pb", "b", queued=1, cpu=2))
    assert what(found) == [("pa", Status.PREEMPTING, ["g2"]), ("pb", Status.PREEMPTING, ["g1"])]


def test_two_preemptors_that_need_the_same_victim():
    """One large victim makes room for both: the second waits for it without a victim of its own."""
    world = shared("a", "b")
    world.runs("g", "greedy", cpu=4)
    found = world.cycle(workload("pa", "a", cpu=2), workload("pb", "b", queued=1, cpu=2))
    assert what(found) == [("pa", Status.PREEMPTING, ["g"]), ("pb", Status.DEFERRED, [])]
    assert found[1].reason == "WaitingForPreemptedWorkloads"
    assert found[1].again is Again.NOW


def test_three_preemptors_and_a_victim_too_small():
    """The third gets another victim, although on its own it would have taken the first."""
    world = shared("a", "b", "c")
    world.runs("g1", "greedy", cpu=2)
    world.runs("g2", "greedy", cpu=4)
    heads = [workload(f"p{q}", q, queued=i, cpu=2) for i, q in enumerate("abc")]
    assert what(world.cycle(*heads)) == [
        ("pa", Status.PREEMPTING, ["g2"]),
        ("pb", Status.DEFERRED, []),
        ("pc", Status.PREEMPTING, ["g1"]),
    ]


def test_a_second_choice_keeps_its_flavor():
    """When the victims overlap the flavor does not change: the later head may only take others in the same one."""
    quotas = group(flavor("x", cpu=2), flavor("y", cpu=2))
    policy = Fungibility(when_can_preempt="MayStopSearch")
    world = World(
        queue("a", "all", group(flavor("x", cpu=2)), reclaim="Any"),
        queue("b", "all", quotas, reclaim="Any", fungibility=policy),
        queue("greedy", "all", group(flavor("x", cpu=0))),
    )
    world.runs("g1", "greedy", flavor="x", cpu=1)
    world.runs("g2", "greedy", flavor="x", cpu=3)
    found = world.cycle(workload("pa", "a", cpu=2), workload("pb", "b", queued=1, cpu=2))
    assert what(found) == [("pa", Status.PREEMPTING, ["g2"]), ("pb", Status.PREEMPTING, ["g1"])]


def test_a_preemptor_uses_its_quota_at_once():
    """Nobody else is admitted on what the victims of an earlier head will free."""
    world = shared("a", "b")
    world.quota.put(queue("late", "all", cpu=0))
    world.runs("g", "greedy", cpu=4)
    found = world.cycle(workload("pa", "a", cpu=2), workload("pb", "b", queued=1, cpu=2), workload("pl", "late", cpu=1))
    assert ("pl", Status.NO_FIT, []) in what(found)
    assert world.usage()["greedy", "default", "cpu"] == 4


# -- reserving -------------------------------------------------------------------------------------------------------


def test_a_head_that_may_displace_nobody_keeps_its_nominal_quota():
    """What is left of its own quota is not lent to somebody else meanwhile, unless it can always be asked back."""
    for reclaim, status in (("Never", Status.SKIPPED), ("Any", Status.ADMITTED)):
        world = World(queue("a", "all", cpu=4, reclaim=reclaim), queue("b", "all", cpu=0))
        world.runs("r", "a", cpu=3)
        found = world.cycle(workload("blocked", "a", priority=9, cpu=2), workload("borrower", "b", cpu=1))
        assert what(found) == [("blocked", Status.BLOCKED, []), ("borrower", status, [])]


def test_a_head_that_borrows_reserves_up_to_its_limit():
    """Beyond nominal quota the borrowing limit bounds what is kept for it."""
    limit = group(flavor(cpu=own(1, borrowing=3)))
    world = World(
        queue("a", "all", limit, reclaim="LowerPriority", borrow="LowerPriority"),
        queue("b", "all", cpu=0),
        queue("l", "all", cpu=4),
    )
    world.runs("r", "b", priority=9, cpu=2)
    found = world.cycle(workload("blocked", "a", priority=1, cpu=4), workload("borrower", "b", priority=0, cpu=3))
    assert what(found) == [("blocked", Status.BLOCKED, []), ("borrower", Status.SKIPPED, [])]
    assert world.usage()["all", "default", "cpu"] == 2


# -- queues ----------------------------------------------------------------------------------------------------------


def pending(strategy: str, *workloads) -> Pending:
    """One queue."""
    out = Pending()
    out.set_queue("q", strategy)
    for each in workloads:
        out.add(each)
    return out


def names(queues: Pending) -> list[str]:
    """The heads' names."""
    return [w.name for w in queues.heads()]


SMALL, LARGE, OTHER = (
    workload("small", "q", queued=2, cpu=1),
    workload("large", "q", queued=1, cpu=9),
    workload("other", "q", queued=3, cpu=9),
)


def test_order_within_a_queue():
    """Priority, then age, then UID."""
    same = [workload(n, "q", queued=1, cpu=1) for n in ("b", "a")]
    queues = pending("StrictFIFO", *same, workload("high", "q", priority=1, queued=9, cpu=1))
    found = []
    while queues.heads():
        found += names(queues)
        queues.remove(found[-1])
    assert found == ["high", "a", "b"]


def test_strict_fifo_waits_for_its_head():
    """A head that does not fit blocks those behind it."""
    queues = pending("StrictFIFO", SMALL, LARGE)
    queues.failed(LARGE, Again.LATER)
    assert names(queues) == ["large"]
    assert queues.counts("q") == (2, 0)


def test_best_effort_sets_the_head_aside():
    """The next gets its chance; whoever is like the head shares its fate until something happens."""
    queues = pending("BestEffortFIFO", SMALL, LARGE, OTHER)
    queues.failed(LARGE, Again.LATER)
    assert names(queues) == ["small"]
    assert queues.counts("q") == (1, 2)
    assert queues.wake(["q", "unknown"]) == 2
    assert names(queues) == ["large"]
    assert queues.counts("q") == (3, 0)


def test_one_that_may_do_better_at_once_stays():
    """A head that lost to another, or has flavors left to try, is looked at in the next cycle."""
    queues = pending("BestEffortFIFO", SMALL, LARGE)
    queues.failed(LARGE, Again.NOW, resume={("main", "cpu"): 0})
    assert names(queues) == ["large"]
    assert queues.resume == {"large": {("main", "cpu"): 0}}
    queues.wake(["q"])
    assert queues.resume == {}


def test_who_waits_for_victims_stays_at_the_head():
    """With BestEffortFIFO a preemptor is not overtaken by a newcomer of higher priority; with StrictFIFO it is."""
    urgent = workload("urgent", "q", priority=9, cpu=1)
    for strategy, head in (("BestEffortFIFO", "large"), ("StrictFIFO", "urgent")):
        queues = pending(strategy, LARGE)
        queues.failed(LARGE, Again.NOW, waits_for_victims=True)
        queues.add(urgent)
        assert names(queues) == [head]
        queues.remove("large")
        assert names(queues) == ["urgent"]


def test_a_newcomer_is_looked_at():
    """One that is like those set aside gets its turn first, and then shares their fate."""
    queues = pending("BestEffortFIFO", LARGE)
    queues.failed(LARGE, Again.LATER)
    queues.add(OTHER)
    assert names(queues) == ["other"]
    queues.failed(OTHER, Again.LATER)
    assert queues.counts("q") == (0, 2)
    queues.wake(["q"])
    assert names(queues) == ["large"]


def test_heaps_do_not_grow_by_waiting():
    """Being set aside and woken a thousand times leaves one entry for each workload."""
    queues = pending("BestEffortFIFO", SMALL, LARGE, OTHER)
    for _ in range(1000):
        queues.failed(OTHER, Again.LATER)
        queues.failed(SMALL, Again.LATER)
        queues.wake(["q"])
    groups = queues._lanes["q"].groups.values()
    assert sum(len(line.heap) for g in groups for line in (g.waiting, g.aside)) == 3


def test_a_changed_workload_moves():
    """A new priority is a new place in the queue."""
    queues = pending("BestEffortFIFO", SMALL, LARGE)
    queues.add(workload("small", "q", priority=5, queued=2, cpu=1))
    assert names(queues) == ["small"]


def test_outcomes_say_when_to_look_again():
    """What cannot fit waits for a change; what lost to another head does not."""
    world = World(queue("q", cpu=4))
    world.runs("r", "q", cpu=3)
    [blocked] = world.cycle(workload("w", "q", cpu=2))
    [never] = world.cycle(workload("w", "q", cpu=5))
    assert (blocked.status, blocked.again) == (Status.BLOCKED, Again.LATER)
    assert (never.status, never.again) == (Status.NO_FIT, Again.LATER)


# -- when nodes are short, not quota ---------------------------------------------------------------------------------


def test_who_may_be_taken_when_there_is_quota():
    """With room in quota nobody has to go for it; who may go for the sake of nodes the policies say just the same."""
    world = World(
        queue("mine", "all", cpu=8, within="LowerPriority", reclaim="Any"),
        queue("borrows", "all", cpu=0),
        queue("owns", "all", cpu=2),
    )
    world.runs("low", "mine", priority=0, cpu=1)
    world.runs("high", "mine", priority=9, cpu=1)
    world.runs("borrower", "borrows", priority=9, cpu=1)
    world.runs("owner", "owns", priority=0, cpu=1)
    asks = workload("new", "mine", priority=5, cpu=2)
    found = world.assign(asks)
    assert world.victims(asks) == {}
    assert world.quota.eligible(asks, found) == {"borrower": "InCohortReclamation", "low": "InClusterQueue"}
    assert world.quota.may_remove("owner", asks, found) is None
    assert world.quota.fits_quota(asks, found, ["low", "borrower"])
    assert not world.quota.fits_quota(asks, found, ["low", "high"])
