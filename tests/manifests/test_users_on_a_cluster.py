"""The roles for people, on a real API server: what their holders may do with gangs."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.forked import gangsched
from tests.manifests.people import person

GROUP: Object = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 1}}


async def test_editors_make_gangs_and_viewers_see_them(
    admin: Client,
    namespace: str,
    crds: list[str],
    scheduler_kubeconfig: Path,
    control_plane: ControlPlane,
    tmp_path: Path,
) -> None:
    """Kubernetes' own roles edit and view are enough, and view is not enough to write."""
    kind = "scheduling.sigs.k8s.io/v1alpha1/PodGroup"
    async with Client(await person(admin, namespace, "edit", control_plane, tmp_path)) as editor:

        async def made() -> bool:  # the roles are added to edit by a controller
            try:
                await editor.create({**GROUP, "metadata": {"name": "g"}}, namespace)
            except ApiError:
                return False
            return True

        await wait_until(made, what="an editor may create a PodGroup")
    async with Client(await person(admin, namespace, "view", control_plane, tmp_path)) as viewer:
        assert (await viewer.get(kind, "g", namespace))["spec"]["minMember"] == 1
        with pytest.raises(ApiError, match="403"):
            await viewer.create({**GROUP, "metadata": {"name": "h"}}, namespace)


async def test_readers_run_the_commands_that_look(
    admin: Client,
    namespace: str,
    scheduler_kubeconfig: Path,
    control_plane: ControlPlane,
    tmp_path: Path,
) -> None:
    """gangsched-reader is enough for the commands that look, and for no write."""
    kubeconfig = await person(admin, namespace, "gangsched-reader", control_plane, tmp_path)
    for arguments in (
        ["get", "-A", "-o", "json"],
        ["plan", "--cluster", "-o", "json"],
        ["snapshot"],
        ["history", "-o", "json"],
    ):
        command = [*gangsched(), *arguments, "--kubeconfig", str(kubeconfig)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr
        assert json.loads(done.stdout)
    async with Client(kubeconfig) as reader:
        with pytest.raises(ApiError, match="403"):
            await reader.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
