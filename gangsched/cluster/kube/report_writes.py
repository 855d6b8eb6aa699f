"""Writes for people and for controllers that wait for a phase: Events, and statuses that come with the writes."""

from __future__ import annotations

import re
import uuid
from typing import Any

import msgspec

from gangsched.cluster.kube.bodies import BRIEF, Request, cut, object_path, reference
from gangsched.cluster.kube.client import MERGE, ApiError, segment
from gangsched.cluster.kube.kind_of_write import KindOfWrite, Verdict
from gangsched.core.actions import Report, SetGroupStatus
from gangsched.core.events import Outcome
from gangsched.model.times import render_micro_time

#: Limits of events.k8s.io/v1; a longer text is cut, not refused.
MAX_NOTE_BYTES = 1024
MAX_REASON_CHARACTERS = 128
_MAX_NAME_STEM = 200


class Reports(KindOfWrite[Report]):
    """POST of an Event."""

    patient = False

    def request(self, report: Report) -> Request:
        controller, instance, now = self.means.controller, self.means.instance, self.means.now()
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
            "note": cut(report.note, MAX_NOTE_BYTES),
            "regarding": reference(report.regarding),
        }
        if report.related is not None:
            body["related"] = reference(report.related)
        path = f"/apis/events.k8s.io/v1/namespaces/{segment(space)}/events"
        return Request("POST", path, msgspec.json.encode(body))

    async def outcome(self, action: Report, error: ApiError) -> Verdict | None:
        if error.status == 409:
            return Outcome.OK, ""  # our own earlier attempt has been stored
        return None if error.transient or error.status == 401 else (Outcome.REFUSED, error.message)


class GroupStatuses(KindOfWrite[SetGroupStatus]):
    """PATCH of the status of a group whose controllers wait for what it says."""

    def request(self, action: SetGroupStatus) -> Request:
        group = action.pod
        path = object_path(f"{group.family}/{group.version}", "podgroups", group.namespace, group.name)
        body = msgspec.json.encode({"metadata": {"uid": group.uid}, "status": action.status})
        return Request("PATCH", path, body, MERGE, BRIEF)

    async def conflict(self, action: SetGroupStatus, error: ApiError) -> Verdict | None:
        return (Outcome.GONE if error.status == 409 else Outcome.REFUSED), error.message
