"""What is held of nodes against other schedulers is bounded: for how long, which nodes, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, HoldNode, Remove
from gangsched.core.ledger.held_shares import FIRST_PAUSE_SECONDS, HeldShares
from gangsched.core.lifecycle.holding import HEAD_START_SECONDS, IN_FLIGHT_SECONDS, LINGER_SECONDS, TAKEOVER_SECONDS
from tests.builders import OTHERS, PodBuilder, gang, node, pod
from tests.core.eviction.held_nodes import asked, dns, held, preempting
from tests.core.harness import Cluster, texts

MOST = 120.0  # preemption.maxWait


def victim(name: str, on: str, grace: float, cpu: float = 3.0) -> PodBuilder:
    """A pod of another scheduler that is in the way."""
    return pod(name).cpu(cpu).priority(1).on(on).scheduler(OTHERS).field(grace_seconds=grace)


def wants(name: str, namespace: str = "d") -> PodBuilder:
    """A pod of a gang of its own that needs a whole node."""
    return pod(name, namespace).cpu(3).priority(5)


def stuck(**options: Any) -> Cluster:
    """The victims have 100 s, terminate for ever, and hold their room for long after that."""
    cluster = preempting(grace=100.0, overdue_after_seconds=10_000.0, timeout_seconds=10_000.0, **options)
    cluster.show(gang("g").min(2).timeout(10_000))
    return cluster


def test_a_node_is_held_for_at_most_max_wait() -> None:
    """Even while the plan goes on waiting; then it is given back, and stays so."""
    cluster = stuck()
    cluster.run()
    cluster.pass_time(MOST - 1)
    assert sorted(held(cluster)) == ["n1", "n2"]
    cluster.pass_time(2)
    assert not held(cluster)
    cluster.pass_time(100)
    assert not held(cluster)


def test_a_hold_for_slow_pods_begins_shortly_before_their_time_is_over() -> None:
    """A pod that may take an hour to terminate does not close its node for an hour."""
    cluster = preempting(grace=3600.0, timeout_seconds=7200.0)
    cluster.show(gang("g").min(2).timeout(7200))
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["v1", "v2"]
    cluster.pass_time(3600.0 - HEAD_START_SECONDS - 1)
    assert not held(cluster)
    cluster.pass_time(2)
    assert sorted(held(cluster)) == ["n1", "n2"]


def test_a_hold_for_slow_pods_begins_when_the_first_is_gone() -> None:
    """The pods of a gang that has an hour may terminate at once: the room of the first is held, until the others go."""
    cluster = Cluster(
        node("n1"),
        victim("a", "n1", 3600.0, 2.0),
        victim("b", "n1", 3600.0, 2.0),
        dns("n1"),
        pod("m").cpu(4).priority(5),
        timeout_seconds=7200.0,
    )
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["a", "b"]
    assert not held(cluster)
    cluster.leave("a")
    cluster.run()
    assert list(held(cluster)) == ["n1"]
    cluster.leave("b")
    cluster.pass_time(LINGER_SECONDS)
    assert asked(cluster, Bind) == ["m"]
    assert not held(cluster)


@pytest.mark.parametrize("quick", [1.0, 60.0])
def test_a_hold_for_slow_pods_begins_before_those_are_removed_that_terminate_sooner(quick: float) -> None:
    """All rooms appear together: the node is held before the quick pod is removed, and for less than maxWait."""
    cluster = Cluster(
        node("n1"),
        victim("slow", "n1", 3600.0, 2.0),
        victim("quick", "n1", quick, 2.0),
        dns("n1"),
        pod("m").cpu(4).priority(5),
        timeout_seconds=7200.0,
    )
    cluster.run()
    assert asked(cluster, Remove) == ["slow"]
    begins = 3600.0 - max(quick, HEAD_START_SECONDS)
    cluster.pass_time(begins - 1)
    assert not held(cluster)
    cluster.pass_time(1)
    assert list(held(cluster)) == ["n1"]
    cluster.pass_time(HEAD_START_SECONDS)
    order = [each for each in cluster.log if isinstance(each, HoldNode | Remove)]
    assert [type(each) for each in order] == [Remove, HoldNode, Remove]


@pytest.mark.parametrize(("asks", "expected"), [(0.02, False), (0.99, False), (1.0, True), (2.0, True)])
def test_only_nodes_are_held_on_which_others_could_take_what_the_members_need(asks: float, expected: bool) -> None:
    """A member that has to avoid the port of a victim, and asks for less than half of what is free beside that, closes
    no node to others.
    """
    cluster = Cluster(
        node("n1").cpu(4),
        pod("v").cpu(2).priority(1).on("n1").scheduler(OTHERS).port(80),
        dns("n1"),
        pod("m").cpu(asks).priority(5).port(80),
    )
    cluster.pass_time(IN_FLIGHT_SECONDS)
    assert asked(cluster, Remove) == ["v"]
    assert bool(held(cluster)) == expected


def test_free_room_of_a_plan_that_evicts_elsewhere_is_held_too() -> None:
    """Others could take a free node while the pods on the other one terminate."""
    cluster = preempting()
    cluster.delete("v1")
    cluster.pass_time(IN_FLIGHT_SECONDS)
    assert asked(cluster, Remove) == ["v2"]
    assert sorted(held(cluster)) == ["n1", "n2"]


def test_a_namespace_for_which_nodes_were_held_in_vain_pauses_and_others_do_not() -> None:
    """No pod is evicted for its gangs until the pause is over. Gangs of other namespaces go on."""
    cluster = stuck()
    cluster.show(node("n4"), node("n5"), victim("v4", "n4", 1.0), victim("v5", "n5", 1.0))
    cluster.run()
    cluster.pass_time(MOST)
    cluster.show(wants("same"), wants("other", "e"))
    cluster.run()
    assert asked(cluster, Remove)[2:] == ["v4"]
    said = [text for _, text in texts(cluster.log, "same")]
    assert any("nodes were held for gangs of namespace d, and these did not start" in text for text in said)
    cluster.pass_time(FIRST_PAUSE_SECONDS - 1)
    assert asked(cluster, Remove)[2:] == ["v4"]
    cluster.pass_time(2)
    assert asked(cluster, Remove)[2:] == ["v4", "v5"]


def test_one_namespace_has_a_share_of_the_nodes_that_are_held_at_once() -> None:
    """What exceeds it waits until other nodes are given back; another namespace has its own share."""
    cluster = Cluster(*(node(f"n{i}") for i in range(4)), *(victim(f"v{i}", f"n{i}", 30.0) for i in range(4)))
    cluster.show(dns("n0"), *(wants(f"m{i}") for i in range(3)))
    cluster.run()
    assert len(held(cluster)) == 2
    cluster.show(wants("other", "e"))
    cluster.run()
    assert len(held(cluster)) == 3
    cluster.leave()
    cluster.pass_time(20)
    cluster.leave()
    cluster.pass_time(20)
    assert sorted(asked(cluster, Bind)) == ["m0", "m1", "m2", "other"]


def test_a_single_gang_may_need_more_than_the_share() -> None:
    """It is held whole when no other gang of its namespace is."""
    cluster = preempting(held_share=0.1)
    cluster.run()
    assert sorted(held(cluster)) == ["n1", "n2"]


def test_a_taint_that_was_found_at_the_start_has_its_time_from_then() -> None:
    """Also a plan that goes on after a restart holds its nodes for at most maxWait."""
    cluster = stuck()
    cluster.run()
    cluster.pass_time(50)
    cluster.restart(overdue_after_seconds=10_000.0, timeout_seconds=10_000.0)
    cluster.pass_time(TAKEOVER_SECONDS + 50)
    assert len(held(cluster)) == 2
    cluster.pass_time(MOST)
    assert not held(cluster)


def test_node_seconds_are_counted_by_namespace() -> None:
    """Two nodes for 20 s."""
    cluster = preempting()
    cluster.run()
    cluster.pass_time(20)
    assert cluster.core.drain_held_seconds() == {"d": pytest.approx(40.0)}
    cluster.leave()
    cluster.pass_time(10)
    assert sum(cluster.core.drain_held_seconds().values()) == pytest.approx(0.0)


def test_pauses_of_a_namespace_double_and_a_binding_halves_the_next() -> None:
    """Time in vain adds up; a namespace pauses once less than half of its time is left."""
    shares = HeldShares(100.0)
    shares.held_in_vain("d", 49.0, 0.0)
    assert shares.may_hold_from("d") == 0.0
    assert shares.seconds_left("d") == 51.0
    shares.held_in_vain("d", 1.0, 0.0)
    pauses = [shares.may_hold_from("d")]
    for _ in range(2):
        shares.held_in_vain("d", 100.0, 0.0)
        pauses.append(shares.may_hold_from("d"))
    assert pauses == [30.0, 60.0, 120.0]
    shares.bound("d")
    shares.held_in_vain("d", 100.0, 0.0)
    assert shares.may_hold_from("d") == 120.0
    assert shares.may_hold_from("e") == 0.0


def test_one_namespace_cannot_keep_nodes_closed_by_one_gang_after_another() -> None:
    """New victims that stay and a new gang whenever nodes are free: others wait for maxWait at most, and ever less."""
    cluster = Cluster(
        *(node(f"n{i}") for i in range(8)),
        dns("n0"),
        overdue_after_seconds=10_000.0,
        timeout_seconds=100_000.0,
    )
    longest = lasts = closed = number = 0
    for _ in range(1_100):
        if not held(cluster):
            for name in [name for _, name in cluster.pods if name != "dns"]:
                cluster.delete(name)
            number += 1
            cluster.show(*(victim(f"v{number}-{i}", f"n{i}", 100.0, 2.0) for i in range(8)))
            cluster.show(gang(f"g{number}").min(8).timeout(100_000))
            cluster.show(*(pod(f"m{number}-{i}").cpu(3).priority(5).gang(f"g{number}") for i in range(8)))
        cluster.pass_time(1)
        lasts = lasts + 1 if held(cluster) else 0
        longest, closed = max(longest, lasts), closed + bool(held(cluster))
    assert 0 < longest <= MOST
    assert closed < 1_100 * 0.6
