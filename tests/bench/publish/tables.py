"""Tables, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Table(NamedTuple):
    """Header and rows."""

    header: Sequence[Any]
    rows: Sequence[Sequence[Any]]

    def text(self) -> str:
        """For a terminal: columns as wide as their longest cell; numbers to the right."""
        cells = [[str(c) if c is not None else "" for c in row] for row in (self.header, *self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.header))]
        right = [all(_is_number(row[i]) for row in cells[1:]) for i in range(len(self.header))]
        lines = []
        for number, row in enumerate(cells):
            parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
            lines.append("  ".join(parts).rstrip())
            if number == 0:
                lines.append("  ".join("-" * w for w in widths))
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """For a page."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)

    def only(self, *columns: int) -> Table:
        """These columns of it."""
        return Table([self.header[i] for i in columns], [[row[i] for i in columns] for row in self.rows])


def table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """For a terminal."""
    return Table(header, rows).text()


def _is_number(text: str) -> bool:
    return text in ("", "-") or text.replace(".", "", 1).replace("%", "", 1).lstrip("-").isdigit()
