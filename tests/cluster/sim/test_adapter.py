import pytest

from gangsched.cluster.sim import SimCluster
from gangsched.cluster.sim.world import StuckError
from gangsched.core.actions import Bind, Remove
from gangsched.core.events import Changed, Gone, LeadershipChanged, Synced, record_of
from gangsched.model.records import Node
from tests.cluster.sim.objects import event, gang, get, node, pod, pods_in, ref, world


def test_a_connection_begins_with_everything_there_is():
    """First all objects, then Synced, then leadership."""
    _, events = SimCluster(world(node("n1"), gang("g", 1), pod("a"))).poll()
    assert [type(record_of(e) or e).__name__ for e in events] == ["Node", "Gang", "Pod", "Synced", "LeadershipChanged"]


def test_a_standby_is_not_told_that_it_leads():
    """Without leadership only the objects come."""
    _, events = SimCluster(world(node("n1")), leading=False).poll()
    assert [type(record_of(e) or e) for e in events] == [Node, Synced]
    assert not any(isinstance(e, LeadershipChanged) for e in events)


def test_waiting_ends_at_the_first_event():
    """Virtual time stops where something arrives, and what arrives in one moment comes as one batch."""
    there = world(node("n1"))
    cluster = SimCluster(there)
    cluster.poll()
    for name in "ab":
        there.create_after(5.0, event(pod(name)))
    there.create_after(6.0, event(pod("c")))
    now, events = cluster.wait(100.0)
    assert now == 5.0 + there.timing.watch_seconds
    assert [p.name for p in pods_in(events)] == ["a", "b"]


def test_waiting_ends_at_the_given_moment():
    """Without events time passes until then, exactly."""
    cluster = SimCluster(world())
    cluster.poll()
    assert cluster.wait(12.345) == (12.345, [])
    assert not cluster.stopped


def test_waiting_for_the_past_returns_at_once():
    """A moment that has passed does not turn time back."""
    cluster = SimCluster(world())
    cluster.poll()
    cluster.wait(10.0)
    assert cluster.wait(3.0) == (10.0, [])


def test_it_stops_at_the_end():
    """At until_seconds the loop must end, also when more was to come."""
    there = world()
    there.create_after(50.0, event(pod("late")))
    cluster = SimCluster(there, until_seconds=20.0)
    cluster.poll()
    assert cluster.wait(None) == (20.0, [])
    assert cluster.stopped
    assert not cluster.quiet


def test_it_stops_when_nothing_more_can_happen():
    """Nothing is due and nobody wants to be woken: the simulation is over."""
    cluster = SimCluster(world(node("n1")))
    cluster.poll()
    cluster.wait(None)
    assert cluster.stopped
    assert cluster.quiet


def test_poll_does_not_let_time_pass():
    """Polling returns what is due now."""
    there = world()
    cluster = SimCluster(there)
    cluster.poll()
    there.create_after(1.0, event(pod("a")))
    assert cluster.poll() == (0.0, [])


def test_a_scheduler_that_goes_round_in_circles_is_caught():
    """A loop that asks for ever in one moment ends with an error instead of never."""
    cluster = SimCluster(world())
    cluster.poll()

    def spin():
        while not cluster.stopped:
            cluster.wait(0.0)

    with pytest.raises(StuckError, match="busy without end at 0 s"):
        spin()


def test_a_closed_connection_hears_nothing_and_its_writes_take_effect():
    """When a scheduler dies, what it sent still happens; the next one sees it in its listing."""
    there = world(node("n1"), pod("a"))
    first = SimCluster(there)
    first.poll()
    first.submit([Bind(1, ref("a"), "n1")])
    first.close()
    there.clock.advance_to(1.0)
    assert first.stopped
    assert first.poll()[1] == []
    assert get(there, "a").node == "n1"
    _, events = SimCluster(there).poll()
    assert [p.node for p in pods_in(events)] == ["n1"]


def test_the_end_of_a_pod_is_seen():
    """A removed pod is seen as terminating, and then as gone."""
    there = world(node("n1"), pod("a", node="n1", grace_seconds=1.0))
    cluster = SimCluster(there)
    cluster.poll()
    cluster.submit([Remove(1, ref("a"))])
    seen = []
    while not cluster.stopped:
        seen += cluster.wait(None)[1]
    kinds = [type(e) for e in seen if isinstance(e, Changed | Gone)]
    assert kinds == [Changed, Gone]
