"""A preemption that can be stopped in any phase, for tests of what goes wrong in the middle."""

from __future__ import annotations

from typing import Any

from gangsched.core.actions import (
    Bind,
    Mark,
    Nominate,
    Remove,
    Write,
)
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster

G = "d/g"
PHASES: list[type[Write]] = [Nominate, Mark, Remove]


def preempting(**options: Any) -> Cluster:
    """Gang g of two needs both nodes; v1 and v2 are in the way; it has a minute for it."""
    return Cluster(
        node("n1"),
        node("n2"),
        gang("g").min(2).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(1).on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
        **options,
    )


def stopped_in(phase: type[Write], **options: Any) -> Cluster:
    """As :func:`preempting`, with the writes of one phase unanswered, of which binding is the last."""
    cluster = preempting(**options)
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.run()
    if phase is Bind:
        cluster.leave()
        cluster.run()
    assert len(cluster.waiting) == 2
    return cluster


def go_on(cluster: Cluster) -> None:
    """Answers come as usual again."""
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()


def names(cluster: Cluster, kind: type[Write]) -> set[str]:
    """Pods that a kind of write was asked for."""
    return {a.pod.name for a in cluster.log if isinstance(a, kind)}


def evicted(cluster: Cluster) -> set[str]:
    """Pods that are on their way out or gone."""
    return {n for (_, n), p in cluster.pods.items() if p.deleting_since is not None}


def assert_clean(cluster: Cluster) -> None:
    """No pending pod is nominated by us, and only pods that are leaving are marked."""
    for (_, name), found in cluster.pods.items():
        if not found.node:
            assert found.nominated_node == "", name
            assert found.intent is None or found.intent.status == "False", name
        elif found.deleting_since is None and found.disruption is not None:
            assert found.disruption.status == "False", name


def member(n: int, name: str = "g", priority: int = 5) -> PodBuilder:
    """A member that needs most of a node."""
    prefix = "m" if name == "g" else name
    return pod(f"{prefix}{n}").cpu(3).priority(priority).gang(name)


def members(count: int, cores: float = 2, priority: int = 10) -> list[Built]:
    """A pending gang that needs all of its members."""
    return [gang("g").min(count), *(pod(f"m{i}").cpu(cores).priority(priority).gang("g") for i in range(1, count + 1))]
