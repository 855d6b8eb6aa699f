"""What the controllers ask of the API server, and kopf's way to the same server."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from gangsched.cluster.kube.client import ApiError, Client, segment
from gangsched.cluster.kube.connection import Connection, close_session
from gangsched.controllers.status import FAMILIES
from gangsched.model.dialects import upstream

MERGE_PATCH = "application/merge-patch+json"
_PLURAL = "podgroups"
_TIMEOUT_SECONDS = 10.0


class Served(msgspec.Struct, frozen=True, order=True):
    """One group API as the server has it: version, and whether status is a subresource of its own."""

    family: str
    version: str
    status_subresource: bool


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_resources = msgspec.json.Decoder(_Resources)


async def discover(client: Client) -> frozenset[Served]:
    """The group APIs that the server has now, each in the version that is preferred here.

    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError when the server does not say.
    """
    found = set()
    for family in FAMILIES:
        for version in upstream.VERSIONS if family == upstream.FAMILY else ("v1alpha1",):
            served = await _served(client, family, version)
            if served is not None:
                found.add(served)
                break
    return frozenset(found)


async def _served(client: Client, family: str, version: str) -> Served | None:
    try:
        await client.bucket.take()
        body = await client.attempt("GET", f"/apis/{family}/{version}", timeout_seconds=_TIMEOUT_SECONDS)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    names = {each.name for each in _resources.decode(body).resources or ()}
    return Served(family, version, f"{_PLURAL}/status" in names) if _PLURAL in names else None


async def patch_status(client: Client, served: Served, namespace: str, name: str, patch: Any) -> dict[str, Any]:
    """Merge a patch into a group object, through the status subresource where there is one; the object after it.

    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError.
    """
    base = f"/apis/{served.family}/{served.version}/namespaces"
    path = f"{base}/{segment(namespace)}/{_PLURAL}/{segment(name)}"
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
    answer = msgspec.json.decode(body)
    return answer if isinstance(answer, dict) else {}


class KopfSession:
    """What kopf needs of an HTTP session, with the connection's own credentials (which it renews) and proxies."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session()
        self.headers = self._session.headers

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._session.closed

    async def request(self, method: str, url: str, *, headers: Any = None, **options: Any) -> aiohttp.ClientResponse:
        """As aiohttp's, with the credentials of this moment."""
        merged = {**(headers or {}), **await self._connection.headers()}
        return await self._session.request(method, url, headers=merged, **options, **self._connection.options)

    async def close(self) -> None:
        """Close the session."""
        await close_session(self._session)
