"""The tree of cohorts and queues with usage bars, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangsched.cli.queue_rows import Row, Usage
from gangsched.cli.screen import make_console, printed
from gangsched.cli.words import clean
from gangsched.core.quota.workloads import quantity

#: Width of a bar in characters.
BAR = 12
#: As wide as a table may become in a file, where nothing has to be cut off.
_WIDEST = 1000
#: Reserved within quota, reserved beyond it, quota that is free, quota that others use.
OWN, BORROWED, FREE, LENT = "█", "▓", "░", "▒"


def bar(usage: Usage, width: int = BAR) -> str:
    """What is reserved of the own quota and beyond it, what of the own quota others use now, and what is free.

    The bar is as long as the larger of quota and what is reserved; something that is not zero has at least one
    character where there is room for it.
    """
    whole = max(usage.quota, usage.reserved)
    if not whole:
        return "·" * width
    within = min(usage.reserved, usage.quota)
    lent = max(0, usage.quota - within - usage.available)
    parts = [(OWN, within), (BORROWED, usage.borrowed), (LENT, lent), (FREE, usage.quota - within - lent)]
    sizes = [amount * width // whole if amount else 0 for _, amount in parts]
    for i, (_, amount) in enumerate(parts):
        sizes[i] = max(sizes[i], 1 if amount else 0)
    # Rounding may leave the bar a little short or long: the longest part makes up for it.
    longest = max(range(len(sizes)), key=sizes.__getitem__)
    sizes[longest] += width - sum(sizes)
    return "".join(sign * size for (sign, _), size in zip(parts, sizes, strict=True))


def render(found: Sequence[Row], console: Console | None = None) -> None:
    """Print the tree."""
    printed(console or make_console(), lambda out: _print(out, found))


def _print(out: Console, found: Sequence[Row]) -> None:
    if not found:
        out.print(Text("There are no ClusterQueues."))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title, right in (
        ("queue", False),
        ("pending", True),
        ("reserving", True),
        ("admitted", True),
        ("flavor", False),
        ("resource", False),
        ("", False),
        ("used", True),
        ("reserved", True),
        ("quota", True),
        ("borrowed", True),
    ):
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for row in found:
        _add(table, row)
    needed = out.measure(table, options=out.options.update(width=_WIDEST)).maximum
    if not out.is_terminal:
        out.width = max(out.width, needed)
    elif needed > out.width:
        _print_narrow(out, found)
        return
    out.print(table)
    legend = f"{OWN} reserved of its own quota  {BORROWED} borrowed  {LENT} lent to others  {FREE} free"
    out.print(Text(legend, style="dim"))


def _print_narrow(out: Console, found: Sequence[Row]) -> None:
    """The same without bars, with the numbers of each queue below its name: no number is cut off."""
    for row in found:
        name = _name(row)
        if row.is_queue:
            name.append(f"  {row.pending} pending, {row.reserving} reserving, {row.admitted} admitted", style="default")
        out.print(name)
        grid = Table.grid(padding=(0, 1))
        for usage in row.usages:
            used, reserved, quota, borrowed = (
                quantity(usage.resource, n) for n in (usage.used, usage.reserved, usage.quota, usage.borrowed)
            )
            more = f", {borrowed} borrowed" if usage.borrowed else ""
            grid.add_row(
                clean(usage.resource), f"{used} used, {reserved} of {quota} reserved{more}", clean(usage.flavor)
            )
        out.print(Padding(grid, (0, 0, 0, 2 * row.depth + 4), expand=False))


def _name(row: Row) -> Text:
    name = Text("  " * row.depth)
    name.append(clean(row.name), style="bold" if row.is_queue else "cyan")
    if row.problem:
        name.append(f" ({clean(row.problem)})", style="red")
    return name


def _add(table: Table, row: Row) -> None:
    name = _name(row)
    counts = (str(row.pending), str(row.reserving), str(row.admitted)) if row.is_queue else ("", "", "")
    if not row.usages:
        table.add_row(name, *counts)
    for i, usage in enumerate(row.usages):
        first = (name, *counts) if i == 0 else ("", "", "", "")
        table.add_row(
            *first,
            clean(usage.flavor),
            clean(usage.resource),
            Text(bar(usage), style="yellow" if usage.borrowed else "green"),
            quantity(usage.resource, usage.used),
            quantity(usage.resource, usage.reserved),
            quantity(usage.resource, usage.quota),
            quantity(usage.resource, usage.borrowed) if usage.borrowed else "",
        )
