"""Return the fields that the status of an object lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gangsched.model import conditions, jobsets
from gangsched.model.conditions import Condition
from gangsched.model.dialects import changed_status, dialect
from gangsched.model.queues import GROUP

#: The API groups of Jobs and JobSets.
_JOB_FAMILIES = ("batch", jobsets.GROUP)
#: The condition of queues, and that of Jobs and JobSets after which those of an earlier eviction are history.
_ACTIVE, _RESERVED = "Active", "QuotaReserved"
_OF_EVICTION = ("Evicted", "Preempted")


def changed_fields(
    family: str, version: str, desired: Mapping[str, Any], current: Mapping[str, Any], generation: int, now: float
) -> dict[str, Any]:
    """The top-level fields of ``status`` that differ from what they should be; empty when all is well.

    ``desired`` is :attr:`gangsched.core.actions.GangStatus.status`, ``current`` the object's status, ``now`` seconds
    since the epoch for times that have to be set. Fields of others are left alone, conditions of others are kept.
    """
    wanted: dict[str, Any] = {}
    if family == GROUP:
        wanted = {name: value for name, value in desired.items() if name != "active"}
        told = [(_ACTIVE, *desired["active"])] if "active" in desired else []
    elif family in _JOB_FAMILIES:
        told, generation = _of_job(desired["conditions"], current), 0
    else:
        return changed_status(family, desired, dialect.CurrentObject(version, generation, current, now))
    listed = conditions.with_these(conditions.conditions_in(current), told, generation, now)
    if listed or current.get("conditions"):
        wanted["conditions"] = listed
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def _of_job(desired: Iterable[Condition], current: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a Job or JobSet; with new quota those of its last eviction become False, as in Kueue."""
    out = list(desired)
    if any(name == _RESERVED and status == "True" for name, status, _, _ in out):
        told = {name for name, *_ in out}
        for name in _OF_EVICTION:
            old = conditions.named(conditions.conditions_in(current), name)
            if name not in told and old is not None and old.get("status") == "True":
                out.append((name, "False", _RESERVED, f"Previously: {old.get('message', '')}"))
    return out
