"""What excuses a list of victims of which one was removed and another let off, and no more than that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.core.actions import Action, Bind, Mark, Nominate, Remove, SelectNode, Unmark, WithdrawNomination
from gangsched.core.decision import Preempt
from gangsched.core.lifecycle.report import mark_message
from tests.builders import OURS, node, pod
from tests.chaos.lists import second_lists
from tests.chaos.made_up import about, does, played, told
from tests.chaos.part_checks import RACE_SECONDS
from tests.chaos.play import Played

FOR_P = mark_message(OURS, "d/p", "d/p")
#: By name: the priorities of those that wait.
WAITING = {"p": 5, "weaker": 4, "equal": 5, "stronger": 6}
FOUND = ["d/p has removed 1 of 2 (plan 1-1), and let off ['d/v2']"]


def asked(run: Played, name: str) -> list[Action]:
    """What a plan for this pod asks for: any of it means that room is kept for it."""
    return [
        Nominate(9, about(run, name), "n1", "2-2", "plan 2-2"),
        Bind(9, about(run, name), "n1"),
        SelectNode(9, about(run, name), "claim", "uid-claim", "n1"),
    ]


def lets_off(
    asks: str = "",
    kind: int = 0,
    at_seconds: float = 20.0,
    *,
    gives_up: str = "",
    asked_at: Sequence[float] = (5.0, 15.0),
) -> list[str]:
    """What is found where the first victim of d/p is removed, and the other let off at 20 s; of d/``asks`` nothing is
    ever written, but was asked for at that time. So were the nomination of d/``gives_up``, and that it is withdrawn,
    at those two times.
    """
    victims = [pod(name).on("n1") for name in ("v1", "v2")]
    run = played(node("n1"), *victims, *(pod(name).priority(each) for name, each in WAITING.items()))
    gang_of = {name: run.world.store.pods["d", name].gang for name in WAITING}
    run.decisions = [Preempt(gang_of[n], "Pod", (), priority, 1) for n, priority in WAITING.items()]
    run.world.clock.advance_to(10.0)
    does(run, Nominate(1, about(run, "p"), "n1", "1-1", "plan 1-1"))
    does(run, *(Mark(2, about(run, name), FOR_P) for name in ("v1", "v2")), Remove(3, about(run, "v1"), mark=FOR_P))
    run.world.clock.advance_to(20.0)
    does(run, Unmark(4, about(run, "v2"), "no longer needed for d/p"))
    asked_for: list[tuple[float, Action]] = []
    if asks:
        asked_for.append((at_seconds, asked(run, asks)[kind]))
    if gives_up:
        withdrawn = WithdrawNomination(9, about(run, gives_up), "Withdrawn", "it was not written")
        mine = Nominate(1, about(run, "p"), "n1", "1-1", "plan 1-1")
        asked_for += [*zip(asked_at, (asked(run, gives_up)[0], withdrawn), strict=True), (10.0, mine)]
    for moment, action in sorted(asked_for, key=lambda each: each[0]):
        told(run, asks=[action])
        run.batches[-1].at_seconds = moment
    return second_lists(run)


def test_a_list_that_is_given_up_is_found() -> None:
    """Nothing has changed, and somebody has left for nothing."""
    assert lets_off() == FOUND


@pytest.mark.parametrize("kind", range(3))
def test_room_that_is_asked_for_a_stronger_gang_ends_a_list(kind: int) -> None:
    """Whether anything comes of it or not: what is kept for it is not there for the weaker one's plan. Nobody else's
    plan is in the way of this one.
    """
    assert lets_off("stronger", kind) == []
    assert lets_off("equal", kind) == FOUND
    assert lets_off("p", kind) == FOUND


@pytest.mark.parametrize(("at_seconds", "found"), [(9.9 - RACE_SECONDS, FOUND), (15.0, []), (20.1, FOUND)])
def test_only_what_is_asked_for_while_a_list_stands_ends_it(at_seconds: float, found: list[str]) -> None:
    """What was asked for before, the plan was made by; what is asked for later has not caused it."""
    assert lets_off("stronger", at_seconds=at_seconds) == found


@pytest.mark.parametrize(("name", "found"), [("stronger", []), ("equal", []), ("weaker", FOUND), ("p", FOUND)])
def test_room_that_others_give_up_spares_victims(name: str, found: list[str]) -> None:
    """What was kept for others that came first is there for the list's own now; that of weaker ones always was."""
    assert lets_off(gives_up=name) == found


@pytest.mark.parametrize(
    ("asked_at", "found"), [((5.0, 15.0), []), ((5.0, 9.0), FOUND), ((12.0, 15.0), FOUND), ((5.0, 20.1), FOUND)]
)
def test_only_room_that_was_kept_when_the_list_was_made_spares_victims(
    asked_at: Sequence[float], found: list[str]
) -> None:
    """Neither what had been given up before, nor what was kept later, nor what is given up too late."""
    assert lets_off(gives_up="equal", asked_at=asked_at) == found


@pytest.mark.parametrize(("by", "processes", "found"), [("equal", 2, []), ("equal", 1, FOUND), ("p", 2, FOUND)])
def test_a_victim_whose_mark_is_another_gangs_when_a_process_dies_is_on_that_list(
    by: str, processes: int, found: list[str]
) -> None:
    """Whoever comes after reads it from there; a process that lives knows of both lists."""
    victims = [pod(name).on("n1") for name in ("v1", "v2")]
    run = played(node("n1"), *victims, *(pod(name).priority(each) for name, each in WAITING.items()))
    run.world.clock.advance_to(10.0)
    does(run, Nominate(1, about(run, "p"), "n1", "1-1", "plan 1-1"))
    does(run, *(Mark(2, about(run, name), FOR_P) for name in ("v1", "v2")), Remove(3, about(run, "v1"), mark=FOR_P))
    other = Mark(4, about(run, "v2"), mark_message(OURS, f"d/{by}", f"d/{by}"))
    told(run, asks=[other])
    does(run, other)
    run.world.clock.advance_to(20.0)
    told(run)
    run.batches[-1].process = processes
    does(run, Unmark(5, about(run, "v2"), "no longer needed"))
    assert second_lists(run) == found
