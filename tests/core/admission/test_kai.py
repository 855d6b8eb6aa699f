"""Gangs of KAI: pods that wait for their group, and groups that are not preemptible."""

from __future__ import annotations

import pytest

from gangsched.core import events as ev
from gangsched.model.records import Part, PriorityClass, Stakes
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, plan

FAMILY = "scheduling.run.ai"
KAI = "kai-scheduler"


def group(**fields):
    """A PodGroup of one."""
    return gang("g").family(FAMILY).field(source="PodGroup", **fields)


def runs(scheduler=KAI):
    """A pod of it that runs."""
    return pod("a").cpu(1).scheduler(scheduler).gang("g", FAMILY).on("n").priority(1)


ABOVE = pod("above").cpu(1).priority(10)
NEVER = Stakes(never=True)


def victims(cluster):
    """What was decided to leave."""
    cluster.run()
    return [victim.name for decision in cluster.decisions for victim in decision.victims]


@pytest.mark.parametrize(
    ("stakes", "value", "leaves"),
    [(Stakes(never_from=100), 99, ["a"]), (Stakes(never_from=100), 100, []), (Stakes(), 100, ["a"])],
)
def test_from_a_priority_on_a_group_is_not_preemptible(stakes, value, leaves):
    """That of its class counts, as in KAI, unless it is called preemptible."""
    build, above = ev.Changed(PriorityClass("build", value)), pod("above").cpu(1).priority(500)
    cluster = Cluster(build, node("n").cpu(1), group(stakes=stakes, priority_class="build"), runs(), above)
    assert victims(cluster) == leaves


def test_a_group_that_gets_another_class_may_be_preempted():
    """Its pods are looked at again."""
    known = [ev.Changed(PriorityClass(*each)) for each in (("build", 100), ("train", 50))]
    wish = {"stakes": Stakes(never_from=100)}
    above = pod("above").cpu(1).priority(500)
    cluster = Cluster(*known, node("n").cpu(1), group(priority_class="build", **wish), runs(), above)
    assert victims(cluster) == []
    cluster.show(group(priority_class="train", **wish))
    assert victims(cluster) == ["a"]


PARTS = Part(least=1, parts=(Part("a", 2), Part("b", 2)))


def in_part(name, of):
    """A member in a sub-group."""
    return pod(name).cpu(1).scheduler(KAI).gang("g", FAMILY).labels({"kai.scheduler/subgroup-name": of})


def test_members_of_a_sub_group_that_is_not_needed_are_surplus():
    """They may be victims one by one, though others come later by name."""
    members = [in_part("a1", "a"), in_part("b1", "b"), in_part("c1", "a"), in_part("d1", "b")]
    members = [each.on("n").priority(1) for each in members]
    cluster = Cluster(node("n").cpu(4), group(parts=PARTS, min_member=2), *members, ABOVE)
    assert victims(cluster) == ["b1"]


def test_a_sub_group_that_has_lost_a_member_is_the_one_that_is_filled():
    """Not one of which nobody runs."""
    ready = [in_part("a1", "a"), in_part("a2", "a"), in_part("b2", "b")]
    runs_on = in_part("b1", "b").on("n").priority(1)
    found = plan(node("n").cpu(2), group(parts=PARTS, min_member=2), *ready, runs_on, scheduler_names=(KAI,))
    assert (found["d/g"].outcome, [each.name for each in found["d/g"].placements]) == ("bind", ["b2"])


def test_a_pod_waits_for_its_group():
    """It would start alone before the podgrouper has seen it."""
    found = plan(
        node("n").cpu(1), pod("a").cpu(1).scheduler(KAI).field(ungrouped="KAI's podgrouper"), scheduler_names=(KAI,)
    )
    waits = "the pod is in no PodGroup yet; KAI's podgrouper would put it into one"
    assert (found["d/a"].outcome, found["d/a"].message) == ("gathering", waits)


@pytest.mark.parametrize("scheduler", [KAI, "other"])
@pytest.mark.parametrize("first", ["group", "pod"])
def test_pods_of_a_group_that_is_not_preemptible_stay(first, scheduler):
    """Whatever is seen first, and whoever schedules it."""
    objects = [group(stakes=NEVER), runs(scheduler)]
    cluster = Cluster(node("n").cpu(1), *(objects if first == "group" else reversed(objects)))
    cluster.show(ABOVE)
    assert victims(cluster) == []


def test_a_group_that_becomes_preemptible_is_a_victim():
    """The gang that waits looks again."""
    cluster = Cluster(node("n").cpu(1), group(stakes=NEVER), runs(), ABOVE)
    assert victims(cluster) == []
    cluster.show(group())
    cluster.pass_time(60)
    assert victims(cluster) == ["a"]


def test_without_the_group_priorities_decide():
    """What a deleted object said is over."""
    cluster = Cluster(node("n").cpu(1), group(stakes=NEVER), runs(), ABOVE)
    assert victims(cluster) == []
    cluster.show(ev.Gone("PodGroup", "d", "g", "", group=FAMILY))
    cluster.pass_time(60)
    assert victims(cluster) == ["a"]
