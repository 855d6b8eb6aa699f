"""Axes and marks of the pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.bench.publish import svg


def test_a_logarithmic_axis() -> None:
    """The same factor is the same way, ticks are round, and what lies beyond stays at the end."""
    axis = svg.Axis(1.0, 180.0, 100.0, 500.0, logarithmic=True)
    assert axis.ticks() == [1, 2, 5, 10, 20, 50, 100]
    assert axis.at(20.0) - axis.at(10.0) == pytest.approx(axis.at(4.0) - axis.at(2.0))
    assert [axis.at(value) for value in (0.1, 1.0, 180.0, 999.0)] == [100.0, 100.0, 500.0, 500.0]


def test_a_linear_axis() -> None:
    """Up is a smaller number of pixels; ticks are round and evenly spaced."""
    axis = svg.Axis(0.0, 162.0, 130.0, 0.0)
    assert axis.ticks() == [0, 50, 100, 150]
    assert axis.at(81.0) == pytest.approx(65.0)


@pytest.mark.parametrize(("value", "down", "up"), [(1.0, 1, 1), (3.06, 2, 5), (0.7, 0.5, 1), (99.0, 50, 100)])
def test_ends_of_an_axis_are_round(value: float, down: float, up: float) -> None:
    """The next of 1, 2, 5, 10 on either side."""
    assert svg.round_down(value) == pytest.approx(down)
    assert svg.round_up(value) == pytest.approx(up)


def test_a_document_is_well_formed_and_has_both_papers() -> None:
    """What is told is escaped, every mark has its place, and colours follow the screen of the reader."""
    marks = [
        svg.text(1, 2, "a < b & c", "soft", "end"),
        svg.line(0, 0, 5, 5),
        svg.box(0, 0, 5, 5, 1),
        svg.arrow(5, 0, 2, 5, 1),
        svg.paper(0, 0, 5, 5),
        svg.path([(0, 0), (5, 5)], 2, dots=True),
        svg.legend(0, 9, [("one", 0), ("two", 1)]),
    ]
    drawn = svg.document(100, 50, "a & b", marks)
    root = ElementTree.fromstring(drawn)
    words = [each.text for each in root.iter() if each.tag.endswith(("title", "}text"))]
    assert words == ["a & b", "a < b & c", "one", "two"]
    assert len([each for each in root.iter() if each.tag.endswith("circle")]) == 2
    assert "prefers-color-scheme:dark" in drawn
