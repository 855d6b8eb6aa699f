"""Which gang APIs this cluster serves, and in which version; asked again regularly, as CRDs come and go."""

from __future__ import annotations

import msgspec

from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.resources import GROUP_APIS, GroupApi

PERIOD_SECONDS = 60.0
_PLURAL = "podgroups"


class _ApiResource(msgspec.Struct):
    name: str = ""
    verbs: list[str] = []


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] | None = None


_decoder = msgspec.json.Decoder(_ApiResourceList)


async def served_version(client: Client, api: GroupApi) -> str | None:
    """The best version of this API in which PodGroups can be listed and watched; None when there is none.

    Raises :class:`~gangsched.cluster.kube.client.ApiError` and
    :class:`~gangsched.cluster.kube.client.UnreachableError` when the server does not say.
    """
    for version in api.versions:
        try:
            body = await client.get(f"/apis/{api.family}/{version}")
        except ApiError as error:
            if error.status == 404:
                continue
            raise
        for resource in _decoder.decode(body).resources or ():
            if resource.name == _PLURAL and {"list", "watch"} <= set(resource.verbs):
                return version
    return None


async def served_versions(client: Client) -> dict[str, str | None]:
    """:func:`served_version` of every gang API, by family."""
    return {api.family: await served_version(client, api) for api in GROUP_APIS}
