"""Figures are kept whole, and written where their blocks are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.publish import record
from tests.bench.publish.blocks import filled
from tests.bench.publish.tables import Table


def test_figures_are_read_as_they_were_kept(tmp_path: Path) -> None:
    """What was there before is replaced, and nothing else is left."""
    path = tmp_path / "figures.json"
    for found in ({"a": [1.5]}, {"a": [1.5, 2.5]}):
        record.write(found, path)
        assert record.read(path, dict[str, list[float]]) == found
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("runs", "text"), [([1.234], ""), ([2.0, 1.234], "1.23 to 2.00")])
def test_the_range_of_several_runs(runs: list[float], text: str) -> None:
    """One run has none."""
    assert record.of_all_runs(runs) == text


def test_only_blocks_are_written() -> None:
    """What stands around them stays; a block that the page does not have is an error."""
    page = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n"
    written = page.replace("begin", "begin, written by make readme").replace("old", "new")
    assert filled(page, {"x": lambda: "new"}) == written
    assert filled(written, {"x": lambda: "new"}) == written
    with pytest.raises(AssertionError, match="there is no 'y' in the page"):
        filled(page, {"y": lambda: "new"})


def test_a_table_is_the_same_in_a_page() -> None:
    """Some of its columns may be enough."""
    made = Table(["name", "n", "s"], [["a", 5, 0.5]])
    assert made.only(0, 2).markdown() == "| name | s |\n| --- | --- |\n| a | 0.5 |"
