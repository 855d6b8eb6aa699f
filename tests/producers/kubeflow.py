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
from tests.e2e.jobs import SCHEDULER, template, urgent
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import running as all_running
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


class Roles(NamedTuple):
    """How much CPU the one that leads asks for and each worker, and how many workers there are."""

    leader: str
    worker: str
    workers: int


LARGE, SMALL = Roles("500m", "3", 2), Roles("100m", "100m", 2)


class Kind(NamedTuple):
    """Where a kind has its roles, which one leads if any does, and the container that its operator asks for."""

    field: str
    leader: str
    container: str


KINDS = {
    MPI: Kind("mpiReplicaSpecs", "Launcher", "mpi"),
    TORCH: Kind("pytorchReplicaSpecs", "Master", "pytorch"),
    "kubeflow.org/v1/TFJob": Kind("tfReplicaSpecs", "Chief", "tensorflow"),
    "kubeflow.org/v1/XGBoostJob": Kind("xgbReplicaSpecs", "Master", "xgboost"),
    "kubeflow.org/v1/PaddleJob": Kind("paddleReplicaSpecs", "Master", "paddle"),
    "kubeflow.org/v1/JAXJob": Kind("jaxReplicaSpecs", "", "jax"),
}
#: Those of training-operator, and with which policies they fail when they are evicted.
FAILS = {
    TORCH: ["Never"],
    "kubeflow.org/v1/TFJob": ["", "Never", "OnFailure", "ExitCode"],
    "kubeflow.org/v1/XGBoostJob": ["", "Never", "OnFailure"],
    "kubeflow.org/v1/PaddleJob": ["Never"],
    "kubeflow.org/v1/JAXJob": ["", "Never"],
}
TRAINING = list(FAILS)


def job(kind: str, name: str, scheduler: str, priority: str = "", restart: str = "", roles: Roles = LARGE) -> Object:
    """One of these roles, restarted as its operator does by default, or as is said."""
    version, _, short = kind.rpartition("/")
    field, leader, container = KINDS[kind]
    specs: Object = {}
    for role, count, cpu in ((leader, 1, roles.leader), ("Worker", roles.workers, roles.worker)):
        pod = template(cpu)
        pod["spec"] |= {"priorityClassName": priority, "schedulerName": scheduler}
        del pod["spec"]["restartPolicy"]
        pod["spec"]["containers"][0]["name"] = container
        specs[role] = {"replicas": count, "template": pod} | ({"restartPolicy": restart} if restart else {})
    specs.pop("", None)
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
    """A launcher that is created when the workers run is counted as a member all the same; they start without it."""
    late = job(MPI, "late", "volcano")
    late["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    async with running_scheduler(plane.scheduler_kubeconfig, folder, **ANSWERS_TO_VOLCANO):
        await rivals.admin.apply(late)
        await rivals.all_in("late", "Running")
        group = await rivals.admin.get(VOLCANO, "late")
        assert group["spec"]["minMember"] == 3
        print("an MPIJob whose launcher waits for its workers runs, in a group that counts the launcher")
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
        flags = ("--kubeconfig", plane.admin_kubeconfig, f"--webhook-server-port={port}", *kinds)
        told = f"--gang-scheduler-name={way.told}"
        return running(folder, f"operator-{way.told}", *isolated(plane, folder, port), *command, *flags, told)

    kinds = [f"--enable-scheme={kind.rpartition('/')[2]}" for kind in TRAINING]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "training-operator-webhook-cert"}}
    base = sources / "manifests" / "base"
    async with Client(plane.admin_kubeconfig) as admin:
        crds = [base / "crds" / f"kubeflow.org_{kind.rpartition('/')[2].lower()}s.yaml" for kind in TRAINING]
        await prepared(admin, *crds, *GROUPS)
        await wait_until_served(admin, *TRAINING, VOLCANO, COSCHEDULING)
        await admin.apply(secret, "default")
        await admin.apply(webhooks(base / "webhook" / "manifests.yaml", port, authority))
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
                if not way.group:
                    await evicted(admin, plane, folder)


async def evicted(admin: Client, plane: ControlPlane, folder: Path) -> None:
    """Jobs of all kinds and policies leave for a gang that needs all nodes: some have failed when that is gone, and the
    others run again.
    """
    jobs = {
        (kind, policy): job(
            kind, f"{kind.rpartition('/')[2]}-{policy or 'default'}".lower(), SCHEDULER, "", policy, SMALL
        )
        for kind in TRAINING
        for policy in ("", "Never", "OnFailure", "ExitCode")
    }
    rivals = {kind: Rivals(admin, LABEL, SMALL.workers + bool(KINDS[kind].leader)) for kind in TRAINING}
    settings: dict[str, Any] = {"gangs": {"owners": [kind.rpartition("/")[2] for kind in TRAINING]}}
    became: dict[tuple[str, str], str] = {}

    async def settled() -> bool:
        for (kind, policy), found in jobs.items():
            name = found["metadata"]["name"]
            seen = (await admin.get(kind, name))["status"]["conditions"]
            if any(each["type"] == "Failed" and each["status"] == "True" for each in seen):
                became[kind, policy] = "fails"
            elif len(await rivals[kind].pods(name, "Running")) == rivals[kind].members:
                became[kind, policy] = "runs again"
            else:
                return False
        return True

    async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
        for (kind, _), found in jobs.items():
            await admin.apply(found)
            await rivals[kind].all_in(found["metadata"]["name"], "Running")
        higher = urgent("higher")
        await admin.apply(higher)
        names = [each["metadata"]["name"] for each in higher[1:]]
        await all_running(admin, names)
        for name in names:
            await admin.delete("Pod", name)
        await wait_until(settled, what="all have failed or run again", timeout=90)
    fails = {each for each, what in became.items() if what == "fails"}
    expected = {(kind, policy) for kind, policies in FAILS.items() for policy in policies}
    assert fails == expected, f"not as documented: {sorted(fails ^ expected)}"
    print(f"of {len(became)} jobs that were evicted {len(fails)} failed, and the others ran again")
