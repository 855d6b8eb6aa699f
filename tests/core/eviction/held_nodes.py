"""A gang that needs nodes on which pods of another scheduler are, and what stands on these nodes."""

from __future__ import annotations

from typing import Any

from gangsched.core.actions import Write
from tests.builders import OTHERS, PodBuilder, gang, node, pod
from tests.core.harness import Cluster
from tests.core.stories import member


def dns(on: str) -> PodBuilder:
    """A pod of kube-system, from which follows that kube-scheduler binds pods here."""
    return pod("dns", "kube-system").scheduler(OTHERS).on(on)


def preempting(scheduler: str = OTHERS, grace: float = 30.0, **options: Any) -> Cluster:
    """Gang g of two needs both nodes, of which pods of this scheduler are in the way; n3 has room for none of it."""
    return Cluster(
        node("n1"),
        node("n2"),
        node("n3").cpu(1),
        gang("g").min(2).timeout(300),
        *(pod(f"v{i}").cpu(3).priority(1).on(f"n{i}").scheduler(scheduler).field(grace_seconds=grace) for i in (1, 2)),
        *(member(i) for i in (1, 2)),
        dns("n3"),
        **options,
    )


def held(cluster: Cluster) -> dict[str, str]:
    """What the taint says on the nodes that bear it."""
    return {name: found.held.value for name, found in sorted(cluster.nodes.items()) if found.held is not None}


def asked(cluster: Cluster, kind: type[Write]) -> list[str]:
    """The nodes, or pods, about which such writes were asked for."""
    return [action.pod.name for action in cluster.log if isinstance(action, kind)]
