"""The tree of cohorts and queues with usage bars, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangsched.cli.render_plan import clean, printed
from gangsched.core.quota.counters import Tally
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.tree import Node
from gangsched.core.quota.workloads import quantity

#: Width of a bar in characters.
BAR = 12
#: As wide as a table may become in a file, where nothing has to be cut off.
_WIDEST = 1000
#: Reserved within quota, reserved beyond it, quota that is free, quota that others use.
OWN, BORROWED, FREE, LENT = "█", "▓", "░", "▒"


class Usage(msgspec.Struct, frozen=True):
    """One resource in one flavor at one node, base units.

    ``reserved`` is what workloads hold, ``used`` what those of them hold that run. ``available`` is what is free now of
    the node's own ``quota``.
    """

    flavor: str
    resource: str
    reserved: int
    used: int
    quota: int
    available: int

    @property
    def borrowed(self) -> int:
        """What is reserved beyond the node's own quota."""
        return max(0, self.reserved - self.quota)


class Row(msgspec.Struct, frozen=True):
    """One queue or cohort. ``depth`` is 0 for roots; ``problem`` says why a queue admits nothing.

    Workloads of a queue: ``pending`` wait, ``reserving`` hold quota, ``admitted`` are those of the latter that run.
    """

    name: str
    is_queue: bool
    depth: int
    usages: tuple[Usage, ...]
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    problem: str = ""


def rows(quota: Quota, tally: Tally) -> Iterator[Row]:
    """All nodes from the roots down, each followed by what is below it."""
    used = _used(quota, tally)
    roots = sorted(quota.tree.roots, key=lambda n: (n.is_queue, n.name))
    for root in roots:
        yield from _below(quota, tally, used, root, 0)


def _used(quota: Quota, tally: Tally) -> dict[Node, list[int]]:
    """What every node would use if those who do not run yet held nothing, by cell."""
    waiting = [h for h in quota.holders if not tally.runs(h.admission.workload.uid)]
    for holder in waiting:
        quota.tree.remove(holder.node, holder.amounts)
    found: dict[Node, list[int]] = {}
    below = list(quota.tree.roots)
    while below:
        node = below.pop()
        found[node] = list(node.usage)
        below += node.children
    for holder in waiting:
        quota.tree.add(holder.node, holder.amounts)
    return found


def _below(quota: Quota, tally: Tally, used: dict[Node, list[int]], node: Node, depth: int) -> Iterator[Row]:
    usages = tuple(
        Usage(
            flavor,
            resource,
            node.usage[i],
            used[node][i],
            node.subtree[i],
            max(0, min(node.available(i), _free(node, i))),
        )
        for (flavor, resource), i in quota.tree.cells.items()
        if node.usage[i] or node.subtree[i] or node.borrowing[i] is not None
    )
    name = node.name
    if node.is_queue:
        sums = tally.of_queue(name)
        yield Row(name, True, depth, usages, sums.pending, sums.reserving, sums.admitted, quota.inactive(name))
    else:
        yield Row(name, False, depth, usages)
    for child in node.children:
        yield from _below(quota, tally, used, child, depth + 1)


def _free(node: Node, cell: int) -> int:
    """What nobody at the node has reserved of its own quota."""
    return max(0, node.subtree[cell] - node.usage[cell])


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


def render(found: Sequence[Row], console: Console) -> None:
    """Print the tree."""
    printed(console, lambda out: _print(out, found))


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
