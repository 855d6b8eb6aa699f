"""The API server refuses a removal once the mark of its victim has been taken back: what becomes of the list."""

from __future__ import annotations

from collections.abc import Callable

from gangsched.core.actions import Mark, Nominate, Remove, Unmark, Write
from gangsched.core.events import Outcome
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of
from tests.core.stories import assert_clean, evicted, names, preempting
from tests.core.test_recall import recalled, whole_gang

LOST = Outcome.CONFLICT, "its mark does not stand any more"


def refusing(name: str, times: int) -> Callable[[Write], tuple[Outcome, str] | None]:
    """So many removals of the pod are refused."""
    left = [times]

    def judge(write: Write) -> tuple[Outcome, str] | None:
        if isinstance(write, Remove) and write.pod.name == name and left[0]:
            left[0] -= 1
            return LOST
        return None

    return judge


def test_a_mark_that_was_taken_back_is_written_again() -> None:
    """It stands again before the next attempt; nobody else is chosen, and the nominations stand."""
    cluster = preempting()
    cluster.judge = refusing("v2", 1)
    cluster.run()
    said = [(type(a).__name__, a.pod.name) for a in cluster.log if isinstance(a, Mark | Remove) and a.pod.name == "v2"]
    assert said == [("Mark", "v2"), ("Remove", "v2"), ("Mark", "v2"), ("Remove", "v2")]
    assert [a.pod.name for a in cluster.log if isinstance(a, Mark)].count("v1") == 1
    assert len([a for a in cluster.log if isinstance(a, Nominate)]) == 2
    assert evicted(cluster) == {"v1", "v2"}
    cluster.leave()
    cluster.run()
    assert len(nodes_of(cluster.log)) == 2
    assert_clean(cluster)


def test_a_mark_that_is_taken_back_again_and_again_is_left_alone_in_the_end() -> None:
    """Somebody wants the pod to stay: the gang is decided anew, and takes another."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        pod("v1").cpu(3).priority(1).on("n1"),
        pod("v2").cpu(3).priority(2).on("n2"),
        pod("p").cpu(3).priority(5),
    )
    cluster.judge = refusing("v1", 4)
    cluster.run()
    assert len([a for a in cluster.log if isinstance(a, Remove) and a.pod.name == "v1"]) == 5
    assert len([a for a in cluster.log if isinstance(a, Mark)]) == 5
    assert names(cluster, Unmark) == {"v1"}
    assert evicted(cluster) == {"v1"}


def test_whoever_has_begun_to_leave_leaves_whole() -> None:
    """Of a gang of two one has left; room turns up while the other is marked again, and it leaves all the same."""
    cluster = whole_gang()
    cluster.judge = refusing("w2", 1)
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.answer()
    cluster.run()
    assert [(type(w).__name__, w.pod.name) for w in cluster.waiting] == [("Mark", "w2")]
    cluster.show(node("n3"), gang("g").min(1).timeout(60))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert recalled(cluster) == set()
    assert evicted(cluster) == {"w1", "w2"}
