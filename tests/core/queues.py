"""Queue objects, and pods and Jobs that name a queue."""

from __future__ import annotations

from typing import Any

from gangsched.core.events import Changed
from gangsched.model.queues import (
    QUEUE_LABEL,
    LocalQueue,
    QueueObject,
    ResourceFlavor,
)
from gangsched.model.records import Job, Namespace, QueueLabels
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.core.harness import Built


def objects(*records: QueueObject) -> list[Built]:
    """Queue objects, the flavors that they name, and a LocalQueue ``q-<name>`` for each ClusterQueue in namespace d."""
    out: list[QueueObject] = [*records]
    known = {r.name for r in records if isinstance(r, ResourceFlavor)}
    for record in records:
        for resources in getattr(record, "groups", ()):
            for each in resources.flavors:
                if each.flavor not in known:
                    known.add(each.flavor)
                    out.append(ResourceFlavor(each.flavor))
        if type(record).__name__ == "ClusterQueue":
            out.append(LocalQueue("d", f"q-{record.name}", record.name))
    return [Changed(Namespace("d")), *map(Changed, out)]


def queued(name: str, queue_name: str, cpu: float = 1, **fields: Any) -> PodBuilder:
    """A pod with the label of a LocalQueue."""
    built = pod(name).cpu(cpu).labels({QUEUE_LABEL: f"q-{queue_name}"})
    return built.priority(fields["priority"]) if "priority" in fields else built


def big(name: str = "n1", cpu: float = 100) -> NodeBuilder:
    """A node with room for everything."""
    return node(name).cpu(cpu).gpu(8)


def job(name: str, queue_name: str, cpu: float) -> Job:
    """A Job of one pod, with a queue."""
    return Job(
        "d",
        name,
        f"uid-Job-{name}",
        parallelism=1,
        completions=1,
        template=owned(name, cpu).obj(),
        version="1",
        queue=QueueLabels(f"q-{queue_name}", ""),
    )


def owned(name: str, cpu: float, pod_name: str = "") -> PodBuilder:
    """The pod of such a Job."""
    return pod(pod_name or f"{name}-0").cpu(cpu).owner("Job", name)
