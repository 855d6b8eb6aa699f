"""Members that a gang announces need their quota and their topology domain as those do that exist."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind
from gangsched.model.constraints import PodShape
from gangsched.model.dialects import volcano
from gangsched.model.queues import ResourceFlavor
from gangsched.model.records import Announced
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, reports
from tests.core.queues import big, objects, queued
from tests.core.quota.world import flavor, group, queue

G = "d/g"
WORKERS = Announced("worker", 2, PodShape(requests=(("cpu", 3000),), scored=(("cpu", 3000), ("memory", 0))))


def of_shape() -> Built:
    """A group whose first member announces two workers of three cores."""
    return gang("g").family(volcano.FAMILY).min(1).field(announced=(WORKERS,))


def sum_of(cpu: int) -> Built:
    """A group of one member that wants so many milli-cores for all."""
    return gang("g").family(volcano.FAMILY).min(1).field(min_resources=(("cpu", cpu),))


def first(priority: int = 5) -> PodBuilder:
    """Its first member, of one core."""
    return queued("m0", "a", 1, priority=priority).gang("g", volcano.FAMILY)


def worker(n: int) -> PodBuilder:
    """A member that was announced."""
    made = queued(f"w{n}", "a", 3, priority=5).gang("g", volcano.FAMILY)
    return made.hint(volcano.TASK, "worker")


BOTH = pytest.mark.parametrize("group_object", [of_shape(), sum_of(7000)], ids=["shapes", "sum"])


@BOTH
@pytest.mark.parametrize(("cpu", "outcome"), [(6, "unschedulable"), (7, "bind")])
def test_the_first_member_waits_for_quota_for_all(group_object: Built, cpu: float, outcome: str) -> None:
    """One core of seven is not enough, and the message says what of the quota is missing."""
    decision = plan(big(), *objects(queue("a", "", cpu=cpu)), group_object, first())[G]
    assert decision.outcome == outcome
    if outcome == "unschedulable":
        assert "insufficient quota for cpu in flavor default" in decision.message


@BOTH
def test_what_is_announced_holds_its_quota_until_it_comes(group_object: Built) -> None:
    """Another workload of the queue gets none of it as long as the room is kept, and all of it after that."""
    cluster = Cluster(big(), *objects(queue("a", "", cpu=8)), group_object, first())
    cluster.run()
    cluster.show(queued("other", "a", 3, priority=4))
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0"}
    cluster.pass_time(599)
    assert set(nodes_of(cluster.log)) == {"m0"}
    cluster.pass_time(12)
    assert reports(cluster.log, "AnnouncedRoomReleased")
    assert set(nodes_of(cluster.log)) == {"m0", "other"}


@BOTH
def test_members_that_come_use_the_quota_that_is_held(group_object: Built) -> None:
    """It is kept for them, and counted once."""
    cluster = Cluster(big(), *objects(queue("a", "", cpu=8)), group_object, first())
    cluster.run()
    for n in (1, 2):
        cluster.show(worker(n))
        cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0", "w1", "w2"}
    cluster.show(queued("small", "a", 1, priority=4), queued("large", "a", 2, priority=4))
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0", "w1", "w2", "small"}


def test_workloads_leave_for_members_that_do_not_exist() -> None:
    """The gang's quota is asked back as a whole before its first member starts."""
    objects_ = objects(queue("a", "", cpu=8, within="LowerPriority"))
    cluster = Cluster(big(), *objects_, of_shape(), queued("old", "a", 2, priority=1).on("n1"))
    cluster.run()
    cluster.show(first())
    cluster.run()
    assert [v.name for d in cluster.decisions for v in d.victims] == ["old"]
    assert not [a for a in cluster.log if isinstance(a, Bind)]
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0"}


def test_parts_of_a_sum_are_no_pods() -> None:
    """How many members there will be is not known: of the resource ``pods`` those that exist use one each."""
    objects_ = objects(queue("a", "", group(flavor(cpu=8, pods=1))))
    assert plan(big(), *objects_, sum_of(7000), first())[G].outcome == "bind"
    assert plan(big(), *objects_, of_shape(), first())[G].outcome == "unschedulable"


def test_announced_members_run_in_flavors_too() -> None:
    """What a flavor asks of nodes is asked of those of members that come later."""
    spot = ResourceFlavor("spot", {"kind": "spot"})
    objects_ = objects(queue("a", "", group(flavor("spot", cpu=8))), spot)
    small, other = node("n1").cpu(4).label(kind="spot"), node("n2").cpu(8)
    assert plan(small, other, *objects_, of_shape(), first())[G].outcome == "unschedulable"
    assert plan(small, other.label(kind="spot"), *objects_, of_shape(), first())[G].outcome == "bind"


def test_a_gang_that_is_evicted_gives_back_what_it_announced() -> None:
    """Its first member is leaving: nobody comes after it, and its workload counts as evicted as a whole."""
    objects_ = objects(queue("a", "", cpu=8, within="LowerPriority"))
    cluster = Cluster(big(), *objects_, of_shape(), first(1))
    cluster.run()
    cluster.show(queued("strong", "a", 8, priority=9))
    cluster.run()
    assert [v.name for d in cluster.decisions for v in d.victims] == ["m0"]
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0", "strong"}


def test_domains_are_compared_by_announced_members_too() -> None:
    """The domain nearest to holding a gang is the one that takes most of all its members, those included that come
    later.
    """
    nodes = [node("n1").cpu(5).label(zone="a"), node("n2").cpu(3).label(zone="b"), node("n3").cpu(3).label(zone="b")]
    asked = gang("g").family(volcano.FAMILY).min(1).field(announced=(WORKERS,), topology=(("zone", True),))
    decision = plan(*nodes, asked, pod("m0").cpu(2).gang("g", volcano.FAMILY))[G]
    assert decision.outcome == "unschedulable"
    assert "zone=b" in decision.message
