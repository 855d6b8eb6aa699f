"""JobSet beside the scheduler: one JobSet preempts another and is then deleted."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import EXAMPLES, nodes_ready
from tests.producers.running import HERE, record, running_controller, webhooks

RECORDED = HERE / "recorded.json"
KIND = "jobset.x-k8s.io/v1alpha2/JobSet"
#: What the scheduler reads of the story.
KINDS = (
    *("Node", "PriorityClass", "scheduling.k8s.io/v1alpha2/Workload", "scheduling.k8s.io/v1alpha2/PodGroup"),
    *(KIND, "Job", "Pod"),
)
MEMBERS = 4


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


async def jobset_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
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
