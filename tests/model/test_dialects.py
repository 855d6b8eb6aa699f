"""The gang APIs: what pods and group objects say about a gang."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import DIALECTS, coscheduling, gang_from_member, koordinator, needs_object, role_of
from gangsched.model.dialects.koordinator import MAX_GROUPS
from gangsched.model.dialects.upstream import gang_from_object as upstream_gang
from gangsched.model.errors import FieldError
from gangsched.model.records import Part

KUEUE = "kueue.x-k8s.io/pod-group-"
K = "gang.scheduling.koordinator.sh/"
LABEL = "pod-group.scheduling.sigs.k8s.io"


def pod(labels=None, annotations=None, **spec):
    """A pod with these labels and annotations."""
    meta = {"name": "p", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}}
    return Converter().pod(msgspec.convert({"metadata": meta, "spec": spec}, wire.Pod))


def sigs(minimum=2, annotations=None, **spec):
    """A PodGroup of scheduling.sigs.k8s.io."""
    meta = {"name": "g", "namespace": "ns", "annotations": annotations or {}}
    raw = {"metadata": meta, "spec": {"minMember": minimum, **spec}}
    return koordinator.gang_from_object(msgspec.convert(raw, koordinator.PodGroup))


def upstream(**spec):
    """A PodGroup of scheduling.k8s.io."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}
    return upstream_gang(msgspec.convert(raw, wire.UpstreamPodGroup))


@pytest.mark.parametrize(
    ("fields", "family", "name"),
    [
        ({}, "Pod", "p"),
        ({"labels": {LABEL: "g"}}, "scheduling.sigs.k8s.io", "g"),
        ({"labels": {f"{LABEL}/name": "g"}}, "scheduling.sigs.k8s.io", "g"),
        ({"annotations": {f"{K}name": "g"}}, "scheduling.sigs.k8s.io", "g"),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "scheduling.x-k8s.io", "g"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "scheduling.k8s.io", "g"),
        ({"labels": {f"{KUEUE}name": "g"}}, "kueue.x-k8s.io", "g"),
        ({"annotations": {f"{KUEUE}name": "g"}}, "kueue.x-k8s.io", "g"),
        ({"labels": {f"{KUEUE}name": "g", LABEL: "h"}}, "scheduling.sigs.k8s.io", "h"),
        ({"labels": {LABEL: ""}}, "Pod", "p"),
        ({"labels": {"grove.io/podgang": "g"}}, "scheduler.grove.io", "g"),
        ({"labels": {"grove.io/podgang": "g"}, "annotations": {"pod-group-name": "h"}}, "scheduling.run.ai", "h"),
    ],
)
def test_membership(fields, family, name):
    """Each API's way of naming the group; a pod without one is its own gang."""
    gang = pod(**fields).gang
    assert (gang.family, gang.namespace, gang.name) == (family, "ns", name)


def test_of_several_groups_one_counts():
    """The order in which the dialects are asked, each once those before it are left out."""
    fields = [
        ("scheduling.k8s.io", {"schedulingGroup": {"podGroupName": "g"}}),
        ("scheduling.sigs.k8s.io", {"labels": {LABEL: "g"}}),
        ("kueue.x-k8s.io", {"labels": {f"{KUEUE}name": "g"}}),
        ("scheduling.x-k8s.io", {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
        ("scheduling.volcano.sh", {"annotations": {"scheduling.k8s.io/group-name": "g"}}),
        ("scheduling.run.ai", {"annotations": {"pod-group-name": "g"}}),
        (
            "yunikorn.apache.org",
            {"labels": {"applicationId": "g"}, "annotations": {"yunikorn.apache.org/task-groups": "[]"}},
        ),
        ("scheduler.grove.io", {"labels": {"grove.io/podgang": "g"}}),
    ]
    assert [family for family, _ in fields] == [each.family for each in DIALECTS]
    for first in range(len(fields)):
        said: dict[str, dict[str, str]] = {"labels": {}, "annotations": {}}
        for _, field in fields[first:]:
            for key, value in field.items():
                said[key] = {**said.get(key, {}), **value}
        assert pod(**said).gang.family == fields[first][0]


def test_the_field_of_the_api_wins_over_labels():
    """A pod that names groups of two APIs belongs to the one of its spec."""
    both = pod(labels={LABEL: "other"}, schedulingGroup={"podGroupName": "g"})
    assert (both.gang.family, both.gang.name) == ("scheduling.k8s.io", "g")


def test_members_of_other_schedulers_are_other_gangs():
    """Members share the scheduler with their gang."""
    assert pod({LABEL: "g"}, schedulerName="a").gang != pod({LABEL: "g"}, schedulerName="b").gang


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({}, False),
        ({"labels": {LABEL: "g"}}, True),
        ({"labels": {f"{LABEL}/name": "g"}}, False),
        ({"annotations": {f"{K}name": "g"}}, False),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, True),
        ({"schedulingGroup": {"podGroupName": "g"}}, True),
    ],
)
def test_which_members_wait_for_an_object(fields, needed):
    """Groups that live in annotations need no object; the others do."""
    assert needs_object(pod(**fields)) is needed


def test_sigs_group():
    """Minimum and timeout come from the spec, the rest from Koordinator's annotations."""
    gang = sigs(3, scheduleTimeoutSeconds=60)
    assert (gang.min_member, gang.timeout_seconds, gang.match_policy, gang.strict) == (3, 60.0, "once-satisfied", True)
    assert (gang.priority, gang.disruption, gang.group) == (None, None, ())
    tuned = sigs(annotations={f"{K}match-policy": "only-waiting", f"{K}mode": "NonStrict"})
    assert (tuned.match_policy, tuned.strict) == ("only-waiting", False)
    assert tuned.remark is not None
    assert tuned.remark.field == f"metadata.annotations[{K}mode]"


def gathered(*layers):
    """The annotation with these layers, each with a multiple of members or 0."""
    listed = [{"layer": layer, "strategy": "PreferGather", "podCountMultiple": count} for layer, count in layers]
    return {f"{K}network-topology-spec": json.dumps({"gatherStrategy": listed})}


def test_a_multiple_of_members_in_each_domain():
    """The members are divided by their indexes, or by the numbers in their names, into segments with a domain each."""
    rack = "topology.kubernetes.io/rack"
    gang = sigs(8, annotations=gathered(("SpineLayer", 0), ("RackLayer", 4)))
    segments = Part("segment", 4, least=2, topology=((rack, True),))
    assert (gang.parts, gang.topology[-1], gang.remark) == (Part(least=1, parts=(segments,)), (rack, False), None)
    index = f"{K}network-topology-index"
    roles = [
        role_of(named(name, {index: at} if at else {}), gang) for name, at in (("w-3", ""), ("w-3", "4"), ("w", ""))
    ]
    assert roles == ["segment/0", "segment/1", ""]
    assert role_of(named("w-3", {}), sigs(8)) == ""


def named(name, annotations):
    """A member of this name."""
    meta = {"name": name, "namespace": "ns", "labels": {LABEL: "g"}, "annotations": annotations}
    return Converter().pod(msgspec.convert({"metadata": meta, "spec": {}}, wire.Pod))


@pytest.mark.parametrize("layers", [[("RackLayer", 3)], [("RackLayer", -4)], [("SpineLayer", 8), ("RackLayer", 4)]])
def test_multiples_that_are_refused(layers):
    """The minimum has whole segments, of one layer."""
    with pytest.raises(FieldError) as caught:
        sigs(8, annotations=gathered(*layers))
    assert caught.value.field == f"metadata.annotations[{K}network-topology-spec]"


@pytest.mark.parametrize("minimum", [0, -1, 1_000_001])
def test_the_minimum_is_bounded(minimum):
    """A gang of nobody, or of more than a cluster holds, is a mistake."""
    with pytest.raises(FieldError) as caught:
        sigs(minimum)
    assert caught.value.field == "spec.minMember"


def test_gang_group_is_sorted_and_needs_two():
    """The order in the annotation is the user's; a group of one gang is none."""
    assert sigs(annotations={f"{K}groups": '["ns/b", "ns/a", "ns/b"]'}).group == ("ns/a", "ns/b")
    assert sigs(annotations={f"{K}groups": '["ns/g"]'}).group == ()


@pytest.mark.parametrize("raw", ["[", "{}", "[1]", '["a"]', '["a/b/c"]', '["/b"]', "[" * 100_000, "null"])
def test_wrong_gang_groups_are_named(raw):
    """The annotation must be a JSON list of ns/name."""
    with pytest.raises(FieldError, match="JSON list") as caught:
        sigs(annotations={f"{K}groups": raw})
    assert caught.value.field == f"metadata.annotations[{K}groups]"


def test_gang_groups_are_bounded():
    """The size of a GangGroup is chosen by users, so it has a limit."""
    names = ",".join(f'"ns/g{i}"' for i in range(MAX_GROUPS + 1))
    with pytest.raises(FieldError, match="at most"):
        sigs(annotations={f"{K}groups": f"[{names}]"})


def test_gang_from_annotations():
    """A gang without an object is described by its members."""
    notes = {f"{K}name": "g", f"{K}min-available": "4", f"{K}waiting-time": "1h30m", f"{K}groups": '["ns/g","ns/h"]'}
    gang = gang_from_member(pod(annotations=notes))
    assert gang is not None
    assert (gang.key, gang.min_member, gang.timeout_seconds) == ("ns/g", 4, 5400.0)
    assert gang.group == ("ns/g", "ns/h")


def test_gang_from_the_older_labels():
    """The light-weight labels carry name and minimum."""
    gang = gang_from_member(pod(labels={f"{LABEL}/name": "g", f"{LABEL}/min-available": "2"}))
    assert gang is not None
    assert (gang.name, gang.min_member) == ("g", 2)


def test_gang_of_a_plain_pod_group():
    """All of its pods start together."""
    member = pod(labels={f"{KUEUE}name": "g"}, annotations={f"{KUEUE}total-count": "3"})
    gang = gang_from_member(member)
    assert gang is not None
    assert (gang.key, gang.min_member, gang.mistake, member.mistake) == ("ns/g", 3, None, None)
    assert not needs_object(member)


@pytest.mark.parametrize(("raw", "family"), [("true", "Pod"), ("false", "kueue.x-k8s.io"), (None, "kueue.x-k8s.io")])
def test_pods_of_a_plain_pod_group_may_come_one_by_one(raw, family):
    """A StatefulSet creates a pod when the one before is ready: none waits for those that come later."""
    notes = {f"{KUEUE}total-count": "3"} | ({} if raw is None else {f"{KUEUE}fast-admission": raw})
    assert pod(labels={f"{KUEUE}name": "g"}, annotations=notes).gang.family == family


@pytest.mark.parametrize("raw", [None, "", "0", "-1", "three", "1000001", "12345678", "१"])
def test_a_plain_pod_group_says_how_many_pods_it_has(raw):
    """Otherwise it waits, and none of its pods can be spared."""
    notes = {} if raw is None else {f"{KUEUE}total-count": raw}
    member = pod(labels={f"{KUEUE}name": "g"}, annotations=notes)
    gang = gang_from_member(member)
    assert gang is not None
    assert gang.mistake is not None
    assert gang.mistake == member.mistake
    assert (gang.mistake.field, gang.min_member) == (f"metadata.annotations[{KUEUE}total-count]", 1_000_000)


@pytest.mark.parametrize("raw", [None, ""])
def test_annotations_without_a_minimum_describe_nothing(raw):
    """Such a gang stays unknown instead of being guessed."""
    notes = {f"{K}name": "g"} | ({f"{K}min-available": raw} if raw is not None else {})
    member = pod(annotations=notes)
    assert (gang_from_member(member), member.mistake) == (None, None)


@pytest.mark.parametrize("raw", ["0", "-1", "two", "1.0", " 1", "9999999", "१"])
@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_minimum_that_is_no_number_is_a_mistake(raw, where):
    """It is named, and until it is mended no member can be spared."""
    keys = (f"{K}name", f"{K}min-available") if where == "annotations" else (f"{LABEL}/name", f"{LABEL}/min-available")
    member = pod(**{where: dict(zip(keys, ("g", raw), strict=True))})
    gang = gang_from_member(member)
    assert gang is not None
    assert gang.mistake is not None
    assert gang.mistake == member.mistake
    assert (gang.mistake.field, gang.min_member) == (f"metadata.{where}[{keys[1]}]", 1_000_000)


def test_a_total_number_is_no_less_than_the_minimum():
    """It is not acted on; one that the minimum contradicts is a mistake."""
    notes = {f"{K}name": "g", f"{K}min-available": "4"}
    assert pod(annotations=notes | {f"{K}total-number": "4"}).mistake is None
    mistake = pod(annotations=notes | {f"{K}total-number": "3"}).mistake
    assert mistake.field == f"metadata.annotations[{K}total-number]"
    assert "4" in mistake.message


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"labels": {LABEL: "A"}}, f"metadata.labels[{LABEL}]"),
        ({"labels": {f"{LABEL}/name": "a_b"}}, f"metadata.labels[{LABEL}/name]"),
        ({"annotations": {f"{K}name": " "}}, f"metadata.annotations[{K}name]"),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "A"}}, "metadata.labels[scheduling.x-k8s.io/pod-group]"),
        ({"schedulingGroup": {"podGroupName": "a#b"}}, "spec.schedulingGroup.podGroupName"),
    ],
)
def test_names_that_no_object_can_have(fields, field):
    """The pod is its own gang, and says what is wrong."""
    member = pod(**fields)
    assert (member.gang.family, member.gang.name) == ("Pod", "p")
    assert member.mistake.field == field
    assert "DNS-1123" in member.mistake.message


@given(st.text(max_size=300))
def test_a_name_is_taken_as_it_is_or_not_at_all(name):
    """Whatever is written, the gang has that name, or the pod is alone."""
    member = pod(annotations={f"{K}name": name})
    if member.mistake is None and name:
        assert member.gang.name == name
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    else:
        assert member.gang.name == "p"


@pytest.mark.parametrize("key", ["mode", "match-policy"])
def test_a_group_object_with_an_unknown_word_is_refused(key):
    """As a member's annotations are."""
    with pytest.raises(FieldError) as caught:
        sigs(annotations={f"{K}{key}": "sometimes"})
    assert caught.value.field == f"metadata.annotations[{K}{key}]"


@given(st.text(max_size=50))
def test_any_waiting_time_is_a_duration_or_a_remark(raw):
    """Hostile text in the annotation never fails, never gives a time that is not positive, and is told."""
    member = pod(annotations={f"{K}name": "g", f"{K}min-available": "1", f"{K}waiting-time": raw})
    gang = gang_from_member(member)
    assert gang is not None
    assert gang.timeout_seconds is None or gang.timeout_seconds > 0
    assert (member.remark is not None) == bool(raw and gang.timeout_seconds is None)
    assert member.mistake is None


def test_a_pod_without_group_describes_no_gang():
    """Only members of annotation gangs speak for their gang."""
    assert gang_from_member(pod()) is None
    assert gang_from_member(pod(schedulingGroup={"podGroupName": "g"})) is None


def test_coscheduling_group_keeps_its_family():
    """The twin API has the same spec and other members."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 2}}
    gang = coscheduling.gang_from_object(msgspec.convert(raw, koordinator.PodGroup))
    assert (gang.family, gang.min_member) == ("scheduling.x-k8s.io", 2)


def test_upstream_policies():
    """A gang policy has its count, a basic policy starts members one by one."""
    assert upstream(schedulingPolicy={"gang": {"minCount": 4}}).min_member == 4
    assert upstream(schedulingPolicy={"gang": {"minCount": 4}}).match_policy == "once-satisfied"
    basic = upstream(schedulingPolicy={"basic": {}})
    assert (basic.min_member, basic.match_policy) == (1, "only-waiting")


@pytest.mark.parametrize(
    ("mode", "disruption"),
    [("Pod", "pod"), ("PodGroup", "gang"), ({"single": {}}, "pod"), ({"all": {}}, "gang"), (None, "pod")],
)
def test_upstream_disruption_modes(mode, disruption):
    """Both spellings mean the same; nothing is the API's default, pods one by one."""
    spec = {} if mode is None else {"disruptionMode": mode}
    assert upstream(schedulingPolicy={"gang": {"minCount": 1}}, **spec).disruption == disruption


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"schedulingPolicy": {"gang": {}, "basic": {}}}, "spec.schedulingPolicy"),
        ({"disruptionMode": "All"}, "spec.disruptionMode"),
        ({"disruptionMode": {"all": {}, "single": {}}}, "spec.disruptionMode"),
        ({"disruptionMode": {}}, "spec.disruptionMode"),
    ],
)
def test_wrong_upstream_groups_are_named(spec, field):
    """What the API server would refuse is refused here too."""
    with pytest.raises(FieldError) as caught:
        upstream(**spec)
    assert caught.value.field == field


def job(policy=None, parallelism=4, notes=None, **scheduling):
    """A Job that says this about its pods."""
    if policy is not None:
        scheduling["schedulingPolicy"] = policy
    meta = {"name": "train", "namespace": "ns", "uid": "u", "annotations": notes or {}}
    spec = {"parallelism": parallelism, "template": {"spec": {"containers": []}}, "scheduling": scheduling}
    return Converter().job(msgspec.convert({"metadata": meta, "spec": spec}, wire.Job))


@pytest.mark.parametrize(
    ("policy", "notes", "gang", "minimum"),
    [
        (None, {}, None, None),
        ({"basic": {}}, {}, None, None),
        ({"gang": {}}, {}, True, 4),
        ({"gang": {"minCount": 3}}, {}, True, 3),
        ({"gang": {}}, {"gangsched.dev/gang": "false"}, False, 4),
        ({"basic": {}}, {"gangsched.dev/gang": "true"}, True, None),
    ],
)
def test_scheduling_of_a_job(policy, notes, gang, minimum):
    """A gang of all pods that it runs at once, or fewer; the annotation overrides it."""
    found = job(policy, notes=notes)
    assert found.gang is gang
    assert (found.scheduling and found.scheduling.min_member) == minimum


def test_what_else_the_scheduling_of_a_job_says():
    """As in a PodGroup."""
    found = job({"gang": {}}, schedulingConstraints={"topology": [{"key": "rack"}]}, disruptionMode={"all": {}})
    assert (found.scheduling.topology, found.scheduling.disruption) == ((("rack", True),), "gang")


@pytest.mark.parametrize(
    ("policy", "more", "field"),
    [
        ({"gang": {"minCount": 0}}, {}, "spec.scheduling.schedulingPolicy.gang.minCount"),
        ({"gang": {}, "basic": {}}, {}, "spec.scheduling.schedulingPolicy"),
        ({"gang": {}}, {"disruptionMode": {"some": {}}}, "spec.scheduling.disruptionMode"),
    ],
)
def test_wrong_scheduling_of_a_job_is_named(policy, more, field):
    """With its path."""
    with pytest.raises(FieldError) as raised:
        job(policy, **more)
    assert raised.value.field == field


def test_a_group_of_a_composite_group_names_its_workload():
    """Which is the same for all groups of a tree."""
    with pytest.raises(FieldError) as raised:
        upstream(parentCompositePodGroupName="parent", schedulingPolicy={"gang": {"minCount": 1}})
    assert raised.value.field == "spec.workloadRef"


def test_upstream_priority_and_topology():
    """The group's own priority, policy and topology key are carried over."""
    topology = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    gang = upstream(priority=7, preemptionPolicy="Never", schedulingPolicy={"gang": {"minCount": 1}}, **topology)
    assert (gang.priority, gang.preemption_policy, gang.topology) == (7, "Never", (("rack", True),))
