"""The fields of other operators' specs that describe their pods.

Sources are API types: kubeflow/trainer v1.9 (PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, MPIJob v1). Also
kubeflow/mpi-operator (MPIJob v2beta1), ray-project/kuberay (RayCluster and RayJob v1). Also kubernetes-sigs/lws
(LeaderWorkerSet v1) and kubeflow/spark-operator (SparkApplication v1beta2).
"""

from __future__ import annotations

import msgspec

from gangsched.model import wire


class ReplicaSpec(wire.Wire):
    """Pods of one role."""

    replicas: int | None = None
    template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)
    restart_policy: str = ""


class SchedulingPolicy(wire.Wire):
    """The settings for a gang scheduler."""

    min_available: int | None = None


class RunPolicy(wire.Wire):
    """How all roles run."""

    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False
    backoff_limit: int | None = None
    managed_by: str | None = None


class ElasticPolicy(wire.Wire):
    """Fewer workers than there are replicas may do."""

    min_replicas: int | None = None


class WorkerGroup(wire.Wire):
    """Workers of one kind in a RayCluster; each replica is ``num_of_hosts`` pods."""

    group_name: str = ""
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool = False
    template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class HeadGroup(wire.Wire):
    """The head of a RayCluster."""

    template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class AutoscalerOptions(wire.Wire):
    """The requests of the autoscaler's container, beside the head."""

    resources: wire.ResourceRequirements | None = None


class RayClusterSpec(wire.Wire):
    """A RayCluster, also as part of a RayJob."""

    head_group_spec: HeadGroup = msgspec.field(default_factory=HeadGroup)
    worker_group_specs: list[WorkerGroup] | None = None
    enable_in_tree_autoscaling: bool = False
    autoscaler_options: AutoscalerOptions | None = None
    suspend: bool = False


class SubGroupPolicy(wire.Wire):
    """How the pods of each group are divided."""

    sub_group_size: int | None = None
    sub_group_policy_type: str = ""


class LeaderWorkerTemplate(wire.Wire):
    """The pods of each group of a LeaderWorkerSet."""

    size: int = 1
    sub_group_policy: SubGroupPolicy | None = None
    leader_template: wire.PodTemplate | None = None
    worker_template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class SparkPods(wire.Wire):
    """The driver of a SparkApplication, or its executors, whose pods Spark makes of a template and of these fields."""

    instances: int | None = None
    cores: int | None = None
    core_request: str | None = None
    core_limit: str | None = None
    memory: str | None = None
    memory_overhead: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    scheduler_name: str = ""
    priority_class_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: wire.Affinity | None = None
    tolerations: list[wire.Toleration] | None = None
    gpu: SparkDevices | None = None
    template: wire.PodTemplate | None = None


class SparkDevices(wire.Wire):
    """Devices of each pod: ``quantity`` of the resource ``name``."""

    name: str = ""
    quantity: int = 0


class DynamicAllocation(wire.Wire):
    """Spark asks for executors as its work needs them."""

    enabled: bool = False
    initial_executors: int | None = None
    min_executors: int | None = None


class RuntimeRef(wire.Wire):
    """The runtime of a TrainJob."""

    name: str = ""
    kind: str = "ClusterTrainingRuntime"


class Trainer(wire.Wire):
    """The nodes of a TrainJob, which are pods."""

    num_nodes: int | None = None
    resources_per_node: wire.ResourceRequirements | None = None
    image: str | None = None


class TargetJob(wire.Wire):
    """A Job of the JobSet that is made of a runtime."""

    name: str = ""


class OverrideSpec(wire.Wire):
    """The part of a pod's spec that a TrainJob overrides."""

    node_selector: dict[str, str] | None = None
    affinity: wire.Affinity | None = None
    tolerations: list[wire.Toleration] | None = None
    scheduling_gates: list[wire.SchedulingGate] | None = None


class PodOverride(OverrideSpec):
    """Overrides of a TrainJob for the pods of some Jobs. Under ``podTemplateOverrides`` they are in ``spec``."""

    target_jobs: list[TargetJob] | None = None
    spec: OverrideSpec | None = None


class ReplicaStatus(wire.Wire):
    """How many pods of a role run."""

    active: int = 0


class ApplicationState(wire.Wire):
    """How far a SparkApplication is."""

    state: str = ""


class OperatorStatus(wire.Wire):
    """From which is seen whether an object has pods."""

    conditions: list[wire.Condition] | None = None
    replica_statuses: dict[str, ReplicaStatus] | None = None
    jobs_status: list[ReplicaStatus] | None = None
    replicas: int = 0
    state: str = ""
    available_worker_replicas: int = 0
    job_deployment_status: str = ""
    application_state: ApplicationState | None = None


#: Phases, and types of conditions, of what has come to its end.
ENDS = ("Succeeded", "Failed", "Complete", "Completed", "Aborted", "Terminated", "COMPLETED", "FAILED")


def phase_of(status: OperatorStatus) -> str:
    """Return the phase of an object, by the name that its kind has for it; empty if it has none."""
    state = status.application_state.state if status.application_state is not None else status.state
    return status.job_deployment_status or state


def has_ended(status: OperatorStatus) -> bool:
    """Return True if the status says that the object has succeeded or failed for good."""
    ended = any(c.type in ENDS and c.status == "True" for c in status.conditions or ())
    return ended or phase_of(status) in ENDS


class RestartPolicy(wire.Wire):
    """When a SparkApplication is submitted again."""

    type: str = ""


class OperatorSpec(RayClusterSpec):
    """The fields of all kinds from which the pods follow."""

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
    replicas: int | None = None
    leader_worker_template: LeaderWorkerTemplate = msgspec.field(default_factory=LeaderWorkerTemplate)
    type: str = ""
    driver: SparkPods = msgspec.field(default_factory=SparkPods)
    executor: SparkPods = msgspec.field(default_factory=SparkPods)
    dynamic_allocation: DynamicAllocation | None = None
    memory_overhead_factor: str | None = None
    batch_scheduler: str | None = None
    restart_policy: RestartPolicy | str | None = None
    ray_cluster_config: RayClusterSpec | None = None
    runtime_ref: RuntimeRef | None = None
    trainer: Trainer | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    pod_template_overrides: list[PodOverride] | None = None
    pod_spec_overrides: list[PodOverride] | None = None
    managed_by: str | None = None


class OperatorObject(wire.Object):
    """One object of any of these kinds but StatefulSets."""

    spec: OperatorSpec = msgspec.field(default_factory=OperatorSpec)
    status: OperatorStatus = msgspec.field(default_factory=OperatorStatus)
