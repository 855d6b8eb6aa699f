"""What is measured: clusters, what runs in them, what is to be scheduled. The same objects for every scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.controlplane.objects import ready_node

Object = dict[str, Any]

NAMESPACE = "default"
GROUP_API = "scheduling.k8s.io/v1alpha2"
LOW, HIGH = "bench-low", "bench-high"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement.

    ``gangs`` of ``size`` pods of ``milli_cpu`` are pending (size 1: pods without a group). Victims, if any: on each
    node ``victims_per_node`` running pods of ``victim_milli_cpu`` each, in groups of ``victim_gang`` (1: single pods),
    with a grace period of 0. ``evicted`` is how many of them have to go. ``smoke`` is the number by which a smoke run
    divides nodes and gangs.
    """

    name: str
    nodes: int = 1000
    node_cpu: int = 16
    gangs: int = 1
    size: int = 1
    milli_cpu: int = 1000
    victims_per_node: int = 0
    victim_milli_cpu: int = 0
    victim_gang: int = 1
    evicted: int = 0
    smoke: int = 20

    @property
    def pods(self) -> int:
        """Pods to be bound."""
        return self.gangs * self.size

    @property
    def preempts(self) -> bool:
        """Is room to be taken from others?"""
        return self.evicted > 0

    def smaller(self) -> Cell:
        """The same, for a run that only shows that everything works."""
        by = self.smoke
        if self.preempts:
            return msgspec.structs.replace(
                self,
                nodes=self.nodes // by,
                size=max(2, self.size // by),
                victim_gang=max(1, self.victim_gang // by),
                evicted=self.evicted // by,
            )
        if self.gangs > self.size:
            return msgspec.structs.replace(self, nodes=self.nodes // by, gangs=self.gangs // by)
        return msgspec.structs.replace(self, nodes=self.nodes // by, size=self.size // by)


#: One gang of a node's worth of room per member: every node it uses is emptied.
_WHOLE_NODE = 3900

BACKLOG = (
    Cell(name="10,000 single pods", gangs=10_000, smoke=50),
    Cell(name="500 gangs of 20", gangs=500, size=20, smoke=50),
    Cell(name="20 gangs of 500", gangs=20, size=500, smoke=50),
    Cell(name="1 gang of 5,000", gangs=1, size=5_000, smoke=50),
)

PREEMPTION = (
    Cell(
        name="100 evict 1,000 of 1,000 pods",
        nodes=100,
        node_cpu=4,
        size=100,
        milli_cpu=_WHOLE_NODE,
        victims_per_node=10,
        victim_milli_cpu=400,
        evicted=1000,
        smoke=10,
    ),
    Cell(
        name="200 evict 800 of 2,000 pods",
        nodes=500,
        node_cpu=4,
        size=200,
        milli_cpu=_WHOLE_NODE,
        victims_per_node=4,
        victim_milli_cpu=990,
        evicted=800,
        smoke=25,
    ),
    Cell(
        name="1,000 evict 10 gangs of 100",
        nodes=1000,
        node_cpu=4,
        size=1000,
        milli_cpu=_WHOLE_NODE,
        victims_per_node=1,
        victim_milli_cpu=_WHOLE_NODE,
        victim_gang=100,
        evicted=1000,
        smoke=20,
    ),
)

ALL = (*BACKLOG, *PREEMPTION)
#: Our scheduler alone, with all it tells and with less.
TELLING = Cell(name="what Events cost: 500 gangs", gangs=500, size=20, smoke=50)


def classes() -> list[Object]:
    """The priorities."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in ((LOW, 100), (HIGH, 1000))
    ]


def nodes(cell: Cell) -> Iterator[Object]:
    """The nodes."""
    for n in range(cell.nodes):
        yield ready_node(f"node-{n:05d}", str(cell.node_cpu), "64Gi", "110")


def victims(cell: Cell) -> Iterator[Object]:
    """What runs already, bound and low in priority, one group after another over the nodes."""
    for n in range(cell.nodes * cell.victims_per_node):
        group = f"old-{n // cell.victim_gang:05d}" if cell.victim_gang > 1 else ""
        pod = _pod(f"old-{n:06d}", "other-scheduler", LOW, cell.victim_milli_cpu, group)
        pod["spec"]["nodeName"] = f"node-{n // cell.victims_per_node:05d}"
        yield pod


def pending(cell: Cell, scheduler: str) -> Iterator[Object]:
    """What is to be scheduled, for the scheduler of this name."""
    for g in range(cell.gangs):
        group = f"new-{g:05d}" if cell.size > 1 else ""
        for m in range(cell.size):
            yield _pod(f"new-{g:05d}-{m:05d}", scheduler, HIGH, cell.milli_cpu, group)


def groups(cell: Cell) -> list[Object]:
    """The groups of both, with their minimum: all members. Workloads come first, as the API server demands."""
    named = []
    if cell.victim_gang > 1:
        many = cell.nodes * cell.victims_per_node // cell.victim_gang
        named += [(f"old-{g:05d}", cell.victim_gang, LOW) for g in range(many)]
    if cell.size > 1:
        named += [(f"new-{g:05d}", cell.size, HIGH) for g in range(cell.gangs)]
    return [_workload(*each) for each in named] + [_group(*each) for each in named]


def _policy(size: int, priority_class: str) -> Object:
    return {
        "schedulingPolicy": {"gang": {"minCount": size}},
        "disruptionMode": "PodGroup",
        "priorityClassName": priority_class,
    }


def _workload(name: str, size: int, priority_class: str) -> Object:
    template = {"name": "all", **_policy(size, priority_class)}
    return {
        "apiVersion": GROUP_API,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"podGroupTemplates": [template]},
    }


def _group(name: str, size: int, priority_class: str) -> Object:
    reference = {"workload": {"workloadName": name, "podGroupTemplateName": "all"}}
    return {
        "apiVersion": GROUP_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"podGroupTemplateRef": reference, **_policy(size, priority_class)},
    }


def _pod(name: str, scheduler: str, priority_class: str, milli_cpu: int, group: str) -> Object:
    spec: Object = {
        "schedulerName": scheduler,
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "example/none", "resources": {"requests": {"cpu": f"{milli_cpu}m"}}}],
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    labels = {"bench": "victim" if name.startswith("old-") else "pending"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": spec,
    }
