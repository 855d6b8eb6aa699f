"""Which gang and queue APIs this cluster serves, and in which version; asked again regularly, as CRDs come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from gangsched.cluster.kube.client import ApiError, Client, answer_of
from gangsched.cluster.kube.resources import KUEUE_WORKLOADS, SERVED_APIS, ServedApi
from gangsched.model import queues

PERIOD_SECONDS = 60.0
#: What is done about queue objects: ``auto`` leaves them alone where Kueue runs.
AUTO, OWN, OFF = "auto", "own", "off"
#: A resource of Kueue that nobody else serves in its API group.
KUEUE_RUNS = KUEUE_WORKLOADS.plural


class _ApiResource(msgspec.Struct):
    name: str = ""
    verbs: list[str] = []


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] | None = None


_decoder = msgspec.json.Decoder(_ApiResourceList)


async def served_versions(client: Client, quota_mode: str = AUTO) -> dict[str, str | None]:
    """The best version of each API in which its objects can be listed and watched, by name; None for those that are not
    served, and for queue objects that are to be left alone.

    Where Kueue runs, queue objects are Kueue's: its API also has Workloads. They are read there with the mode ``own``
    only, as are the Workloads then, which tell what Kueue admits itself.
    Raises :class:`~gangsched.cluster.kube.client.ApiError` and
    :class:`~gangsched.cluster.kube.client.UnreachableError` when the server does not say.
    """
    asked: dict[tuple[str, str], asyncio.Task[frozenset[str]]] = {}

    def ask(family: str, version: str) -> asyncio.Task[frozenset[str]]:
        if (family, version) not in asked:
            asked[family, version] = asyncio.create_task(_watchable(client, family, version))
        return asked[family, version]

    # Not a TaskGroup, and not the first error as it comes: both forget that they were cancelled when an error of a
    # child meets the cancellation (Python 3.11), and whoever waits for the end of this task then waits for ever.
    found = await asyncio.gather(*(_version(api, quota_mode, ask) for api in SERVED_APIS), return_exceptions=True)
    out: dict[str, str | None] = {}
    for api, version in zip(SERVED_APIS, found, strict=True):
        if isinstance(version, BaseException):
            raise version
        out[api.name] = version
    return out


async def _version(api: ServedApi, quota_mode: str, ask: Callable[[str, str], Awaitable[frozenset[str]]]) -> str | None:
    """Of one API; all are looked for at once, and what several need to know is asked once."""
    of_queues = api.family == queues.GROUP
    if of_queues and quota_mode == OFF:
        return None
    for version in api.versions:
        found = await ask(api.family, version)
        if of_queues and quota_mode == AUTO and KUEUE_RUNS in found:
            return None
        if api.plural in found:
            return version
    return None


async def _watchable(client: Client, family: str, version: str) -> frozenset[str]:
    """The resources of an API version that can be listed and watched; none where it is not served."""
    path = f"/apis/{family}/{version}"
    try:
        found = answer_of(_decoder, await client.get(path), f"GET {path}").resources or ()
    except ApiError as error:
        if error.status == 404:
            return frozenset()
        raise
    return frozenset(r.name for r in found if {"list", "watch"} <= set(r.verbs))
