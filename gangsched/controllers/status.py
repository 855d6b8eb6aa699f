"""What the status of a group object should say, and the patch that makes it say so. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangsched.model.dialects import koordinator, upstream
from gangsched.model.times import render_time

#: Families whose objects have a status that we keep. The x-k8s.io groups are kept by their own scheduler.
FAMILIES = (koordinator.FAMILY, upstream.FAMILY)

#: Type of the condition by API version: renamed when upstream's API became beta (KEP-4671).
CONDITION, CONDITION_1_37 = "PodGroupScheduled", "PodGroupInitiallyScheduled"

_STARTED = ("Scheduled", "Running", "Finished")
_ATTEMPTED = ("Scheduling", *_STARTED)
_COUNTS = ("scheduled", "running", "succeeded", "failed")
_UNSCHEDULABLE = "Unschedulable"
_MESSAGE_LIMIT = 1024


def condition_type(family: str, version: str) -> str:
    """How the condition is called in this version of the API."""
    return CONDITION_1_37 if family == upstream.FAMILY and version != "v1alpha2" else CONDITION


def changed_fields(
    family: str, version: str, desired: Mapping[str, Any], current: Mapping[str, Any], generation: int, now: float
) -> dict[str, Any]:
    """The top-level fields of ``status`` that differ from what they should be; empty when all is well.

    ``desired`` is :attr:`gangsched.core.actions.GangStatus.status`, ``current`` the object's status, ``now`` seconds
    since the epoch for times that have to be set. Fields of others are left alone, conditions of others are kept.
    """
    wanted: dict[str, Any] = {}
    if family == koordinator.FAMILY:
        wanted = _phase_and_counts(desired, current, now)
    conditions = _conditions(family, version, desired, current, generation, now)
    if conditions is not None:
        wanted["conditions"] = conditions
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def _phase_and_counts(desired: Mapping[str, Any], current: Mapping[str, Any], now: float) -> dict[str, Any]:
    wanted: dict[str, Any] = {"phase": desired["phase"]}
    for name in _COUNTS:
        # A controller written in Go leaves zeros out; adding them would make the two take turns.
        if desired.get(name) or current.get(name):
            wanted[name] = int(desired.get(name) or 0)
    if desired.get("occupiedBy"):
        wanted["occupiedBy"] = str(desired["occupiedBy"])
    if desired["phase"] in _ATTEMPTED and not current.get("scheduleStartTime"):
        wanted["scheduleStartTime"] = render_time(now)
    return wanted


def _conditions(
    family: str, version: str, desired: Mapping[str, Any], current: Mapping[str, Any], generation: int, now: float
) -> list[dict[str, Any]] | None:
    """The whole list with ours in its place, or None when ours need not change."""
    name = condition_type(family, version)
    present = [each for each in current.get("conditions") or [] if isinstance(each, dict)]
    old = next((each for each in present if each.get("type") == name), None)
    if desired["phase"] in _STARTED:
        status, reason, message = "True", "Scheduled", "the members that the gang needs are bound"
    elif desired.get("reason") == _UNSCHEDULABLE or (desired.get("reason") and family == koordinator.FAMILY):
        # Upstream's condition knows no gang that is still gathering, and people's tools read it as it is defined.
        status, reason = "False", str(desired["reason"])
        message = str(desired.get("message") or reason)
    else:
        return None
    if old is not None and old.get("status") == "True" and family == upstream.FAMILY:
        return None  # by upstream's contract True is final: the gang was scheduled once
    message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
    if old is not None and (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
        return None
    since = render_time(now)
    if old is not None and old.get("status") == status:
        since = old.get("lastTransitionTime") or since
    ours: dict[str, Any] = {"type": name, "status": status, "reason": reason, "message": message}
    ours["lastTransitionTime"] = since
    if generation:
        ours["observedGeneration"] = generation
    return [each for each in present if each is not old] + [ours]
