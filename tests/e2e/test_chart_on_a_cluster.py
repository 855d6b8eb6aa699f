"""The Helm chart, installed on a real API server by helm: its own account's rights are enough for the first gang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.documented import Shell
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import EXAMPLES, play
from tests.manifests.programs import helm

pytestmark = pytest.mark.controlplane
INSTALL = (
    "helm install gangsched manifests/helm/gangsched --namespace gangsched-system --create-namespace "
    "--set image.repository=registry.example.com/gangsched"
)


async def test_the_first_gang_after_an_installation_with_helm(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """The API server takes every object. The scheduler, as its own account and with the configuration that was made,
    evicts for a gang and binds it. What is uninstalled leaves the definition of PodGroups and nothing else.

    The cluster is one in which nothing has been installed: helm takes over no role of others.
    """
    control_plane = make_control_plane()
    async with Client(control_plane.admin_kubeconfig) as admin:
        await installed(control_plane, admin, tmp_path)


async def installed(control_plane: ControlPlane, admin: Client, tmp_path: Path) -> None:
    """See above."""
    readers = tmp_path / "reader"
    readers.mkdir()
    path = f"{Path(helm()).parent}{os.pathsep}{os.environ['PATH']}"
    shell = Shell(readers, KUBECONFIG=str(control_plane.admin_kubeconfig), PATH=path)
    told = await asyncio.to_thread(shell, INSTALL)
    assert "py-gang-scheduler" in told
    written = await admin.get("ConfigMap", "gangsched-config", "gangsched-system")
    settings = yaml.safe_load(written["data"]["config.yaml"])
    kubeconfig = control_plane.kubeconfig(SCHEDULER_USER)
    async with running_scheduler(kubeconfig, tmp_path, **{k: settings[k] for k in ("leaderElection", "preemption")}):
        _, members, victims = await play(admin, EXAMPLES / "koordinator", [])
        assert len(members) == 2
        assert len(victims) == 2
    await asyncio.to_thread(shell, "helm uninstall gangsched --namespace gangsched-system --wait=false")

    async def gone() -> bool:
        left = await admin.list("ClusterRole")
        return not [each for each in left if each["metadata"]["name"].startswith("gangsched")]

    await wait_until(gone, what="the roles are gone")
    assert await admin.find("CustomResourceDefinition", "podgroups.scheduling.sigs.k8s.io") is not None
