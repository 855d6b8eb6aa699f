"""An explanation for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gangsched.cli.explanation import Explanation
from gangsched.cli.render_plan import gang_panel
from gangsched.cli.screen import block, headline, labelled, make_console, most_rows, printed, sections
from gangsched.cli.words import clean

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
    most = most_rows(out)
    explained = [(section.label, [Text(clean(line)) for line in section.lines]) for section in found.sections]
    if found.own is not None:
        panel = gang_panel(found.own, milliseconds, most, explained)
    else:
        head = labelled(found.word, _STYLES.get(found.word, "bold"), found.sentence)
        panel = block(headline(found.title), head, *sections(explained, most))
    printed(out, lambda console: console.print(panel))
