"""Sub-groups of KAI and Volcano, by the cases of their own unit tests.

The facts are theirs, as of kai-scheduler/KAI-Scheduler d5bc503 and volcano-sh/volcano ed72c7c; each case has the name
that it has there. Where a verdict differs from theirs, a comment says why.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from gangsched.model.dialects import kai, volcano
from gangsched.model.errors import FieldError
from gangsched.model.parts import needed, part_of
from gangsched.model.records import Part


def group(name, members=None, parent=None, least=None):
    """A sub-group of KAI."""
    said = {"name": name, "minMember": members, "parent": parent, "minSubGroup": least}
    return {key: value for key, value in said.items() if value is not None}


def kai_gang(sub_groups, **spec):
    """What a PodGroup of KAI says."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"subGroups": sub_groups, **spec}}
    return kai.gang_from_object(msgspec.convert(raw, kai.PodGroup))


CHILDREN = [group("child-1", 4, "parent"), group("child-2", 4, "parent")]
TWO_LEVELS = [
    group("decode", least=2), group("decode-leaders", 1, "decode"), group("decode-workers", 4, "decode"),
    group("prefill", least=2), group("prefill-leaders", 1, "prefill"), group("prefill-workers", 4, "prefill"),
]  # fmt: skip

#: pkg/apis/scheduling/v2alpha2/podgroup_webhook_test.go: test, case, sub-groups, other fields; what is wrong, or
#: how many members start at least.
OF_KAI = [
    ("TestValidateSubGroups", "Valid DAG single root",
     [group("a", least=1), group("b", parent="a", least=1), group("c", 1, "b")], {}, 1),
    ("TestValidateSubGroups", "Valid DAG multiple roots",
     [group("a", least=1), group("b", least=1), group("c", 1, "a"), group("d", 1, "b")], {}, 2),
    ("TestValidateSubGroups", "Missing parent", [group("a", 1), group("b", 1, "x")], {}, "spec.subGroups[1].parent"),
    ("TestValidateSubGroups", "Empty list", [], {}, 1),
    ("TestValidateSubGroups", "nil minMember on leaf subgroup", [group("a")], {}, "spec.subGroups[0].minMember"),
    ("TestValidateSubGroups", "parent subgroup may omit minMember when it has subgroup children",
     [group("p"), group("l", 1, "p")], {}, 1),
    ("TestValidateSubGroups", "leaf child still requires minMember when parent omits it",
     [group("p"), group("l", parent="p")], {}, "spec.subGroups[1].minMember"),
    ("TestValidateSubGroups", "Duplicate subgroup names", [group("a", 1), group("a", 1)], {}, "spec.subGroups[1].name"),
    ("TestValidateSubGroups", "Self-parent subgroup (cycle of length 1)",
     [group("a", 1, "a")], {}, "spec.subGroups[0].parent"),
    ("TestValidateSubGroups", "Cycle in graph (a -> b -> c -> a)",
     [group("a", 1, "c"), group("b", 1, "a"), group("c", 1, "b")], {}, "spec.subGroups[0].parent"),
    ("TestValidateSubGroups", "Multiple disjoint cycles",
     [group("a", 1, "b"), group("b", 1, "a"), group("c", 1, "d"), group("d", 1, "c")], {}, "spec.subGroups[0].parent"),
    ("TestValidateSubGroups", "Valid: mid-level SubGroup uses minSubGroup",
     [group("parent", least=2), *CHILDREN], {}, 8),
    ("TestValidateSubGroups", "Invalid: leaf SubGroup uses minSubGroup",
     [group("a", least=1)], {}, "spec.subGroups[0].minMember"),
    # The webhook refuses to create it; of one that is there the scheduler ignores the minMember, as here.
    ("TestValidateSubGroups", "Invalid: mid-level SubGroup uses minMember", [group("parent", 2), *CHILDREN], {}, 8),
    ("TestValidateSubGroups", "Invalid: SubGroup has both minMember and minSubGroup",
     [group("parent", 2, least=1), CHILDREN[0]], {}, "spec.subGroups[0].minSubGroup"),
    ("TestValidateSubGroups", "Invalid: SubGroup minSubGroup exceeds child count",
     [group("parent", least=3), *CHILDREN], {}, "spec.subGroups[0].minSubGroup"),
    ("TestValidateSubGroups", "Valid: 2-level hierarchy with minSubGroup at both levels", TWO_LEVELS, {}, 10),
    ("TestValidatePodGroupSpec", "Valid: minMember only, no subgroups", [], {"minMember": 4}, 4),
    ("TestValidatePodGroupSpec", "Valid: minSubGroup with leaf subgroups using minMember",
     [group(f"prefill-{n}", 8) for n in range(4)], {"minSubGroup": 3}, 24),
    ("TestValidatePodGroupSpec", "Valid: minSubGroup equals subgroup count",
     [group("a", 4), group("b", 4)], {"minSubGroup": 2}, 8),
    ("TestValidatePodGroupSpec", "Valid: minSubGroup of 0 (no gang requirement)",
     [group("a", 4), group("b", 4)], {"minSubGroup": 0}, 1),
    ("TestValidatePodGroupSpec", "Invalid: both minMember and minSubGroup set on PodGroup",
     [group(name, 8) for name in "abc"], {"minMember": 24, "minSubGroup": 3}, "spec.minSubGroup"),
    ("TestValidatePodGroupSpec", "Invalid: minSubGroup exceeds root subgroup count",
     [group(name, 8) for name in "abcd"], {"minSubGroup": 5}, "spec.minSubGroup"),
    ("TestValidatePodGroupSpec", "Valid: 2-level hierarchy", TWO_LEVELS, {"minSubGroup": 2}, 10),
    ("TestValidatePodGroupSpec", "Invalid: subgroup validation error propagates",
     [group("leaf", least=1)], {"minSubGroup": 1}, "spec.subGroups[0].minMember"),
    ("TestValidatePodGroupSpec", "Valid: no subgroups, no minMember, no minSubGroup", [], {}, 1),
    ("TestValidatePodGroupSpec", "Invalid: minSubGroup with no subgroups defined",
     [], {"minSubGroup": 1}, "spec.minSubGroup"),
]  # fmt: skip


@pytest.mark.parametrize(("sub_groups", "spec", "expected"), [each[2:] for each in OF_KAI], ids=[e[1] for e in OF_KAI])
def test_which_trees_of_kai_are_understood(sub_groups, spec, expected):
    """What its webhook refuses is refused, with the field; of the others so many members start at least."""
    try:
        found = kai_gang(sub_groups, **spec).min_member
    except FieldError as error:
        found = error.field
    assert found == expected


def inner(*parts, least=None):
    """A part of parts; all of them if it does not say of how many."""
    return Part("inner", least=len(parts) if least is None else least, parts=parts)


#: pkg/scheduler/api/podgroup_info/subgroup_info/subgroupset_test.go: test, case, tree, members by part; is it whole?
WHOLE = [
    ("TestSubGroupSet_MinSubGroupZero_AlwaysSatisfied", "no_allocated_children_still_satisfied",
     inner(Part("ps", 3), least=0), {}, True),
    ("TestSubGroupSet_MinSubGroupZero_AlwaysSatisfied", "nested_minSubGroup_zero_satisfied",
     inner(inner(Part("ps", 2), least=0)), {}, True),
    ("TestGetNumActiveAllocatedDirectSubGroups", "podSet_not_satisfied", inner(Part("ps", 3)), {"ps": 2}, False),
    ("TestGetNumActiveAllocatedDirectSubGroups", "podSet_satisfied", inner(Part("ps", 3)), {"ps": 3}, True),
    ("TestGetNumActiveAllocatedDirectSubGroups", "mixed_podSets",
     inner(Part("ok", 1), Part("bad", 2)), {"ok": 1, "bad": 1}, False),
    ("TestGetNumActiveAllocatedDirectSubGroups", "nested_child_satisfied_by_podSet",
     inner(inner(Part("ps", 1))), {"ps": 1}, True),
    ("TestGetNumActiveAllocatedDirectSubGroups", "empty_child_subgroup_counts_satisfied", inner(inner()), {}, True),
    ("TestGetNumActiveAllocatedDirectSubGroups", "nested_child_not_satisfied_until_pod_min_met",
     inner(inner(Part("ps", 2))), {"ps": 1}, False),
    ("TestGetMinChildrenToSatisfy", "minSubGroup_overrides_count",
     inner(Part("a", 2), Part("b", 1), least=1), {"b": 1}, True),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "placed", "whole"), [each[2:] for each in WHOLE], ids=[each[1] for each in WHOLE])
def test_when_a_tree_of_kai_is_whole(tree, placed, whole):
    """When as many of its parts are as it needs, each with as many members as that needs."""
    lacks = Counter(needed(tree, placed, placed)) - Counter(placed)
    assert (not lacks) is whole


def policy(keys=(), **selector):
    """The labels by which members are divided."""
    said = {"name": "p", "matchLabelKeys": list(keys)}
    return {**said, "labelSelector": selector} if selector else said


#: pkg/scheduler/api/sub_job_info_test.go: test, case, policy, labels of a pod; the values, None for not in it.
OF_VOLCANO = [
    ("TestGetSubJobMatchValues_Basic", "match label selector and collect match values",
     policy(["version", "env"], matchLabels={"app": "test"}), {"app": "test", "version": "v1", "env": "dev"},
     "p/v1/dev"),
    ("TestGetSubJobMatchValues_Basic", "no label selector with match keys", policy(["zone"]), {"zone": "z"}, "p/z"),
    ("TestGetSubJobMatchValues_Basic", "no match keys returns empty slice",
     policy(matchLabels={"app": "test"}), {"app": "test"}, "p"),
    ("TestGetSubJobMatchValues_Boundary", "empty label selector matches all",
     {**policy(["key"]), "labelSelector": {}}, {"key": "value"}, "p/value"),
    ("TestGetSubJobMatchValues_Boundary", "match expression selector",
     policy(["app"], matchExpressions=[{"key": "app", "operator": "In", "values": ["test", "demo"]}]),
     {"app": "demo"}, "p/demo"),
    ("TestGetSubJobMatchValues_Boundary", "multiple match keys with empty values",
     policy(["a", "b"]), {"a": "", "b": "val"}, ""),
    ("TestGetSubJobMatchValues_Error", "pod labels do not match selector",
     policy(["version"], matchLabels={"app": "test"}), {"app": "prod", "version": "v1"}, ""),
    ("TestGetSubJobMatchValues_Error", "missing label key in pod", policy(["missing"]), {"existing": "value"}, ""),
    ("TestGetSubJobMatchValues_Error", "pod has no labels", policy(["any"]), {}, ""),
]  # fmt: skip


def volcano_gang(*policies):
    """What a PodGroup of Volcano says."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"subGroupPolicy": list(policies)}}
    return volcano.gang_from_object(msgspec.convert(raw, volcano.PodGroup))


@pytest.mark.parametrize(("said", "labels", "part"), [e[2:] for e in OF_VOLCANO], ids=[e[1] for e in OF_VOLCANO])
def test_in_which_sub_group_of_volcano_a_pod_is(said, labels, part):
    """In that of the values of its labels, if the policy selects it and it has them all."""
    assert part_of(volcano_gang(said).parts, labels) == part


def test_an_invalid_selector_is_refused():
    """TestGetSubJobMatchValues_Error, "invalid label selector": there it selects nobody; here the group waits."""
    wrong = policy(matchExpressions=[{"key": "app", "operator": "invalid"}])
    with pytest.raises(FieldError) as caught:
        volcano_gang(wrong)
    assert caught.value.field.startswith("spec.subGroupPolicy[0].labelSelector")


def test_the_first_policy_that_selects_a_pod_has_it():
    """pkg/scheduler/api/job_info.go, getOrCreateSubJob: they are asked in their order."""
    both = volcano_gang({"name": "a", "labelSelector": {"matchLabels": {"x": "1"}}}, {"name": "b"}).parts
    assert [part_of(both, labels) for labels in ({"x": "1"}, {"x": "2"}, {})] == ["a", "b", "b"]


DIVIDED = Part(least=1, parts=(Part("p", 2, 2, keys=("k",)),))


@pytest.mark.parametrize(
    ("there", "placed", "wanted"),
    [
        ({"p/0": 2, "p/1": 2, "p/2": 2}, {}, {"p/0": 2, "p/1": 2}),
        ({"p/0": 1, "p/1": 2, "p/2": 2}, {}, {"p/1": 2, "p/2": 2}),
        ({"p/0": 2, "p/1": 2, "p/2": 2}, {"p/2": 1}, {"p/0": 2, "p/2": 2}),
        ({"p/0": 2, "p": 9, "q/1": 2}, {}, {"p": 2, "p/0": 2}),
        ({"p/0": 2}, {}, {"p/0": 2, "p/": 2}),
    ],
    ids=["the first", "those that lack nobody", "those that run in part", "of this policy only", "too few"],
)
def test_which_sub_groups_start(there, placed, wanted):
    """Those that lack no member, then those of which most members run, then the first by name."""
    assert needed(DIVIDED, there, placed) == wanted
