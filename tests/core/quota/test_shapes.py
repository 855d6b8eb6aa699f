"""Shapes of pods in their flavors are kept, but not for ever."""

from __future__ import annotations

from gangsched.core.events import Changed
from gangsched.core.quota import assignment
from gangsched.model.queues import QUEUE_LABEL, LocalQueue, QueueObject, ResourceFlavor
from gangsched.model.records import Namespace
from tests.builders import node, pod
from tests.core.harness import Cluster as Harness
from tests.core.harness import event, nodes_of
from tests.core.quota.world import queue


def test_shapes_are_forgotten_when_there_are_many(monkeypatch):
    """Pods of ever new shapes are placed in their flavor, and no more shapes are kept than may be."""
    monkeypatch.setattr(assignment, "MAX_SHAPES", 3)
    objects: list[QueueObject] = [
        ResourceFlavor("default", {"pool": "a"}),
        queue("q", cpu=100),
        LocalQueue("d", "q", "q"),
    ]
    cluster = Harness(
        Changed(Namespace("d")),
        *map(Changed, objects),
        node("other").cpu(100),
        node("right").cpu(100).label(pool="a"),
    )
    managed = cluster.core.world.managed
    for i in range(1, 8):
        cluster.show(event(pod(f"p{i}").cpu(i).labels({QUEUE_LABEL: "q"})))
        actions = cluster.run()
        assert nodes_of(actions) == {f"p{i}": "right"}
        assert 0 < len(managed.shapes) <= 3
