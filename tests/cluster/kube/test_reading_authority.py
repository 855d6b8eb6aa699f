"""What says whether a claim counts, of a real API server: DaemonSets that exist, and quotas for priority classes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gangsched.core.events import Gone, KindRead, Reading, Synced, records
from gangsched.model.pod_quotas import ResourceQuota
from gangsched.model.records import PodSelector
from tests.cluster.kube.conftest import Reader
from tests.controlplane.client import Client

Make = Callable[..., Awaitable[Reader]]

TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def daemon_set(name: str) -> dict[str, Any]:
    """One that runs on no node."""
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


async def test_daemon_sets_are_known_by_their_uid(make_cluster: Make, admin: Client, namespace: str) -> None:
    """With the rights of the scheduler's own role: those that exist at first, and those that come and go."""
    first = await admin.create(daemon_set("first"), namespace)
    reader = await make_cluster()
    await reader.until(Synced)
    await reader.until(KindRead, lambda e: e == KindRead("DaemonSet.apps", Reading.READ))
    found = {e.name: e.uid for e in records(reader.events, PodSelector) if e.kind == "DaemonSet"}
    assert found["first"] == first["metadata"]["uid"]
    second = await admin.create(daemon_set("second"), namespace)
    await reader.shown(PodSelector, lambda e: (e.kind, e.uid) == ("DaemonSet", second["metadata"]["uid"]))
    await admin.delete("DaemonSet", "second", namespace)
    await reader.until(Gone, lambda e: (e.kind, e.namespace, e.name) == ("DaemonSet", namespace, "second"))


async def test_quotas_are_known_with_what_is_left(make_cluster: Make, admin: Client, namespace: str) -> None:
    """By the classes that they are for, and as their controller counts what is used."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["top"]}
    spec = {"hard": {"pods": "3", "requests.cpu": "2"}, "scopeSelector": {"matchExpressions": [scope]}}
    await admin.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}, namespace
    )
    reader = await make_cluster()
    await reader.until(Synced)
    left = (("cpu", 2000), ("pods", 3))
    wanted = ResourceQuota(namespace, "q", (("In", ("top",)),), left)
    await reader.shown(ResourceQuota, lambda e: e == wanted)
    await admin.delete("ResourceQuota", "q", namespace)
    await reader.until(Gone, lambda e: (e.kind, e.namespace, e.name) == ("ResourceQuota", namespace, "q"))
