"""The API server refuses a removal once the mark of its victim has been taken back: what becomes of the list."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gangsched.core.actions import Mark, Nominate, Remove, Unmark, Write
from gangsched.core.events import Outcome
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of
from tests.core.stories import assert_clean, evicted, names, preempting

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


def test_a_mark_may_be_taken_back_three_times() -> None:
    """It is written again each time, and the same pod leaves by the same plan in the end."""
    cluster = preempting()
    cluster.judge = refusing("v2", 3)
    cluster.run()
    assert len([a for a in cluster.log if isinstance(a, Mark) and a.pod.name == "v2"]) == 4
    assert len([a for a in cluster.log if isinstance(a, Nominate)]) == 2
    assert names(cluster, Unmark) == set()
    assert evicted(cluster) == {"v1", "v2"}


def test_who_ends_while_marks_are_written_again_has_not_left() -> None:
    """It is deleted afterwards, as finished pods are. Nobody has been removed: the other stays when room turns up."""
    cluster = preempting()
    cluster.show(*(pod(f"v{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2)), gang("low").min(2))
    first, second = refusing("v1", 1), refusing("v2", 1)
    cluster.judge = lambda write: first(write) or second(write)
    cluster.slow = lambda write: isinstance(write, Mark) and any(isinstance(a, Remove) for a in cluster.log)
    cluster.run()
    assert {w.pod.name for w in cluster.waiting} == {"v1", "v2"}
    cluster.change("v1", phase="Succeeded")
    cluster.run()
    cluster.change("v1", deleting_since=cluster.now)
    cluster.show(node("n3"))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert cluster.pod("v2").live
    assert len(nodes_of(cluster.log)) == 2


def test_a_process_that_takes_over_finishes_a_list_of_which_marks_were_lost() -> None:
    """One of three members is leaving, one bears its mark, that of the third has been taken back."""
    cluster = Cluster(
        *(node(f"n{n}") for n in (1, 2, 3)),
        gang("low").min(3).priority(1),
        gang("g").min(2).timeout(60),
        *(pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2, 3)),
        *(pod(f"m{n}").cpu(3).priority(5).gang("g") for n in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.answer("w1")
    cluster.run()
    mark = cluster.pod("w3").disruption
    assert mark is not None
    cluster.change("w3", disruption=msgspec.structs.replace(mark, status="False"))
    cluster.run()
    cluster.restart()
    cluster.log.clear()
    cluster.slow = lambda _: False
    cluster.run()
    assert [type(a).__name__ for a in cluster.log if isinstance(a, Mark | Remove)] == ["Mark", "Remove", "Remove"]
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == {"w2", "w3"}
    assert evicted(cluster) == {"w1", "w2", "w3"}
    assert names(cluster, Unmark) == set()
