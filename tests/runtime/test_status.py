"""Controllers of group statuses start when nothing is more urgent."""

from __future__ import annotations

import threading

from gangsched.core.actions import Bind, GangStatus, PodRef
from gangsched.core.events import LeadershipChanged, Outcome, WriteDone
from gangsched.runtime.observers import LATEST_SECONDS, QUEUE_SECONDS, QueueStatusFeed, StartWhenQuiet


class Started:
    """Controllers that note what they are told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.begun = threading.Event()

    def start(self) -> None:
        """Noted."""
        self.told.append("start")
        self.begun.set()

    def stop(self) -> None:
        """Noted."""
        self.told.append("stop")


def status(name: str, phase: str) -> GangStatus:
    """A status of a group."""
    return GangStatus("family", "ns", name, "uid", {"phase": phase})


def bind(number: int) -> Bind:
    """A write with this id."""
    return Bind(number, PodRef("ns", "p", "uid"), "n1")


def test_starts_when_nothing_is_under_way() -> None:
    """Neither while writes are unanswered nor before this process leads."""
    controllers = Started()
    quiet = StartWhenQuiet(controllers, clock=lambda: 0.0)
    quiet.idle()
    quiet.handled([LeadershipChanged(True)], [bind(1)], 0.0, 0.0)
    quiet.decided([], [bind(2)], 0.0, 0.0)
    quiet.idle()
    quiet.handled([WriteDone(1, Outcome.OK, "")], [], 0.0, 0.0)
    quiet.idle()
    assert controllers.told == []
    quiet.handled([WriteDone(2, Outcome.OK, "")], [], 0.0, 0.0)
    quiet.idle()
    assert controllers.told == ["start"]


def test_starts_in_the_end_however_busy() -> None:
    """A scheduler that is never quiet gets its controllers too."""
    controllers = Started()
    now = [0.0]
    quiet = StartWhenQuiet(controllers, clock=lambda: now[0])
    quiet.handled([LeadershipChanged(True)], [bind(1)], 0.0, 0.0)
    now[0] = LATEST_SECONDS + 1
    quiet.handled([], [bind(2)], 0.0, 0.0)
    assert controllers.told == ["start"]


def test_queues_are_told_of_when_idle_and_seldom_under_load() -> None:
    """Only a leader tells; at first of all queues, then of what has changed, under load from time to time."""
    told: list[str] = []
    now, asked = [100.0], []

    def statuses(everything: bool) -> list[GangStatus]:
        asked.append(everything)
        return [status("q", f"told {len(asked)}")]

    tells = QueueStatusFeed(statuses, lambda action: told.append(action.status["phase"]), lambda: now[0])
    tells.idle()
    tells.handled([LeadershipChanged(True)], [], 0.0, 0.0)
    tells.idle()
    tells.decided([], [], 0.0, 0.0)
    assert (asked, told) == ([True], ["told 1"])
    now[0] += QUEUE_SECONDS
    tells.decided([], [], 0.0, 0.0)
    tells.idle()
    tells.handled([LeadershipChanged(False)], [], 0.0, 0.0)
    tells.idle()
    tells.handled([LeadershipChanged(True)], [], 0.0, 0.0)
    tells.idle()
    assert asked == [True, False, False, True]
