"""An explanation for people."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangsched.cli.explaining import Explanation
from gangsched.cli.render_plan import clean, gang_panel, headline, make_console, most_rows, printed

_STYLES = {
    "victim": "bold red",
    "drained": "bold red",
    "held up": "bold yellow",
    "stays": "bold green",
    "leaving": "bold cyan",
    "pending": "bold magenta",
}


def render(found: Explanation, milliseconds: float = 0.0, console: Console | None = None) -> None:
    """Print it. ``milliseconds`` is what its own decision took."""
    out = console or make_console()
    parts: list[RenderableType] = []
    grid = Table.grid(padding=(0, 2), expand=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for section in found.sections:
        for i, line in enumerate(section.lines):
            grid.add_row(section.label if i == 0 else "", Text(clean(line)))
    if found.own is not None:
        parts.append(gang_panel(found.own, milliseconds, most_rows(out), [grid] if grid.row_count else []))
    else:
        head = Text(found.word.upper(), style=_STYLES.get(found.word, "bold"))
        head.append(f"  {clean(found.sentence)}", style="default")
        parts.append(headline(Text(clean(found.title), style="bold")))
        parts.append(Padding(head, (0, 0, 0, 2), expand=False))
        if grid.row_count:
            parts.append(Padding(grid, (0, 0, 0, 2), expand=False))
    printed(out, lambda console: console.print(Group(*parts)))
