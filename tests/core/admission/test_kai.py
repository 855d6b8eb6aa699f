"""Gangs of KAI: pods that wait for their group, and groups that are not preemptible."""

from __future__ import annotations

import pytest

from gangsched.core import events as ev
from gangsched.model.records import Stakes
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


def test_a_pod_waits_for_its_group():
    """It would start alone before the podgrouper has seen it."""
    found = plan(node("n").cpu(1), pod("a").cpu(1).scheduler(KAI).gang("a", FAMILY), scheduler_names=(KAI,))
    assert (found["d/a"].outcome, found["d/a"].message) == ("gathering", "PodGroup d/a does not exist")


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
