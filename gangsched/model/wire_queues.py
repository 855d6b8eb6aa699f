"""The fields of ``kueue.x-k8s.io`` objects that are read, in the spelling of v1beta1 and of v1beta2.

Where the versions differ both spellings are listed; :mod:`gangsched.model.convert_queues` takes either.
"""

from __future__ import annotations

import msgspec

from gangsched.model.quantity import RawQuantity
from gangsched.model.wire import LabelSelector, Object, Taint, Toleration, Wire


class ResourceQuota(Wire):
    """Quota of one resource."""

    name: str = ""
    nominal_quota: RawQuantity | None = None
    borrowing_limit: RawQuantity | None = None
    lending_limit: RawQuantity | None = None


class FlavorQuotas(Wire):
    """Quota of one flavor."""

    name: str = ""
    resources: list[ResourceQuota] | None = None


class ResourceGroup(Wire):
    """Resources with the flavors that provide them."""

    covered_resources: list[str] | None = None
    flavors: list[FlavorQuotas] | None = None


class BorrowWithinCohort(Wire):
    """May a queue that borrows displace others that borrow?"""

    policy: str | None = None
    max_priority_threshold: int | None = None


class ClusterQueuePreemption(Wire):
    """Preemption policies."""

    within_cluster_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohort | None = None


class FlavorFungibility(Wire):
    """When to try the next flavor; v1beta1 also has the values Borrow and Preempt."""

    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class FairSharing(Wire):
    """The weight in fair sharing."""

    weight: RawQuantity | None = None


class AdmissionCheckRule(Wire):
    """One admission check."""

    name: str = ""


class AdmissionChecksStrategy(Wire):
    """Admission checks as v1beta2 has them (v1beta1 has either form)."""

    admission_checks: list[AdmissionCheckRule] | None = None


class ClusterQueueSpec(Wire):
    """``cohort`` and ``admissionChecks`` are v1beta1, ``cohortName`` is v1beta2."""

    resource_groups: list[ResourceGroup] | None = None
    cohort: str | None = None
    cohort_name: str | None = None
    queueing_strategy: str | None = None
    namespace_selector: LabelSelector | None = None
    stop_policy: str | None = None
    preemption: ClusterQueuePreemption | None = None
    flavor_fungibility: FlavorFungibility | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    fair_sharing: FairSharing | None = None


class ClusterQueue(Object):
    """A ClusterQueue."""

    spec: ClusterQueueSpec = msgspec.field(default_factory=ClusterQueueSpec)


class CohortSpec(Wire):
    """The parent cohort, and quota on top of that of the members."""

    parent_name: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    fair_sharing: FairSharing | None = None


class Cohort(Object):
    """A Cohort."""

    spec: CohortSpec = msgspec.field(default_factory=CohortSpec)


class LocalQueueSpec(Wire):
    """Which ClusterQueue a LocalQueue feeds."""

    cluster_queue: str = ""
    stop_policy: str | None = None


class LocalQueue(Object):
    """A LocalQueue."""

    spec: LocalQueueSpec = msgspec.field(default_factory=LocalQueueSpec)


class ResourceFlavorSpec(Wire):
    """Labels and taints of a flavor's nodes."""

    node_labels: dict[str, str] | None = None
    node_taints: list[Taint] | None = None
    tolerations: list[Toleration] | None = None
    topology_name: str | None = None


class ResourceFlavor(Object):
    """A ResourceFlavor."""

    spec: ResourceFlavorSpec = msgspec.field(default_factory=ResourceFlavorSpec)


class WorkloadPriorityClass(Object):
    """A WorkloadPriorityClass; its value is no part of a spec."""

    value: int | None = None


class KueueWorkload(Object):
    """A Workload of Kueue, of which nothing but the owners is read."""
