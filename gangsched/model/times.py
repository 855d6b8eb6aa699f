"""RFC 3339 timestamps as seconds since the epoch, and durations as Go and Kubernetes write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gangsched.messages import invalid
from gangsched.model.errors import FieldError

if TYPE_CHECKING:
    from gangsched.model.wire import Condition

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Longer texts and durations are refused: a year is longer than any plausible wait.
_MAX_TEXT = 40
LONGEST_SECONDS = 366 * 86400.0
_FIRST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def parse_time(raw: str | None, field: str) -> float:
    """Seconds since the epoch; 0.0 for an absent time. Raises :class:`FieldError`."""
    if not raw:
        return 0.0
    try:
        moment = datetime.fromisoformat(raw)
    except ValueError:
        raise FieldError(field, invalid.not_a_time(raw=raw)) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def true_since(conditions: Iterable[Condition] | None, name: str) -> float:
    """Since when the condition of this type is True; 0.0 if it is not. Raises :class:`FieldError`."""
    times = (c.last_transition_time for c in conditions or () if c.type == name and c.status == "True")
    return parse_time(next(times, None), f"status.conditions[{name}].lastTransitionTime")


def _moment(seconds: float) -> datetime:
    """A moment of the calendar: what lies before year 1 or after year 9999, or is no number, is the nearest of them."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)


def render_time(seconds: float) -> str:
    """The API's form, with whole seconds. Moments beyond the years 1 to 9999 become the first or the last of them."""
    return f"{_moment(seconds):%Y-%m-%dT%H:%M:%SZ}".zfill(20)


def clock_time(seconds: float, now: float) -> str:
    """The time of day in UTC, with the date in front where that is not today's."""
    moment, today = _moment(seconds), _moment(now)
    return f"{moment:%H:%M:%SZ}" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M:%SZ}"


def render_micro_time(seconds: float) -> str:
    """The API's MicroTime, used by leases and events. Moments beyond the years 1 to 9999 become the first or last."""
    return f"{_moment(seconds):%Y-%m-%dT%H:%M:%S.%fZ}".zfill(27)


def clamp_duration(seconds: float) -> float:
    """Seconds between none and a year. The API takes any 64-bit number; sums with a greater one leave the calendar."""
    return min(max(seconds, 0.0), LONGEST_SECONDS)


def duration_seconds(text: str) -> float | None:
    """``1m30s`` as 90.0; None for text that is no duration."""
    parts = _PART.findall(text) if len(text) <= _MAX_TEXT else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return seconds_of(text)


def seconds_of(text: str) -> float:
    """The same of a text that is known to be a duration."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def parse_duration(raw: str, field: str) -> float:
    """``1h30m``, ``90s``, ``0`` in seconds; from 0 to a year. Raises :class:`FieldError`."""
    seconds = 0.0 if raw.strip() == "0" else duration_seconds(raw.strip())
    if seconds is None:
        raise FieldError(field, invalid.not_a_duration(raw=raw[:_MAX_TEXT]))
    if seconds > LONGEST_SECONDS:
        raise FieldError(field, invalid.longer_than_a_year(raw=raw))
    return seconds


def render_duration(seconds: float) -> str:
    """Seconds as ``1h30m``, ``45s`` or ``0.5s``."""
    hours, rest = divmod(round(seconds, 3), 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{value:g}{unit}" for value, unit in ((hours, "h"), (minutes, "m"), (round(rest, 3), "s")) if value]
    return "".join(parts) or "0s"
