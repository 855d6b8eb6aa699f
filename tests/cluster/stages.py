"""What the controller of each kind of owner makes before a pod of it has a node: the table of the documentation, and
the manifests that it is written from.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from gangsched.cluster.manifests import load
from gangsched.core.events import Synced
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.dialects import role_of
from gangsched.model.records import Gang, Pod

NAME = "py-gang-scheduler"
CONTAINER = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE: dict[str, Any] = {"spec": {"schedulerName": NAME, "restartPolicy": "Never", "containers": [CONTAINER]}}
DECLARED = {"gangsched.dev/gang": "true"}
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
EXCLUSIVE_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"


class Owner(NamedTuple):
    """A manifest of a kind; ``text`` says in the table what it is of, ``source`` where its controller does so."""

    text: str
    objects: list[dict[str, Any]]
    source: str


def owner(kind: str, api: str, spec: dict[str, Any], **notes: str) -> dict[str, Any]:
    """One object that is declared a gang."""
    meta = {"name": "own", "annotations": {**DECLARED, **notes}}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def replicas(field: str, **counts: int) -> dict[str, Any]:
    """Roles as Kubeflow has them."""
    return {field: {role: {"replicas": n, "template": TEMPLATE} for role, n in counts.items()}}


def job(pods: int, **more: Any) -> dict[str, Any]:
    """The spec of a Job."""
    return {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": TEMPLATE, **more}


def jobset(**notes: str) -> list[dict[str, Any]]:
    """Two Jobs of three pods."""
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": job(3)}}]
    return [owner("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs}, **notes)]


def groups(startup: str = "LeaderCreated", **notes: str) -> list[dict[str, Any]]:
    """One group of three."""
    spec = {"replicas": 1, "startupPolicy": startup, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}}
    return [owner("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec, **notes)]


def cluster(**more: Any) -> dict[str, Any]:
    """A head, and three workers of which one always runs."""
    workers = {"groupName": "gpu", "replicas": 3, "minReplicas": 1, "maxReplicas": 5, "template": TEMPLATE}
    return {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [workers], **more}


def stateful(policy: str) -> list[dict[str, Any]]:
    """Three replicas."""
    return [owner("StatefulSet", "apps/v1", {"replicas": 3, "podManagementPolicy": policy, "template": TEMPLATE})]


_KUBEFLOW, _TRAINING = "kubeflow.org/v1", "training-operator, `ReconcilePods`"
_RAY = "KubeRay, `reconcilePods` in raycluster_controller.go"
_RUNTIME = {
    "mlPolicy": {"numNodes": 2},
    "template": {
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {"template": TEMPLATE},
                    },
                }
            ]
        }
    },
}

OWNERS: dict[str, Owner] = {
    "Job": Owner("3 pods", [owner("Job", "batch/v1", job(3))], "kube-controller-manager, `manageJob`"),
    "Job with a failed index": Owner(
        "3 indexes, of which one has failed for good",
        [owner("Job", "batch/v1", job(3, backoffLimitPerIndex=1)) | {"status": {"failedIndexes": "1", "failed": 2}}],
        "kube-controller-manager, `firstPendingIndexes`",
    ),
    "JobSet": Owner("2 Jobs of 3", jobset(), "jobset_controller.go, `reconcileReplicatedJobs`"),
    "JobSet with `exclusive-topology`": Owner(
        "2 Jobs of 3", jobset(**{EXCLUSIVE: "pool"}), "pod_admission_webhook.go: the pod of index 0 has a node"
    ),
    "TrainJob": Owner(
        "3 nodes",
        [
            owner("ClusterTrainingRuntime", "trainer.kubeflow.org/v1alpha1", _RUNTIME) | {"metadata": {"name": "run"}},
            owner(
                "TrainJob",
                "trainer.kubeflow.org/v1alpha1",
                {"runtimeRef": {"name": "run"}, "trainer": {"numNodes": 3}},
            ),
        ],
        "trainer, a JobSet of its runtime",
    ),
    "TrainJob with `podGroupPolicy`": Owner(
        "3 nodes",
        [
            owner(
                "ClusterTrainingRuntime",
                "trainer.kubeflow.org/v1alpha1",
                {**_RUNTIME, "podGroupPolicy": {"coscheduling": {}}},
            )
            | {"metadata": {"name": "run"}},
            owner(
                "TrainJob",
                "trainer.kubeflow.org/v1alpha1",
                {"runtimeRef": {"name": "run"}, "trainer": {"numNodes": 3}},
            ),
        ],
        "trainer, coscheduling.go: a PodGroup of all pods",
    ),
    "LeaderWorkerSet": Owner("a group of 3", groups(), "pod_controller.go"),
    "LeaderWorkerSet with `LeaderReady`": Owner(
        "a group of 3", groups("LeaderReady"), "pod_controller.go: the leader is ready"
    ),
    "LeaderWorkerSet with `exclusive-topology`": Owner(
        "a group of 3", groups(**{EXCLUSIVE_GROUPS: "pool"}), "pod_controller.go: the leader has a node"
    ),
    "PyTorchJob": Owner(
        "a master and 3 workers",
        [owner("PyTorchJob", _KUBEFLOW, replicas("pytorchReplicaSpecs", Master=1, Worker=3))],
        _TRAINING,
    ),
    "PyTorchJob with `elasticPolicy`": Owner(
        "3 workers, 2 at least",
        [
            owner(
                "PyTorchJob",
                _KUBEFLOW,
                {**replicas("pytorchReplicaSpecs", Worker=3), "elasticPolicy": {"minReplicas": 2}},
            )
        ],
        f"{_TRAINING}; worker 0 is the rendezvous",
    ),
    "TFJob with `minAvailable`": Owner(
        "a chief, 2 parameter servers and 3 workers, 4 at least",
        [
            owner(
                "TFJob",
                _KUBEFLOW,
                {
                    **replicas("tfReplicaSpecs", Worker=3, PS=2, Chief=1),
                    "runPolicy": {"schedulingPolicy": {"minAvailable": 4}},
                },
            )
        ],
        _TRAINING,
    ),
    "XGBoostJob": Owner(
        "a master and 2 workers",
        [owner("XGBoostJob", _KUBEFLOW, replicas("xgbReplicaSpecs", Master=1, Worker=2))],
        _TRAINING,
    ),
    "PaddleJob": Owner(
        "2 workers", [owner("PaddleJob", _KUBEFLOW, replicas("paddleReplicaSpecs", Worker=2))], _TRAINING
    ),
    "JAXJob": Owner("2 workers", [owner("JAXJob", _KUBEFLOW, replicas("jaxReplicaSpecs", Worker=2))], _TRAINING),
    "MPIJob": Owner(
        "a launcher and 2 workers",
        [owner("MPIJob", "kubeflow.org/v2beta1", replicas("mpiReplicaSpecs", Launcher=1, Worker=2))],
        "mpi_job_controller.go",
    ),
    "MPIJob with `WaitForWorkersReady`": Owner(
        "a launcher and 2 workers",
        [
            owner(
                "MPIJob",
                "kubeflow.org/v2beta1",
                {
                    **replicas("mpiReplicaSpecs", Launcher=1, Worker=2),
                    "launcherCreationPolicy": "WaitForWorkersReady",
                },
            )
        ],
        "mpi_job_controller.go: all workers are ready",
    ),
    "RayCluster": Owner("a head and 3 workers", [owner("RayCluster", "ray.io/v1", cluster())], _RAY),
    "RayCluster with the autoscaler": Owner(
        "a head and 3 workers, 1 at least",
        [owner("RayCluster", "ray.io/v1", cluster(enableInTreeAutoscaling=True))],
        f"{_RAY}, `GetWorkerGroupDesiredReplicas`",
    ),
    "RayJob": Owner(
        "a head and 3 workers",
        [owner("RayJob", "ray.io/v1", {"entrypoint": "x", "rayClusterSpec": cluster()})],
        "rayjob_controller.go: the cluster is ready",
    ),
    "RayService": Owner(
        "a head and 3 workers",
        [owner("RayService", "ray.io/v1", {"rayClusterConfig": cluster()})],
        "rayservice_controller.go, a RayCluster",
    ),
    "SparkApplication": Owner(
        "a driver and 2 executors",
        [
            owner(
                "SparkApplication",
                "sparkoperator.k8s.io/v1beta2",
                {"driver": {"schedulerName": NAME}, "executor": {"schedulerName": NAME, "instances": 2}},
            )
        ],
        "Spark, `ExecutorPodsAllocator`: the driver runs",
    ),
    "VCJob": Owner(
        "tasks of 1 and 2 pods",
        [
            owner(
                "Job",
                "batch.volcano.sh/v1alpha1",
                {
                    "schedulerName": NAME,
                    "tasks": [
                        {"name": "main", "replicas": 1, "template": TEMPLATE},
                        {"name": "work", "replicas": 2, "template": TEMPLATE},
                    ],
                },
            )
        ],
        "Volcano, job_controller_actions.go, with a PodGroup",
    ),
    "StatefulSet": Owner(
        "3 replicas",
        stateful("OrderedReady"),
        "kube-controller-manager, stateful_set_control.go: the one before is ready",
    ),
    "StatefulSet with `Parallel`": Owner(
        "3 replicas", stateful("Parallel"), "kube-controller-manager, stateful_set_control.go"
    ),
}


def seen(objects: Iterable[dict[str, Any]]) -> tuple[Gang, list[Pod]]:
    """The gang of an owner, and its pods that there are before one of them has a node."""
    text = "\n---\n".join(json.dumps(each) for each in objects)
    core = Scheduler(Options())
    core.handle([*load(["-"], stdin=io.StringIO(text)).events, Synced()], 0.0)
    pods = sorted(core.world.pods.values(), key=lambda pod: pod.name)
    (gang,) = {pod.gang for pod in pods}
    spec = core.world.membership.spec(gang)
    assert spec is not None
    return spec, pods


def _counted(found: dict[str, int]) -> str:
    return ", ".join(f"{role or 'pod'} {count}" for role, count in found.items() if count)


def row(name: str, each: Owner) -> str:
    """One line of the table."""
    spec, pods = seen(each.objects)
    there = Counter("" if spec.kind == "Job" else role_of(pod, spec) for pod in pods)
    first = dict(spec.roles) if sum(count for _, count in spec.roles) == spec.min_member else {"": spec.min_member}
    later = {each.role: each.count - there[each.role] for each in spec.announced}
    cells = [name, each.text, _counted(dict(sorted(there.items()))), _counted(dict(sorted(first.items())))]
    return "| " + " | ".join([*cells, _counted(dict(sorted(later.items()))), each.source]) + " |"


def table() -> str:
    """The table."""
    header = ["owner", "of", "made before one has a node", "start together", "made later", "where that is written"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(row(name, each) for name, each in OWNERS.items())])


if __name__ == "__main__":
    print(table())
