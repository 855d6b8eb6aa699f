"""One small object of every kind that is watched, and what a program still knows of an object that is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gangsched.cluster.kinds import CORE_KINDS, SERVED_KINDS, Kind
from gangsched.core.events import Event
from gangsched.core.scheduler import Scheduler
from gangsched.model.convert import Converter
from tests.builders import node, pod
from tests.core.harness import event

KINDS = (*CORE_KINDS, *SERVED_KINDS)
_LABELS = {"app": "x"}
_CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
_TEMPLATE = {
    "metadata": {"labels": _LABELS},
    "spec": {"schedulerName": "py-gang-scheduler", "restartPolicy": "Never", "containers": [_CONTAINER]},
}
_LONG_RUNNING = {**_TEMPLATE, "spec": {"containers": [_CONTAINER]}}
_OF_PODS = {"selector": {"matchLabels": _LABELS}, "template": _LONG_RUNNING}
_VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_REQUESTS = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
_JOBS = [{"name": "w", "replicas": 1, "template": {"spec": {"template": _TEMPLATE}}}]

#: Of bounded size; what is there goes when something else comes.
_ENTRIES_THAT_GO = (".agenda._pages[].heap[]", ".volume_choices.index.changes[]", "._snapshot.shapes[]")

#: What an object of each kind has beside its metadata, by name and group. Others have an empty ``spec``.
_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("PriorityClass", "scheduling.k8s.io"): {"value": 5},
    ("PodDisruptionBudget", "policy"): {"spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}},
    ("Job", "batch"): {"spec": {"template": _TEMPLATE, "suspend": True}},
    ("Service", ""): {"spec": {"selector": _LABELS, "ports": [{"port": 80}]}},
    ("ReplicationController", ""): {"spec": {"replicas": 0, "selector": _LABELS, "template": _LONG_RUNNING}},
    ("ReplicaSet", "apps"): {"spec": {"replicas": 0, **_OF_PODS}},
    ("StatefulSet", "apps"): {"spec": {"replicas": 0, "serviceName": "x", **_OF_PODS}},
    ("DaemonSet", "apps"): {"spec": _OF_PODS},
    ("PersistentVolume", ""): {"spec": _VOLUME},
    ("PersistentVolumeClaim", ""): {"spec": _CLAIM},
    ("StorageClass", "storage.k8s.io"): {"provisioner": "example.com/x"},
    ("CSINode", "storage.k8s.io"): {"spec": {"drivers": []}},
    ("CSIDriver", "storage.k8s.io"): {"spec": {}},
    ("CSIStorageCapacity", "storage.k8s.io"): {"storageClassName": "x", "capacity": "1Gi", "nodeTopology": {}},
    ("VolumeAttachment", "storage.k8s.io"): {
        "spec": {"attacher": "x", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    ("ResourceSlice", "resource.k8s.io"): {
        "spec": {
            "driver": "example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "d"}],
        }
    },
    ("DeviceTaintRule", "resource.k8s.io"): {
        "spec": {"deviceSelector": {"driver": "example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    },
    ("ResourceClaim", "resource.k8s.io"): {"spec": {"devices": {"requests": _REQUESTS}}},
    ("ResourceClaimTemplate", "resource.k8s.io"): {"spec": {"spec": {"devices": {"requests": _REQUESTS}}}},
    ("Pod", ""): {"spec": _TEMPLATE["spec"]},
    ("PodGroup", "scheduling.k8s.io"): {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
    ("CompositePodGroup", "scheduling.k8s.io"): {
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
        }
    },
    ("PodGang", "scheduler.grove.io"): {"spec": {"podgroups": [{"name": "a", "minReplicas": 1, "podReferences": []}]}},
    ("JobSet", "jobset.x-k8s.io"): {"spec": {"suspend": True, "replicatedJobs": _JOBS}},
    ("LocalQueue", "kueue.x-k8s.io"): {"spec": {"clusterQueue": "q"}},
    ("WorkloadPriorityClass", "kueue.x-k8s.io"): {"value": 5},
    ("HyperNode", "topology.volcano.sh"): {"spec": {"tier": 1, "members": []}},
    ("Topology", "kai.scheduler"): {"spec": {"levels": [{"nodeLabel": "zone"}]}},
}


def body(kind: Kind, name: str, namespace: str) -> dict[str, Any]:
    """An object of a kind, as it is sent to an API server."""
    labels = {} if kind.name == "Pod" else _LABELS  # else a controller adopts it
    meta = {"name": name, "labels": labels, **({"namespace": namespace} if kind.namespaced else {})}
    said = _BODIES.get((kind.name, kind.group), {"spec": {}})
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **said}


def record(kind: Kind, name: str, namespace: str, uid: str) -> Any:
    """The record of such an object."""
    raw = body(kind, name, namespace)
    raw["metadata"]["uid"] = uid
    return kind.record(Converter(), msgspec.convert(raw, kind.type))


def traces(root: object, text: str) -> list[str]:
    """Where the objects that are reached from ``root`` have a string with this text, as paths."""
    return sorted(_traces(root, text, "", set()))


def left_in(core: Scheduler, text: str) -> list[str]:
    """The traces that a core still has when something else has happened since."""
    play(core, [event(pod("after")), event(node("after"))], 1e6)
    return [each for each in traces(core, text) if not any(part in each for part in _ENTRIES_THAT_GO)]


def play(core: Scheduler, events: Sequence[Event], now: float) -> None:
    """Show a core these events, and let it decide what there is to decide."""
    core.handle(events, now)
    while core.has_work(now):
        core.decide(now)
    core.drain_decisions()


def _traces(at: object, text: str, path: str, seen: set[int]) -> Iterator[str]:
    stack = [(at, path)]
    while stack:
        here, way = stack.pop()
        if isinstance(here, str):
            if text in here:
                yield way
            continue
        if id(here) in seen or isinstance(here, int | float | bytes | type(None) | type):
            continue
        seen.add(id(here))
        if isinstance(here, dict):
            stack += [part for key, value in here.items() for part in ((key, f"{way}{{}}"), (value, f"{way}[]"))]
        elif isinstance(here, list | tuple | set | frozenset) or type(here).__name__ == "deque":
            stack += [(each, f"{way}[]") for each in here]  # type: ignore[attr-defined]
        elif type(here).__module__.startswith("gangsched"):
            stack += [(value, f"{way}.{name}") for name, value in _attributes(here)]


def _attributes(of: object) -> Iterator[tuple[str, object]]:
    yield from getattr(of, "__dict__", {}).items()
    slots = [name for kind in type(of).__mro__ for name in _names_in(kind.__dict__.get("__slots__", ()))]
    for name in (*getattr(type(of), "__struct_fields__", ()), *slots):
        if hasattr(of, name):
            yield name, getattr(of, name)


def _names_in(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
