"""An answer about one thing: its title, the reason, what to do, and the evidence, which has to fit into few lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangsched.messages import sums

#: The most lines of one answer on a terminal, unless all are requested.
PANEL_LINES = 15
#: The lines of the terminal that one line of the head may take, when room is short.
_HEAD_ROWS = 5
#: Return the lines that may be cut, the most first.
_ROWS = (sys.maxsize, 3, 2, 1)
_INDENT, _GAP = 2, 2


class Evidence(NamedTuple):
    """Lines under a label, and fewer which sum them up where there are any."""

    label: str
    lines: Sequence[Text]
    summed: Sequence[Text] = ()


class Panel:
    """An answer in at most ``most`` lines of a terminal: each list has its share of them, the first ones the larger.
    ``all_by`` says how all of it is had.
    """

    def __init__(
        self,
        title: RenderableType,
        head: Sequence[Text],
        evidence: Iterable[Evidence],
        foot: str = "",
        most: int = PANEL_LINES,
        all_by: str = sums.SHOWS_ALL,
    ) -> None:
        self._title = title
        self._head = head
        self._evidence = [each for each in evidence if each.lines]
        self._foot = foot
        self._most = most
        self._all_by = all_by

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = self._body(self._head, self._evidence, self._foot)
        if len(console.render_lines(whole, options, pad=False)) <= self._most:
            yield whole
            return
        fitting = _Fitting(console, options.max_width - _INDENT)
        foot = "; ".join(filter(None, (self._foot, self._all_by)))
        head = [fitting.cut(text, _HEAD_ROWS) for text in self._head]
        left = self._most - 1 - sum(fitting.rows(text) for text in (*head, Text(foot)))
        yield self._body(head, fitting.evidence(self._evidence, left), foot)

    def _body(self, head: Sequence[Text], evidence: Iterable[Evidence], foot: str) -> RenderableType:
        below = [Text(foot, style="dim")] if foot else []
        body = Group(*head, *_grid(evidence), *below)
        return Group(self._title, Padding(body, (0, 0, 0, _INDENT), expand=False))


class _Fitting:
    """Cuts texts so that they take few lines of so many columns."""

    def __init__(self, console: Console, width: int) -> None:
        self._console = console
        self._width = width

    def rows(self, text: Text, width: int = 0) -> int:
        """How many lines a text takes."""
        return len(text.wrap(self._console, max(1, width or self._width)))

    def cut(self, text: Text, most: int, width: int = 0, ending: str = "") -> Text:
        """The text with this ``ending`` in at most so many lines, without the end of its own where it is too long."""
        ended = text.copy().append(ending, style="dim")
        length = len(text)
        while length > 1 and self.rows(ended, width) > most:
            length -= max(1, length // 20)
            ended = text[:length].append("…").append(ending, style="dim")
        return ended

    def evidence(self, found: Sequence[Evidence], most: int) -> list[Evidence]:
        """In at most ``most`` lines: a line at least of every list where that is possible, and then more of each."""
        if most < 1 or not found:
            return []
        found = found[:most]
        width = self._width - max(len(each.label) for each in found) - _GAP
        each_most = next((rows for rows in _ROWS if self._used(found, [1] * len(found), rows, width) <= most), 1)
        shares = self._shares(found, each_most, most, width)
        summed = [
            Evidence(each.label, each.summed)
            if share < len(each.lines) and 0 < len(each.summed) < len(each.lines)
            else each
            for each, share in zip(found, shares, strict=True)
        ]
        shares = self._shares(summed, each_most, most, width)
        return [
            Evidence(each.label, self._first(each.lines, share, each_most, width))
            for each, share in zip(summed, shares, strict=True)
        ]

    def _shares(self, found: Sequence[Evidence], each_most: int, most: int, width: int) -> list[int]:
        """How many lines of each list there is room for: one more of each in turn."""
        shares = [1] * len(found)
        growing = True
        while growing:
            growing = False
            for i, each in enumerate(found):
                more = [*shares[:i], shares[i] + 1, *shares[i + 1 :]]
                if shares[i] < len(each.lines) and self._used(found, more, each_most, width) <= most:
                    shares, growing = more, True
        return shares

    def _used(self, found: Sequence[Evidence], shares: Sequence[int], each_most: int, width: int) -> int:
        return sum(
            self.rows(line, width)
            for each, share in zip(found, shares, strict=True)
            for line in self._first(each.lines, share, each_most, width)
        )

    def _first(self, lines: Sequence[Text], share: int, each_most: int, width: int) -> list[Text]:
        """The first lines, the last of which says how many more there are."""
        more = len(lines) - share
        ending = f" {sums.and_more(count=more)}" if more > 0 else ""
        shown = lines[:share]
        return [
            *(self.cut(line, each_most, width) for line in shown[:-1]),
            *(self.cut(line, each_most, width, ending) for line in shown[-1:]),
        ]


def _grid(evidence: Iterable[Evidence]) -> list[RenderableType]:
    """Lines beside their labels; nothing where there are none."""
    grid = Table.grid(padding=(0, _GAP), expand=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, lines, _ in evidence:
        for i, line in enumerate(lines):
            grid.add_row(label if i == 0 else "", line)
    return [grid] if grid.row_count else []
