"""Warnings that would repeat themselves every few seconds."""

from __future__ import annotations


class Seldom:
    """Whether a warning is due: the first time, when it says something new, and then at growing intervals.

    The interval begins at ``first_seconds`` and doubles up to ``longest_seconds``.
    """

    def __init__(self, first_seconds: float = 30.0, longest_seconds: float = 1800.0) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._said: str | None = None
        self._next_at = 0.0
        self._pause_seconds = first_seconds

    def due(self, text: str, now: float) -> bool:
        """Should this be said at ``now`` (monotonic seconds)? Whoever asks says it then."""
        if text != self._said:
            self._said, self._pause_seconds = text, self._first_seconds
        elif now < self._next_at:
            return False
        self._next_at = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, self._longest_seconds)
        return True
