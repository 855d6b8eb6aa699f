"""ClusterNetworkTopologies of Koordinator: which node label a layer has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.api import load, plan
from gangsched.core.events import Changed, Gone
from gangsched.model.dialects.koordinator import NetworkTopologyObject, layers_from_object
from gangsched.model.errors import FieldError
from gangsched.model.records import ClusterNetworkTopology
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of

SPINE, RACK = "network.topology.nvidia.com/spine", "rack"
KIND = "ClusterNetworkTopology"


def layers(*listed: dict[str, Any], name: str = "default") -> ClusterNetworkTopology:
    """An object with these layers."""
    raw = {"metadata": {"name": name}, "spec": {"networkTopologySpec": list(listed)}}
    return layers_from_object(msgspec.convert(raw, NetworkTopologyObject))


def layer(name: str, *labels: str) -> dict[str, Any]:
    """One of its layers."""
    return {"topologyLayer": name, "labelKey": list(labels)}


def test_the_label_of_a_layer() -> None:
    """Layers are called as annotations of gangs call them; a layer without a label says nothing."""
    found = layers(layer("SpineLayer", "a"), layer("podTopologyLayer", "b"), layer("ClusterTopologyLayer"))
    assert dict(found.labels) == {SPINE: "a", "podTopologyLayer": "b"}


@pytest.mark.parametrize(
    ("listed", "field"), [(layer("x", "a", "b"), "labelKey"), (layer("no layer", "a"), "topologyLayer")]
)
def test_what_cannot_be_understood(listed: dict[str, Any], field: str) -> None:
    """Neither one of several labels nor a name that no annotation can have."""
    with pytest.raises(FieldError) as caught:
        layers(listed)
    assert caught.value.field == f"spec.networkTopologySpec[0].{field}"


def world() -> list[Built]:
    """Racks of one node and of two, and a gang of two that needs a node each, below one spine."""
    nodes = [node(name).cpu(1).label(rack=rack) for name, rack in (("n1", "a"), ("n2", "b"), ("n3", "b"))]
    members = [pod(name).cpu(1).gang("g") for name in ("m1", "m2")]
    return [*nodes, gang("g").min(2).field(topology=((SPINE, True),)), *members]


def test_a_gang_looks_again_when_its_layer_has_a_label() -> None:
    """Nodes have no label of the name that the layer has otherwise."""
    cluster = Cluster(*world())
    assert nodes_of(cluster.run()) == {}
    cluster.show(Changed(ClusterNetworkTopology("default", ((SPINE, RACK),))))
    cluster.pass_time(60)
    cluster.run()
    assert {cluster.pod("m1").node, cluster.pod("m2").node} == {"n2", "n3"}


def test_the_first_object_by_name_counts() -> None:
    """Of several that name the layer; without any of them its usual label counts again."""
    first, second = (ClusterNetworkTopology(name, ((SPINE, key),)) for name, key in (("a", RACK), ("b", "none")))
    cluster = Cluster(Changed(second), Changed(first), *world())
    assert sorted(nodes_of(cluster.run()).values()) == ["n2", "n3"]
    cluster = Cluster(Changed(first), Gone(KIND, "", "a"), *world())
    assert nodes_of(cluster.run()) == {}


def test_of_two_layers_of_one_label_the_stricter_counts() -> None:
    """A preferred layer does not loosen a required one."""
    cluster = Cluster(
        Changed(ClusterNetworkTopology("a", ((SPINE, RACK), ("block", RACK)))), gang("g"), pod("m").gang("g")
    )
    cluster.run()
    wishes = gang("h").field(topology=((SPINE, True), ("block", False))).obj()
    assert cluster.core.world.membership.topology(wishes) == ((RACK, True),)


def test_manifests_have_them_too(tmp_path: Any) -> None:
    """`plan` reads the object from a file."""
    (tmp_path / "all.yaml").write_text(
        """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec:
  networkTopologySpec:
    - {topologyLayer: SpineLayer, labelKey: [example.com/rack]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {example.com/rack: a}}
status:
  allocatable: {cpu: "4", pods: "10"}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    gang.scheduling.koordinator.sh/name: g
    gang.scheduling.koordinator.sh/min-available: "1"
    gang.scheduling.koordinator.sh/network-topology-spec: |
      {"gatherStrategy": [{"layer": "SpineLayer", "strategy": "MustGather"}]}
spec:
  schedulerName: py-gang-scheduler
  containers: [{name: main, image: example.com/x}]
"""
    )
    (decision,) = plan(load(tmp_path)).decisions
    assert (decision.outcome, decision.topology_domain) == ("bind", "example.com/rack=a")
