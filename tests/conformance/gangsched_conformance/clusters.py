"""Random small clusters, the same for the same seed: enough of everything that filters and scores look at."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gangsched.cluster.manifests import load
from gangsched.core.events import records
from gangsched.core.world.world import World
from gangsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeTerm,
    PodShape,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from gangsched.model.records import SINGLE, GangId, Node, Pod
from gangsched_conformance import devices, storage

#: Label keys of pods and of nodes in these clusters.
POD_LABELS = ("app", "team")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
_OURS = "py-gang-scheduler"
_GIB = 2**30
_Item = TypeVar("_Item")


class Cluster(msgspec.Struct):
    """``world`` has nodes and the pods bound to them; ``wanted`` are pending pods to ask about."""

    world: World
    wanted: list[Pod]


def cluster(seed: int) -> Cluster:
    """The cluster of this seed: 3 to 12 nodes, up to 30 bound pods, 8 pending ones."""
    return _Maker(seed).make()


def with_manifests(*paths: str) -> Callable[[int], Cluster]:
    """The clusters of all seeds, each with the nodes and pods of these files and folders too: pods without a node are
    asked about, as what a filter or score of its own labels has to say something about.

    Raises :class:`~gangsched.model.errors.UserError` for what cannot be understood.
    """
    events = load(paths).events
    nodes, pods = list(records(events, Node)), list(records(events, Pod))

    def made(seed: int) -> Cluster:
        found = cluster(seed)
        for node in nodes:
            found.world.snapshot.set_node(node)
        for pod in pods:
            found.world.set_pod(pod)
        found.world.snapshot.align_rows()
        found.wanted += [pod for pod in pods if not pod.node]
        return found

    return made


class _Maker:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._shapes: dict[PodShape, PodShape] = {}

    def make(self) -> Cluster:
        chance = self._chance
        world = World([_OURS])
        names = [f"node-{i:02}" for i in range(chance.randint(3, 12))]
        for name in names:
            world.snapshot.set_node(self._node(name))
        for namespace in ("one", "two"):
            world.snapshot.namespaces[namespace] = {"purpose": chance.choice(("work", "test"))}
        world.snapshot.terms.namespaces_changed()
        storage.fill(world, chance, names, ("one", "two"))
        pods = [self._pod(f"pod-{i:02}", chance.choice(names)) for i in range(chance.randint(0, 30))]
        wanted = [self._pod(f"new-{i:02}", "") for i in range(8)]
        # Drawn by a chance of their own, so that all else of a seed is the same with and without devices.
        drawn = devices.fill(world, random.Random(f"{self._seed} devices"), names, [*pods, *wanted])
        wanted = drawn[len(pods) :]
        for pod in drawn:
            world.set_pod(pod)
        world.snapshot.align_rows()
        return Cluster(world, wanted)

    def _maybe(self, share: float) -> bool:
        return self._chance.random() < share

    def _some(self, items: tuple[_Item, ...]) -> tuple[_Item, ...]:
        return tuple(item for item in items if self._maybe(0.5))

    def _node(self, name: str) -> Node:
        chance = self._chance
        labels = {HOST: name, "disk": chance.choice(("ssd", "hdd"))}
        if self._maybe(0.85):
            labels[ZONE] = chance.choice(("a", "b", "c"))
        if self._maybe(0.5):
            labels["size"] = str(chance.randint(1, 9))
        room = {
            "cpu": chance.randint(1, 16) * 1000,
            "memory": chance.randint(1, 64) * _GIB,
            "ephemeral-storage": 100 * _GIB,
            "pods": chance.choice((3, 30, 110)),
        }
        if self._maybe(0.4):
            room[GPU] = chance.choice((1, 4, 8))
        taints = [Taint("team", chance.choice(("red", "blue")), chance.choice(("NoSchedule", "PreferNoSchedule")))]
        images = [(f"registry.example.com/image-{i}:1", chance.randint(1, 2000) * 2**20) for i in range(4)]
        return Node(
            name=name,
            uid=f"uid-{name}",
            labels=labels,
            allocatable=tuple(sorted(room.items())),
            taints=tuple(taints) if self._maybe(0.3) else (),
            unschedulable=self._maybe(0.1),
            ready=not self._maybe(0.05),
            deleting=self._maybe(0.05),
            images=self._some(tuple(images)),
            features=self._some(("FeatureOne", "FeatureTwo")),
        )

    def _pod(self, name: str, node: str) -> Pod:
        chance = self._chance
        namespace = chance.choice(("one", "two"))
        labels = {key: chance.choice(("red", "green", "blue")) for key in self._some(POD_LABELS)}
        shape = self._shape(namespace)
        return Pod(
            namespace=namespace,
            name=name,
            uid=f"uid-{name}",
            shape=self._shapes.setdefault(shape, shape),
            gang=GangId(SINGLE, namespace, name, _OURS),
            scheduler=_OURS,
            labels=labels,
            priority=chance.randint(0, 3) * 1000,
            node=node,
            phase="Running" if node else "Pending",
            deleting_since=30.0 if node and self._maybe(0.1) else None,
            volumes=storage.used(chance),
        )

    def _shape(self, namespace: str) -> PodShape:
        chance = self._chance
        requests = {"cpu": chance.randint(1, 20) * 100} if self._maybe(0.9) else {}
        if self._maybe(0.7):
            requests["memory"] = chance.randint(1, 16) * _GIB // 4
        if self._maybe(0.2):
            requests[GPU] = chance.randint(1, 2)
        scored = {"cpu": requests.get("cpu", 100), "memory": requests.get("memory", 200 * 2**20)}
        return PodShape(
            requests=tuple(sorted(requests.items())),
            scored=tuple(sorted(scored.items())),
            node_name="node-01" if self._maybe(0.03) else "",
            node_selector=(("disk", chance.choice(("ssd", "hdd"))),) if self._maybe(0.15) else (),
            node_terms=(self._node_term(),) if self._maybe(0.15) else None,
            preferred_node_terms=((chance.randint(1, 100), self._node_term()),) if self._maybe(0.2) else (),
            tolerations=(Toleration("team", "Equal", "red"),) if self._maybe(0.3) else (),
            host_ports=self._some((HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80)))
            if self._maybe(0.15)
            else (),
            affinity=(self._term(namespace),) if self._maybe(0.1) else (),
            anti_affinity=(self._term(namespace),) if self._maybe(0.15) else (),
            preferred_affinity=((chance.randint(1, 100), self._term(namespace)),) if self._maybe(0.15) else (),
            preferred_anti_affinity=((chance.randint(1, 100), self._term(namespace)),) if self._maybe(0.15) else (),
            spread=self._spread() if self._maybe(0.25) else (),
            images=self._some(tuple(f"registry.example.com/image-{i}:1" for i in range(4))),
            node_features=("FeatureOne",) if self._maybe(0.05) else (),
        )

    def _selector(self) -> LabelSelector:
        key = self._chance.choice(POD_LABELS)
        operator = self._chance.choice(("In", "NotIn", "Exists"))
        return LabelSelector((Requirement(key, operator, () if operator == "Exists" else ("red",)),))

    def _term(self, namespace: str) -> PodTerm:
        everywhere = LabelSelector((Requirement("purpose", "In", ("work",)),))
        return PodTerm(
            self._chance.choice((HOST, ZONE)),
            self._selector(),
            namespaces=(namespace,),
            namespace_selector=everywhere if self._maybe(0.2) else None,
        )

    def _spread(self) -> tuple[SpreadConstraint, ...]:
        keys = self._some((HOST, ZONE)) or (ZONE,)
        return tuple(
            SpreadConstraint(
                key,
                self._chance.randint(1, 3),
                self._selector(),
                required=self._maybe(0.6),
                min_domains=self._chance.choice((1, 1, 3)),
                honor_taints=self._maybe(0.3),
            )
            for key in keys
        )

    def _node_term(self) -> NodeTerm:
        if self._maybe(0.3):
            return NodeTerm(fields=(Requirement("metadata.name", "In", ("node-01", "node-02")),))
        return NodeTerm((Requirement("size", "Gt", ("4",)),) if self._maybe(0.5) else (Requirement(ZONE, "Exists"),))
