"""Where the time of decisions goes, by a clock that somebody else looks at: the core itself knows none."""

from __future__ import annotations

from collections.abc import Callable


def _no_clock() -> float:
    return 0.0


class Stopwatch:
    """Seconds that filters and scores have taken so far, in all decisions and other questions.

    ``clock`` counts seconds and never runs backwards; until somebody sets one, no time passes. Nothing is decided by
    what is counted here.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] = _no_clock
        self.filter_seconds = 0.0
        self.score_seconds = 0.0
