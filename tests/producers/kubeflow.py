"""Operators of Kubeflow beside the scheduler: an MPIJob, or a PyTorchJob, evicts another one, with PodGroups of Volcano
and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.client import ApiError, Client, Object, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import SCHEDULER, template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.producers.preemption import Rivals
from tests.producers.quota_and_groups import prepared
from tests.producers.running import HERE, isolated, running, serving_certificate, webhooks

RECORDED_MPI, RECORDED_TORCH = HERE / "recorded-mpi.json", HERE / "recorded-pytorch.json"
MPI, TORCH = "kubeflow.org/v2beta1/MPIJob", "kubeflow.org/v1/PyTorchJob"
GROUP, GROUPS = "scheduling.volcano.sh/v1beta1/PodGroup", MANIFESTS / "volcano" / "crd-podgroups.yaml"
LABEL = "training.kubeflow.org/job-name"
VOLCANO: dict[str, Any] = {"profiles": [{"schedulerName": "volcano"}]}
#: Where training-operator looks for the certificate of its webhooks.
CERTIFICATES = "tmp/k8s-webhook-server/serving-certs"


def job(kind: str, name: str, priority: str = "", restart: str = "OnFailure", scheduler: str = "volcano") -> Object:
    """One that leads and two workers, of which each needs most of a node."""
    version, _, short = kind.rpartition("/")
    leader, field = ("Launcher", "mpiReplicaSpecs") if kind == MPI else ("Master", "pytorchReplicaSpecs")
    specs = {}
    for role, count, cpu in ((leader, 1, "500m"), ("Worker", 2, "3")):
        pod = template(cpu)
        pod["spec"] |= {"priorityClassName": priority, "schedulerName": scheduler}
        del pod["spec"]["restartPolicy"]
        pod["spec"]["containers"][0]["name"] = "pytorch"  # its operator wants this one
        specs[role] = {"replicas": count, "template": pod, "restartPolicy": restart}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": short, "metadata": meta, "spec": {field: specs}}


async def meet(rivals: Rivals, plane: ControlPlane, folder: Path, kind: str, recorded: Path) -> None:
    """Two with PodGroups of Volcano, recorded."""
    kinds = ("PriorityClass", "Node", kind, GROUP, "Job", "Pod")
    await rivals.meet(plane, folder, [job(kind, "low")], [job(kind, "high", "urgent")], (kinds, recorded), **VOLCANO)


async def meet_without_groups(rivals: Rivals, plane: ControlPlane, folder: Path, kind: str) -> None:
    """Two without PodGroups, gangs by the setting for the kind of their owner."""
    settings: dict[str, Any] = {"gangs": {"owners": [kind.rpartition("/")[2]]}}
    low, high = (job(kind, n, p, scheduler=SCHEDULER) for n, p in (("low-plain", ""), ("high-plain", "urgent")))
    await rivals.meet(plane, folder, [low], [high], **settings)
    assert not await rivals.admin.list(GROUP), "the operator has made PodGroups"


async def mpi_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two MPIJobs the one of higher priority evicts the other, which comes back when that is gone. A third one whose
    launcher waits for the workers, which wait for it as a member, starts when no more than the workers are needed.
    """

    def operator(*flags: str) -> tuple[object, ...]:
        return (*isolated(plane, folder), binary, "-kubeConfig", plane.admin_kubeconfig, *flags)

    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, sources / "manifests" / "base" / "kubeflow.org_mpijobs.yaml", GROUPS)
        await wait_until_served(admin, MPI, GROUP)
        rivals = Rivals(admin, LABEL, 3)
        with running(folder, "mpi-operator", *operator("--gang-scheduling=volcano", "--lock-namespace=default")):
            await meet(rivals, plane, folder, MPI, RECORDED_MPI)
            await workers_first(rivals, plane, folder)
        # Its leader has not given up the Lease: this one has another.
        with running(folder, "mpi-operator-plain", *operator("--lock-namespace=kube-public")):
            await meet_without_groups(rivals, plane, folder, MPI)


async def workers_first(rivals: Rivals, plane: ControlPlane, folder: Path) -> None:
    """A launcher is a member that is created when its workers run: so many members never come, and no pod starts."""
    late = job(MPI, "late")
    late["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    async with running_scheduler(plane.scheduler_kubeconfig, folder, **VOLCANO):
        await rivals.admin.apply(late)
        group = await rivals.admin.wait_for(GROUP, "late", lambda g: g.get("status", {}).get("conditions"))
        print(f"an MPIJob whose launcher waits for its workers waits: {group['status']['conditions'][0]['message']}")
        assert len(await rivals.pods("late", "Pending")) == 2
        policy = {"minAvailable": 2, "minResources": {"cpu": "6500m"}}
        await rivals.admin.patch(MPI, "late", {"spec": {"runPolicy": {"schedulingPolicy": policy}}})
        await rivals.all_in("late", "Running")
        print("it runs with minAvailable: 2")
    await rivals.clear(late)


@contextmanager
def training_operator(
    plane: ControlPlane, folder: Path, binary: Path, sources: Path, *flags: str
) -> Iterator[list[Object]]:
    """The operator while the block lasts; yields its webhooks. It would have them called by the name of a Service, with
    a certificate for that, which it makes; this one has a certificate for loopback, in a /tmp of its own.
    """
    port, own = free_port(), folder / f"own-{len(flags)}"
    (own / CERTIFICATES).parent.mkdir(parents=True)
    authority = serving_certificate(own / CERTIFICATES)
    (own / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    hide = 'mount --bind "$1" "$0$1" && mount --rbind "$0/tmp" /tmp && shift && exec "$@"'
    found = webhooks(sources / "manifests" / "base" / "webhook" / "manifests.yaml", port, authority, ["pytorchjobs"])
    command = ("sh", "-c", hide, own, folder, "env", "MY_POD_NAMESPACE=default", binary, *flags)
    own_flags = ("--enable-scheme=pytorchjob", "--kubeconfig", plane.admin_kubeconfig, f"--webhook-server-port={port}")
    with running(folder, own.name, *isolated(plane, folder, port), *command, *own_flags):
        yield found


async def training_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two PyTorchJobs the one of higher priority evicts the other, which comes back when that is gone. One that
    never restarts its pods fails when it is evicted.
    """
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "training-operator-webhook-cert"}}
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, sources / "manifests" / "base" / "crds" / "kubeflow.org_pytorchjobs.yaml", GROUPS)
        await wait_until_served(admin, TORCH, GROUP)
        await admin.apply(secret, "default")
        rivals = Rivals(admin, LABEL, 3)

        async def answers() -> bool:
            try:
                await admin.delete(TORCH, (await admin.create(job(TORCH, "probe")))["metadata"]["name"])
            except ApiError:
                return False
            return True

        with training_operator(plane, folder, binary, sources, "--gang-scheduler-name=volcano") as found:
            await admin.apply(found)
            await wait_until(answers, what="the webhook of training-operator answers", timeout=60)
            await meet(rivals, plane, folder, TORCH, RECORDED_TORCH)
            never = job(TORCH, "never", restart="Never")
            async with running_scheduler(plane.scheduler_kubeconfig, folder, **VOLCANO):
                await admin.apply(never)
                await rivals.all_in("never", "Running")
                await admin.apply(job(TORCH, "higher", "urgent"))
                await rivals.all_in("higher", "Running")
                ended = await admin.wait_for(
                    TORCH, "never", lambda t: t["status"]["conditions"][-1]["type"] == "Failed"
                )
            print(f"the one that never restarts: {ended['status']['conditions'][-1]['message']}")
            await rivals.clear(never)
            await rivals.clear(job(TORCH, "higher"))
        with training_operator(plane, folder, binary, sources) as found:
            await admin.apply(found)
            await wait_until(answers, what="the webhook of training-operator answers", timeout=60)
            await meet_without_groups(rivals, plane, folder, TORCH)
