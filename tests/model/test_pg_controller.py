"""Volcano's PodGroups, by the cases of its unit tests.

The facts are theirs, as of volcano-sh/volcano ed72c7c: ``pkg/controllers/podgroup/pg_controller_test.go``, whose
controller makes a PodGroup for pods that name none, and ``pkg/scheduler/api/job_info_test.go``. Each case has the name
of its test. Where the rule here is another one on purpose, it stands beside with a reason.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import volcano
from gangsched.model.dialects.operators import gang_from_object
from gangsched.model.records import SINGLE, TIER

UID = "7a09885b-b753-4924-9fba-77c0836bac20"
NAMED, MIN_MEMBER = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"


def group(**spec: Any) -> Any:
    """What is made of a PodGroup with this spec."""
    raw = {"metadata": {"name": f"podgroup-{UID}", "namespace": "test"}, "spec": spec}
    return volcano.gang_from_object(msgspec.convert(raw, volcano.PodGroup))


#: Test and case, the spec of the PodGroup that the controller makes: minimum, resources, then what else it has.
MADE: list[tuple[str, int, dict[str, str], dict[str, str]]] = [
    ("AddPodGroup: pod has ownerReferences and priorityClassName", 1, {}, {"priorityClassName": "test-pc"}),
    ("AddPodGroup: pod has no ownerReferences or priorityClassName", 1, {}, {}),
    ("AddPodGroup: pod owners with group-min-member annotation", 2, {"nvidia.com/gpu": "2"}, {}),
    ("AddStatefulSet: existing pod with volcano scheduler", 1, {"cpu": "1", "memory": "2Gi"}, {}),
    ("createOrUpdateNormalPodPG: Create normal pod group", 2, {"nvidia.com/gpu": "2"}, {}),
    ("createOrUpdateNormalPodPG: Update normal pod group (before)", 3, {"nvidia.com/gpu": "10"}, {}),
    ("buildPodGroupFromPod: Do not inherit upper resource annotations", 1, {"cpu": "1"},
     {"priorityClassName": "high-priority", "queue": "test-queue"}),
    ("buildPodGroupFromPod: Inherit upper resource annotations", 3, {"cpu": "3"},
     {"priorityClassName": "low-priority"}),
]  # fmt: skip
AMOUNTS = {"1": 1, "2": 2, "3": 3, "10": 10, "2Gi": 2 << 30}


@pytest.mark.parametrize(("minimum", "resources", "more"), [m[1:] for m in MADE], ids=[m[0] for m in MADE])
def test_a_group_that_the_controller_makes(minimum: int, resources: dict[str, str], more: dict[str, str]) -> None:
    """So many members start together, where there is room for all of its resources, with its priority and queue."""
    found = group(minMember=minimum, minResources=resources, **more)
    wanted = {name: AMOUNTS[text] * (1000 if name == "cpu" else 1) for name, text in resources.items()}
    assert (found.min_member, dict(found.min_resources), found.remark) == (minimum, wanted, None)
    assert (found.priority_class, found.queue_name) == (more.get("priorityClassName", ""), more.get("queue", ""))


#: Volcano prefers the lowest tier that there is. Here preferences are for tiers that a gang names.
REPORTED = "spec.networkTopology"
#: Test and case, ``networkTopology`` of the group, the tier that is required, and the field that is reported.
TOPOLOGIES: list[tuple[str, dict[str, Any] | None, int | None, str | None]] = [
    ("BuildPodGroup: hard mode with tier", {"mode": "hard", "highestTierAllowed": 2}, 2, None),
    ("BuildPodGroup: soft mode only", {"mode": "soft"}, None, REPORTED),
    ("BuildPodGroup: tier annotation only", {"mode": "hard", "highestTierAllowed": 1}, 1, None),
    ("BuildPodGroup: without NetworkTopology annotations", None, None, None),
    ("BuildPodGroup: invalid mode annotation", {"mode": "hard", "highestTierAllowed": 3}, 3, None),
    ("HasTopologyHardConstrain: Hard Mode", {"mode": "hard", "highestTierAllowed": 2}, 2, None),
    ("HasTopologyHardConstrain: Soft Mode", {"mode": "soft", "highestTierAllowed": 3}, None, None),
    ("SubJobInfo_IsHardTopologyMode: HighestTierAllowed is nil", {"mode": "hard"}, None, None),
]


@pytest.mark.parametrize(("asked", "tier", "field"), [t[1:] for t in TOPOLOGIES], ids=[t[0] for t in TOPOLOGIES])
def test_the_tier_that_all_members_share(asked: dict[str, Any] | None, tier: int | None, field: str | None) -> None:
    """Hard asks for one HyperNode of at most a tier, if it names one; soft insists on nothing."""
    found = group(minMember=2, networkTopology=asked)
    assert [key for key, required in found.topology if required] == ([] if tier is None else [f"{TIER}{tier}"])
    assert (found.remark.field if found.remark else None) == field


#: Case of TestParseMinMemberInfoChanged, ``minTaskMember`` after the change, how many that are.
TASKS: list[tuple[str, dict[str, int], int]] = [
    ("changed from single to multiple roles", {"master": 1, "worker": 2, "gpu": 1}, 4),
    ("decreased", {"master": 1, "worker": 2}, 3),
    ("increased", {"master": 2, "worker": 5, "gpu": 3}, 10),
    ("replaced completely", {"new-master": 1, "new-worker": 3}, 4),
    ("changed to empty", {}, 0),
]


@pytest.mark.parametrize(("tasks", "total"), [t[1:] for t in TASKS], ids=[t[0] for t in TASKS])
def test_the_tasks_of_a_group(tasks: dict[str, int], total: int) -> None:
    """So many of each start, if the group needs no fewer than that."""
    assert dict(group(minMember=total, minTaskMember=tasks).roles) == tasks
    assert group(minMember=max(0, total - 1), minTaskMember=tasks).roles == ()


#: Case, kind of the owner, annotations of the pod, the group that it is in.
PODS: list[tuple[str, str, dict[str, str], str]] = [
    ("NoPodGroupCreated: Replicaset shall not create new podgroup", "ReplicaSet", {NAMED: "existing-pg"},
     "existing-pg"),
    ("NoPodGroupCreated: StatefulSet shall not create new podgroup", "StatefulSet", {NAMED: "existing-pg"},
     "existing-pg"),
    ("AddStatefulSet: pod already associated with podgroup", "StatefulSet", {NAMED: "lws-1-revision"},
     "lws-1-revision"),
    # The controller makes a group for it and writes its name on the pod, which waits until then.
    ("AddPodGroup: pod has ownerReferences", "ReplicaSet", {}, ""),
    ("AddPodGroup: pod has no ownerReferences", "", {}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "notes", "named"), [p[1:] for p in PODS], ids=[p[0] for p in PODS])
def test_the_group_of_a_pod(kind: str, notes: dict[str, str], named: str) -> None:
    """The one that it names, whatever owns it; without a name it waits for one. With other scheduler names it starts by
    itself.
    """
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": UID, "controller": True}] if kind else []
    meta = {"name": "pod1", "namespace": "test", "annotations": notes, "ownerReferences": owners}
    for scheduler in ("volcano", "other"):
        raw = {"metadata": meta, "spec": {"schedulerName": scheduler}}
        found = Converter().pod(msgspec.convert(raw, wire.Pod))
        assert found.gang[:3] == ((volcano.FAMILY, "test", named) if named else (SINGLE, "test", "pod1"))
        assert bool(found.ungrouped) == (not named and scheduler == "volcano")


#: Only the controller reads the annotation, for the group that it makes.
UNREAD = 1
#: Only ``gangsched.dev/gang`` makes a gang of a StatefulSet that is in no group, of all its replicas then.
ALL = 3
#: Case, annotations of the StatefulSet, how many start together with Volcano, and here where that differs.
STATEFUL: list[tuple[str, dict[str, str], int, int | None]] = [
    ("AddStatefulSet: existing pod with volcano scheduler", {}, 1, None),
    ("createOrUpdateNormalPodPG: Create normal pod group", {MIN_MEMBER: "2"}, 2, UNREAD),
    ("createOrUpdateNormalPodPG: the same, declared", {MIN_MEMBER: "2", "gangsched.dev/gang": "true"}, 2, ALL),
]


@pytest.mark.parametrize(("notes", "theirs", "ours"), [s[1:] for s in STATEFUL], ids=[s[0] for s in STATEFUL])
def test_a_stateful_set_without_a_group(notes: dict[str, str], theirs: int, ours: int | None) -> None:
    """Its pods start one by one unless it is declared a gang, by an annotation that Volcano does not know."""
    meta = {"name": "sts1", "namespace": "test", "annotations": notes}
    raw = {"metadata": meta, "spec": {"replicas": 3, "podManagementPolicy": "Parallel"}}
    found = gang_from_object("StatefulSet", msgspec.convert(raw, wire.StatefulSet), Converter().shape_of_template)
    assert ours != theirs
    assert found.min_member == (theirs if ours is None else ours)
