"""Quota objects as ``kueue.x-k8s.io`` spells them in v1beta1 and in v1beta2, and how the records of
:mod:`gangsched.model.queues` are made of either.

The rules are those of Kueue's own validation: without its webhook nothing else checks them. Every conversion raises
:class:`~gangsched.model.errors.FieldError` for what cannot be understood; the caller knows which object it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import Taint, Toleration
from gangsched.model.dialects.objects import owner
from gangsched.model.errors import FieldError
from gangsched.model.quantity import RawQuantity, base_units, parse
from gangsched.model.queues import (
    ANY,
    BEST_EFFORT_FIFO,
    BORROWING_FIRST,
    LOWER,
    LOWER_OR_NEWER,
    MAY_STOP,
    NEVER,
    PREEMPTION_FIRST,
    STOP_DRAIN,
    STOP_HOLD,
    STOP_NONE,
    STRICT_FIFO,
    TRY_NEXT,
    ClusterQueue,
    Cohort,
    FlavorQuota,
    Fungibility,
    KueueWorkload,
    Limits,
    LocalQueue,
    QueuePreemption,
    ResourceFlavor,
    ResourceGroup,
    WorkloadPriorityClass,
)
from gangsched.model.selectors import label_selector, taint, toleration


class _ResourceQuota(wire.Wire):
    name: str = ""
    nominal_quota: RawQuantity | None = None
    borrowing_limit: RawQuantity | None = None
    lending_limit: RawQuantity | None = None


class _FlavorQuotas(wire.Wire):
    name: str = ""
    resources: list[_ResourceQuota] | None = None


class _ResourceGroup(wire.Wire):
    covered_resources: list[str] | None = None
    flavors: list[_FlavorQuotas] | None = None


class _BorrowWithinCohort(wire.Wire):
    policy: str | None = None
    max_priority_threshold: int | None = None


class _ClusterQueuePreemption(wire.Wire):
    within_cluster_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: _BorrowWithinCohort | None = None


class _FlavorFungibility(wire.Wire):
    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class _FairSharing(wire.Wire):
    weight: RawQuantity | None = None


class _AdmissionCheckRule(wire.Wire):
    name: str = ""


class _AdmissionChecksStrategy(wire.Wire):
    admission_checks: list[_AdmissionCheckRule] | None = None


class _ClusterQueueSpec(wire.Wire):
    resource_groups: list[_ResourceGroup] | None = None
    cohort: str | None = None
    cohort_name: str | None = None
    queueing_strategy: str | None = None
    namespace_selector: wire.LabelSelector | None = None
    stop_policy: str | None = None
    preemption: _ClusterQueuePreemption | None = None
    flavor_fungibility: _FlavorFungibility | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: _AdmissionChecksStrategy | None = None
    fair_sharing: _FairSharing | None = None


class RawClusterQueue(wire.Object):
    """A ClusterQueue."""

    spec: _ClusterQueueSpec = msgspec.field(default_factory=_ClusterQueueSpec)


class _CohortSpec(wire.Wire):
    parent_name: str | None = None
    resource_groups: list[_ResourceGroup] | None = None
    fair_sharing: _FairSharing | None = None


class RawCohort(wire.Object):
    """A Cohort."""

    spec: _CohortSpec = msgspec.field(default_factory=_CohortSpec)


class _LocalQueueSpec(wire.Wire):
    cluster_queue: str = ""
    stop_policy: str | None = None


class RawLocalQueue(wire.Object):
    """A LocalQueue."""

    spec: _LocalQueueSpec = msgspec.field(default_factory=_LocalQueueSpec)


class _ResourceFlavorSpec(wire.Wire):
    node_labels: dict[str, str] | None = None
    node_taints: list[wire.Taint] | None = None
    tolerations: list[wire.Toleration] | None = None
    topology_name: str | None = None


class RawResourceFlavor(wire.Object):
    """A ResourceFlavor."""

    spec: _ResourceFlavorSpec = msgspec.field(default_factory=_ResourceFlavorSpec)


class RawWorkloadPriorityClass(wire.Object):
    """A WorkloadPriorityClass; its value is no part of a spec."""

    value: int | None = None


class RawKueueWorkload(wire.Object):
    """A Workload of Kueue, of which nothing but the owners is read."""


_INT32 = 2**31
#: Other weights than zero must be above this.
_LEAST_WEIGHT = Decimal("1e-9")
#: The words that v1beta1 still accepts for MayStopSearch.
_OLD_STOPS = {"Borrow": MAY_STOP, "Preempt": MAY_STOP}


def cluster_queue(raw: RawClusterQueue) -> ClusterQueue:
    """One ClusterQueue of either version."""
    meta, spec = raw.metadata, raw.spec
    if spec.cohort and spec.cohort_name and spec.cohort != spec.cohort_name:
        raise FieldError("spec.cohortName", invalid.cohorts_differ(name=spec.cohort_name, cohort=spec.cohort))
    cohort = spec.cohort_name or spec.cohort or ""
    strategy = _one_of("spec.queueingStrategy", spec.queueing_strategy, BEST_EFFORT_FIFO, STRICT_FIFO)
    checks = list(spec.admission_checks or ())
    if spec.admission_checks_strategy is not None:
        checks += [c.name for c in spec.admission_checks_strategy.admission_checks or ()]
    return ClusterQueue(
        name=meta.name,
        cohort=cohort,
        groups=_groups(spec.resource_groups, "ClusterQueue", limits_allowed=bool(cohort), without="a cohort"),
        strategy=strategy,
        namespaces=label_selector(spec.namespace_selector, "spec.namespaceSelector"),
        stop=_stop(spec.stop_policy),
        preemption=_preemption(spec.preemption),
        fungibility=_fungibility(spec.flavor_fungibility),
        weight=_weight(spec.fair_sharing),
        checks=tuple(sorted(set(checks))),
        uid=meta.uid,
        generation=meta.generation,
    )


def kueue_workload(raw: RawKueueWorkload) -> KueueWorkload:
    """Return the owners of a Workload of Kueue."""
    meta = raw.metadata
    return KueueWorkload(meta.namespace, meta.name, tuple(map(owner, meta.owner_references or ())))


def cohort(raw: RawCohort) -> Cohort:
    """One Cohort."""
    meta, spec = raw.metadata, raw.spec
    parent = spec.parent_name or ""
    return Cohort(
        name=meta.name,
        parent=parent,
        groups=_groups(spec.resource_groups, "Cohort", limits_allowed=bool(parent), without="a parent"),
        weight=_weight(spec.fair_sharing),
        uid=meta.uid,
        generation=meta.generation,
    )


def local_queue(raw: RawLocalQueue) -> LocalQueue:
    """One LocalQueue."""
    meta, spec = raw.metadata, raw.spec
    if not spec.cluster_queue:
        raise FieldError("spec.clusterQueue", invalid.NO_CLUSTER_QUEUE)
    return LocalQueue(
        namespace=meta.namespace,
        name=meta.name,
        cluster_queue=spec.cluster_queue,
        stop=_stop(spec.stop_policy),
        uid=meta.uid,
        generation=meta.generation,
    )


def resource_flavor(raw: RawResourceFlavor) -> ResourceFlavor:
    """One ResourceFlavor."""
    spec = raw.spec
    return ResourceFlavor(
        name=raw.metadata.name,
        labels=dict(sorted((spec.node_labels or {}).items())),
        taints=tuple(_taint(t, f"spec.nodeTaints[{i}]") for i, t in enumerate(spec.node_taints or ())),
        tolerations=tuple(_toleration(t, f"spec.tolerations[{i}]") for i, t in enumerate(spec.tolerations or ())),
        topology=spec.topology_name or "",
    )


def workload_priority_class(raw: RawWorkloadPriorityClass) -> WorkloadPriorityClass:
    """One WorkloadPriorityClass."""
    if raw.value is None:
        raise FieldError("value", invalid.NO_VALUE)
    _int32("value", raw.value)
    return WorkloadPriorityClass(raw.metadata.name, raw.value)


# -- quota ---------------------------------------------------------------------------------------------------------


def _groups(
    raw: Sequence[_ResourceGroup] | None, kind: str, *, limits_allowed: bool, without: str
) -> tuple[ResourceGroup, ...]:
    """Resource groups; each resource and each flavor is in one group only."""
    out = []
    seen_resources: dict[str, str] = {}
    seen_flavors: dict[str, str] = {}
    for g, group in enumerate(raw or ()):
        at = f"spec.resourceGroups[{g}]"
        covered = tuple(group.covered_resources or ())
        if not covered:
            raise FieldError(f"{at}.coveredResources", invalid.NO_RESOURCES)
        if not group.flavors:
            raise FieldError(f"{at}.flavors", invalid.NO_FLAVORS)
        for i, name in enumerate(covered):
            _once(seen_resources, name, f"{at}.coveredResources[{i}]", "resource", kind)
        flavors = []
        for f, flavor in enumerate(group.flavors):
            where = f"{at}.flavors[{f}]"
            if not flavor.name:
                raise FieldError(f"{where}.name", invalid.FLAVOR_WITHOUT_NAME)
            _once(seen_flavors, flavor.name, f"{where}.name", "flavor", kind)
            names = tuple(r.name for r in flavor.resources or ())
            if names != covered:
                text = invalid.other_resources(resources=", ".join(covered), names=", ".join(names) or "nothing")
                raise FieldError(f"{where}.resources", text)
            limits = tuple(
                (r.name, _limits(r, f"{where}.resources[{i}]", kind, limits_allowed, without))
                for i, r in enumerate(flavor.resources or ())
            )
            flavors.append(FlavorQuota(flavor.name, limits))
        out.append(ResourceGroup(covered, tuple(flavors)))
    return tuple(out)


def _once(seen: dict[str, str], name: str, where: str, what: str, kind: str) -> None:
    if name in seen:
        raise FieldError(where, invalid.in_two_groups(name=name, seen=seen[name], what=what, kind=kind))
    seen[name] = where


def _limits(raw: _ResourceQuota, at: str, kind: str, allowed: bool, without: str) -> Limits:
    if raw.nominal_quota is None:
        raise FieldError(f"{at}.nominalQuota", invalid.NOMINAL_QUOTA_MISSING)
    nominal = _units(raw.name, raw.nominal_quota, f"{at}.nominalQuota")
    borrowing = lending = None
    for field, value in (("borrowingLimit", raw.borrowing_limit), ("lendingLimit", raw.lending_limit)):
        if value is not None and not allowed:
            raise FieldError(f"{at}.{field}", invalid.useless_without(without=without))
    if raw.borrowing_limit is not None:
        borrowing = _units(raw.name, raw.borrowing_limit, f"{at}.borrowingLimit")
    if raw.lending_limit is not None:
        lending = _units(raw.name, raw.lending_limit, f"{at}.lendingLimit")
        if lending > nominal and kind == "ClusterQueue":  # a Cohort also lends what its queues have
            raise FieldError(
                f"{at}.lendingLimit",
                invalid.lends_too_much(lending_limit=raw.lending_limit, nominal_quota=raw.nominal_quota),
            )
    return Limits(nominal, borrowing, lending)


def _units(resource: str, raw: RawQuantity, field: str) -> int:
    try:
        return base_units(resource, raw)
    except FieldError as error:
        raise error.under(field) from None


# -- policies ------------------------------------------------------------------------------------------------------


def _preemption(raw: _ClusterQueuePreemption | None) -> QueuePreemption:
    if raw is None:
        return QueuePreemption()
    at = "spec.preemption"
    own = (NEVER, LOWER, LOWER_OR_NEWER)
    within = _one_of(f"{at}.withinClusterQueue", raw.within_cluster_queue, *own)
    others = (NEVER, LOWER, ANY)
    reclaim = _one_of(f"{at}.reclaimWithinCohort", raw.reclaim_within_cohort, *others)
    given = raw.borrow_within_cohort or _BorrowWithinCohort()
    borrow = _one_of(f"{at}.borrowWithinCohort.policy", given.policy, NEVER, LOWER)
    if borrow != NEVER and reclaim == NEVER:
        raise FieldError(f"{at}.reclaimWithinCohort", invalid.contradicts_borrowing(policy=NEVER, borrow=borrow))
    if given.max_priority_threshold is not None:
        _int32(f"{at}.borrowWithinCohort.maxPriorityThreshold", given.max_priority_threshold)
    return QueuePreemption(within, reclaim, borrow, given.max_priority_threshold)


def _fungibility(raw: _FlavorFungibility | None) -> Fungibility:
    if raw is None:
        return Fungibility()
    at = "spec.flavorFungibility"
    borrow = _OLD_STOPS.get(raw.when_can_borrow or "", raw.when_can_borrow)
    borrow = _one_of(f"{at}.whenCanBorrow", borrow, MAY_STOP, TRY_NEXT)
    preempt = _OLD_STOPS.get(raw.when_can_preempt or "", raw.when_can_preempt)
    preempt = _one_of(f"{at}.whenCanPreempt", preempt, TRY_NEXT, MAY_STOP)
    preference = _one_of(f"{at}.preference", raw.preference, BORROWING_FIRST, PREEMPTION_FIRST)
    if raw.preference and (borrow, preempt) != (TRY_NEXT, TRY_NEXT):
        raise FieldError(f"{at}.preference", invalid.needs_to_try_next(value=TRY_NEXT))
    return Fungibility(borrow, preempt, preference)


def _stop(raw: str | None) -> str:
    return _one_of("spec.stopPolicy", raw, STOP_NONE, STOP_HOLD, STOP_DRAIN)


def _weight(raw: _FairSharing | None) -> float:
    if raw is None or raw.weight is None:
        return 1.0
    field = "spec.fairSharing.weight"
    try:
        value = parse(raw.weight)
    except FieldError as error:
        raise error.under(field) from None
    if value < 0 or 0 < value <= _LEAST_WEIGHT:
        raise FieldError(field, invalid.weight_too_small(weight=raw.weight))
    return float(value)


def _one_of(field: str, given: str | None, *allowed: str) -> str:
    """The value that is given; the first of those that are allowed where none is."""
    value = given or allowed[0]
    if value not in allowed:
        raise FieldError(field, invalid.none_of(value=repr(value), allowed=", ".join(allowed)))
    return value


def _int32(field: str, value: int) -> None:
    if not -_INT32 <= value < _INT32:
        raise FieldError(field, invalid.not_32_bits(value=value))


# -- flavors -------------------------------------------------------------------------------------------------------


def _taint(raw: wire.Taint, field: str) -> Taint:
    if not raw.key:
        raise FieldError(f"{field}.key", invalid.TAINT_WITHOUT_KEY)
    return taint(raw, field)


def _toleration(raw: wire.Toleration, field: str) -> Toleration:
    found = toleration(raw, field)
    if found.operator == "Exists" and raw.value:
        raise FieldError(f"{field}.value", invalid.VALUE_WITH_EXISTS)
    if not raw.key and found.operator != "Exists":
        raise FieldError(f"{field}.operator", invalid.NO_KEY_WITHOUT_EXISTS)
    return found
