"""Gangs of other operators: what their objects run, by what their specs say.

How many of which role start together is in :mod:`gangsched.model.dialects.roles`. Pods that are created when others run
or have a node are announced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from gangsched.model import wire
from gangsched.model.constraints import PodShape
from gangsched.model.dialects import roles, spark
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import owner_of
from gangsched.model.dialects.operator_specs import OperatorObject, has_ended
from gangsched.model.dialects.owners import FAMILY, LEADER_WORKER_SET, Kind, declared, no_group
from gangsched.model.dialects.restarts import fragile_roles
from gangsched.model.dialects.roles import FIRST_WORKER, MOST, REPLICA, SUBMITTER, WORKER, Role
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import QUEUED_JOBSET
from gangsched.model.records import QUEUED_JOB, Announced, Gang, Pod
from gangsched.model.times import parse_time

KUBEFLOW, RAY = "kubeflow.org", "ray.io"
RAY_CLUSTER, RAY_JOB, STATEFUL_SET, TRAIN_JOB = "RayCluster", "RayJob", "StatefulSet", "TrainJob"
#: On pods of Ray clusters: head, or worker, and the group of a worker.
RAY_NODE_TYPE, RAY_GROUP = "ray.io/node-type", "ray.io/group"
#: On pods of Kubeflow's operators: the role in lower case, by one or the other, and the number.
REPLICA_TYPE, JOB_ROLE = "training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"
REPLICA_INDEX = "training.kubeflow.org/replica-index"


class Operator(NamedTuple):
    """A kind of objects that own pods, or own such objects: ``plural`` of an API group in some versions, the newest
    first. The setting, or their namespace, declares them gangs as it does objects of ``counts_as``; without that only
    their annotation does. Objects that are owned by objects of ``part_of`` are not gangs of their own. ``fails`` says
    if an unknown object fails when a running pod of it is deleted: it ``would`` fail, or ``may``, by its
    ``restartPolicy`` (:mod:`.restarts`).
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
        Operator("PyTorchJob", "pytorchjobs", KUBEFLOW, "PyTorchJob"),
        Operator("TFJob", "tfjobs", KUBEFLOW, "TFJob", fails="would"),
        Operator("XGBoostJob", "xgboostjobs", KUBEFLOW, "XGBoostJob", fails="may"),
        Operator("PaddleJob", "paddlejobs", KUBEFLOW, "PaddleJob"),
        Operator("JAXJob", "jaxjobs", KUBEFLOW, "JAXJob", fails="may"),
        Operator("MPIJob", "mpijobs", KUBEFLOW, "MPIJob", ("v2beta1", "v1")),
        Operator(TRAIN_JOB, "trainjobs", "trainer.kubeflow.org", "JobSet", ("v1alpha1",)),
        Operator(RAY_CLUSTER, "rayclusters", RAY, "RayCluster", part_of=RAY_JOB),
        Operator(RAY_JOB, "rayjobs", RAY, "RayCluster"),
        Operator(LEADER_WORKER_SET, "leaderworkersets", FAMILY, LEADER_WORKER_SET),
        Operator(spark.APPLICATION, "sparkapplications", spark.GROUP, versions=("v1beta2",), fails="may"),
        Operator(STATEFUL_SET, "statefulsets", "apps"),
    )
}
#: Of this kind the controller counts in its group object members that it makes when the others run, with
#: ``WaitForWorkersReady`` (mpi-operator, pkg/controller/podgroup.go).
COUNTS_ALL = "MPIJob"
#: ``group/version`` and kind of each family, for references to its objects.
FAMILIES: Mapping[str, Operator] = {each.family: each for each in OPERATORS.values()}


def _kubeflow_role(pod: Pod, gang: Gang) -> str:
    """By the labels of the operator, else by the name that it gives: ``<object>-<role>-<index>``."""
    role = pod.labels.get(REPLICA_TYPE) or pod.labels.get(JOB_ROLE) or ""
    index = pod.labels.get(REPLICA_INDEX, "")
    prefix = f"{gang.name}-"
    if not role and pod.name.startswith(prefix):
        role = pod.name.removeprefix(prefix).partition("-")[0]
    if not index:
        index = pod.name.rpartition("-")[2]
    role = role.lower()
    leads = role == WORKER and index == "0" and any(name == FIRST_WORKER for name, _ in gang.roles)
    return FIRST_WORKER if leads else role


def _ray_role(pod: Pod, _gang: Gang) -> str:
    node_type, group = pod.labels.get(RAY_NODE_TYPE, ""), pod.labels.get(RAY_GROUP, "")
    if not node_type:
        return SUBMITTER
    return f"{WORKER}-{group}" if node_type == WORKER and group else node_type


def _job_of(pod: Pod, _gang: Gang) -> str:
    return pod.owner.name if pod.owner is not None else ""


#: The roles of members of these gangs, by the labels that their operators put on pods. The roles of a Job or JobSet are
#: its Jobs.
DIALECTS = (
    *(Dialect(each.family, no_group, role_of=_kubeflow_role) for each in OPERATORS.values() if each.group == KUBEFLOW),
    *(Dialect(each.family, no_group, role_of=_ray_role) for each in OPERATORS.values() if each.group == RAY),
    Dialect(OPERATORS[spark.APPLICATION].family, no_group, role_of=lambda pod, _: pod.labels.get(spark.ROLE, "")),
    *(Dialect(family, no_group, role_of=_job_of) for family in (QUEUED_JOB, QUEUED_JOBSET)),
    Dialect(OPERATORS[STATEFUL_SET].family, no_group, role_of=lambda _pod, _gang: REPLICA),
)

#: Makes the shape of pods of a template.
ShapeOf: TypeAlias = Callable[[wire.ObjectMeta, wire.PodSpec], PodShape]


def roles_of(kind: str, raw: OperatorObject | wire.StatefulSet) -> list[Role]:
    """Return the roles of an object, or of each group of a LeaderWorkerSet. Raises :class:`FieldError`."""
    if isinstance(raw, wire.StatefulSet):
        return roles.stateful_set(raw.spec)
    if kind == RAY_JOB:
        return roles.ray_job(raw.spec)
    group = OPERATORS[kind].group
    if group == RAY:
        return roles.ray_cluster(raw.spec)
    if group == KUBEFLOW:
        return roles.kubeflow(raw.spec)
    if kind == LEADER_WORKER_SET:
        return roles.leader_worker(raw.spec, raw.metadata.annotations or {})
    return spark.roles_of(raw.spec) if kind == spark.APPLICATION else []


def gang_from_object(kind: str, raw: OperatorObject | wire.StatefulSet, shape_of: ShapeOf) -> Gang:
    """The gang of all pods of an object, or of each group of a LeaderWorkerSet. Raises :class:`FieldError`."""
    meta, found = raw.metadata, roles_of(kind, raw)
    said = _declared(kind, raw)
    if isinstance(raw, wire.StatefulSet) and not said:
        found = []  # each of its pods starts by itself
    minimum = sum(each.least for each in found)
    return Gang(
        OPERATORS[kind].family,
        meta.namespace,
        meta.name,
        kind=kind,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        generation=meta.generation,
        min_member=max(1, min(MOST, minimum)),
        roles=tuple((each.name, each.least) for each in found if each.least) if minimum <= MOST else (),
        declared=said,
        announced=tuple(_announced(each, raw, shape_of) for each in found if each.created_later),
        owner=owner_of(meta),
        deleting=bool(meta.deletion_timestamp),
        fragile=fragile_roles(kind, raw.spec) if isinstance(raw, OperatorObject) else (),
        finished=isinstance(raw, OperatorObject) and has_ended(raw.status),
    )


def _declared(kind: str, raw: OperatorObject | wire.StatefulSet) -> bool | None:
    """Return the declaration of the object, else that of its main template: the template of a StatefulSet, the head of
    a RayJob, or the driver of a SparkApplication.
    """
    said = declared(raw.metadata.annotations or {})
    if said is not None:
        return said
    if isinstance(raw, wire.StatefulSet):
        return declared(raw.spec.template.metadata.annotations or {})
    if kind == RAY_JOB and raw.spec.ray_cluster_spec is not None:
        return declared(raw.spec.ray_cluster_spec.head_group_spec.template.metadata.annotations or {})
    return declared(spark.notes_of(raw.spec.driver)) if kind == spark.APPLICATION else None


def _announced(role: Role, raw: OperatorObject | wire.StatefulSet, shape_of: ShapeOf) -> Announced:
    pod_meta = msgspec.structs.replace(role.template.metadata, namespace=raw.metadata.namespace)
    try:
        shape = shape_of(pod_meta, role.template.spec)
    except FieldError as error:
        raise error.under(role.field) from None
    within = (raw.metadata.annotations or {}).get(roles.EXCLUSIVE_GROUPS, "")
    return Announced(role.name, role.size, shape, kept=role.kept, within=within)
