"""What the controllers ask of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gangsched.cluster.kube.client import Client, answer_of, segment
from gangsched.cluster.kube.discovery import Served, served_resources
from gangsched.cluster.kube.json_limits import bounded
from gangsched.model import jobsets
from gangsched.model.dialects import DIALECTS
from gangsched.model.queues import GROUP

MERGE_PATCH = "application/merge-patch+json"
_TIMEOUT_SECONDS = 10.0

#: Objects that have a status that we keep. Where others wait for a phase the scheduler writes it by itself.
KEPT = (
    *(f"podgroups.{each.family}" for each in DIALECTS if each.status is not None and not each.awaited_from),
    *(f"{plural}.{GROUP}" for plural in ("clusterqueues", "cohorts", "localqueues")),
)

#: Jobs and JobSets, by plural. There are many, and seldom anything to say: they are read then, and not watched.
JOBS: Mapping[str, Served] = {
    each.plural: each
    for each in (Served("batch", "v1", True, "jobs"), Served(jobsets.GROUP, jobsets.VERSION, True, "jobsets"))
}


_object = msgspec.json.Decoder(dict[str, Any])


async def discover(client: Client) -> frozenset[Served]:
    """The kinds that the server has now, each in the version that is preferred here.

    Where Kueue runs, the statuses of queue objects are Kueue's, whoever reads them.
    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError when the server does not say.
    """
    found = await served_resources(client)
    return frozenset(found[name] for name in KEPT if name in found)


async def read_object(client: Client, served: Served, namespace: str, name: str) -> dict[str, Any]:
    """The object. Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError."""
    await client.bucket.take()
    path = _path(served, namespace, name)
    body = await client.attempt("GET", path, timeout_seconds=_TIMEOUT_SECONDS)
    return answer_of(_object, bounded(body), f"GET {path}")


def _path(served: Served, namespace: str, name: str) -> str:
    """``namespace`` is empty for kinds of the whole cluster."""
    within = f"/namespaces/{segment(namespace)}" if namespace else ""
    return f"/apis/{served.family}/{served.version}{within}/{served.plural}/{segment(name)}"


async def patch_status(client: Client, served: Served, namespace: str, name: str, patch: Any) -> dict[str, Any]:
    """Merge a patch into an object, through the status subresource where there is one; the object after it.

    ``namespace`` is empty for kinds of the whole cluster.

    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError.
    """
    path = _path(served, namespace, name)
    if served.status_subresource:
        path += "/status"
    await client.bucket.take()
    body = await client.attempt(
        "PATCH",
        path,
        query={"fieldManager": "gangsched"},
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
        timeout_seconds=_TIMEOUT_SECONDS,
        server_timeout=True,
    )
    return answer_of(_object, bounded(body), f"PATCH {path}")
