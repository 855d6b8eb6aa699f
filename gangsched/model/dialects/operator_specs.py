"""What the specs of other operators' objects say of the pods that they run, as far as it is read.

Sources: the API types of kubeflow/trainer v1.9 (PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, MPIJob v1), of
kubeflow/mpi-operator (MPIJob v2beta1), of ray-project/kuberay (RayCluster and RayJob v1), of kubernetes-sigs/lws
(LeaderWorkerSet v1) and of kubeflow/spark-operator (SparkApplication v1beta2).
"""

from __future__ import annotations

import msgspec

from gangsched.model import wire


class ReplicaSpec(wire.Wire):
    """Pods of one role."""

    replicas: int | None = None
    template: wire.PodTemplate = msgspec.field(default_factory=wire.PodTemplate)


class SchedulingPolicy(wire.Wire):
    """What its users want of a gang scheduler."""

    min_available: int | None = None


class RunPolicy(wire.Wire):
    """How all roles run."""

    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False


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


class RayClusterSpec(wire.Wire):
    """A RayCluster, also as part of a RayJob."""

    head_group_spec: HeadGroup = msgspec.field(default_factory=HeadGroup)
    worker_group_specs: list[WorkerGroup] | None = None
    enable_in_tree_autoscaling: bool = False
    suspend: bool = False


class LeaderWorkerTemplate(wire.Wire):
    """The pods of each group of a LeaderWorkerSet."""

    size: int = 1
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


class OperatorObject(wire.Object):
    """One object of any of these kinds but StatefulSets."""

    spec: OperatorSpec = msgspec.field(default_factory=OperatorSpec)
