"""A scheduler that dies at any moment of a preemption; another one finishes what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gangsched.cluster.manifests import load
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.history import Entry
from gangsched.core.actions import Action
from gangsched.core.events import Event
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import Gang, Node, Pod
from gangsched.runtime.loop import run_loop
from tests.amounts import amount
from tests.cluster.sim.objects import event, gang, node, pod, world
from tests.judge import invariants

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
#: Seconds without a scheduler: as long as a write may take, and longer than any grace period of these stories.
DOWN_SECONDS = {"soon": 0.02, "late": 60.0}


def example(name: str) -> Callable[[], World]:
    """The cluster of an example."""

    def made() -> World:
        loaded = load([str(EXAMPLES / name)])
        return World(arrivals(loaded.events), start=loaded.now)

    return made


def built(*records: Node | Pod | Gang) -> Callable[[], World]:
    """A cluster of these objects."""
    return lambda: world(*records)


def every() -> int:
    """How many moments further the next one is at which a process dies."""
    return amount(1, 3)


STORIES = {
    "koordinator": example("koordinator"),
    "workload": example("workload"),
    "a whole gang and single pods leave": built(
        *(node(f"n{i}") for i in (1, 2, 3)),
        gang("low", 2),
        *(pod(f"low-{i}", 4, "low", node=f"n{i}", grace_seconds=3.0) for i in (1, 2)),
        pod("single", 4, node="n3", grace_seconds=1.0),
        gang("high", 3),
        *(pod(f"high-{i}", 3, "high", priority=9) for i in (1, 2, 3)),
    ),
    "room that is being freed already": built(
        node("n1"),
        node("n2"),
        pod("leaving", 4, node="n1", grace_seconds=20.0, deleting_since=20.0),
        pod("victim", 4, node="n2", grace_seconds=3.0),
        gang("high", 2),
        *(pod(f"high-{i}", 3, "high", priority=9) for i in (1, 2)),
    ),
    "enough room": built(node("n1"), node("n2"), gang("g", 2), *(pod(f"m{i}", 3, "g") for i in (1, 2))),
}


def live(there: World, until_seconds: float = 300.0) -> SimCluster:
    """One process of the scheduler, until it dies or nothing more happens."""
    cluster = SimCluster(there, until_seconds=until_seconds)
    run_loop(Scheduler(Options()), cluster)
    cluster.close()
    return cluster


def live_until(there: World, position: int, *, lose_writes: bool) -> None:
    """A process that dies when the history has so many entries."""
    cluster = SimCluster(there)

    def die(entry: Entry) -> None:
        if entry.number == position:
            cluster.close(lose_writes=lose_writes)

    there.history.subscribe(die)
    run_loop(Scheduler(Options()), cluster)


def removed(there: World) -> list[str]:
    """The pods that the scheduler has removed, by name."""
    found = there.history.with_verbs(log.DELETE, log.EVICT, actor=log.SCHEDULER)
    return sorted({e.object for e in found if e.outcome == log.OK})


def bound(there: World) -> list[str]:
    """The pods that have a node in the end."""
    return sorted(p.key for p in there.store.pods.values() if p.node)


def assert_like(there: World, whole: World, when: str) -> None:
    """The same pods were removed and run as without a crash, and nothing happened that may not."""
    assert removed(there) == removed(whole), when
    assert bound(there) == bound(whole), when
    assert invariants.violations(there.history) == [], when
    assert not [p.key for p in there.store.pods.values() if p.intent and p.intent.status == "True" and not p.node], when


@pytest.mark.parametrize("down", DOWN_SECONDS)
@pytest.mark.parametrize("lose_writes", [False, True], ids=["writes-arrive", "writes-lost"])
@pytest.mark.parametrize("story", STORIES)
def test_a_restart_anywhere_changes_neither_victims_nor_outcome(story: str, lose_writes: bool, down: str) -> None:
    """Whichever entry of the history is the last that the first process lives to see, the story ends as without it."""
    whole = STORIES[story]()
    start = len(whole.history)
    live(whole)
    assert any(e.verb == log.BIND for e in whole.history)
    turn = 2 * lose_writes + (down == "late")  # each moment is one of some kind of death
    for position in range(start + turn % every(), len(whole.history), every()):
        there = STORIES[story]()
        live_until(there, position, lose_writes=lose_writes)
        there.clock.advance_to(there.clock.now + DOWN_SECONDS[down])
        live(there)
        assert_like(there, whole, f"died at {position}: {whole.history.entries[position].as_json()}")


@pytest.mark.parametrize("lose_writes", [False, True], ids=["writes-arrive", "writes-lost"])
@pytest.mark.parametrize("story", ["koordinator", "a whole gang and single pods leave"])
def test_two_restarts_change_nothing_either(story: str, lose_writes: bool) -> None:
    """The process that takes over may die as well, a few steps later."""
    whole = STORIES[story]()
    start = len(whole.history)
    live(whole)
    for position in range(start + lose_writes, len(whole.history), 2 * every()):
        for steps in (1, 4, 9):
            there = STORIES[story]()
            live_until(there, position, lose_writes=lose_writes)
            there.clock.advance_to(there.clock.now + 0.02)
            live_until(there, len(there.history) + steps, lose_writes=lose_writes)
            there.clock.advance_to(there.clock.now + 0.02)
            live(there)
            assert_like(there, whole, f"died at {position}, and {steps} steps after the restart")


def test_a_cheaper_victim_that_appears_meanwhile_is_spared() -> None:
    """A list of victims is finished as it was marked, whatever would be chosen by then."""
    records: list[Node | Pod | Gang] = [*(node(f"n{i}") for i in (1, 2)), gang("high", 2)]
    records += [pod(f"v{i}", 4, node=f"n{i}", priority=5, grace_seconds=3.0) for i in (1, 2)]
    records += [pod(f"high-{i}", 3, "high", priority=9) for i in (1, 2)]
    whole = world(*records)
    start = len(whole.history)
    live(whole)
    first = next(e.number for e in whole.history.with_verbs(log.DELETE))
    last = max(e.number for e in whole.history.with_verbs(log.DELETE))
    assert start < first < last
    for position in range(first, last + 1):
        there = world(*records)
        live_until(there, position, lose_writes=True)
        appear(there, node("n3"), pod("cheap", 4, node="n3"))
        live(there)
        assert removed(there) == ["ns/v1", "ns/v2"]
        assert bound(there) == ["ns/cheap", "ns/high-1", "ns/high-2"]
        assert invariants.violations(there.history) == []


def appear(there: World, *records: Node | Pod) -> None:
    """Objects are created while no scheduler runs."""
    for record in records:
        there.apply(event(record))
    there.clock.advance_to(there.clock.now + 0.02)


def test_writes_that_are_lost_never_arrive() -> None:
    """A connection that is cut takes with it what has not reached the server."""
    there = world(node("n1"), pod("a"))
    cluster = SimCluster(there)
    now, events = cluster.poll()
    cluster.submit(decided(events, now))
    assert there.api.in_flight > 0
    cluster.close(lose_writes=True)
    there.clock.advance_to(now + 10.0)
    assert there.api.in_flight == 0
    assert bound(there) == []


def decided(events: Sequence[Event], now: float) -> list[Action]:
    """What a scheduler asks for on these events."""
    core = Scheduler(Options())
    return [*core.handle(events, now), *core.decide(now)]
