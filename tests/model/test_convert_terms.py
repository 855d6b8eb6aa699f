"""What pods and other objects say about which pods belong together, and about images."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.constraints import LabelSelector, Requirement
from gangsched.model.convert import Converter, pod_selector
from gangsched.model.errors import FieldError
from gangsched.model.records import Pod, PodSelector
from tests.builders import selects


def converted(spec: dict[str, Any], **labels: str) -> Pod:
    """A pod with this spec and these labels."""
    raw = {"metadata": {"name": "p", "namespace": "d", "labels": labels}, "spec": spec}
    return Converter().pod(msgspec.convert(raw, wire.Pod))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("app", "app:latest"),
        ("app:v1", "app:v1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:v1", "registry:5000/app:v1"),
        ("app@sha256:ab", "app@sha256:ab"),
    ],
)
def test_images_are_named_as_nodes_report_them(image: str, expected: str) -> None:
    """Without a tag it is the latest; the port of a registry is no tag."""
    assert converted({"containers": [{"image": image}]}).shape.images == (expected,)


def test_each_container_counts_for_images() -> None:
    """Init containers too, equal images twice; images of volumes are kept apart."""
    shape = converted(
        {
            "initContainers": [{"image": "a:1"}],
            "containers": [{"image": "b:1"}, {"image": "b:1"}],
            "volumes": [{"name": "v", "image": {"reference": "c"}}, {"name": "w"}],
        }
    ).shape
    assert (shape.images, shape.image_volumes) == (("a:1", "b:1", "b:1"), ("c:latest",))


def constraint(**more: Any) -> LabelSelector | None:
    """The selector of a spread constraint of a pod with the labels app=x, hash=h."""
    raw = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **more}
    return converted({"topologySpreadConstraints": [raw]}, app="x", hash="h").shape.spread[0].selector


def test_selectors_of_spread_constraints() -> None:
    """The pod's own labels are folded in; an empty selector, unlike elsewhere, selects nothing."""
    app = {"matchLabels": {"app": "x"}}
    assert constraint(labelSelector=app) == selects(app="x")
    assert constraint(labelSelector=app, matchLabelKeys=["hash", "absent"]) == selects(app="x", hash="h")
    assert constraint(labelSelector={}) is None
    assert constraint(labelSelector={}, matchLabelKeys=["absent"]) is None
    assert constraint(labelSelector={}, matchLabelKeys=["hash"]) == selects(hash="h")
    assert constraint(matchLabelKeys=["hash"]) is None


def test_keys_of_affinity_terms_are_folded_in_once() -> None:
    """Values of the pod's own labels, In for matchLabelKeys and NotIn for mismatchLabelKeys; the API server may have
    done so already.
    """
    term = {"topologyKey": "zone", "matchLabelKeys": ["hash"], "mismatchLabelKeys": ["app"]}
    merged = [
        {"key": "hash", "operator": "In", "values": ["h"]},
        {"key": "app", "operator": "NotIn", "values": ["x"]},
    ]
    for selector in ({}, {"matchExpressions": merged}):
        spec = {
            "affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "labelSelector": selector}]}
            }
        }
        found = converted(spec, app="x", hash="h").shape.affinity[0].selector
        assert found == LabelSelector((Requirement("hash", "In", ("h",)), Requirement("app", "NotIn", ("x",))))


def raw_object(kind: type[Any], selector: Any) -> Any:
    """An object of this kind with a selector."""
    return msgspec.convert({"metadata": {"name": "n", "namespace": "d"}, "spec": {"selector": selector}}, kind)


def test_services_and_controllers_are_kept_as_selectors() -> None:
    """Maps and selectors alike; without one nothing is selected."""
    labels = {"b": "2", "a": "1"}
    wanted = selects(a="1", b="2")
    assert pod_selector(raw_object(wire.Service, labels)) == PodSelector("Service", "d", "n", wanted)
    assert pod_selector(raw_object(wire.Service, None)).selector is None
    assert pod_selector(raw_object(wire.Service, {})).selector is None
    controller = pod_selector(raw_object(wire.ReplicationController, labels))
    assert controller == PodSelector("ReplicationController", "d", "n", wanted)
    selector = {"matchLabels": labels, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    more = LabelSelector((*wanted.requirements, Requirement("c", "Exists")))
    assert pod_selector(raw_object(wire.ReplicaSet, selector)) == PodSelector("ReplicaSet", "d", "n", more)
    assert pod_selector(raw_object(wire.StatefulSet, selector)) == PodSelector("StatefulSet", "d", "n", more)
    with pytest.raises(FieldError, match=r"spec\.selector"):
        pod_selector(raw_object(wire.ReplicaSet, {"matchExpressions": [{"key": "c", "operator": "Has"}]}))


def test_namespaces_have_the_label_that_all_have() -> None:
    """Also in manifests, which may not have it yet."""
    raw = msgspec.convert({"metadata": {"name": "d", "labels": {"team": "t"}}}, wire.Namespace)
    assert Converter().namespace(raw).labels == {"team": "t", "kubernetes.io/metadata.name": "d"}
