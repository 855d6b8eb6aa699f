"""What one pod may cost: lists are bounded, and what cannot be counted counts for as much as its node has of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.convert_refused import FILLS_ITS_NODE, refused_pod
from gangsched.model.errors import FieldError
from gangsched.model.records import Pod


def raw(spec: dict[str, Any]) -> wire.Pod:
    """A pod that runs on n0."""
    meta = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]
    body = {"metadata": meta, "spec": {"nodeName": "n0", "containers": containers, **spec}}
    return msgspec.convert(body, wire.Pod)


def refused(pod: wire.Pod) -> tuple[Pod, FieldError]:
    """What is counted of a pod that is refused, and why it is."""
    with pytest.raises(FieldError) as caught:
        Converter().pod(pod)
    return refused_pod(Converter(), pod, caught.value), caught.value


def asks_for(**requests: str) -> dict[str, Any]:
    """Containers of a pod."""
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m", **requests}}}]}


NODE_TERM = {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}
POD_TERM = {"topologyKey": "zone", "labelSelector": {}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (asks_for(**{f"example.com/r{i}": "1" for i in range(250)}), "has 251 resources, more than 250"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM] * 1001}
                    }
                }
            },
            "has 1001 terms, more than 1000",
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM] * 501}}},
            "has 501 terms about pods, more than 500",
        ),
        ({"topologySpreadConstraints": [SPREAD] * 101}, "has 101 constraints, more than 100"),
    ],
)
def test_long_lists_are_refused_with_their_number(spec: dict[str, Any], says: str) -> None:
    """The API server takes them; where such a pod runs it holds what it asks for of what nodes have."""
    found, why = refused(raw(spec))
    assert why.message == says
    assert found.node == "n0"
    assert dict(found.shape.requests)["cpu"] == 1
    assert len(found.shape.requests) <= 250
    assert found.mistake is not None


@pytest.mark.parametrize("amount", ["9007199254740993", "1e30", "9999999999Ei"])
def test_a_pod_with_an_amount_beyond_all_nodes_does_not_close_its_node(amount: str) -> None:
    """It holds all of that resource, and of the others what it asks for: a node has what kubelets run on it."""
    found, why = refused(raw(asks_for(**{"example.com/x": amount})))
    assert "example.com/x" in why.field
    requests = dict(found.shape.requests)
    assert requests["cpu"] == 1
    assert requests["example.com/x"] >= 2**40
    assert sum([float(requests["example.com/x"])] * 110) == 110 * requests["example.com/x"] < 2**53
    assert found.shape != FILLS_ITS_NODE


def test_amounts_of_all_containers_and_of_the_status_are_bounded() -> None:
    """Wherever it stands."""
    spec = {**asks_for(**{"example.com/x": "1e30"}), "overhead": {"cpu": "1e40"}}
    found, _ = refused(raw(spec))
    assert dict(found.shape.requests)["cpu"] >= 2**46
