"""A cluster of records as the objects that ``gangsched plan`` and ``gangsched simulate`` read."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from gangsched.model.dialects.koordinator import FAMILY, GROUP_LABEL
from gangsched.model.records import Gang, Node, Pod
from tests.oracle.case import Case

Object: TypeAlias = dict[str, Any]


def write(case: Case, path: Path) -> int:
    """Write the case as JSON, one object a line; returns how many objects.

    Of pods it tells requests, labels, annotations, priority and place, of gangs the minimum. Raises ValueError for pods
    that ask for more than resources.
    """
    with path.open("wb") as file:
        return sum(1 for each in objects(case) if file.write(msgspec.json.encode(each) + b"\n"))


def objects(case: Case) -> Iterator[Object]:
    """PriorityClasses, nodes, groups and pods, as on an API server."""
    for value in sorted({pod.priority for pod in case.pods}):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _class(value)},
            "value": value,
        }
    yield from map(_node, case.nodes)
    yield from map(_group, case.gangs)
    yield from map(_pod, case.pods)


def _class(priority: int) -> str:
    return f"priority-{priority}"


def _node(node: Node) -> Object:
    amounts = {name: _quantity(name, amount) for name, amount in node.allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if node.ready else "False"}],
        },
    }


def _group(gang: Gang) -> Object:
    if gang.family != FAMILY:
        raise ValueError(f"gang {gang.key}: only groups of {FAMILY} can be written")
    return {
        "apiVersion": f"{FAMILY}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": gang.name, "namespace": gang.namespace},
        "spec": {"minMember": gang.min_member},
    }


def _pod(pod: Pod) -> Object:
    shape = pod.shape
    if shape.node_selector or shape.anti_affinity or shape.affinity or shape.spread or shape.host_ports:
        raise ValueError(f"pod {pod.key}: only what it requests can be written")
    labels = {**pod.labels, GROUP_LABEL: pod.gang.name} if pod.gang.family == FAMILY else dict(pod.labels)
    requests = {name: _quantity(name, amount) for name, amount in shape.requests}
    spec: Object = {
        "schedulerName": pod.scheduler,
        "priorityClassName": _class(pod.priority),
        "terminationGracePeriodSeconds": round(pod.grace_seconds),
        "containers": [{"name": "main", "image": "example/none", "resources": {"requests": requests}}],
    }
    status: Object = {"phase": pod.phase}
    if pod.node:
        spec["nodeName"] = pod.node
        started = datetime.datetime.fromtimestamp(pod.started, tz=datetime.UTC)
        status["startTime"] = started.isoformat().replace("+00:00", "Z")
    metadata: Object = {"name": pod.name, "namespace": pod.namespace, "labels": labels}
    if pod.hints:
        metadata["annotations"] = dict(pod.hints)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _quantity(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)
