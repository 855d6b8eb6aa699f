"""Taking the taint off held nodes outside of a plan: when a process stops, and for ``gangsched release``."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

import msgspec

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.lease import Elector
from gangsched.cluster.kube.nodes import look_at_node, node_request, place_of
from gangsched.core.actions import NodeRef, ReleaseNode
from gangsched.messages import notes
from gangsched.model import wire
from gangsched.model.held import is_of

#: One request, and how often a node is read again that others write meanwhile.
_TIMEOUT_SECONDS, _TRIES = 5.0, 5
#: A process that stops gives nodes back for so long at most: it is killed some time later.
_GIVE_BACK_SECONDS = 10.0
_log = logs.get(__name__)


class _Nodes(msgspec.Struct):
    items: list[wire.Node] = []


_decoder = msgspec.json.Decoder(_Nodes)


async def held_nodes(client: Client, schedulers: Collection[str]) -> list[ReleaseNode]:
    """Return the writes that remove the taint of plans of these schedulers from every node; without any, of all
    schedulers.

    Raises :class:`ApiError` and :class:`UnreachableError`.
    """
    out = []
    async for page in client.list_pages("/api/v1/nodes", {}, "NodeList"):
        for node in _decoder.decode(page.body).items:
            taints, meta = node.spec.taints or (), node.metadata
            at = place_of(taints)
            value = (taints[at].value or "") if at is not None else ""
            if at is not None and (not schedulers or is_of(value, schedulers)):
                about = NodeRef("", meta.name, meta.uid, meta.resource_version, len(taints), at)
                out.append(ReleaseNode(0, about, value))
    return out


async def give_back(client: Client, held: Sequence[ReleaseNode], elector: Elector | None) -> None:
    """Take these taints off when a process ends, unless a standby takes its lease over: that goes on with the plans.
    Without one, nodes would stay closed to other schedulers.
    """
    if elector is not None and await elector.taken_over():
        return
    try:
        async with asyncio.timeout(_GIVE_BACK_SECONDS):
            problems = await release_nodes(client, held)
    except TimeoutError:
        problems = {held[0].node.name: notes.too_little_time(seconds=_GIVE_BACK_SECONDS)}
    for name, why in list(problems.items())[:1]:
        _log.warning("nodes are still held; take the taint off by `gangsched release --yes`", node=name, error=why)
    if not problems:
        _log.info("nodes given back to other schedulers", nodes=len(held))


async def release_nodes(client: Client, releases: Iterable[ReleaseNode]) -> dict[str, str]:
    """Take these taints off; returns why it failed by the name of the node."""
    return {action.node.name: problem for action in releases if (problem := await _release(client, action))}


async def _release(client: Client, action: ReleaseNode) -> str:
    """Take a taint off. A node that has changed is read again, and left alone if another taint is on it by now."""
    problem, request = "", node_request(action) if action.node.held_at is not None else None
    for _ in range(_TRIES):
        try:
            if request is None:
                request, verdict = await look_at_node(client, _TIMEOUT_SECONDS, action)
                if request is None:
                    return "" if verdict is not None else problem
            await client.attempt(
                request.method,
                request.path,
                body=request.body,
                content_type=request.content_type,
                accept=request.accept,
                timeout_seconds=_TIMEOUT_SECONDS,
                server_timeout=True,
            )
        except (ApiError, UnreachableError) as error:
            problem, request = str(error), None
            if isinstance(error, ApiError) and error.status in (401, 403):
                break
            if isinstance(error, ApiError) and error.status == 404:
                return ""
        else:
            return ""
    return problem
