"""The pods that operators create before any of them has a node, with the names, labels and containers of their
controllers.

Sources: kubeflow/trainer v1.9 has names ``<job>-<role>-<index>`` and an init container of PyTorch's workers. In
kubeflow's mpi-operator the launcher is the pod of a Job. KubeRay has names ``<cluster>-head-…`` and
``<cluster>-<group>-worker-…``, a container of the autoscaler and an init container of workers. kubernetes-sigs/lws has
``<name>-<group>`` and ``<name>-<group>-<index>``, kubeflow/spark-operator ``<name>-driver``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.children import SIMULATION, exclusive
from gangsched.model.dialects import owners, slices, spark
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.dialects.operators import (
    JOB_ROLE,
    KUBEFLOW,
    OPERATORS,
    RAY,
    RAY_CLUSTER,
    RAY_GROUP,
    RAY_JOB,
    RAY_NODE_TYPE,
    REPLICA_INDEX,
    REPLICA_TYPE,
    roles_of,
)
from gangsched.model.dialects.roles import (
    DRIVER,
    EXCLUSIVE_GROUPS,
    FIRST_WORKER,
    HEAD,
    LAUNCHER,
    LEADER,
    WORKER,
    Role,
    count,
)
from gangsched.model.errors import FieldError

_JOB_NAME = "training.kubeflow.org/job-name"
_RAY_CLUSTER_NAME = "ray.io/cluster"
_GROUP_KEY, _SUBGROUP_KEY = f"{owners.HINT_PREFIX}group-key", f"{owners.HINT_PREFIX}subgroup-key"
_SPARK_APP = "sparkoperator.k8s.io/app-name"
_AUTOSCALER: dict[str, str | int | float] = {"cpu": "500m", "memory": "512Mi"}
_GCS_READY: dict[str, str | int | float] = {"cpu": "200m", "memory": "256Mi"}
_INIT_PYTORCH: dict[str, str | int | float] = {"cpu": "50m", "memory": "10Mi"}
_SUBMITTER: dict[str, str | int | float] = {"cpu": "500m", "memory": "200Mi"}


class Made(NamedTuple):
    """An object that a controller makes, and the field of the owner in which its template stands."""

    object: wire.Pod | wire.Job | OperatorObject
    field: str


def templates_of(kind: str, raw: OperatorObject | wire.StatefulSet) -> Iterator[Role]:
    """The roles with pods that are made at once. Raises :class:`~gangsched.model.errors.FieldError`."""
    return (role for role in roles_of(kind, raw) if role.at_once)


def made_of(kind: str, api_version: str, raw: OperatorObject | wire.StatefulSet) -> Iterator[Made]:
    """Return the objects that the controller of an object creates at once. Raises
    :class:`~gangsched.model.errors.FieldError`.
    """
    if isinstance(raw, OperatorObject) and kind == RAY_JOB and raw.spec.ray_cluster_spec is not None:
        yield Made(_cluster(raw, api_version), "spec.rayClusterSpec")
        return
    if isinstance(raw, OperatorObject) and kind == owners.LEADER_WORKER_SET:
        yield from _groups(raw, api_version)
        return
    for role in templates_of(kind, raw):
        common = _pod(raw.metadata, (api_version, kind), role)
        if kind == "MPIJob" and role.name == LAUNCHER and api_version.endswith("v2beta1"):
            yield Made(_launcher(raw.metadata, common), role.field)
            continue
        for index in range(role.at_once):
            yield Made(_numbered(common, kind, raw, role, role.first + index), role.field)


def _cluster(raw: OperatorObject, api_version: str) -> OperatorObject:
    """The RayCluster of a RayJob, with the labels and annotations of that."""
    cluster = raw.spec.ray_cluster_spec
    assert cluster is not None
    spec = msgspec.structs.replace(raw.spec, ray_cluster_spec=None)
    for field in ("head_group_spec", "worker_group_specs", "enable_in_tree_autoscaling", "autoscaler_options"):
        setattr(spec, field, getattr(cluster, field))
    spec.suspend = False
    if raw.spec.submission_mode == "SidecarMode":
        template = _with(spec.head_group_spec.template, _container("ray-job-submitter", _SUBMITTER))
        spec.head_group_spec = msgspec.structs.replace(spec.head_group_spec, template=template)
    return OperatorObject(child_meta(raw.metadata, (api_version, RAY_JOB)), spec)


def child_meta(owner: wire.ObjectMeta, kind: tuple[str, str]) -> wire.ObjectMeta:
    """Metadata of the RayCluster of a RayJob or a RayService, whose name gets a random suffix."""
    return wire.ObjectMeta(
        name=f"{owner.name}-raycluster",
        namespace=owner.namespace,
        creation_timestamp=owner.creation_timestamp,
        labels=owner.labels,
        annotations=owner.annotations,
        owner_references=[wire.OwnerReference(*kind, owner.name, owner.uid, controller=True)],
    )


def _pod(owner: wire.ObjectMeta, kind: tuple[str, str], role: Role) -> wire.Pod:
    """Return the common part of all pods of a role, under the name of the owner."""
    notes = {key: text for key, text in (owner.annotations or {}).items() if key.startswith(SIMULATION)}
    template = role.template.metadata
    meta = wire.ObjectMeta(
        name=owner.name,
        namespace=owner.namespace,
        creation_timestamp=owner.creation_timestamp,
        labels={**(template.labels or {})},
        annotations={**notes, **(template.annotations or {})},
        owner_references=[wire.OwnerReference(*kind, owner.name, owner.uid, controller=True)],
    )
    return wire.Pod(meta, role.template.spec)


def _numbered(common: wire.Pod, kind: str, raw: OperatorObject | wire.StatefulSet, role: Role, index: int) -> wire.Pod:
    """The pod of this index."""
    name, spec = common.metadata.name, common.spec
    labels: dict[str, str] = {}
    if isinstance(raw, wire.StatefulSet):
        name = f"{name}-{index}"
    elif OPERATORS[kind].group == KUBEFLOW:
        plain = WORKER if role.name == FIRST_WORKER else role.name
        labels = {_JOB_NAME: name, REPLICA_INDEX: str(index), REPLICA_TYPE: plain, JOB_ROLE: plain}
        if kind == "MPIJob":
            del labels[REPLICA_TYPE]
        elif plain != "master":
            del labels[JOB_ROLE]
        if kind == "PyTorchJob" and plain == WORKER and "Master" in (raw.spec.pytorch_replica_specs or {}):
            spec = msgspec.structs.replace(spec, init_containers=_and(spec, _container("init-pytorch", _INIT_PYTORCH)))
        name = f"{name}-{plain}-{index}"
    elif OPERATORS[kind].group == RAY and kind == RAY_CLUSTER:
        labels, spec = _of_ray(raw, role, name, spec)
        name = f"{name}-{role.named}-{index}"
    elif kind == spark.APPLICATION:
        labels = {spark.ROLE: DRIVER, _SPARK_APP: name}
        name = f"{name}-{DRIVER}"
    else:  # what submits the work of a RayJob
        name = f"{name}-{index}"
    meta = common.metadata
    named = msgspec.structs.replace(meta, name=name, labels={**(meta.labels or {}), **labels})
    return wire.Pod(named, spec)


def _of_ray(raw: OperatorObject, role: Role, name: str, spec: wire.PodSpec) -> tuple[dict[str, str], wire.PodSpec]:
    """The labels of a pod of a RayCluster, and its spec with the containers that KubeRay adds."""
    if role.name == HEAD:
        labels = {_RAY_CLUSTER_NAME: name, RAY_NODE_TYPE: HEAD, RAY_GROUP: "headgroup"}
        if raw.spec.enable_in_tree_autoscaling:
            options = raw.spec.autoscaler_options
            asked = options.resources if options is not None else None
            scaler = wire.Container("autoscaler", resources=asked or wire.ResourceRequirements({**_AUTOSCALER}))
            spec = msgspec.structs.replace(spec, containers=[*spec.containers, scaler])
        return labels, spec
    group = role.name.removeprefix(WORKER).removeprefix("-")
    labels = {_RAY_CLUSTER_NAME: name, RAY_NODE_TYPE: WORKER, RAY_GROUP: group}
    return labels, msgspec.structs.replace(spec, init_containers=_and(spec, _container("wait-gcs-ready", _GCS_READY)))


def _container(name: str, requests: dict[str, str | int | float]) -> wire.Container:
    return wire.Container(name, resources=wire.ResourceRequirements({**requests}))


def _and(spec: wire.PodSpec, container: wire.Container) -> list[wire.Container]:
    return [*(spec.init_containers or ()), container]


def _with(template: wire.PodTemplate, container: wire.Container) -> wire.PodTemplate:
    spec = msgspec.structs.replace(template.spec, containers=[*template.spec.containers, container])
    return wire.PodTemplate(template.metadata, spec)


def _launcher(owner: wire.ObjectMeta, common: wire.Pod) -> wire.Job:
    """The Job of a launcher."""
    labels = {**(common.metadata.labels or {}), _JOB_NAME: owner.name, JOB_ROLE: LAUNCHER}
    pods = wire.PodTemplate(wire.ObjectMeta(labels=labels, annotations=common.metadata.annotations), common.spec)
    meta = msgspec.structs.replace(common.metadata, name=f"{owner.name}-{LAUNCHER}", labels={"app": owner.name})
    return wire.Job(meta, wire.JobSpec(parallelism=1, completions=1, template=pods))


def _groups(raw: OperatorObject, api_version: str) -> Iterator[Made]:
    """The pods of all groups of a LeaderWorkerSet that are made at once."""
    replicas = count(1 if raw.spec.replicas is None else raw.spec.replicas, "spec.replicas")
    key = (raw.metadata.annotations or {}).get(EXCLUSIVE_GROUPS, "")
    size = raw.spec.leader_worker_template.size
    found = list(templates_of(owners.LEADER_WORKER_SET, raw))
    for group in range(replicas):
        for role in found:
            common = _pod(raw.metadata, (api_version, owners.LEADER_WORKER_SET), role)
            for index in range(role.first, role.first + role.at_once):
                meta = common.metadata
                leader = f"{meta.name}-{group}"
                name = leader if role.name == LEADER else f"{leader}-{index}"
                labels = {
                    owners.NAME: meta.name,
                    owners.GROUP_INDEX: str(group),
                    owners.WORKER_INDEX: str(index),
                    _GROUP_KEY: leader,
                }
                spec = common.spec
                if key and role.name == LEADER:
                    spec = exclusive(spec, key, _GROUP_KEY, leader)
                part = _sub_group(raw, leader, index, spec)
                named = msgspec.structs.replace(
                    meta,
                    name=name,
                    labels={**(meta.labels or {}), **labels, **part.labels},
                    annotations={**(meta.annotations or {}), **part.annotations, owners.SIZE: str(size)},
                )
                yield Made(wire.Pod(named, part.spec), role.field)


class _SubGroup(NamedTuple):
    """What a pod of a LeaderWorkerSet has of its subgroup."""

    labels: dict[str, str]
    annotations: dict[str, str]
    spec: wire.PodSpec


def _sub_group(raw: OperatorObject, leader: str, index: int, spec: wire.PodSpec) -> _SubGroup:
    """Return the labels and annotations of the subgroup of a pod with this index, and the pod's spec with the affinity
    that keeps the subgroup in a domain of its own, as the webhook of LeaderWorkerSet writes them.
    """
    template = raw.spec.leader_worker_template
    policy, size = template.sub_group_policy, template.size
    topology = (raw.metadata.annotations or {}).get(slices.SUBGROUP_TOPOLOGY, "")
    notes = {slices.SUBGROUP_TOPOLOGY: topology} if topology else {}
    if policy is None:
        return _SubGroup({}, notes, spec)
    field, each = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize", policy.sub_group_size or 0
    excluded = policy.sub_group_policy_type == slices.LEADER_EXCLUDED
    if each < 1 or ((size - 1) % each and (excluded or size % each)):
        raise FieldError(field, invalid.subgroups_of_lws(size=size, each=each))
    notes |= {slices.SUBGROUP_SIZE: str(each)} | ({slices.SUBGROUP_POLICY: slices.LEADER_EXCLUDED} if excluded else {})
    if excluded and index == 0:
        return _SubGroup({}, notes, spec)
    alone = excluded or size % each != 0  # the leader is one more pod of the first subgroup, or of none
    number = max(0, index - 1) // each if alone else index // each
    value = hashlib.sha1(f"{leader}/{number}".encode(), usedforsecurity=False).hexdigest()
    spec = exclusive(spec, topology, _SUBGROUP_KEY, value) if topology else spec
    return _SubGroup({slices.SUBGROUP_INDEX: str(number), _SUBGROUP_KEY: value}, notes, spec)
