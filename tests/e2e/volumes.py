"""Storage classes, claims and volumes."""

from __future__ import annotations

from tests.controlplane.client import Object


def storage_class(name: str, provisioner: str) -> Object:
    """A class whose claims wait for a pod."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, of: str) -> Object:
    """A claim for 1 GiB of a class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": of,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(name: str, of: str, node: str, claim_of: Object | None = None) -> Object:
    """A volume of 5 GiB on one node; with ``claim_of`` it is made for that claim."""
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec: Object = {
        "storageClassName": of,
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
    }
    if claim_of is not None:
        meta = claim_of["metadata"]
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **{key: meta[key] for key in ("namespace", "name", "uid")},
        }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
