"""Victims that are spared because others leave with their Job."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.decision import UnitRef, Victim
from gangsched.core.planning.sparing import MAX_TRIES, needless


def victim(name: str, unit: str = "", priority: int = 0, *, partial: bool = False, over: bool = False) -> Victim:
    """One pod of a unit, of its own unless told otherwise."""
    return Victim("d", name, name, "n", UnitRef("PodGroup", unit or name), partial, priority, over)


def asked(victims: Iterable[Victim], needed: set[str]) -> tuple[set[str], int]:
    """Who is spared when the gang does not fit while one of the ``needed`` stays, and how many questions that took."""
    questions = []

    def fits(staying: frozenset[str]) -> bool:
        questions.append(staying)
        return not staying & needed

    return set(needless(list(victims), fits)), len(questions)


def test_nobody_is_asked_about_nobody() -> None:
    """Without victims nothing is tried."""
    assert asked([], set()) == (set(), 0)


def test_all_are_spared_with_one_question() -> None:
    """The room of a Job may do for everybody."""
    assert asked([victim(f"v{i}") for i in range(50)], set()) == ({f"v{i}" for i in range(50)}, 1)


def test_units_stay_as_a_whole_and_single_members_alone() -> None:
    """Where one of a unit has to leave all do; who was taken alone stays alone."""
    whole = [victim(f"w{i}", "w") for i in range(3)]
    loose = [victim(f"l{i}", "l", partial=True) for i in range(3)]
    assert asked([*whole, *loose], {"w1", "l2"})[0] == {"l0", "l1"}


def test_whose_removal_does_most_harm_is_spared_first() -> None:
    """Only one may stay: first whose budget would be broken, then of the highest priority, then the largest unit."""
    cheap, large = victim("a"), [victim(f"u{i}", "u") for i in range(2)]
    dear, broken = victim("d", priority=5), victim("z", over=True)

    def one(*victims: Victim) -> set[str]:
        units = {v.uid: v.unit for v in victims}
        return set(needless(victims, lambda staying: len({units[uid] for uid in staying}) <= 1))

    assert one(cheap, *large, dear, broken) == {"z"}
    assert one(cheap, *large, dear) == {"d"}
    assert one(cheap, *large) == {"u0", "u1"}


@given(st.sets(st.integers(0, 40)), st.integers(1, 41))
def test_nobody_is_spared_who_is_needed(needed: set[int], count: int) -> None:
    """However many questions there are: and all others are as long as these suffice."""
    names = {f"v{i}" for i in needed}
    spared, questions = asked([victim(f"v{i}") for i in range(count)], names)
    assert questions <= MAX_TRIES
    assert not spared & names
    if questions < MAX_TRIES:
        assert spared == {f"v{i}" for i in range(count)} - names
