"""Pods that cannot be understood: what is counted of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.convert_refused import FILLS_ITS_NODE, refused_pod, undecodable_pod
from gangsched.model.errors import FieldError
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Pod

META = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
TWO = [{"name": "c", "resources": {"requests": {"cpu": "2"}}, "ports": [{"containerPort": 80, "hostPort": 80}]}]
ABSURD = [{"name": "c", "resources": {"requests": {"cpu": "1e30"}}}]
OLD = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}}


def refused(meta: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """The record of a pod that the converter does not accept."""
    raw = msgspec.convert(
        {"metadata": META | (meta or {}), "spec": {"priority": 7, **spec}, "status": status or {}}, wire.Pod
    )
    with pytest.raises(FieldError) as caught:
        Converter().pod(raw)
    return refused_pod(Converter(), raw, caught.value)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"preemptionPolicy": "Sometimes"}, "spec.preemptionPolicy"),
        ({"tolerations": [{"operator": "Is"}]}, "spec.tolerations[0].operator"),
        (OLD, "spec.affinity.podAffinity.required[0].topologyKey"),
        ({"meta": {"creationTimestamp": "yesterday"}}, "metadata.creationTimestamp"),
        ({"meta": {"deletionTimestamp": "soon"}}, "metadata.deletionTimestamp"),
        ({"status": {"startTime": "?"}}, "status.startTime"),
        (
            {"status": {"conditions": [{"type": "Ready", "lastTransitionTime": "?"}]}},
            "status.conditions[0].lastTransitionTime",
        ),
    ],
)
def test_one_that_runs_takes_what_it_asks_for(wrong: dict[str, Any], field: str) -> None:
    """Whatever else is wrong, its requests, ports, priority and gang count, and the mistake is kept."""
    pod = refused(nodeName="n1", containers=TWO, **wrong)
    assert pod.mistake is not None
    assert pod.mistake.field == field
    assert (pod.uid, pod.node, pod.priority, pod.gang.name) == ("u", "n1", 7, "g")
    assert (pod.bound, pod.shape.requests, pod.shape.host_ports[0].port) == (True, (("cpu", 2000),), 80)


def test_one_whose_request_cannot_be_counted_holds_all_of_that_resource() -> None:
    """Beside it there is room for no other pod that asks for it."""
    pod = refused(nodeName="n1", containers=ABSURD)
    assert pod.node == "n1"
    assert dict(pod.shape.requests)["cpu"] >= 2**46
    assert pod.shape != FILLS_ITS_NODE


def test_one_that_waits_leaves_its_gang() -> None:
    """It is its own gang, which the mistake holds up, and preempts nobody."""
    pod = refused(containers=ABSURD, preemptionPolicy="Sometimes")
    assert (pod.gang.family, pod.gang.name, pod.preemption_policy) == (SINGLE, "p", PREEMPT_NEVER)
    assert pod.mistake is not None


@pytest.mark.parametrize(
    "body", [b"{}", b"[", b'{"spec": {"nodeName": 1}, "status": []}', b'{"spec": {"priority": "x"}}']
)
def test_one_of_wrong_types_is_known_by_its_name(body: bytes) -> None:
    """What has another type than the API's is left out."""
    meta = wire.ObjectMeta("p", "", "ns", "u")
    pod = undecodable_pod(Converter(), meta, body, FieldError("", "is wrong"))
    assert (pod.uid, pod.node, pod.priority, pod.shape) == ("u", "", 0, FILLS_ITS_NODE)


def test_one_of_wrong_types_fills_the_node_where_it_runs() -> None:
    """Its requests may be what has the wrong type."""
    body = b'{"spec": {"nodeName": "n1", "schedulerName": "s", "priority": 3, "containers": 4}, "status": {"phase": 5}}'
    pod = undecodable_pod(Converter(), wire.ObjectMeta("p", "", "ns", "u"), body, FieldError("", "is wrong"))
    assert (pod.node, pod.scheduler, pod.priority, pod.bound) == ("n1", "s", 3, True)
    assert pod.shape == FILLS_ITS_NODE
