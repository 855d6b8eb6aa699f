"""What is due when, for thousands of things, without looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.agenda import Agenda, Page

TIMES = st.one_of(st.none(), st.integers(min_value=0, max_value=9).map(float))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), TIMES), max_size=30))
def test_the_agenda_knows_what_a_look_at_everything_would_find(settings: list[tuple[int, int, float | None]]) -> None:
    """However often times are set and taken back, the next time and what is due are those that stand."""
    agenda = Agenda()
    pages: list[Page[int]] = [agenda.page(), agenda.page()]
    standing: list[dict[int, float]] = [{}, {}]
    for key, number, when in settings:
        if when is None:
            pages[number].never(key)
            standing[number].pop(key, None)
        else:
            pages[number].at(key, when)
            standing[number][key] = when
    assert agenda.next() == min((when for each in standing for when in each.values()), default=None)
    assert [len(page) for page in pages] == [len(each) for each in standing]
    expected = {key for key, when in standing[0].items() if when <= 5.0}
    assert set(pages[0].due(5.0)) == expected
    assert not any(key in pages[0] for key in expected)
    assert pages[0].due(5.0) == []


def test_a_page_may_be_called_with_what_is_over() -> None:
    """``on_due`` gets each key once, when its time has come, also of what is intended."""
    seen: list[str] = []
    agenda, intended = Agenda(), Agenda()
    agenda.intended = intended
    pages: list[Page[str]] = [each.page(on_due=seen.append) for each in (agenda, intended)]
    for page, key in zip(pages, ("observed", "intended"), strict=True):
        page.at(key, 3.0)
    agenda.call_due(2.9)
    assert seen == []
    agenda.call_due(3.0)
    agenda.call_due(4.0)
    assert seen == ["observed", "intended"]


def test_the_earliest_comes_first() -> None:
    """Keys are told in the order of their times, equal ones in the order in which they were set, and not before."""
    page: Page[str] = Page()
    for key, when in (("a", 3.0), ("b", 1.0), ("c", 1.0)):
        page.at(key, when)
    assert page.due(0.9) == []
    assert page.due(3.0) == ["b", "c", "a"]


def test_times_that_do_not_count_any_more_are_not_kept() -> None:
    """A page is as large as what stands on it, however often that is set anew."""
    page: Page[str] = Page()
    page.at("first", 0.0)
    for when in range(1000):
        page.at("again", float(when))
    assert len(page.heap) < 80
    assert page.due(1000.0) == ["first", "again"]
