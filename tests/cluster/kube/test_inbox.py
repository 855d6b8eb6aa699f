"""The queue between the threads, and the clock that both read."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty
from types import FrameType
from typing import Any

import pytest

from gangsched.cluster.kube.adapter import LINGER_SECONDS, Inbox, KubeCluster
from gangsched.cluster.kube.clock import MOST_SECONDS, SteadyClock
from gangsched.cluster.kube.connection import Connection
from gangsched.core.events import Gone, Synced


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 0.0])
def test_the_clock_passes_over_a_jump_of_the_systems(jump: float) -> None:
    """Set forward or back, and back again: what has passed is what the monotonic clock has counted."""
    wall, mono = [1000.0], [5.0]
    clock = SteadyClock(lambda: wall[0], lambda: mono[0])
    assert clock.now() == 1000.0
    wall[0], mono[0] = 1004.0, 9.0
    assert clock.now() == 1004.0
    wall[0], mono[0] = 1005.0 + jump, 10.0
    assert clock.now() == 1005.0
    wall[0], mono[0] = 1007.0, 12.0
    assert clock.now() == 1007.0


def test_time_in_which_the_process_was_stopped_is_left_out() -> None:
    """After an hour in which nobody asked, nothing is overdue that was not before; then time passes as usual."""
    mono = [5.0]
    clock = SteadyClock(lambda: 1000.0, lambda: mono[0])
    mono[0] = 3605.0
    assert clock.now() == 1000.0 + MOST_SECONDS
    mono[0] = 3606.0
    assert clock.now() == 1001.0 + MOST_SECONDS


@pytest.mark.parametrize("until", [None, 1e12])
def test_whoever_waits_for_long_keeps_the_clock_going(until: float | None) -> None:
    """However long nothing is due: the time is asked for often enough that none is left out."""
    asked = threading.Semaphore(0)

    def monotonic() -> float:
        asked.release()
        return time.monotonic()

    inbox = Inbox(SteadyClock(monotonic=monotonic))
    thread = threading.Thread(target=inbox.wait, args=(until,))
    thread.start()
    told = [asked.acquire(timeout=MOST_SECONDS) for _ in range(3)]
    inbox.close()
    thread.join(10.0)
    assert told == [True] * 3


def test_events_arrive_in_one_batch_and_in_order() -> None:
    """What was put before is fetched at once; the next poll is empty."""
    inbox = Inbox(SteadyClock())
    inbox.put([Gone("Node", "", "a"), Gone("Node", "", "b")])
    inbox.put([Gone("Node", "", "c")])
    now, events = inbox.wait(None)
    assert events == [Gone("Node", "", "a"), Gone("Node", "", "b"), Gone("Node", "", "c")]
    later, nothing = inbox.poll()
    assert nothing == []
    assert later >= now


@pytest.mark.parametrize(("quiet", "lingers"), [(0.5 * LINGER_SECONDS, True), (2 * LINGER_SECONDS, False)])
def test_only_events_in_quick_succession_are_gathered(
    monkeypatch: pytest.MonkeyPatch, quiet: float, lingers: bool
) -> None:
    """An event that comes after a quiet time is fetched at once; what comes right after another waits for more."""
    mono, slept = [5.0], list[float]()
    inbox = Inbox(SteadyClock(lambda: 1000.0, lambda: mono[0]))

    class Waits:
        """Lets so much time pass until an event comes."""

        def get(self, timeout: float) -> None:
            mono[0] += quiet
            inbox.put([Synced()])

        def get_nowait(self) -> None:
            raise Empty

        def put(self, item: None) -> None:
            pass

    monkeypatch.setattr(inbox, "_changed", Waits())
    monkeypatch.setattr(time, "sleep", slept.append)
    assert inbox.wait(None)[1] == [Synced()]
    assert slept == [LINGER_SECONDS] * lingers


def test_wait_ends_when_the_time_has_come() -> None:
    """A time in the past does not block, and gives no events."""
    inbox = Inbox(SteadyClock())
    now, events = inbox.wait(0.0)
    assert events == []
    assert inbox.wait(now + 0.01)[0] >= now + 0.01


def test_put_and_close_wake_a_waiting_thread() -> None:
    """A thread that waits for ever gets what another puts, and an empty batch when the inbox is closed."""
    inbox = Inbox(SteadyClock())
    got: list[object] = []

    def fetch() -> None:
        got.extend(inbox.wait(None)[1])
        got.append(tuple(inbox.wait(None)[1]))

    thread = threading.Thread(target=fetch)
    thread.start()
    inbox.put([Gone("Node", "", "a")])
    inbox.close()
    thread.join(10.0)
    assert not thread.is_alive()
    assert got == [Gone("Node", "", "a"), ()]
    inbox.put([Gone("Node", "", "late")])
    assert inbox.poll()[1] == []


def test_how_many_events_wait_is_told_when_they_come_and_when_they_are_fetched() -> None:
    """Whoever looks at the metric after a flood sees that it is over."""
    told: list[float] = []
    connection = Connection("none", None)
    cluster = KubeCluster(connection, lease=None, observe=lambda name, value, _: told.append(value))
    cluster._deliver([Synced(), Synced()])
    cluster._deliver([Synced()])
    assert len(cluster.poll()[1]) == 3
    cluster.poll()
    assert told == [2, 3, 0]


def test_an_interrupt_at_any_moment_of_waiting_leaves_the_other_thread_free() -> None:
    """Ctrl-C may come between any two steps: the I/O thread still delivers, so the command can end in order."""
    for moment in itertools.count(1):
        inbox = Inbox(SteadyClock())
        interrupted = _interrupted(moment, lambda inbox=inbox: inbox.wait(time.time()))  # type: ignore[misc]
        other = threading.Thread(target=inbox.put, args=([Synced()],), daemon=True)
        other.start()
        other.join(10.0)
        assert not other.is_alive(), f"interrupted at step {moment}"
        if not interrupted:
            assert moment > 10
            return


def _interrupted(moment: int, call: Callable[[], object]) -> bool:
    """Call it, and raise KeyboardInterrupt before so many steps of the interpreter; whether it came so far."""
    steps = itertools.count(1)

    def step(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == moment:
            raise KeyboardInterrupt
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
