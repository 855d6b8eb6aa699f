"""The log of a dry run: verb, object, and details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangsched.core.actions import (
    Action,
    AllocateClaim,
    AskRemoval,
    Bind,
    BindVolume,
    ClaimRef,
    GangStatus,
    HoldNode,
    JobRef,
    Mark,
    NodeRef,
    Nominate,
    PodRef,
    ReleaseClaim,
    ReleaseNode,
    Remove,
    Report,
    ReserveClaim,
    ResumeJob,
    SelectNode,
    SetCondition,
    SetGroupStatus,
    SuspendJob,
    Unmark,
    WithdrawNomination,
)
from gangsched.model.devices import Allocation

#: By kind of action: what would be done, and the fields that are logged.
_TOLD: Mapping[type[Any], tuple[str, tuple[str, ...]]] = {
    Bind: ("bind", ("node",)),
    Nominate: ("nominate", ("node", "plan")),
    WithdrawNomination: ("withdraw the nomination of", ("message",)),
    Mark: ("mark", ("message",)),
    Unmark: ("unmark", ("message",)),
    Remove: ("delete", ()),
    AskRemoval: ("ask for the removal of", ()),
    SuspendJob: ("suspend", ("preemptor", "plan")),
    ResumeJob: ("resume", ()),
    BindVolume: ("bind", ("claim", "pod")),
    SelectNode: ("ask for a volume for", ("node", "pod")),
    AllocateClaim: ("allocate", ("consumers", "allocation")),
    ReserveClaim: ("reserve", ("consumers",)),
    ReleaseClaim: ("release", ("consumers",)),
    HoldNode: ("hold", ("value",)),
    ReleaseNode: ("no longer hold", ()),
    SetCondition: ("set PodScheduled=False on", ("reason", "message")),
    Report: ("write an Event on", ("reason", "note")),
    SetGroupStatus: ("update the status of", ()),
    GangStatus: ("update the status of", ()),
}


def describe(action: Action) -> tuple[str, dict[str, Any]]:
    """Return the action and its object, such as ``bind Pod ns/name``, and details by name."""
    verb, fields = next(row for kind, row in _TOLD.items() if isinstance(action, kind))
    if isinstance(action, Remove) and action.evict:
        verb = "evict"
    values = {name: getattr(action, name) for name in fields}
    # A line of the log has its own message.
    return f"{verb} {_object(action)}", {
        "says" if name == "message" else name: _detail(value) for name, value in values.items()
    }


def _detail(value: Any) -> Any:
    if isinstance(value, Allocation):
        return " ".join("/".join(each.device) for each in value.devices)
    if isinstance(value, tuple):
        return " ".join(each.name for each in value)
    return value.key if isinstance(value, PodRef) else value


def _object(action: Action) -> str:
    match action:
        case Report(regarding=(_, kind, namespace, name, _)):
            return f"{kind} {namespace}/{name}"
        case GangStatus(namespace=namespace, name=name):
            return f"group {namespace}/{name}"
        case BindVolume(volume=volume):
            return f"PersistentVolume {volume}"
        case SelectNode(pod=pod, claim=claim):
            return f"PersistentVolumeClaim {pod.namespace}/{claim}"
    if isinstance(action, SetGroupStatus):
        return f"group {action.pod.key}"
    if isinstance(action.pod, ClaimRef):
        return f"ResourceClaim {action.pod.key}"
    if isinstance(action.pod, NodeRef):
        return f"Node {action.pod.name}"
    return f"{action.pod.kind if isinstance(action.pod, JobRef) else 'Pod'} {action.pod.key}"
