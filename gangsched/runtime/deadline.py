"""The wall clock over decisions: one that takes far longer than its budget is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.watchdog import Watchdog
from gangsched.runtime.loop import Observer

#: A decision may take so many times the budget of its search: steps differ in cost, and placing takes time too.
FACTOR = 4.0
#: How often the clock is looked at within the time that a decision may take.
_LOOKS = 4


class Deadline(Observer):
    """Cancels the decision under way when it has taken ``limit_seconds``.

    Cancelling is a request: the search looks for it once per step and then settles for the best plan that it has.
    ``clock`` counts seconds and never runs backwards.
    """

    def __init__(
        self, watchdog: Watchdog, limit_seconds: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._watchdog = watchdog
        self._limit = limit_seconds
        self._clock = clock
        self._current: tuple[int, float] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def deciding(self) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        # One assignment, so that the other thread never sees the number of one decision with the time of another.
        self._current = self._watchdog.decision + 1, self._clock()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._current = None

    def look(self) -> None:
        """Cancel the decision under way if its time is up."""
        current = self._current
        if current is not None and self._clock() - current[1] >= self._limit:
            self._watchdog.cancel(current[0])

    def start(self) -> None:
        """Look at the clock from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="deadline", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._limit / _LOOKS):
            self.look()
