"""KubeRay beside the scheduler, which answers to ``volcano``: a Ray cluster starts whole without Volcano."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import EXAMPLES, nodes_ready
from tests.producers.running import HERE, QUIET_SECONDS, controller, record, running, writes

RECORDED_RAY, RECORDED_BOUNDS = HERE / "recorded-kuberay.json", HERE / "recorded-kuberay-bounds.json"
RAY, GROUP = "ray.io/v1/RayCluster", "scheduling.volcano.sh/v1beta1/PodGroup"
RAY_MEMBERS = 3
RAY_PACKAGE = "github.com/ray-project/kuberay/ray-operator"


def ray_cluster(name: str, priority_class: str = "", **labels: str) -> Object:
    """A Ray cluster of three pods, each of which needs half a node."""
    (found,) = load(HERE / "raycluster.yaml")
    found["metadata"] = {"name": name, "namespace": "default", "labels": labels}
    for each in (found["spec"]["headGroupSpec"], *found["spec"]["workerGroupSpecs"]):
        pod = each["template"]["spec"]
        pod["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
        pod |= {"priorityClassName": priority_class} if priority_class else {}
    return found


@asynccontextmanager
async def operating(
    admin: Client, plane: ControlPlane, folder: Path, scheduler: str = "", built: tuple[Path, Path] | None = None
) -> AsyncIterator[None]:
    """KubeRay with this batch scheduler, or without any, while the block lasts."""
    binary, sources = built or controller(HERE / "go-kuberay", RAY_PACKAGE)
    for each in ("rayclusters", "rayjobs", "rayservices"):
        await admin.apply(load(sources / "config" / "crd" / "bases" / f"ray.io_{each}.yaml"))
    await wait_until_served(admin, RAY)
    metrics, probes = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    addresses = ("--metrics-addr", metrics, "--health-probe-bind-address", probes)
    flags = ("--enable-leader-election=false", *addresses, *(("--batch-scheduler", scheduler) if scheduler else ()))
    with running(folder, "kuberay", binary, "--kubeconfig", plane.admin_kubeconfig, *flags):
        yield


#: Clusters whose replicas are outside of their bounds, by name: with the autoscaler or without, and their workers.
BOUNDS: dict[str, tuple[bool, dict[str, int]]] = {
    "over": (True, {"replicas": 10, "minReplicas": 1, "maxReplicas": 2}),
    "under": (True, {"replicas": 0, "minReplicas": 2, "maxReplicas": 5}),
    "fixed": (False, {"replicas": 4, "minReplicas": 0, "maxReplicas": 3}),
    "unsaid": (False, {"minReplicas": 1, "maxReplicas": 3}),
    "hosts": (False, {"replicas": 2, "minReplicas": 0, "maxReplicas": 3, "numOfHosts": 2}),
}
#: How many pods KubeRay makes of all of them, a head of each among them.
OF_BOUNDS = 3 + 3 + 4 + 2 + 5


async def bounds_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of worker groups whose ``replicas`` are outside of their bounds KubeRay makes so many pods as these allow."""
    made = []
    for name, (autoscaler, workers) in BOUNDS.items():
        cluster = ray_cluster(name)
        cluster["spec"]["enableInTreeAutoscaling"] = autoscaler
        (group,) = cluster["spec"]["workerGroupSpecs"]
        for field in ("replicas", "minReplicas", "maxReplicas"):
            group.pop(field)
        group |= workers
        made.append(cluster)
    async with Client(plane.admin_kubeconfig) as admin, operating(admin, plane, folder, built=(binary, sources)):
        await admin.apply(made)

        async def there() -> bool:
            return len(await admin.list("Pod")) == OF_BOUNDS

        await wait_until(there, what="the pods of all Ray clusters are made", timeout=90)
        late = await writes(admin, "Pod", QUIET_SECONDS)
        assert len(await admin.list("Pod")) == OF_BOUNDS, late
        await record(admin, (RAY, "Pod"), RECORDED_BOUNDS)
    print(f"KubeRay made {OF_BOUNDS} pods of {len(BOUNDS)} clusters, within the bounds of each")


async def ray_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """A Ray cluster is recorded as its operator makes it for Volcano, and starts whole without Volcano."""
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        await admin.apply(load(MANIFESTS / "volcano" / "crd-podgroups.yaml"))
        await wait_until_served(admin, GROUP)
        await admin.apply(load(EXAMPLES / "volcano" / "00-cluster.yaml"))
        await nodes_ready(admin)
        async with operating(admin, plane, folder, "volcano", (binary, sources)):
            await admin.apply(load(HERE / "raycluster.yaml"))

            async def made() -> bool:
                return len(await admin.list("Pod")) == RAY_MEMBERS

            await wait_until(made, what="the pods of the Ray cluster are made", timeout=90)
            await record(admin, ("Node", RAY, GROUP, "Pod"), RECORDED_RAY)
            settings = {"profiles": [{"schedulerName": "volcano"}]}
            async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
                group = await admin.wait_for(
                    GROUP, "ray-demo-pg", lambda found: found.get("status", {}).get("phase") == "Running"
                )
    print(f"Ray cluster demo runs; its PodGroup: {group['status']['phase']}, {group['status'].get('running')} pods")
