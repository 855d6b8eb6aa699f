"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their longest cell; numbers to the right."""
    cells = [[str(c) if c is not None else "" for c in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [all(_is_number(row[i]) for row in cells[1:]) for i in range(len(header))]
    lines = []
    for number, row in enumerate(cells):
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(parts).rstrip())
        if number == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join(lines) + "\n"


def _is_number(text: str) -> bool:
    return text in ("", "-") or text.replace(".", "", 1).replace("%", "", 1).lstrip("-").isdigit()
