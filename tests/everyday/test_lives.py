"""Everyday clusters live under everyday changes: nothing is raised, nothing drifts, nothing is written without end.

At the end another process would know and do the same.
"""

from __future__ import annotations

import pytest

from tests.amounts import amount
from tests.everyday.changes import changes
from tests.everyday.clusters import cluster
from tests.everyday.lives import Life


@pytest.mark.parametrize("seed", range(amount(300, 40)))
def test_a_life(seed: int) -> None:
    """The scheduler is verified while the cluster changes."""
    assert Life(seed).play() == []


def test_a_seed_is_the_same_for_ever() -> None:
    """Cluster and changes follow from the seed alone."""
    one, other, third = (cluster(seed) for seed in (1, 1, 2))
    assert one == other
    assert one != third
    assert changes(one) == changes(other)


def test_the_clusters_have_what_people_write() -> None:
    """Among a few clusters is every kind of workload, and every change."""
    clusters = [cluster(seed) for seed in range(40)]
    kinds = {kind for made in clusters for kind, _, _ in made.objects}
    assert kinds >= {"ReplicaSet", "StatefulSet", "Job", "JobSet", "DaemonSet", "RayCluster", "PyTorchJob", "PodGroup"}
    assert kinds >= {"LeaderWorkerSet", "ClusterQueue", "PodDisruptionBudget", "PersistentVolumeClaim", "Service"}
    specs = [pod["spec"] for made in clusters for pod in made.of("Pod")]
    two = [spec for spec in specs if len(spec.get("topologySpreadConstraints", ())) == 2]
    assert len(two) > 10
    assert {key for spec in specs for key in spec} >= {
        "affinity",
        "tolerations",
        "volumes",
        "initContainers",
        "overhead",
    }
    why = {change.why for made in clusters for change in changes(made)}
    assert len(why) > 30
