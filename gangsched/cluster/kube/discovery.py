"""Which gang and queue APIs this cluster serves, and in which version; asked again regularly, as CRDs come and go."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import msgspec

from gangsched.cluster.kinds import KUEUE_WORKLOADS, SERVED_KINDS, Kind
from gangsched.cluster.kube.client import Client, UnreachableError, answer_of
from gangsched.cluster.kube.rights import unreadable
from gangsched.model import queues

PERIOD_SECONDS = 60.0
#: So long a question about the rights of this account may take.
RIGHTS_SECONDS = 5.0
#: What is done about queue objects: ``auto`` leaves them alone where Kueue runs.
AUTO, OWN, OFF = "auto", "own", "off"

#: All groups, versions and resources in one answer
#: (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery), which each server has that is
#: supported here.
_OURS = queues.VERSIONS
_KIND = "APIGroupDiscoveryList"
_ACCEPT = f"application/json;g=apidiscovery.k8s.io;v=v2;as={_KIND}"


class Served(msgspec.Struct, frozen=True, order=True):
    """One kind of object as the server has it: version, and whether status is a subresource of its own."""

    family: str
    version: str
    status_subresource: bool
    plural: str = "podgroups"


class _Subresource(msgspec.Struct):
    subresource: str = ""


class _ApiResource(msgspec.Struct):
    resource: str = ""
    verbs: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _ApiVersion(msgspec.Struct):
    version: str = ""
    resources: list[_ApiResource] | None = None


class _Metadata(msgspec.Struct):
    name: str = ""


class _ApiGroup(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    versions: list[_ApiVersion] | None = None


class _ApiGroups(msgspec.Struct):
    kind: str = ""
    items: list[_ApiGroup] | None = None


_decoder = msgspec.json.Decoder(_ApiGroups)


class Survey(NamedTuple):
    """The ``served`` APIs, by the ``resource`` of their :class:`~gangsched.cluster.kinds.Kind`, and the ``closed``
    ones. APIs that are not served, or left to others, hold up no gang. What is served and this account may not read is
    ``forbidden``, and not among what is served.
    """

    served: dict[str, Served]
    closed: frozenset[str]
    forbidden: frozenset[str] = frozenset()


async def served_resources(client: Client, quota_mode: str = AUTO) -> dict[str, Served]:
    """The APIs of :func:`survey` that are served."""
    return (await survey(client, quota_mode)).served


async def allowed(client: Client, found: Survey) -> Survey:
    """The same without what this account may not list and watch. An installation for plain pods has no rights on groups
    and queues: their gangs wait, as where the API is not served, and all else goes on.

    Raises what :func:`survey` raises.
    """
    kinds = [kind for kind in SERVED_KINDS if kind.resource in found.served]
    forbidden = await unreadable(client, kinds, RIGHTS_SECONDS) if kinds else frozenset()
    served = {name: served for name, served in found.served.items() if name not in forbidden}
    return found._replace(served=served, forbidden=forbidden)


async def survey(client: Client, quota_mode: str = AUTO) -> Survey:
    """Return the best version of each API whose objects can be listed and watched. APIs that are not served, and queue
    objects of others, are left out.

    Where Kueue runs, queue objects are Kueue's: its API also has Workloads. They are read there with the mode ``own``
    only, as are the Workloads then, which tell what Kueue admits itself.
    Raises :class:`~gangsched.cluster.kube.client.ApiError` and
    :class:`~gangsched.cluster.kube.client.UnreachableError` when the server does not say.
    """
    answer = answer_of(_decoder, await client.get("/apis", accept=_ACCEPT), "GET /apis")
    if answer.kind != _KIND:
        raise UnreachableError(f"GET /apis: the answer is not what was asked for ({answer.kind or 'no kind'})")
    here = {
        (group.metadata.name, version.version): _watchable(version)
        for group in answer.items or ()
        for version in group.versions or ()
    }
    found = ((kind.resource, _best(kind, quota_mode, here)) for kind in SERVED_KINDS)
    off = quota_mode == OFF
    alone = off or (quota_mode == AUTO and any(_is_kueue(here.get((queues.GROUP, v), {})) for v in _OURS))
    closed = frozenset(
        kind.resource
        for kind in SERVED_KINDS
        if (alone and kind.group == queues.GROUP) or (off and kind.full_name == queues.queue_api(kind.group))
    )
    return Survey({name: served for name, served in found if served is not None}, closed)


def _best(kind: Kind, quota_mode: str, here: dict[tuple[str, str], dict[str, frozenset[str]]]) -> Served | None:
    """``here`` are the names of subresources, by group and version, and by resource."""
    of_queues = kind.group == queues.GROUP
    if of_queues and quota_mode == OFF:
        return None
    for version in kind.versions:
        served = here.get((kind.group, version), {})
        if of_queues and quota_mode == AUTO and _is_kueue(served):
            return None
        if kind.plural in served:
            return Served(kind.group, version, "status" in served[kind.plural], kind.plural)
    return None


def _is_kueue(served: Container[str]) -> bool:
    """Return True if ``served``, the resources of one version of the group of queue objects, are Kueue's. Only Kueue's
    API has Workloads there.
    """
    return KUEUE_WORKLOADS.plural in served


def _watchable(version: _ApiVersion) -> dict[str, frozenset[str]]:
    """The resources that can be listed and watched, each with its subresources."""
    return {
        each.resource: frozenset(sub.subresource for sub in each.subresources or ())
        for each in version.resources or ()
        if {"list", "watch"} <= set(each.verbs or ())
    }
