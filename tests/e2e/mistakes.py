"""What people get wrong, and why gangs wait, on a real control plane: objects of one namespace each, what `explain` is
asked, what its first two lines have to have, and the action of the second line as a script carries it out.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.jobsets import KIND as JOBSET_KIND
from tests.e2e.kinds import definition

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
RACK = "topology.kubernetes.io/rack"
MAKES_A_GANG = {"gangsched.dev/gang": "true"}
GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
NODES: Sequence[tuple[str, dict[str, Any]]] = (
    *((f"gpu-{n}", {"cpu": "64", GPU: "8", "taints": [TAINT], "labels": {RACK: f"r{n // 2}"}}) for n in range(4)),
    *((f"cpu-{n}", {"cpu": "16", "labels": {"disk": "hdd"}}) for n in range(2)),
    *((f"chip-{n}", {"cpu": "1", "example.com/chip": "1"}) for n in range(2)),
)
#: Value, and whether it preempts.
CLASSES = {
    "research": (1000, "PreemptLowerPriority"),
    "polite": (1000, "Never"),
    "night": (100, "PreemptLowerPriority"),
}

Cure: TypeAlias = "Callable[[Client, str, re.Match[str]], Awaitable[None]]"


class Case(NamedTuple):
    """A mistake, or a reason to wait: what is created in a namespace where the ``before`` runs already. ``first`` and
    ``second`` are patterns of two lines of the answer about what is ``asked``; ``cure`` does what the second says, with
    what that names, after which so many pods of it run.
    """

    name: str
    objects: Sequence[Object]
    first: str
    second: str
    cure: Cure
    runs: int = 2
    before: Sequence[Object] = ()
    asked: str = "job/train"


def pod_spec(tolerates: bool = True, **more: Any) -> Object:
    """Of a pod of ours that leaves at once."""
    requests = more.pop("requests", {"cpu": "1"})
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
    spec: Object = {
        "schedulerName": "py-gang-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "tolerations": [{"key": GPU, "operator": "Exists"}] if tolerates else [],
    }
    return {**spec, **more}


def job(
    name: str = "train",
    pods: int = 2,
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    on_job: dict[str, str] | None = None,
    tolerates: bool = True,
    suspend: bool = False,
    **spec: Any,
) -> Object:
    """A Job that is a gang, unless its ``annotations`` say otherwise; ``labels`` are those of its pods."""
    meta = {"name": name, "annotations": MAKES_A_GANG if annotations is None else annotations, "labels": on_job or {}}
    template = {"metadata": {"labels": labels or {}}, "spec": pod_spec(tolerates, **spec)}
    whole = {"parallelism": pods, "completions": pods, "suspend": suspend, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": whole}


def group(name: str = "train", members: int = 2, **more: Any) -> Object:
    """A PodGroup."""
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name, **more}, "spec": {"minMember": members}}


def gpus(count: int) -> Object:
    """What asks for so many."""
    return {"cpu": "1", GPU: str(count)}


CHIP = {"cpu": "100m", "example.com/chip": "1"}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "datta"}}


TOPOLOGY = "gang.scheduling.koordinator.sh/network-topology-spec"
MEMBER = {GROUP_LABEL: "train"}
ONE_RACK = json.dumps({"gatherStrategy": [{"layer": RACK, "strategy": "MustGather"}]})
QUEUE = "kueue.x-k8s.io/queue-name"
QUEUES: Sequence[Object] = (
    {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "any"}},
    {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "cq-ml"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", GPU],
                    "flavors": [
                        {
                            "name": "any",
                            "resources": [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": 8}],
                        }
                    ],
                }
            ],
        },
    },
)


def local_queue(name: str) -> Object:
    """A way into the queue."""
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue"}
    return {**kind, "metadata": {"name": name}, "spec": {"clusterQueue": "cq-ml"}}


async def gone(admin: Client, namespace: str, job_name: str = "train") -> None:
    """Delete the Job; its pods are gone afterwards."""
    await admin.delete("Job", job_name, namespace)
    await none_left(admin, namespace, job_name)


async def none_left(admin: Client, namespace: str, owner: str = "train") -> None:
    """The pods are gone whose owner has been deleted."""

    async def check() -> bool:
        return not [p for p in await admin.list("Pod", namespace) if p["metadata"]["name"].startswith(f"{owner}-")]

    await wait_until(check, timeout=60, what="the pods are gone")


def again(change: Callable[[Object, re.Match[str]], object]) -> Cure:
    """Delete the Job and create it as ``change`` makes it, as `kubectl replace --force` does."""

    async def cure(admin: Client, namespace: str, found: re.Match[str]) -> None:
        old = await admin.get("Job", "train", namespace)
        notes, labels = (old["metadata"].get(key) or {} for key in ("annotations", "labels"))
        template = copy.deepcopy(old["spec"]["template"])
        generated = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
        template["metadata"] = {
            "labels": {k: v for k, v in (template["metadata"].get("labels") or {}).items() if k not in generated}
        }
        spec = {"parallelism": old["spec"]["parallelism"], "completions": old["spec"]["completions"]}
        new = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "annotations": dict(notes), "labels": dict(labels)},
            "spec": {**spec, "template": template},
        }
        change(new, found)
        await gone(admin, namespace)
        await admin.create(new, namespace)

    return cure


def pods_of(made: Object) -> Object:
    """The spec of its pods."""
    found: Object = made["spec"]["template"]["spec"]
    return found


def device(made: Object, name: str, amount: str) -> None:
    """Let each pod ask for so many of a device."""
    pods_of(made)["containers"][0]["resources"] = {"requests": {"cpu": "1", name: amount}, "limits": {name: amount}}


def sized(made: Object, members: int) -> None:
    """Let the Job have so many pods."""
    made["spec"]["parallelism"] = made["spec"]["completions"] = members


def created(make: Callable[[re.Match[str]], Object]) -> Cure:
    """Create what the answer says."""

    async def cure(admin: Client, namespace: str, found: re.Match[str]) -> None:
        made = make(found)
        await admin.create(made, namespace if made["kind"] != "PriorityClass" else None)

    return cure


def priority_class(name: str, value: int) -> Object:
    """A PriorityClass."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


async def raise_priority(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Make a class of the value that the answer names, and use it."""
    await admin.create(priority_class("enough", int(found[1])))
    await again(lambda made, _: pods_of(made).update(priorityClassName="enough", priority=None))(
        admin, namespace, found
    )


async def smaller_group(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Lower minMember to what the answer says."""
    await admin.patch(PODGROUP, "train", {"spec": {"minMember": int(found[2])}}, namespace)


async def resume(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Send the patch that the answer names."""
    await admin.patch("Job", "train", json.loads(found[1]), namespace)


async def remove_gates(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Take the gates off each pod."""
    for pod in await admin.list("Pod", namespace):
        gates = [{"op": "remove", "path": "/spec/schedulingGates"}]
        await admin.patch("Pod", pod["metadata"]["name"], gates, namespace, how="json")


async def claim(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Create the claim that the answer names, and a volume for it."""
    size = {"storage": "1Gi"}
    volume = {
        "capacity": size,
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": "/data"},
        "claimRef": {"namespace": namespace, "name": found[1]},
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace}}
    await admin.create({**kind, "spec": volume})
    wanted = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": namespace,
        "resources": {"requests": size},
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": found[1]}}
    await admin.create({**kind, "spec": wanted}, namespace)


async def without_topology(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Ask for no single rack."""
    await admin.patch(PODGROUP, "train", {"metadata": {"annotations": {TOPOLOGY: None}}}, namespace)


def budget() -> Object:
    """One that lets no pod of `web` go."""
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    return {**kind, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}


async def allow_disruptions(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Let the budget of this name allow all."""
    await admin.patch("PodDisruptionBudget", found[1], {"spec": {"minAvailable": 0}}, namespace)


def jobset(classes: Sequence[str]) -> Object:
    """A driver and two workers, of these classes, that are a gang."""
    jobs = []
    for name, pods, of in zip(("driver", "workers"), (1, 2), classes, strict=True):
        made = pod_spec(requests=CHIP if pods > 1 else {"cpu": "1"})
        spec = {"parallelism": pods, "completions": pods, "template": {"spec": {**made, "priorityClassName": of}}}
        jobs.append({"name": name, "replicas": 1, "template": {"spec": spec}})
    meta = {"name": "train", "annotations": MAKES_A_GANG}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": jobs},
    }


#: The kind of Kubeflow Trainer that makes a JobSet, and its definition here.
TRAINJOB = "trainer.kubeflow.org/v1alpha1/TrainJob"
TRAINJOBS = definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")


def trainjob() -> Object:
    """One that is a gang."""
    meta = {"name": "train", "annotations": MAKES_A_GANG}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta, "spec": spec}


def jobset_of(made: Object, amount: int) -> Object:
    """What the Trainer makes of it: a JobSet of its name with a Job of two pods, which ask for so many GPUs each."""
    owner = {key: made["metadata"][key] for key in ("name", "uid")}
    owner |= {"apiVersion": made["apiVersion"], "kind": made["kind"], "controller": True}
    template = {"spec": pod_spec(requests=gpus(amount))}
    spec = {"parallelism": 2, "completions": 2, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "ownerReferences": [owner]},
        "spec": {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": spec}}]},
    }


async def one_class(admin: Client, namespace: str, found: re.Match[str]) -> None:
    """Make the JobSet anew with one class for all."""
    await admin.delete(JOBSET_KIND, "train", namespace)
    await none_left(admin, namespace)
    await admin.create(jobset(("research", "research")), namespace)


PODGROUP = "scheduling.sigs.k8s.io/v1alpha1/PodGroup"
FULL = [job("web", requests=CHIP, priorityClassName="night", annotations={}, labels={"app": "web"})]

CASES: Sequence[Case] = (
    Case(
        "a class that does not exist",
        [job(priorityClassName="reserch")],
        "WAITS +Job .*/train has no pods: .*no PriorityClass with name reserch",
        r"create the PriorityClass (\S+); did you mean research\?",
        created(lambda found: priority_class(found[1], 0)),
    ),
    Case(
        "more of a device than a node has",
        [job(requests=gpus(16))],
        r"NEVER FITS +each pod asks for 16 nvidia.com/gpu; the largest of the \d+ nodes that it may use has 8",
        "ask for at most (8) nvidia.com/gpu in each pod",
        again(lambda made, found: device(made, GPU, found[1])),
    ),
    Case(
        "more than the cluster has",
        [job(pods=8, requests=gpus(8))],
        r"NEVER FITS +8 pods x 8 nvidia.com/gpu = 64; 32 in the \d+ nodes that it may use: at most 4 of 8",
        "lower parallelism \\(or minMember\\) to (4) members",
        again(lambda made, found: sized(made, int(found[1]))),
        4,
    ),
    Case(
        "a taint",
        [job(requests=gpus(8), tolerates=False)],
        r"NEVER FITS +each pod asks for 8 nvidia.com/gpu; the largest of the 4 nodes that it may use has 0",
        "add a toleration for the taint ([^= ]+)=present:NoSchedule",
        again(lambda made, found: pods_of(made).update(tolerations=[{"key": found[1], "operator": "Exists"}])),
    ),
    Case(
        "a selector that no node has",
        [job(nodeSelector={"disk": "ssd"})],
        "NEVER FITS +no node takes the pods: 8 nodes have no label disk=ssd",
        "take (disk)=ssd out of its node selector",
        again(lambda made, found: pods_of(made)["nodeSelector"].pop(found[1])),
    ),
    Case(
        "another scheduler",
        [job(schedulerName="default-scheduler")],
        "NOT OURS +2 pods are for default-scheduler",
        r"spec.schedulerName: (\S+)",
        again(lambda made, found: pods_of(made).update(schedulerName=found[1])),
    ),
    Case(
        "no group",
        [job(annotations={}, labels=MEMBER)],
        "WAITS +PodGroup .*/train does not exist",
        "create the PodGroup .*/(train); its spec.minMember says",
        created(lambda found: group(found[1])),
    ),
    Case(
        "a group of another name",
        [group(), job(annotations={}, labels={GROUP_LABEL: "trian"})],
        "WAITS +PodGroup .*/trian does not exist",
        r"change the label (\S+) of the pods to (train)",
        again(lambda made, found: made["spec"]["template"]["metadata"].update(labels={found[1]: found[2]})),
    ),
    Case(
        "a group of another namespace",
        [group("t06", namespace="default"), job(annotations={}, labels={GROUP_LABEL: "t06"})],
        "WAITS +PodGroup .*/t06 does not exist",
        "create the PodGroup .*/(t06): that of namespace default counts",
        created(lambda found: group(found[1])),
    ),
    Case(
        "a device of another name",
        [job(requests={"cpu": "1", "nvidia.com/gpus": "1"})],
        "NEVER FITS +each pod asks for 1 nvidia.com/gpus; .* has 0",
        r"ask for (\S+) instead of nvidia.com/gpus",
        again(lambda made, found: device(made, found[1], "1")),
    ),
    Case(
        "fewer pods than members",
        [group(members=8), job(pods=4, annotations={}, labels=MEMBER)],
        "WAITS +4 of 8 members exist; 4 missing",
        r"raise parallelism of Job \S+ to (8), or lower minMember to (4)",
        smaller_group,
        4,
    ),
    Case(
        "a claim that does not exist",
        [job(volumes=[CLAIM])],
        'WAITS +persistentvolumeclaim "datta" not found',
        r"create PersistentVolumeClaim \S+/(datta)",
        claim,
    ),
    Case(
        "a rack that is too small",
        [
            {**group(members=4), "metadata": {"name": "train", "annotations": {TOPOLOGY: ONE_RACK}}},
            job(pods=4, requests=gpus(8), annotations={}, labels=MEMBER),
        ],
        r"NEVER FITS +one \S+rack is needed for 4 members; the largest \(r\d\) takes 2",
        "ask for no single (\\S+)|lower parallelism \\(or minMember\\) to (2) members",
        without_topology,
        4,
    ),
    Case(
        "a misspelt annotation",
        [job(annotations={"gangsched.dev/gangs": "true"})],
        "NO GANG +2 pods are no gang: each starts by itself",
        r"the annotation gangsched.dev/gangs; did you mean (\S+)\?",
        again(lambda made, found: made["metadata"].update(annotations={found[1]: "true"})),
    ),
    Case(
        "a misspelt label",
        [group(), job(annotations={}, labels={"pod-group.scheduling.sigs.k8s.oi": "train"})],
        "NO GANG +2 pods are no gang: each starts by itself",
        r"the label pod-group.scheduling.sigs.k8s.oi; did you mean (\S+)\?",
        again(lambda made, found: made["spec"]["template"]["metadata"].update(labels={found[1]: "train"})),
    ),
    Case(
        "an annotation that is neither true nor false",
        [job(annotations={"gangsched.dev/gang": "yes"})],
        "NO GANG +2 pods are no gang: each starts by itself",
        r"its annotation (\S+) is 'yes': set it to \"(true)\"",
        again(lambda made, found: made["metadata"].update(annotations={found[1]: found[2]})),
    ),
    Case(
        "suspended",
        [job(suspend=True)],
        "SUSPENDED +it is suspended, and has no pods until it is resumed",
        r"kubectl patch job train -n \S+ --type merge -p '(.*)'",
        resume,
    ),
    Case(
        "scheduling gates",
        [job(schedulingGates=[{"name": "example.com/wait"}])],
        r"WAITS +0 of 2 members may be scheduled; 2 held by scheduling gates \(example.com/wait\)",
        "remove the scheduling gates",
        remove_gates,
    ),
    Case(
        "a priority that is too low",
        [job(requests=CHIP, priorityClassName="night")],
        "NOT NOW +0 of 2 members fit; the next asks for 1 example.com/chip, which no node has free",
        r"a priority of (101) or more: it can start after 2 pods are evicted",
        raise_priority,
        before=FULL,
    ),
    Case(
        "a class that never preempts",
        [job(requests=CHIP, priorityClassName="polite")],
        "NOT NOW +0 of 2 members fit; the next asks for 1 example.com/chip, which no node has free",
        "a preemptionPolicy other than Never",
        again(lambda made, _: pods_of(made).update(priorityClassName="research", priority=None, preemptionPolicy=None)),
        before=FULL,
    ),
    Case(
        "a queue that does not exist",
        [job(on_job={QUEUE: "q-typo"})],
        "WAITS +LocalQueue q-typo doesn't exist",
        r"create the LocalQueue \S+/(q-typo) of ClusterQueue cq-ml: it can start now",
        created(lambda found: local_queue(found[1])),
    ),
    Case(
        "more than its queue may ever hold",
        [local_queue("q-ml"), job(requests=gpus(8), on_job={QUEUE: "q-ml"})],
        "NEVER FITS +queue cq-ml can never hold it: 16 nvidia.com/gpu asked, 8 at most",
        "raise nominalQuota of flavor any in ClusterQueue cq-ml to 16 nvidia.com/gpu: it can start now",
        # The queue belongs to all cases. A smaller job fits as well.
        again(lambda made, _: sized(made, 1)),
        1,
    ),
    Case(
        "a budget that is absolute",
        [job(requests=CHIP, priorityClassName="research")],
        "NOT NOW +0 of 2 members fit; the next asks for 1 example.com/chip, which no node has free",
        r"let PodDisruptionBudget \S+/(web) allow more disruptions: it can start after 2 pods are evicted",
        allow_disruptions,
        before=[budget(), *FULL],
    ),
    Case(
        "a filter of others",
        [job(labels={"curfew": "night"})],
        r"NOT NOW +0 of 2 members fit; .* nodes refuse it \(.*8 node\(s\) have a curfew until 06:00",
        "change what plug-in (Curfew) refuses its pods for: without it it can start now",
        again(lambda made, _: made["spec"]["template"]["metadata"].pop("labels")),
    ),
    Case(
        "a driver without a class",
        [jobset(("", "research"))],
        r"NOT NOW +\d of 3 members fit; the next asks for 1 example.com/chip, which no node has free",
        r"give (train-driver-0-\S+) the priority class of its other members: .* lowest of its members' priorities, 0,"
        " and with 1000 it can start after 2 pods are evicted",
        one_class,
        3,
        before=FULL,
        asked="jobset/train",
    ),
)
