"""Services and controllers of a real API server: what they select is known while they exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gangsched.core.events import Gone, Synced
from gangsched.model.records import PodSelector
from tests.builders import selects
from tests.cluster.kube.conftest import Reader
from tests.controlplane.client import Client

TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
BY_LABELS = {"selector": {"matchLabels": {"app": "x"}}, "replicas": 0, "template": TEMPLATE}


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("Service", "v1", {"selector": {"app": "x"}, "clusterIP": "None"}),
        ("ReplicationController", "v1", {"selector": {"app": "x"}, "replicas": 0, "template": TEMPLATE}),
        ("ReplicaSet", "apps/v1", BY_LABELS),
        ("StatefulSet", "apps/v1", BY_LABELS),
    ],
)
async def test_selectors_are_followed(
    make_cluster: Callable[..., Awaitable[Reader]],
    admin: Client,
    namespace: str,
    kind: str,
    version: str,
    spec: dict[str, Any],
) -> None:
    """Read with the rights of the scheduler's own role, from its creation to its end."""
    reader = await make_cluster()
    await reader.until(Synced)
    await admin.create({"apiVersion": version, "kind": kind, "metadata": {"name": "s"}, "spec": spec}, namespace)
    wanted = (kind, namespace, "s", selects(app="x"))  # and of a StatefulSet its gang
    await reader.shown(PodSelector, lambda e: (e.kind, e.namespace, e.name, e.selector) == wanted)
    await admin.delete(kind, "s", namespace)
    await reader.until(Gone, lambda e: (e.kind, e.namespace, e.name) == (kind, namespace, "s"))
