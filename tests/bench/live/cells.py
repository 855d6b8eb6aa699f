"""What is measured: clusters, what runs in them, what is to be scheduled. The same objects for every scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tests.controlplane.objects import ready_node
from tests.controlplane.versions import group_api, translated

Object = dict[str, Any]

NAMESPACE = "default"
GROUP_API = group_api().api_version
LOW, HIGH = "bench-low", "bench-high"
GPU, ANCHOR = "example.com/gpu", "anchor"
_ANCHOR_MILLI_CPU = 10


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement.

    ``gangs`` of ``size`` pods of ``milli_cpu`` are pending (size 1: pods without a group). Victims, if any: on each
    node ``victims_per_node`` running pods of ``victim_milli_cpu`` each, in groups of ``victim_gang`` (1: single pods),
    with a grace period of 0. The first ``occupied`` nodes have victims (0: all). A gang of victims lies on as few nodes
    as it can, or with ``apart`` on each node once. ``evicted`` is how many of them have to go at least. With
    ``anchored`` each node runs one small pod that has to stay, and pending pods have to be on a node with one. With
    ``gpus`` every node has so many, and every pod asks for one. Who is not done after ``limit``
    seconds is cut off, if that is less than the limit of the run. ``smoke`` is the number by which a smoke run divides
    nodes and gangs.
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
    occupied: int = 0
    apart: bool = False
    anchored: bool = False
    gpus: int = 0
    evicted: int = 0
    limit: float = 180.0
    smoke: int = 20

    @property
    def victims(self) -> int:
        """Pods that may be evicted."""
        return (self.occupied or self.nodes) * self.victims_per_node

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
                occupied=self.occupied // by,
                gangs=max(1, self.gangs // by),
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
    Cell(name="10,000 single pods", gangs=10_000, smoke=250),
    Cell(name="500 gangs of 20", gangs=500, size=20, smoke=125),
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
        smoke=50,
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
        smoke=50,
    ),
)

#: What a preemption costs. "One victim suffices": half of the nodes are free and the gang is one larger than they are.
HARM = (
    Cell(
        name="30 into five gangs of 20",
        nodes=100,
        node_cpu=4,
        size=30,
        milli_cpu=_WHOLE_NODE,
        victims_per_node=1,
        victim_milli_cpu=_WHOLE_NODE,
        victim_gang=20,
        evicted=40,
        limit=60.0,
        smoke=5,
    ),
    *(
        Cell(
            name=f"one victim suffices, {nodes:,} nodes",
            nodes=nodes,
            node_cpu=4,
            size=nodes // 2 + 1,
            milli_cpu=_WHOLE_NODE,
            victims_per_node=1,
            victim_milli_cpu=2000,
            occupied=nodes // 2,
            evicted=1,
            limit=60.0,
            smoke=nodes // 20,
        )
        for nodes in (20, 100, 200, 1000)
    ),
)

#: The shapes of ``workload_preemption`` in kube-scheduler's own benchmark (1.37), at its sizes; "100 evict 1,000" above
#: is the first of them.
UPSTREAM = (
    Cell(
        name="upstream: 10 gangs of 10 evict 1,000 pods",
        nodes=100,
        node_cpu=4,
        gangs=10,
        size=10,
        milli_cpu=3970,
        victims_per_node=10,
        victim_milli_cpu=40,
        evicted=1000,
        limit=60.0,
        smoke=10,
    ),
    Cell(
        name="upstream: 100 evict 5 gangs of 100",
        nodes=100,
        node_cpu=4,
        size=100,
        milli_cpu=3500,
        victims_per_node=5,
        victim_milli_cpu=600,
        victim_gang=100,
        apart=True,
        evicted=500,
        limit=60.0,
        smoke=10,
    ),
    Cell(
        name="upstream: 10 gangs of 10 evict 50 gangs of 10",
        nodes=100,
        node_cpu=4,
        gangs=10,
        size=10,
        milli_cpu=3500,
        victims_per_node=5,
        victim_milli_cpu=600,
        victim_gang=10,
        apart=True,
        evicted=500,
        limit=60.0,
        smoke=10,
    ),
    Cell(
        name="upstream: 100 beside anchors evict 1,000 pods",
        nodes=100,
        node_cpu=4,
        size=100,
        milli_cpu=3900,
        victims_per_node=10,
        victim_milli_cpu=40,
        anchored=True,
        evicted=1000,
        limit=60.0,
        smoke=10,
    ),
)

#: The shapes that KAI (500 nodes of 8 GPUs) and Volcano (100 nodes) publish times of.
PEERS = (
    Cell(name="KAI: 4,000 pods of 1 GPU", nodes=500, gpus=8, gangs=4000, milli_cpu=100, limit=60.0, smoke=50),
    Cell(name="KAI: 1 gang of 512, 1 GPU each", nodes=500, gpus=8, size=512, milli_cpu=100, limit=60.0, smoke=50),
    Cell(
        name="KAI: 250 evict 250 of 4,000 pods of 1 GPU",
        nodes=500,
        gpus=8,
        size=250,
        milli_cpu=100,
        victims_per_node=8,
        victim_milli_cpu=100,
        evicted=250,
        limit=60.0,
        smoke=50,
    ),
    Cell(name="Volcano: 10 gangs of 100", nodes=100, gangs=10, size=100, milli_cpu=1000, limit=60.0, smoke=5),
)

ALL = (*BACKLOG, *PREEMPTION, *HARM, *UPSTREAM, *PEERS)
#: Our scheduler alone, with all it tells and with less.
TELLING = Cell(name="what Events cost: 500 gangs", gangs=500, size=20, smoke=125)


#: What an orderly stop leaves. Where there is none at all, a scheduler waits for writes of one that nobody has seen.
FREE_LEASE: Object = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "py-gang-scheduler", "namespace": "gangsched-system"},
    "spec": {"holderIdentity": ""},
}


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
    others = {GPU: str(cell.gpus)} if cell.gpus else {}
    for n in range(cell.nodes):
        yield ready_node(f"node-{n:05d}", str(cell.node_cpu), "64Gi", "110", **others)


def victims(cell: Cell) -> Iterator[Object]:
    """What runs already, bound: pods that have to stay, then those of low priority, one group after another."""
    for n in range(cell.nodes if cell.anchored else 0):
        pod = _pod(f"{ANCHOR}-{n:05d}", "other-scheduler", HIGH, _ANCHOR_MILLI_CPU, "")
        pod["metadata"]["labels"] = {"bench": ANCHOR}
        pod["spec"]["nodeName"] = f"node-{n:05d}"
        yield pod
    on = cell.occupied or cell.nodes
    for n in range(cell.victims):
        group = group_of(cell, n) if cell.victim_gang > 1 else ""
        pod = _pod(f"old-{n:06d}", "other-scheduler", LOW, cell.victim_milli_cpu, group, gpu=bool(cell.gpus))
        pod["spec"]["nodeName"] = f"node-{n % on if cell.apart else n // cell.victims_per_node:05d}"
        yield pod


def group_of(cell: Cell, victim: int) -> str:
    """The group of the victim of this number."""
    return f"old-{victim // cell.victim_gang:05d}"


def broken(cell: Cell, removed: Iterable[str]) -> int:
    """Gangs of victims that keep running with some of their pods: all of a gang are needed."""
    if cell.victim_gang == 1:
        return 0
    lost = Counter(group_of(cell, int(name.removeprefix("old-"))) for name in removed if name.startswith("old-"))
    return sum(count < cell.victim_gang for count in lost.values())


def pending(cell: Cell, scheduler: str) -> Iterator[Object]:
    """What is to be scheduled, for the scheduler of this name."""
    beside = {"labelSelector": {"matchLabels": {"bench": ANCHOR}}, "topologyKey": "kubernetes.io/hostname"}
    for g in range(cell.gangs):
        group = f"new-{g:05d}" if cell.size > 1 else ""
        for m in range(cell.size):
            pod = _pod(f"new-{g:05d}-{m:05d}", scheduler, HIGH, cell.milli_cpu, group, gpu=bool(cell.gpus))
            if cell.anchored:
                required = {"requiredDuringSchedulingIgnoredDuringExecution": [beside]}
                pod["spec"]["affinity"] = {"podAffinity": required}
            yield pod


def groups(cell: Cell) -> list[Object]:
    """The groups of both, with their minimum: all members. Workloads come first, as the API server demands."""
    named = []
    if cell.victim_gang > 1:
        many = cell.victims // cell.victim_gang
        named += [(f"old-{g:05d}", cell.victim_gang, LOW) for g in range(many)]
    if cell.size > 1:
        named += [(f"new-{g:05d}", cell.size, HIGH) for g in range(cell.gangs)]
    made = [_workload(*each) for each in named] + [_group(*each) for each in named]
    return [translated(each, GROUP_API) for each in made]


def _policy(size: int, priority_class: str) -> Object:
    return {
        "schedulingPolicy": {"gang": {"minCount": size}},
        "disruptionMode": {"all": {}},
        "priorityClassName": priority_class,
    }


def _workload(name: str, size: int, priority_class: str) -> Object:
    template = {"name": "all", **_policy(size, priority_class)}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"podGroupTemplates": [template]},
    }


def _group(name: str, size: int, priority_class: str) -> Object:
    reference = {"workloadName": name, "templateName": "all"}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"workloadRef": reference, **_policy(size, priority_class)},
    }


def _pod(name: str, scheduler: str, priority_class: str, milli_cpu: int, group: str, *, gpu: bool = False) -> Object:
    requests = {"cpu": f"{milli_cpu}m"}
    resources = {"requests": {**requests, GPU: "1"}, "limits": {GPU: "1"}} if gpu else {"requests": requests}
    spec: Object = {
        "schedulerName": scheduler,
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "example/none", "resources": resources}],
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
