"""Gangs that announce members which are created only when the first one runs."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, Nominate
from gangsched.core.actuation.records import intent_of
from gangsched.core.events import ServerClock
from gangsched.model.constraints import PodShape
from gangsched.model.dialects import volcano
from gangsched.model.records import Announced
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, kept, nodes_of, placed, plan, reports, victims, writes

G, KEY = "d/g", f"d/g#{volcano.FAMILY}#py-gang-scheduler announced"
WORKERS = Announced("worker", 2, PodShape(requests=(("cpu", 3000),), scored=(("cpu", 3000), ("memory", 0))))


def sum_of(**resources: int) -> Built:
    """A group of one member that wants so much for all (base units)."""
    return gang("g").family(volcano.FAMILY).min(1).field(min_resources=tuple(sorted(resources.items())))


def of_shape() -> Built:
    """A group whose first member announces two workers of three cores."""
    return gang("g").family(volcano.FAMILY).min(1).field(announced=(WORKERS,))


def first(cpu: float = 1) -> PodBuilder:
    """Its first member."""
    return pod("m0").cpu(cpu).priority(5).gang("g", volcano.FAMILY)


BOTH = pytest.mark.parametrize("group", [of_shape(), sum_of(cpu=7000)], ids=["shapes", "sum"])


#: Of a cluster of two nodes most is kept.
ALL: dict[str, Any] = {"announced_share": 1.0}


def held(cluster: Cluster) -> dict[str, int]:
    """How much is kept for announced members on each node (milli-cores)."""
    out: dict[str, int] = {}
    for phantom in kept(cluster).get(KEY, ()):
        out[phantom.node] = out.get(phantom.node, 0) + dict(phantom.pod.shape.requests)["cpu"]
    return out


def started(*more: Built, group: Built | None = None, **options: Any) -> Cluster:
    """The first member of two nodes' gang runs."""
    cluster = Cluster(node("n1"), node("n2"), group or of_shape(), first(), *more, **{**ALL, **options})
    cluster.run()
    return cluster


@BOTH
def test_the_first_member_waits_for_the_whole_room(group: Built) -> None:
    """It would fit by itself."""
    decision = plan(node("n1"), node("n2").cpu(2), group, first())[G]
    assert decision.outcome == "unschedulable"
    assert decision.message.startswith("room for the members that it announces: 0/2 nodes are available")
    assert [each.pod for each in decision.unplaced] == ["d/m0"]


@BOTH
def test_the_first_member_starts_and_the_rest_is_held(group: Built) -> None:
    """As much as is announced less what the member itself takes; work of the same priority does not get it."""
    cluster = started(group=group)
    (node_of_first,) = nodes_of(cluster.log).values()
    assert sum(held(cluster).values()) == 6000
    cluster.show(pod("x").cpu(2).priority(5))
    cluster.run()
    assert "x" not in nodes_of(cluster.log)
    assert node_of_first in ("n1", "n2")


def test_what_is_planned_is_held_in_a_plan_too() -> None:
    """A gang behind it in the queue finds it taken, as it will be."""
    decisions = plan(node("n1"), node("n2"), of_shape(), first(), pod("x").cpu(2).priority(4), **ALL)
    assert (decisions[G].outcome, decisions["d/x"].outcome) == ("bind", "unschedulable")
    assert set(placed(decisions[G])) == {"m0"}


@BOTH
def test_victims_for_members_that_do_not_exist(group: Built) -> None:
    """With announced.evict they are of the first member's plan: its record has them, and it is bound when they are
    gone.
    """
    evicted_for = {**ALL, "announced_evict": True}
    cluster = Cluster(node("n1"), node("n2"), group, first(), pod("v").cpu(3).priority(1).on("n2"), **evicted_for)
    cluster.run()
    assert victims(cluster.decisions[0]) == ["v"]
    intent = intent_of(cluster.pod("m0"))
    assert intent is not None
    assert intent.victims == 1
    assert ("Bind", "m0") not in writes(cluster.log)
    assert sum(held(cluster).values()) == 6000
    cluster.leave()
    cluster.run()
    assert ("Bind", "m0") in writes(cluster.log)
    assert sum(held(cluster).values()) == 6000


@BOTH
def test_no_pod_is_evicted_for_members_that_do_not_exist(group: Built) -> None:
    """The first member, for which there is room, waits until the rest is free; then it starts without evictions."""
    cluster = Cluster(node("n1"), node("n2"), group, first(), pod("v").cpu(3).priority(1).on("n2"), **ALL)
    cluster.run()
    assert victims(cluster.decisions[0]) == []
    assert "no pod is evicted for members that do not exist yet (announced.evict)" in cluster.decisions[0].message
    cluster.delete("v")
    cluster.run()
    assert ("Bind", "m0") in writes(cluster.log)
    assert sum(held(cluster).values()) == 6000


@BOTH
def test_victims_of_a_weaker_plan_are_not_taken_over_for_members_that_do_not_exist(group: Built) -> None:
    """The gang may not evict them either. The weaker plan stays: it would be made and withdrawn without an end."""
    weaker = pod("s").cpu(5).priority(2)
    cluster = Cluster(node("n1").cpu(7), group, first(), weaker, pod("v").cpu(3).priority(1).on("n1"), **ALL)
    cluster.run()
    assert writes(cluster.log).count(("Nominate", "s")) == 1
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m0": "n1"}  # free room is the stronger gang's


@BOTH
def test_a_member_that_exists_evicts_for_itself(group: Built) -> None:
    """What is announced has its room beside it, which nobody leaves for it."""
    nodes = node("n1").memory(8), node("n2").cpu(8).memory(1)
    others = pod("v1").memory(6).priority(1).on("n1"), pod("v2").cpu(1).priority(1).on("n2")
    decision = plan(*nodes, group, first().memory(4), *others, **ALL)[G]
    assert (decision.outcome, victims(decision)) == ("preempt", ["v1"])
    assert sum(dict(pod.shape.requests)["cpu"] for pod, _ in decision.announced) == 6000


def test_members_of_one_namespace_have_a_share() -> None:
    """More than that is not kept for them, however many groups announce some: half of each resource as a rule."""
    cluster = started(announced_share=0.5)
    assert sum(held(cluster).values()) == 3000
    cluster.show(gang("h").family(volcano.FAMILY).min(1).field(announced=(WORKERS,)), node("n3"), node("n4"))
    cluster.show(pod("h0").cpu(1).priority(5).gang("h", volcano.FAMILY))
    cluster.run()
    assert "h0" in nodes_of(cluster.log)
    assert sum(dict(p.pod.shape.requests)["cpu"] for pods in kept(cluster).values() for p in pods) == 6000


def test_a_sum_is_held_by_resource() -> None:
    """Cores may be on one node and memory on another: which belong together is not known."""
    group = gang("g").family(volcano.FAMILY).min(1).field(min_resources=(("cpu", 5000), ("memory", 5 << 30)))
    decision = plan(node("n1").cpu(8).memory(1), node("n2").cpu(1).memory(8), group, first())[G]
    assert decision.outcome == "bind"


def test_a_sum_is_held_where_the_first_member_may_go() -> None:
    """Room on other nodes is none for it."""
    member = first().selector(pool="spark")
    other = node("n2")
    assert plan(node("n1").label(pool="spark"), other, sum_of(cpu=7000), member)[G].outcome == "unschedulable"
    assert plan(node("n1").cpu(8).label(pool="spark"), other, sum_of(cpu=7000), member)[G].outcome == "bind"


@BOTH
def test_members_take_the_room_that_is_held(group: Built) -> None:
    """Each comes when it is there, and as much is given back; when all are there nothing is held."""
    cluster = started(group=group)
    for n in (1, 2):
        cluster.show(pod(f"w{n}").cpu(3).priority(5).gang("g", volcano.FAMILY).hint(volcano.TASK, "worker"))
        cluster.run()
        assert f"w{n}" in nodes_of(cluster.log)
        assert sum(held(cluster).values()) == 6000 - 3000 * n
    cluster.pass_time(700)
    assert not reports(cluster.log, "AnnouncedRoomReleased")


@BOTH
def test_the_room_is_given_back_when_its_time_is_over(group: Built) -> None:
    """From the first binding; the bound member stays, its owner is told, and others get the room."""
    cluster = started(group=group)
    cluster.show(pod("x").cpu(3).priority(5))
    cluster.pass_time(599)
    assert "x" not in nodes_of(cluster.log)
    cluster.pass_time(2)
    (told,) = reports(cluster.log, "AnnouncedRoomReleased")
    assert told.regarding[1:4] == ("PodGroup", "d", "g")
    assert "within 600s" in told.note
    assert "x" in nodes_of(cluster.log)
    assert cluster.pod("m0").live
    assert KEY not in kept(cluster)


def test_how_long_it_is_held_is_a_setting() -> None:
    """In seconds; none at all is possible."""
    cluster = started(announced_hold_seconds=0.0)
    cluster.show(pod("x").cpu(3).priority(5))
    cluster.run()
    assert "x" in nodes_of(cluster.log)


def test_a_stronger_gang_takes_it() -> None:
    """It is held with the priority of its gang."""
    cluster = started(pod("x").cpu(3).priority(9).created(1))
    assert "x" in nodes_of(cluster.log)


def test_it_is_given_back_with_the_last_member() -> None:
    """Nobody would create the others; nothing is told."""
    cluster = started()
    cluster.delete("m0")
    cluster.run()
    assert KEY not in kept(cluster)
    cluster.pass_time(700)
    assert not reports(cluster.log, "AnnouncedRoomReleased")


@BOTH
@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
def test_a_restart_does_not_lengthen_or_lose_it(group: Built, ahead: float) -> None:
    """What is left of the time is read off the bound member, by the clock that stamped it."""
    cluster = started(group=group)
    cluster.change("m0", started=cluster.now + ahead)
    cluster.pass_time(400)
    cluster.restart(**ALL)
    cluster.show(ServerClock(ahead), pod("x").cpu(3).priority(5))
    cluster.run()
    assert sum(held(cluster).values()) == 6000
    cluster.pass_time(201)
    assert "x" in nodes_of(cluster.log)
    assert reports(cluster.log, "AnnouncedRoomReleased")


@BOTH
def test_a_restart_while_victims_leave(group: Built) -> None:
    """The plan is finished with the victims that were begun, and the room is held again."""
    evicted_for = {**ALL, "announced_evict": True}
    cluster = Cluster(node("n1"), node("n2"), group, first(), pod("v").cpu(3).priority(1).on("n2"), **evicted_for)
    cluster.run()
    cluster.restart(**evicted_for)
    cluster.run()
    assert sum(held(cluster).values()) == 6000
    cluster.show(pod("x").cpu(3).priority(5))
    cluster.leave()
    cluster.run()
    assert set(nodes_of(a for a in cluster.log if isinstance(a, Bind))) == {"m0"}
    assert len([a for a in cluster.log if isinstance(a, Nominate)]) >= 1


def test_members_that_are_there_are_not_announced() -> None:
    """A gang of which all members wait is one like any other."""
    group = gang("g").family(volcano.FAMILY).min(3).field(min_resources=(("cpu", 7000),), announced=())
    members = [pod(f"m{n}").cpu(cpu).priority(5).gang("g", volcano.FAMILY) for n, cpu in enumerate((1, 3, 3))]
    cluster = Cluster(node("n1"), node("n2"), group, *members)
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0", "m1", "m2"}
    assert KEY not in kept(cluster)


def test_members_that_are_not_needed_wait_for_the_first_one() -> None:
    """All of them exist: the minimum starts once there is room for all, and they take what is held for them."""
    group = gang("g").family(volcano.FAMILY).min(1).field(min_resources=(("cpu", 7000),))
    members = [pod(f"m{n}").cpu(cpu).priority(5).gang("g", volcano.FAMILY) for n, cpu in enumerate((1, 3, 3))]
    assert plan(node("n1"), node("n2").cpu(2), group, *members)[G].outcome == "unschedulable"
    cluster = Cluster(node("n1"), node("n2"), group, *members)
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0", "m1", "m2"}
    assert KEY not in kept(cluster)


def test_a_sum_that_the_required_members_have_together_asks_for_nothing_more() -> None:
    """Volcano's controllers write such sums for all Jobs; of further members they say nothing."""
    group = gang("g").family(volcano.FAMILY).min(2).field(min_resources=(("cpu", 6000),))
    members = [pod(f"m{n}").cpu(3).priority(5).gang("g", volcano.FAMILY) for n in range(4)]
    decision = plan(node("n1"), node("n2"), group, *members)[G]
    assert (decision.outcome, len(placed(decision))) == ("bind", 2)


def test_a_sum_that_is_lowered_while_members_are_awaited() -> None:
    """As much as is still announced stays held; one that is raised holds no more than before."""
    cluster = started(group=sum_of(cpu=7000))
    cluster.show(sum_of(cpu=4000))
    cluster.run()
    assert sum(held(cluster).values()) == 3000
    cluster.show(sum_of(cpu=7000))
    cluster.run()
    assert sum(held(cluster).values()) == 3000
