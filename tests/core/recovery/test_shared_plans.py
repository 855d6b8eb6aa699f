"""Plans that share victims survive the death of the process, between whichever two writes it comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched.core.actions import Nominate, Remove, Write
from gangsched.core.actuation.records import owners_of
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster
from tests.core.stories import assert_clean, names

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


@pytest.mark.parametrize("gone", [False, True], ids=["both wait", "the first is deleted meanwhile"])
@pytest.mark.parametrize("scenario", [one_pod, rest_of_a_gang])
def test_plans_that_share_victims_are_finished_after_any_write(scenario: Callable[[], list[Built]], gone: bool) -> None:
    """Whoever waits is bound, no gang is left below its minimum, and neither a mark nor a nomination stays."""
    whole = died(scenario(), _MOST)
    before = [a for a in whole.log if isinstance(a, Write)]
    assert 6 < len(before) < _MOST  # the last of these lives had nothing left to do
    for writes in range(len(before) + 1):
        cluster = died(scenario(), writes)
        if gone and not cluster.pod("first").node:
            cluster.delete("first")
        finished(cluster)
        waiting = [p.name for p in cluster.pods.values() if not p.node]
        assert waiting == [], writes
        assert_clean(cluster)
        victims = {name for _, name in cluster.pods if name.startswith("v")}
        assert len(victims) >= 2 or not victims, (writes, victims)


@pytest.mark.parametrize("before", [True, False], ids=["before the others are marked", "afterwards"])
def test_who_leaves_for_another_before_the_rest_is_marked_does_not_begin_their_list(before: bool) -> None:
    """A gang whose pods may leave singly loses one to the first, and the other is to leave for the second, which has
    been deleted when another process takes over. The first is bound, or its victim bore the mark of the second too.
    """
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("low").min(2).mode("pod"),
        *(pod(f"v{i}").cpu(4).gang("low").on(f"n{i}") for i in (1, 2)),
        pod("first").cpu(4).priority(5).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove | Nominate) if before else isinstance(write, Remove)
    cluster.show(pod("second").cpu(4).priority(5))
    cluster.run()
    cluster.answer("v1")
    cluster.leave("v1")
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.answer("second")
    cluster.run()
    assert [each.name for each in owners_of(cluster.pod("v2"))] == ["d/second"]
    cluster.delete("second")
    cluster.restart()
    cluster.log.clear()
    cluster.run()
    assert names(cluster, Remove) == (set() if before else {"v2"})
