"""The controller of scheduler-plugins beside the scheduler, which answers to ``scheduler-plugins-scheduler``, with Ray
clusters of KubeRay: both write the status of PodGroups.
"""

from __future__ import annotations

from pathlib import Path

from gangsched.cluster.kube.statuses import RETRY_SECONDS
from tests.controlplane.client import Client, Object, load, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import nodes_ready
from tests.producers.kuberay import RAY, RAY_MEMBERS, operating, ray_cluster
from tests.producers.preemption import Rivals
from tests.producers.running import HERE, QUIET_SECONDS, running, writes

RECORDED_SCHEDULER_PLUGINS = HERE / "recorded-scheduler-plugins.json"
NAME, GROUP = "scheduler-plugins-scheduler", "scheduling.x-k8s.io/v1alpha1/PodGroup"
LABEL = "scheduling.x-k8s.io/pod-group"
#: So long the two disagree: with full speed ours would be written as often.
FIGHT_SECONDS = 20.0


def elsewhere() -> list[Object]:
    """In another namespace a group of the same name, of which one member is missing."""
    meta = {"name": "low", "namespace": "other"}
    pod = {"apiVersion": "v1", "kind": "Pod", **template("1")}
    pod["metadata"] = {**meta, "name": "one", "labels": {LABEL: "low"}}
    pod["spec"]["schedulerName"] = NAME
    version = GROUP.rpartition("/")[0]
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 2}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}, group, pod]


async def scheduler_plugins_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """A Ray cluster starts whole and gives way to another one; its controller and ours agree about each PodGroup. Where
    they do not, since the other one counts members in all namespaces, they do not take turns at full speed.
    """
    loopback = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    flags = ("--metricsAddr", loopback[0], "--probeAddr", loopback[1])
    settings = {"profiles": [{"schedulerName": NAME}]}
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        for each in ("podgroups", "elasticquotas"):
            await admin.apply(load(sources / "config" / "crd" / "bases" / f"scheduling.x-k8s.io_{each}.yaml"))
        await wait_until_served(admin, GROUP)
        await admin.apply(load(CLUSTER))
        await nodes_ready(admin)
        gang = {"ray.io/gang-scheduling-enabled": "true"}
        low, high = ray_cluster("low", **gang), ray_cluster("high", "urgent", **gang)
        rivals = Rivals(admin, "ray.io/cluster", RAY_MEMBERS)
        with running(folder, "scheduler-plugins", binary, "--kubeconfig", plane.admin_kubeconfig, *flags):
            async with operating(admin, plane, folder, "scheduler-plugins"):
                kinds = ("PriorityClass", "Node", RAY, GROUP, "Pod")
                await rivals.meet(plane, folder, [low], [high], (kinds, RECORDED_SCHEDULER_PLUGINS), **settings)
                await admin.apply(low)
                async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
                    await rivals.all_in("low", "Running")
                    await admin.wait_for(GROUP, "low", lambda g: g.get("status", {}).get("running") == RAY_MEMBERS)
                    told = await writes(admin, GROUP, QUIET_SECONDS)
                    assert not told, f"statuses do not come to rest: {told}"
                    await admin.apply(elsewhere())
                    fought = await writes(admin, GROUP, FIGHT_SECONDS)
    ours = [each for each in fought if each.endswith("Pending")]
    assert 2 < len(ours) <= len(RETRY_SECONDS) + 1, f"where the two disagree this was written: {fought}"
    print(f"statuses come to rest; where the two disagree there were {len(fought)} writes in {FIGHT_SECONDS:g} s")
