"""What the status of an object should say, and the patch that makes it say so. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from gangsched.messages import notes
from gangsched.model import jobsets
from gangsched.model.dialects import koordinator, upstream
from gangsched.model.queues import GROUP
from gangsched.model.times import render_time

#: Type of the condition by API version: renamed when upstream's API became beta (KEP-4671).
CONDITION, CONDITION_1_37 = "PodGroupScheduled", "PodGroupInitiallyScheduled"

#: Which pods of a group were evicted last; in an API that knows no conditions the server drops it.
EVICTED = "gangsched.dev/PodsEvicted"

#: The API groups of Jobs and JobSets.
JOBS = ("batch", jobsets.GROUP)
#: The condition of queues, and that of Jobs and JobSets after which those of an earlier eviction are history.
_ACTIVE, _RESERVED = "Active", "QuotaReserved"
_OF_EVICTION = ("Evicted", "Preempted")
#: Type, status, reason and message.
_Condition: TypeAlias = tuple[str, str, str, str]

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
    if family == GROUP:
        wanted = {name: value for name, value in desired.items() if name != "active"}
        conditions = [(_ACTIVE, *desired["active"])] if "active" in desired else []
    elif family in JOBS:
        conditions, generation = _of_job(desired["conditions"], current), 0
    else:
        if family == koordinator.FAMILY:
            wanted = _phase_and_counts(desired, current, now)
        conditions = _of_group(family, version, desired, current)
        if desired.get("evicted"):
            conditions.append((EVICTED, "True", "Preempted", str(desired["evicted"])))
    listed = _listed(current)
    for condition in conditions:
        listed = _with(condition, listed, generation, now)
    if listed or current.get("conditions"):
        wanted["conditions"] = listed
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


def _of_group(family: str, version: str, desired: Mapping[str, Any], current: Mapping[str, Any]) -> list[_Condition]:
    """The group's condition; none when there is nothing to say."""
    name = condition_type(family, version)
    old = _named(_listed(current), name)
    if old is not None and old.get("status") == "True" and family == upstream.FAMILY:
        return []  # by upstream's contract True is final: the gang was scheduled once
    if desired["phase"] in _STARTED:
        return [(name, "True", "Scheduled", notes.MINIMUM_BOUND)]
    if not desired.get("reason") or (family == upstream.FAMILY and desired["reason"] != _UNSCHEDULABLE):
        return []  # upstream's condition knows no gang that still gathers, and tools read it as it is defined
    return [(name, "False", str(desired["reason"]), str(desired.get("message") or desired["reason"]))]


def _of_job(desired: Iterable[_Condition], current: Mapping[str, Any]) -> list[_Condition]:
    """The conditions of a Job or JobSet; with new quota those of its last eviction become False, as in Kueue."""
    out = list(desired)
    if any(name == _RESERVED and status == "True" for name, status, _, _ in out):
        told = {name for name, *_ in out}
        for name in _OF_EVICTION:
            old = _named(_listed(current), name)
            if name not in told and old is not None and old.get("status") == "True":
                out.append((name, "False", _RESERVED, f"Previously: {old.get('message', '')}"))
    return out


def _listed(current: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions that are there; in an API without a schema anything may be."""
    found = current.get("conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _named(conditions: Iterable[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((each for each in conditions if each.get("type") == name), None)


def _with(condition: _Condition, listed: list[dict[str, Any]], generation: int, now: float) -> list[dict[str, Any]]:
    """The whole list of conditions with this one in its place; as it was when that is there already."""
    name, status, reason, message = condition
    old = _named(listed, name)
    message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
    if old is not None and (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
        return listed
    since = render_time(now)
    if old is not None and old.get("status") == status:
        since = old.get("lastTransitionTime") or since
    ours: dict[str, Any] = {"type": name, "status": status, "reason": reason, "message": message}
    ours["lastTransitionTime"] = since
    if generation:
        ours["observedGeneration"] = generation
    return [*(each for each in listed if each is not old), ours]
