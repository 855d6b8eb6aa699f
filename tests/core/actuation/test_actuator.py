"""What is asked of the cluster until it is settled: phases, what is kept up, and pods that are spared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.actions import (
    Action,
    Bind,
    Mark,
    PodRef,
    Removal,
    Remove,
    Spare,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.actuation.actuator import Actuator, Answer, Aspect, Kept, Wish
from gangsched.core.agenda import Page
from gangsched.core.events import Outcome

PAUSE_SECONDS = 10.0


def pod(name: str) -> PodRef:
    """A pod whose UID is its name."""
    return PodRef("d", name, name)


class Desk:
    """An actuator, and what it has sent."""

    def __init__(self) -> None:
        self.sent: list[Action] = []
        self.later: Page[Wish] = Page()
        self.actuator = Actuator(self.sent.append, lambda failures: PAUSE_SECONDS * failures, self.later)
        self.now = 0.0
        for key in ("g", "h"):
            self.actuator.begin(key)

    def answer(self, action_id: int, outcome: Outcome = Outcome.OK) -> Answer | None:
        """The answer to a write comes in."""
        return self.actuator.answered(action_id, outcome, "x", self.now)

    def pass_time(self, seconds: float, first_id: int = 100) -> None:
        """Ask again for what is due by then."""
        self.now += seconds
        for number, wish in enumerate(self.actuator.due(self.now)):
            self.again(wish, first_id + number)

    def again(self, wish: Wish, number: int) -> None:
        """Ask for the same again."""
        assert isinstance(wish.action, Kept)
        self.actuator.ask_again(wish, msgspec.structs.replace(wish.action, id=number))


# -- phases ------------------------------------------------------------------------------------------------------------


def test_a_phase_is_settled_when_every_answer_is_there() -> None:
    """Good and bad answers count alike; the phase is judged only at the end."""
    desk = Desk()
    desk.actuator.ask("g", Mark(1, pod("a"), "m"))
    desk.actuator.ask("g", Mark(2, pod("b"), "m"))
    assert desk.answer(1, Outcome.CONFLICT) == Answer("g", Mark(1, pod("a"), "m"), in_phase=True, settled=True)
    assert not desk.actuator.settled("g")
    desk.answer(2)
    assert desk.actuator.settled("g")
    assert desk.actuator.take_failures("g") == [("a", Outcome.CONFLICT, "x")]
    assert desk.actuator.failures("g") == []


def test_a_phase_knows_only_its_own_writes() -> None:
    """Answers to writes of an earlier phase or of others, or a second answer, change nothing."""
    desk = Desk()
    desk.actuator.ask("g", Mark(1, pod("a"), "m"))
    desk.actuator.begin("g")
    desk.actuator.ask("g", Mark(2, pod("b"), "m"))
    desk.actuator.ask("h", Mark(3, pod("c"), "m"))
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
    desk.actuator.ask("g", Mark(1, pod("a"), "m"))
    desk.actuator.end("g")
    assert desk.actuator.settled("g")


# -- what is kept up ---------------------------------------------------------------------------------------------------


def test_a_binding_is_asked_for_until_it_is_known() -> None:
    """An answer that tells nothing settles nothing: the phase waits on, and the same binding is asked for again."""
    desk = Desk()
    desk.actuator.ask("g", Bind(1, pod("a"), "n"))
    answer = desk.answer(1, Outcome.TRANSIENT)
    assert answer is not None
    assert not answer.settled
    assert (desk.actuator.settled("g"), desk.actuator.any_of("g")) == (False, False)
    assert desk.later.next() == PAUSE_SECONDS
    desk.pass_time(PAUSE_SECONDS)
    assert desk.sent[1:] == [Bind(100, pod("a"), "n")]
    desk.answer(100, Outcome.CONFLICT)
    assert desk.actuator.settled("g")
    assert desk.actuator.failures("g") == [("a", Outcome.CONFLICT, "x")]
    assert desk.later.next() is None


def test_a_binding_outlives_its_plan() -> None:
    """Nobody can take it back: it is asked for again without the gang, which waits for it no more."""
    desk = Desk()
    desk.actuator.ask("g", Bind(1, pod("a"), "n"))
    desk.actuator.end("g")
    desk.answer(1, Outcome.TRANSIENT)
    desk.pass_time(PAUSE_SECONDS)
    assert desk.sent[1:] == [Bind(100, pod("a"), "n")]
    answer = desk.answer(100)
    assert answer == Answer("", Bind(100, pod("a"), "n"), in_phase=False, settled=True)


def test_a_binding_can_be_given_up() -> None:
    """When its node no longer takes the pod: its phase hears of it like of an answer."""
    desk = Desk()
    desk.actuator.ask("g", Bind(1, pod("a"), "n"))
    desk.answer(1, Outcome.TRANSIENT)
    [wish] = desk.actuator.due(PAUSE_SECONDS)
    assert desk.actuator.settle(wish, Outcome.OUTDATED, "full")
    assert desk.actuator.settled("g")
    assert desk.actuator.failures("g") == [("a", Outcome.OUTDATED, "full")]
    assert desk.actuator.due(PAUSE_SECONDS) == []


@pytest.mark.parametrize("outcome", [o for o in Outcome if o not in (Outcome.OK, Outcome.GONE)])
def test_what_is_kept_up_is_asked_for_with_growing_pauses(outcome: Outcome) -> None:
    """Until it is so, or the pod is gone, whatever the answer is."""
    desk = Desk()
    desk.actuator.keep_up(Unmark(1, pod("a"), "m"))
    desk.answer(1, outcome)
    desk.pass_time(PAUSE_SECONDS, 2)
    desk.answer(2, outcome)
    desk.pass_time(PAUSE_SECONDS, 3)
    assert len(desk.sent) == 2
    desk.pass_time(PAUSE_SECONDS, 3)
    assert [a.id for a in desk.sent if isinstance(a, Unmark)] == [1, 2, 3]
    desk.answer(3)
    assert (desk.actuator.kept(Aspect.MARK), desk.later.next()) == (set(), None)


def test_what_is_not_wanted_any_more_is_not_asked_for_again() -> None:
    """Neither while it waits for its time, nor when its answer comes later, nor when it is wanted anew."""
    desk = Desk()
    desk.actuator.keep_up(Mark(1, pod("a"), "m"))
    desk.answer(1, Outcome.TRANSIENT)
    desk.actuator.ask("", Unmark(4, pod("a"), "m"))
    assert desk.actuator.due(1e9) == []
    desk.actuator.keep_up(Mark(2, pod("a"), "m"))
    desk.actuator.keep_up(Mark(3, pod("a"), "other"))
    answer = desk.answer(2, Outcome.TRANSIENT)
    assert answer is not None
    assert answer.settled
    assert desk.actuator.due(1e9) == []
    desk.answer(3, Outcome.REFUSED)
    assert [wish.action.id for wish in desk.actuator.due(1e9)] == [3]


def test_a_record_stands_while_what_it_is_for_is_on_its_way() -> None:
    """What is to come last is sent with the last answer, if it is still wanted then."""
    desk = Desk()
    for number, name in enumerate("ab", start=1):
        desk.actuator.ask("g", Remove(number, pod(name)))
    for number, name in enumerate("mn", start=3):
        desk.actuator.keep_up(WithdrawNomination(number, pod(name), "r", "m"), after="g")
    assert desk.actuator.kept(Aspect.NOMINATION) == {"m", "n"}
    desk.answer(1)
    desk.actuator.ask("h", Bind(9, pod("n"), "n"))
    del desk.sent[2:]
    desk.answer(2, Outcome.TRANSIENT)
    assert desk.sent[2:] == [WithdrawNomination(3, pod("m"), "r", "m")]
    desk.actuator.keep_up(WithdrawNomination(5, pod("o"), "r", "m"), after="g")
    assert len(desk.sent) == 4


# -- who is spared -----------------------------------------------------------------------------------------------------


def test_a_pod_is_spared_when_nobody_wants_it_removed() -> None:
    """Of two plans that want it to leave one gives up, then the other; what has been answered is not spared."""
    desk = Desk()
    for number, (key, name) in enumerate([("g", "a"), ("g", "b"), ("h", "a"), ("g", "c")]):
        desk.actuator.ask(key, Remove(number, pod(name)))
    desk.answer(3)
    del desk.sent[:]
    desk.actuator.spare("g", desk.actuator.removals("g"))
    assert desk.sent == [Spare(pod("b"))]
    assert (desk.actuator.removals("g"), desk.actuator.removing()) == ([], ["h"])
    desk.actuator.spare("h", desk.actuator.removals("h"))
    assert desk.sent == [Spare(pod("b")), Spare(pod("a"))]


STEPS = st.lists(
    st.tuples(st.sampled_from("baukwrsetd"), st.sampled_from("gh"), st.sampled_from("xyz"), st.sampled_from(Outcome)),
    max_size=60,
)


def do(desk: Desk, ids: Iterator[int], what: str, key: str, name: str) -> None:
    """One step of a random life. A pod is bound by one plan only."""
    actuator, number, about = desk.actuator, next(ids), pod(name)
    if what == "b" and any(isinstance(a, Bind) and a.pod.uid == name for a in desk.sent):
        return
    steps: dict[str, Callable[[], object]] = {
        "b": lambda: actuator.ask(key, Bind(number, about, "n")),
        "a": lambda: actuator.ask(key, Mark(number, about, "m")),
        "u": lambda: actuator.keep_up(Unmark(number, about, "m")),
        "k": lambda: actuator.keep_up(Mark(number, about, "m"), key),
        "w": lambda: actuator.keep_up(WithdrawNomination(number, about, "r", "m"), after=key),
        "r": lambda: actuator.ask(key, Remove(number, about)),
        "s": lambda: actuator.spare(key, actuator.removals(key)),
        "e": lambda: actuator.end(key),
        "t": lambda: desk.pass_time(PAUSE_SECONDS, number),
        "d": lambda: None,
    }
    steps[what]()


@given(STEPS)
def test_every_wish_ends_and_leaves_nothing_behind(steps: list[tuple[str, str, str, Outcome]]) -> None:
    """Whatever is asked for and answered in whatever order: when everything succeeds in the end, no phase waits, and
    nothing is on its way or due.
    """
    desk, ids = Desk(), iter(range(0, 1_000_000, 100))
    actuator = desk.actuator
    for what, key, name, outcome in steps:
        do(desk, ids, what, key, name)
        if what == "d":
            for action in [a for a in desk.sent if isinstance(a, Write)][-3:]:
                desk.answer(action.id, outcome)
    for _ in range(4):
        for action in [a for a in desk.sent if isinstance(a, Write)]:
            desk.answer(action.id)
        for wish in actuator.due(1e9):
            desk.again(wish, next(ids))
    for key in "gh":
        assert (actuator.settled(key), actuator.any_of(key), actuator.removals(key)) == (True, False, [])
    assert all(not actuator.kept(aspect) for aspect in Aspect)
    assert (desk.later.next(), actuator.removing()) == (None, [])
    spared = [a.pod.uid for a in desk.sent if isinstance(a, Spare)]
    assert len(spared) <= sum(isinstance(a, Removal) for a in desk.sent)
