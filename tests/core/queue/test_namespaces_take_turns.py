"""Among gangs of one priority those that never fit keep neither other namespaces nor new gangs from being decided."""

from __future__ import annotations

from collections import Counter

import msgspec

from gangsched.core.queue.rounds import TURN
from gangsched.core.queue.scheduling_queue import FLUSH_SECONDS
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import Announced, Gang, Job
from tests.builders import node, pod
from tests.core.harness import Built, Cluster, plan

OURS = "py-gang-scheduler"


def order_of(cluster: Cluster, limit: int = 50) -> list[str]:
    """The gangs in the order in which they are decided."""
    for _ in range(limit):
        cluster.step()
        if not cluster.core.has_work(cluster.now):
            break
    return [d.gang.name for d in cluster.decisions]


def hopeless(count: int) -> list[Built]:
    """Pods of one namespace that fit nowhere, each of another shape and older than all others."""
    return [pod(f"big{n:02}", "greedy").cpu(50 + n).created(n) for n in range(count)]


def test_the_turn_goes_on_when_decisions_have_come_to_nothing() -> None:
    """A younger pod of another namespace waits for the turn of the older ones, not for all of them."""
    objects = [node("n"), *hopeless(30), pod("small", "honest").cpu(1).created(100)]
    cluster = Cluster(*objects)
    found = order_of(cluster)
    assert found[: TURN + 2] == [*(f"big{n:02}" for n in range(TURN)), "small", f"big{TURN:02}"]
    assert cluster.pod("small", "honest").node == "n"
    assert [key.partition("/")[2] for key in plan(*objects)] == found


def test_each_namespace_has_a_turn_and_then_all_have_again() -> None:
    """Of three namespaces of hopeless pods each has as many decisions in a round, whosever are the oldest."""
    others = [pod(f"{name}{n:02}", name).cpu(60 + n).created(100 + n) for name in ("b", "c") for n in range(2 * TURN)]
    found = order_of(Cluster(node("n"), *hopeless(2 * TURN), *others), 100)
    for part in (found[: 3 * TURN], found[3 * TURN :]):
        assert Counter(name.rstrip("0123456789") for name in part) == {"big": TURN, "b": TURN, "c": TURN}


def test_what_is_tried_again_has_turns_with_what_is_new() -> None:
    """Pods that did not fit before and whose time comes again, all at once, do not hold up a younger one of their own
    namespace that has not been decided yet.
    """
    cluster = Cluster(node("n"), *hopeless(30))
    order_of(cluster)
    cluster.now += FLUSH_SECONDS
    cluster.show(pod("small", "greedy").cpu(1).created(100))
    found = order_of(cluster)[30:]
    assert found[: TURN + 2] == [*(f"big{n:02}" for n in range(TURN)), "small", f"big{TURN:02}"]
    assert len(found) == 31


def test_a_decision_about_thousands_of_members_counts_for_several() -> None:
    """After one about as many as a Job without pods may have, others have their turn."""
    large = [
        Job("greedy", f"j{n}", f"uid-j{n}", float(n), MAX_WITHOUT_PODS, template=pod("t").cpu(1 + n).obj())
        for n in range(2)
    ]
    waiting = [msgspec.structs.replace(each, suspended=True, suspended_by=OURS) for each in large]
    small = [pod(f"small{n}", "honest").cpu(50 + n).created(100) for n in range(2)]
    objects: list[Built] = [node("n"), *waiting, *small]
    assert order_of(Cluster(*objects)) == ["j0", "small0", "small1", "j1"]
    assert [key.partition("/")[2] for key in plan(*objects)] == ["j0", "small0", "small1", "j1"]


def test_members_that_are_announced_count_too() -> None:
    """A driver that announces thousands ends the turn of its namespace."""
    workers = (Announced("w", MAX_WITHOUT_PODS, pod("w").cpu(1).obj().shape),)
    drivers = [pod(f"driver-{name}", "greedy").cpu(1).gang(name).created(0) for name in ("a", "b")]
    groups = [
        Gang(each.obj().gang.family, "greedy", each.obj().gang.name, kind="PodGroup", uid=each.obj().gang.name)
        for each in drivers
    ]
    found = [msgspec.structs.replace(each, min_member=1, announced=workers) for each in groups]
    cluster = Cluster(node("n"), *found, *drivers, pod("small", "honest").cpu(50).created(100))
    assert order_of(cluster) == ["a", "small", "b"]


def test_age_decides_as_long_as_gangs_fit() -> None:
    """A decision that binds its gang passes no turn on: what came first has the room first."""
    older = [pod(f"old{n:02}", "a").cpu(0.25).created(n) for n in range(16)]
    cluster = Cluster(node("n"), *older, pod("young", "b").cpu(2).created(99))
    assert order_of(cluster)[:16] == [f"old{n:02}" for n in range(16)]
    assert not cluster.pod("young", "b").node


def test_a_higher_priority_comes_first_whosever_turn_it_is() -> None:
    """Turns are taken among equals."""
    cluster = Cluster(node("n"), *hopeless(2 * TURN), pod("small", "honest").cpu(1).created(100))
    for _ in range(TURN):
        cluster.step()
    cluster.show(pod("urgent", "greedy").cpu(80).priority(7).created(200))
    assert order_of(cluster)[TURN : TURN + 2] == ["urgent", "small"]


def test_strict_order_takes_no_turns() -> None:
    """With the strict policy what comes first is decided first, whatever becomes of it."""
    objects = [node("n"), *hopeless(2 * TURN), pod("small", "honest").cpu(1).created(100)]
    assert order_of(Cluster(*objects, queue_policy="strict"))[-1] == "small"
