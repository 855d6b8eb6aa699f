"""Gangs of other operators: how many pods their objects run, by what their specs say.

Sources: the API types of kubeflow/trainer v1.9 (PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, MPIJob v1) and v2
(TrainJob), of kubeflow/mpi-operator (MPIJob v2beta1), of ray-project/kuberay (RayCluster and RayJob v1) and of
kubernetes-sigs/lws (LeaderWorkerSet v1). The minima are those that these operators give to the groups that they make
for other schedulers.

Pods that are created when others run are announced: the workers of a LeaderWorkerSet that starts its leaders first, the
pods of a StatefulSet after its first one, unless it creates all at once, and the pod that submits the work of a RayJob,
for which KubeRay reserves resources in a group of Volcano without counting it as one of those that start together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import PodShape
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import owner_of
from gangsched.model.dialects.owners import FAMILY, LEADER_WORKER_SET, WORKER, Kind, declared, no_group
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import Announced, Gang
from gangsched.model.times import parse_time

_KUBEFLOW, RAY = "kubeflow.org", "ray.io"
#: No gang has more members than this.
_MOST = 100_000
_SIZE, _LEADER_FIRST = "spec.leaderWorkerTemplate.size", "LeaderReady"
RAY_JOB, STATEFUL_SET, TRAIN_JOB = "RayJob", "StatefulSet", "TrainJob"
#: On pods of Ray clusters: head, or worker.
RAY_NODE_TYPE = "ray.io/node-type"
SUBMITTER, REPLICA = "submitter", "replica"
#: What the pod requests that submits the work of a RayJob which says nothing of it.
_SUBMITTER_ASKS: Mapping[str, str | int | float] = {"cpu": "500m", "memory": "200Mi"}


class Operator(NamedTuple):
    """A kind of objects that own pods, or own such objects: ``plural`` of an API group in some versions, the newest
    first. The setting, or their namespace, declares them gangs as it does objects of ``counts_as``; without that only
    their annotation does. Those that objects of ``part_of`` own are not gangs of their own. ``fails`` says what
    becomes of one of which a running pod is deleted, where it does not run again: it ``would`` fail, or ``may``, as its
    ``restartPolicy`` says.
    """

    kind: str
    plural: str
    group: str
    counts_as: Kind | None = None
    versions: tuple[str, ...] = ("v1",)
    part_of: str = ""
    fails: Literal["", "would", "may"] = ""

    @property
    def family(self) -> str:
        """The family of its gangs; kinds of one group may share names."""
        return f"{self.plural}.{self.group}"


OPERATORS: Mapping[str, Operator] = {
    each.kind: each
    for each in (
        Operator("PyTorchJob", "pytorchjobs", _KUBEFLOW, "PyTorchJob"),
        Operator("TFJob", "tfjobs", _KUBEFLOW, "TFJob", fails="would"),
        Operator("XGBoostJob", "xgboostjobs", _KUBEFLOW, "XGBoostJob", fails="may"),
        Operator("PaddleJob", "paddlejobs", _KUBEFLOW, "PaddleJob"),
        Operator("JAXJob", "jaxjobs", _KUBEFLOW, "JAXJob", fails="may"),
        Operator("MPIJob", "mpijobs", _KUBEFLOW, "MPIJob", ("v2beta1", "v1")),
        Operator(TRAIN_JOB, "trainjobs", "trainer.kubeflow.org", "JobSet", ("v1alpha1",)),
        Operator("RayCluster", "rayclusters", RAY, "RayCluster", part_of=RAY_JOB),
        Operator(RAY_JOB, "rayjobs", RAY, "RayCluster"),
        Operator(LEADER_WORKER_SET, "leaderworkersets", FAMILY, LEADER_WORKER_SET),
        Operator(STATEFUL_SET, "statefulsets", "apps"),
    )
}
#: ``group/version`` and kind of each family, for references to its objects.
FAMILIES: Mapping[str, Operator] = {each.family: each for each in OPERATORS.values()}
#: Which members of these gangs are announced, by the labels that their operators put on pods.
DIALECTS = (
    Dialect(OPERATORS[RAY_JOB].family, no_group, role_of=lambda pod, _: pod.labels.get(RAY_NODE_TYPE, SUBMITTER)),
    Dialect(OPERATORS[STATEFUL_SET].family, no_group, role_of=lambda _pod, _gang: REPLICA),
)


class ReplicaSpec(wire.Wire):
    """Pods of one role."""

    replicas: int | None = None


class SchedulingPolicy(wire.Wire):
    """What its users want of a gang scheduler."""

    min_available: int | None = None


class RunPolicy(wire.Wire):
    """How all roles run."""

    scheduling_policy: SchedulingPolicy | None = None


class ElasticPolicy(wire.Wire):
    """Fewer workers than there are replicas may do."""

    min_replicas: int | None = None


class WorkerGroup(wire.Wire):
    """Workers of one kind in a RayCluster; each replica is ``num_of_hosts`` pods."""

    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool = False


class HeadGroup(wire.Wire):
    """The head of a RayCluster."""

    template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class RayClusterSpec(wire.Wire):
    """A RayCluster, also as part of a RayJob."""

    head_group_spec: HeadGroup = msgspec.field(default_factory=HeadGroup)
    worker_group_specs: list[WorkerGroup] | None = None
    enable_in_tree_autoscaling: bool = False


class LeaderWorkerTemplate(wire.Wire):
    """The pods of each group of a LeaderWorkerSet."""

    size: int = 1
    worker_template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class OperatorSpec(RayClusterSpec):
    """The fields of all kinds from which the number of pods follows."""

    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None
    launcher_creation_policy: str = ""
    pytorch_replica_specs: dict[str, ReplicaSpec] | None = None
    tf_replica_specs: dict[str, ReplicaSpec] | None = None
    xgb_replica_specs: dict[str, ReplicaSpec] | None = None
    paddle_replica_specs: dict[str, ReplicaSpec] | None = None
    jax_replica_specs: dict[str, ReplicaSpec] | None = None
    mpi_replica_specs: dict[str, ReplicaSpec] | None = None
    ray_cluster_spec: RayClusterSpec | None = None
    submission_mode: str = ""
    submitter_pod_template: wire.PodTemplate | None = None
    startup_policy: str = ""
    leader_worker_template: LeaderWorkerTemplate = msgspec.field(default_factory=LeaderWorkerTemplate)


class OperatorObject(wire.Object):
    """One object of any of these kinds but StatefulSets."""

    spec: OperatorSpec = msgspec.field(default_factory=OperatorSpec)


class _Members(NamedTuple):
    """So many start together; ``more`` is how many of this role there will be, made of a template when those run."""

    minimum: int
    role: str = ""
    more: int = 0
    template: wire.PodTemplate | None = None


#: Makes the shape of pods of a template.
ShapeOf: TypeAlias = Callable[[wire.ObjectMeta, wire.PodSpec], PodShape]


def gang_from_object(kind: str, raw: OperatorObject | wire.StatefulSet, shape_of: ShapeOf) -> Gang:
    """The gang of all pods of an object, or of each group of a LeaderWorkerSet. Raises :class:`FieldError`."""
    meta, operator, said = raw.metadata, OPERATORS[kind], declared(raw.metadata.annotations or {})
    if isinstance(raw, wire.StatefulSet):
        if said is None:
            said = declared(raw.spec.template.metadata.annotations or {})
        members = _stateful(raw.spec) if said else _Members(1)
    elif kind == RAY_JOB:
        members, cluster = _ray_job(raw.spec), raw.spec.ray_cluster_spec
        if said is None and cluster is not None:  # the pod that submits is of a template of its own
            said = declared(cluster.head_group_spec.template.metadata.annotations or {})
    elif operator.group == RAY:
        members = _Members(_ray(raw.spec))
    elif operator.group == _KUBEFLOW:
        members = _Members(_kubeflow(raw.spec))
    else:
        members = _leader_worker(raw.spec)
    announced: tuple[Announced, ...] = ()
    if members.template is not None:
        pod_meta = msgspec.structs.replace(members.template.metadata, namespace=meta.namespace)
        announced = (Announced(members.role, members.more, shape_of(pod_meta, members.template.spec)),)
    return Gang(
        operator.family,
        meta.namespace,
        meta.name,
        kind=kind,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        generation=meta.generation,
        min_member=max(1, min(_MOST, members.minimum)),
        declared=said,
        announced=announced,
        owner=owner_of(meta),
    )


def _stateful(spec: wire.StatefulSetSpec) -> _Members:
    """All replicas, or the first one if each is created when the one before is ready."""
    size = _count(1 if spec.replicas is None else spec.replicas, "spec.replicas")
    if spec.pod_management_policy == "Parallel" or size > MAX_WITHOUT_PODS:
        return _Members(size)
    return _Members(1, REPLICA, size, spec.template)


def _leader_worker(spec: OperatorSpec) -> _Members:
    """All pods of a group, or its leader if the workers are created when that is ready."""
    template = spec.leader_worker_template
    size = _count(template.size, _SIZE)
    if spec.startup_policy != _LEADER_FIRST or size > MAX_WITHOUT_PODS:
        return _Members(size)
    return _Members(1, WORKER, size - 1, template.worker_template)


def _ray_job(spec: OperatorSpec) -> _Members:
    """Its cluster; the pod of a Job that submits its work is created when that is ready. A RayJob without a cluster of
    its own has only this.
    """
    cluster = spec.ray_cluster_spec
    if cluster is None:
        return _Members(1)
    try:
        minimum = _ray(cluster)
    except FieldError as error:
        raise FieldError(error.field.replace("spec", "spec.rayClusterSpec", 1), error.message) from None
    if spec.submission_mode not in ("", "K8sJobMode"):
        return _Members(minimum)
    return _Members(minimum, SUBMITTER, 1, spec.submitter_pod_template or _submitter(cluster))


def _submitter(cluster: RayClusterSpec) -> wire.PodTemplate:
    """What KubeRay makes of a RayJob that says nothing of the pod that submits its work."""
    image = next((each.image for each in cluster.head_group_spec.template.spec.containers), "")
    asked = wire.ResourceRequirements(requests={**_SUBMITTER_ASKS})
    return wire.PodTemplate(spec=wire.PodSpec(containers=[wire.Container(image=image, resources=asked)]))


def _kubeflow(spec: OperatorSpec) -> int:
    """``schedulingPolicy.minAvailable``, else all replicas, of elastic workers only the least number. A launcher that
    waits for its workers starts after them.
    """
    policy = spec.run_policy.scheduling_policy if spec.run_policy is not None else None
    if policy is not None and policy.min_available is not None:
        return _count(policy.min_available, "spec.runPolicy.schedulingPolicy.minAvailable")
    least = spec.elastic_policy.min_replicas if spec.elastic_policy is not None else None
    size = 0
    for field, roles in (
        ("pytorchReplicaSpecs", spec.pytorch_replica_specs),
        ("tfReplicaSpecs", spec.tf_replica_specs),
        ("xgbReplicaSpecs", spec.xgb_replica_specs),
        ("paddleReplicaSpecs", spec.paddle_replica_specs),
        ("jaxReplicaSpecs", spec.jax_replica_specs),
        ("mpiReplicaSpecs", spec.mpi_replica_specs),
    ):
        for role, each in (roles or {}).items():
            if role == "Launcher" and spec.launcher_creation_policy == "WaitForWorkersReady":
                continue
            wanted = 1 if each.replicas is None else _count(each.replicas, f"spec.{field}.{role}.replicas")
            elastic = role == "Worker" and least is not None
            size += min(wanted, _count(least or 0, "spec.elasticPolicy.minReplicas")) if elastic else wanted
    return size


def _ray(spec: RayClusterSpec) -> int:
    """The head, and the workers of all groups: with the autoscaler only those that always run."""
    return 1 + sum(_workers(spec, spec.worker_group_specs or ()))


def _workers(spec: RayClusterSpec, groups: Iterable[WorkerGroup]) -> Iterable[int]:
    for index, each in enumerate(groups):
        path = f"spec.workerGroupSpecs[{index}]"
        name, wanted = "replicas", each.replicas
        if spec.enable_in_tree_autoscaling or wanted is None:
            name, wanted = "minReplicas", each.min_replicas
        if not each.suspend:
            yield _count(wanted or 0, f"{path}.{name}") * _count(each.num_of_hosts, f"{path}.numOfHosts")


def _count(value: int, field: str) -> int:
    if not 0 <= value <= _MOST:
        raise FieldError(field, invalid.not_between(value=value, low=0, high=_MOST))
    return value
