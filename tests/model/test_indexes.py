"""Lists of indexes in the status of Indexed Jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model.errors import FieldError
from gangsched.model.indexes import how_many, others, ranges


@given(st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_indexes_are_read_as_controllers_write_them(found: set[int], end: int) -> None:
    """The ranges hold what was written, and the others are all the rest."""
    parts: list[str] = []
    for index in sorted(found):
        if index - 1 not in found:
            last = next(i for i in range(index, 62) if i + 1 not in found)
            parts.append(str(index) if last == index else f"{index}-{last}")
    read = ranges(",".join(parts), "status.completedIndexes")
    assert how_many(read) == len(found)
    assert list(others(read, end)) == [i for i in range(end) if i not in found]


@pytest.mark.parametrize("text", ["a", "1,", "3-1", "2,1", "-", "1-2-3"])
def test_what_is_no_list_of_indexes(text: str) -> None:
    """The message has it."""
    with pytest.raises(FieldError, match="is not a list of indexes"):
        ranges(text, "status.failedIndexes")
