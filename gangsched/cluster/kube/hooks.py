"""What the adapter tells the outside while it works: measurements, by plain callables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Observe(Protocol):
    """Takes one measurement. Called from the I/O thread and the decision thread; must be quick and must not raise.

    Names and units (labels in braces; ``_seconds`` are durations, all others are counts of what has just
    happened, except ``inbox_events``, which is a level):

    - ``api_request_seconds`` {verb, code}: one HTTP attempt; code ``0`` when there was no answer.
    - ``write_seconds`` {kind, outcome}: one action from submission to its answer, retries included.
    - ``writes_waiting`` {lane}: a level, after each submission.
    - ``reports_dropped`` {reason}: Events and conditions not written (``repeated``, ``replaced``,
      ``overload``, ``abandoned``, ``failed``).
    - ``list_seconds`` {resource}, ``watch_ended`` {resource, reason}, ``watch_events`` {resource}.
    - ``objects_refused`` {resource}.
    - ``leader`` {}: 1 or 0, a level.
    - ``inbox_events`` {}: events that the decision thread has not fetched yet.
    """

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """``value`` in the unit that the name says."""


def ignore(name: str, value: float, labels: Mapping[str, str]) -> None:
    """An :class:`Observe` that drops everything."""
