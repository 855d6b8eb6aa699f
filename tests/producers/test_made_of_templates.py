"""Pods that are made of templates before submission, beside those that real controllers made of the same objects."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from gangsched.api import load
from gangsched.core.events import records
from gangsched.model.records import Pod
from tests.controlplane.client import Object

HERE = Path(__file__).resolve().parent
#: Recorded file, kind of the owner, and the labels that decide what a pod is.
RECORDED = [
    ("recorded-kuberay.json", "RayCluster", ("ray.io/cluster", "ray.io/group", "ray.io/node-type")),
    ("recorded-kuberay-bounds.json", "RayCluster", ("ray.io/cluster", "ray.io/group", "ray.io/node-type")),
    (
        "recorded-pytorch.json",
        "PyTorchJob",
        ("training.kubeflow.org/job-name", "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"),
    ),
    ("recorded-mpi.json", "MPIJob", ("training.kubeflow.org/job-name", "training.kubeflow.org/job-role")),
    (
        "recorded-lws.json",
        "LeaderWorkerSet",
        (
            "leaderworkerset.sigs.k8s.io/name",
            "leaderworkerset.sigs.k8s.io/group-index",
            "leaderworkerset.sigs.k8s.io/worker-index",
        ),
    ),
    (
        "recorded-trainjob-owner.json",
        "JobSet",
        ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"),
    ),
]


def pods(objects: list[Object], folder: Path) -> list[Pod]:
    """The pods of a list of objects, or those that are made of them."""
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return list(records(load(path, scheduler_names=("volcano", "py-gang-scheduler")).loaded.events, Pod))


def alone(item: Object) -> Object:
    """An object as it was before a controller saw it."""
    meta = {k: v for k, v in item["metadata"].items() if k in ("name", "namespace", "annotations", "labels")}
    return {**{k: v for k, v in item.items() if k != "status"}, "metadata": meta}


def told(found: list[Pod], kind: str, labels: tuple[str, ...]) -> Counter[tuple[object, ...]]:
    """What decisions see of pods: names without random suffixes, labels of their owner, and what they request."""
    out: Counter[tuple[object, ...]] = Counter()
    for pod in found:
        name = re.sub(r"-(worker|head|launcher)-[a-z0-9]+$", r"-\1", pod.name) if kind != "JobSet" else ""
        told = tuple(pod.labels.get(label) for label in labels)
        out[name, told, pod.shape.requests, pod.shape.node_selector] += 1
    return out


@pytest.mark.parametrize(("file", "kind", "labels"), RECORDED, ids=[each[0] for each in RECORDED])
def test_they_are_like_those_of_the_controller(file: str, kind: str, labels: tuple[str, ...], tmp_path: Path) -> None:
    """As many of each role, with its labels, and what its containers and those that the controller adds request."""
    items = json.loads((HERE / file).read_text())["items"]
    owners = [alone(each) for each in items if each["kind"] == kind]
    there = pods([each for each in items if each["kind"] in ("Pod", "PriorityClass")], tmp_path)
    made = pods([*owners, *(each for each in items if each["kind"] == "PriorityClass")], tmp_path)
    assert there
    assert told(made, kind, labels) == told(there, kind, labels)
