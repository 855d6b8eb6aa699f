"""The Helm chart, installed on a real API server by helm: its own account's rights are enough for the first gang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.controlplane.cleanup import wipe
from tests.controlplane.client import PATCH_TYPES, Client, Object, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.documented import Shell
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import EXAMPLES, play
from tests.manifests.programs import helm, operator_definitions, rendered

pytestmark = pytest.mark.controlplane
INSTALL = (
    "helm install gangsched manifests/helm/gangsched --namespace gangsched-system --create-namespace "
    "--set image.repository=registry.example.com/gangsched"
)
UNINSTALL = "helm uninstall gangsched --namespace gangsched-system --wait=false"
TAKE_OVER = (
    "helm install gangsched manifests/helm/gangsched --take-ownership --namespace gangsched-system --create-namespace "
    "--set image.repository=registry.example.com/gangsched"
)
MONITORED = ("--set=serviceMonitor.enabled=true", "--set=podMonitor.enabled=true", "--set=prometheusRule.enabled=true")
SECURED = (
    "--set=authorizedMetrics.enabled=true",
    "--set=authorizedMetrics.secretName=tls",
    "--set=authorizedMetrics.tokenSecret.name=scraper",
)
#: Values that change what kinds there are, or how an object is built.
VARIANTS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "everything": ("--set=networkPolicy.enabled=true", "--set=dashboard.enabled=true", *MONITORED),
    "secured": (*SECURED, *MONITORED),
    "little": (
        "--set=rbac.podsOnly=true",
        "--set=crds.install=false",
        "--set=service.enabled=false",
        "--set=podDisruptionBudget.enabled=false",
        "--set=resourceQuota.enabled=false",
        "--set=replicas=1",
        "--set=size=small",
    ),
    "placed": (
        "--set=nodeSelector.pool=system",
        "--set=tolerations[0].operator=Exists",
        "--set=imagePullSecrets[0].name=pull",
        "--set=podLabels.team=platform",
        "--set=topologySpread.enabled=false",
        "--set=size=large",
        "--set=fullnameOverride=other",
    ),
}


async def test_the_api_server_takes_every_object_of_the_chart(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path
) -> None:
    """With each choice of values, by server-side apply as a dry run; no field is unknown to it.

    The Prometheus operator's own definitions judge monitors and rules, where its Go module is at hand.
    """
    definitions = operator_definitions()
    await admin.apply(definitions)
    served = [f"monitoring.coreos.com/v1/{each['spec']['names']['kind']}" for each in definitions]
    await wait_until_served(admin, *served)
    taken = set()
    try:
        for values in VARIANTS.values():
            for thing in rendered(*values):
                if thing["apiVersion"].startswith("monitoring.coreos.com") and not definitions:
                    continue
                await dry_run(admin, thing)
                taken.add(thing["kind"])
    finally:
        for each in definitions:
            await admin.delete("CustomResourceDefinition", each["metadata"]["name"])
    assert taken >= {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "CustomResourceDefinition", "ClusterRole"}


async def dry_run(admin: Client, thing: Object) -> None:
    """Server-side apply that persists nothing; an ApiError says what the server does not take."""
    resource = await admin.resource(f"{thing['apiVersion']}/{thing['kind']}")
    path = resource.path(thing["metadata"]["name"], thing["metadata"].get("namespace"))
    params = {"fieldManager": "helm", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
    await admin.request("PATCH", path, thing, params=params, content_type=PATCH_TYPES["apply"])


async def uninstalled(admin: Client, shell: Shell) -> None:
    """Uninstall the chart. No kubelet is here, so the pod of the hook that releases held nodes ends by hand."""
    done = asyncio.create_task(asyncio.to_thread(shell, UNINSTALL))
    while not done.done():
        for pod in await admin.list("Pod", "gangsched-system"):
            owners = pod["metadata"].get("ownerReferences") or [{}]
            if owners[0].get("kind") == "Job" and pod["status"].get("phase") == "Pending":
                path = f"/api/v1/namespaces/gangsched-system/pods/{pod['metadata']['name']}/status"
                body = {"status": {"phase": "Succeeded"}}
                await admin.request("PATCH", path, body, content_type="application/merge-patch+json")
        await asyncio.sleep(0.2)
    await done


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
    await uninstalled(admin, shell)

    async def gone() -> bool:
        left = await admin.list("ClusterRole")
        return not [each for each in left if each["metadata"]["name"].startswith("gangsched")]

    await wait_until(gone, what="the roles are gone")
    assert await admin.find("CustomResourceDefinition", "podgroups.scheduling.sigs.k8s.io") is not None

    # The definition as kustomize leaves it: nothing on it is helm's, and a PodGroup of a user is there.
    definition = "podgroups.scheduling.sigs.k8s.io"
    notes = {f"meta.helm.sh/release-{key}": None for key in ("name", "namespace")}
    labels = {"app.kubernetes.io/managed-by": None}
    await admin.patch("CustomResourceDefinition", definition, {"metadata": {"annotations": notes, "labels": labels}})
    mine = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "mine"}}
    await admin.create({**mine, "spec": {"minMember": 1}}, "default")
    await asyncio.to_thread(shell, TAKE_OVER)
    found = await admin.get("CustomResourceDefinition", definition)
    assert found["metadata"]["annotations"]["meta.helm.sh/release-name"] == "gangsched"
    await uninstalled(admin, shell)
    assert await admin.find("scheduling.sigs.k8s.io/v1alpha1/PodGroup", "mine", "default") is not None

    # The same by server-side apply, under other names, with a token of the release's own account.
    await wipe(admin, control_plane.stored)
    await admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sched"}})
    objects = rendered(name="batch", namespace="sched")
    await admin.apply(objects)
    (written,) = (each for each in objects if each["kind"] == "ConfigMap")
    settings = yaml.safe_load(written["data"]["config.yaml"])
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await admin.request("POST", "/api/v1/namespaces/sched/serviceaccounts/batch-gangsched/token", asked)
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    own = tmp_path / "own.kubeconfig"
    own.write_text(yaml.safe_dump(config))
    async with running_scheduler(own, tmp_path, **{k: settings[k] for k in ("leaderElection", "preemption")}):
        _, members, victims = await play(admin, EXAMPLES / "koordinator", [])
        assert (len(members), len(victims)) == (2, 2)
