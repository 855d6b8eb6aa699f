"""Two teams and a shared pool: the arithmetic of a well-known Kueue demo, from admission to the return of the loser."""

from typing import Any

from tests.core.harness import reports
from tests.core.quota.world import World, exceeds, flavor, group, own, queue, reasons, workload

POLICY: dict[str, Any] = {"reclaim": "Any", "borrow": "LowerPriority", "threshold": 100}


def teams() -> World:
    """Team A owns the GPUs, team B nothing; CPU and memory belong to a queue that only lends."""
    shared: dict[str, Any] = {"cpu": 0, "memory": 0}
    return World(
        queue("team-a-cq", "team-ab", group(flavor("default", **shared)), group(flavor("gpu", gpu=2)), **POLICY),
        queue("team-b-cq", "team-ab", group(flavor("gpu", gpu=own(0, 0))), group(flavor("default", **shared))),
        queue("shared-cq", "team-ab", cpu=10, memory=64 * 2**30, **POLICY),
    )


JOB_B = workload("team-b-job", "team-b-cq", priority=100, queued=1, cpu=5)
JOB_A = workload("team-a-job", "team-a-cq", priority=1000, queued=2, cpu=7, gpu=2)


def test_the_story():
    """B borrows 5 CPU; A borrows 7 and takes them back from B, who comes back when A has finished."""
    world = teams()
    assert world.turns(JOB_B) == [("team-b-job", "bind", [])]
    lent = world.cluster.decisions[-1].quota
    assert lent is not None
    assert lent.borrowed == (("cpu", "5"),)
    assert world.turns(JOB_A) == [("team-a-job", "preempt", ["team-b-job"])]
    taken = world.cluster.decisions[-1]
    assert reasons(taken) == {"team-b-job": "InCohortReclaimWhileBorrowing"}
    [told] = [r for r in reports(world.cluster.log, "EvictedDueToPreempted") if "team-b-job" in r.regarding]
    assert told.note.startswith(
        "Preempted to accommodate a workload (UID: uid-d-team-a-job, JobUID: UNKNOWN) due to reclamation within the "
        "cohort while borrowing; preemptor path: /team-ab/team-a-cq; preemptee path: /team-ab/team-b-cq; "
    )
    world.cluster.leave()
    again = world.turns(JOB_B)
    assert again == [("team-b-job", "unschedulable", [])]
    assert world.running() == {"team-a-job"}
    assert taken.quota is not None
    assert taken.quota.flavors == (("cpu", "default"), ("nvidia.com/gpu", "gpu"))
    assert world.usage() == {
        ("team-a-cq", "default", "cpu"): 7,
        ("team-a-cq", "gpu", "nvidia.com/gpu"): 2,
        ("team-ab", "default", "cpu"): 7,
        ("team-ab", "gpu", "nvidia.com/gpu"): 2,
    }
    assert world.cluster.decisions[-1].message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
    )
    world.ends("team-a-job")
    world.rest()
    assert world.running() == {"team-b-job"}


def test_the_threshold_includes_itself():
    """At the threshold a workload may be taken by one that borrows; above it not, and there is no other way here."""
    for priority, victims in ((100, {"b": "InCohortReclaimWhileBorrowing"}), (101, {})):
        world = teams()
        world.runs("b", "team-b-cq", priority=priority, cpu=5)
        assert world.victims(JOB_A) == victims


def test_no_preemption_without_the_policy():
    """Nominal CPU is 0, so that A can only borrow: without borrowWithinCohort it waits."""
    world = teams()
    world.put(queue("team-a-cq", "team-ab", *world.quota.queues["team-a-cq"].groups, reclaim="Any"))
    world.runs("b", "team-b-cq", priority=100, cpu=5)
    assert world.decide(JOB_A).outcome == "unschedulable"


def test_what_may_not_be_borrowed_never_waits():
    """B may not borrow GPUs: asking for one exceeds what it can ever have."""
    found = teams().decide(workload("b", "team-b-cq", gpu=1))
    assert exceeds(found)
    assert found.message == (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor gpu, previously "
        "considered podsets requests (0) + current podset request (1) > maximum capacity (0)"
    )
