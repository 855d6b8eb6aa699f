"""Moving from another scheduler, with the commands of the guide, on a real control plane."""

from __future__ import annotations

import asyncio
import copy
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.documented import Shell
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.stories import events, nodes_ready, running
from tests.e2e.volcano import GROUP, group, member, phase, volcano
from tests.pages import text_of

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="readers have kubectl; this machine has not"),
]


class Former(NamedTuple):
    """A scheduler from which there is a guide: its name, that of its Lease and Deployment, and its kind of group, which
    is defined as in ``definition``. The status of a group may be that of another controller.
    """

    guide: str
    name: str
    lease: str
    deployment: str
    namespace: str
    group: str
    definition: str
    objects: Callable[[], list[Object]]
    commands: tuple[str, str, str, str, str]
    ours: bool = True


def labelled(api: str, label: str, scheduler: str) -> list[Object]:
    """A PodGroup, and two members that need a node each."""
    meta = {"name": "job", "namespace": "default"}
    group = {"apiVersion": f"{api}/v1alpha1", "kind": "PodGroup", "metadata": meta}
    members = []
    for name in ("a", "b"):
        pod = {"apiVersion": "v1", "kind": "Pod", **template("3")}
        labels = {label: "job"}
        pod["metadata"] |= {"name": name, "namespace": "default", "labels": labels}
        pod["spec"]["schedulerName"] = scheduler
        members.append(pod)
    return [{**group, "spec": {"minMember": 2}}, *members]


SIGS, COSCHEDULING = "scheduling.sigs.k8s.io", "scheduling.x-k8s.io"

FORMER = {
    "volcano": Former(
        guide="volcano",
        name="volcano",
        lease="volcano",
        deployment="volcano-scheduler",
        namespace="volcano-system",
        group=GROUP,
        definition="volcano/crd-podgroups.yaml",
        objects=lambda: [group("job", 2), member("a", "job", "x"), member("b", "job", "x")],
        commands=(
            "gangsched plan --cluster --scheduler-name volcano",
            "gangsched run --config volcano.yaml",
            "kubectl -n volcano-system scale deployment/volcano-scheduler --replicas=0",
            "kubectl get podgroups.scheduling.volcano.sh -A",
            "kubectl -n volcano-system scale deployment/volcano-scheduler --replicas=1",
        ),
    ),
    "koordinator": Former(
        guide="koordinator",
        name="koord-scheduler",
        lease="koord-scheduler",
        deployment="koord-scheduler",
        namespace="koordinator-system",
        group="scheduling.sigs.k8s.io/v1alpha1/PodGroup",
        definition="crd-podgroups.scheduling.sigs.k8s.io.yaml",
        objects=lambda: labelled(SIGS, "pod-group.scheduling.sigs.k8s.io", "koord-scheduler"),
        commands=(
            "gangsched plan --cluster --scheduler-name koord-scheduler",
            "gangsched run --config koordinator.yaml",
            "kubectl -n koordinator-system scale deployment/koord-scheduler --replicas=0",
            "kubectl get podgroups.scheduling.sigs.k8s.io -A",
            "kubectl -n koordinator-system scale deployment/koord-scheduler --replicas=1",
        ),
    ),
    "coscheduling": Former(
        guide="coscheduling",
        name="scheduler-plugins-scheduler",
        lease="scheduler-plugins-scheduler",
        deployment="scheduler-plugins-scheduler",
        namespace="scheduler-plugins",
        group=f"{COSCHEDULING}/v1alpha1/PodGroup",
        definition="crd-podgroups.scheduling.sigs.k8s.io.yaml",  # the same, but for the name of the API
        objects=lambda: labelled(COSCHEDULING, "scheduling.x-k8s.io/pod-group", "scheduler-plugins-scheduler"),
        commands=(
            "gangsched plan --cluster --scheduler-name scheduler-plugins-scheduler",
            "gangsched run --config coscheduling.yaml",
            "kubectl -n scheduler-plugins scale deployment/scheduler-plugins-scheduler --replicas=0",
            "kubectl get podgroups.scheduling.x-k8s.io -A",
            "kubectl -n scheduler-plugins scale deployment/scheduler-plugins-scheduler --replicas=1",
        ),
        ours=False,
    ),
}


def deployment(name: str, namespace: str) -> Object:
    """A scheduler of which no pod runs here."""
    labels = {"app": name}
    container = {"name": "main", "image": f"example.com/{name}"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods},
    }


@pytest.mark.parametrize("former", FORMER.values(), ids=FORMER)
async def test_moving_here(former: Former, admin: Client, control_plane: ControlPlane, tmp_path: Path) -> None:
    """Planned while it runs, left alone, taken over when its scheduler is stopped; and the way back is there."""
    plan, run, stop, listing, back = former.commands
    shell = Shell(tmp_path, KUBECONFIG=str(control_plane.admin_kubeconfig))
    guide = text_of(f"docs/guides/migrate-from-{former.guide}.md")
    (shell.folder / f"{former.guide}.yaml").write_text(re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)[0])
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": former.namespace}}
    definitions = load(MANIFESTS / former.definition)
    for each in definitions:
        each["spec"]["group"] = former.group.partition("/")[0]
        each["metadata"]["name"] = f"podgroups.{each['spec']['group']}"
    await admin.apply([namespace, *copy.deepcopy(definitions), *load(CLUSTER)])
    await wait_until_served(admin, former.group)
    await nodes_ready(admin)
    await admin.apply([deployment(former.deployment, former.namespace), *former.objects()])

    async def left_alone() -> bool:
        return bool(await events(admin, "SchedulerNameTaken"))

    async with volcano(admin, former.lease, former.namespace) as die:
        await admin.wait_for("Lease", former.lease, lambda found: bool(found["spec"]), namespace=former.namespace)
        planned = await asyncio.to_thread(shell, plan)
        with shell.running(run):
            await wait_until(left_alone, what="it is said who has the name")
            before = [(await admin.get("Pod", name))["spec"].get("nodeName") for name in ("a", "b")]
            assert "scaled" in await asyncio.to_thread(shell, stop)
            die()
            await running(admin, ["a", "b"])
            if former.ours:
                await admin.wait_for(former.group, "job", phase("Running"))
            listed = await asyncio.to_thread(shell, listing)
    assert "scaled" in await asyncio.to_thread(shell, back)
    assert "BIND" in planned
    assert "default/job" in planned
    assert before == [None, None]
    assert ("Running" if former.ours else "job") in listed
    for definition in definitions:
        await admin.delete("CustomResourceDefinition", definition["metadata"]["name"])
