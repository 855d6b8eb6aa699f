"""How the audit log is read, and which writes name the pod that they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched.model.convert import OWNERS_CONDITION
from tests.resilience import audit
from tests.resilience.audit import MARK, NOMINATE
from tests.resilience.made_up import (
    GOOD,
    MADE,
    NEXT,
    PLAN,
    UNIT,
    US,
    found,
)


def test_the_log_is_read() -> None:
    """A status patch, its process, its deadline."""
    condition = {
        "type": "gangsched.dev/Nominated",
        "status": "True",
        "message": json.dumps({"plan": PLAN, "victims": 2, "node": "n", "awaited": 0, "version": 1}),
    }
    event = {
        "verb": "patch",
        "user": {"username": US},
        "userAgent": "gangsched/1 (p7)",
        "objectRef": {"resource": "pods", "subresource": "status", "namespace": "default", "name": "m1"},
        "requestObject": {
            "metadata": {"uid": "m1"},
            "status": {"nominatedNodeName": "n", "conditions": [condition]},
        },
        "requestURI": "/api/v1/namespaces/default/pods/m1/status?timeout=700ms",
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "1970-01-01T00:16:40.100000Z",
        "stageTimestamp": "1970-01-01T00:16:40.110000Z",
    }
    [read] = audit.writes([event, {"verb": "get"}])
    assert (read.kind, read.object, read.uid, read.process) == (NOMINATE, "default/m1", "m1", "p7")
    assert (read.node, read.plan, read.victims, read.timeout_seconds) == ("n", PLAN, 2, 0.7)
    assert read.received == MADE + 0.1


def test_a_mark_says_what_leaves_as_a_whole() -> None:
    """For each gang and plan, and nothing where others of the unit may stay."""
    owner = {"plan": PLAN, "cause": "preemption", "scheduler": "s", "for": "default/g", "unitKind": "PodGroup"}
    owners = [{**owner, "unitName": "default/v"}, {**owner, "plan": NEXT, "unitName": "default/v", "partial": True}]
    mark_ = {"type": "DisruptionTarget", "status": "True"}
    said = {"type": OWNERS_CONDITION, "status": "True", "message": json.dumps({"owners": owners, "version": 1})}
    [read] = audit.writes([logged("patch", "status", {"metadata": POD, "status": {"conditions": [mark_, said]}})])
    assert (read.kind, read.owners) == (MARK, (("default/g", PLAN), ("default/g", NEXT)))
    assert read.units == (UNIT,)


POD = {"uid": "m1"}
#: By name: verb, subresource, and a body that names the UID of the pod that it means.
CONDITIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "status": ("patch", "status", {"metadata": POD, "status": {"conditions": [{"type": "PodScheduled"}]}}),
    "resize": ("patch", "resize", {"metadata": POD, "spec": {}}),
    "metadata": ("patch", "", {"metadata": {**POD, "annotations": {"a": "b"}}}),
    "the whole": ("update", "", {"metadata": POD, "spec": {}}),
    "ephemeral container": ("update", "ephemeralcontainers", {"metadata": POD}),
    "binding": ("create", "binding", {"metadata": POD, "target": {"name": "n"}}),
    "eviction": ("create", "eviction", {"metadata": {"name": "m1"}, "deleteOptions": {"preconditions": POD}}),
    "delete": ("delete", "", {"preconditions": POD}),
}


def logged(verb: str, part: str, body: object, resource: str = "pods", name: str = "m1") -> dict[str, Any]:
    """What an audit log says of a request of ours; ``part`` is the subresource."""
    return {
        "verb": verb,
        "user": {"username": US},
        "userAgent": "gangsched/1 (p1)",
        "objectRef": {"resource": resource, "subresource": part, "namespace": "default", "name": name},
        "requestObject": body,
        "requestURI": f"/api/v1/namespaces/default/{resource}/{name}/{part}?timeout=700ms",
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "1970-01-01T00:16:39.600000Z",
        "stageTimestamp": "1970-01-01T00:16:39.610000Z",
    }


def unnamed(body: object) -> object:
    """A body without a UID at any depth."""
    return {k: unnamed(v) for k, v in body.items() if k != "uid"} if isinstance(body, dict) else body


@pytest.mark.parametrize("case", CONDITIONS)
def test_every_write_to_a_pod_needs_a_uid_whatever_it_is(case: str) -> None:
    """Of what kind it is, and whether anything else in the log is of that kind, does not matter."""
    verb, part, body = CONDITIONS[case]
    [named] = audit.writes([logged(verb, part, body)])
    [blank] = audit.writes([logged(verb, part, unnamed(body))])
    assert (named.uid, blank.uid) == ("m1", "")
    assert "no UID precondition" not in found([GOOD[0], named])
    assert "no UID precondition" in found([GOOD[0], blank])


@pytest.mark.parametrize(
    ("verb", "part", "body"),
    [
        ("deletecollection", "", {}),
        ("patch", "status", [{"op": "add", "path": "/status/conditions/-", "value": {"type": "x"}}]),
        ("patch", "", None),
    ],
    ids=["many at once", "a list of operations", "no body"],
)
def test_a_write_to_pods_that_cannot_name_one_is_found(verb: str, part: str, body: object) -> None:
    """There is no form in which it would mean one incarnation."""
    assert "no UID precondition" in found([GOOD[0], *audit.writes([logged(verb, part, body)])])


@pytest.mark.parametrize(
    ("verb", "resource", "name"), [("create", "events", "e"), ("patch", "podgroups", "g"), ("create", "pods", "")]
)
def test_what_changes_no_pod_needs_none(verb: str, resource: str, name: str) -> None:
    """Events and groups; and a pod that is made has no UID yet."""
    event = logged(verb, "", {"metadata": {"name": name}}, resource, name)
    assert "no UID precondition" not in found([GOOD[0], *audit.writes([event])])
