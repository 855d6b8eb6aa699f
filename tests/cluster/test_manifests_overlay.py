"""Manifests on top of a cluster."""

from __future__ import annotations

import io

from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.overlay import Around, overlaid
from gangsched.core.events import Changed, Event, Gone, records
from gangsched.model.records import Job, Pod
from gangsched.model.volumes import PersistentVolumeClaim, StorageObject
from tests.cluster.manifest_texts import many, obj

CLASSES = """
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 7, globalDefault: true}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
"""


def read(text: str, around: Around | None = None) -> list[Event]:
    """The events of one text."""
    return load(["-"], stdin=io.StringIO(text), around=around).events


def pods(events: list[Event]) -> dict[str, tuple[str, int]]:
    """Node and priority by name."""
    return {e.key: (e.node, e.priority) for e in records(events, Pod)}


def test_what_the_cluster_has_holds() -> None:
    """Priority classes, the default classes and the namespace of the context; nothing is missing in such manifests."""
    around = Around.of(read(CLASSES), "team")
    text = many(
        obj("Pod", "v1", "a", spec={"priorityClassName": "high"}),
        obj("Pod", "v1", "b", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
        obj("Pod", "v1", "c", spec={"nodeName": "n"}),
        obj("PersistentVolumeClaim", "v1", "new"),
    )
    loaded = load(["-"], stdin=io.StringIO(text), around=around)
    assert loaded.warnings == []
    assert pods(loaded.events) == {"team/a": ("", 1000), "team/b": ("", 7), "team/c": ("n", 7)}
    (first,) = [e for e in records(loaded.events, Pod) if e.name == "a"]
    assert first.preemption_policy == "Never"
    (claim,) = [
        e.record
        for e in loaded.events
        if isinstance(e, Changed)
        and isinstance(e.record, StorageObject)
        and isinstance(e.record, PersistentVolumeClaim)
    ]
    assert (claim.namespace, claim.storage_class) == ("team", "disk")


def test_the_same_name_replaces() -> None:
    """Of the same kind and namespace; events without an object stay."""
    below = read(many(*(obj("Pod", "v1", name, spec={"nodeName": "old"}) for name in "ab"), obj("Node", "v1", "a")))
    gone = Gone("Pod", "default", "x", "u")
    above = read(obj("Pod", "v1", "a", spec={"nodeName": "new"}))
    found = overlaid([*below, gone], above)
    assert pods(found) == {"default/a": ("new", 0), "default/b": ("old", 0)}
    assert len(found) == len(below) + 1
    assert gone in found


def test_a_job_replaces_its_pods() -> None:
    """What is planned is the Job of the manifest, not the pods of the one that runs beside them."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    job = obj("Job", "batch/v1", "train", spec={"template": {"spec": {"containers": [{"name": "c"}]}}})
    running = f"""
apiVersion: v1
kind: Pod
metadata: {{name: train-x7f2k, ownerReferences: [{owner}]}}
spec: {{nodeName: n}}
"""
    below = read(many(job, running, obj("Pod", "v1", "other")))
    found = overlaid(below, read(job))
    assert set(pods(found)) == {"default/other", "default/train-0"}
    assert sum((isinstance(event, Changed) and isinstance(event.record, Job)) for event in found) == 1
