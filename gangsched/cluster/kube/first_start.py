"""Whether a process of this installation is the first one that a cluster has seen.

The first one need not wait for the last write of another. Three things show an earlier one: the ConfigMap
``gangsched-status``, which the first process makes before it writes anything else; the record of evictions; and pods
with its scheduler names on nodes, also where the ConfigMaps were deleted. If one of them cannot be read, the process
counts as not the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.history import NAME as HISTORY
from gangsched.cluster.kube.history import config_map_path
from gangsched.cluster.kube.published import Publisher

_log = logs.get(__name__)

_PODS = "/api/v1/pods"


class _Pods(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_pods = msgspec.json.Decoder(_Pods)


async def is_first(client: Client, publisher: Publisher, namespace: str, names: Iterable[str], seconds: float) -> bool:
    """Return whether nothing in the cluster shows an earlier process with one of these scheduler names.

    Takes at most so many seconds. Call it once the Lease is ours: it makes the ConfigMap, which only one process can.
    """
    try:
        async with asyncio.timeout(seconds):
            if not await publisher.create(seconds) or await _exists(
                client, config_map_path(namespace, HISTORY), seconds
            ):
                return False
            for name in names:
                if await _any_on_a_node(client, name, seconds):
                    return False
    except (ApiError, UnreachableError, TimeoutError) as error:
        _log.debug("whether this is the first process is not known", error=str(error))
        return False
    return True


async def _exists(client: Client, path: str, seconds: float) -> bool:
    try:
        await client.attempt("GET", path, timeout_seconds=seconds)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


async def _any_on_a_node(client: Client, name: str, seconds: float) -> bool:
    query = {"fieldSelector": f"spec.schedulerName={name},spec.nodeName!=", "limit": "1"}
    answer = await client.attempt("GET", _PODS, query=query, timeout_seconds=seconds)
    return bool(answer_of(_pods, answer, _PODS).items)
