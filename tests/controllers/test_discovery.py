"""Which kinds have a status that the controllers keep, by what the API server has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any, cast

import pytest

from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.discovery import Served
from gangsched.controllers.operator import discover

SIGS, UPSTREAM, KUEUE = "scheduling.sigs.k8s.io", "scheduling.k8s.io", "kueue.x-k8s.io"
QUEUES = ("clusterqueues", "clusterqueues/status", "cohorts", "cohorts/status", "localqueues", "localqueues/status")


class Server:
    """Answers discovery: resources by group and version."""

    def __init__(self, served: dict[str, tuple[str, ...]]) -> None:
        self.served = served

    async def get(self, path: str, **_: Any) -> bytes:
        assert path == "/apis"
        groups = [
            {"metadata": {"name": group}, "versions": [{"version": version, "resources": resources(names)}]}
            for (group, version), names in ((each.split("/"), names) for each, names in self.served.items())
        ]
        return json.dumps({"kind": "APIGroupDiscoveryList", "items": groups}).encode()

    async def attempt(self, *_: Any, **__: Any) -> bytes:
        rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return json.dumps({"status": {"resourceRules": [rule]}}).encode()


def resources(names: Collection[str]) -> list[dict[str, Any]]:
    """As discovery has them: subresources below their resource."""
    return [
        {
            "resource": name,
            "verbs": ["get", "list", "watch"],
            "subresources": [{"subresource": each.partition("/")[2]} for each in names if each.startswith(f"{name}/")],
        }
        for name in names
        if "/" not in name
    ]


def found(**served: tuple[str, ...]) -> frozenset[Served]:
    """What is kept where these are served; keys are ``group/version``."""
    return asyncio.run(discover(cast("Client", Server(served))))


def test_queues_without_kueue() -> None:
    """Every kind of queue is kept, through its status subresource, in the newest version."""
    assert found(**{f"{KUEUE}/v1beta2": QUEUES, f"{KUEUE}/v1beta1": QUEUES}) == {
        Served(KUEUE, "v1beta2", True, plural) for plural in ("clusterqueues", "cohorts", "localqueues")
    }


def test_queues_of_kueue_are_left_alone() -> None:
    """Where Workloads are served Kueue runs: it writes the statuses of its queues itself."""
    assert found(**{f"{KUEUE}/v1beta2": (*QUEUES, "workloads"), f"{KUEUE}/v1beta1": (*QUEUES, "workloads")}) == set()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_groups_and_queues(version: str) -> None:
    """All families are looked for; one without the subresource is known to be without."""
    served = {f"{SIGS}/v1alpha1": ("podgroups",), f"{UPSTREAM}/v1alpha2": ("podgroups", "podgroups/status")}
    assert found(**served, **{f"{KUEUE}/{version}": ("localqueues", "localqueues/status")}) == {
        Served(SIGS, "v1alpha1", False),
        Served(UPSTREAM, "v1alpha2", True),
        Served(KUEUE, version, True, "localqueues"),
    }
