"""Controllers of group statuses start when nothing is more urgent, and lose nothing that was posted before."""

from __future__ import annotations

import io
import json
import threading

from gangsched.core.actions import Bind, GangStatus, PodRef
from gangsched.core.events import LeadershipChanged, Outcome, WriteDone
from gangsched.runtime import logs
from gangsched.runtime.status import LATEST_SECONDS, QUEUE_SECONDS, LateSink, TellsOfQueues, WhenQuiet


class Sink:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.begun = threading.Event()

    def start(self) -> None:
        """Noted."""
        self.told.append("start")
        self.begun.set()

    def post(self, action: GangStatus) -> None:
        """Noted."""
        self.told.append(action.status["phase"])

    def set_leading(self, *, leading: bool) -> None:
        """Noted."""
        self.told.append(leading)

    def stop(self) -> None:
        """Noted."""
        self.told.append("stop")


def status(name: str, phase: str) -> GangStatus:
    """A status of a group."""
    return GangStatus("family", "ns", name, "uid", {"phase": phase})


def bind(number: int) -> Bind:
    """A write with this id."""
    return Bind(number, PodRef("ns", "p", "uid"), "n1")


def test_what_was_posted_before_is_kept() -> None:
    """The newest status of each object reaches the controllers when they have been made."""
    sink = Sink()
    late = LateSink(lambda: sink)
    late.set_leading(leading=True)
    for each in (status("a", "Pending"), status("b", "Pending"), status("a", "Running")):
        late.post(each)
    assert sink.told == []
    late.start()
    late.start()
    assert sink.begun.wait(10)
    late.post(status("b", "Running"))
    late.stop()
    assert sink.told == [True, "Running", "Pending", "start", "Running", "stop"]


def test_lost_leadership_drops_what_was_kept() -> None:
    """Statuses of a time that is over are not written by the next."""
    sink = Sink()
    late = LateSink(lambda: sink)
    late.set_leading(leading=True)
    late.post(status("a", "Pending"))
    late.set_leading(leading=False)
    late.start()
    assert sink.begun.wait(10)
    assert sink.told == [False, "start"]


def test_stopped_before_started() -> None:
    """A process that ends at once makes no controllers."""
    sink = Sink()
    late = LateSink(lambda: sink)
    late.stop()
    late.start()
    assert sink.told == []


def test_controllers_that_cannot_be_made_are_told_and_cost_nothing() -> None:
    """The log says it, once; from then on no status is kept, however many objects come and go."""
    told = io.StringIO()
    logs.configure("json", "info", told)

    def broken() -> Sink:
        raise ImportError("no such package")

    late = LateSink(broken)
    late.post(status("a", "Pending"))
    for _ in range(2):
        late.start()
        for thread in threading.enumerate():
            if thread.name == "controllers-import":
                thread.join(10)
        late.post(status("b", "Pending"))
    (line,) = [json.loads(each) for each in told.getvalue().splitlines()]
    assert (line["level"], line["message"]) == (
        "error",
        "the controllers cannot be made, statuses of groups and queues are not written",
    )
    assert "no such package" in line["exception"]
    assert late._kept == {}
    late.stop()


def test_starts_when_nothing_is_under_way() -> None:
    """Neither while writes are unanswered nor before this process leads."""
    sink = Sink()
    quiet = WhenQuiet(sink, clock=lambda: 0.0)
    quiet.idle()
    quiet.handled([LeadershipChanged(True)], [bind(1)], 0.0, 0.0)
    quiet.decided([], [bind(2)], 0.0, 0.0)
    quiet.idle()
    quiet.handled([WriteDone(1, Outcome.OK, "")], [], 0.0, 0.0)
    quiet.idle()
    assert sink.told == [True]
    quiet.handled([WriteDone(2, Outcome.OK, "")], [], 0.0, 0.0)
    quiet.idle()
    assert sink.told == [True, "start"]


def test_starts_in_the_end_however_busy() -> None:
    """A scheduler that is never quiet gets its controllers too."""
    sink = Sink()
    now = [0.0]
    quiet = WhenQuiet(sink, clock=lambda: now[0])
    quiet.handled([LeadershipChanged(True)], [bind(1)], 0.0, 0.0)
    now[0] = LATEST_SECONDS + 1
    quiet.handled([], [bind(2)], 0.0, 0.0)
    assert sink.told == [True, "start"]


def test_queues_are_told_of_when_idle_and_seldom_under_load() -> None:
    """Only a leader tells; at first of all queues, then of what has changed, under load from time to time."""
    sink, now, asked = Sink(), [100.0], []

    def statuses(everything: bool) -> list[GangStatus]:
        asked.append(everything)
        return [status("q", f"told {len(asked)}")]

    tells = TellsOfQueues(statuses, sink, lambda: now[0])
    tells.idle()
    tells.handled([LeadershipChanged(True)], [], 0.0, 0.0)
    tells.idle()
    tells.decided([], [], 0.0, 0.0)
    assert (asked, sink.told) == ([True], ["told 1"])
    now[0] += QUEUE_SECONDS
    tells.decided([], [], 0.0, 0.0)
    tells.idle()
    tells.handled([LeadershipChanged(False)], [], 0.0, 0.0)
    tells.idle()
    tells.handled([LeadershipChanged(True)], [], 0.0, 0.0)
    tells.idle()
    assert asked == [True, False, False, True]
