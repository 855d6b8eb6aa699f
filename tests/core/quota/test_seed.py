"""Two teams and a shared pool: the arithmetic of a well-known Kueue demo, from admission to the return of the loser."""

from typing import Any

from gangsched.core.quota.cycle import Status
from gangsched.core.quota.flavors import Mode
from gangsched.core.quota.workloads import Admission
from tests.core.quota.world import World, flavor, group, own, queue, workload

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


def admit(world, outcome):
    """What the caller of a cycle does with an admission."""
    a = outcome.assignment
    world.quota.admit(Admission(outcome.workload, a.usage, world.now, flavors=a.flavors))


def test_the_story():
    """B borrows 5 CPU; A borrows 7 and takes them back from B, who comes back when A has finished."""
    world = teams()
    [first] = world.cycle(JOB_B)
    assert (first.status, first.assignment.level) == (Status.ADMITTED, 1)
    admit(world, first)
    [second] = world.cycle(JOB_A)
    assert second.status is Status.PREEMPTING
    assert {v.workload.name: v.reason for v in second.victims} == {"team-b-job": "InCohortReclaimWhileBorrowing"}
    assert second.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed. "
        "Pending the preemption of 1 workload(s)"
    )
    assert world.quota.message(second.victims[0], JOB_A, "job") == (
        "Preempted to accommodate a workload (UID: team-a-job, JobUID: job) due to reclamation within the cohort while "
        "borrowing; preemptor path: /team-ab/team-a-cq; preemptee path: /team-ab/team-b-cq"
    )
    world.quota.release(JOB_B.uid)
    third, fourth = world.cycle(JOB_B, JOB_A)
    assert (third.workload, third.status) == (JOB_A, Status.ADMITTED)
    assert third.assignment.usage == ((("default", "cpu"), 7000), (("gpu", "nvidia.com/gpu"), 2))
    assert (fourth.status, fourth.message) == (
        Status.SKIPPED,
        "Workload no longer fits after processing another workload",
    )
    admit(world, third)
    assert world.usage() == {
        ("team-a-cq", "default", "cpu"): 7,
        ("team-a-cq", "gpu", "nvidia.com/gpu"): 2,
        ("team-ab", "default", "cpu"): 7,
        ("team-ab", "gpu", "nvidia.com/gpu"): 2,
    }
    [waiting] = world.cycle(JOB_B)
    assert (waiting.status, waiting.reason) == (Status.NO_FIT, "WaitingForQuota")
    world.quota.release(JOB_A.uid)
    assert [o.status for o in world.cycle(JOB_B)] == [Status.ADMITTED]


def test_the_threshold_includes_itself():
    """At the threshold a workload may be taken by one that borrows; above it not, and there is no other way here."""
    for priority, victims in ((100, {"b": "InCohortReclaimWhileBorrowing"}), (101, {})):
        world = teams()
        world.runs("b", "team-b-cq", priority=priority, cpu=5)
        assert world.victims(JOB_A) == victims


def test_no_preemption_without_the_policy():
    """Nominal CPU is 0, so that A can only borrow: without borrowWithinCohort it waits."""
    world = teams()
    world.quota.put(queue("team-a-cq", "team-ab", *world.quota.queues["team-a-cq"].groups, reclaim="Any"))
    world.runs("b", "team-b-cq", priority=100, cpu=5)
    assert world.assign(JOB_A).mode is Mode.NO_FIT
    assert world.victims(JOB_A) == {}


def test_what_may_not_be_borrowed_never_waits():
    """B may not borrow GPUs: asking for one exceeds what it can ever have."""
    found = teams().assign(workload("b", "team-b-cq", gpu=1))
    assert (found.mode, found.reason) == (Mode.NO_FIT, "ExceedsMaxQuota")
    assert found.message == (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor gpu, previously "
        "considered podsets requests (0) + current podset request (1) > maximum capacity (0)"
    )
