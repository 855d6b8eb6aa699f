"""JobSet beside the scheduler: one JobSet preempts another and is then deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.controlplane.client import Client, load, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import EXAMPLES, nodes_ready
from tests.producers.preemption import Rivals
from tests.producers.running import HERE, record, running_controller, webhooks

RECORDED = HERE / "recorded.json"
KIND, OF_JOBSET = "jobset.x-k8s.io/v1alpha2/JobSet", "jobset.sigs.k8s.io/jobset-name"
#: What the scheduler reads of the story.
KINDS = (
    *("Node", "PriorityClass", "scheduling.k8s.io/v1alpha2/Workload", "scheduling.k8s.io/v1alpha2/PodGroup"),
    *(KIND, "Job", "Pod"),
)
MEMBERS = 4


@asynccontextmanager
async def running_jobset(
    admin: Client, plane: ControlPlane, folder: Path, binary: Path, sources: Path, **settings: object
) -> AsyncIterator[None]:
    """The definition of JobSets, and their controller with its webhooks while the block lasts."""
    port, parts = free_port(), sources / "config" / "components"
    await admin.apply(load(parts / "crd" / "bases" / "jobset.x-k8s.io_jobsets.yaml"))
    await wait_until_served(admin, KIND)
    with running_controller(
        binary, plane.admin_kubeconfig, folder, port, "config.jobset.x-k8s.io/v1alpha1", **settings
    ) as authority:
        await admin.apply(webhooks(parts / "webhook" / "manifests.yaml", port, authority))
        yield


async def jobset_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """The low JobSet runs; the high one is created, recorded, and takes the room of the other until it is deleted."""
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        await admin.apply(load(EXAMPLES / "workload" / "00-nodes.yaml"))
        await admin.apply(load(EXAMPLES / "workload" / "10-priorityclasses.yaml"))
        await nodes_ready(admin)
        things, rivals = load(HERE / "jobsets.yaml"), Rivals(admin, OF_JOBSET, MEMBERS)
        async with running_jobset(admin, plane, folder, binary, sources):
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await admin.apply(things[:3])
                await rivals.all_in("lp-js", "Running")
            await admin.apply(things[3:])
            await rivals.all_in("hp-js", "Pending")
            await record(admin, KINDS, RECORDED)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await rivals.all_in("hp-js", "Running")
                waits = await admin.wait_for(KIND, "lp-js", lambda found: found["spec"].get("suspend"))
                print(
                    f"hp-js runs with {MEMBERS} pods; lp-js is suspended: {waits['status']['conditions'][0]['reason']}"
                )
                await admin.delete(KIND, "hp-js")
                await rivals.all_in("lp-js", "Running")
            jobset = await admin.get(KIND, "lp-js")
            print(f"lp-js runs again after hp-js; restarts: {jobset['status'].get('restarts', 0)}")
