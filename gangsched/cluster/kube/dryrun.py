"""What a dry run says instead of writing: verb, object, and the details that people ask for."""

from __future__ import annotations

from gangsched.core.actions import (
    Action,
    Bind,
    BindVolume,
    GangStatus,
    JobRef,
    Mark,
    Nominate,
    PodRef,
    Remove,
    Report,
    ResumeJob,
    SelectNode,
    SetCondition,
    Spare,
    SuspendJob,
    Unmark,
    WithdrawNomination,
)


def told(action: Action) -> tuple[str, dict[str, str]]:  # noqa: C901, PLR0912
    """What would be done to which object, such as ``bind Pod ns/name``, and details by name."""
    if isinstance(action, Report):
        _, kind, namespace, name, _ = action.regarding
        return _line("write an Event on", f"{kind} {namespace}/{name}", reason=action.reason, note=action.note)
    if isinstance(action, GangStatus):
        return _line("update the status of", f"group {action.namespace}/{action.name}")
    target = _object(action.pod)
    match action:
        case Bind(node=node):
            return _line("bind", target, node=node)
        case Nominate(node=node, plan=plan):
            return _line("nominate", target, node=node, plan=plan)
        case WithdrawNomination(message=why):
            return _line("withdraw the nomination of", target, why=why)
        case Mark(message=why):
            return _line("mark", target, why=why)
        case Unmark(message=why):
            return _line("unmark", target, why=why)
        case Remove(evict=evict):
            return _line("evict" if evict else "delete", target)
        case Spare():
            return _line("spare", target)
        case SuspendJob(preemptor=preemptor, plan=plan):
            return _line("suspend", target, preemptor=preemptor, plan=plan)
        case ResumeJob():
            return _line("resume", target)
        case BindVolume(volume=volume, claim=claim):
            claim_key = f"{action.pod.namespace}/{claim}"
            return _line("bind", f"PersistentVolume {volume}", claim=claim_key, pod=action.pod.key)
        case SelectNode(claim=claim, node=node):
            claim_key = f"PersistentVolumeClaim {action.pod.namespace}/{claim}"
            return _line("ask for a volume for", claim_key, node=node, pod=action.pod.key)
        case SetCondition(reason=reason, message=why):
            return _line("set PodScheduled=False on", target, reason=reason, why=why)


def _object(pod: PodRef) -> str:
    return f"{pod.kind if isinstance(pod, JobRef) else 'Pod'} {pod.key}"


def _line(verb: str, target: str, **details: str) -> tuple[str, dict[str, str]]:
    return f"{verb} {target}", details
