"""PodGroups of KAI."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import needs_object, role_of
from gangsched.model.dialects.kai import (
    PodGroup,
    Queue,
    RawTopology,
    gang_from_object,
    queue_from_object,
    topology_from_object,
)
from gangsched.model.errors import FieldError

#: Levels of the Topology ``t`` in constraints.
ZONE, RACK = "zone of Topology t", "rack of Topology t"


def group(**spec):
    """A PodGroup of KAI."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}
    return gang_from_object(msgspec.convert(raw, PodGroup))


def member(annotations, labels=None, scheduler="kai-scheduler", node=""):
    """A pod with these annotations, on a node if one is named."""
    meta = {"name": "p", "namespace": "ns", "labels": labels or {}, "annotations": annotations}
    spec = {"schedulerName": scheduler, "nodeName": node}
    return Converter().pod(msgspec.convert({"metadata": meta, "spec": spec}, wire.Pod))


def part(name, least=1, **more):
    """A part of a group."""
    return {"name": name, "minMember": least, **more}


def test_members_name_their_group_by_annotation():
    """The annotation names the group, whose object must be there, and the label the part."""
    pod = member({"pod-group-name": "g"}, {"kai.scheduler/subgroup-name": "leader"})
    assert pod.gang == ("scheduling.run.ai", "ns", "g", "kai-scheduler")
    assert needs_object(pod)
    assert role_of(pod, group()) == "leader"


@pytest.mark.parametrize(
    ("annotations", "scheduler", "gang", "waits"),
    [
        ({}, "kai-scheduler", ("Pod", "p"), True),
        ({"kai.scheduler/skip-podgrouper": "true"}, "kai-scheduler", ("Pod", "p"), False),
        ({}, "py-gang-scheduler", ("Pod", "p"), False),
        ({"pod-group-name": "g"}, "kai-scheduler", ("scheduling.run.ai", "g"), False),
        ({"pod-group-name": "p"}, "kai-scheduler", ("scheduling.run.ai", "p"), False),
    ],
)
def test_a_pod_of_kai_without_a_group_waits_for_one(annotations, scheduler, gang, waits):
    """The podgrouper puts every pod with KAI's scheduler name into a group, unless it is told to leave it out."""
    found = member(annotations, scheduler=scheduler)
    assert (found.gang.family, found.gang.name) == gang
    assert found.ungrouped == ("KAI's podgrouper" if waits else "")


@pytest.mark.parametrize(
    ("spec", "minimum", "roles"),
    [
        ({}, 1, ()),
        ({"minMember": None}, 1, ()),
        ({"minMember": 4}, 4, ()),
        ({"subGroups": [part("b", 2), part("a")]}, 3, (("a", 1), ("b", 2))),
        ({"minMember": 7, "subGroups": [part("a", 2)]}, 2, (("a", 2),)),
        ({"minSubGroup": 2, "subGroups": [part("a", 2), part("b", 0)]}, 2, (("a", 2),)),
        ({"subGroups": [part("a", 0)]}, 1, ()),
    ],
)
def test_the_minimum(spec, minimum, roles):
    """That of the group, or of its parts together, of which each has its own."""
    made = group(**spec)
    assert (made.min_member, made.roles) == (minimum, roles)


@pytest.mark.parametrize(
    ("said", "note", "seconds"), [("5m", "9m", 300), ("", "9m", 540), ("0s", "", None), ("", "", None)]
)
def test_the_delay_before_it_evicts(said, note, seconds):
    """That of its spec, else that of its annotation."""
    meta = {"name": "g", "namespace": "ns", "annotations": {"kai.scheduler/preemption-delay": note}}
    raw = {"metadata": meta, "spec": {"preemptionDelay": said}}
    assert gang_from_object(msgspec.convert(raw, PodGroup)).preemption_delay_seconds == seconds


@pytest.mark.parametrize("asked", ["gpu-fraction", "gpu-memory"])
def test_a_share_of_a_gpu_is_refused(asked):
    """A pod that asks for one would start without any GPU: it waits outside of its gang, in which it is if it runs."""
    waits, runs = (member({"pod-group-name": "g", asked: "1"}, node=node) for node in ("", "n"))
    assert (waits.gang.family, waits.gang.name, runs.gang.name) == ("Pod", "p", "g")
    for pod in (waits, member({asked: "1"}), member({"kai.scheduler/skip-podgrouper": "true", asked: "1"})):
        assert pod.mistake is not None
        assert pod.mistake.field == f"metadata.annotations[{asked}]"
    assert member({asked: "1"}, node="n").mistake is None


def test_node_pools_are_not_kept_apart():
    """A pod of a node pool may be placed outside of it, and that is told."""
    pod = member({"pod-group-name": "g"}, {"kai.scheduler/node-pool": "fast"})
    assert pod.mistake is None
    assert pod.remark is not None
    assert pod.remark.field == "metadata.labels[kai.scheduler/node-pool]"


def test_priority_and_preemptibility():
    """The class is that of the group as preemptor and victim; its pods may be excluded from preemption."""
    assert group(priorityClassName="train").priority_class == "train"
    stakes = {word: group(preemptibility=word).stakes for word in ("", "preemptible", "non-preemptible")}
    said = {word: (each.never, each.never_from) for word, each in stakes.items()}
    assert said == {"": (False, 100), "preemptible": (False, None), "non-preemptible": (True, None)}


@pytest.mark.parametrize(
    ("constraint", "levels"),
    [
        ({"topology": "t", "requiredTopologyLevel": "zone"}, ((ZONE, True),)),
        ({"topology": "t", "preferredTopologyLevel": "rack"}, ((RACK, False),)),
        (
            {"topology": "t", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"},
            ((ZONE, True), (RACK, False)),
        ),
        ({"topology": "t", "requiredTopologyLevel": "rack", "preferredTopologyLevel": "rack"}, ((RACK, True),)),
        ({"requiredTopologyLevel": "zone"}, ()),
        ({"topology": "t"}, ()),
    ],
)
def test_levels_of_a_topology(constraint, levels):
    """The preferred level is within the required one; KAI looks at neither without the name of a Topology."""
    assert group(topologyConstraint=constraint).topology == levels
    found = group(subGroups=[part("a", topologyConstraint=constraint)])
    assert (found.parts.parts[0].topology if found.parts is not None else ()) == levels


def test_a_tree_with_a_topology_at_each_level():
    """The example of KAI's guide on several levels: a zone for all, a block for two sub-groups, a rack for each."""

    def within(level):
        return {"topology": "t", "requiredTopologyLevel": level}

    api = part("api")
    workers = {"name": "workers", "topologyConstraint": within("block")}
    prefill, decode = (
        part(name, least, parent="workers", topologyConstraint=within("rack"))
        for name, least in (("prefill", 3), ("decode", 5))
    )
    found = group(topologyConstraint=within("zone"), subGroups=[api, workers, prefill, decode])
    assert (found.min_member, found.topology, found.roles) == (9, ((ZONE, True),), ())
    of_api, of_workers = found.parts.parts
    assert (of_api.topology, of_workers.topology) == ((), (("block of Topology t", True),))
    assert [(each.name, each.count, each.topology) for each in of_workers.parts] == [
        ("prefill", 3, ((RACK, True),)),
        ("decode", 5, ((RACK, True),)),
    ]


def test_a_domain_of_a_topology_has_the_labels_of_all_levels_above():
    """Each level is known by its label and by its alias."""
    levels = [{"nodeLabel": "zone"}, {"nodeLabel": "example.com/rack", "alias": "rack"}]
    raw = {"metadata": {"name": "t"}, "spec": {"levels": levels}}
    found = topology_from_object(msgspec.convert(raw, RawTopology))
    path = ("zone", "example.com/rack")
    assert dict(found.paths) == {ZONE: ("zone",), RACK: path, "example.com/rack of Topology t": path}


@pytest.mark.parametrize("label", ["", "zone"])
def test_a_level_needs_a_label_of_its_own(label):
    """The field is named."""
    raw = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": label}]}}
    with pytest.raises(FieldError) as caught:
        topology_from_object(msgspec.convert(raw, RawTopology))
    assert caught.value.field == "spec.levels[1].nodeLabel"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minMember": 1_000_001}, "spec.minMember"),
        ({"minMember": 1, "minSubGroup": 1, "subGroups": [part("a")]}, "spec.minSubGroup"),
        ({"preemptibility": "sometimes"}, "spec.preemptibility"),
        ({"subGroups": [part("a", -1)]}, "spec.subGroups[0].minMember"),
        ({"subGroups": [part("a", 600_000), part("b", 600_000)]}, "spec.subGroups"),
        ({"subGroups": [part(f"p{n}", parent=f"p{n + 1}") for n in range(8)] + [part("p8")]}, "spec.subGroups[1]"),
    ],
)
def test_what_cannot_be_kept_is_refused(spec, field):
    """A gang that would be placed against its wishes waits, and the field is named."""
    with pytest.raises(FieldError) as caught:
        group(**spec)
    assert caught.value.field == field


def test_a_group_without_mistakes_says_nothing():
    """Nothing in it is reported."""
    assert group(queue="research", subGroups=[part("a")]).remark is None


def queue(**spec):
    """A Queue."""
    return queue_from_object(msgspec.convert({"metadata": {"name": "team", "uid": "u"}, "spec": spec}, Queue))


def test_a_queue_is_one_of_ours():
    """Its quota is its own, up to its limit it borrows; below 0 there is none. Units are KAI's."""
    resources = {"cpu": {"quota": 4000, "limit": 6000}, "memory": {"quota": 100}, "gpu": {"quota": -1, "limit": 2}}
    found = queue(parentQueue="all", resources=resources)
    assert (found.name, found.cohort) == ("scheduling.run.ai:team", "scheduling.run.ai:all")
    amounts = {r: (q.nominal, q.borrowing) for r, q in found.groups[0].flavors[0].resources}
    assert amounts == {"cpu": (4000, 2000), "memory": (100_000_000, None), "nvidia.com/gpu": (2, 0)}
    assert queue(resources={"cpu": {"quota": -1}}).groups == ()


def test_minimum_run_times_of_a_queue():
    """In seconds; none unless it says so."""
    found = queue(preemptMinRuntime="5m", reclaimMinRuntime="30s")
    assert (found.preempt_after, found.reclaim_after) == (300.0, 30.0)
    assert (queue().preempt_after, queue().reclaim_after) == (0.0, 0.0)
    with pytest.raises(FieldError) as caught:
        queue(preemptMinRuntime="soon")
    assert caught.value.field == "spec.preemptMinRuntime"
