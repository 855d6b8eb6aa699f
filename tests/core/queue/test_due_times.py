"""What is due when, for thousands of groups, without looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.groups import Clock, Group
from gangsched.model.records import SINGLE, GangId

TIMES = st.one_of(st.none(), st.integers(min_value=0, max_value=9).map(float))


def groups(clock: Clock, count: int) -> list[Group]:
    """So many groups that share a clock."""
    return [Group((GangId(SINGLE, "ns", f"g{n}", "s"),), clock) for n in range(count)]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(("deadline", "tell_at")), TIMES), max_size=30))
def test_the_clock_knows_what_a_look_at_all_groups_would_find(settings: list[tuple[int, str, float | None]]) -> None:
    """However often times are set and taken back, the next time and what is due are those that stand."""
    clock = Clock()
    some = groups(clock, 4)
    for index, name, when in settings:
        setattr(some[index], name, when)
    some[3].known = False
    standing = [getattr(g, name) for g in some[:3] for name in ("deadline", "tell_at")]
    assert clock.next() == min((t for t in standing if t is not None), default=None)
    expected = {g.key for g in some[:3] if g.deadline is not None and g.deadline <= 5.0}
    assert {g.key for g in clock.due("deadline", 5.0)} == expected
    assert clock.due("deadline", 5.0) == []


def test_the_earliest_comes_first() -> None:
    """Groups are told in the order of their times, equal ones in the order in which they were set."""
    clock = Clock()
    a, b, c = groups(clock, 3)
    a.deadline, b.deadline, c.deadline = 3.0, 1.0, 1.0
    assert [g.key for g in clock.due("deadline", 3.0)] == [b.key, c.key, a.key]
