"""A gang that waits for its volumes, for tests of what comes in between."""

from __future__ import annotations

from typing import Any

from tests.builders import LATER, MADE, claim, gang, node, pod, volume
from tests.core.harness import Cluster, writes

G = "d/g"


def waiting(*more: Any, **options: Any) -> Cluster:
    """Gang g of two: m1 with a new volume, m2 with the only one that there is, on n2; both are asked for."""
    cluster = Cluster(
        node("n1").cpu(1),
        node("n2").cpu(1),
        LATER,
        MADE,
        gang("g").min(2),
        claim("c1", "made"),
        claim("c2"),
        volume("v2", "n2"),
        *(pod(f"m{i}").cpu(1).gang("g").claims(f"c{i}") for i in (1, 2)),
        *more,
        **options,
    )
    cluster.run()
    return cluster


def bound(cluster: Cluster) -> set[str]:
    """Names of pods with a node."""
    return {name for (_, name), found in cluster.pods.items() if found.node}


def kinds(cluster: Cluster) -> list[str]:
    """The kinds of all writes so far, in order."""
    return [kind for kind, _ in writes(cluster.log)]
