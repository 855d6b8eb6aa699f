"""The requests that actions become: method, path, body. Pure functions, so that tests can read them."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gangsched.cluster.kube.client import JSON, MERGE, METADATA, STRATEGIC_MERGE, segment
from gangsched.core.actions import (
    AskRemoval,
    Bind,
    BindVolume,
    JobRef,
    JobWrite,
    Mark,
    Nominate,
    PodRef,
    PodWrite,
    Remove,
    Report,
    ResumeJob,
    SelectNode,
    SetCondition,
    SetGroupStatus,
    SuspendJob,
    Unmark,
    VolumeWrite,
    WithdrawNomination,
)
from gangsched.model import jobsets
from gangsched.model.children import ADDED_BY_FLAVOR, added_by_flavor
from gangsched.model.constraints import Directives
from gangsched.model.convert import INTENT_CONDITION, OWNERS_CONDITION, PREEMPTED_BY, SUSPENDED_BY
from gangsched.model.errors import FieldError
from gangsched.model.times import render_micro_time, render_time
from gangsched.model.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE

#: Reason of the intent condition while the nomination stands.
NOMINATED_REASON = "Nominated"

#: Limits of events.k8s.io/v1 and of condition messages; a longer text is cut, not refused.
MAX_NOTE_BYTES = 1024
MAX_REASON_CHARACTERS = 128
MAX_MESSAGE_BYTES = 32768
_MAX_NAME_STEM = 200
#: The pod that answers a write is not read; without its spec and status the server has less to encode.
_BRIEF = f"{METADATA}, {JSON}"


class Request(NamedTuple):
    """One request, without what the client adds (credentials, deadline)."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON
    accept: str = JSON


def pod_path(pod: PodRef, subresource: str = "") -> str:
    """The URL path of a pod or of one of its subresources."""
    path = f"/api/v1/namespaces/{segment(pod.namespace)}/pods/{segment(pod.name)}"
    return f"{path}/{subresource}" if subresource else path


def write_request(action: PodWrite | VolumeWrite | JobWrite | SetCondition | SetGroupStatus, now: float) -> Request:
    """The request for one action on a pod or Job, or for the volumes of a pod.

    ``now`` (seconds since the epoch) is when its conditions changed.
    """
    match action:
        case Bind():
            return bind_request(action)
        case Nominate():
            condition = _condition(INTENT_CONDITION, "True", NOMINATED_REASON, action.message, now)
            return _status_patch(action.pod, {"nominatedNodeName": action.node, "conditions": [condition]})
        case WithdrawNomination():
            condition = _condition(INTENT_CONDITION, "False", action.reason, action.message, now)
            return _status_patch(action.pod, {"nominatedNodeName": None, "conditions": [condition]})
        case Mark():
            owned = (OWNERS_CONDITION, "Owned" if action.message else "Announced", action.owners)
            marks = [("DisruptionTarget", action.reason, action.message), owned]
            conditions = [_condition(kind, "True", reason, text, now) for kind, reason, text in marks if text]
            return _status_patch(action.pod, {"conditions": conditions})
        case Unmark():
            marks = [("DisruptionTarget", action.reason, action.message), (OWNERS_CONDITION, "Withdrawn", "")]
            conditions = [_condition(kind, "False", reason, text, now) for kind, reason, text in marks]
            return _status_patch(action.pod, {"conditions": conditions})
        case SetCondition():
            condition = _condition("PodScheduled", "False", action.reason, action.message, now)
            return _status_patch(action.pod, {"conditions": [condition]})
        case SetGroupStatus():
            return _group_status(action)
        case Remove() | AskRemoval():
            return remove_request(action)
        case BindVolume():
            return _bind_volume(action)
        case SelectNode():
            return _select_node(action)
        case SuspendJob() | ResumeJob():
            return job_request(action, action.version)


def job_path(job: JobRef) -> str:
    """The URL path of a Job, or of a JobSet."""
    jobset = job.kind == jobsets.JOBSET
    api, plural = (f"{jobsets.GROUP}/{jobsets.VERSION}", "jobsets") if jobset else ("batch/v1", "jobs")
    return f"/apis/{api}/namespaces/{segment(job.namespace)}/{plural}/{segment(job.name)}"


def job_request(action: SuspendJob | ResumeJob, version: str, found: Mapping[str, Any] | None = None) -> Request:
    """A Job or JobSet is suspended or goes on, if it still is as it was in this version; who did it is in the same
    PATCH. So is what its templates get of their flavors if ``found`` is given: the object as the server has it.
    """
    notes: dict[str, str | None] = {SUSPENDED_BY: None, PREEMPTED_BY: None}
    if isinstance(action, SuspendJob):
        notes = {SUSPENDED_BY: action.scheduler, PREEMPTED_BY: f"{action.preemptor}, plan {action.plan}"}
    meta = {"uid": action.job.uid, "resourceVersion": version, "annotations": notes}
    spec: dict[str, Any] = {"suspend": isinstance(action, SuspendJob)}
    if isinstance(action, ResumeJob) and action.templates is not None and found is not None:
        change, notes[ADDED_BY_FLAVOR] = template_change(found, action.templates)
        spec |= change
    body = {"metadata": meta, "spec": spec}
    return Request("PATCH", job_path(action.job), msgspec.json.encode(body), MERGE)


def mark_request(pod: PodRef, message: str, now: float, reason: str) -> Request:
    """DisruptionTarget=True on a victim that an eviction has overwritten."""
    return _status_patch(pod, {"conditions": [_condition("DisruptionTarget", "True", reason, message, now)]})


def report_request(report: Report, controller: str, instance: str, now: float) -> Request:
    """A new Event; ``controller`` and ``instance`` say who reports."""
    _, _, namespace, name, _ = report.regarding
    space = namespace or "default"
    stem = re.sub(r"[^a-z0-9.-]+", "-", name.lower())[:_MAX_NAME_STEM].strip(".-") or "event"
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        # Our own random suffix instead of generateName: a repeated POST then meets itself and answers 409.
        "metadata": {"namespace": space, "name": f"{stem}.{uuid.uuid4().hex[:16]}"},
        "eventTime": render_micro_time(now),
        "reportingController": controller,
        "reportingInstance": instance[:MAX_REASON_CHARACTERS],
        "type": report.kind,
        "reason": report.reason[:MAX_REASON_CHARACTERS],
        "action": report.action[:MAX_REASON_CHARACTERS],
        "note": _cut(report.note, MAX_NOTE_BYTES),
        "regarding": _reference(report.regarding),
    }
    if report.related is not None:
        body["related"] = _reference(report.related)
    path = f"/apis/events.k8s.io/v1/namespaces/{segment(space)}/events"
    return Request("POST", path, msgspec.json.encode(body))


def bind_request(action: Bind, version: str = "") -> Request:
    """The pod that is meant is bound if it is still in this ``version``, where that is given."""
    pod = action.pod
    meta = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**meta, "resourceVersion": version} if version else meta,
        "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
    }
    return Request("POST", pod_path(pod, "binding"), msgspec.json.encode(body))


def remove_request(action: Remove | AskRemoval, version: str = "") -> Request:
    """A pod is deleted, or evicted, if it is the one that is meant and, where ``version`` is given, still in that; or
    the API server says only what would become of that.
    """
    pod = action.pod
    preconditions = {"uid": pod.uid}
    if version:
        preconditions["resourceVersion"] = version
    how: dict[str, Any] = {"preconditions": preconditions}
    if isinstance(action, AskRemoval):
        how["dryRun"] = ["All"]
    if not action.evict:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", **how}
        return Request("DELETE", pod_path(pod), msgspec.json.encode(options), accept=_BRIEF)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": how,
    }
    return Request("POST", pod_path(pod, "eviction"), msgspec.json.encode(eviction))


def volume_path(name: str) -> str:
    """The URL path of a PersistentVolume."""
    return f"/api/v1/persistentvolumes/{segment(name)}"


def claim_path(namespace: str, name: str) -> str:
    """The URL path of a PersistentVolumeClaim."""
    return f"/api/v1/namespaces/{segment(namespace)}/persistentvolumeclaims/{segment(name)}"


def _bind_volume(action: BindVolume) -> Request:
    # The version is a precondition too: another client may have found another claim for the volume meanwhile.
    meta: dict[str, Any] = {"uid": action.volume_uid, "resourceVersion": action.version}
    if not action.reserved:  # with it, the volume controller drops the reservation too when it unbinds the volume
        meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    body = {
        "metadata": meta,
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": action.pod.namespace,
                "name": action.claim,
                "uid": action.claim_uid,
            }
        },
    }
    return Request("PATCH", volume_path(action.volume), msgspec.json.encode(body), MERGE)


def _select_node(action: SelectNode) -> Request:
    body = {"metadata": {"uid": action.claim_uid, "annotations": {SELECTED_NODE: action.node}}}
    return Request("PATCH", claim_path(action.pod.namespace, action.claim), msgspec.json.encode(body), MERGE)


def _status_patch(pod: PodRef, status: dict[str, Any]) -> Request:
    # The UID in a patch is a precondition: metadata.uid cannot change, so another pod of that name refuses it.
    body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
    return Request("PATCH", pod_path(pod, "status"), body, STRATEGIC_MERGE, _BRIEF)


def _group_status(action: SetGroupStatus) -> Request:
    group = action.pod
    path = f"/apis/{group.family}/{group.version}/namespaces/{segment(group.namespace)}/podgroups/{segment(group.name)}"
    body = msgspec.json.encode({"metadata": {"uid": group.uid}, "status": action.status})
    return Request("PATCH", path, body, MERGE, _BRIEF)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": _cut(message, MAX_MESSAGE_BYTES),
        "lastTransitionTime": render_time(now),
    }


def _reference(of: tuple[str, str, str, str, str]) -> dict[str, str]:
    keys = ("apiVersion", "kind", "namespace", "name", "uid")
    return {key: value for key, value in zip(keys, of, strict=True) if value}


def _cut(text: str, limit_bytes: int) -> str:
    raw = text.encode()
    if len(raw) <= limit_bytes:
        return text
    return raw[: limit_bytes - 3].decode(errors="ignore") + "…"


# The pod templates of a Job or JobSet as a PATCH gives them the labels and tolerations of their flavors. Lists in a
# PATCH replace what was there, so it is made from the object as the server has it.


def template_change(found: Mapping[str, Any], added: Sequence[Directives]) -> tuple[dict[str, Any], str | None]:
    """``(spec, annotation)`` of a merge patch on this object: what was added before goes, what is to be added comes.

    The annotation says what was added; None takes it off.
    """
    earlier = _earlier(found)
    now = [_entry(each) for each in added]
    jobs = found["spec"].get("replicatedJobs")
    specs = [found["spec"]] if jobs is None else [job["template"]["spec"] for job in jobs]
    changes = [
        _changed(spec["template"]["spec"], *(entries[i] if i < len(entries) else {} for entries in (earlier, now)))
        for i, spec in enumerate(specs)
    ]
    annotation = msgspec.json.encode(now).decode() if any(now) else None
    if jobs is not None:
        jobs = copy.deepcopy(jobs)
        for job, change in zip(jobs, changes, strict=True):
            job["template"]["spec"]["template"]["spec"].update(change)
        return {"replicatedJobs": jobs}, annotation
    [change], [spec] = changes, specs
    if "nodeSelector" in change:  # keys of a map go by null only
        gone = dict.fromkeys(spec["template"]["spec"].get("nodeSelector") or {})
        change["nodeSelector"] = gone | change["nodeSelector"]
    return {"template": {"spec": change}}, annotation


def _earlier(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of the annotation as they stand there; one that cannot be understood says nothing."""
    notes = found["metadata"].get("annotations") or {}
    try:
        added_by_flavor(notes)
    except FieldError:
        return []
    return msgspec.json.decode(notes.get(ADDED_BY_FLAVOR, "[]"), type=list[dict[str, Any]])


def _entry(added: Directives) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if added.node_selector:
        out["nodeSelector"] = dict(added.node_selector)
    if added.tolerations:
        names = ("key", "operator", "value", "effect", "tolerationSeconds")
        fields = [(t.key, t.operator, t.value, t.effect, t.seconds) for t in added.tolerations]
        out["tolerations"] = [
            {n: v for n, v in zip(names, each, strict=True) if v not in ("", None)} for each in fields
        ]
    return out


def _changed(spec: Mapping[str, Any], earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Node selector and tolerations of a template, whole, as far as it has or gets any."""
    gone = (earlier.get("nodeSelector") or {}).items()
    selector = {k: v for k, v in (spec.get("nodeSelector") or {}).items() if (k, v) not in gone}
    tolerations = list(spec.get("tolerations") or ())
    for each in earlier.get("tolerations") or ():
        if each in tolerations:
            tolerations.remove(each)
    tolerations += [each for each in now.get("tolerations", ()) if each not in tolerations]
    whole = {"nodeSelector": now.get("nodeSelector", {}) | selector, "tolerations": tolerations}
    return {name: value for name, value in whole.items() if value or name in spec}
