"""Operators of Kubeflow beside the scheduler: an MPIJob, or a PyTorchJob, evicts another one, with PodGroups of
Volcano, of scheduler-plugins, and without any.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

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
VOLCANO, COSCHEDULING = "scheduling.volcano.sh/v1beta1/PodGroup", "scheduling.x-k8s.io/v1alpha1/PodGroup"
GROUPS = [MANIFESTS / each / "crd-podgroups.yaml" for each in ("volcano", "coscheduling")]
LABEL = "training.kubeflow.org/job-name"
ANSWERS_TO_VOLCANO: dict[str, Any] = {"profiles": [{"schedulerName": "volcano"}]}
#: Where training-operator looks for the certificate of its webhooks.
CERTIFICATES = "tmp/k8s-webhook-server/serving-certs"


class Way(NamedTuple):
    """How an operator's pods come together: for the gang scheduler that it is told, in groups of a kind, if any. In the
    Lease of the namespace it is the only one.
    """

    told: str
    group: str
    lease: str


#: Told any name but Volcano's, operators make groups of scheduler-plugins, and give the pods that name.
WAYS = (Way("volcano", VOLCANO, "default"), Way(SCHEDULER, COSCHEDULING, "kube-public"), Way("", "", "kube-system"))
#: Runs an operator in a way while the block lasts.
Operator = Callable[[Way], AbstractContextManager[None]]


def job(kind: str, name: str, scheduler: str, priority: str = "", restart: str = "OnFailure") -> Object:
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


async def meet(rivals: Rivals, plane: ControlPlane, folder: Path, kind: str, way: Way, path: Path) -> None:
    """Two of a kind; those with groups of Volcano are recorded."""
    settings: dict[str, Any] = {} if way.group else {"gangs": {"owners": [kind.rpartition("/")[2]]}}
    recorded, end = None, "-plain" if not way.group else "-coscheduling"
    if way.group == VOLCANO:
        recorded, end, settings = (("PriorityClass", "Node", kind, VOLCANO, "Job", "Pod"), path), "", ANSWERS_TO_VOLCANO
    name = way.told or SCHEDULER
    low, high = job(kind, f"low{end}", name), job(kind, f"high{end}", name, "urgent")
    await rivals.meet(plane, folder, [low], [high], recorded, **settings)


async def mpi_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two MPIJobs the one of higher priority evicts the other, which comes back when that is gone."""

    def operator(way: Way) -> AbstractContextManager[None]:
        flags = (
            "-kubeConfig",
            plane.admin_kubeconfig,
            f"--lock-namespace={way.lease}",
            f"--gang-scheduling={way.told}",
        )
        return running(folder, f"mpi-operator-{way.told}", *isolated(plane, folder), binary, *flags)

    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, sources / "manifests" / "base" / "kubeflow.org_mpijobs.yaml", *GROUPS)
        await wait_until_served(admin, MPI, VOLCANO, COSCHEDULING)
        rivals = Rivals(admin, LABEL, 3)
        for way in WAYS:
            with operator(way):
                await meet(rivals, plane, folder, MPI, way, RECORDED_MPI)
                if way.group == VOLCANO:
                    await workers_first(rivals, plane, folder)


async def workers_first(rivals: Rivals, plane: ControlPlane, folder: Path) -> None:
    """A launcher that is created when the workers run is counted as a member all the same, so no pod starts until no
    more than the workers are needed.
    """
    late = job(MPI, "late", "volcano")
    late["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    async with running_scheduler(plane.scheduler_kubeconfig, folder, **ANSWERS_TO_VOLCANO):
        await rivals.admin.apply(late)
        group = await rivals.admin.wait_for(VOLCANO, "late", lambda g: g.get("status", {}).get("conditions"))
        print(f"an MPIJob whose launcher waits for its workers waits: {group['status']['conditions'][0]['message']}")
        assert len(await rivals.pods("late", "Pending")) == 2
        policy = {"minAvailable": 2, "minResources": {"cpu": "6500m"}}
        await rivals.admin.patch(MPI, "late", {"spec": {"runPolicy": {"schedulingPolicy": policy}}})
        await rivals.all_in("late", "Running")
        print("it runs with minAvailable: 2")
    await rivals.clear(late)


async def training_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two PyTorchJobs the one of higher priority evicts the other, which comes back when that is gone.

    The operator makes a certificate for the name of a Service, by which it would have its webhooks called. Here they
    are called on loopback, and it finds a certificate for that in a /tmp of its own.
    """
    port, own = free_port(), folder / "own"
    (own / CERTIFICATES).parent.mkdir(parents=True)
    authority = serving_certificate(own / CERTIFICATES)
    (own / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    hide = 'mount --bind "$1" "$0$1" && mount --rbind "$0/tmp" /tmp && shift && exec "$@"'
    command = ("sh", "-c", hide, own, folder, "env", "MY_POD_NAMESPACE=default", binary)

    def operator(way: Way) -> AbstractContextManager[None]:
        flags = ("--kubeconfig", plane.admin_kubeconfig, "--enable-scheme=pytorchjob", f"--webhook-server-port={port}")
        told = f"--gang-scheduler-name={way.told}"
        return running(folder, f"operator-{way.told}", *isolated(plane, folder, port), *command, *flags, told)

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "training-operator-webhook-cert"}}
    base = sources / "manifests" / "base"
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, base / "crds" / "kubeflow.org_pytorchjobs.yaml", *GROUPS)
        await wait_until_served(admin, TORCH, VOLCANO, COSCHEDULING)
        await admin.apply(secret, "default")
        await admin.apply(webhooks(base / "webhook" / "manifests.yaml", port, authority, ["pytorchjobs"]))
        rivals = Rivals(admin, LABEL, 3)

        async def answers() -> bool:
            try:
                await admin.delete(TORCH, (await admin.create(job(TORCH, "probe", "")))["metadata"]["name"])
            except ApiError:
                return False
            return True

        for way in WAYS:
            with operator(way):
                await wait_until(answers, what="the webhook of training-operator answers", timeout=60)
                await meet(rivals, plane, folder, TORCH, way, RECORDED_TORCH)
                if way.group == VOLCANO:
                    await never_restarted(rivals, plane, folder)


async def never_restarted(rivals: Rivals, plane: ControlPlane, folder: Path) -> None:
    """A PyTorchJob that never restarts its pods fails when it is evicted."""
    never, higher = job(TORCH, "never", "volcano", restart="Never"), job(TORCH, "higher", "volcano", "urgent")
    async with running_scheduler(plane.scheduler_kubeconfig, folder, **ANSWERS_TO_VOLCANO):
        await rivals.admin.apply(never)
        await rivals.all_in("never", "Running")
        await rivals.admin.apply(higher)
        await rivals.all_in("higher", "Running")
        ended = await rivals.admin.wait_for(
            TORCH, "never", lambda found: found["status"]["conditions"][-1]["type"] == "Failed"
        )
    print(f"one that never restarts its pods: {ended['status']['conditions'][-1]['message']}")
    for each in (never, higher):
        await rivals.clear(each)
