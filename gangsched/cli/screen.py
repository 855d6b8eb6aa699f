"""What all texts for human readers are made of: a console, a headline, and lines under labels."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from gangsched.cli.words import clean
from gangsched.messages import failures

#: On a terminal longer lists end in "… and 12 more": a gang may have thousands of members.
MAX_ROWS = 40
#: Rules need go no further.
RULE_WIDTH = 120
#: No line is as long: what goes into a file or a pipe is neither wrapped nor cut off.
_ENDLESS = 100_000


def make_console() -> Console:
    """A console that neither guesses colours into names nor wraps what goes into a file or a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _ENDLESS
    return console


def most_rows(console: Console, on_terminal: int = MAX_ROWS) -> int:
    """How long a list may be: in a file or a pipe, as long as it is."""
    return on_terminal if console.is_terminal else sys.maxsize


def printed(out: Console, write: Callable[[Console], None]) -> None:
    """Let ``write`` print; what does not go to a terminal loses its trailing blanks."""
    if out.is_terminal:
        write(out)
        return
    with out.capture() as captured:
        write(out)
    # Tables are padded to their width; in a file that is noise.
    out.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def headline(title: str, more: str = "", width: int = RULE_WIDTH) -> RenderableType:
    """A title with a rule behind it."""
    text = Text(clean(title), style="bold")
    text.append(clean(more), style="default")
    return Constrain(Rule(text, align="left", style="dim"), max(width, text.cell_len + 4))


def labelled(word: str, style: str, sentence: str) -> Text:
    """A word in capitals and what it means here."""
    return Text(word.upper(), style=style).append(f"  {clean(sentence)}", style="default")


def block(title: RenderableType, *body: RenderableType) -> RenderableType:
    """Things below a headline, indented."""
    return Group(title, Padding(Group(*body), (0, 0, 0, 2), expand=False))


def sections(found: Iterable[tuple[str, Sequence[Text]]], most: int) -> list[RenderableType]:
    """Lines, at most so many of each, beside their labels; nothing where there are none."""
    grid = Table.grid(padding=(0, 2), expand=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, lines in found:
        for i, line in enumerate(limited(lines, most)):
            grid.add_row(label if i == 0 else "", line)
    return [grid] if grid.row_count else []


def limited(lines: Sequence[Text], most: int) -> Sequence[Text]:
    """The lines, or the first of them and how many there are beside them."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], Text(failures.rows_left_out(len(lines) - most + 1), style="dim")]
