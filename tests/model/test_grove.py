"""PodGangs of Grove."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import changed_status, group_api, needs_object, role_of
from gangsched.model.dialects.dialect import CurrentObject
from gangsched.model.dialects.grove import FAMILY, PodGang, gang_from_object
from gangsched.model.errors import FieldError
from gangsched.model.records import Gang, Part


def gang(*podgroups: dict[str, Any], **spec: Any) -> Gang:
    """A PodGang with these groups."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"podgroups": list(podgroups), **spec}}
    return gang_from_object(msgspec.convert(raw, PodGang))


def group(name: str, least: int, **levels: str) -> dict[str, Any]:
    """A group of pods, in one domain of these levels."""
    return {"name": name, "minReplicas": least, "podReferences": [], **within(**levels)}


def within(**levels: str) -> dict[str, Any]:
    """A constraint."""
    return {"topologyConstraint": {"packConstraint": levels}} if levels else {}


def test_a_pod_names_its_podgang_and_its_group_in_labels() -> None:
    """The PodGang must be there."""
    labels = {"grove.io/podgang": "g", "grove.io/podclique": "serve-0-decode"}
    meta = {"name": "p", "namespace": "ns", "labels": labels}
    pod = Converter().pod(msgspec.convert({"metadata": meta, "spec": {}}, wire.Pod))
    assert pod.gang[:3] == (FAMILY, "ns", "g")
    assert needs_object(pod)
    assert role_of(pod, gang(group("serve-0-decode", 1))) == "serve-0-decode"
    assert group_api(FAMILY) == "PodGang.scheduler.grove.io"


def test_all_groups_are_needed_each_with_its_minimum() -> None:
    """Without a topology they are roles."""
    found = gang(group("a", 1), group("b", 4), group("c", 0), priorityClassName="high")
    assert (found.kind, found.min_member, found.roles) == ("PodGang", 5, (("a", 1), ("b", 4)))
    assert (found.parts, found.priority_class) == (None, "high")


def test_a_topology_at_each_of_three_levels() -> None:
    """A zone for all, a rack for each replica of a scaling group, and a host for one group, as the operator writes them
    of a PodCliqueSet with constraints on set, scaling group and clique.
    """
    router = group("serve-0-router", 1)
    decode = [group(f"serve-0-workers-0-{name}", 2) for name in ("leader", "worker")]
    cache = group("serve-0-cache", 3, required="kubernetes.io/hostname")
    names = [each["name"] for each in decode]
    config = {"name": "serve-0-workers-0", "podGroupNames": names, **within(required="rack", preferred="host")}
    found = gang(router, *decode, cache, topologyConstraintGroupConfigs=[config], **within(required="zone"))
    assert (found.min_member, found.topology, found.roles) == (8, (("zone", True),), ())
    assert found.parts == Part(
        least=3,
        parts=(
            Part(
                "serve-0-workers-0",
                least=2,
                parts=(Part(names[0], 2), Part(names[1], 2)),
                topology=(("rack", True), ("host", False)),
            ),
            Part("serve-0-router", 1),
            Part("serve-0-cache", 3, topology=(("kubernetes.io/hostname", True),)),
        ),
    )


@pytest.mark.parametrize(
    ("podgroups", "configs", "field"),
    [
        ([], [], "spec.podgroups"),
        ([group("", 1)], [], "spec.podgroups[0].name"),
        ([group("a", 1), group("a", 1)], [], "spec.podgroups[1].name"),
        ([group("a", -1)], [], "spec.podgroups[0].minReplicas"),
        ([group("a", 1)], [["b"]], "spec.topologyConstraintGroupConfigs[0].podGroupNames"),
        ([group("a", 1)], [["a"], ["a"]], "spec.topologyConstraintGroupConfigs[1].podGroupNames"),
    ],
)
def test_what_is_refused(podgroups: list[dict[str, Any]], configs: list[list[str]], field: str) -> None:
    """A group that no list, or two lists, have cannot be placed as they ask."""
    with pytest.raises(FieldError) as caught:
        gang(*podgroups, topologyConstraintGroupConfigs=[{"name": "c", "podGroupNames": names} for names in configs])
    assert caught.value.field == field


INITIALIZED = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated", "message": "x"}


@pytest.mark.parametrize(
    ("told", "phase", "scheduled"),
    [
        ({"phase": "Pending", "scheduled": 0, "reason": "Unschedulable", "message": "no room"}, "Pending", "False"),
        ({"phase": "Scheduling", "scheduled": 1, "reason": "", "message": ""}, "Starting", None),
        ({"phase": "Scheduled", "scheduled": 2, "reason": "Scheduled", "message": ""}, "Starting", "True"),
        ({"phase": "Running", "scheduled": 2, "reason": "Scheduled", "message": ""}, "Running", "True"),
    ],
)
def test_phase_and_condition_of_its_scheduler(told: dict[str, Any], phase: str, scheduled: str | None) -> None:
    """The condition of the operator stays."""
    seen = CurrentObject("v1alpha1", 3, {"phase": "", "conditions": [INITIALIZED]}, 0.0)
    found = changed_status(FAMILY, {"succeeded": 0, **told}, seen)
    assert found["phase"] == phase
    first, *ours = found.get("conditions", [INITIALIZED])
    assert first == INITIALIZED
    assert [each["status"] for each in ours if each["type"] == "Scheduled"] == ([scheduled] if scheduled else [])
    assert all(each["reason"] and each["observedGeneration"] == 3 for each in ours)
