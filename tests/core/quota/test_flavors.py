"""Which flavor a workload gets: order, fungibility, what the flavor's nodes demand."""

import msgspec
import pytest

from gangsched.core.quota.flavors import Mode, better, mismatch
from gangsched.core.quota.workloads import PodSet, Workload, pod_sets, quantity, workload_priority
from gangsched.model.constraints import NodeTerm, PodShape, Requirement, Taint, Toleration
from gangsched.model.queues import Fungibility, ResourceFlavor, WorkloadPriorityClass
from tests.core.quota.world import World, flavor, group, queue, workload


def chosen(world, asks):
    """``(outcome, cores that are borrowed, flavor of cpu)``; no flavor if there is none."""
    found = world.decide(asks)
    return found.outcome, int(dict(found.quota.borrowed).get("cpu", 0)), dict(found.quota.flavors).get("cpu")


# -- order and fungibility -------------------------------------------------------------------------------------------


def test_flavors_in_order():
    """The first that has room is taken; the next when it is full."""
    world = World(queue("q", "", group(flavor("spot", cpu=2), flavor("fixed", cpu=4))))
    assert chosen(world, workload("w", "q", cpu=2)) == ("bind", 0, "spot")
    world.runs("r", "q", flavor="spot", cpu=1)
    assert chosen(world, workload("w", "q", cpu=2)) == ("bind", 0, "fixed")
    assert chosen(world, workload("w", "q", cpu=5)) == ("unschedulable", 0, None)


@pytest.mark.parametrize(
    ("when_can_borrow", "expected"),
    [("MayStopSearch", ("bind", 2, "spot")), ("TryNextFlavor", ("bind", 0, "fixed"))],
)
def test_borrow_or_look_further(when_can_borrow, expected):
    """The search stops at a flavor that can be borrowed, or goes on to one that need not be."""
    quotas = group(flavor("spot", cpu=0), flavor("fixed", cpu=4))
    world = World(
        queue("q", "all", quotas, fungibility=Fungibility(when_can_borrow=when_can_borrow)),
        queue("lends", "all", group(flavor("spot", cpu=4))),
    )
    assert chosen(world, workload("w", "q", cpu=2)) == expected


@pytest.mark.parametrize(
    ("when_can_preempt", "expected"),
    [("MayStopSearch", ("preempt", 0, "spot")), ("TryNextFlavor", ("bind", 0, "fixed"))],
)
def test_preempt_or_look_further(when_can_preempt, expected):
    """The search stops at a flavor in which somebody can be displaced, or goes on to one that has room."""
    quotas = group(flavor("spot", cpu=2), flavor("fixed", cpu=2))
    policy = Fungibility(when_can_preempt=when_can_preempt)
    world = World(queue("q", "", quotas, within="LowerPriority", fungibility=policy))
    world.runs("low", "q", flavor="spot", cpu=2)
    assert chosen(world, workload("w", "q", priority=1, cpu=2)) == expected


@pytest.mark.parametrize(
    ("preference", "expected"),
    [("BorrowingOverPreemption", ("bind", 2, "fixed")), ("PreemptionOverBorrowing", ("preempt", 0, "spot"))],
)
def test_what_is_worse_when_nothing_is_free(preference, expected):
    """With the whole list walked the preference decides between borrowing and preemption."""
    quotas = group(flavor("spot", cpu=2), flavor("fixed", cpu=0))
    policy = Fungibility("TryNextFlavor", "TryNextFlavor", preference)
    world = World(
        queue("q", "all", quotas, within="LowerPriority", fungibility=policy),
        queue("lends", "all", group(flavor("fixed", cpu=2))),
    )
    world.runs("low", "q", flavor="spot", cpu=2)
    assert chosen(world, workload("w", "q", priority=1, cpu=2)) == expected


def test_a_flavor_without_candidates_is_passed_over():
    """A flavor in which nobody may be displaced loses to a later one in which somebody may."""
    world = World(queue("q", "", group(flavor("spot", cpu=2), flavor("fixed", cpu=2)), within="LowerPriority"))
    world.runs("high", "q", priority=9, flavor="spot", cpu=2)
    world.runs("low", "q", priority=0, flavor="fixed", cpu=2)
    assert chosen(world, workload("w", "q", priority=1, cpu=2)) == ("preempt", 0, "fixed")
    assert world.victims(workload("w", "q", priority=1, cpu=2)) == {"low": "InClusterQueue"}


def test_reclaiming_is_better_than_displacing_ones_own():
    """Of two flavors that need preemption the one that takes only from other queues is chosen."""
    quotas = group(flavor("spot", cpu=2), flavor("fixed", cpu=2))
    world = World(
        queue("q", "all", quotas, within="LowerPriority", reclaim="Any"),
        queue("other", "all", group(flavor("spot", cpu=0), flavor("fixed", cpu=0))),
    )
    world.runs("low", "q", flavor="spot", cpu=2)
    world.runs("borrower", "other", priority=9, flavor="fixed", cpu=2)
    assert chosen(world, workload("w", "q", priority=1, cpu=2)) == ("preempt", 0, "fixed")


def test_the_order_of_preference_is_total():
    """Of any two different outcomes exactly one is better, except among those that are out of reach."""
    outcomes = [(mode, level) for mode in Mode for level in (0, 1, 2)]
    for preference in ("BorrowingOverPreemption", "PreemptionOverBorrowing"):
        policy = Fungibility(preference=preference)
        for one in outcomes:
            for other in outcomes:
                if one != other and {one[0], other[0]} != {Mode.NO_FIT}:
                    assert better(one, other, policy) != better(other, one, policy)


def test_the_next_attempt_goes_on_after_the_last_flavor():
    """What was settled at the first flavor is tried at the second the next time."""
    world = World(queue("q", "", group(flavor("spot", cpu=2), flavor("fixed", cpu=2))))
    first = world.assign(workload("w", "q", cpu=2))
    assert first.resume == {("main", "cpu"): 0}
    second = world.quota.assign(workload("w", "q", cpu=2), first.resume)
    assert (second.pod_sets[0].choices["cpu"].flavor, second.resume) == ("fixed", {})


# -- groups, pod sets, pods ------------------------------------------------------------------------------------------


def roles(*sets: PodSet) -> Workload:
    """A workload of several pod sets."""
    return Workload("ns", "w", "w", "q", sets)


def test_resources_of_a_group_share_a_flavor():
    """CPU alone would fit the first flavor, memory does not: both go to the second."""
    world = World(queue("q", "", group(flavor("small", cpu=8, memory=1), flavor("large", cpu=8, memory=9))))
    found = world.assign(workload("w", "q", cpu=1, memory=4))
    assert {r: c.flavor for r, c in found.pod_sets[0].choices.items()} == {"cpu": "large", "memory": "large"}


def test_groups_are_independent():
    """Another group has its own flavors, and all of its resources may have to be borrowed."""
    world = World(
        queue("q", "all", group(flavor("default", cpu=4)), group(flavor("gpus", gpu=0))),
        queue("lends", "all", group(flavor("gpus", gpu=4))),
    )
    found = world.assign(workload("w", "q", cpu=1, gpu=2))
    assert {r: (c.flavor, c.level) for r, c in found.pod_sets[0].choices.items()} == {
        "cpu": ("default", 0),
        "nvidia.com/gpu": ("gpus", 1),
    }
    assert found.level == 1


def test_pod_sets_add_up():
    """What one pod set takes of a flavor the next cannot have: it goes to the next flavor."""
    world = World(queue("q", "", group(flavor("spot", cpu=3), flavor("fixed", cpu=3))))
    one = PodShape(requests=(("cpu", 1000),))
    found = world.assign(roles(PodSet("launcher", 1, one), PodSet("worker", 3, one)))
    assert [ps.choices["cpu"].flavor for ps in found.pod_sets] == ["spot", "fixed"]
    assert found.usage == ((("fixed", "cpu"), 3000), (("spot", "cpu"), 1000))


def test_all_pod_sets_or_none():
    """One that does not fit leaves the whole workload without flavors, and the message names it."""
    world = World(queue("q", cpu=2))
    one = PodShape(requests=(("cpu", 1000),))
    found = world.assign(roles(PodSet("launcher", 1, one), PodSet("worker", 2, one)))
    assert found.mode is Mode.NO_FIT
    assert found.message == (
        "couldn't assign flavors to pod set worker: insufficient quota for cpu in flavor default, previously "
        "considered podsets requests (1) + current podset request (2) > maximum capacity (2)"
    )


def test_pods_are_counted_where_they_are_covered():
    """A queue that covers ``pods`` bounds their number; elsewhere they are free."""
    asks = workload("w", "q", count=3, cpu=0.1)
    assert World(queue("q", cpu=1)).assign(asks).mode is Mode.FIT
    assert World(queue("q", cpu=1, pods=3)).assign(asks).usage == ((("default", "cpu"), 300), (("default", "pods"), 3))
    assert World(queue("q", cpu=1, pods=2)).assign(asks).mode is Mode.NO_FIT


def test_uncovered_resources():
    """A resource that the queue does not cover blocks the workload; one that it covers but nobody asks for does not."""
    world = World(queue("q", cpu=1, memory=0))
    assert world.assign(workload("w", "q", cpu=1)).mode is Mode.FIT
    found = world.assign(workload("w", "q", cpu=1, gpu=1))
    assert found.mode is Mode.NO_FIT
    assert found.message == (
        "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue"
    )


def test_amounts_beyond_anything():
    """Numbers that no machine has are compared exactly, and refused."""
    world = World(queue("q", "all", memory=2**53), queue("r", "all", memory=2**53))
    assert world.assign(workload("w", "q", memory=2**53, count=2)).mode is Mode.FIT
    assert world.assign(workload("w", "q", memory=2**53, count=2**31)).mode is Mode.NO_FIT


# -- what the flavor's nodes demand ----------------------------------------------------------------------------------

SPOT = ResourceFlavor("spot", {"kind": "spot", "zone": "a"}, (Taint("spot", "yes"),))
TOLERATES = (Toleration("spot", "Exists"),)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (PodShape(), "untolerated taint spot=yes:NoSchedule in flavor spot"),
        (PodShape(tolerations=TOLERATES), ""),
        (PodShape(tolerations=TOLERATES, node_selector=(("kind", "spot"), ("disk", "ssd"))), ""),
        (
            PodShape(tolerations=TOLERATES, node_selector=(("kind", "fixed"),)),
            "flavor spot doesn't match node affinity",
        ),
        (PodShape(tolerations=TOLERATES, node_terms=(NodeTerm((Requirement("zone", "In", ("a", "b")),)),)), ""),
        (
            PodShape(tolerations=TOLERATES, node_terms=(NodeTerm((Requirement("zone", "NotIn", ("a",)),)),)),
            "flavor spot doesn't match node affinity",
        ),
        (
            PodShape(
                tolerations=TOLERATES,
                node_terms=(
                    NodeTerm((Requirement("zone", "NotIn", ("a",)),)),
                    NodeTerm((Requirement("disk", "Exists"),)),
                ),
            ),
            "",
        ),
    ],
)
def test_flavor_and_pod(shape, problem):
    """Taints must be tolerated; selectors and affinity count only where the flavor knows the label."""
    assert mismatch(SPOT, shape) == problem


def test_a_flavor_brings_its_own_tolerations():
    """Tolerations of the flavor are added to the pods, so its taints need no other; a mere preference needs none."""
    assert mismatch(msgspec.structs.replace(SPOT, tolerations=TOLERATES), PodShape()) == ""
    assert mismatch(ResourceFlavor("f", {}, (Taint("t", "", "PreferNoSchedule"),)), PodShape()) == ""


def test_an_unfit_flavor_is_skipped():
    """Pods that do not tolerate the first flavor get the second; if there is none the reason says so."""
    world = World(SPOT, queue("q", "", group(flavor("spot", cpu=2), flavor("fixed", cpu=2))), queue("s", "", group(
        flavor("spot", cpu=2))))  # fmt: skip
    assert chosen(world, workload("w", "q", cpu=1)) == ("bind", 0, "fixed")
    found = world.assign(workload("w", "s", cpu=1))
    assert found.mode is Mode.NO_FIT
    assert found.message == (
        "couldn't assign flavors to pod set main: untolerated taint spot=yes:NoSchedule in flavor spot"
    )


# -- small things ----------------------------------------------------------------------------------------------------


def test_pods_of_one_shape_are_one_pod_set():
    """Equal pods are counted; different ones are roles in the order in which they come."""
    small, large = PodShape(requests=(("cpu", 1),)), PodShape(requests=(("cpu", 2),))
    assert pod_sets([small, small]) == (PodSet("main", 2, small),)
    assert pod_sets([large, small, large]) == (PodSet("role-0", 2, large), PodSet("role-1", 1, small))


def test_priority_of_a_workload():
    """The WorkloadPriorityClass counts, without one the pods' priority; an unknown class is a problem."""
    classes = {"high": WorkloadPriorityClass("high", 7)}
    assert workload_priority("high", classes, 1) == (7, "")
    assert workload_priority("", classes, 1) == (1, "")
    assert workload_priority("none", classes, 1) == (1, "WorkloadPriorityClass none not found")


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [("cpu", 2000, "2"), ("cpu", 1500, "1500m"), ("memory", 2**31, "2Gi"), ("memory", 3, "3"), ("pods", 1024, "1024")],
)
def test_quantities_in_messages(resource, units, text):
    """Exact, and as Kubernetes would write them."""
    assert quantity(resource, units) == text
