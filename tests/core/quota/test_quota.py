"""Objects that come and go, and why a workload cannot even be considered."""

import msgspec
import pytest

from gangsched.core.quota.workloads import Admission, Workload
from gangsched.model.constraints import LabelSelector, Requirement
from gangsched.model.queues import LocalQueue, ResourceFlavor, WorkloadPriorityClass
from tests.core.quota.world import World, cohort, exceeds, has_room, queue, workload


def test_from_the_label_to_the_queue():
    """A LocalQueue leads to its ClusterQueue, unless it is stopped or not there."""
    quota = World().quota
    quota.put(LocalQueue("ns", "main", "cq"))
    quota.put(LocalQueue("ns", "held", "cq", "Hold"))
    assert quota.queue_of("ns", "main") == ("cq", "")
    assert quota.queue_of("ns", "held") == ("cq", "LocalQueue held is stopped")
    assert quota.queue_of("other", "main") == ("", "LocalQueue main doesn't exist")
    quota.remove(LocalQueue, "ns/main")
    assert quota.queue_of("ns", "main") == ("", "LocalQueue main doesn't exist")


@pytest.mark.parametrize(
    ("change", "reason", "why"),
    [
        ({}, "", ""),
        ({"stop": "Hold"}, "Stopped", "its stopPolicy is Hold"),
        ({"stop": "HoldAndDrain"}, "Stopped", "its stopPolicy is HoldAndDrain"),
        ({"checks": ("c",)}, "AdmissionCheckNotFound", "admission checks are not run by this scheduler (c)"),
    ],
)
def test_inactive_queues(change, reason, why):
    """A stopped queue, or one with checks that nobody here makes, admits nothing and says why."""
    world = World(msgspec.structs.replace(queue("q", cpu=1), **change))
    assert world.quota.inactive("q") == reason
    expected = f"ClusterQueue q is inactive: {why}" if reason else ""
    assert world.quota.problem(workload("w", "q", cpu=1)) == expected


def test_a_flavor_that_is_missing():
    """Without its ResourceFlavor the queue is inactive; it comes back with it."""
    world = World(queue("q", cpu=1))
    world.quota.remove(ResourceFlavor, "default")
    assert world.quota.inactive("q") == "FlavorNotFound"
    world.quota.put(ResourceFlavor("default"))
    assert world.quota.inactive("q") == ""


def test_namespaces():
    """A selector chooses by labels; without one no namespace may use the queue."""
    selector = LabelSelector((Requirement("team", "In", ("a",)),))
    world = World(msgspec.structs.replace(queue("q", cpu=1), namespaces=selector))
    asks = workload("w", "q", cpu=1)
    assert world.quota.problem(asks, {"team": "a"}) == ""
    refused = "workload namespace doesn't match ClusterQueue selector"
    assert world.quota.problem(asks, {"team": "b"}) == refused
    world.quota.put(msgspec.structs.replace(queue("q", cpu=1), namespaces=None))
    assert world.quota.problem(asks, {"team": "a"}) == refused
    assert world.quota.problem(workload("w", "gone", cpu=1)) == "ClusterQueue gone not found"


def test_quota_that_changes():
    """A queue that grows, moves to another cohort or goes away changes what others can have, at once."""
    world = World(queue("a", "all", cpu=1), queue("b", "all", cpu=1))
    asks = workload("w", "a", cpu=2)
    assert world.decide(asks).outcome == "bind"
    world.runs("r", "b", cpu=1)
    assert world.decide(asks).outcome == "unschedulable"
    world.put(queue("b", "all", cpu=2))
    assert world.decide(asks).outcome == "bind"
    world.put(queue("b", "elsewhere", cpu=2))
    assert exceeds(world.decide(asks))
    world.put(cohort("all", cpu=5))
    assert world.decide(asks).outcome == "bind"
    world.drop("Cohort", "all")
    assert exceeds(world.decide(asks))


def test_admissions_outlive_their_queue():
    """What runs in a queue that is gone holds nothing, and holds it again when the queue comes back."""
    world = World(queue("a", "all", cpu=1), queue("b", "all", cpu=2))
    world.runs("r", "b", cpu=2)
    world.drop("ClusterQueue", "b")
    assert world.usage() == {}
    world.put(queue("b", "all", cpu=2))
    assert world.usage()["b", "default", "cpu"] == 2
    world.ends("r")
    world.rest()
    assert world.usage() == {}


def test_an_admission_that_changes_is_counted_once():
    """A second report of the same workload replaces the first."""
    world = World(queue("a", cpu=9))
    world.runs("r", "a", cpu=2)
    world.runs("r", "a", cpu=3)
    world.runs("r", "a", cpu=3, leaving=True)
    assert world.usage() == {("a", "default", "cpu"): 3}


def test_priority_classes_come_and_go():
    """Classes are kept by name."""
    quota = World().quota
    quota.put(WorkloadPriorityClass("high", 7))
    assert quota.priority_classes["high"].value == 7
    quota.remove(WorkloadPriorityClass, "high")
    assert quota.priority_classes == {}


def test_messages_with_gaps():
    """What is not known is said to be unknown."""
    unknown = Workload("", "", "", "", ())
    assert World().quota.message(unknown, "Because", unknown) == (
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to UNKNOWN; preemptor path: UNKNOWN; "
        "preemptee path: UNKNOWN"
    )


def test_without_flavors_there_is_no_room():
    """A workload that fits in no flavor does not fit by anybody's leaving."""
    world = World(queue("q", cpu=1, within="LowerPriority"))
    world.runs("r", "q", cpu=1)
    asks = workload("w", "q", priority=1, cpu=2)
    found = world.assign(asks)
    assert not has_room(world.quota, asks, found, world.quota.admissions)
    assert not has_room(world.quota, asks, found)


def test_what_is_promised_is_free_for_whoever_it_is_promised_to():
    """Only as long as it is set aside, and once: also if the workload is among those that leave."""
    quota = World(queue("q", cpu=4)).quota
    held, other = workload("w", "q", cpu=2), workload("o", "q", cpu=1)
    quota.admit(Admission(other, ((("default", "cpu"), 1000),)))
    quota.admit(Admission(held, ((("default", "cpu"), 2000),), promised=((("default", "cpu"), 1000),)))
    used = list(quota.tree.queues["q"].usage)
    assert not quota.has_room(workload("w", "q", cpu=2))
    quota.set_aside({"w", "unknown"})
    assert quota.has_room(workload("w", "q", cpu=2))
    assert not quota.has_room(workload("w", "q", cpu=3))
    assert quota.has_room(workload("w", "q", cpu=3), {"w"})
    assert not quota.has_room(workload("w", "q", cpu=4), {"w"})
    quota.put_back()
    assert quota.tree.queues["q"].usage == used
