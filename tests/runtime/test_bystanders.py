"""Errors of observers reach neither the loop nor one another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gangsched.cluster import bystanders
from gangsched.cluster.bystanders import Bystanders
from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event, SearchCancelled, Synced
from gangsched.core.planning.contained import Fault
from gangsched.runtime.loop import Observer, Observers, run_loop
from gangsched.runtime.metrics import Metrics
from tests.runtime.scripted import ScriptedCluster, ScriptedCore, Witness

METHODS = sorted(name for name in vars(Observer) if not name.startswith("_") and name != "rebuilt")


class Failing(Observer):
    """Fails in one method."""

    def __init__(self, method: str) -> None:
        self.method = method

    def _fail(self, method: str) -> None:
        if method == self.method:
            raise KeyError(method)

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._fail("handled")

    def deciding(self, gang: str) -> None:
        self._fail("deciding")

    def cancelled(self, event: SearchCancelled) -> None:
        self._fail("cancelled")

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._fail("decided")

    def faulted(self, fault: Fault) -> None:
        self._fail("faulted")

    def busy(self) -> None:
        self._fail("busy")

    def idle(self) -> None:
        self._fail("idle")


def story_with(*observers: Observer, failed: Metrics | None = None) -> list[str]:
    """All that core, cluster and a witness see while two gangs are decided."""
    story: list[str] = []
    core = ScriptedCore(story, 2)
    core.ended = SearchCancelled(1)
    core.drain_faults = lambda: [Fault("ns/pod", "broken", "")]  # type: ignore[method-assign]
    contained = Bystanders(failed.note).failed if failed is not None else None
    watching = Observers(*observers, Witness(story), failed=contained)
    run_loop(core, ScriptedCluster(story, [[Synced()], [], [], [], []]), watching)
    return story


@pytest.mark.parametrize("method", METHODS)
def test_an_error_in_an_observer_stops_neither_the_loop_nor_the_next_observer(method: str) -> None:
    """It is counted by the name of the observer; with nobody to count it, it is raised."""
    metrics = Metrics(["s"])
    assert story_with(Failing(method), failed=metrics) == story_with()
    assert metrics.registry.get_sample_value("gangsched_observer_errors_total", {"observer": "Failing"})
    with pytest.raises(KeyError, match=method):
        story_with(Failing(method))


def test_an_error_is_logged_once_for_each_place() -> None:
    """An observer that fails with every event does not fill the log, and a counter that fails too is no reason to."""

    def broken_counter(*_: object) -> None:
        raise ValueError("the counter")

    def fails() -> None:
        raise KeyError("x")

    contained = Bystanders(broken_counter)
    for _ in range(3):
        contained.call("Metrics", fails)
    assert len(contained._logged) == 1


async def test_a_task_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history or the published status goes on after an unforeseen error, and the I/O loop does not end."""
    monkeypatch.setattr(bystanders, "AGAIN_SECONDS", 0.0)
    runs: list[int] = []
    over = asyncio.Event()

    async def run() -> None:
        runs.append(len(runs))
        if len(runs) < 3:
            raise RuntimeError("broken")
        over.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Bystanders(lambda *_: None).keep_running("status", run))
    await over.wait()
    task.cancel()
    assert runs == [0, 1, 2]
