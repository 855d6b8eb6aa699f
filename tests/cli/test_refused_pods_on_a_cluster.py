"""``gangsched explain`` names what refuses the pods that a gang waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.on_a_cluster import ran
from tests.controlplane.client import Client, Object
from tests.controlplane.plane import ControlPlane
from tests.controlplane.policies import refuses

NOT_THE_LAST = "object.metadata.annotations['batch.kubernetes.io/job-completion-index'] != '2'"


def job(name: str, refused: str) -> Object:
    """A gang of three pods, of which a policy of the cluster refuses some."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "py-gang-scheduler", "restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"labels": {"refused": refused}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"gangsched.dev/gang": "true"}},
        "spec": {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template},
    }


async def test_what_refuses_the_third_pod(
    admin: Client, namespace: str, control_plane: ControlPlane, scheduler_kubeconfig: Path
) -> None:
    """The Events of the owner say why it cannot create a member, and whose they are that cannot be read is said."""
    for refused, unless in (("third", NOT_THE_LAST), ("every", "false")):
        labels = {"refused": refused}
        text = "no third pod today"
        name = f"{refused}-{namespace}"
        for each in refuses(name, "CREATE", labels, text, unless=unless, namespace=namespace):
            await admin.create(each)
    await asyncio.sleep(2.0)  # policies are compiled some time after they are there
    for name, refused in (("train", "third"), ("none", "every")):
        await admin.create(job(name, refused), namespace)

    async def said(name: str, kubeconfig: Path) -> str:
        _, out, errors = await ran(kubeconfig, "explain", f"{namespace}/{name}")
        return " ".join((out + errors).split())

    text = ""
    for _ in range(20):
        text = await said("train", control_plane.admin_kubeconfig)
        if "no third pod today" in text:
            break
        await asyncio.sleep(1.0)
    assert "2 of 3 members exist" in text
    assert f"Job {namespace}/train: Error creating: pods" in text
    assert "no third pod today" in text
    assert "(FailedCreate, " in text
    text = await said("none", control_plane.admin_kubeconfig)
    assert f"WAITS Job {namespace}/none has no pods: Error creating: pods" in text
    assert "no third pod today" in text
    assert "do change what refuses its pods, or its template" in text
    assert f"Job {namespace}/train: its Events cannot be read" in await said("train", scheduler_kubeconfig)
