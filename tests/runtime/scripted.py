"""A core and a cluster that follow a script, and an observer that notes what it is shown."""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.core.actions import Action, Bind, PodRef
from gangsched.core.decision import Decision, Fits
from gangsched.core.events import Event, SearchCancelled, Synced
from gangsched.core.planning.contained import Fault
from gangsched.model.records import GangId
from gangsched.runtime.loop import Observer

POD = PodRef("ns", "pod", "uid")


def bind(number: int) -> Bind:
    """A write with this id."""
    return Bind(number, POD, "node")


class ScriptedCluster:
    """Hands out batches as time goes by, one per poll or wait, and stops when there are no more."""

    def __init__(self, story: list[str], batches: list[list[Event]]) -> None:
        self.story = story
        self.batches = batches
        self.now = 0.0

    def poll(self) -> tuple[float, list[Event]]:
        return self._next("poll")

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        return self._next(f"wait until {until}")

    def _next(self, what: str) -> tuple[float, list[Event]]:
        self.story.append(what)
        self.now += 1.0
        return self.now, self.batches.pop(0) if self.batches else []

    def submit(self, actions: Sequence[Action]) -> None:
        self.story.extend(f"submit {action.id}" for action in actions if isinstance(action, Bind))

    @property
    def stopped(self) -> bool:
        return not self.batches


class ScriptedCore:
    """Has so many gangs to decide after the first batch; each decision binds one pod."""

    def __init__(self, story: list[str], gangs: int, *, wake: float | None = None) -> None:
        self.story = story
        self.gangs = gangs
        self.wake = wake
        self.decided: list[Decision] = []
        self.ended: SearchCancelled | None = None

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        self.story.append(f"handle {len(events)} at {now:g}")
        return [bind(100)] if any(isinstance(event, Synced) for event in events) else []

    def has_work(self, now: float) -> bool:
        return self.gangs > 0

    def decide(self, now: float) -> list[Action]:
        self.story.append(f"decide at {now:g}")
        self.gangs -= 1
        self.decided.append(Fits(GangId("Pod", "ns", "pod", "s"), "Pod", (), 0, 1))
        return [bind(self.gangs)]

    def next_gang(self) -> str:
        return "ns/pod"

    def drain_faults(self) -> list[Fault]:
        return []

    def wake_at(self) -> float | None:
        return self.wake

    def drain_decisions(self) -> list[Decision]:
        out, self.decided = self.decided, []
        return out

    @property
    def waits(self) -> bool:
        return False

    def cancelled(self) -> SearchCancelled | None:
        return self.ended


class Witness(Observer):
    """Notes what it is shown."""

    def __init__(self, story: list[str]) -> None:
        self.story = story

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        assert seconds >= 0
        self.story.append(f"handled {len(events)}, {len(actions)} actions")

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        assert seconds >= 0
        self.story.append(f"decided {[decision.outcome for decision in decisions]}, {len(actions)} actions")

    def busy(self) -> None:
        self.story.append("busy")

    def idle(self) -> None:
        self.story.append("idle")
