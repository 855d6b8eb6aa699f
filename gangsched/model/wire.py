"""The fields of Kubernetes objects that this scheduler reads, exactly as the API spells them.

One typed decode turns JSON bytes (or a parsed manifest) into these structs; fields that are not listed are
skipped at full speed. Structs live only for the moment of decoding: :mod:`gangsched.model.convert` makes the
compact records of :mod:`gangsched.model.records` out of them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from gangsched.messages import invalid
from gangsched.model.fields import ignored, refused, used
from gangsched.model.quantity import RawQuantity

Quantities = dict[str, RawQuantity]


class Wire(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """Base of all wire structs: camelCase names, unknown fields skipped."""


class OwnerReference(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Wire):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class Object(Wire):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class LabelSelectorRequirement(Wire):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[LabelSelectorRequirement] | None = None
    match_fields: list[LabelSelectorRequirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Wire):
    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(Wire):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Wire):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(Wire):
    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Wire):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ContainerPort(Wire):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ResourceRequirements(Wire):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerRestartRule(Wire):
    action: str = ""


class Container(Wire):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None


class SchedulingGate(Wire):
    name: str = ""


class SchedulingGroup(Wire):
    pod_group_name: str | None = None


class NamedClaim(Wire):
    claim_name: str = ""


class GcePersistentDisk(Wire):
    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")


class IscsiDisk(Wire):
    iqn: str = ""
    read_only: bool = False


class RbdImage(Wire):
    monitors: list[str] | None = None
    image: str = ""
    pool: str = ""
    read_only: bool = False


class EphemeralVolume(Wire):
    volume_claim_template: dict[str, Any] | None = None


class ImageVolume(Wire):
    reference: str = ""


class Volume(Wire):
    name: str = ""
    image: ImageVolume | None = None
    persistent_volume_claim: NamedClaim | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: IscsiDisk | None = None
    rbd: RbdImage | None = None


class PodResourceClaim(Wire):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodClaimStatus(Wire):
    """The claim that was made from a template; without a name, none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedClaimStatus(Wire):
    resource_claim_name: str = ""


class PodSpec(Wire):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: dict[str, Any] | None = None
    host_network: bool = False
    host_users: bool | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Wire):
    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class PodStatus(Wire):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(Object):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Taint(Wire):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(Wire):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Wire):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(Object):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class PodDisruptionBudgetSpec(Wire):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Wire):
    observed_generation: int = 0
    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, Any] | None = None
    expected_pods: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None


class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class NamespaceStatus(Wire):
    phase: str = ""


class Namespace(Object):
    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class SelectorMapSpec(Wire):
    selector: dict[str, str] | None = None


class SelectorSpec(Wire):
    selector: LabelSelector | None = None


class DaemonSet(Object):
    pass


class Service(Object):
    spec: SelectorMapSpec = msgspec.field(default_factory=SelectorMapSpec)


class ReplicationController(Object):
    spec: SelectorMapSpec = msgspec.field(default_factory=SelectorMapSpec)


class ReplicaSet(Object):
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)


class GangPolicy(Wire):
    min_count: Annotated[int, used("so many members start together; below 1 is refused")] = 1


class JobGangPolicy(Wire):
    min_count: Annotated[
        int | None,
        used(
            "its pods are a gang of so many, or of all that it runs at once; below 1 is refused. "
            "[`gangsched.dev/gang`](../gangs.md) on the Job overrides it"
        ),
    ] = None


class JobSchedulingPolicy(Wire):
    basic: Annotated[
        dict[str, Any] | None, used("the Job says nothing, as without a policy: its namespace or `gangs.owners` may")
    ] = None
    gang: JobGangPolicy | None = None


class SchedulingPolicy(Wire):
    basic: Annotated[
        dict[str, Any] | None, used("each member starts by itself, and evicts for itself: one after another")
    ] = None
    gang: GangPolicy | None = None


class TopologyConstraint(Wire):
    key: Annotated[str, used("all members in one domain of each key")] = ""


class SchedulingConstraints(Wire):
    topology: list[TopologyConstraint] | None = None


class WorkloadReference(Wire):
    workload_name: str = ""
    template_name: str = ""


class TemplateWorkloadReference(Wire):
    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateRef(Wire):
    workload: TemplateWorkloadReference | None = None


#: A string enum (Pod, PodGroup) in v1alpha2, a union of empty structs (single, all) later.
DisruptionMode = Annotated[
    str | dict[str, Any] | None,
    used(
        "`PodGroup` (`all`): evicted whole. `Pod` (`single`, the default): one by one, see "
        "[`preemption.podDisruptionMode`](configuration.md#preemption)"
    ),
]
_CLAIMS = ignored("devices are those of each pod's own claims")
_REFERENCE = used("only checked, in manifests: the Workload and its template exist")


class UpstreamPodGroupSpec(Wire):
    """``scheduling.k8s.io`` PodGroup in the shapes of v1alpha2 (1.36) and v1alpha3/v1beta1 (1.37)."""

    parent_composite_pod_group_name: Annotated[
        str,
        used("the CompositePodGroup that it is a part of ([below](#groups-of-groups)); it needs `workloadRef` then"),
    ] = ""
    pod_group_template_ref: Annotated[PodGroupTemplateRef | None, _REFERENCE] = None
    workload_ref: Annotated[WorkloadReference | None, _REFERENCE] = None
    scheduling_policy: SchedulingPolicy = msgspec.field(default_factory=SchedulingPolicy)
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode = None
    priority_class_name: Annotated[str, used("the gang's, as preemptor and as victim")] = ""
    priority: Annotated[int | None, used("its value, which the API server writes")] = None
    preemption_policy: Annotated[str | None, used("`Never`: the gang evicts no pod")] = None
    resource_claims: Annotated[Any, _CLAIMS] = None


class UpstreamPodGroup(Object):
    spec: UpstreamPodGroupSpec = msgspec.field(default_factory=UpstreamPodGroupSpec)


class CompositeGangPolicy(Wire):
    min_group_count: Annotated[int, used("so many of the groups in it start together; below 1 is refused")] = 1


class CompositeSchedulingPolicy(Wire):
    basic: Annotated[dict[str, Any] | None, refused(invalid.BASIC_OF_GROUPS)] = None
    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(Wire):
    """``scheduling.k8s.io`` CompositePodGroup (v1alpha3, 1.37)."""

    parent_composite_pod_group_name: Annotated[str, used("the CompositePodGroup that it is a part of")] = ""
    workload_ref: Annotated[WorkloadReference | None, used("one Workload for all groups of a tree")] = None
    scheduling_policy: CompositeSchedulingPolicy = msgspec.field(default_factory=CompositeSchedulingPolicy)
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: Annotated[
        str | dict[str, Any] | None,
        used(
            "of the root: `all`: the tree is evicted whole. `all` in a group below is refused if the root is `single`"
        ),
    ] = None
    priority_class_name: Annotated[str, used("that of the root; another one below is refused")] = ""
    priority: Annotated[int | None, used("the same")] = None
    preemption_policy: Annotated[str | None, used("of the root: `Never`: the gang evicts no pod")] = None


class CompositePodGroup(Object):
    spec: CompositePodGroupSpec = msgspec.field(default_factory=CompositePodGroupSpec)


class PodTemplate(Object):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class Ordinals(Wire):
    start: int = 0


class StatefulSetSpec(SelectorSpec):
    replicas: int | None = None
    ordinals: Ordinals | None = None
    pod_management_policy: str = ""
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class StatefulSetStatus(Wire):
    replicas: int = 0


class StatefulSet(Object):
    spec: StatefulSetSpec = msgspec.field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


class PodFailureCondition(Wire):
    type: str = ""
    status: str = "True"


class ExitCodes(Wire):
    operator: str = ""
    values: list[int] | None = None
    container_name: str | None = None


class PodFailureRule(Wire):
    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: list[PodFailureCondition] | None = None


class PodFailurePolicy(Wire):
    rules: list[PodFailureRule] | None = None


class JobSuccessRule(Wire):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class JobSuccessPolicy(Wire):
    rules: list[JobSuccessRule] | None = None


class JobScheduling(Wire):
    """``spec.scheduling`` of a Job (Kubernetes 1.37)."""

    scheduling_policy: JobSchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode = None
    resource_claims: Annotated[Any, _CLAIMS] = None


class JobSpec(Wire):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    suspend: bool = False
    completion_mode: str = "NonIndexed"
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None
    success_policy: JobSuccessPolicy | None = None
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)
    active_deadline_seconds: int | None = None
    scheduling: JobScheduling | None = None
    managed_by: str | None = None


class UncountedPods(Wire):
    failed: list[str] | None = None


class JobStatus(Wire):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: list[Condition] | None = None


class Job(Object):
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)
