"""Topology constraints as the gang APIs write them, from the object to the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gangsched.cli.main import main
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import gang_from_member
from gangsched.model.dialects.koordinator import LAYERS, MAX_LAYERS, MIN, NAME, TOPOLOGY, PodGroup, gang_from_object
from gangsched.model.dialects.upstream import gang_from_object as upstream_gang
from gangsched.model.errors import FieldError
from gangsched.model.records import Gang
from tests.builders import pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SPINE, BLOCK = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/block"


def upstream(*keys: str) -> Gang:
    """A PodGroup of scheduling.k8s.io with these topology keys."""
    spec = {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}
    return upstream_gang(msgspec.convert(raw, wire.UpstreamPodGroup))


def gather(*layers: tuple[str, str]) -> str:
    """The annotation of Koordinator."""
    return json.dumps({"gatherStrategy": [{"layer": layer, "strategy": f"{s}Gather"} for layer, s in layers]})


def koordinator(annotation: str) -> Gang:
    """A PodGroup of scheduling.sigs.k8s.io with this annotation."""
    meta = {"name": "g", "namespace": "ns", "annotations": {TOPOLOGY: annotation}}
    return gang_from_object(msgspec.convert({"metadata": meta, "spec": {"minMember": 2}}, PodGroup))


def test_upstream_keys_are_required() -> None:
    """The API has no preferred constraints."""
    assert upstream("zone", "rack", "zone").topology == (("zone", True), ("rack", True))
    assert upstream().topology == ()


def test_an_upstream_constraint_needs_a_key() -> None:
    """The field is named."""
    with pytest.raises(FieldError) as caught:
        upstream("rack", "")
    assert caught.value.field == "spec.schedulingConstraints.topology[1].key"


@pytest.mark.parametrize(
    ("layers", "topology"),
    [
        ([("hostLayer", "Must")], [(HOST, True)]),
        ([("NodeTopologyLayer", "Prefer")], [(HOST, False)]),
        ([("BlockLayer", "Prefer"), ("SpineLayer", "Must")], [(SPINE, True), (BLOCK, False)]),
        ([("zone", "Must"), ("RackLayer", "Prefer")], [(ZONE, True), (LAYERS["rack"], False)]),
        ([("rack", "Must")], [("rack", True)]),
        ([("example.com/rack", "Prefer"), ("example.com/row", "Must")], [("example.com/rack", False),
                                                                         ("example.com/row", True)]),
        ([("ClusterTopologyLayer", "Must")], []),
        ([("zone", "Prefer"), ("ZoneLayer", "Must")], [(ZONE, True)]),
        ([], []),
    ],
    ids=["host", "node", "innermost-first", "short-names", "label", "labels", "cluster", "twice", "empty"],
)  # fmt: skip
def test_koordinator_layers(layers: list[tuple[str, str]], topology: list[tuple[str, bool]]) -> None:
    """Known layers stand for a label and have an order; anything else is a label key."""
    assert koordinator(gather(*layers)).topology == tuple(topology)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not JSON"),
        ('{"gatherStrategy": [{"layer": "RackLayer"}]}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (gather(("RackLayer", "Could")), "'CouldGather'"),
        (gather(("no such layer", "Must")), "neither a known layer nor a label key"),
        (gather(*[("zone", "Must")] * (MAX_LAYERS + 1)), f"at most {MAX_LAYERS}"),
    ],
    ids=["cut", "list", "no-strategy", "deep", "strategy", "layer", "many"],
)
def test_wrong_annotations_are_named(raw: str, message: str) -> None:
    """The author of the object learns what is wrong."""
    with pytest.raises(FieldError, match=message) as caught:
        koordinator(raw)
    assert caught.value.field == f"metadata.annotations[{TOPOLOGY}]"


def test_gangs_without_an_object_have_it_on_their_members() -> None:
    """A member's annotation counts; a wrong one asks for nothing."""
    member = pod("m").light_gang("g", 2).hint(TOPOLOGY, gather(("HostLayer", "Must"))).obj()
    made = [gang_of(member.hints), gang_of({**member.hints, TOPOLOGY: "{"})]
    assert made == [((HOST, True),), ()]


def gang_of(hints: Any) -> tuple[tuple[str, bool], ...]:
    """The constraints that a member with these annotations describes."""
    raw = {"metadata": {"name": "m", "namespace": "ns", "annotations": dict(hints)}, "spec": {}}
    found = gang_from_member(Converter().pod(msgspec.convert(raw, wire.Pod)))
    assert found is not None
    assert {NAME, MIN} <= set(hints)
    return found.topology


# -- plans from manifests ----------------------------------------------------------------------------------


def manifest_node(name: str, rack: str) -> dict[str, Any]:
    """A node with four cores in a rack."""
    labels = {"rack": rack, "kubernetes.io/hostname": name}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def manifest_pod(name: str, level: str, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of three cores and a PriorityClass."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"schedulerName": "py-gang-scheduler", "priorityClassName": level, "containers": [container], **spec},
    }


NODES = [manifest_node(f"{rack}{n}", rack) for rack in "ab" for n in (1, 2)]
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("low", 1), ("medium", 2), ("high", 3))
]
LOW = [manifest_pod(f"x-{name}", level, nodeName=name) for name, level in (("a1", "low"), ("b1", "medium"))]
UPSTREAM_GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
}
SIGS_GROUP = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "annotations": {TOPOLOGY: gather(("rack", "Must"))}},
    "spec": {"minMember": 2},
}
CASES = [
    (UPSTREAM_GROUP, {"schedulingGroup": {"podGroupName": "g"}}, {}),
    (SIGS_GROUP, {}, {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}),
]


@pytest.mark.parametrize(("group", "spec", "metadata"), CASES, ids=["upstream", "koordinator"])
def test_plan(
    group: dict[str, Any],
    spec: dict[str, Any],
    metadata: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plan names the domain: the rack where one pod of low priority has to leave."""
    members = [manifest_pod(f"m{n}", "high", metadata, **spec) for n in range(2)]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([*NODES, *CLASSES, *LOW, group, *members]))
    assert main(["plan", "-f", str(path), "-o", "json"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (decision["outcome"], decision["topologyDomain"]) == ("preempt", "rack=a")
    assert sorted(decision["placements"].values()) == ["a1", "a2"]
    assert [v["pod"] for v in decision["victims"]] == ["default/x-a1"]
    assert main(["plan", "-f", str(path)]) == 0
    assert "rack=a" in capsys.readouterr().out


def test_the_documented_layers_are_those_that_are_known() -> None:
    """The table of docs/topology.md, in the same order."""
    page = (Path(__file__).parents[3] / "docs" / "topology.md").read_text()
    table = page.partition("<!-- layers: begin -->")[2].partition("<!-- layers: end -->")[0]
    rows = [line.replace("`", "").split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    expected = [(f"{name.capitalize()}Layer", label) for name, label in LAYERS.items()]
    assert [(layer.strip(), label.strip()) for layer, label in rows] == expected
