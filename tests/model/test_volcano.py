"""PodGroups of Volcano."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import needs_object, role_of
from gangsched.model.dialects.volcano import (
    PodGroup,
    Queue,
    RawHyperNode,
    gang_from_object,
    hyper_node,
    queue_from_object,
)
from gangsched.model.errors import FieldError
from gangsched.model.records import TIER, TIER_NAME


def group(status=None, **spec):
    """A PodGroup of Volcano."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec, "status": status or {}}
    return gang_from_object(msgspec.convert(raw, PodGroup))


def member(annotations, labels=None):
    """A pod with these annotations."""
    meta = {"name": "p", "namespace": "ns", "labels": labels or {}, "annotations": annotations}
    return Converter().pod(msgspec.convert({"metadata": meta, "spec": {"schedulerName": "volcano"}}, wire.Pod))


def test_members_name_their_group_by_annotation():
    """The annotation names the group of Volcano, whose object must be there."""
    pod = member({"scheduling.k8s.io/group-name": "g"})
    assert pod.gang == ("scheduling.volcano.sh", "ns", "g", "volcano")
    assert needs_object(pod)


def test_a_group_of_the_spec_wins_over_the_annotation():
    """A label of the coscheduling plug-in is looked at before the annotation."""
    both = member({"scheduling.k8s.io/group-name": "g"}, {"scheduling.x-k8s.io/pod-group": "other"})
    assert (both.gang.family, both.gang.name) == ("scheduling.x-k8s.io", "other")


@pytest.mark.parametrize(
    ("annotations", "labels", "role"),
    [
        ({}, {}, ""),
        ({}, {"volcano.sh/task-spec": "ps"}, "ps"),
        ({"volcano.sh/task-spec": "worker"}, {"volcano.sh/task-spec": "ps"}, "worker"),
    ],
)
def test_the_role_of_a_member(annotations, labels, role):
    """The annotation says it, else the label."""
    named = {"scheduling.k8s.io/group-name": "g", **annotations}
    assert role_of(member(named, labels), group()) == role


@pytest.mark.parametrize(("given", "needed"), [(0, 1), (1, 1), (4, 4)])
def test_the_minimum(given, needed):
    """A group that needs nobody starts one member at a time."""
    assert group(minMember=given).min_member == needed


@pytest.mark.parametrize(
    ("minimum", "tasks", "roles"),
    [
        (4, {"worker": 3, "ps": 1}, (("ps", 1), ("worker", 3))),
        (5, {"worker": 3, "ps": 1}, (("ps", 1), ("worker", 3))),
        (3, {"worker": 3, "ps": 1}, ()),
        (3, {"worker": 3, "ps": 0}, (("worker", 3),)),
        (3, None, ()),
    ],
)
def test_minima_of_tasks_count_up_to_the_minimum_of_the_group(minimum, tasks, roles):
    """Where the group needs fewer members than its tasks together, Volcano does not look at these."""
    assert group(minMember=minimum, minTaskMember=tasks).roles == roles


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minMember": 1_000_001}, "spec.minMember"),
        ({"minMember": 1, "minTaskMember": {"a": -1}}, "spec.minTaskMember[a]"),
        ({"subGroupPolicy": [{"name": "x"}, {"name": "x"}]}, "spec.subGroupPolicy[1].name"),
        ({"subGroupPolicy": [{"subGroupSize": 0}]}, "spec.subGroupPolicy[0].subGroupSize"),
        ({"subGroupPolicy": [{"minSubGroups": 2}]}, "spec.subGroupPolicy[0].minSubGroups"),
        (
            {"subGroupPolicy": [{"networkTopology": {"highestTierAllowed": 9}}]},
            "spec.subGroupPolicy[0].networkTopology.highestTierAllowed",
        ),
        ({"minMember": 1, "networkTopology": {"highestTierAllowed": 9}}, "spec.networkTopology.highestTierAllowed"),
        (
            {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}},
            "spec.networkTopology.highestTierName",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(spec, field):
    """A gang that would be placed against its wishes waits, and the field is named."""
    with pytest.raises(FieldError) as caught:
        group(**spec)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"subGroupPolicy": [{"networkTopology": {"mode": "soft"}}]}, "spec.subGroupPolicy[0].networkTopology"),
        ({"minMember": 1, "minTaskMember": {"a": 1}, "subGroupPolicy": [{}]}, "spec.minTaskMember"),
        ({"subGroupPolicy": [{"networkTopology": {"mode": "hard"}}]}, None),
    ],
)  # fmt: skip
def test_what_is_asked_of_sub_groups_in_vain_is_told(spec, field):
    """It delays nothing; a topology that names no tier asks for nothing."""
    remark = group(**spec).remark
    assert (remark.field if remark else None) == field


def test_the_fewest_members_are_those_of_all_sub_groups():
    """So many as start at least, if ``minMember`` is less."""
    policies = [{"name": "a", "subGroupSize": 4, "minSubGroups": 2, "matchLabelKeys": ["p"]}, {"name": "b"}]
    assert [group(minMember=least, subGroupPolicy=policies).min_member for least in (0, 9)] == [8, 9]


@pytest.mark.parametrize(
    ("spec", "topology"),
    [
        (None, ()),
        ({"mode": "hard"}, ()),
        ({"highestTierAllowed": 1}, ((f"{TIER}1", True), (f"{TIER}0", False))),
        ({"mode": "soft", "highestTierAllowed": 0}, ((f"{TIER}0", False),)),
        ({"mode": "hard", "highestTierName": "rack"}, ((f"{TIER_NAME}rack", True),)),
    ],
)
def test_one_domain_for_all_members_or_for_each_sub_group(spec, topology):
    """Of at most this tier, rather of a lower one; soft asks for it and insists on nothing."""
    found = group(minMember=1, networkTopology=spec)
    assert (found.topology, found.remark) == (topology, None)
    found = group(minMember=1, subGroupPolicy=[{"matchLabelKeys": ["k"], "networkTopology": spec}])
    assert (found.topology, found.parts.parts[0].topology, found.remark) == ((), topology, None)


def test_tasks_beside_sub_groups():
    """A task of which some partitions are needed says it itself; of another task so many members are a part."""
    of_task = {"labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}}, "matchLabelKeys": ["partition"]}
    policy = {"name": "worker", "subGroupSize": 2, "minSubGroups": 1, **of_task}
    found = group(minMember=3, minTaskMember={"worker": 2, "ps": 1}, subGroupPolicy=[policy])
    assert (found.min_member, found.remark) == (3, None)
    assert [(part.name, part.count, part.least) for part in found.parts.parts] == [("worker", 2, 1), ("ps", 1, None)]
    pods = [{"volcano.sh/task-spec": "ps"}, {"volcano.sh/task-spec": "worker", "partition": "1"}]
    assert [role_of(member({"scheduling.k8s.io/group-name": "g"}, each), found) for each in pods] == ["ps", "worker/1"]


def test_sub_groups_in_racks_of_one_spine():
    """Each of the policies has a topology of its own, within that of the group."""
    spine, rack = {"mode": "hard", "highestTierAllowed": 2}, {"mode": "hard", "highestTierAllowed": 1}
    near = {"name": "train", "subGroupSize": 8, "minSubGroups": 3, "matchLabelKeys": ["ring"], "networkTopology": rack}
    anywhere = {"name": "eval", "subGroupSize": 4, "minSubGroups": 1, "matchLabelKeys": ["ring"]}
    found = group(minMember=28, networkTopology=spine, subGroupPolicy=[near, anywhere])
    assert found.topology[0] == (f"{TIER}2", True)
    assert [(part.count, part.least, part.topology[:1]) for part in found.parts.parts] == [
        (8, 3, ((f"{TIER}1", True),)),
        (4, 1, ()),
    ]


def test_a_domain():
    """Nodes by name, pattern and labels, and domains within it."""
    members = [
        {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
        {"type": "Node", "selector": {"regexMatch": {"pattern": "n[23]"}}},
        {"type": "HyperNode", "selector": {"exactMatch": {"name": "s0"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}},
    ]
    raw = {"metadata": {"name": "s1"}, "spec": {"tier": 2, "tierName": "spine", "members": members}}
    found = hyper_node(msgspec.convert(raw, RawHyperNode))
    assert (found.name, found.tier, found.tier_name) == ("s1", 2, "spine")
    assert [(m.hyper, m.name, m.pattern, m.selector is not None) for m in found.members] == [
        (False, "n1", "", False),
        (False, "", "n[23]", False),
        (True, "s0", "", False),
        (False, "", "", True),
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"tier": -1}, "spec.tier"),
        ({"members": [{"selector": {"regexMatch": {"pattern": "("}}}]}, "spec.members[0].selector.regexMatch.pattern"),
    ],
)
def test_a_domain_that_cannot_be_read_is_named(spec, field):
    """With its field."""
    with pytest.raises(FieldError) as caught:
        hyper_node(msgspec.convert({"metadata": {"name": "s1"}, "spec": spec}, RawHyperNode))
    assert caught.value.field == field


def queue(state="Open", **spec):
    """A Queue."""
    raw = {"metadata": {"name": "research", "uid": "u"}, "spec": spec, "status": {"state": state}}
    return queue_from_object(msgspec.convert(raw, Queue))


def limits(found):
    """Nominal quota, borrowing limit and lending limit by resource."""
    return {r: (q.nominal, q.borrowing, q.lending) for g in found.groups for r, q in g.flavors[0].resources}


def test_a_queue_is_one_of_ours():
    """What it deserves is its own, up to its capability it borrows, its guarantee it keeps."""
    found = queue(
        parent="all",
        weight=3,
        deserved={"cpu": "4"},
        capability={"cpu": "6", "nvidia.com/gpu": "2"},
        guarantee={"resource": {"cpu": "1"}},
    )
    assert (found.name, found.cohort, found.weight) == (
        "scheduling.volcano.sh:research",
        "scheduling.volcano.sh:all",
        3,
    )
    assert limits(found) == {"cpu": (4000, 2000, 3000), "nvidia.com/gpu": (2, 0, None)}
    assert limits(queue(deserved={"cpu": "4"})) == {"cpu": (4000, None, None)}
    assert limits(queue(deserved={"cpu": "4"}, reclaimable=False)) == {"cpu": (4000, 0, None)}
    assert queue().groups == ()


def test_a_queue_that_is_closed_admits_nothing_more():
    """What runs goes on."""
    assert [queue(state).stop for state in ("Open", "Closed", "Closing", "Unknown")] == ["None", "Hold", "Hold", "None"]


def test_a_queue_that_cannot_be_read_is_named():
    """With its field."""
    with pytest.raises(FieldError) as caught:
        queue(deserved={"cpu": "many"})
    assert caught.value.field == "spec.deserved.cpu"
