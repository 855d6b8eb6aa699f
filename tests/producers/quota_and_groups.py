"""Kueue beside the scheduler: it admits, and the scheduler places gangs; and the groups of a LeaderWorkerSet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.controlplane.client import ApiError, Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import nodes_ready, running
from tests.producers.running import HERE, record, running_controller, serving_certificate, webhooks

RECORDED_KUEUE, RECORDED_LWS = HERE / "recorded-kueue.json", HERE / "recorded-lws.json"
QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: any, resources: [{name: cpu, nominalQuota: "6"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
"""
LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"


def job(name: str) -> Object:
    """A gang of two pods for the queue, of which each needs most of a node."""
    spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template("3")}
    meta = {"name": name, "namespace": "default", "labels": {QUEUE: "team"}}
    meta |= {"annotations": {"gangsched.dev/gang": "true"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def of_group(number: int) -> Object:
    """A pod of a plain group of two for the queue."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template("3")}
    meta = {"name": f"plain-{number}", "namespace": "default", "labels": {QUEUE: "team", GROUP: "plain"}}
    pod["metadata"] = {**meta, "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"}}
    return pod


async def prepared(admin: Client, *definitions: Path) -> None:
    """Two nodes, the scheduler's rights, and these definitions."""
    await apply_manifests_crds(admin)
    await apply_manifests_rbac(admin, SCHEDULER_USER)
    for each in definitions:
        await admin.apply(load(each))
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)


def active(count: int) -> Callable[[Object], bool]:
    """Has a Job so many pods?"""
    return lambda found: bool(found.get("status", {}).get("active", 0) == count)


def with_its_certificates(kueue: Path, folder: Path) -> Path:
    """Kueue reads the certificate of its metrics from a place below /etc: this command shows it an /etc of its own."""
    etc, script = folder / "etc", folder / kueue.name
    (etc / "kueue" / "metrics").mkdir(parents=True)
    serving_certificate(etc / "kueue" / "metrics" / "certs")
    inner = 'mount --bind "$0" /etc && exec "$@"'
    script.write_text(f"#!/bin/sh\nexec unshare --map-root-user --mount sh -c '{inner}' {etc} {kueue} \"$@\"\n")
    script.chmod(0o755)
    return script


async def kueue_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two Jobs one is admitted, recorded and started whole; when it is gone the other is, and when that is gone a
    group of pods without a Job.
    """
    port, parts = free_port(), sources / "config" / "components"
    settings = {"integrations": {"frameworks": ["batch/job", "pod"]}}
    gates = "--feature-gates=VisibilityOnDemand=false"
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, *sorted((parts / "crd" / "bases").glob("*.yaml")))
        await wait_until_served(admin, "kueue.x-k8s.io/v1beta2/ClusterQueue", "kueue.x-k8s.io/v1beta2/Workload")
        api = "config.kueue.x-k8s.io/v1beta2"
        kueue = with_its_certificates(binary, folder)
        with running_controller(kueue, plane.admin_kubeconfig, folder, port, api, gates, **settings) as authority:
            only = ("jobs", "pods", "clusterqueues", "cohorts", "resourceflavors", "workloads", "workloads/status")
            await admin.apply(webhooks(parts / "webhook" / "manifests.yaml", port, authority, only))

            async def answers() -> bool:
                try:
                    await admin.apply(load(QUEUES))
                except ApiError:
                    return False
                return True

            await wait_until(answers, what="Kueue's webhooks answer", timeout=60)
            await admin.apply(job("first"))
            await admin.wait_for("Job", "first", active(2), timeout=60)
            second = job("second")
            second["spec"]["template"]["spec"]["priorityClassName"] = "urgent"  # before the group, in Kueue's order
            await admin.apply([second, of_group(0), of_group(1)])
            await admin.wait_for("Pod", "plain-0", lambda found: bool(found["spec"].get("schedulingGates")))
            await record(admin, ("PriorityClass", "Node", "Job", "Pod"), RECORDED_KUEUE)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await admin.wait_for("Job", "first", lambda j: j["status"].get("ready", 0) == 2, timeout=60)
                waits = await admin.get("Job", "second")
                await admin.delete("Job", "first")
                await admin.wait_for("Job", "second", lambda j: j["status"].get("ready", 0) == 2, timeout=90)
                await admin.delete("Job", "second")
                await running(admin, ["plain-0", "plain-1"])
    print(f"Kueue admitted three gangs of two, one after another; the second was suspended: {waits['spec']['suspend']}")


async def lws_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Both groups of a LeaderWorkerSet are recorded; one starts whole, and the other when there is room for it."""
    port, config = free_port(), sources / "config"
    worker = template("3")
    worker["spec"].pop("restartPolicy")
    workers = {"size": 2, "workerTemplate": worker}
    meta = {"name": "serve", "namespace": "default", "annotations": {"gangsched.dev/gang": "true"}}
    spec = {"replicas": 2, "leaderWorkerTemplate": workers}
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, config / "crd" / "bases" / "leaderworkerset.x-k8s.io_leaderworkersets.yaml")
        await wait_until_served(admin, LWS)
        api = "config.lws.x-k8s.io/v1alpha1"
        with running_controller(binary, plane.admin_kubeconfig, folder, port, api) as authority:
            found = webhooks(config / "webhook" / "manifests.yaml", port, authority)
            for each in (hook for configuration in found for hook in configuration["webhooks"]):
                if "pods" in each["rules"][0]["resources"]:
                    named = {"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}
                    each["objectSelector"] = {"matchExpressions": [named]}
            await admin.apply(found)
            made = {
                "apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet",
                "metadata": meta,
                "spec": spec,
            }

            async def answers() -> bool:
                try:
                    await admin.apply(made)
                except ApiError:
                    return False
                return len(await admin.list("Pod")) == 4

            await wait_until(answers, what="the pods of the LeaderWorkerSet are made", timeout=90)
            await record(admin, ("Node", LWS, "StatefulSet", "Pod"), RECORDED_LWS)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await running(admin, ["serve-0", "serve-0-1"])
                waits = await admin.get("Pod", "serve-1")
                await admin.apply(load(CLUSTER.replace("node-", "more-")))
                await running(admin, ["serve-1", "serve-1-1"])
    print(f"a group of the LeaderWorkerSet ran while the other was {waits['status']['phase']}, and then both")
