"""From Kueue's queue objects, in either version, to records."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import convert_queues
from gangsched.model.constraints import LabelSelector, Requirement, Taint, Toleration
from gangsched.model.errors import FieldError
from gangsched.model.queues import ClusterQueue, Fungibility, Limits, QueuePreemption, ResourceFlavor


def groups(**limits: Any) -> list[dict[str, Any]]:
    """A resource group of 4 CPU in one flavor."""
    resource = {"name": "cpu", "nominalQuota": 4, **limits}
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [resource]}]}]


def queue(**spec: Any) -> ClusterQueue:
    """A ClusterQueue from its spec."""
    raw = {"metadata": {"name": "cq", "uid": "u", "generation": 3}, "spec": spec}
    return convert_queues.cluster_queue(msgspec.convert(raw, convert_queues.RawClusterQueue))


def cohort(**spec: Any):
    """A Cohort from its spec."""
    raw = {"metadata": {"name": "c"}, "spec": spec}
    return convert_queues.cohort(msgspec.convert(raw, convert_queues.RawCohort))


def flavor(**spec: Any) -> ResourceFlavor:
    """A ResourceFlavor from its spec."""
    raw = {"metadata": {"name": "f"}, "spec": spec}
    return convert_queues.resource_flavor(msgspec.convert(raw, convert_queues.RawResourceFlavor))


def test_an_empty_queue_has_the_defaults_of_the_api():
    """Nothing is preempted, no namespace is selected, the strategy is BestEffortFIFO."""
    assert queue() == ClusterQueue("cq", uid="u", generation=3)
    assert queue().preemption == QueuePreemption("Never", "Never", "Never", None)
    assert queue().fungibility == Fungibility("MayStopSearch", "TryNextFlavor", "BorrowingOverPreemption")
    assert (queue().strategy, queue().namespaces, queue().stop, queue().weight) == ("BestEffortFIFO", None, "None", 1.0)


def test_cohort_in_both_versions():
    """``cohort`` and ``cohortName`` are the same thing."""
    assert queue(cohort="a") == queue(cohortName="a") == queue(cohort="a", cohortName="a")
    assert queue(cohort="a").cohort == "a"


def test_quantities_in_any_form():
    """Numbers and texts, in base units: milli-cores, bytes, devices."""
    read = queue(cohort="a", resourceGroups=groups(nominalQuota="1.5", borrowingLimit=2, lendingLimit="500m"))
    assert read.groups[0].flavors[0].resources == (("cpu", Limits(1500, 2000, 500)),)
    assert queue(resourceGroups=groups(nominalQuota=0)).groups[0].flavors[0].resources == (("cpu", Limits(0)),)


def test_old_words_for_stopping():
    """v1beta1 wrote Borrow and Preempt for what is MayStopSearch."""
    old = queue(flavorFungibility={"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"})
    assert old.fungibility == Fungibility("MayStopSearch", "MayStopSearch")


def test_admission_checks_of_both_versions():
    """Names from the list and from the strategy, each once."""
    read = queue(admissionChecks=["b"], admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "b"}]})
    assert read.checks == ("a", "b")


def test_namespace_selector():
    """Null selects nothing, an empty one everything, labels what has them."""
    assert queue(namespaceSelector=None).namespaces is None
    assert queue(namespaceSelector={}).namespaces == LabelSelector()
    labels = {"matchLabels": {"team": "a"}}
    assert queue(namespaceSelector=labels).namespaces == LabelSelector((Requirement("team", "In", ("a",)),))


def test_other_kinds():
    """Cohort, LocalQueue, ResourceFlavor and WorkloadPriorityClass keep what they say."""
    read = cohort(parentName="root", resourceGroups=groups(borrowingLimit=1), fairSharing={"weight": "500m"})
    assert (read.parent, read.weight, read.groups[0].flavors[0].resources[0][1].borrowing) == ("root", 0.5, 1000)
    raw: dict[str, Any] = {
        "metadata": {"name": "l", "namespace": "ns"},
        "spec": {"clusterQueue": "cq", "stopPolicy": "Hold"},
    }
    local = convert_queues.local_queue(msgspec.convert(raw, convert_queues.RawLocalQueue))
    assert (local.key, local.cluster_queue, local.stop) == ("ns/l", "cq", "Hold")
    spot = flavor(
        nodeLabels={"b": "2", "a": "1"},
        nodeTaints=[{"key": "t", "effect": "NoExecute"}],
        tolerations=[{"key": "t", "operator": "Exists"}],
        topologyName="racks",
    )
    expected = ResourceFlavor("f", {"a": "1", "b": "2"}, (Taint("t", "", "NoExecute"),), (Toleration("t", "Exists"),))
    assert spot == msgspec.structs.replace(expected, topology="racks")
    raw = {"metadata": {"name": "p"}, "value": -5}
    assert (
        convert_queues.workload_priority_class(msgspec.convert(raw, convert_queues.RawWorkloadPriorityClass)).value
        == -5
    )


def two(first: list[str], second: list[str], names: tuple[str, str] = ("x", "y")) -> list[dict[str, Any]]:
    """Two groups that cover these resources."""
    return [
        {
            "coveredResources": covered,
            "flavors": [{"name": name, "resources": [{"name": r, "nominalQuota": 1} for r in covered]}],
        }
        for covered, name in zip((first, second), names, strict=True)
    ]


R = "spec.resourceGroups[0].flavors[0].resources[0]"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"cohort": "a", "cohortName": "b"}, "spec.cohortName", "differs from spec.cohort 'a'"),
        ({"queueingStrategy": "Fifo"}, "spec.queueingStrategy", "'Fifo' is none of BestEffortFIFO, StrictFIFO"),
        ({"stopPolicy": "Now"}, "spec.stopPolicy", "'Now' is none of"),
        ({"resourceGroups": groups(nominalQuota=None)}, f"{R}.nominalQuota", "is required"),
        ({"resourceGroups": groups(nominalQuota=-1)}, f"{R}.nominalQuota", "negative"),
        ({"resourceGroups": groups(nominalQuota="lots")}, f"{R}.nominalQuota", "'lots' is not a quantity"),
        ({"resourceGroups": groups(borrowingLimit=1)}, f"{R}.borrowingLimit", "means nothing without a cohort"),
        ({"resourceGroups": groups(lendingLimit=1)}, f"{R}.lendingLimit", "means nothing without a cohort"),
        ({"cohort": "a", "resourceGroups": groups(lendingLimit=5)}, f"{R}.lendingLimit", "more than the nominalQuota"),
        ({"resourceGroups": two(["cpu"], ["cpu"])}, "spec.resourceGroups[1].coveredResources[0]", "'cpu' stands in"),
        (
            {"resourceGroups": two(["cpu"], ["gpu"], ("x", "x"))},
            "spec.resourceGroups[1].flavors[0].name",
            "'x' stands in spec.resourceGroups[0].flavors[0].name already",
        ),
        ({"resourceGroups": [{"flavors": []}]}, "spec.resourceGroups[0].coveredResources", "at least one resource"),
        ({"resourceGroups": [{"coveredResources": ["cpu"]}]}, "spec.resourceGroups[0].flavors", "at least one flavor"),
        (
            {"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": groups()[0]["flavors"]}]},
            "spec.resourceGroups[0].flavors[0].resources",
            "must name cpu, memory in this order, as coveredResources does; it names cpu",
        ),
        (
            {"preemption": {"withinClusterQueue": "Any"}},
            "spec.preemption.withinClusterQueue",
            "'Any' is none of Never, LowerPriority, LowerOrNewerEqualPriority",
        ),
        ({"preemption": {"reclaimWithinCohort": "All"}}, "spec.preemption.reclaimWithinCohort", "'All' is none of"),
        (
            {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
            "spec.preemption.reclaimWithinCohort",
            "Never contradicts borrowWithinCohort.policy LowerPriority",
        ),
        (
            {"preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"maxPriorityThreshold": 2**31}}},
            "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
            "does not fit 32 bits",
        ),
        (
            {"flavorFungibility": {"preference": "PreemptionOverBorrowing"}},
            "spec.flavorFungibility.preference",
            "to be TryNextFlavor",
        ),
        ({"flavorFungibility": {"whenCanBorrow": "Preempt!"}}, "spec.flavorFungibility.whenCanBorrow", "is none of"),
        ({"fairSharing": {"weight": -1}}, "spec.fairSharing.weight", "neither 0 nor above 10^-9"),
        ({"fairSharing": {"weight": "1n"}}, "spec.fairSharing.weight", "neither 0 nor above 10^-9"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Has"}]}},
            "spec.namespaceSelector.matchExpressions[0].operator",
            "'Has' is none of",
        ),
    ],
)
def test_mistakes_in_queues(spec, field, message):
    """Each mistake names the field and what would be right."""
    with pytest.raises(FieldError) as wrong:
        queue(**copy.deepcopy(spec))
    assert wrong.value.field == field
    assert message in wrong.value.message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodeTaints": [{"effect": "NoSchedule"}]}, "spec.nodeTaints[0].key"),
        ({"nodeTaints": [{"key": "t", "effect": "Never"}]}, "spec.nodeTaints[0].effect"),
        ({"nodeTaints": [{"key": "t"}]}, "spec.nodeTaints[0].effect"),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator"),
        ({"tolerations": [{"key": "t", "operator": "Like"}]}, "spec.tolerations[0].operator"),
        ({"tolerations": [{"key": "t", "operator": "Exists", "value": "v"}]}, "spec.tolerations[0].value"),
    ],
)
def test_mistakes_in_flavors(spec, field):
    """Taints and tolerations that mean nothing are refused."""
    with pytest.raises(FieldError) as wrong:
        flavor(**spec)
    assert wrong.value.field == field


def test_a_cohort_may_lend_more_than_its_own_quota() -> None:
    """It lends what its queues have, too; only a ClusterQueue lends its own quota alone."""
    made = cohort(parentName="root", resourceGroups=groups(nominalQuota=0, lendingLimit=2))
    ((_, limits),) = made.groups[0].flavors[0].resources
    assert (limits.nominal, limits.lending) == (0, 2000)


def test_mistakes_in_other_kinds():
    """Limits of a root cohort, a LocalQueue without its queue, a priority without or beyond a value."""
    with pytest.raises(FieldError, match="means nothing without a parent"):
        cohort(resourceGroups=groups(lendingLimit=1))
    with pytest.raises(FieldError, match=r"spec\.clusterQueue"):
        convert_queues.local_queue(convert_queues.RawLocalQueue())
    with pytest.raises(FieldError, match="needs a value"):
        convert_queues.workload_priority_class(convert_queues.RawWorkloadPriorityClass())
    with pytest.raises(FieldError, match="32 bits"):
        convert_queues.workload_priority_class(convert_queues.RawWorkloadPriorityClass(value=2**31))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("name", "flavors")), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = sorted(f.encode_name for f in msgspec.structs.fields(convert_queues._ClusterQueueSpec))


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3))
def test_nonsense_is_an_error_that_names_a_field(spec):
    """Whatever stands in a spec, it is understood or refused with the field's name; nothing else is raised."""
    try:
        raw = msgspec.convert({"metadata": {"name": "cq"}, "spec": spec}, convert_queues.RawClusterQueue)
    except msgspec.ValidationError:
        return
    fields = ["spec."]
    try:
        convert_queues.cluster_queue(raw)
    except FieldError as error:
        fields.append(error.field)
    assert all(field.startswith("spec.") for field in fields)
