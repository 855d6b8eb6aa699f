"""Moving from another scheduler, with the commands of the guide, on a real control plane."""

from __future__ import annotations

import asyncio
import copy
import re
import shutil
from pathlib import Path

import pytest

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.documented import Shell
from tests.e2e.jobs import CLUSTER
from tests.e2e.stories import events, nodes_ready, running
from tests.e2e.volcano import GROUP, NAMESPACE, group, member, phase, volcano
from tests.pages import text_of

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="readers have kubectl; this machine has not"),
]
DEFINITION = load(MANIFESTS / "volcano" / "crd-podgroups.yaml")


def deployment() -> Object:
    """Volcano's scheduler, of which no pod runs here."""
    labels = {"app": "volcano-scheduler"}
    container = {"name": "main", "image": "example.com/volcano"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "volcano-scheduler", "namespace": "volcano-system"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


async def test_from_volcano(admin: Client, control_plane: ControlPlane, tmp_path: Path) -> None:
    """Planned while Volcano runs, left alone, taken over when its scheduler is stopped; and the way back is there."""
    shell = Shell(tmp_path, KUBECONFIG=str(control_plane.admin_kubeconfig))
    guide = text_of("docs/guides/migrate-from-volcano.md")
    (shell.folder / "volcano.yaml").write_text(re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)[0])
    await admin.apply([copy.deepcopy(NAMESPACE), *copy.deepcopy(DEFINITION), *load(CLUSTER)])
    await wait_until_served(admin, GROUP)
    await nodes_ready(admin)
    await admin.apply([deployment(), group("job", 2), member("a", "job", "x"), member("b", "job", "x")])

    async def left_alone() -> bool:
        return bool(await events(admin, "SchedulerNameTaken"))

    async with volcano(admin) as die:
        await admin.wait_for("Lease", "volcano", lambda found: bool(found["spec"]), namespace="volcano-system")
        plan = await asyncio.to_thread(shell, "gangsched plan --cluster --scheduler-name volcano")
        with shell.running("gangsched run --config volcano.yaml"):
            await wait_until(left_alone, what="it is said who has the name")
            before = [(await admin.get("Pod", name))["spec"].get("nodeName") for name in ("a", "b")]
            stop = "kubectl -n volcano-system scale deployment/volcano-scheduler --replicas=0"
            assert "scaled" in await asyncio.to_thread(shell, stop)
            die()
            await running(admin, ["a", "b"])
            await admin.wait_for(GROUP, "job", phase("Running"))
            listed = await asyncio.to_thread(shell, "kubectl get podgroups.scheduling.volcano.sh -A")
    back = "kubectl -n volcano-system scale deployment/volcano-scheduler --replicas=1"
    assert "scaled" in await asyncio.to_thread(shell, back)
    assert "BIND" in plan
    assert "default/job" in plan
    assert before == [None, None]
    assert "Running" in listed
    for definition in DEFINITION:
        await admin.delete("CustomResourceDefinition", definition["metadata"]["name"])
