"""The wall clock over decisions, with a clock that is moved by hand."""

from __future__ import annotations

import threading

from gangsched.core.watchdog import Watchdog
from gangsched.runtime.observers import Deadline


class Hands:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_decision_is_cancelled_when_its_time_is_up() -> None:
    """Not before; and once it is over, its time no longer counts."""
    watchdog, clock = Watchdog(), Hands()
    deadline = Deadline(watchdog, 2.0, clock)
    deadline.check()
    deadline.deciding("ns/g")
    watchdog.begin()
    clock.seconds += 1.9
    deadline.check()
    assert not watchdog.barks()
    clock.seconds += 0.1
    deadline.check()
    assert watchdog.barks()
    watchdog.finish()
    deadline.decided([], [], 2.0, 0.0)
    clock.seconds += 60
    deadline.check()
    deadline.deciding("ns/g")
    watchdog.begin()
    assert not watchdog.barks()


def test_somebody_looks_at_the_clock() -> None:
    """Started, it cancels from a thread of its own, and stops when told to."""
    watchdog, cancelled = Watchdog(), threading.Event()
    watchdog.cancel = lambda decision: cancelled.set()  # type: ignore[method-assign]
    deadline = Deadline(watchdog, 0.001)
    deadline.start()
    deadline.deciding("ns/g")
    assert cancelled.wait(10)
    deadline.stop()
    assert not any(thread.name == "deadline" for thread in threading.enumerate())
