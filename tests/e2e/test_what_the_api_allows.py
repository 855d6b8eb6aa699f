"""Rules that are read off the source of Kubernetes, asked of the real API server: which evictions budgets refuse, and
that nothing is bound in a namespace that is being deleted.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.budgets import is_charged
from gangsched.model.convert import Converter
from tests.controlplane.client import ApiError, Client, Object

pytestmark = pytest.mark.controlplane

CONVERT = Converter()
#: Of each pod its phase, whether it is ready, and the fields of the budget over it.
CASES: dict[str, tuple[str, bool, Object]] = {
    "starts": ("Pending", False, {"minAvailable": 5}),
    "ready": ("Running", True, {"minAvailable": 5}),
    "unready": ("Running", False, {"minAvailable": 5}),
    "always": ("Running", False, {"minAvailable": 5, "unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    "always-ready": ("Running", True, {"minAvailable": 5, "unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    "none": ("Running", False, {"minAvailable": 0}),
    "part-of-all": ("Running", True, {"maxUnavailable": 1}),
}


def record(raw: Object, kind: Any) -> Any:
    """The object as the product decodes it."""
    return msgspec.json.decode(json.dumps(raw).encode(), type=kind)


async def test_the_eviction_api_asks_budgets_as_expected(admin: Client, namespace: str) -> None:
    """A pod that is charged to a budget which allows nothing is refused, and any other one is evicted."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name, (phase, ready, spec) in CASES.items():
        pod = {"metadata": {"name": name, "labels": {"case": name}}, "apiVersion": "v1", "kind": "Pod"}
        await admin.create(pod | {"spec": {"nodeName": "none", "containers": [{"name": "c", "image": "i"}]}}, namespace)
        shown = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
        await admin.request(
            "PATCH", f"{path}/{name}/status", {"status": shown}, content_type="application/merge-patch+json"
        )
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
        await admin.create(budget | {"spec": {**spec, "selector": {"matchLabels": {"case": name}}}}, namespace)
    for name in CASES:
        kind = "PodDisruptionBudget"
        seen = await admin.wait_for(kind, name, lambda b: "observedGeneration" in b.get("status", {}), namespace)
        known = CONVERT.budget(record(seen, wire.PodDisruptionBudget))
        found = CONVERT.pod(record(await admin.get("Pod", name, namespace), wire.Pod))
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        try:
            await admin.request("POST", f"{path}/{name}/eviction", body)
            status = 201
        except ApiError as error:
            status = error.status
        assert status == (429 if is_charged(known, found) and not known.allowed else 201), name


async def test_nothing_is_bound_in_a_namespace_that_is_deleted(admin: Client, namespace: str) -> None:
    """The API server refuses the binding, and the namespace is seen as one that is being deleted."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["gangsched.dev/test"]}}
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    await admin.create(pod | {"spec": spec}, namespace)
    await admin.request("DELETE", f"/api/v1/namespaces/{namespace}")
    try:
        seen = await admin.get("Namespace", namespace, "")
        assert CONVERT.namespace(record(seen, wire.Namespace)).deleting
        with pytest.raises(ApiError, match="being terminated"):
            await admin.bind("p", "none", namespace)
    finally:
        clean = {"metadata": {"finalizers": None}}
        kind = "application/merge-patch+json"
        await admin.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/p", clean, content_type=kind)
