"""The requests that writes to pods become: method, path, body. Pure functions, so that tests can read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from gangsched.cluster.kube.client import JSON, METADATA, STRATEGIC_MERGE, segment
from gangsched.core.actions import (
    AskRemoval,
    Bind,
    PodRef,
    Remove,
)
from gangsched.model.times import render_time

#: Limit of condition messages; a longer text is cut, not refused.
MAX_MESSAGE_BYTES = 32768
#: The pod that answers a write is not read; without its spec and status the server has less to encode.
BRIEF = f"{METADATA}, {JSON}"


class Request(NamedTuple):
    """One request, without what the client adds (credentials, deadline)."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON
    accept: str = JSON


def object_path(api: str, plural: str, namespace: str, name: str) -> str:
    """The URL path of an object of ``group/version``; ``namespace`` is empty for kinds of the whole cluster."""
    within = f"/namespaces/{segment(namespace)}" if namespace else ""
    return f"/apis/{api}{within}/{plural}/{segment(name)}"


def pod_path(pod: PodRef, subresource: str = "") -> str:
    """The URL path of a pod or of one of its subresources."""
    path = f"/api/v1/namespaces/{segment(pod.namespace)}/pods/{segment(pod.name)}"
    return f"{path}/{subresource}" if subresource else path


def mark_request(pod: PodRef, message: str, now: float, reason: str) -> Request:
    """DisruptionTarget=True on a victim that an eviction has overwritten."""
    return status_patch(pod, {"conditions": [condition("DisruptionTarget", "True", reason, message, now)]})


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
    """Return the body that deletes or evicts a pod with this UID and, if given, this ``version``;
    or a dry run of that.
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
        return Request("DELETE", pod_path(pod), msgspec.json.encode(options), accept=BRIEF)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": how,
    }
    return Request("POST", pod_path(pod, "eviction"), msgspec.json.encode(eviction))


def status_patch(pod: PodRef, status: dict[str, Any]) -> Request:
    """PATCH of the status of a pod."""
    # The UID in a patch is a precondition: metadata.uid cannot change, so another pod of that name refuses it.
    body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
    return Request("PATCH", pod_path(pod, "status"), body, STRATEGIC_MERGE, BRIEF)


def condition(kind: str, status: str, reason: str, message: str, now: float) -> dict[str, str]:
    """A condition that changed at that time (seconds since the epoch)."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": cut(message, MAX_MESSAGE_BYTES),
        "lastTransitionTime": render_time(now),
    }


def reference(of: tuple[str, str, str, str, str]) -> dict[str, str]:
    """The object that an Event names."""
    keys = ("apiVersion", "kind", "namespace", "name", "uid")
    return {key: value for key, value in zip(keys, of, strict=True) if value}


def cut(text: str, limit_bytes: int) -> str:
    """The text, at most so long."""
    raw = text.encode()
    if len(raw) <= limit_bytes:
        return text
    return raw[: limit_bytes - 3].decode(errors="ignore") + "…"
