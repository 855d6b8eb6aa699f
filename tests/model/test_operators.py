"""How many pods of an operator's object start together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import role_of
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.dialects.operators import OPERATORS, gang_from_object
from gangsched.model.errors import FieldError
from gangsched.model.parts import members_to_keep
from gangsched.model.records import Gang, GangId
from tests.builders import pod


def gang(kind: str, spec: dict[str, Any], **meta: Any) -> Gang:
    """What an object of this kind says."""
    raw = {"metadata": {"name": "train", "namespace": "ns", "uid": "u", **meta}, "spec": spec}
    return gang_from_object(kind, msgspec.convert(raw, OperatorObject), Converter().shape_of_template)


def roles(**counts: int | None) -> dict[str, Any]:
    """Replica specs as Kubeflow has them."""
    return {role: {"replicas": n, "template": {"spec": {"containers": [{}]}}} for role, n in counts.items()}


@pytest.mark.parametrize(
    ("kind", "spec", "members"),
    [
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Master=1, Worker=3)}, 4),
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Master=None, Worker=3)}, 4),
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Worker=4), "elasticPolicy": {"minReplicas": 2}}, 2),
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Worker=4), "elasticPolicy": {"minReplicas": 6}}, 4),
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Master=1, Worker=4), "elasticPolicy": {"maxReplicas": 9}}, 5),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": roles(Worker=4), "runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
            3,
        ),
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Worker=4), "runPolicy": {"schedulingPolicy": {"queue": "q"}}}, 4),
        ("TFJob", {"tfReplicaSpecs": roles(PS=2, Chief=1, Worker=3)}, 6),
        ("XGBoostJob", {"xgbReplicaSpecs": roles(Master=1, Worker=2)}, 3),
        ("JAXJob", {"jaxReplicaSpecs": roles(Worker=2)}, 2),
        ("PaddleJob", {"paddleReplicaSpecs": roles(Master=1, Worker=4), "elasticPolicy": {"minReplicas": 2}}, 3),
        ("TrainJob", {"trainer": {"numNodes": 4}}, 1),
        ("MPIJob", {"mpiReplicaSpecs": roles(Launcher=1, Worker=2)}, 3),
        (
            "MPIJob",
            {"mpiReplicaSpecs": roles(Launcher=1, Worker=2), "launcherCreationPolicy": "WaitForWorkersReady"},
            2,
        ),
        ("RayCluster", {}, 1),
        ("RayCluster", {"workerGroupSpecs": [{"replicas": 2, "numOfHosts": 2}, {"replicas": 1, "minReplicas": 0}]}, 6),
        ("RayCluster", {"workerGroupSpecs": [{"replicas": 2, "suspend": True}, {"minReplicas": 3}]}, 4),
        ("RayCluster", {"enableInTreeAutoscaling": True, "workerGroupSpecs": [{"replicas": 4, "minReplicas": 1}]}, 2),
        ("RayJob", {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 2}]}}, 3),
        ("RayJob", {"clusterSelector": {"ray.io/cluster": "there"}}, 1),
        ("PyTorchJob", {}, 1),
    ],
)
def test_how_many_start_together(kind: str, spec: dict[str, Any], members: int) -> None:
    """What the operator asks of other gang schedulers for such an object."""
    found = gang(kind, spec)
    assert (found.family, found.kind, found.key, found.min_member) == (
        OPERATORS[kind].family,
        kind,
        "ns/train",
        members,
    )
    assert found.declared is None


@pytest.mark.parametrize(
    ("kind", "spec", "found"),
    [
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": roles(Worker=4, Master=1), "elasticPolicy": {"minReplicas": 2}},
            {"master": 1, "worker": 2},
        ),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": roles(Worker=4), "elasticPolicy": {"minReplicas": 2}},
            {"worker-0": 1, "worker": 1},
        ),
        (
            "TFJob",
            {"tfReplicaSpecs": roles(Worker=4, PS=2, Chief=1), "runPolicy": {"schedulingPolicy": {"minAvailable": 4}}},
            {"chief": 1, "ps": 2, "worker": 1},
        ),
        (
            "TFJob",
            {"tfReplicaSpecs": roles(Worker=4, PS=2, Chief=1), "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}},
            {"chief": 1, "ps": 1},
        ),
        (
            "MPIJob",
            {"mpiReplicaSpecs": roles(Worker=4, Launcher=1), "runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
            {"launcher": 1, "worker": 2},
        ),
        (
            "JAXJob",
            {"jaxReplicaSpecs": roles(Worker=4), "runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
            {"worker-0": 1, "worker": 2},
        ),
        (
            "RayCluster",
            {
                "enableInTreeAutoscaling": True,
                "workerGroupSpecs": [
                    {"groupName": "cpu", "replicas": 4, "minReplicas": 1},
                    {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "numOfHosts": 2},
                    {"groupName": "spot", "replicas": 2},
                ],
            },
            {"head": 1, "worker-cpu": 1, "worker-gpu": 4},
        ),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 3}}, {"leader": 1, "worker": 2}),
        ("SparkApplication", {"executor": {"instances": 3}}, {"driver": 1}),
    ],
)
def test_each_role_has_a_minimum_of_its_own(kind: str, spec: dict[str, Any], found: dict[str, int]) -> None:
    """What leads is among those that start, and each group of workers has the least number that it runs with."""
    made = gang(kind, spec)
    assert dict(made.roles) == found
    assert made.min_member == sum(found.values())


@pytest.mark.parametrize(
    ("bounds", "workers"),
    [
        ({"replicas": 10, "maxReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 3}, 3),
        ({"minReplicas": 3}, 3),
        ({"replicas": 1, "minReplicas": 3, "maxReplicas": 2}, 3),
        ({"replicas": 2, "minReplicas": 1, "maxReplicas": 4}, 2),
    ],
)
def test_kuberay_keeps_replicas_between_their_bounds(bounds: dict[str, int], workers: int) -> None:
    """A gang that waited for more workers than KubeRay makes would wait for ever."""
    assert gang("RayCluster", {"workerGroupSpecs": [{"groupName": "w", **bounds}]}).min_member == 1 + workers


def test_a_minimum_above_the_size_is_the_size() -> None:
    """More members than there will be never come."""
    spec = {"pytorchReplicaSpecs": roles(Worker=2), "runPolicy": {"schedulingPolicy": {"minAvailable": 5}}}
    assert gang("PyTorchJob", spec).min_member == 2


def test_a_launcher_that_waits_for_its_workers_is_announced() -> None:
    """The operator makes it when they are ready; a gang that runs needs it as it needs the workers."""
    spec = {"mpiReplicaSpecs": roles(Launcher=1, Worker=2), "launcherCreationPolicy": "WaitForWorkersReady"}
    made = gang("MPIJob", spec)
    assert [(each.role, each.count) for each in made.announced] == [("launcher", 1)]
    assert members_to_keep(made) == (3, {"worker": 2, "launcher": 1})


def test_the_executors_of_spark_are_announced() -> None:
    """With the memory that Spark asks for beyond the heap; the gang runs with fewer of them, too."""
    executor = {"instances": 2, "cores": 2, "memory": "4g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}}
    made = gang("SparkApplication", {"type": "Python", "driver": {"memory": "512m"}, "executor": executor})
    (executors,) = made.announced
    assert (executors.role, executors.count, members_to_keep(made)) == ("executor", 2, (1, {"driver": 1}))
    assert dict(executors.shape.requests) == {"cpu": 2000, "memory": (4096 + 1638) << 20, "nvidia.com/gpu": 1}
    with pytest.raises(FieldError, match="not a size as Java writes it"):
        gang("SparkApplication", {"executor": {"memory": "4Gi"}})


@pytest.mark.parametrize(
    ("kind", "labels", "name", "role"),
    [
        ("PyTorchJob", {"training.kubeflow.org/replica-type": "master"}, "x", "master"),
        ("PyTorchJob", {}, "train-worker-3", "worker"),
        ("PyTorchJob", {"training.kubeflow.org/replica-type": "worker"}, "train-worker-0", "worker-0"),
        ("MPIJob", {"training.kubeflow.org/job-role": "launcher"}, "train-launcher-x7x2b", "launcher"),
        ("RayCluster", {"ray.io/node-type": "head", "ray.io/group": "headgroup"}, "x", "head"),
        ("RayCluster", {"ray.io/node-type": "worker", "ray.io/group": "gpu"}, "x", "worker-gpu"),
        ("RayJob", {}, "train-x7x2b", "submitter"),
        ("SparkApplication", {"spark-role": "executor"}, "x", "executor"),
    ],
)
def test_the_role_of_a_pod(kind: str, labels: dict[str, str], name: str, role: str) -> None:
    """The labels of its operator say it, else its name."""
    family = OPERATORS[kind].family
    found = pod(name, namespace="ns").labels(labels).obj()
    member = msgspec.structs.replace(found, gang=GangId(family, "ns", "train", "py-gang-scheduler"))
    assert role_of(member, Gang(family, "ns", "train", roles=(("worker-0", 1),))) == role


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Worker=-1)}, "spec.pytorchReplicaSpecs.Worker.replicas"),
        ("TFJob", {"tfReplicaSpecs": roles(PS=100_001)}, "spec.tfReplicaSpecs.PS.replicas"),
        ("PyTorchJob", {"pytorchReplicaSpecs": roles(Worker=1), "elasticPolicy": {"minReplicas": -1}}, "minReplicas"),
        ("MPIJob", {"runPolicy": {"schedulingPolicy": {"minAvailable": -1}}}, "schedulingPolicy.minAvailable"),
        ("RayCluster", {"workerGroupSpecs": [{}, {"replicas": -2}]}, "spec.workerGroupSpecs[1].replicas"),
        (
            "RayJob",
            {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": -2}]}},
            "spec.rayClusterSpec.workerGroupSpecs[0].replicas",
        ),
        (
            "RayCluster",
            {"workerGroupSpecs": [{"replicas": 1, "numOfHosts": -2}]},
            "spec.workerGroupSpecs[0].numOfHosts",
        ),
    ],
)
def test_counts_that_make_no_sense_are_named(kind: str, spec: dict[str, Any], field: str) -> None:
    """With the path of the field."""
    with pytest.raises(FieldError, match="is not between 0 and 100000") as caught:
        gang(kind, spec)
    assert caught.value.field.endswith(field)


def test_a_gang_has_its_limits() -> None:
    """Many roles at their limits are no more than one."""
    assert gang("TFJob", {"tfReplicaSpecs": roles(PS=100_000, Worker=100_000)}).min_member == 100_000


def test_the_annotation_of_an_object() -> None:
    """It says whether the object is a gang, and nothing else is accepted."""
    assert gang("TFJob", {}, annotations={"gangsched.dev/gang": "true"}).declared is True
    with pytest.raises(FieldError, match="neither true nor false"):
        gang("TFJob", {}, annotations={"gangsched.dev/gang": "on"})


def lws(**spec: Any) -> Gang:
    """What a LeaderWorkerSet says whose workers ask for two cores."""
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    template = {"size": 4, "workerTemplate": {"spec": {"containers": [container], "nodeSelector": {"a": "b"}}}}
    return gang("LeaderWorkerSet", {"leaderWorkerTemplate": template, **spec})


def test_a_leader_worker_set_that_starts_its_leaders_first_announces_the_workers() -> None:
    """They are created when the leader is ready; without that policy a group starts together."""
    assert (lws().min_member, lws().announced) == (4, ())
    found = lws(startupPolicy="LeaderReady")
    (workers,) = found.announced
    assert (found.min_member, workers.role, workers.count) == (1, "worker", 3)
    assert (dict(workers.shape.requests), workers.shape.node_selector) == ({"cpu": 2000}, (("a", "b"),))


HEAD = {"metadata": {"annotations": {"gangsched.dev/gang": "true"}}, "spec": {"containers": [{"image": "ray:1"}]}}


def ray_job(**spec: Any) -> Gang:
    """What a RayJob of a head and two workers says."""
    cluster = {"headGroupSpec": {"template": HEAD}, "workerGroupSpecs": [{"replicas": 2}]}
    return gang("RayJob", {"rayClusterSpec": cluster, **spec})


def test_a_ray_job_announces_the_pod_that_submits_its_work() -> None:
    """With the requests of its template, or those that KubeRay gives it; in other modes there is no such pod."""
    (submitter,) = ray_job().announced
    assert (submitter.role, submitter.count, submitter.shape.images) == ("submitter", 1, ("ray:1",))
    assert dict(submitter.shape.requests) == {"cpu": 500, "memory": 200 << 20}
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}
    (submitter,) = ray_job(submissionMode="K8sJobMode", submitterPodTemplate=template).announced
    assert dict(submitter.shape.requests) == {"cpu": 2000}
    assert not any(ray_job(submissionMode=mode).announced for mode in ("HTTPMode", "SidecarMode", "InteractiveMode"))


def test_the_template_of_the_head_declares_a_ray_job() -> None:
    """What submits its work is of another template."""
    assert ray_job().declared is True
    assert gang("RayJob", {"rayClusterSpec": {}}).declared is None


def stateful(*, annotated: bool = True, **spec: Any) -> Gang:
    """What a StatefulSet of three pods says."""
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    notes = {"gangsched.dev/gang": "true"} if annotated else {}
    template = {"metadata": {"annotations": notes}, "spec": {"containers": [container]}}
    raw = {"metadata": {"name": "db", "namespace": "ns"}, "spec": {"replicas": 3, "template": template, **spec}}
    return gang_from_object("StatefulSet", msgspec.convert(raw, wire.StatefulSet), Converter().shape_of_template)


def test_how_many_of_a_stateful_set_start_together() -> None:
    """All that are created at once; otherwise the first one, which announces the others."""
    found = stateful(podManagementPolicy="Parallel")
    assert (found.min_member, found.announced) == (3, ())
    found = stateful()
    assert (found.min_member, [(each.role, each.count) for each in found.announced]) == (1, [("replica", 3)])
    assert stateful(annotated=False).announced == ()
    with pytest.raises(FieldError, match="is not between 0 and 100000"):
        stateful(replicas=-1)


@pytest.mark.parametrize(
    ("kind", "field", "policy", "survives"),
    [
        *(
            ("PyTorchJob", "pytorchReplicaSpecs", p, p != "Never")
            for p in ("", "Always", "OnFailure", "ExitCode", "Never")
        ),
        *(("PaddleJob", "paddleReplicaSpecs", p, p != "Never") for p in ("", "OnFailure", "Never")),
        *(
            ("JAXJob", "jaxReplicaSpecs", p, p in ("OnFailure", "ExitCode"))
            for p in ("", "OnFailure", "ExitCode", "Never")
        ),
        *(("XGBoostJob", "xgbReplicaSpecs", p, p == "ExitCode") for p in ("", "OnFailure", "ExitCode", "Never")),
        *(("TFJob", "tfReplicaSpecs", p, False) for p in ("", "OnFailure", "ExitCode", "Always")),
        *(("MPIJob", "mpiReplicaSpecs", p, True) for p in ("", "Never")),
    ],
)
def test_which_jobs_survive_the_loss_of_a_pod(kind: str, field: str, policy: str, *, survives: bool) -> None:
    """As the ``restartPolicy`` of the role says, where the kind heeds it, and as its default does."""
    specs = roles(Worker=2)
    if policy:
        specs["Worker"]["restartPolicy"] = policy
    assert ("worker" not in gang(kind, {field: specs}).fragile) == survives


def test_each_role_has_its_own_restart_policy() -> None:
    """A master that may not be lost says nothing of its workers."""
    specs = roles(Master=1, Worker=3)
    specs["Master"]["restartPolicy"] = "Never"
    assert gang("PyTorchJob", {"pytorchReplicaSpecs": specs}).fragile == ("master",)


@pytest.mark.parametrize(
    ("kind", "limit", "fragile"),
    [
        ("PyTorchJob", 0, ("master", "worker", "worker-0")),
        ("PyTorchJob", 1, ()),
        ("MPIJob", 0, ()),  # it is the limit of the Job of its launcher
    ],
)
def test_a_backoff_limit_of_zero(kind: str, limit: int, fragile: tuple[str, ...]) -> None:
    """The first failed pod ends an object of training-operator; a higher limit counts restarts of containers."""
    field = "pytorchReplicaSpecs" if kind == "PyTorchJob" else "mpiReplicaSpecs"
    spec = {field: roles(Master=1, Worker=3), "runPolicy": {"backoffLimit": limit}}
    assert gang(kind, spec).fragile == fragile


@pytest.mark.parametrize(
    ("policy", "fragile"), [(None, ("driver",)), ("Never", ("driver",)), ("OnFailure", ()), ("Always", ())]
)
def test_spark_is_submitted_again_or_not(policy: str | None, fragile: tuple[str, ...]) -> None:
    """An application that is not submitted again fails with its driver; executors are replaced in any case."""
    spec = {"type": "Python"} | ({"restartPolicy": {"type": policy}} if policy else {})
    assert gang("SparkApplication", spec).fragile == fragile


def test_a_restart_policy_of_another_form_is_no_mistake() -> None:
    """What other kinds call so is not read."""
    assert gang("RayCluster", {"restartPolicy": "Always"}).fragile == ()
