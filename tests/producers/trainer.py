"""Kubeflow's trainer and the JobSet controller beside the scheduler: a TrainJob evicts another one, whose pods are in a
PodGroup of scheduler-plugins, in one of Volcano, or in none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.client import ApiError, Client, Object, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.producers.jobset import KIND as JOBSET
from tests.producers.jobset import OF_JOBSET, running_jobset
from tests.producers.preemption import Rivals
from tests.producers.quota_and_groups import prepared
from tests.producers.running import HERE, controller, running, serving_certificate, webhooks

API = "trainer.kubeflow.org/v1alpha1"
GROUPS = {
    "coscheduling": ("scheduling.x-k8s.io/v1alpha1/PodGroup",),
    "volcano": ("scheduling.volcano.sh/v1beta1/PodGroup",),
}
#: What a runtime says of groups, by the name of what becomes of it, with the settings of a scheduler that knows it.
POLICIES: dict[str, tuple[Object, dict[str, Any]]] = {
    "coscheduling": ({"podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 60}}}, {}),
    "volcano": ({"podGroupPolicy": {"volcano": {}}}, {"profiles": [{"schedulerName": "volcano"}]}),
    "owner": ({}, {"gangs": {"owners": ["JobSet"]}}),
}


def train_job(policy: str, name: str, priority: str = "") -> list[Object]:
    """A runtime with a policy, and a TrainJob of two pods, of which each needs most of a node."""
    pod = template("3")
    pod["spec"] |= {"priorityClassName": priority} if priority else {}
    pod["spec"]["schedulerName"] = "volcano" if policy == "volcano" else pod["spec"]["schedulerName"]
    pod["spec"]["containers"][0]["name"] = "node"
    meta = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    jobs = [{"name": "node", "template": {"metadata": meta, "spec": {"template": pod}}}]
    made = {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": jobs}}, **POLICIES[policy][0]}
    runtime = {"kind": "TrainingRuntime", "metadata": {"name": f"for-{name}", "namespace": "default"}, "spec": made}
    named = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": f"for-{name}"}
    job = {"kind": "TrainJob", "metadata": {"name": name, "namespace": "default"}, "spec": {"runtimeRef": named}}
    return [{"apiVersion": API, **each} for each in (runtime, job)]


def of_eight(name: str) -> list[Object]:
    """The same with eight small pods: more than a Job survives."""
    runtime, job = train_job("coscheduling", name)
    runtime["spec"]["mlPolicy"]["numNodes"] = 8
    spec = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return [runtime, job]


def configured(folder: Path, port: int) -> tuple[Path, bytes]:
    """The trainer's configuration, and the authority that signs its webhooks: it reads certificates from a place below
    TMPDIR.
    """
    authority = serving_certificate(folder / "k8s-webhook-server" / "serving-certs")
    config = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
    }
    (folder / "trainer.yaml").write_text(yaml.safe_dump(config))
    return folder / "trainer.yaml", authority


async def too_large(admin: Client, plane: ControlPlane, folder: Path) -> None:
    """The trainer lets a JobSet go on that another client has suspended, so the pods of a TrainJob are deleted when it
    is evicted. Eight are more than the backoffLimit of its Job: it fails.
    """
    low, high, rivals = of_eight("low"), train_job("coscheduling", "high", "urgent"), Rivals(admin, OF_JOBSET, 8)
    async with running_scheduler(plane.scheduler_kubeconfig, folder):
        await admin.apply(low)
        await rivals.all_in("low", "Running")
        await admin.apply(high)
        await rivals.all_in("high", "Running", 2)
        found = await admin.wait_for(f"{API}/TrainJob", "low", lambda job: job.get("status", {}).get("conditions"))
        (condition,) = found["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Failed", "True"), condition
        print(f"a TrainJob of eight pods that is evicted: {condition['type']}, {condition['message']}")
    await rivals.clear(high[-1])
    await rivals.clear(low[-1])


async def rivals_meet(admin: Client, plane: ControlPlane, folder: Path, policy: str) -> None:
    """Of two TrainJobs with this policy the one of the higher priority evicts the other; in the end both are gone."""
    low, high = train_job(policy, "low"), train_job(policy, "high", "urgent")
    runtimes = [low[0], high[0]]

    async def answers() -> bool:
        try:
            await admin.apply(runtimes)
        except ApiError:
            return False
        return True

    await wait_until(answers, what="the trainer's webhooks answer", timeout=60)
    settings = POLICIES[policy][1]
    kinds = ("PriorityClass", "Node", f"{API}/TrainJob", *GROUPS.get(policy, ()), JOBSET, "Job", "Pod")
    rivals = Rivals(admin, OF_JOBSET, 2)
    recorded = (kinds, HERE / f"recorded-trainjob-{policy}.json")
    await rivals.meet(plane, folder, low, high, recorded, **settings)


async def trainer_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """TrainJobs of each policy, one pair after another."""
    port, base = free_port(), sources / "manifests" / "base"
    definitions = [*sorted((base / "crds").glob("trainer*.yaml"))]
    definitions += [MANIFESTS / each / "crd-podgroups.yaml" for each in GROUPS]
    jobset = controller(HERE / "go", "sigs.k8s.io/jobset")
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, *definitions)
        kinds = [kind for found in GROUPS.values() for kind in found]
        await wait_until_served(admin, f"{API}/TrainJob", f"{API}/TrainingRuntime", *kinds)
        config, authority = configured(folder, port)
        command = ("env", f"TMPDIR={folder}", binary, "--config", config, "--kubeconfig", plane.admin_kubeconfig)
        async with running_jobset(admin, plane, folder, *jobset):
            with running(folder, "trainer", *command):
                await admin.apply(webhooks(base / "webhook" / "manifests.yaml", port, authority))
                for policy in POLICIES:
                    print(f"{policy}: ", end="")
                    await rivals_meet(admin, plane, folder, policy)
                await too_large(admin, plane, folder)
