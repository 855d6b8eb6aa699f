"""Operators of Kubeflow beside the scheduler: an MPIJob evicts another one whose PodGroup is Volcano's."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.client import Client, Object, load, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.stories import nodes_ready
from tests.producers.preemption import Rivals
from tests.producers.running import HERE, isolated, running

RECORDED_MPI = HERE / "recorded-mpi.json"
MPI, GROUP = "kubeflow.org/v2beta1/MPIJob", "scheduling.volcano.sh/v1beta1/PodGroup"


def mpi_job(name: str, priority: str = "") -> Object:
    """A launcher and two workers, of which each needs most of a node."""
    specs = {}
    for role, count, cpu in (("Launcher", 1, "500m"), ("Worker", 2, "3")):
        pod = template(cpu)
        pod["spec"]["priorityClassName"] = priority
        specs[role] = {"replicas": count, "template": pod}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"mpiReplicaSpecs": specs},
    }


async def mpi_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two MPIJobs the one of the higher priority evicts the other, which comes back when that is gone."""
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        await admin.apply(load(sources / "manifests" / "base" / "kubeflow.org_mpijobs.yaml"))
        await admin.apply(load(MANIFESTS / "volcano" / "crd-podgroups.yaml"))
        await wait_until_served(admin, MPI, GROUP)
        await admin.apply(load(CLUSTER))
        await nodes_ready(admin)
        flags = ("--gang-scheduling=volcano", "--lock-namespace=default", "-kubeConfig", plane.admin_kubeconfig)
        with running(folder, "mpi-operator", *isolated(plane, folder), binary, *flags):
            rivals = Rivals(admin, "training.kubeflow.org/job-name", 3)
            recorded = (("PriorityClass", "Node", MPI, GROUP, "Job", "Pod"), RECORDED_MPI)
            settings = {"profiles": [{"schedulerName": "volcano"}]}
            await rivals.meet(plane, folder, [mpi_job("low")], [mpi_job("high", "urgent")], recorded, **settings)
