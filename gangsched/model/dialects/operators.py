"""Gangs of other operators: how many pods their objects run, by what their specs say.

Sources: the API types of kubeflow/trainer v1.9 (PyTorchJob, TFJob, XGBoostJob, JAXJob, MPIJob v1), of
kubeflow/mpi-operator (MPIJob v2beta1), of ray-project/kuberay (RayCluster v1) and of kubernetes-sigs/lws
(LeaderWorkerSet v1). The minima are those that these operators give to the groups that they make for other schedulers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.owners import FAMILY, LEADER_WORKER_SET, WORKER, declared
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import Announced, Gang, PodShape
from gangsched.model.times import parse_time

_KUBEFLOW, _RAY = "kubeflow.org", "ray.io"
#: No gang has more members than this.
_MOST = 100_000
_SIZE, _LEADER_FIRST = "spec.leaderWorkerTemplate.size", "LeaderReady"


class Operator(NamedTuple):
    """A kind of objects that own pods: ``plural`` of an API group in some versions, the newest first."""

    kind: str
    plural: str
    group: str
    versions: tuple[str, ...] = ("v1",)

    @property
    def family(self) -> str:
        """The family of its gangs; kinds of one group may share names."""
        return f"{self.plural}.{self.group}"


OPERATORS: Mapping[str, Operator] = {
    each.kind: each
    for each in (
        Operator("PyTorchJob", "pytorchjobs", _KUBEFLOW),
        Operator("TFJob", "tfjobs", _KUBEFLOW),
        Operator("XGBoostJob", "xgboostjobs", _KUBEFLOW),
        Operator("JAXJob", "jaxjobs", _KUBEFLOW),
        Operator("MPIJob", "mpijobs", _KUBEFLOW, ("v2beta1", "v1")),
        Operator("RayCluster", "rayclusters", _RAY),
        Operator(LEADER_WORKER_SET, "leaderworkersets", FAMILY),
    )
}
#: ``group/version`` and kind of each family, for references to its objects.
FAMILIES: Mapping[str, Operator] = {each.family: each for each in OPERATORS.values()}


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


class LeaderWorkerTemplate(wire.Wire):
    """The pods of each group of a LeaderWorkerSet."""

    size: int = 1
    worker_template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class OperatorSpec(wire.Wire):
    """The fields of all kinds from which the number of pods follows."""

    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None
    launcher_creation_policy: str = ""
    pytorch_replica_specs: dict[str, ReplicaSpec] | None = None
    tf_replica_specs: dict[str, ReplicaSpec] | None = None
    xgb_replica_specs: dict[str, ReplicaSpec] | None = None
    jax_replica_specs: dict[str, ReplicaSpec] | None = None
    mpi_replica_specs: dict[str, ReplicaSpec] | None = None
    worker_group_specs: list[WorkerGroup] | None = None
    enable_in_tree_autoscaling: bool = False
    startup_policy: str = ""
    leader_worker_template: LeaderWorkerTemplate = msgspec.field(default_factory=LeaderWorkerTemplate)


class OperatorObject(wire.Object):
    """One object of any of these kinds."""

    spec: OperatorSpec = msgspec.field(default_factory=OperatorSpec)


def gang_from_object(
    kind: str, raw: OperatorObject, shape_of: Callable[[wire.ObjectMeta, wire.PodSpec], PodShape]
) -> Gang:
    """The gang of all pods of an object, or of each group of a LeaderWorkerSet. ``shape_of`` makes the shape of pods of
    a template. Raises :class:`FieldError`.
    """
    meta, operator = raw.metadata, OPERATORS[kind]
    announced: tuple[Announced, ...] = ()
    if operator.group == _RAY:
        minimum = _ray(raw.spec)
    elif operator.group == _KUBEFLOW:
        minimum = _kubeflow(raw.spec)
    else:
        minimum, template = _count(raw.spec.leader_worker_template.size, _SIZE), raw.spec.leader_worker_template
        if raw.spec.startup_policy == _LEADER_FIRST and minimum <= MAX_WITHOUT_PODS:
            pod = template.worker_template
            pod_meta = msgspec.structs.replace(pod.metadata, namespace=meta.namespace)
            announced, minimum = (Announced(WORKER, minimum - 1, shape_of(pod_meta, pod.spec)),), 1
    return Gang(
        operator.family,
        meta.namespace,
        meta.name,
        kind=kind,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        generation=meta.generation,
        min_member=max(1, min(_MOST, minimum)),
        declared=declared(meta.annotations or {}),
        announced=announced,
    )


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


def _ray(spec: OperatorSpec) -> int:
    """The head, and the workers of all groups: with the autoscaler only those that always run."""
    return 1 + sum(_workers(spec, spec.worker_group_specs or ()))


def _workers(spec: OperatorSpec, groups: Iterable[WorkerGroup]) -> Iterable[int]:
    for index, each in enumerate(groups):
        path = f"spec.workerGroupSpecs[{index}]"
        name, wanted = "replicas", each.replicas
        if spec.enable_in_tree_autoscaling or wanted is None:
            name, wanted = "minReplicas", each.min_replicas
        if not each.suspend:
            yield _count(wanted or 0, f"{path}.{name}") * _count(each.num_of_hosts, f"{path}.numOfHosts")


def _count(value: int, field: str) -> int:
    if not 0 <= value <= _MOST:
        raise FieldError(field, invalid.not_between(value, 0, _MOST))
    return value
