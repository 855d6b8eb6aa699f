"""Plans that share victims survive the death of the process, between whichever two writes it comes."""

from __future__ import annotations

from gangsched.core.actions import Write
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster

#: More writes than it takes until all members are bound.
_MOST = 60


def one_pod() -> list[Built]:
    """The second gang lives off what the first one leaves of the room of one victim, and owns it too."""
    return [
        node("n1"), pod("v1").cpu(4).on("n1"), pod("first").cpu(3).priority(5),
        pod("second").cpu(1).priority(4).created(9),
    ]  # fmt: skip


def rest_of_a_gang() -> list[Built]:
    """The first takes a member that its gang can spare, the second all the others, and owns the first one too."""
    return [
        *(node(f"n{i}") for i in (1, 2, 3)),
        gang("low").min(2), *(pod(f"v{i}").cpu(4).gang("low").on(f"n{i}", 10.0 * i) for i in (1, 2, 3)),
        pod("first").cpu(4).priority(5),
        gang("second").min(2).created(9), *(pod(f"second{i}").cpu(4).priority(5).gang("second") for i in (1, 2)),
    ]  # fmt: skip


def died(objects: list[Built], writes: int) -> Cluster:
    """The process dies when so many writes have taken effect; what it has asked for besides is lost."""
    cluster, left = Cluster(*objects), iter(range(writes))

    def too_late(_: Write) -> bool:
        return next(left, None) is None

    cluster.slow = too_late
    for _ in range(4):
        cluster.run()
        cluster.leave()
    return cluster


def finished(cluster: Cluster) -> Cluster:
    """Another process takes over, and goes on until nothing happens any more."""
    cluster.slow = lambda _: False
    cluster.restart()
    for _ in range(6):
        cluster.pass_time(40)
        cluster.leave()
    return cluster
