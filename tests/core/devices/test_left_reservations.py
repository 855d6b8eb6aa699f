"""Reservations of claims that earlier processes have left behind."""

from __future__ import annotations

from gangsched.core.actions import ReleaseClaim
from gangsched.core.events import Outcome
from tests.builders import node, pod
from tests.core.devices.worlds import CLASSES, gpus, held
from tests.core.harness import Cluster, writes


def given(cluster: Cluster) -> dict[str, list[str]]:
    """For each claim with devices, who may use it."""
    return {
        c.name: [name for _, name, _ in c.reserved_for] for c in cluster.claims.values() if c.allocation is not None
    }


def left_behind() -> Cluster:
    """A claim that is reserved for a pod that waits and has no place, and one of a pod that runs."""
    waits, runs = held("c9", "n1", "gpu-0", users=("p",)), held("c8", "n2", "gpu-0", users=("q",))
    cluster = Cluster(*CLASSES, node("n1").cpu(1), node("n2").cpu(1), gpus("n1", 1), gpus("n2", 1), waits, runs)
    cluster.show(pod("p").cpu(2).devices("c9"), pod("q").cpu(1).devices("c8").on("n2"))
    return cluster


def test_the_claim_of_a_pod_that_waits_is_released() -> None:
    """That of the pod that runs stays."""
    cluster = left_behind()
    cluster.run()
    assert writes(cluster.log) == [("ReleaseClaim", "c9")]
    assert given(cluster) == {"c8": ["q"]}


def test_it_is_released_until_it_is_known_to_be() -> None:
    """With growing pauses, by one write at a time."""
    cluster = left_behind()
    cluster.judge = lambda write: (Outcome.TRANSIENT, "no") if isinstance(write, ReleaseClaim) else None
    cluster.pass_time(120)
    asked = len(writes(cluster.log))
    assert asked > 2
    assert given(cluster).keys() == {"c8", "c9"}
    cluster.judge = lambda _: None
    cluster.pass_time(300)
    assert given(cluster).keys() == {"c8"}


def test_pods_of_other_schedulers_keep_their_reservations() -> None:
    """Their scheduler is about to bind them."""
    cluster = Cluster(*CLASSES, node("n1").cpu(1), gpus("n1", 1), held("c9", "n1", "gpu-0", users=("p",)))
    cluster.show(pod("p").scheduler("default-scheduler").cpu(2).devices("c9"))
    cluster.run()
    assert writes(cluster.log) == []
