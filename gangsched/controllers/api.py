"""What the controllers ask of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gangsched.cluster.kube.client import ApiError, Client, answer_of, segment
from gangsched.cluster.kube.discovery import KUEUE_RUNS
from gangsched.cluster.kube.json_limits import bounded
from gangsched.model import jobsets
from gangsched.model.dialects import koordinator, upstream
from gangsched.model.queues import GROUP, VERSIONS

MERGE_PATCH = "application/merge-patch+json"
_TIMEOUT_SECONDS = 10.0

#: API groups whose objects have a status that we keep: versions in order of preference, and resources. Groups of
#: scheduling.x-k8s.io are kept by their own scheduler.
_KEPT = (
    (koordinator.FAMILY, ("v1alpha1",), ("podgroups",)),
    (upstream.FAMILY, upstream.VERSIONS, ("podgroups",)),
    (GROUP, VERSIONS, ("clusterqueues", "cohorts", "localqueues")),
)


class Served(msgspec.Struct, frozen=True, order=True):
    """One kind of object as the server has it: version, and whether status is a subresource of its own."""

    family: str
    version: str
    status_subresource: bool
    plural: str = "podgroups"


#: Jobs and JobSets, by plural. There are many, and seldom anything to say: they are read then, and not watched.
JOBS: Mapping[str, Served] = {
    each.plural: each
    for each in (Served("batch", "v1", True, "jobs"), Served(jobsets.GROUP, jobsets.VERSION, True, "jobsets"))
}


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_resources = msgspec.json.Decoder(_Resources)
_object = msgspec.json.Decoder(dict[str, Any])


async def discover(client: Client) -> frozenset[Served]:
    """The kinds that the server has now, each in the version that is preferred here.

    Where Kueue runs, the statuses of queue objects are Kueue's, whoever reads them.
    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError when the server does not say.
    """
    found: set[Served] = set()
    for family, versions, plurals in _KEPT:
        for version in versions:
            names = await _resource_names(client, family, version)
            if family == GROUP and KUEUE_RUNS in names:
                break
            here = [Served(family, version, f"{each}/status" in names, each) for each in plurals if each in names]
            found.update(here)
            if here:
                break
    return frozenset(found)


async def _resource_names(client: Client, family: str, version: str) -> frozenset[str]:
    """What an API version serves; nothing where there is no such version."""
    path = f"/apis/{family}/{version}"
    try:
        await client.bucket.take()
        body = await client.attempt("GET", path, timeout_seconds=_TIMEOUT_SECONDS)
    except ApiError as error:
        if error.status == 404:
            return frozenset()
        raise
    return frozenset(each.name for each in answer_of(_resources, body, f"GET {path}").resources or ())


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
