"""Among gangs of one priority those that never fit keep neither other namespaces nor new gangs from being decided."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from gangsched.core.planning.cycle import Decider
from gangsched.core.queue.rounds import LEAST, QUANTUM, SLICE, Rounds
from gangsched.core.queue.scheduling_queue import FLUSH_SECONDS
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import Announced, Gang, Job
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster, plan

OURS = "py-gang-scheduler"
#: Short decisions that end a turn.
TURN = QUANTUM // LEAST


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


def test_a_higher_priority_comes_first_until_its_share_is_spent() -> None:
    """Priority decides among those whose share has steps left; a namespace that has spent its own lets others go."""
    cluster = Cluster(node("n"), *hopeless(2 * TURN), pod("small", "honest").cpu(1).created(100))
    for _ in range(TURN - 1):
        cluster.step()
    cluster.show(pod("urgent", "greedy").cpu(80).priority(7).created(200))
    cluster.show(pod("later", "greedy").cpu(81).priority(7).created(200))
    assert order_of(cluster)[TURN - 1 : TURN + 2] == ["later", "small", "urgent"]


def test_turns_hold_across_priorities() -> None:
    """Gangs of a higher priority that fit nowhere do not keep a weaker pod of another namespace waiting."""
    higher = [pod(f"big{n:02}", "greedy").cpu(50 + n).priority(9).created(n) for n in range(3 * TURN)]
    found = order_of(Cluster(node("n"), *higher, pod("small", "honest").cpu(1).created(100)))
    assert found.index("small") == TURN


def costing(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Every decision takes so many steps, as a long search does."""
    monkeypatch.setattr(Decider, "steps", property(lambda _: steps))


@pytest.mark.parametrize(("steps", "before"), [(SLICE - 3, 2), (SLICE, 1)])
def test_what_fits_comes_before_the_next_search(monkeypatch: pytest.MonkeyPatch, steps: int, before: int) -> None:
    """When searches have taken a slice of steps, a weaker pod that fits is bound before the next one."""
    costing(monkeypatch, steps)
    full: list[Built] = [pod(f"old{n}", "a").cpu(1).on("n") for n in range(3)]
    needy: list[Built] = [pod(f"needy{n}", "b").cpu(1.5 + n / 100).priority(9).created(n) for n in range(4)]
    cluster = Cluster(node("n").cpu(4), node("m").cpu(0.3), *full, *needy, pod("small", "b").cpu(0.2).created(100))
    assert order_of(cluster).index("small") == before
    assert cluster.pod("small", "b").node == "m"


def test_single_pods_are_tried_first_and_gangs_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that does not fit without evictions is decided in its own place; small ones pass it."""
    costing(monkeypatch, SLICE)
    full: list[Built] = [pod(f"old{n}", "a").cpu(1).on("n") for n in range(3)]
    first = pod("first", "b").cpu(2).priority(9).created(0)
    pair: list[Built] = [
        gang("pair", "b").min(2),
        *(pod(f"pair{n}", "b").cpu(0.7).priority(5).gang("pair") for n in (0, 1)),
    ]
    cluster = Cluster(
        node("n").cpu(4), node("m").cpu(0.3), *full, first, *pair, pod("small", "b").cpu(0.2).created(100)
    )
    assert order_of(cluster) == ["first", "small", "pair"]


def test_what_was_spent_beyond_a_turn_counts_in_the_next() -> None:
    """A share that has spent three turns at once waits until the others have had as many."""
    rounds = Rounds()
    places = {"a": (0, 0.0, "a"), "b": (0, 1.0, "b")}
    rounds.refused("a", 3 * QUANTUM)
    had = []
    for _ in range(4 * TURN):
        found = rounds.first(places["a"], places.values, lambda order: order[2])
        had.append(found[2])
        rounds.refused(found[2], LEAST)
    assert "".join(had[: 3 * TURN + 2]) == "b" * 3 * TURN + "a" + ("a" if TURN > 1 else "b")


def test_strict_order_takes_no_turns() -> None:
    """With the strict policy what comes first is decided first, whatever becomes of it."""
    objects = [node("n"), *hopeless(2 * TURN), pod("small", "honest").cpu(1).created(100)]
    assert order_of(Cluster(*objects, queue_policy="strict"))[-1] == "small"


def test_age_decides_among_gangs_that_fit_however_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions that end in a binding let nothing pass, whatever they take."""
    costing(monkeypatch, 10 * SLICE)
    pairs = [gang(name, "a").min(2) for name in "xy"]
    members = [pod(f"{name}{n}", "a").cpu(0.5).priority(9).gang(name) for name in "xy" for n in (0, 1)]
    cluster = Cluster(node("n").cpu(4), *pairs, *members, pod("small", "b").cpu(0.5).created(-1))
    assert order_of(cluster) == ["x", "y", "small"]


def test_many_namespaces_with_one_hopeless_gang_each_hold_up_nobody() -> None:
    """Gangs of a hundred members that do not fit, of as many namespaces: a pod that fits passes after few of them."""
    nodes = [node(f"n{n:02}").cpu(1) for n in range(20)]
    gangs: list[Built] = []
    for g in range(30):
        gangs.append(gang("g", f"space{g:02}").min(21))
        gangs += [pod(f"m{n}", f"space{g:02}").cpu(0.6 + g / 1000).gang("g").created(g) for n in range(21)]
    cluster = Cluster(*nodes, *gangs, pod("small", "honest").cpu(0.1).created(100))
    assert order_of(cluster, 100).index("small") <= SLICE // (21 * 2) + 1


def test_a_new_pod_that_needs_an_eviction_passes_many_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gangs of many namespaces that never fit, older and stronger, do not keep a new pod from evicting weaker ones."""
    costing(monkeypatch, SLICE)
    gangs: list[Built] = []
    for g in range(12):
        gangs.append(gang("g", f"space{g:02}").min(2))
        gangs += [pod(f"m{n}", f"space{g:02}").cpu(3).priority(9).gang("g").created(g) for n in (0, 1)]
    full = pod("weak", "a").cpu(1).priority(-5).on("m")
    new = pod("new", "honest").cpu(0.8).created(100)
    cluster = Cluster(node("n").cpu(4), node("m").cpu(1), *gangs, full, new)
    assert order_of(cluster).index("new") <= 2


def test_new_pods_of_a_namespace_that_has_spent_its_turn_are_only_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of new pods that need evictions cannot keep others out: their namespace is charged for each."""
    costing(monkeypatch, SLICE)
    flood = [pod(f"flood{n:02}", "greedy").cpu(50 + n).priority(5).created(n) for n in range(3 * TURN)]
    pair: list[Built] = [gang("pair", "honest").min(2), *(pod(f"p{n}", "honest").cpu(60).gang("pair") for n in (0, 1))]
    cluster = Cluster(node("n"), *flood, *pair)
    assert order_of(cluster, 100).index("pair") <= QUANTUM // SLICE + 2
