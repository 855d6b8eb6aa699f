"""Services and controllers in manifests: their selectors are read, their pods are not made up."""

from __future__ import annotations

import io

import pytest

from gangsched.cluster.manifests.loading import Loaded, load
from gangsched.core.events import records
from gangsched.model.errors import InputError
from gangsched.model.records import Gang, PodSelector
from tests.builders import selects

SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {app: x}}}"
REPLICA_SET = """
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {selector: {matchLabels: {app: x}}}}
"""
STATEFUL_SET = REPLICA_SET.replace("ReplicaSet", "StatefulSet")
CONTROLLER = "{apiVersion: v1, kind: ReplicationController, metadata: {name: r}, spec: {selector: {app: x}}}"
OWNED = """
apiVersion: v1
kind: Pod
metadata: {name: p, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]}
spec: {containers: [{name: c}]}
"""


def read(*documents: str) -> Loaded:
    """These documents."""
    return load(["-"], stdin=io.StringIO("\n---\n".join(documents)))


def test_selectors_are_read() -> None:
    """One event for each object, in the order of the input."""
    loaded = read(SERVICE, REPLICA_SET, STATEFUL_SET, CONTROLLER)
    found = [(each.kind, each.namespace, each.name, each.selector) for each in records(loaded.events, PodSelector)]
    kinds = ("ReplicaSet", "StatefulSet", "ReplicationController")
    assert found == [
        ("Service", "default", "s", selects(app="x")),
        *((kind, "default", "r", selects(app="x")) for kind in kinds),
    ]
    assert len(loaded.events) == len(found)


def test_a_controller_without_pods_gives_a_warning() -> None:
    """People expect its pods to be made up; a Service needs no pod."""
    (warned,) = read(SERVICE, REPLICA_SET).warnings
    assert (warned["object"], warned["field"]) == ("ReplicaSet default/r", "kind")
    assert "no pod of it in the input" in warned["message"]
    assert read(SERVICE, REPLICA_SET, OWNED).warnings == []


TORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: r, annotations: {gangsched.dev/gang: "true"}}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}}
"""


def test_the_object_of_an_operator_says_how_many_pods_start_together() -> None:
    """A field that makes no sense is named."""
    loaded = read(TORCH)
    [made] = list(records(loaded.events, Gang))
    assert (made.kind, made.key, made.min_member, made.declared) == ("PyTorchJob", "default/r", 2, True)
    assert loaded.warnings == []
    assert read(TORCH, OWNED.replace("ReplicaSet", "PyTorchJob")).warnings == []
    with pytest.raises(InputError, match=r"PyTorchJob default/r.*spec\.pytorchReplicaSpecs\.Worker\.replicas: -2"):
        read(TORCH.replace("replicas: 2", "replicas: -2"))
