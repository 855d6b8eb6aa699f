"""Lines in columns, and ages, as kubectl prints them."""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.model.errors import one_line

_AGES = ((86400, 2, "d"), (3600, 3, "h"), (60, 3, "m"))


def print_lines(lines: Sequence[tuple[str, ...]]) -> None:
    """In columns, as kubectl does it: nothing is cut off."""
    clean = [[one_line(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    for line in clean:
        print("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def age_of(seconds: float) -> str:
    """``45s``, ``119m``, ``5h``, ``12d``: in the largest unit of which there are some."""
    for unit, least, letter in _AGES:
        if seconds >= unit * least:
            return f"{int(seconds // unit)}{letter}"
    return f"{max(0, int(seconds))}s"
