"""All objects that the scheduler reads, as manifests: no more of them than it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from gangsched.cluster.kinds import CORE_KINDS, SERVED_KINDS, Undecodable
from gangsched.cluster.kube import discovery
from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.decode import ObjectDecoder
from gangsched.model.dialects import HINT_PREFIXES

#: Annotations that mean something to a decision; all others may hold anything, such as a whole earlier object.
_ANNOTATIONS = (
    *HINT_PREFIXES,
    "controller.kubernetes.io/pod-deletion-cost",
    "kubernetes.io/config.",
    "kueue.x-k8s.io/",
    "pv.kubernetes.io/",
    "storageclass.",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
)


async def dump(client: Client, quota_mode: str, skipped: list[str]) -> AsyncIterator[dict[str, Any]]:
    """Each object as a manifest, with the fields, labels and annotations that the scheduler reads.

    Unreadable kinds are listed in ``skipped``. Raises :class:`~gangsched.cluster.kube.client.ApiError` and
    UnreachableError where that is something without which nothing can be decided.
    """
    served = await discovery.served_resources(client, quota_mode)
    found = (each.at(served[each.resource].version) for each in SERVED_KINDS if each.resource in served)
    for kind in (each for each in (*CORE_KINDS, *found) if not each.metadata_only):
        decoder = ObjectDecoder(kind.type)
        try:
            async with aclosing(client.list_pages(kind.path, {}, f"{kind.name}List")) as pages:
                async for page in pages:
                    for item in decoder.page(page.body):
                        if isinstance(item, Undecodable):
                            skipped.append(
                                f"{kind.name} {item.metadata.namespace}/{item.metadata.name}: {item.message}"
                            )
                        else:
                            fields = _scrubbed(msgspec.to_builtins(item))
                            yield {"apiVersion": kind.api_version, "kind": kind.name, **fields}
        except ApiError as error:
            if not kind.optional:
                raise
            skipped.append(f"{kind.resource}: {error}")


def _scrubbed(value: Any) -> Any:
    """Without annotations that mean nothing here, at every depth: templates have some too."""
    if isinstance(value, list):
        return [_scrubbed(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {k: v for k, v in inner.items() if k.startswith(_ANNOTATIONS)}
        if key == "annotations" and isinstance(inner, dict)
        else _scrubbed(inner)
        for key, inner in value.items()
    }
