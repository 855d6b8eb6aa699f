"""The pages of `gangsched ui` and of /ui: rows of commands as HTML. Facts in, text out; no scripts, nothing is loaded.

Names and texts come from strangers: all of them are escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from rich.text import Text

from gangsched.cli import get, page
from gangsched.cli.answers import clean, natural
from gangsched.cli.contracts import Planned
from gangsched.cli.explanation import Explanation
from gangsched.cli.history import Record
from gangsched.cli.html_text import escape
from gangsched.cli.page import Content
from gangsched.cli.queue_rows import Row as QueueRow
from gangsched.cli.queues import entry
from gangsched.cli.render import action_of
from gangsched.cli.render_html_plan import anchor_of, evidence_html, plan_content
from gangsched.cli.render_html_table import STYLE, Bar, Cell, table
from gangsched.messages import pictures, ui
from gangsched.model.records import SINGLE, Pod

ROOT = "/ui"
EXPLAIN = f"{ROOT}/explain"
#: The pages with their titles, in the order of the links between them.
TABS = {
    ROOT: ui.GANGS,
    f"{ROOT}/nodes": pictures.NODES,
    f"{ROOT}/queues": ui.QUEUES,
    f"{ROOT}/evictions": ui.EVICTIONS,
    f"{ROOT}/plan": pictures.PLAN,
}
#: A page is loaded again after so many seconds.
RELOAD_SECONDS = 5
#: The gang that a line of the record names.
_GANG = re.compile(r"\bgang ([a-z0-9.-]+)/([a-z0-9.-]+)\b")
#: So many rows of a table, names of objects in one, and lines of a list are shown at most.
MOST_ROWS, MOST_NAMES, MOST_LINES = 500, 3, 40

_STYLE = """
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; margin: 0 0 1rem }
a { color: light-dark(#0b57d0, #8ab4f8) } a[aria-current] { color: inherit; font-weight: 600; text-decoration: none }
:focus-visible { outline: 3px solid light-dark(#0b57d0, #8ab4f8); outline-offset: 2px }
.skip { position: absolute; left: -99rem } .skip:focus { position: static }
form { display: flex; flex-wrap: wrap; gap: .4rem .8rem; align-items: center; margin: .6rem 0 }
form.plan { display: block } textarea { width: 100%; font: 13px/1.4 ui-monospace, monospace }
input, select, button, textarea { font-size: 14px; padding: .3rem .5rem; color: inherit; max-width: 100%;
  background: var(--paper); border: 1px solid var(--dim); border-radius: 4px }
[role=alert] { border-left: 4px solid #c5221f; padding: .1rem 0 .1rem .8rem; margin: .8rem 0; overflow-wrap: anywhere }
.live { float: right; font-size: 13px; color: var(--dim) } .sum { font-size: 1.05rem; font-weight: 600 }
@media (max-width: 700px) { .live { float: none } }
"""
_STYLED = re.compile(r" style='([^']*)'")


def whole(path: str, title: str, of: str, found: Content, nonce: str, *, live: str = "") -> str:
    """The page at ``path``, for a policy that lets only styles with this ``nonce`` count. ``live`` is a link that stops
    the page from being loaded again and again, or starts that.
    """
    links = "".join(
        f"<li><a href='{tab}'{' aria-current=page' if tab == path else ''}>{escape(name)}</a></li>"
        for tab, name in TABS.items()
    )
    above = (
        f"<a class='skip' href='#main'>{escape(ui.SKIP)}</a>"
        f"<nav aria-label='{escape(ui.PAGES)}'><ul>{links}</ul></nav>\n{live}<main id='main'>"
    )
    text = page.page(title, of, found._replace(body=f"{found.body}</main>"), head="", above=above, style=_STYLE + STYLE)
    return _without_attributes(text, nonce)


def _without_attributes(text: str, nonce: str) -> str:
    """Styles of single elements become rules. No text of others has a quotation mark that is not escaped."""
    rules: dict[str, int] = {}
    text = _STYLED.sub(lambda found: f" data-s='{rules.setdefault(found[1], len(rules))}'", text)
    added = "".join(f"[data-s='{number}'] {{ {rule} }}" for rule, number in rules.items())
    return text.replace("<style>", f"<style nonce='{nonce}'>", 1).replace("</style>", f"{added}</style>", 1)


# ---------------------------------------------------------------------------------------------------------- what is in


class Choice(NamedTuple):
    """The gangs that are shown, and their order: ``sort`` is the head of a column, ``text`` is in name or reason."""

    namespace: str = ""
    waiting: bool = False
    text: str = ""
    sort: str = ""

    def shows(self, row: get.Row) -> bool:
        """Return whether this gang is chosen."""
        told = f"{row.namespace}/{row.name} {row.reason}".lower()
        space = self.namespace in ("", row.namespace)
        return space and (not self.waiting or row.state in get.WAITS) and self.text.lower() in told

    def address(self, sort: str) -> str:
        """The page with the same gangs in another order."""
        fields = {"namespace": self.namespace, "waiting": "1" if self.waiting else "", "text": self.text, "sort": sort}
        return f"{ROOT}?{urlencode({key: value for key, value in fields.items() if value})}"


#: What rows are sorted by, by the head of their column.
_ORDERS: Mapping[str, Callable[[get.Row], Any]] = {
    "NAMESPACE": lambda row: natural(row.namespace),
    "NAME": lambda row: natural(row.name),
    "KIND": lambda row: row.kind,
    "STATE": lambda row: row.state,
    "PRIORITY": lambda row: -row.priority,
    "AGE": lambda row: row.created or 0.0,
}


def gangs(rows: Sequence[get.Row], now: float, summary: str, lead: Sequence[str], chosen: Choice) -> Content:
    """The gangs that are chosen. Without another order those come first that wait, the one that waits longest before
    all.
    """
    spaces = sorted({row.namespace for row in rows})
    options = "".join(
        f"<option value='{escape(space)}'{' selected' if space == chosen.namespace else ''}>"
        f"{_text(space) or ui.ALL}</option>"
        for space in ("", *spaces[:MOST_ROWS])
    )
    kept = f"<input type='hidden' name='sort' value='{escape(chosen.sort)}'>" if chosen.sort else ""
    forms = (
        f"<form action='{ROOT}'>{kept}<label for='ns'>{ui.NAMESPACE}</label>"
        f"<select id='ns' name='namespace'>{options}</select>"
        f"<label><input type='checkbox' name='waiting' value='1'{' checked' if chosen.waiting else ''}>"
        f" {ui.ONLY_WAITING}</label>"
        f"<input name='text' aria-label='{ui.TEXT}' placeholder='{ui.TEXT}' value='{escape(chosen.text)}'>"
        f"<button>{pictures.FILTER}</button></form>"
        f"<form action='{EXPLAIN}'><label for='find'>{ui.FIND}</label>"
        f"<input id='find' name='name' required placeholder='{escape(ui.NAME)}'>"
        f"<input name='namespace' aria-label='{ui.NAMESPACE}' placeholder='{ui.NAMESPACE}'"
        f" value='{escape(chosen.namespace)}'>"
        f"<button>{ui.EXPLANATION}</button></form>"
    )
    found = [row for row in rows if chosen.shows(row)]
    found.sort(key=lambda row: (row.state not in get.WAITS, row.created or now if row.state in get.WAITS else 0.0))
    if order := _ORDERS.get(chosen.sort):
        found.sort(key=order)
    head, *lines = get.lines("table", found[:MOST_ROWS], now)
    name, state = head.index("NAME"), head.index("STATE")
    cells: list[list[str | Cell]] = [list(line) for line in lines]
    for row, line in zip(found, cells, strict=False):
        line[name] = Cell(row.name, link(row.namespace, row.name, row.kind))
        line[state] = Cell(row.state, state=True)
    summed = page.sentences([get.in_short(Counter(row.state for row in found))])
    sorts = {label: chosen.address(label) for label in _ORDERS}
    shown = table(head, cells, sorts, chosen.sort) if lines else page.sentences([ui.NO_GANGS])
    more = [ui.more_gangs(count=left)] if (left := _beyond(found)) else []
    first = f"<p class='sum'>{_text(summary)}</p>" if summary else ""
    return Content(first + page.sentences(lead) + forms + summed + shown + page.sentences(more))


def explained(found: Explanation, more: str = "", pods: Sequence[Pod] = ()) -> Content:
    """What is known of one gang or pod, and a line ``more``. ``pods`` are the pod, or those of the gang."""
    action, sections = action_of((each.label, [Text(clean(line)) for line in each.lines]) for each in found.sections)
    title, why = found.head
    shown = [page.terms(label, [line.plain for line in lines], MOST_LINES) for label, lines in sections]
    if found.own is not None:
        shown += evidence_html(found.own, MOST_LINES)
    listed = f"<dl>{''.join(shown)}</dl>" if any(shown) else ""
    do, _, advice = action[0].plain.partition("  ") if action else ("", "", "")
    lines = f"<p><strong>{escape(do)}</strong> {escape(advice)}</p>" if action else ""
    lines += page.sentences([more]) if more else ""
    return Content(
        f"<section><p><strong>{_text(title.upper())}</strong> {_text(why)}</p>{lines}{listed}</section>{_where(pods)}"
    )


def _where(pods: Sequence[Pod]) -> str:
    """Pods with links to their explanations, their nodes and, of a single one, its gang."""
    if not pods:
        return ""
    head = (ui.POD, ui.NODE, ui.GANG)
    rows = []
    for pod in pods[:MOST_LINES]:
        gang = Cell("") if pod.gang.family == SINGLE else Cell(pod.gang.key, link(*pod.gang[1:3]))
        node = Cell(pod.node, f"{ROOT}/nodes#{anchor_of(pod.node)}" if pod.node else "")
        rows.append((Cell(pod.name, link(pod.namespace, pod.name, "Pod")), node, gang))
    more = [pictures.more_nodes(count=len(pods) - MOST_LINES)] if len(pods) > MOST_LINES else []
    return table(head, rows) + page.sentences(more)


def title_of(found: Explanation) -> tuple[str, str]:
    """The name of what an explanation is about, and what that is."""
    own = found.own
    if own is not None:
        return own.gang.key, f"{own.kind} · priority {own.priority}"
    name, _, about = found.title.partition("  ")
    return clean(name), clean(about)


def queues(rows: Sequence[QueueRow], lead: Sequence[str]) -> Content:
    """The tree of queues: a line for each resource of each."""
    head = (
        "QUEUE",
        "PENDING",
        "RESERVING",
        "ADMITTED",
        "RESOURCE",
        ui.OF_QUOTA,
        "USED",
        "RESERVED",
        "QUOTA",
        "BORROWED",
    )
    lines: list[tuple[str | Cell, ...]] = []
    for row in rows:
        shown = entry(row)
        name = "· " * row.depth + row.name + (f" ({row.problem})" if row.problem else "")
        counts = [str(shown[key]) if row.is_queue else "" for key in ("pending", "reserving", "admitted")]
        uses = [
            (
                f"{use['resource']} of {use['flavor']}",
                Cell("", bar=Bar(each.used, each.reserved, each.quota, _render_use(use))),
                *(use[key] for key in ("used", "reserved", "quota", "borrowed")),
            )
            for use, each in zip(shown["usage"], row.usages, strict=True)
        ]
        lines += [(name, *counts, *use) for use in uses or [("",) * 6]]
    shown_rows = table(head, lines[:MOST_ROWS]) if lines else page.sentences([ui.NO_QUEUES])
    more = [ui.more_queues(count=left)] if (left := _beyond(lines)) else []
    return Content(page.sentences(lead) + shown_rows + page.sentences(more))


def evictions(record: Record, lead: Sequence[str]) -> Content:
    """What is on record, the newest first."""
    newest = record.lines[::-1][:MOST_ROWS]
    head, *lines = Record(newest, record.now).rows(MOST_NAMES)
    at = head.index("OBJECTS")
    cells: list[list[str | Cell]] = [list(line) for line in lines]
    for line, row in zip(newest, cells, strict=True):
        if len(line.objects) == 1:
            space, name, _ = line.objects[0]
            row[at] = Cell(str(row[at]), link(space, name, line.kind))
        if gang := _GANG.search(line.note):
            row[-1] = Cell(line.note, link(gang[1], gang[2]))
    shown = table(head, cells) if lines else page.sentences([ui.NO_EVICTIONS])
    more = [ui.more_evictions(count=left)] if (left := _beyond(record.lines)) else []
    return Content(page.sentences(lead) + shown + page.sentences(more))


def plan_form(text: str, lead: Sequence[str] = (), problems: Sequence[str] = ()) -> Content:
    """Where manifests are pasted, with what is wrong with those that were."""
    return Content(
        f"{page.sentences(lead)}{alert(ui.BAD_INPUT, problems)}"
        f"<form class='plan' method='post' action='{ROOT}/plan' accept-charset='utf-8'>"
        f"<p><label for='manifest'>{escape(ui.MANIFEST)}</label></p>"
        f"<textarea id='manifest' name='manifest' rows='14' required spellcheck='false'>\n{escape(text)}</textarea>"
        f"<p><button>{escape(ui.ASK)}</button></p></form>"
    )


def planned(plan: Planned, text: str, warnings: Sequence[str], more: Sequence[str]) -> Content:
    """What is decided of pasted manifests, with the form to change them."""
    found = plan_content(plan)
    below = plan_form(text).body
    return found._replace(body=page.sentences(more) + alert(ui.WARNINGS, warnings) + found.body + below)


def alert(title: str, lines: Sequence[str]) -> str:
    """What is wrong; nothing where nothing is."""
    items = "".join(f"<p>{_text(line)}</p>" for line in lines[:MOST_LINES])
    return f"<div role='alert'><p><strong>{escape(title)}</strong></p>{items}</div>" if items else ""


def link(namespace: str, name: str, kind: str = "") -> str:
    """Return the address of the explanation of a gang, a pod or an owner."""
    fields = {"namespace": namespace, "name": name, **({"kind": kind} if kind else {})}
    return f"{EXPLAIN}?{urlencode(fields)}"


def _beyond(found: Sequence[object]) -> int:
    """How many rows are not shown."""
    return max(0, len(found) - MOST_ROWS)


def _render_use(use: Mapping[str, Any]) -> str:
    return ui.use_of_quota(used=use["used"], reserved=use["reserved"], quota=use["quota"])


def live(address: str, *, paused: bool) -> str:
    """The link that stops or starts loading a page again and again."""
    text, action = (ui.PAUSED, ui.RESUME) if paused else (ui.reloads(seconds=RELOAD_SECONDS), ui.PAUSE)
    return f"<p class='live'>{escape(text)} <a href='{escape(address)}'>{escape(action)}</a></p>"


def _text(text: str) -> str:
    return escape(clean(text))
