"""Owners of which only manifests make pods: VCJobs, RayServices, and TrainJobs with their runtime.

On a cluster what their controllers make of them is read instead. Sources: volcano-sh/volcano (pkg/controllers/job)
creates a PodGroup with the minimum of the whole and of each task, and pods ``<job>-<task>-<index>``.
ray-project/kuberay creates a RayCluster with the labels and annotations of the RayService. kubeflow/trainer v2 creates
a JobSet of the runtime's template, whose step ``trainer`` has ``numNodes`` pods. By its ``podGroupPolicy``, it creates
a PodGroup that all pods name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects import coscheduling, koordinator, volcano
from gangsched.model.dialects.operator_specs import OperatorObject, OperatorSpec, PodOverride
from gangsched.model.dialects.operators import TRAIN_JOB
from gangsched.model.dialects.roles import count
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import RawJobSet, RawReplicatedJob
from gangsched.model.operator_pods import child_meta

VCJOB_GROUP, TRAINER = "batch.volcano.sh", "trainer.kubeflow.org"
RAY_SERVICE = "RayService"
_PARTITION = "volcano.sh/partition-id"
_STEP, _TRAINER, _NODE, _LAUNCHER = f"{TRAINER}/trainjob-ancestor-step", "trainer", "node", "launcher"


class PartitionPolicy(wire.Wire):
    """How the pods of a task are divided by their indexes. Each partition is a sub-group of the PodGroup."""

    total_partitions: int = 0
    partition_size: int = 0
    network_topology: volcano.NetworkTopology | None = None
    min_partitions: int = 0


class VolcanoTask(wire.Wire):
    """Pods of one template; with ``depends_on`` they are made when other tasks run."""

    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)
    depends_on: dict[str, Any] | None = None
    partition_policy: PartitionPolicy | None = None


class VolcanoJobSpec(wire.Wire):
    """The spec of a VCJob."""

    min_available: int | None = None
    scheduler_name: str = ""
    queue: str = "default"
    priority_class_name: str = ""
    tasks: list[VolcanoTask] | None = None
    network_topology: volcano.NetworkTopology | None = None


class VolcanoState(wire.Wire):
    """How far it is."""

    phase: str = ""


class VolcanoJobStatus(wire.Wire):
    """From which is seen whether it has pods."""

    state: VolcanoState | None = None
    running: int = 0
    pending: int = 0


class VolcanoJob(wire.Object):
    """A Job of Volcano."""

    spec: VolcanoJobSpec = msgspec.field(default_factory=VolcanoJobSpec)
    status: VolcanoJobStatus = msgspec.field(default_factory=VolcanoJobStatus)


class MPIPolicy(wire.Wire):
    """How MPI runs on the nodes."""

    run_launcher_as_node: bool = False


class MLPolicy(wire.Wire):
    """The policy of a runtime for the nodes of its TrainJobs."""

    num_nodes: int | None = None
    mpi: MPIPolicy | None = None


class VolcanoPolicy(wire.Wire):
    """The fields of a PodGroup of Volcano beside its size."""

    network_topology: volcano.NetworkTopology | None = None


class CoschedulingPolicy(wire.Wire):
    """The fields of a PodGroup of scheduler-plugins beside its size."""

    schedule_timeout_seconds: int = 60


class PodGroupPolicy(wire.Wire):
    """Of which API the PodGroup of a TrainJob is; without any there is none."""

    coscheduling: CoschedulingPolicy | None = None
    volcano: VolcanoPolicy | None = None


class RuntimeSpec(wire.Wire):
    """A template of JobSets."""

    ml_policy: MLPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: RawJobSet = msgspec.field(default_factory=RawJobSet)


class Runtime(wire.Object):
    """A TrainingRuntime or a ClusterTrainingRuntime."""

    spec: RuntimeSpec = msgspec.field(default_factory=RuntimeSpec)


class TrainingRuntime(Runtime):
    """A runtime of a namespace."""


class ClusterTrainingRuntime(Runtime):
    """A runtime of the cluster."""


#: By kind, namespace (empty for those of the cluster) and name.
Runtimes: TypeAlias = Mapping[tuple[str, str, str], Runtime]


def of_vcjob(raw: VolcanoJob, api_version: str) -> Iterator[tuple[volcano.PodGroup | wire.Pod, str]]:
    """Its PodGroup, and the pods of the tasks that wait for no other. Raises :class:`FieldError`."""
    meta, spec = raw.metadata, raw.spec
    owner = wire.OwnerReference(api_version, "Job", meta.name, meta.uid, controller=True)
    tasks = spec.tasks or []
    names = [task.name or f"default{i}" for i, task in enumerate(tasks)]
    sizes = [count(task.replicas, f"spec.tasks[{i}].replicas") for i, task in enumerate(tasks)]
    least = [
        size if task.min_available is None else min(size, count(task.min_available, f"spec.tasks[{i}].minAvailable"))
        for i, (task, size) in enumerate(zip(tasks, sizes, strict=True))
    ]
    minimum = sum(least) if spec.min_available is None else count(spec.min_available, "spec.minAvailable")
    group = volcano.PodGroup(
        wire.ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=[owner],
        ),
        volcano.PodGroupSpec(
            min_member=min(minimum, sum(sizes)),
            min_task_member=dict(zip(names, least, strict=True)),
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            network_topology=spec.network_topology,
            sub_group_policy=_sub_groups(tasks, names, sizes) or None,
        ),
    )
    yield group, "spec"
    for i, task in enumerate(tasks):
        own = task.template
        pod_spec = own.spec
        if spec.scheduler_name and pod_spec.scheduler_name == wire.PodSpec().scheduler_name:
            pod_spec = msgspec.structs.replace(pod_spec, scheduler_name=spec.scheduler_name)
        if spec.priority_class_name and not pod_spec.priority_class_name:
            pod_spec = msgspec.structs.replace(pod_spec, priority_class_name=spec.priority_class_name)
        for index in range(0 if task.depends_on else sizes[i]):
            pod_meta = wire.ObjectMeta(
                name=f"{meta.name}-{names[i]}-{index}",
                namespace=meta.namespace,
                creation_timestamp=meta.creation_timestamp,
                labels={
                    **(own.metadata.labels or {}),
                    volcano.TASK: names[i],
                    "volcano.sh/job-name": meta.name,
                    **_partition(task, index),
                },
                annotations={
                    **(own.metadata.annotations or {}),
                    volcano.TASK: names[i],
                    volcano.GROUP_NAME: meta.name,
                },
                owner_references=[owner],
            )
            yield wire.Pod(pod_meta, pod_spec), f"spec.tasks[{i}].template"


def _sub_groups(
    tasks: Sequence[VolcanoTask], names: Sequence[str], sizes: Sequence[int]
) -> list[volcano.SubGroupPolicy]:
    """The sub-groups that Volcano's controller writes for tasks in partitions. Raises :class:`FieldError`."""
    out = []
    for i, task in enumerate(tasks):
        asked = task.partition_policy
        if asked is None:
            continue
        field = f"spec.tasks[{i}].partitionPolicy"
        total, size = count(asked.total_partitions, f"{field}.totalPartitions"), asked.partition_size
        if count(size, f"{field}.partitionSize") * total != sizes[i]:
            raise FieldError(field, invalid.partitions(total=total, size=size, replicas=sizes[i]))
        volcano.levels_of(asked.network_topology, f"{field}.networkTopology")
        selector = wire.LabelSelector(match_labels={volcano.TASK: names[i]})
        least = count(asked.min_partitions, f"{field}.minPartitions")
        policy = volcano.SubGroupPolicy(names[i], asked.network_topology, size, least, selector, [_PARTITION])
        out.append(policy)
    return out


def _partition(task: VolcanoTask, index: int) -> dict[str, str]:
    """The label of a pod's partition; none if the task has no partitions."""
    policy = task.partition_policy
    return {_PARTITION: str(index // policy.partition_size)} if policy is not None and policy.partition_size else {}


def of_ray_service(raw: OperatorObject, api_version: str) -> OperatorObject:
    """Its RayCluster."""
    config = raw.spec.ray_cluster_config
    if config is None:
        raise FieldError("spec.rayClusterConfig", "is missing")
    spec = OperatorSpec(**{name: getattr(config, name) for name in config.__struct_fields__})
    return OperatorObject(child_meta(raw.metadata, (api_version, RAY_SERVICE)), spec)


def of_train_job(
    raw: OperatorObject, api_version: str, runtimes: Runtimes
) -> Iterator[RawJobSet | koordinator.PodGroup | volcano.PodGroup]:
    """Its PodGroup, if its runtime asks for one, and its JobSet. Raises :class:`FieldError` where the runtime is not
    known.
    """
    ref = raw.spec.runtime_ref
    if ref is None or not ref.name:
        raise FieldError("spec.runtimeRef", "is missing")
    namespace = raw.metadata.namespace if ref.kind == "TrainingRuntime" else ""
    runtime = runtimes.get((ref.kind, namespace, ref.name))
    if runtime is None:
        raise FieldError("spec.runtimeRef", invalid.runtime_missing(kind=ref.kind, name=ref.name))
    policy = runtime.spec.ml_policy or MLPolicy()
    trainer = raw.spec.trainer
    nodes = trainer.num_nodes if trainer is not None and trainer.num_nodes is not None else policy.num_nodes
    template = runtime.spec.template
    if nodes is not None:
        count(nodes, "spec.trainer.numNodes")
    jobs = [_replicated(raw, each, policy, nodes) for each in template.spec.replicated_jobs]
    meta = raw.metadata
    made = wire.ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        creation_timestamp=meta.creation_timestamp,
        labels={**(template.metadata.labels or {}), **(raw.spec.labels or {})},
        annotations={**(template.metadata.annotations or {}), **(raw.spec.annotations or {})},
        owner_references=[wire.OwnerReference(api_version, TRAIN_JOB, meta.name, meta.uid, controller=True)],
    )
    grouped = runtime.spec.pod_group_policy
    group = None if grouped is None else _group_of(made, jobs, grouped)
    if group is not None:
        yield group
        named = coscheduling.GROUP_LABEL if isinstance(group, koordinator.PodGroup) else volcano.GROUP_NAME
        jobs = [_naming(each, named, meta.name) for each in jobs]
    yield RawJobSet(made, msgspec.structs.replace(template.spec, replicated_jobs=jobs, suspend=raw.spec.suspend))


def _group_of(
    jobset: wire.ObjectMeta, jobs: Sequence[RawReplicatedJob], policy: PodGroupPolicy
) -> koordinator.PodGroup | volcano.PodGroup | None:
    """The PodGroup of a JobSet that has these Jobs: all pods start together."""
    specs = [each.template.spec for each in jobs]
    sizes = [1 if spec.parallelism is None else spec.parallelism for spec in specs]
    members = sum(each.replicas * max(1, size) for each, size in zip(jobs, sizes, strict=True))
    meta = msgspec.structs.replace(jobset, labels=None, annotations=None)
    if policy.coscheduling is not None:
        seconds = policy.coscheduling.schedule_timeout_seconds
        return koordinator.PodGroup(meta, koordinator.PodGroupSpec(members, seconds))
    if policy.volcano is None:
        return None
    classes = [name for spec in specs if (name := spec.template.spec.priority_class_name)]
    spec = volcano.PodGroupSpec(
        min_member=members,
        queue=(jobset.annotations or {}).get(volcano.QUEUE_NAME, ""),
        priority_class_name=classes[-1] if classes else "",
        network_topology=policy.volcano.network_topology,
    )
    return volcano.PodGroup(meta, spec)


def _naming(each: RawReplicatedJob, key: str, name: str) -> RawReplicatedJob:
    """A Job whose pods name their group: those of scheduler-plugins by a label, those of Volcano by an annotation."""
    job = each.template
    meta, pods = job.spec.template.metadata, job.spec.template.spec
    if key == coscheduling.GROUP_LABEL:
        meta = msgspec.structs.replace(meta, labels={**(meta.labels or {}), key: name})
    else:
        meta = msgspec.structs.replace(meta, annotations={**(meta.annotations or {}), key: name})
    spec = msgspec.structs.replace(job.spec, template=wire.PodTemplate(meta, pods))
    return msgspec.structs.replace(each, template=wire.Job(job.metadata, spec))


def _replicated(raw: OperatorObject, each: RawReplicatedJob, policy: MLPolicy, nodes: int | None) -> RawReplicatedJob:
    """One of its Jobs: the nodes, or another step of the runtime."""
    job, pods = each.template, each.template.spec.template.spec
    step = (job.metadata.labels or {}).get(_STEP) == _TRAINER
    is_nodes = each.name == _NODE or (step and policy.mpi is None)
    spec = job.spec
    if is_nodes and nodes is not None:
        as_node = policy.mpi is not None and policy.mpi.run_launcher_as_node and nodes > 1
        wanted = nodes - 1 if as_node else nodes
        spec = msgspec.structs.replace(spec, parallelism=wanted, completions=wanted)
    trainer = raw.spec.trainer
    as_launcher = each.name == _LAUNCHER and policy.mpi is not None and policy.mpi.run_launcher_as_node
    if trainer is not None and trainer.resources_per_node is not None and (is_nodes or as_launcher):
        containers = [
            msgspec.structs.replace(c, resources=trainer.resources_per_node) if c.name == _NODE or i == 0 else c
            for i, c in enumerate(pods.containers)
        ]
        pods = msgspec.structs.replace(pods, containers=containers)
    for override in (*(raw.spec.pod_template_overrides or ()), *(raw.spec.pod_spec_overrides or ())):
        if not override.target_jobs or any(target.name == each.name for target in override.target_jobs):
            pods = _overridden(pods, override)
    template = wire.PodTemplate(job.spec.template.metadata, pods)
    made = wire.Job(job.metadata, msgspec.structs.replace(spec, template=template))
    return msgspec.structs.replace(each, template=made)


def _overridden(pods: wire.PodSpec, override: PodOverride) -> wire.PodSpec:
    said = override.spec or override
    return msgspec.structs.replace(
        pods,
        node_selector={**(pods.node_selector or {}), **(said.node_selector or {})} or None,
        affinity=said.affinity or pods.affinity,
        tolerations=[*(pods.tolerations or ()), *(said.tolerations or ())] or None,
        scheduling_gates=[*(pods.scheduling_gates or ()), *(said.scheduling_gates or ())] or None,
    )
