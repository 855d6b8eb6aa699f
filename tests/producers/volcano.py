"""Volcano's controllers beside the scheduler, which answers to ``volcano``: VCJobs without Volcano's scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles

from tests.bench.gangs_of_volcano import GANGS, NODES, SHAPES, domains, node, spine_of
from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import job, template
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import EXAMPLES, condition, nodes_ready
from tests.e2e.volcano import GROUP, phase
from tests.producers.preemption import Rivals
from tests.producers.running import HERE, record, running

RECORDED_VOLCANO, RECORDED_PARTITIONS = (HERE / f"recorded-volcano{what}.json" for what in ("", "-partitions"))
VCJOB = "batch.volcano.sh/v1alpha1/Job"
QUEUE = "scheduling.volcano.sh/v1beta1/Queue"
HYPER_NODE = "topology.volcano.sh/v1alpha1/HyperNode"
ANSWERS = {"profiles": [{"schedulerName": "volcano"}]}
#: Volcano's scheduler makes these when it starts; its controllers leave a VCJob alone whose Queue is not there.
QUEUES = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root}
spec: {weight: 1, reclaimable: false}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
spec: {weight: 1, reclaimable: true}
"""


#: There is quota for one pod of one CPU.
TEAM = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {weight: 1, parent: root, capability: {cpu: "1"}}
"""


def in_phase(phase: str) -> Callable[[Object], bool]:
    """Has a VCJob this phase?"""
    return lambda found: bool(found.get("status", {}).get("state", {}).get("phase") == phase)


async def prepared(admin: Client, sources: Path) -> None:
    """Volcano's kinds as its chart installs them, the scheduler's rights, and the Queues that there always are."""
    await apply_manifests_crds(admin)
    await apply_manifests_rbac(admin, SCHEDULER_USER)
    for each in sorted((sources / "config" / "crd").glob("*/bases/*.yaml")):
        await admin.apply(load(each))
    await wait_until_served(admin, VCJOB, GROUP, QUEUE, HYPER_NODE)
    await admin.apply(load(QUEUES))


def plain_job(name: str, size: int, cpu: str, owner: dict[str, str], pod: dict[str, str]) -> Object:
    """A Job of Kubernetes with Volcano's scheduler name; with annotations of its own, and of its pods."""
    made = job(name, parallelism=size, completions=size, template=template(cpu))
    made["metadata"]["annotations"] = owner
    made["spec"]["template"]["metadata"]["annotations"] = pod
    made["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    return made


async def plain_jobs(admin: Client) -> None:
    """Pods that are in no group when the scheduler sees them wait until Volcano has made one: three start together, and
    of two in a Queue for one the second waits.
    """

    async def of(name: str) -> list[Object]:
        return [p for p in await admin.list("Pod") if p["metadata"]["labels"].get("job-name") == name]

    async def decided() -> bool:
        pods = [*await of("whole"), *await of("limited")]
        reasons = [condition(p, "PodScheduled").get("reason") for p in pods]
        return sorted(str(r) for r in reasons) == ["None", *["Unschedulable"] * 4]

    await admin.apply(load(TEAM))
    await admin.apply(plain_job("whole", 3, "3", {"scheduling.volcano.sh/group-min-member": "3"}, {}))
    await admin.apply(plain_job("limited", 2, "1", {}, {"scheduling.volcano.sh/queue-name": "team"}))
    await wait_until(decided, what="one pod is bound, the others are told why not", timeout=60)
    assert not any(p["spec"].get("nodeName") for p in await of("whole"))
    more = load(EXAMPLES / "volcano" / "00-cluster.yaml")[0]
    more["metadata"] |= {"name": "node-3", "labels": {"kubernetes.io/hostname": "node-3"}}
    await admin.apply(more)
    await admin.wait_for("Job", "whole", lambda found: found["status"].get("ready") == 3, timeout=60)
    [waits] = [p for p in await of("limited") if not p["spec"].get("nodeName")]
    print(f"of three pods of a Job all start; of two in a Queue one: {condition(waits, 'PodScheduled')['message']}")


async def volcano_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Two VCJobs, of which the more urgent one takes the room of the other; Volcano then starts that anew as a whole,
    and gives it up when that was once too often. Then Jobs of Kubernetes.
    """
    command = (binary, "--kubeconfig", plane.admin_kubeconfig, "--leader-elect=false")
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, sources)
        await admin.apply(load(EXAMPLES / "volcano" / "00-cluster.yaml"))
        await nodes_ready(admin)
        night, urgent = load(HERE / "vcjobs.yaml")
        rivals = Rivals(admin, "volcano.sh/job-name", 3)
        kinds = ("Node", "PriorityClass", QUEUE, VCJOB, GROUP, "Pod")
        with running(folder, "volcano", *command):
            await rivals.meet(plane, folder, [night], [urgent], (kinds, RECORDED_VOLCANO), **ANSWERS)
            night["spec"]["maxRetry"] = 1
            async with running_scheduler(plane.scheduler_kubeconfig, folder, **ANSWERS):
                await admin.apply(night)
                await admin.wait_for(VCJOB, "night", in_phase("Running"))
                name = f"night-{(await admin.get(VCJOB, 'night'))['metadata']['uid']}"
                group = await admin.wait_for(GROUP, name, phase("Running"))
                await admin.apply(urgent)
                gone = await admin.wait_for(VCJOB, "night", in_phase("Failed"), timeout=60)
                await admin.wait_for(VCJOB, "urgent", in_phase("Running"), timeout=60)
                await rivals.clear(urgent)
                await plain_jobs(admin)
    retries = gone["status"]["retryCount"]
    print(f"PodGroup of night with {group['status']['running']} pods; maxRetry 1: Failed after {retries} eviction")


def shape(name: str, size: int, *, near: bool) -> Object:
    """A VCJob of so many pods of one CPU; all in one spine if it is ``near``."""
    pod = template("1")
    del pod["spec"]["schedulerName"]
    task = {"name": "worker", "replicas": size, "template": pod}
    spec = {"schedulerName": "volcano", "queue": "default", "minAvailable": size, "tasks": [task]}
    spec |= {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}} if near else {}
    api, _, kind = VCJOB.rpartition("/")
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def shapes_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """The shapes of Volcano's own benchmark, of which its controllers make the pods: how long each pod waits from its
    creation to its binding, as a watch sees it, and until all are bound.
    """
    fast = ("--kube-api-qps=5000", "--kube-api-burst=10000")
    command = (binary, "--kubeconfig", plane.admin_kubeconfig, "--leader-elect=false", *fast)
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, sources)
        await admin.apply([*map(node, range(NODES)), *domains()])
        await nodes_ready(admin)
        with running(folder, "volcano", *command):
            for name, size, near in SHAPES:
                jobs = [shape(f"{'near' if near else 'far'}-{n}", size, near=near) for n in range(GANGS)]
                async with running_scheduler(plane.scheduler_kubeconfig, folder, **ANSWERS), admin.record() as seen:
                    began = time.monotonic()
                    await admin.apply(jobs)
                    for each in jobs:
                        await admin.wait_for(VCJOB, each["metadata"]["name"], in_phase("Running"), timeout=180)
                created: dict[str, float] = {}
                bound: dict[str, float] = {}
                spines: dict[str, set[int]] = {}
                for change in seen.changes:
                    created.setdefault(change.name, change.at)
                    if change.node and change.name not in bound:
                        bound[change.name] = change.at
                        spines.setdefault(change.name.partition("-worker-")[0], set()).add(
                            spine_of(int(change.node.rpartition("-")[2]))
                        )
                assert len(bound) == GANGS * size
                waits = quantiles([bound[pod] - created[pod] for pod in created], n=100)
                apart = sum(len(found) > 1 for found in spines.values())
                assert not near or not apart, f"{apart} gangs are in more spines than one"
                shown = ", ".join(f"p{p} {waits[p - 1]:.2f} s" for p in (50, 90, 99))
                print(f"{name}: {shown}; all bound after {max(bound.values()) - began:.2f} s")
                for each in jobs:
                    await admin.delete(VCJOB, each["metadata"]["name"])

                async def gone() -> bool:
                    return not await admin.list("Pod")

                await wait_until(gone, what="the pods are gone", timeout=180)


def divided() -> list[Object]:
    """A VCJob of three partitions of two pods, each in one rack and all in one spine, and four racks of three CPUs in
    two spines.
    """
    found = shape("train", 6, near=True)
    rack = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 3, "networkTopology": rack}
    found["spec"]["tasks"][0]["partitionPolicy"] = policy
    api, _, kind = HYPER_NODE.rpartition("/")

    def domain(name: str, tier: int, of: str, members: list[str]) -> Object:
        listed = [{"type": of, "selector": {"exactMatch": {"name": member}}} for member in members]
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": {"tier": tier, "members": listed}}

    racks = {"a": 1, "b": 3, "c": 3, "d": 3, "e": 3}
    nodes = []
    for name, cpus in racks.items():
        each = node(ord(name))
        each["metadata"] |= {"name": name, "labels": {"kubernetes.io/hostname": name}}
        each["status"]["allocatable"]["cpu"] = each["status"]["capacity"]["cpu"] = str(cpus)
        nodes.append(each)
    tree = [domain(f"rack-{name}", 1, "Node", [name]) for name in racks]
    tree.append(domain("spine-0", 2, "HyperNode", ["rack-a", "rack-b"]))
    tree.append(domain("spine-1", 2, "HyperNode", ["rack-c", "rack-d", "rack-e"]))
    return [*nodes, *tree, found]


async def partitions_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """The partitions of a VCJob, which Volcano's controllers write as sub-groups of its PodGroup, get a rack each."""
    command = (binary, "--kubeconfig", plane.admin_kubeconfig, "--leader-elect=false")
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, sources)
        *others, job = divided()
        await admin.apply(others)
        await nodes_ready(admin)
        with running(folder, "volcano", *command):
            await admin.apply(job)
            async with running_scheduler(plane.scheduler_kubeconfig, folder, **ANSWERS):
                await admin.wait_for(VCJOB, "train", in_phase("Running"), timeout=120)
            pods = await admin.list("Pod")
            parts: dict[str, set[str]] = {}
            for pod in pods:
                part = pod["metadata"]["labels"]["volcano.sh/partition-id"]
                parts.setdefault(part, set()).add(pod["spec"]["nodeName"])
            await record(admin, ("Node", QUEUE, HYPER_NODE, VCJOB, GROUP, "Pod"), RECORDED_PARTITIONS)
    assert sorted(map(sorted, parts.values())) == [["c"], ["d"], ["e"]], parts
    print(f"{len(pods)} pods of {len(parts)} partitions run, each partition in one rack of one spine")
