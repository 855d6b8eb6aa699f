"""Lists of conditions as API objects have them. Pure functions; in an API without a schema anything may be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from gangsched.model.times import render_time

#: Type, status, reason and message.
Condition: TypeAlias = tuple[str, str, str, str]

_MESSAGE_LIMIT = 1024


def conditions_in(current: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions of a status."""
    found = current.get("conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def named(conditions: Iterable[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """The condition of this type."""
    return next((each for each in conditions if each.get("type") == name), None)


def with_these(
    conditions: list[dict[str, Any]], told: Iterable[Condition], generation: int, now: float
) -> list[dict[str, Any]]:
    """The whole list with those ``told`` in their places, those of others kept; the same list when all are there.

    ``generation`` is that of the object, 0 to leave it out; ``now`` (seconds since the epoch) is when they change.
    """
    for each in told:
        conditions = _with(each, conditions, generation, now)
    return conditions


def _with(condition: Condition, conditions: list[dict[str, Any]], generation: int, now: float) -> list[dict[str, Any]]:
    name, status, reason, message = condition
    old = named(conditions, name)
    message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
    if old is not None and (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
        return conditions
    since = render_time(now)
    if old is not None and old.get("status") == status:
        since = old.get("lastTransitionTime") or since
    ours: dict[str, Any] = {"type": name, "status": status, "reason": reason, "message": message}
    ours["lastTransitionTime"] = since
    if generation:
        ours["observedGeneration"] = generation
    return [*(each for each in conditions if each is not old), ours]
