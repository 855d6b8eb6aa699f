"""KAI's podgrouper and podgroup controller beside the scheduler, which answers to ``kai-scheduler``, with Ray clusters
of KubeRay and a Job.
"""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import CLUSTER, job, template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import condition, nodes_ready
from tests.e2e.stories import running as all_running
from tests.producers.kuberay import RAY, RAY_MEMBERS, operating, ray_cluster
from tests.producers.preemption import Rivals
from tests.producers.running import HERE, QUIET_SECONDS, controller, isolated, running, writes

RECORDED_KAI = HERE / "recorded-kai.json"
KAI_PACKAGE = "github.com/NVIDIA/KAI-scheduler"
NAME, GROUP, QUEUE = "kai-scheduler", "scheduling.run.ai/v2alpha2/PodGroup", "scheduling.run.ai/v2/Queue"
#: The podgrouper names this queue for whatever names none, as KAI's chart makes it: without limits.
DEFAULT_QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-parent-queue}
spec:
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-queue}
spec:
  parentQueue: default-parent-queue
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""


def plain_job() -> Object:
    """A Job of two pods, of which KAI makes no gang."""
    made = job("plain", parallelism=2, completions=2, template=template("100m"))
    made["spec"]["template"]["spec"]["schedulerName"] = NAME
    return made


def counted(group: Object) -> bool:
    """Have both told what they know of a Ray cluster that runs: the scheduler, and KAI's controller?"""
    found = group.get("status", {})
    allocated = found.get("resourcesStatus", {}).get("allocated", {})
    return (found.get("phase"), found.get("running"), allocated.get("cpu")) == ("Running", RAY_MEMBERS, "6")


async def kai_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Pods that the scheduler sees before the podgrouper wait for it, and start when it has put them into groups: those
    of a Ray cluster together, those of a Job each by itself. The Ray cluster gives way to one that KAI prefers. What
    KAI's podgroup controller writes into the status stands beside what this scheduler does.
    """
    charts = sources / "deployments" / "kai-scheduler"
    loopback = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    grouper = ("--metrics-bind-address", loopback[0], "--health-probe-bind-address", loopback[1])
    counter, _ = controller(HERE / "go-kai", KAI_PACKAGE, "/cmd/podgroupcontroller")
    # Its metrics are on all interfaces, which no flag changes, and it looks for a server before it reads its flags.
    found = ("env", f"KUBECONFIG={plane.admin_kubeconfig}")
    counts = (*isolated(plane, folder), *found, counter, "--enable-podgroup-webhook=false")
    settings = {"profiles": [{"schedulerName": NAME}]}
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        for each in ("podgroups", "queues"):
            await admin.apply(load(charts / "crds" / f"scheduling.run.ai_{each}.yaml"))
        await wait_until_served(admin, GROUP, QUEUE)
        for path in sorted((charts / "templates" / "priorityclasses").glob("*.yaml")):
            await admin.apply(load(path))
        await admin.apply(load(CLUSTER))
        await admin.apply(load(DEFAULT_QUEUE))
        await nodes_ready(admin)
        low, high = ray_cluster("low"), ray_cluster("high", priorityClassName="inference")
        rivals = Rivals(admin, "ray.io/cluster", RAY_MEMBERS)
        async with operating(admin, plane, folder, NAME):
            async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
                await admin.apply([low, plain_job()])

                async def told() -> bool:
                    found = [condition(p, "PodScheduled").get("status") for p in await admin.list("Pod")]
                    return found == ["False"] * (RAY_MEMBERS + 2)

                await wait_until(told, what="all pods are told why they wait", timeout=90)
            with running(folder, "podgrouper", binary, "--kubeconfig", plane.admin_kubeconfig, *grouper):
                async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
                    names = [p["metadata"]["name"] for p in await admin.list("Pod")]
                    await all_running(admin, names)
                kinds = ("PriorityClass", "Node", QUEUE, RAY, GROUP, "Job", "Pod")
                await rivals.meet(plane, folder, [low], [high], (kinds, RECORDED_KAI), **settings)
                await admin.apply(low)
                with running(folder, "podgroupcontroller", *counts):
                    async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
                        await rivals.all_in("low", "Running")
                        (name,) = {p["metadata"]["annotations"]["pod-group-name"] for p in await rivals.pods("low")}
                        await admin.wait_for(GROUP, name, counted, timeout=60)
                        again = await writes(admin, GROUP, QUIET_SECONDS)
                        assert not again, f"statuses do not come to rest: {again}"
    print(f"{len(names)} pods waited for the podgrouper; those of the Job are groups of one")
