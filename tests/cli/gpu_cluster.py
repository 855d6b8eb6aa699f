"""Four GPU nodes with a taint in two racks, and what tenants put there, as manifests."""

from __future__ import annotations

import yaml

GPU = "nvidia.com/gpu"
LABEL = "pod-group.scheduling.sigs.k8s.io"
RACK = "topology.kubernetes.io/rack"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def node(name, **room):
    """A node with GPUs in a rack, which nobody gets onto without a toleration."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8", **room}
    meta = {"name": name, "labels": {RACK: f"r{int(name[-1]) // 2}", "kubernetes.io/hostname": name}}
    return {"kind": "Node", "metadata": meta, "spec": {"taints": [TAINT]}, "status": {"allocatable": amounts}}


def priority_class(name, value):
    """A PriorityClass."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


NODES = [node(f"gpu-{n}") for n in range(4)]
CLASSES = [priority_class("research", 1000), priority_class("night", 100)]


def spec(gpus=8, **more):
    """Of a pod of ours that tolerates the taint."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", GPU: str(gpus)}}}
    tolerations = [{"key": GPU, "operator": "Exists"}]
    return {"schedulerName": "py-gang-scheduler", "containers": [container], "tolerations": tolerations, **more}


def job(name="train", pods=2, labels=None, notes=None, on_job=None, suspend=False, **more):
    """A Job that is a gang."""
    annotations = {"gangsched.dev/gang": "true"} if notes is None else notes
    meta = {"name": name, "uid": f"u-{name}", "annotations": annotations, "labels": on_job or {}}
    template = {"metadata": {"labels": labels or {}}, "spec": spec(**more)}
    whole = {"parallelism": pods, "completions": pods, "suspend": suspend, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": whole}


def pod(name, on="", labels=None, **more):
    """One pod, on a node or not."""
    meta = {"name": name, "uid": f"u-{name}", "labels": labels or {}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    meta |= more.pop("meta", {})
    placed = {"nodeName": on} if on else {}
    status = {"phase": "Running"} if on else {}
    return {"kind": "Pod", "metadata": meta, "spec": spec(**more) | placed, "status": status}


def group(name="train", members=2, **notes):
    """A PodGroup."""
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name, "annotations": notes}, "spec": {"minMember": members}}


#: Of a pod that stops until half past one.
GOING = {"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}


def written(folder, *objects):
    """A file of these manifests."""
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all([{"apiVersion": "v1", **each} for each in objects]))
    return file
