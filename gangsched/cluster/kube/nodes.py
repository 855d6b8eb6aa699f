"""The taint by which room on a node is held for a plan: its requests, and what a node says when one is refused.

Other clients keep taints on the same node, and each writes the whole list. So our taint is added, changed and removed
at its index in the known version of the node, by a JSON patch whose tests the API server checks. No other taint is read
or written. When the node is in another version by then, it is read, and the patch made for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gangsched import logs
from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import (
    METADATA,
    ApiError,
    Client,
    Observe,
    UnreachableError,
    answer_of,
    segment,
)
from gangsched.cluster.kube.json_limits import bounded
from gangsched.cluster.kube.kind_of_write import KindOfWrite, Verdict
from gangsched.core.actions import HoldNode, NodeRef, NodeWrite, ReleaseNode
from gangsched.core.events import Outcome
from gangsched.messages import notes
from gangsched.model import wire
from gangsched.model.held import HELD, HELD_EFFECT

JSON_PATCH = "application/json-patch+json"
_TAINTS = "/spec/taints"
_BRIEF = f"{METADATA}, application/json"
_log = logs.get(__name__)
_node_decoder = msgspec.json.Decoder(wire.Node)


class _Allowed(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Allowed = msgspec.field(default_factory=_Allowed)


def node_path(name: str) -> str:
    """The URL path of a node."""
    return f"/api/v1/nodes/{segment(name)}"


def node_request(action: NodeWrite) -> Request:
    """The request for a node that still is as it was in the version that the action names."""
    node, steps = action.node, list[dict[str, Any]]()
    steps.append({"op": "test", "path": "/metadata/uid", "value": node.uid})
    steps.append({"op": "test", "path": "/metadata/resourceVersion", "value": node.version})
    if isinstance(action, ReleaseNode):
        steps.append({"op": "remove", "path": f"{_TAINTS}/{node.held_at}" if node.taints > 1 else _TAINTS})
    elif node.held_at is not None:
        steps.append({"op": "replace", "path": f"{_TAINTS}/{node.held_at}/value", "value": action.value})
    else:
        made = {"key": HELD, "value": action.value, "effect": HELD_EFFECT}
        path, value = (f"{_TAINTS}/-", made) if node.taints else (_TAINTS, [made])
        steps.append({"op": "add", "path": path, "value": value})
    return Request("PATCH", node_path(node.name), msgspec.json.encode(steps), JSON_PATCH, _BRIEF)


class NodeWrites(KindOfWrite[NodeWrite]):
    """PATCH of the taint by which room on a node is held."""

    def request(self, action: NodeWrite) -> Request:
        return node_request(action)

    async def prepared(self, action: NodeWrite) -> tuple[Request | None, Verdict | None]:
        """A taint that has not been seen yet cannot be taken off by its place: then the node is read first."""
        if isinstance(action, ReleaseNode) and action.node.held_at is None:
            return await look_at_node(self.means.client, self.means.timeout_seconds, action)
        return self.request(action), None

    async def judge(
        self, action: NodeWrite, request: Request | None, error: ApiError
    ) -> tuple[Verdict | None, Request | None]:
        if error.status not in (409, 422):
            return await super().judge(action, request, error)
        try:
            request, verdict = await look_at_node(self.means.client, self.means.timeout_seconds, action)
        except ApiError as failure:
            refused = not failure.transient and failure.status != 401
            return ((Outcome.REFUSED, failure.message) if refused else None), None
        except UnreachableError:
            return None, None
        return verdict, request


async def look_at_node(
    client: Client, timeout_seconds: float, action: NodeWrite
) -> tuple[Request | None, Verdict | None]:
    """Return the verdict on a refused or missing attempt, from the state of the node: it is as desired, it is another
    node, or this request is to be tried. Raises :class:`ApiError` and :class:`UnreachableError`.
    """
    path = node_path(action.node.name)
    try:
        body = await client.attempt("GET", path, timeout_seconds=timeout_seconds)
    except ApiError as error:
        if error.status == 404:
            return None, (Outcome.GONE, error.message)
        raise
    found = answer_of(_node_decoder, bounded(body), f"GET {path}")
    if found.metadata.uid != action.node.uid:
        return None, (Outcome.GONE, notes.ANOTHER_NODE)
    taints = found.spec.taints or ()
    at = place_of(taints)
    value = taints[at].value if at is not None else None
    others = value is not None and _scheduler(value) not in ("", _scheduler(action.value))
    as_wanted = value == action.value if isinstance(action, HoldNode) else value is None
    if as_wanted or others:  # two of one key and effect cannot stand on a node
        return None, (Outcome.OK, "")
    now = NodeRef("", found.metadata.name, found.metadata.uid, found.metadata.resource_version, len(taints), at)
    return node_request(msgspec.structs.replace(action, node=now)), None


_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_review_decoder = msgspec.json.Decoder(_Review)


async def tell_rights(client: Client, timeout_seconds: float, observe: Observe) -> None:
    """Say in the log, and by the metric ``hold_refused``, if nodes may not be patched. Where that cannot be asked it is
    found out when the first node is to be held.
    """
    missing = []
    for verb in ("get", "patch"):
        asked = {"verb": verb, "resource": "nodes"}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        review = msgspec.json.encode({**body, "spec": {"resourceAttributes": asked}})
        try:
            answer = await client.attempt(
                "POST", _REVIEWS, body=review, timeout_seconds=timeout_seconds, server_timeout=True
            )
            if not answer_of(_review_decoder, bounded(answer), f"POST {_REVIEWS}").status.allowed:
                missing.append(verb)
        except (ApiError, UnreachableError) as error:
            _log.debug("rights are not known", error=str(error))
            return
    observe("hold_refused", bool(missing), {})
    if missing:
        _log.warning(
            "nodes cannot be held against other schedulers, which may take the room that is freed for gangs",
            lacks=f"{', '.join(missing)} nodes",
            help="manifests/rbac.yaml grants it; preemption.holdRoom: never does without",
        )


def place_of(taints: Sequence[wire.Taint]) -> int | None:
    """Return the place of our taint among all of a node; None: it is not there."""
    return next((i for i, each in enumerate(taints) if (each.key, each.effect) == (HELD, HELD_EFFECT)), None)


def _scheduler(value: str) -> str:
    return value.partition(".")[2]
