"""Objects as the API server takes them, for tests and measurements that make many."""

from __future__ import annotations

from typing import Any


def ready_node(name: str, cpu: str, memory: str, pods: str, **others: str) -> dict[str, Any]:
    """A Node with so much room (quantities) that is Ready from the start, where nothing plays kubelet."""
    room = {"cpu": cpu, "memory": memory, "pods": pods, **others}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
