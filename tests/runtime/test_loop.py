"""The loop between core and cluster: order of calls, when it waits, when it ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event, LeadershipChanged, Outcome, SearchCancelled, Synced, WriteDone
from gangsched.runtime.loop import Observer, Observers, Slices, run_loop, run_once
from tests.runtime.scripted import ScriptedCluster, ScriptedCore, Witness


def test_news_are_taken_in_between_decisions() -> None:
    """After each decision the loop polls, so that the next one knows what has happened; it waits with nothing to do."""
    story: list[str] = []
    cluster = ScriptedCluster(story, [[Synced()], [], [], [], []])
    run_loop(ScriptedCore(story, 2, wake=7.0), cluster)
    assert story == [
        "poll",
        "handle 1 at 1",
        "submit 100",
        "decide at 1",
        "submit 1",
        "poll",
        "handle 0 at 2",
        "decide at 2",
        "submit 0",
        "poll",
        "handle 0 at 3",
        "wait until 7.0",
        "handle 0 at 4",
        "wait until 7.0",
    ]


def test_observers_see_everything_after_it_was_submitted() -> None:
    """Writes are on their way before anybody is told about them: observing delays nothing."""
    story: list[str] = []
    run_loop(ScriptedCore(story, 1), ScriptedCluster(story, [[Synced()], [], []]), Observers(Witness(story)))
    assert story == [
        "poll",
        "busy",
        "handle 1 at 1",
        "submit 100",
        "handled 1, 1 actions",
        "decide at 1",
        "submit 0",
        "decided ['bind'], 1 actions",
        "poll",
        "busy",
        "handle 0 at 2",
        "handled 0, 0 actions",
        "idle",
        "wait until None",
    ]


def test_a_cancelled_search_is_told_before_its_decision() -> None:
    """What a replay has to be told beforehand comes before the decision in what observers are shown, too."""

    class Recorder(Observer):
        def deciding(self, gang: str) -> None:
            story.append("deciding")

        def cancelled(self, event: SearchCancelled) -> None:
            story.append(f"cancelled at {event.question}")

        def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
            story.append("decided")

    story: list[str] = []
    core = ScriptedCore(story, 1)
    core.ended = SearchCancelled(3)
    run_loop(core, ScriptedCluster(story, [[Synced()], []]), Observers(Recorder()))
    assert story[3:8] == ["deciding", "decide at 1", "submit 0", "cancelled at 3", "decided"]


def test_a_stopped_cluster_is_left_alone() -> None:
    """Nothing is handled, decided or submitted once the cluster has stopped."""
    story: list[str] = []
    run_loop(ScriptedCore(story, 5), ScriptedCluster(story, []))
    assert story == ["poll"]


def test_a_failure_of_the_core_ends_the_loop() -> None:
    """The loop does not go on with a core whose state is unknown."""

    class Broken(ScriptedCore):
        def decide(self, now: float) -> list[Action]:
            raise RuntimeError("broken")

    story: list[str] = []
    with pytest.raises(RuntimeError, match="broken"):
        run_loop(Broken(story, 1), ScriptedCluster(story, [[Synced()], []]))


def test_once_ends_when_all_is_decided_and_answered() -> None:
    """A single pass ends after the last answer, not before, and not only when the cluster stops."""
    story: list[str] = []
    ok, conflict = WriteDone(100, Outcome.OK), WriteDone(0, Outcome.CONFLICT)
    batches: list[list[Event]] = [[Synced()], [], [ok], [conflict], [], [], []]
    run_once(ScriptedCore(story, 1), ScriptedCluster(story, batches))
    assert story[-1] == "handle 1 at 4"


def test_once_waits_for_the_caches_and_for_leadership() -> None:
    """Before everything is known, and before this process leads, nothing being pending means nothing."""
    story: list[str] = []
    batches: list[list[Event]] = [[], [Synced()], [WriteDone(100, Outcome.OK)], [LeadershipChanged(True)], [], []]
    run_once(ScriptedCore(story, 0), ScriptedCluster(story, batches), await_leadership=True)
    assert story[-1] == "handle 1 at 4"


def test_once_does_not_wait_for_writes_that_nobody_answers() -> None:
    """In a dry run writes are never answered; the pass ends when all is decided."""
    story: list[str] = []
    run_once(ScriptedCore(story, 1), ScriptedCluster(story, [[Synced()], [], [], []]), await_writes=False)
    assert story[-1] == "handle 0 at 2"


def parts(slices: Slices, count: int, seconds_each: float) -> list[int]:
    """The sizes of the parts of a batch of so many events, each of which takes the core so long."""
    sizes = []
    batch: list[Event] = [Synced()] * count
    for part in slices.slices_of(batch):
        sizes.append(len(part))
        slices.took(len(part), len(part) * seconds_each)
    assert sum(sizes) == count
    return sizes


def test_a_batch_that_takes_long_is_taken_in_by_parts() -> None:
    """With 10 ms an event no part of 3,000 takes longer than a second once that is known; none is lost."""
    sizes = parts(Slices(size=256), 3000, 0.01)
    assert sizes[0] == 256
    assert all(size <= 100 for size in sizes[3:])


def test_parts_grow_again_while_events_are_cheap() -> None:
    """A hundred thousand events of 1 us each are few parts, and nothing at all is one."""
    slices = Slices(size=256)
    assert len(parts(slices, 100_000, 1e-6)) < 12
    assert parts(slices, 0, 1e-6) == [0]


def test_the_observer_sees_each_part_before_the_next_decision() -> None:
    """All parts of a batch are taken in before a gang is decided, and the loop is seen to live with each."""
    seen: list[str] = []

    class Seen(Observer):
        def busy(self) -> None:
            seen.append("busy")

        def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
            seen.append(f"handled {len(events)}")

        def deciding(self, gang: str) -> None:
            seen.append("deciding")

    story: list[str] = []
    batches: list[list[Event]] = [[Synced()] * 9000, []]
    run_loop(ScriptedCore(story, 1), ScriptedCluster(story, batches), Seen())
    assert seen[:3] == ["busy", "handled 4096", "busy"]
    assert "deciding" not in seen[: seen.index("handled 4904") + 1]
    assert "deciding" in seen
