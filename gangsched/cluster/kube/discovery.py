"""Which gang and queue APIs this cluster serves, and in which version; asked again regularly, as CRDs come and go."""

from __future__ import annotations

import msgspec

from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.resources import SERVED_APIS, QueueApi

PERIOD_SECONDS = 60.0
#: What is done about queue objects: ``auto`` leaves them alone where Kueue runs.
AUTO, OWN, OFF = "auto", "own", "off"
#: A resource of Kueue that nobody else serves in its API group.
KUEUE_RUNS = "workloads"


class _ApiResource(msgspec.Struct):
    name: str = ""
    verbs: list[str] = []


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] | None = None


_decoder = msgspec.json.Decoder(_ApiResourceList)


async def served_versions(client: Client, quota_mode: str = AUTO) -> dict[str, str | None]:
    """The best version of each API in which its objects can be listed and watched, by name; None for those that are not
    served, and for queue objects that are to be left alone.

    Where Kueue runs, queue objects are Kueue's: its API also has Workloads, which this scheduler does without. They are
    read there with the mode ``own`` only. Raises :class:`~gangsched.cluster.kube.client.ApiError` and
    :class:`~gangsched.cluster.kube.client.UnreachableError` when the server does not say.
    """
    known: dict[tuple[str, str], frozenset[str]] = {}
    out: dict[str, str | None] = {}
    for api in SERVED_APIS:
        out[api.name] = None
        if isinstance(api, QueueApi) and quota_mode == OFF:
            continue
        for version in api.versions:
            key = api.family, version
            if key not in known:
                known[key] = await _watchable(client, *key)
            if isinstance(api, QueueApi) and quota_mode == AUTO and KUEUE_RUNS in known[key]:
                break
            if api.plural in known[key]:
                out[api.name] = version
                break
    return out


async def _watchable(client: Client, family: str, version: str) -> frozenset[str]:
    """The resources of an API version that can be listed and watched; none where it is not served."""
    try:
        body = await client.get(f"/apis/{family}/{version}")
    except ApiError as error:
        if error.status == 404:
            return frozenset()
        raise
    found = _decoder.decode(body).resources or ()
    return frozenset(r.name for r in found if {"list", "watch"} <= set(r.verbs))
