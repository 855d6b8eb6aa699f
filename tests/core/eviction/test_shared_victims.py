"""Two plans that need the same pod to leave: its one mark never stays on the list of a gang that has given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Unmark, Write
from gangsched.core.events import Outcome
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.lifecycle.report import mark_of
from gangsched.core.lifecycle.shared_marks import MarkTexts, given_up
from gangsched.core.lifecycle.steps import Steps
from tests.builders import gang, node, pod
from tests.core.binding.refusals import refusing
from tests.core.harness import Cluster
from tests.core.stories import G, evicted, go_on, names, stopped_in


def preemptors(cluster: Cluster) -> dict[str, str]:
    """For whom the victims are marked now; pods without a mark are not in it."""
    marks = {name: mark_of(cluster.pod(name)) for name in ("v1", "v2")}
    return {name: mark.preemptor for name, mark in marks.items() if mark is not None}


def test_a_mark_does_not_wait_for_that_of_who_needs_the_pod_next() -> None:
    """The stronger gang has not come to its marks: until then the pod is on nobody's list, and on its list after."""
    cluster = stopped_in(Mark)
    cluster.answer("v1")
    cluster.slow = lambda write: isinstance(write, Nominate)
    cluster.show(gang("h").min(2), *(pod(f"h{i}").cpu(3).priority(9).gang("h") for i in (1, 2)))
    cluster.run()
    cluster.answer("v2")
    cluster.run()
    assert preemptors(cluster) == {}
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.answer()
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert preemptors(cluster) == {"v1": "d/h", "v2": "d/h"}
    assert evicted(cluster) == {"v1", "v2"}


def test_no_plan_begins_while_a_mark_of_the_one_before_is_on_its_way() -> None:
    """Even one that was handed over by another gang: it would come after the nominations of the new plan."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        pod("v").cpu(4).priority(1).on("n1"),
        pod("w").cpu(4).priority(3).on("n2"),
        pod("mid").cpu(2).priority(5),
    )
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.sent = True
    cluster.run()
    cluster.show(pod("top").cpu(2).priority(9))
    cluster.run()
    cluster.delete("top")
    cluster.run()
    cluster.show(node("n1").cordoned())
    cluster.run()
    on_their_way = [(type(w), w.message) for w in cluster.waiting if isinstance(w, Mark | Unmark)]
    assert [kind for kind, _ in on_their_way[:4]] == [Mark, Mark, Mark, Unmark]
    assert "preemptor: d/mid," in on_their_way[2][1]
    late = cluster.waiting[2:]
    del cluster.waiting[2:]
    cluster.answer()
    cluster.waiting = late
    cluster.run()
    assert [a.pod.name for a in cluster.log if isinstance(a, Nominate)].count("mid") == 1
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert [a.pod.name for a in cluster.log if isinstance(a, Nominate)].count("mid") == 2
    assert evicted(cluster) == {"w"}


def test_no_plan_begins_while_the_marks_of_the_one_before_are_not_taken_back() -> None:
    """Its list would be the gang's second: after a restart nobody could tell the two apart."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        *(pod(f"v{i}").cpu(4).priority(1).on(f"n{i}") for i in (1, 2)),
        pod("p").cpu(4).priority(5),
    )
    cluster.judge = lambda write: (Outcome.TRANSIENT, "no answer") if isinstance(write, Mark) else None
    cluster.slow = lambda write: isinstance(write, Unmark)
    cluster.run()
    cluster.judge = lambda _: None
    cluster.pass_time(30.0)
    cluster.run()
    assert len(names(cluster, Unmark)) == 1
    assert [a.pod.name for a in cluster.log if isinstance(a, Nominate)] == ["p"]
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.pass_time(30.0)
    cluster.run()
    assert [a.pod.name for a in cluster.log if isinstance(a, Nominate)] == ["p", "p"]
    assert len(evicted(cluster)) == 1


def rolling_back(phase: type[Write]) -> Cluster:
    """The bound member m1 of gang g is to leave in a rollback, whose writes of this phase are unanswered."""
    cluster = refusing(rollback=True, timeout_seconds=60.0)
    cluster.run()
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    assert len(cluster.waiting) == 1
    return cluster


@pytest.mark.parametrize("marked", [True, False], ids=["after its mark", "before its mark"])
def test_a_rollback_keeps_its_marks_when_a_preemptor_gives_up(marked: bool) -> None:
    """The member leaves under the mark of the rollback: whoever counts lost pods has to see why it was deleted."""
    cluster = rolling_back(Mark)
    assert cluster.core.states() == {G: "Marking"}
    cluster.slow = lambda write: isinstance(write, Mark if marked else Mark | Nominate)
    cluster.show(pod("top").cpu(3).priority(9))
    cluster.run()
    assert sum(isinstance(write, Mark) for write in cluster.waiting) == 1 + marked
    cluster.delete("top")
    go_on(cluster)
    assert evicted(cluster) == {"m1"}
    assert names(cluster, Unmark) == set()
    said = cluster.pod("m1").disruption
    assert said is not None
    assert (said.status, "rolling back" in said.message) == ("True", True)


def test_a_rollback_whose_removal_fails_late_takes_back_its_mark() -> None:
    """Its time is over, so that nobody follows the removal any more; nobody else needs the member to leave."""
    cluster = rolling_back(Remove)
    cluster.sent = True
    cluster.pass_time(90)
    assert cluster.core.states() == {G: "Queued"}
    assert names(cluster, Unmark) == set()
    cluster.judge = lambda write: (Outcome.REFUSED, "because") if isinstance(write, Remove) else None
    go_on(cluster)
    assert names(cluster, Unmark) == {"m1"}


class Victim:
    """As much of the steps of a life cycle as giving up a mark needs; two groups wait for the pod ``v`` to leave."""

    def __init__(self, *asked: str) -> None:
        self.marks = {"v"}
        self.mark_texts = MarkTexts()
        ledger = SimpleNamespace(awaited={"v": {"mine", "other"}}, condemned=Condemned())
        self.world = SimpleNamespace(pods={"v": pod("v").on("n").obj()}, ledger=ledger)
        self.spared: set[str] = set()
        self.written: list[str] = []
        for key in asked:
            self.mark_texts.asked("v", key, f"mark for {key}")
        given_up(cast("Steps", self), "v", "mine", "d/mine")

    def unmark(self, _: str, preemptor: str) -> None:
        """Take it back."""
        self.written.append(f"none for {preemptor}")

    def keep_up_mark(self, action: Mark) -> None:
        """Write it until it is done."""
        self.written.append(action.message)

    def new_id(self) -> int:
        """Any."""
        return 1


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        (("other", "mine"), ["mark for other"]),
        (("mine", "other"), []),
        (("mine",), ["none for d/mine"]),
        (("other",), []),
    ],
    ids=["overwritten by mine", "mine is overwritten", "the other has not marked yet", "mine has not marked yet"],
)
def test_whose_name_a_shared_victim_bears_when_one_plan_is_given_up(asked: tuple[str, ...], written: list[str]) -> None:
    """That of the plan that goes on, once it has come to its marks."""
    assert Victim(*asked).written == written
