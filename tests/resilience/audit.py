"""An API server's audit log, read as what a scheduler has written: by which process, when, on condition of what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from gangsched.core.actuation.records import read_intent, read_owners
from gangsched.core.ledger.condemned import Cause
from gangsched.model.convert import INTENT_CONDITION, OWNERS_CONDITION

NOMINATE, WITHDRAW, MARK, UNMARK, REMOVE, BIND, LEASE, GROUP_STATUS, REVIEW, OTHER = (
    "nominate",
    "withdraw",
    "mark",
    "unmark",
    "remove",
    "bind",
    "lease",
    "status of a group",
    "review of rights",
    "other",
)

_DELETES = ("delete", "deletecollection")
_VERBS = ("create", "update", "patch", *_DELETES)
_AGENT = re.compile(r"\(([\w.-]+)\)$")
_TIMEOUT = re.compile(r"[?&]timeout=(\d+)ms(?:&|$)")


class Write(msgspec.Struct, kw_only=True, frozen=True):
    """One request that writes. Times are seconds since the epoch by the server's clock: its arrival and its answer.

    ``audit_id`` is its sender's name for it. ``of_pod``: it changes or removes a pod, in whatever way; ``uid`` is the
    incarnation of that pod that the request names as its condition (empty: it names none), and ``version`` the one of
    its versions that a removal names. ``process`` is the tag of
    the process that sent it. ``node`` is of bindings and nominations, ``plan`` and ``victims`` of nominations,
    ``owners`` of marks (each gang for which the pod leaves, with its plan), and so are ``units`` (gang, plan, and what
    leaves as a whole for these, the pod with it) and ``queues`` that drain; ``holder`` is of a Lease. ``whole`` is
    False where the server has never read a body, because the sender had gone: it has failed then.
    """

    kind: str
    object: str
    audit_id: str = ""
    of_pod: bool = False
    uid: str = ""
    version: str = ""
    process: str = ""
    user: str = ""
    received: float
    answered: float
    code: int
    timeout_seconds: float | None = None
    node: str = ""
    plan: str = ""
    victims: int = 0
    owners: tuple[tuple[str, str], ...] = ()
    units: tuple[tuple[str, str, str], ...] = ()
    queues: tuple[str, ...] = ()
    holder: str = ""
    whole: bool = True

    @property
    def done(self) -> bool:
        """Did the server say that it took effect?"""
        return 200 <= self.code < 300


def writes(events: Iterable[Mapping[str, Any]]) -> list[Write]:
    """All requests that write among the events of an audit log, in the order in which they arrived."""
    found = [_write(e) for e in events if e.get("verb") in _VERBS]
    return sorted(found, key=lambda w: w.received)


def _write(event: Mapping[str, Any]) -> Write:
    ref, body, verb = event.get("objectRef") or {}, event.get("requestObject"), event["verb"]
    if not isinstance(body, Mapping):  # a list of operations names nothing as a whole
        body = {}
    agent = _AGENT.search(event.get("userAgent", ""))
    timeout = _TIMEOUT.search(event.get("requestURI", ""))
    kind, more = _meaning(verb, ref, body)
    of_pod = ref.get("resource") == "pods" and (verb != "create" or bool(ref.get("subresource")))
    condition = _condition(verb, ref, body) if of_pod else {}
    return Write(
        kind=kind,
        audit_id=event.get("auditID", ""),
        whole="requestObject" in event or (event.get("responseStatus") or {}).get("code", 0) < 400,
        object=f"{ref.get('namespace', '')}/{ref.get('name', '')}",
        of_pod=of_pod,
        uid=str(condition.get("uid") or ""),
        version=str(condition.get("resourceVersion") or ""),
        process=agent[1] if agent else "",
        user=event["user"]["username"],
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        code=(event.get("responseStatus") or {}).get("code", 0),
        timeout_seconds=int(timeout[1]) / 1000.0 if timeout else None,
        **more,
    )


def _condition(verb: str, ref: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without which UID and version a write to a pod fails: what deletes says so, others have it in their metadata."""
    if ref.get("subresource") == "eviction":
        named = (body.get("deleteOptions") or {}).get("preconditions")
    else:
        named = body.get("preconditions" if verb in _DELETES else "metadata")
    return named or {}


def _meaning(verb: str, ref: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a write, and what is special to that kind."""
    resource, part = ref.get("resource", ""), ref.get("subresource", "")
    if resource == "leases":
        return LEASE, {"holder": (body.get("spec") or {}).get("holderIdentity", "")}
    if ref.get("apiGroup") == "authorization.k8s.io":
        return REVIEW, {}  # it is answered, and nothing is stored
    if resource != "pods":
        return GROUP_STATUS if resource == "podgroups" else OTHER, {}
    if verb in _DELETES or part == "eviction":
        return REMOVE, {}
    if part == "binding":
        return BIND, {"node": (body.get("target") or {}).get("name", "")}
    if part == "status":
        return _status(body.get("status") or {})
    return OTHER, {}


def _status(status: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    conditions = {c.get("type"): c for c in status.get("conditions") or () if "type" in c}
    intent, mark = conditions.get(INTENT_CONDITION), conditions.get("DisruptionTarget")
    if intent is not None and intent.get("status") == "True":
        plan = read_intent(intent.get("message", ""))
        node = status.get("nominatedNodeName") or ""
        return NOMINATE, {"node": node, "plan": plan.plan if plan else "", "victims": plan.victims if plan else 0}
    if intent is not None:
        return WITHDRAW, {}
    if mark is not None and mark.get("status") == "True":
        said = read_owners(conditions.get(OWNERS_CONDITION, {}).get("message", ""))
        if said is None:
            return OTHER, {}  # an eviction has overwritten the one condition that is restored; the owners stand
        drains = tuple(owner.name for owner in said if owner.cause == Cause.DRAIN.value)
        gangs = tuple((owner.name, owner.plan) for owner in said if owner.cause != Cause.DRAIN.value)
        units = tuple((o.name, o.plan, f"{o.kind} {o.unit}") for o in said if o.unit and not o.partial)
        return MARK, {"owners": gangs, "units": units, "queues": drains}
    if mark is not None:
        return UNMARK, {}
    return OTHER, {}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
