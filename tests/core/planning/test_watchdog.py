"""A search that is ended from outside: it says so, and it ends the same way when it is told to before."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import Action
from gangsched.core.decision import PREEMPT, Decision
from gangsched.core.events import Event, SearchCancelled, Synced
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.core.watchdog import Watchdog
from tests.oracle.case import NOW
from tests.oracle.generate import case


class Impatient(Watchdog):
    """Cancels every decision when it is asked for the n-th time, as somebody with a clock might."""

    def __init__(self, question: int) -> None:
        super().__init__()
        self._at = question
        self._asked = 0

    def barks(self) -> bool:
        self._asked += 1
        if self._asked == self._at:
            self.cancel(self.decision)
        return super().barks()


def inputs() -> list[Event]:
    """A small cluster in which the search for victims takes many steps."""
    return [*case(2, mixed=False).events(), Synced()]


def run(watchdog: Watchdog, *told: Event) -> tuple[list[Action], list[Decision], SearchCancelled | None]:
    """What the first decision comes to."""
    core = Scheduler(Options())
    core.decider.watchdog = watchdog
    core.handle(inputs(), NOW)
    core.handle(told, NOW)
    actions = core.decide(NOW)
    return actions, core.drain_decisions(), core.cancelled()


@pytest.mark.parametrize("question", [1, 2, 5, 9])
def test_recorded_inputs_give_the_same_actions(question: int) -> None:
    """A cancelled search, replayed with the event that it left behind, ends at the same question with the same plan."""
    actions, decisions, event = run(Impatient(question))
    assert event == SearchCancelled(question)
    assert decisions[0].stopped
    assert run(Watchdog(), event) == (actions, decisions, event)


def test_an_undisturbed_search_leaves_nothing_behind() -> None:
    """Nobody cancels: the plan is complete, and there is nothing to record."""
    _, decisions, event = run(Watchdog())
    assert decisions[0].outcome == PREEMPT
    assert not decisions[0].stopped
    assert event is None


def test_a_cancelled_search_settles_for_a_plan_that_works() -> None:
    """Cut short at once, the plan still makes the gang fit: it only may take more than it had to."""
    _, short, _ = run(Impatient(1))
    _, full, _ = run(Watchdog())
    assert short[0].outcome == PREEMPT
    assert {p.key for p in short[0].placements} == {p.key for p in full[0].placements}
    assert len(short[0].victims) >= len(full[0].victims)


def test_only_the_decision_that_was_meant_is_cancelled() -> None:
    """Whoever is late cancels a decision that is over, not the next one."""
    watchdog = Watchdog()
    watchdog.begin()
    late = watchdog.decision
    assert watchdog.finish() == 0
    watchdog.cancel(late)
    assert not watchdog.barks()
    watchdog.begin()
    assert not watchdog.barks()
    watchdog.cancel(watchdog.decision)
    assert [watchdog.barks(), watchdog.barks()] == [True, True]
    assert watchdog.finish() == 2


def test_what_was_recorded_counts_for_one_decision() -> None:
    """The event ends the next search only."""
    watchdog = Watchdog()
    watchdog.end_at(2)
    for expected in ([False, True, True], [False, False, False]):
        watchdog.begin()
        assert [watchdog.barks() for _ in range(3)] == expected
        watchdog.finish()


def test_the_event_is_data() -> None:
    """It can be written down and read back."""
    event = SearchCancelled(7)
    assert msgspec.json.decode(msgspec.json.encode(event), type=SearchCancelled) == event
