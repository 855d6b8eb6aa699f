"""What the comparison of two checkouts calls slower."""

from __future__ import annotations

import pytest

from tests.bench.pairs import measured, report, slower, spread


def test_what_is_measured_is_read_from_what_the_benchmark_says() -> None:
    """One line for each scenario; names may have commas and blanks."""
    assert measured("  gangs: 80.1 ms\n  no plan, mixed5: 3.0 ms\nelse: 1 ms\n") == {
        "gangs": 80.1,
        "no plan, mixed5": 3.0,
    }


@pytest.mark.parametrize(("after", "found"), [([103.0] * 5, False), ([103.1] * 5, True), ([90.0] * 5, False)])
def test_three_percent_are_tolerated(after: list[float], found: bool) -> None:
    """Of values that do not vary."""
    assert slower([100.0] * 5, after) is found


@pytest.mark.parametrize(("median", "found"), [(110.0, False), (110.1, True)])
def test_what_varies_more_is_tolerated_as_far_as_it_varies(median: float, found: bool) -> None:
    """The interquartile range before is 10 ms."""
    before = [90.0, 95.0, 100.0, 105.0, 110.0]
    assert spread(before) == 10.0
    assert slower(before, [median] * 5) is found


def test_the_table_has_what_both_measure() -> None:
    """A scenario of one side alone says nothing."""
    text, found = report({"a": [10.0], "b": [1.0]}, {"a": [20.0], "c": [1.0]})
    assert found == ["a"]
    assert text.splitlines()[2].split() == ["a", "10.0", "0.0", "20.0", "0.0", "2.00", "SLOWER"]
