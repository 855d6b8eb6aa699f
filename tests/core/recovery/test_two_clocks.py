"""Stamps of the API server, whose clock may be another: what decides about further victims counts elapsed time."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Remove
from gangsched.core.events import ServerClock
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.model.records import Condition
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of
from tests.core.stories import names

HOUR = 3600.0
GRACE = 90.0
OVERDUE_AFTER = 30.0


def gang_and_spare_victims() -> Cluster:
    """Gang g of two needs two of four nodes and has a minute for it; whoever is in the way takes longer to stop."""
    return Cluster(
        *(node(f"n{i}") for i in (1, 2, 3, 4)),
        gang("g").min(2).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(i).on(f"n{i}").field(grace_seconds=GRACE) for i in (1, 2, 3, 4)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
    )


def with_victims_that_terminate(ahead: float) -> Cluster:
    """The same with its first victims told to leave, by a server whose clock is so many seconds ahead."""
    cluster = gang_and_spare_victims()
    cluster.run()
    for name in ("v1", "v2"):
        cluster.change(name, deleting_since=cluster.now + GRACE + ahead)
    return cluster


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_a_grace_period_counts_from_when_its_pod_was_seen_to_terminate(ahead: float) -> None:
    """Whatever its deletionTimestamp says, and again for a pod of the same name."""
    cluster = Cluster(node("n1"), pod("v").cpu(3).on("n1"))
    cluster.run()
    cluster.now = 100.0
    cluster.change("v", deleting_since=100.0 + GRACE + ahead, grace_seconds=GRACE)
    cluster.run()
    sightings, uid = cluster.core.world.sightings, cluster.pod("v").uid
    cluster.now = 150.0
    cluster.change("v", labels={"seen": "again"})
    cluster.pass_time(40.0 + OVERDUE_AFTER)
    assert sightings.overdue == set()
    cluster.pass_time(0.1)
    assert sightings.overdue == {uid}
    cluster.delete("v")
    cluster.run()
    assert (sightings.overdue, sightings.leaves_by) == (set(), {})


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_a_pod_that_is_first_seen_terminating_later_has_its_grace_period_from_then(ahead: float) -> None:
    """The clocks differ, so its stamp does not say when that ends."""
    cluster = Cluster(node("n1"), ServerClock(ahead))
    cluster.run()
    cluster.now = 100.0
    cluster.show(pod("v").cpu(3).on("n1").terminating(100.0 + GRACE + ahead).field(grace_seconds=GRACE))
    cluster.pass_time(GRACE + OVERDUE_AFTER)
    assert cluster.core.world.sightings.overdue == set()
    cluster.pass_time(0.1)
    assert cluster.core.world.sightings.overdue == {cluster.pod("v").uid}


def test_a_grace_period_that_is_cut_short_ends_earlier() -> None:
    """Deleted once more, at once: half a minute later it should be gone."""
    cluster = Cluster(node("n1"), pod("v").cpu(3).on("n1").terminating(GRACE).field(grace_seconds=GRACE))
    cluster.run()
    cluster.change("v", deleting_since=0.0, grace_seconds=0.0)
    cluster.pass_time(OVERDUE_AFTER)
    assert cluster.core.world.sightings.overdue == set()
    cluster.pass_time(0.1)
    assert cluster.core.world.sightings.overdue == {cluster.pod("v").uid}


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_no_second_list_of_victims_while_the_first_has_its_grace_period(ahead: float) -> None:
    """The gang gives up waiting in the middle of it, whatever the stamps say; when they have gone it starts."""
    cluster = with_victims_that_terminate(ahead)
    cluster.run()
    cluster.pass_time(61)
    cluster.pass_time(20)
    assert names(cluster, Remove) == {"v1", "v2"}
    assert cluster.core.world.sightings.overdue == set()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_a_process_that_starts_reads_the_ends_of_grace_periods_by_the_clock_that_stamped_them(ahead: float) -> None:
    """Not its own: what has 10 s left of 90 s is overdue in 40 s."""
    cluster = with_victims_that_terminate(ahead)
    cluster.now += 80.0
    cluster.restart()
    cluster.show(ServerClock(ahead))
    cluster.run()
    cluster.pass_time(40)
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.pass_time(1)
    assert list(cluster.core.states().values()) == ["Backoff"]
    cluster.pass_time(ROUND_PAUSE_SECONDS)
    assert names(cluster, Remove) == {"v1", "v2", "v3", "v4"}


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_victims_that_are_stuck_are_planned_around_in_the_end(ahead: float) -> None:
    """A clock that is wrong makes no gang wait for ever either."""
    cluster = gang_and_spare_victims()
    cluster.run()
    cluster.leave("v2")
    cluster.change("v1", deleting_since=cluster.now + GRACE + ahead)
    cluster.run()
    for _ in range(3):
        cluster.pass_time(61)
    assert names(cluster, Remove) == {"v1", "v2", "v3"}


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_a_minimum_run_time_counts_from_when_the_pod_was_seen_to_start(ahead: float) -> None:
    """Neither evicted an hour early nor spared an hour longer."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).priority(1), minimum_run_time_seconds=600.0)
    cluster.run()
    cluster.now = 100.0
    bound = Condition("True", since=100.0 + ahead)
    cluster.change("v", started=100.0 + ahead, phase="Running", scheduled_condition=bound)
    cluster.show(pod("m").cpu(4).priority(9))
    cluster.run()
    cluster.pass_time(599.0)
    assert names(cluster, Remove) == set()
    cluster.pass_time(1.0)
    assert names(cluster, Remove) == {"v"}


@pytest.mark.parametrize("stamp", ["started", "bound"])
def test_a_pod_that_ran_before_began_when_it_was_first_seen_at_the_latest(stamp: str) -> None:
    """Stamps from a clock that is an hour ahead protect it no longer than the minimum, of this clock."""
    later = 100.0 + HOUR
    runs = pod("v").cpu(4).priority(1).on("n1", later if stamp == "started" else 100.0)
    if stamp == "bound":
        runs.phase("Pending").field(scheduled_condition=Condition("True", since=later))
    cluster = Cluster(node("n1"), runs, pod("m").cpu(4).priority(9), minimum_run_time_seconds=600.0)
    cluster.now = 100.0
    cluster.run()
    cluster.change("v", labels={"seen": "again"})
    cluster.pass_time(599.0)
    assert names(cluster, Remove) == set()
    cluster.pass_time(1.0)
    assert names(cluster, Remove) == {"v"}


def test_a_pod_that_ran_before_is_as_old_as_its_stamps_say() -> None:
    """A process that starts has not seen it begin: it is spared no longer for that."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).priority(1).on("n1", 100.0), minimum_run_time_seconds=600.0)
    cluster.now = 700.0
    cluster.show(pod("m").cpu(4).priority(9))
    cluster.run()
    assert names(cluster, Remove) == {"v"}


@pytest.mark.parametrize("ahead", [-HOUR, -2.0, 0.0, 2.0, HOUR])
def test_stamps_of_pods_that_ran_before_are_read_by_the_clock_that_made_them(ahead: float) -> None:
    """One that began 300 s ago has half of its minimum before it, whatever its stamps are called here."""
    runs = pod("v").cpu(4).priority(1).on("n1", 10_000.0 + ahead)
    objects = (node("n1"), runs, pod("m").cpu(4).priority(9), ServerClock(ahead))
    cluster = Cluster(*objects, minimum_run_time_seconds=600.0)
    cluster.now = 10_300.0
    cluster.pass_time(297.0)
    assert names(cluster, Remove) == set()
    cluster.pass_time(5.0)
    assert names(cluster, Remove) == {"v"}


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_a_pod_that_is_first_seen_running_later_began_then(ahead: float) -> None:
    """The clocks differ, so its stamps do not say how long ago that was; those of the others go on to count."""
    old = pod("old").cpu(4).priority(1).on("n1", 10_000.0 + ahead)
    cluster = Cluster(node("n1"), node("n2"), old, ServerClock(ahead), minimum_run_time_seconds=600.0)
    cluster.now = 10_300.0
    cluster.run()
    cluster.now = 10_400.0
    cluster.show(pod("late").cpu(4).priority(1).on("n2", 10_000.0 + ahead))
    cluster.show(*(pod(f"m{n}").cpu(4).priority(9) for n in (1, 2)))
    cluster.pass_time(500.0)
    assert names(cluster, Remove) == {"old"}
    cluster.pass_time(200.0)
    assert names(cluster, Remove) == {"old", "late"}


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_a_third_clock_that_is_ahead_of_both_protects_nobody_for_longer(ahead: float) -> None:
    """That of a kubelet, which stamps when a pod starts."""
    runs = pod("v").cpu(4).priority(1).on("n1", 10_000.0 + max(0.0, ahead) + HOUR)
    objects = (node("n1"), runs, pod("m").cpu(4).priority(9), ServerClock(ahead))
    cluster = Cluster(*objects, minimum_run_time_seconds=600.0)
    cluster.now = 10_000.0
    cluster.pass_time(599.0)
    assert names(cluster, Remove) == set()
    cluster.pass_time(1.0)
    assert names(cluster, Remove) == {"v"}
