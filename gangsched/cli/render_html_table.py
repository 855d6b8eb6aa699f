"""Tables of pages: cells with links, states with colours, and bars. Facts in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gangsched.cli import get
from gangsched.cli.answers import clean
from gangsched.cli.html_text import escape

#: The class of a state decides its colour.
_STATES = {
    get.GATHERING: "gather",
    get.QUEUED: "wait",
    get.NOMINATED: "make",
    get.BINDING: "start",
    get.STARTING: "start",
    get.RUNNING: "run",
    get.LEAVING: "leave",
    get.FINISHED: "gather",
}

STYLE = """
table.u td { white-space: normal; color: inherit; overflow-wrap: anywhere } table.u td:last-child { min-width: 12rem }
table.u td.k { white-space: nowrap; overflow-wrap: normal }
th a[aria-sort]::after { content: ' \\2193' }
.s { display: inline-block; padding: 0 .5rem; border-radius: 99px; font-size: 12px; font-weight: 600;
  color: light-dark(#10151b, #f2f4f7); background: light-dark(hsl(var(--c) 75% 86%), hsl(var(--c) 45% 28%));
  border: 1px solid light-dark(hsl(var(--c) 45% 62%), hsl(var(--c) 40% 45%)) }
.s.run { --c: 140 } .s.start { --c: 190 } .s.make { --c: 265 } .s.wait { --c: 38 } .s.leave { --c: 5 }
.s.gather { background: var(--lane); border-color: var(--line) }
.m { display: block; min-width: 7rem; height: 14px; border-radius: 4px; background: var(--lane); overflow: hidden;
  position: relative; margin-top: .2rem }
.m i { position: absolute; left: 0; top: 0; height: 100%; background: light-dark(#5b8def, #4f7fd9) }
.m i.over { background: repeating-linear-gradient(135deg, #d9822b 0 5px, #b3631a 5px 8px) }
.m i.r { background: light-dark(#b9cdf6, #34518c) }
@media (max-width: 700px) {
  table.u td, table.u td.k { display: grid; grid-template-columns: 6rem 1fr; white-space: normal; padding: 0 }
  table.u td::before { content: attr(data-l); color: var(--dim); font-size: 12px }
  table.u td:empty { display: none } .s { justify-self: start } }
"""


class Bar(NamedTuple):
    """How much of ``room`` is used, and how much is reserved beyond that; what is beyond the room is marked."""

    used: float
    reserved: float
    room: float
    label: str


class Cell(NamedTuple):
    """A cell with more than a text: with the address of a page, the state of a gang, or a bar."""

    text: str
    link: str = ""
    state: bool = False
    bar: Bar | None = None


def table(
    head: Sequence[str], lines: Iterable[Sequence[str | Cell]], sorts: Mapping[str, str] = {}, by: str = ""
) -> str:
    """Rows below their heads. ``sorts`` has addresses of the table in another order, by head; it is sorted ``by``."""
    heads = "".join(f"<th scope='col'>{_head(each, sorts.get(each, ''), by)}</th>" for each in head)
    rows = []
    for line in lines:
        cells = []
        for label, each in zip(head, line, strict=True):
            cell = each if isinstance(each, Cell) else Cell(each)
            short = " class='k'" if len(cell.text) < 12 else ""
            cells.append(f"<td{short} data-l='{escape(label.lower())}'>{_cell(cell)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table class='u'><tr>{heads}</tr>\n" + "\n".join(rows) + "</table>"


def _head(label: str, address: str, by: str) -> str:
    if not address:
        return escape(label)
    current = " aria-sort='ascending'" if label == by else ""
    return f"<a href='{escape(address)}'{current}>{escape(label)}</a>"


def _cell(cell: Cell) -> str:
    text = escape(clean(cell.text))
    if cell.bar is not None:
        return _bar(cell.bar)
    if cell.state and text:
        text = f"<span class='s {_STATES.get(cell.text, 'gather')}'>{text}</span>"
    return f"<a href='{escape(cell.link)}'>{text}</a>" if cell.link else text


def _bar(bar: Bar) -> str:
    whole = max(bar.room, bar.used, bar.reserved, 1.0)
    parts = [("r", bar.reserved), ("", bar.used)]
    if bar.reserved > bar.room:
        parts.insert(0, ("over", bar.reserved))
        parts[1] = ("r", bar.room)
    inner = "".join(
        f"<i class='{kind}' style='width:{100 * size / whole:.3g}%'></i>" for kind, size in parts if size > 0
    )
    return f"<span class='m' title='{escape(clean(bar.label))}'>{inner}</span>"
