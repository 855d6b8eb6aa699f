"""RFC 3339 timestamps as seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime

from gangsched.model.errors import FieldError


def parse_time(raw: str | None, field: str) -> float:
    """Seconds since the epoch; 0.0 for an absent time. Raises :class:`FieldError`."""
    if not raw:
        return 0.0
    try:
        moment = datetime.fromisoformat(raw)
    except ValueError:
        raise FieldError(field, f"{raw!r} is not an RFC 3339 time such as 2026-01-31T12:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def render_time(seconds: float) -> str:
    """The API's form, with whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def render_micro_time(seconds: float) -> str:
    """The API's MicroTime, used by leases and events."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
