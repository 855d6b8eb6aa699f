"""What is asked of the cluster until it is settled: phases, and what is kept up."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.actions import (
    Action,
    Bind,
    Mark,
    PodRef,
    Remove,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.actuation.actuator import Actuator, Answer, Aspect, Wish
from gangsched.core.actuation.desired import Kept
from gangsched.core.agenda import Page
from gangsched.core.events import Outcome

PAUSE_SECONDS = 10.0


def pod(name: str) -> PodRef:
    """A pod whose UID is its name."""
    return PodRef("d", name, name)


class Desk:
    """An actuator, and what it has sent. The writes are numbered from 1; what is ``over`` is not desired any more, and
    ``phases`` are those of whom a phase may be over.
    """

    def __init__(self) -> None:
        self.sent: list[Action] = []
        self.later: Page[Wish] = Page()
        self.over: dict[str, str] = {}
        self.phases: set[str] = set()
        numbers, pause = itertools.count(1), lambda failures: PAUSE_SECONDS * failures
        self.actuator = Actuator(self.sent.append, numbers, pause, self.later, self.again, self.phases.add)
        self.now = 0.0
        for key in ("g", "h"):
            self.actuator.begin(key)

    def again(self, asked: Kept) -> Kept | str:
        """The same is desired again, unless it is over."""
        return self.over.get(asked.pod.uid, asked)

    def answer(self, action_id: int, outcome: Outcome = Outcome.OK) -> Answer | None:
        """The answer to a write comes in."""
        return self.actuator.answered(action_id, outcome, "x", self.now)

    def pass_time(self, seconds: float) -> list[Answer]:
        """Ask again for what is due by then."""
        self.now += seconds
        return self.actuator.ask_again(self.now)


# -- phases ------------------------------------------------------------------------------------------------------------


def test_a_phase_is_settled_when_every_answer_is_there() -> None:
    """Good and bad answers count alike; the phase is judged only at the end."""
    desk = Desk()
    desk.actuator.want(Mark(0, pod("a"), "m"), "g")
    desk.actuator.want(Mark(0, pod("b"), "m"), "g")
    conflict = Answer("g", Mark(1, pod("a"), "m"), Outcome.CONFLICT, "x", in_phase=True)
    assert desk.answer(1, Outcome.CONFLICT) == conflict
    assert (desk.actuator.settled("g"), desk.phases) == (False, set())
    desk.answer(2)
    assert (desk.actuator.settled("g"), desk.phases) == (True, {"g"})
    assert desk.actuator.take_failures("g") == [("a", Outcome.CONFLICT, "x")]
    assert desk.actuator.failures("g") == []


def test_a_phase_knows_only_its_own_writes() -> None:
    """Answers to writes of an earlier phase or of others, or a second answer, change nothing."""
    desk = Desk()
    desk.actuator.want(Mark(0, pod("a"), "m"), "g")
    desk.actuator.begin("g")
    desk.actuator.want(Mark(0, pod("b"), "m"), "g")
    desk.actuator.want(Mark(0, pod("c"), "m"), "h")
    late = desk.answer(1, Outcome.GONE)
    assert late is not None
    assert not late.in_phase
    assert desk.answer(7) is None
    assert not desk.actuator.settled("g")
    desk.answer(2)
    assert desk.answer(2, Outcome.GONE) is None
    assert desk.actuator.settled("g")
    assert desk.actuator.failures("g") == []


def test_a_phase_without_writes_is_settled() -> None:
    """With nothing to write it is over at once, and so is what has ended."""
    desk = Desk()
    desk.actuator.begin("g")
    assert desk.actuator.settled("g")
    desk.actuator.want(Mark(0, pod("a"), "m"), "g")
    desk.actuator.end("g")
    assert desk.actuator.settled("g")


# -- what is kept up ---------------------------------------------------------------------------------------------------


def test_a_binding_is_asked_for_until_it_is_known() -> None:
    """An answer that tells nothing settles nothing: the phase waits on, and the same binding is asked for again."""
    desk = Desk()
    desk.actuator.want(Bind(0, pod("a"), "n"), "g")
    answer = desk.answer(1, Outcome.TRANSIENT)
    assert answer is not None
    assert not answer.settled
    assert (desk.actuator.settled("g"), desk.actuator.has_writes_in_flight("g")) == (False, False)
    assert desk.later.next() == PAUSE_SECONDS
    desk.pass_time(PAUSE_SECONDS)
    assert desk.sent[1:] == [Bind(2, pod("a"), "n")]
    desk.answer(2, Outcome.CONFLICT)
    assert desk.actuator.settled("g")
    assert desk.actuator.failures("g") == [("a", Outcome.CONFLICT, "x")]
    assert desk.later.next() is None


def test_a_binding_outlives_its_plan() -> None:
    """Nobody can take it back: it is asked for again without the gang, which waits for it no more."""
    desk = Desk()
    desk.actuator.want(Bind(0, pod("a"), "n"), "g")
    desk.actuator.end("g")
    desk.answer(1, Outcome.TRANSIENT)
    desk.pass_time(PAUSE_SECONDS)
    assert desk.sent[1:] == [Bind(2, pod("a"), "n")]
    assert desk.answer(2) == Answer("", Bind(2, pod("a"), "n"), Outcome.OK, "x")


def test_a_binding_can_be_given_up() -> None:
    """When its node no longer takes the pod: its phase hears of it like of an answer. Not so if the pod is gone."""
    desk = Desk()
    for name in "ab":
        desk.actuator.want(Bind(0, pod(name), "n"), "g")
    for number in (1, 2):
        desk.answer(number, Outcome.TRANSIENT)
    desk.over = {"a": "full", "b": ""}
    given_up = Answer("g", Bind(1, pod("a"), "n"), Outcome.OUTDATED, "full", in_phase=True)
    assert desk.pass_time(PAUSE_SECONDS) == [given_up]
    assert (desk.actuator.settled("g"), desk.phases) == (True, {"g"})
    assert desk.actuator.failures("g") == [("a", Outcome.OUTDATED, "full")]
    assert desk.later.next() is None


@pytest.mark.parametrize("outcome", [o for o in Outcome if o not in (Outcome.OK, Outcome.GONE)])
def test_what_is_kept_up_is_asked_for_with_growing_pauses(outcome: Outcome) -> None:
    """Until it is so, or the pod is gone, whatever the answer is."""
    desk = Desk()
    desk.actuator.want(Unmark(0, pod("a"), "m"))
    desk.answer(1, outcome)
    desk.pass_time(PAUSE_SECONDS)
    desk.answer(2, outcome)
    desk.pass_time(PAUSE_SECONDS)
    assert len(desk.sent) == 2
    desk.pass_time(PAUSE_SECONDS)
    assert [a.id for a in desk.sent if isinstance(a, Unmark)] == [1, 2, 3]
    desk.answer(3)
    assert (desk.actuator.pods_kept(Aspect.MARK), desk.later.next()) == (set(), None)


def test_what_is_not_wanted_any_more_is_not_asked_for_again() -> None:
    """Neither while it waits for its time, nor when its answer comes later, nor when it is wanted anew."""
    desk = Desk()
    desk.actuator.want(Mark(0, pod("a"), "m"))
    desk.answer(1, Outcome.TRANSIENT)
    desk.actuator.want(Unmark(0, pod("a"), "m"), "g")
    assert desk.later.next() is None
    desk.actuator.want(Mark(0, pod("a"), "m"))
    desk.actuator.want(Mark(0, pod("a"), "other"))
    answer = desk.answer(3, Outcome.TRANSIENT)
    assert answer is not None
    assert answer.settled
    assert desk.later.next() is None
    desk.answer(4, Outcome.REFUSED)
    desk.pass_time(PAUSE_SECONDS)
    assert desk.sent[4:] == [Mark(5, pod("a"), "other")]


def test_a_record_stands_while_what_it_is_for_is_on_its_way() -> None:
    """What is to come last is sent with the last answer, if it is still wanted then."""
    desk = Desk()
    for name in "ab":
        desk.actuator.want(Remove(0, pod(name)), "g")
    for name in "mn":
        desk.actuator.want(WithdrawNomination(0, pod(name), "r", "m"), after="g")
    assert desk.actuator.pods_kept(Aspect.NOMINATION) == {"m", "n"}
    desk.answer(1)
    desk.actuator.want(Bind(0, pod("n"), "n"), "h")
    del desk.sent[2:]
    desk.answer(2, Outcome.TRANSIENT)
    assert desk.sent[2:] == [WithdrawNomination(4, pod("m"), "r", "m")]
    desk.actuator.want(WithdrawNomination(0, pod("o"), "r", "m"), after="g")
    assert len(desk.sent) == 4


# -- any order ---------------------------------------------------------------------------------------------------------


STEPS = st.lists(
    st.tuples(st.sampled_from("baukwretd"), st.sampled_from("gh"), st.sampled_from("xyz"), st.sampled_from(Outcome)),
    max_size=60,
)


def do(desk: Desk, what: str, key: str, name: str) -> None:
    """One step of a random life. A pod is bound by one plan only."""
    actuator, about = desk.actuator, pod(name)
    if what == "b" and any(isinstance(a, Bind) and a.pod.uid == name for a in desk.sent):
        return
    steps: dict[str, Callable[[], object]] = {
        "b": lambda: actuator.want(Bind(0, about, "n"), key),
        "a": lambda: actuator.want(Mark(0, about, "m"), key),
        "u": lambda: actuator.want(Unmark(0, about, "m")),
        "k": lambda: actuator.want(Mark(0, about, "m")),
        "w": lambda: actuator.want(WithdrawNomination(0, about, "r", "m"), after=key),
        "r": lambda: actuator.want(Remove(0, about), key),
        "e": lambda: actuator.end(key),
        "t": lambda: desk.pass_time(PAUSE_SECONDS),
        "d": lambda: None,
    }
    steps[what]()


@given(STEPS)
def test_every_wish_ends_and_leaves_nothing_behind(steps: list[tuple[str, str, str, Outcome]]) -> None:
    """Whatever is asked for and answered in whatever order: when everything succeeds in the end, no phase waits, and
    nothing is on its way or due.
    """
    desk = Desk()
    actuator = desk.actuator
    for what, key, name, outcome in steps:
        do(desk, what, key, name)
        if what == "d":
            for action in [a for a in desk.sent if isinstance(a, Write)][-3:]:
                desk.answer(action.id, outcome)
    for _ in range(4):
        for action in [a for a in desk.sent if isinstance(a, Write)]:
            desk.answer(action.id)
        desk.pass_time(1e9)
    for key in "gh":
        assert (actuator.settled(key), actuator.has_writes_in_flight(key)) == (True, False)
    assert all(not actuator.pods_kept(aspect) for aspect in Aspect)
    assert desk.later.next() is None
    numbers = [a.id for a in desk.sent if isinstance(a, Write)]
    assert numbers == list(range(1, len(numbers) + 1))
