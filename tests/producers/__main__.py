"""`make producers`: build the controllers of JobSet, Ray, Kueue and LeaderWorkerSet, run each beside the scheduler on a
real control plane, and record what they make: of two JobSets of which one preempts the other, of a Ray cluster whose
groups are Volcano's, of Jobs and a pod group that Kueue admits, of a LeaderWorkerSet. Takes some minutes the first
time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.controlplane import binaries
from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import EXAMPLES, nodes_ready
from tests.producers.quota_and_groups import kueue_story, lws_story
from tests.producers.running import HERE, controller, play, record, running, running_controller, webhooks

RECORDED = HERE / "recorded.json"
RECORDED_RAY = HERE / "recorded-kuberay.json"
PACKAGE = "sigs.k8s.io/jobset"
RAY_PACKAGE = "github.com/ray-project/kuberay/ray-operator"
RAY, GROUP = "ray.io/v1/RayCluster", "scheduling.volcano.sh/v1beta1/PodGroup"
KIND = "jobset.x-k8s.io/v1alpha2/JobSet"
#: What the scheduler reads of the story.
KINDS = (
    *("Node", "PriorityClass", "scheduling.k8s.io/v1alpha2/Workload", "scheduling.k8s.io/v1alpha2/PodGroup"),
    *(KIND, "Job", "Pod"),
)
MEMBERS, RAY_MEMBERS = 4, 3


async def pods(admin: Client, jobset: str, phase: str) -> list[Object]:
    """Pods of a JobSet in a phase that are not being deleted."""
    label = "jobset.sigs.k8s.io/jobset-name"
    found = [p for p in await admin.list("Pod") if p["metadata"].get("labels", {}).get(label) == jobset]
    return [p for p in found if p["status"]["phase"] == phase and "deletionTimestamp" not in p["metadata"]]


async def all_in(admin: Client, jobset: str, phase: str) -> None:
    """Wait until all pods of a JobSet are there, in this phase."""

    async def reached() -> bool:
        return len(await pods(admin, jobset, phase)) == MEMBERS

    await wait_until(reached, what=f"the pods of {jobset} are {phase}", timeout=90)


async def story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """The low JobSet runs; the high one is created, recorded, and takes the room of the other until it is deleted."""
    port = free_port()
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        await admin.apply(load(sources / "config" / "components" / "crd" / "bases" / "jobset.x-k8s.io_jobsets.yaml"))
        await wait_until_served(admin, KIND)
        await admin.apply(load(EXAMPLES / "workload" / "00-nodes.yaml"))
        await admin.apply(load(EXAMPLES / "workload" / "10-priorityclasses.yaml"))
        await nodes_ready(admin)
        things = load(HERE / "jobsets.yaml")
        with running_controller(
            binary, plane.admin_kubeconfig, folder, port, "config.jobset.x-k8s.io/v1alpha1"
        ) as authority:
            await admin.apply(
                webhooks(sources / "config" / "components" / "webhook" / "manifests.yaml", port, authority)
            )
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await admin.apply(things[:3])
                await all_in(admin, "lp-js", "Running")
            await admin.apply(things[3:])
            await all_in(admin, "hp-js", "Pending")
            await record(admin, KINDS, RECORDED)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await all_in(admin, "hp-js", "Running")
                waits = await admin.wait_for(KIND, "lp-js", lambda found: found["spec"].get("suspend"))
                print(
                    f"hp-js runs with {MEMBERS} pods; lp-js is suspended: {waits['status']['conditions'][0]['reason']}"
                )
                await admin.delete(KIND, "hp-js")
                await all_in(admin, "lp-js", "Running")
            jobset = await admin.get(KIND, "lp-js")
            print(f"lp-js runs again after hp-js; restarts: {jobset['status'].get('restarts', 0)}")


async def ray_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """A Ray cluster is recorded as its operator makes it for Volcano, and starts whole without Volcano."""
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        for each in ("rayclusters", "rayjobs", "rayservices"):
            await admin.apply(load(sources / "config" / "crd" / "bases" / f"ray.io_{each}.yaml"))
        await admin.apply(load(MANIFESTS / "volcano" / "crd-podgroups.yaml"))
        for kind in (RAY, GROUP):
            await wait_until_served(admin, kind)
        await admin.apply(load(EXAMPLES / "volcano" / "00-cluster.yaml"))
        await nodes_ready(admin)
        metrics, probes = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        addresses = ("--metrics-addr", metrics, "--health-probe-bind-address", probes)
        flags = ("--batch-scheduler", "volcano", "--enable-leader-election=false", *addresses)
        with running(folder, "kuberay", binary, "--kubeconfig", plane.admin_kubeconfig, *flags):
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


def main() -> int:
    """Build, run and record; 0 on success."""
    try:
        jobset = controller(HERE / "go", PACKAGE)
        ray = controller(HERE / "go-kuberay", RAY_PACKAGE)
        kueue = controller(HERE / "go-kueue", "sigs.k8s.io/kueue", "/cmd/kueue")
        lws = controller(HERE / "go-lws", "sigs.k8s.io/lws", "/cmd")
        binaries.find()
    except (binaries.BinariesError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    play(story, *jobset)
    play(ray_story, *ray)
    play(kueue_story, *kueue)
    play(lws_story, *lws)
    return 0


if __name__ == "__main__":
    sys.exit(main())
