"""The pages of `gangsched ui` and of /ui: rows of commands as HTML. Facts in, text out; no scripts, nothing is loaded.

Names and texts come from strangers: all of them are escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from rich.text import Text

from gangsched.cli import get, page
from gangsched.cli.answers import clean
from gangsched.cli.contracts import Planned
from gangsched.cli.explanation import Explanation
from gangsched.cli.history import Record
from gangsched.cli.page import Content
from gangsched.cli.queue_rows import Row as QueueRow
from gangsched.cli.queues import entry
from gangsched.cli.render import action_of
from gangsched.cli.render_html_plan import evidence_html, plan_content
from gangsched.messages import pictures, ui

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
table.u td { white-space: normal; color: inherit; overflow-wrap: anywhere } table.u td:last-child { min-width: 12rem }
table.u td.k { white-space: nowrap; overflow-wrap: normal }
@media (max-width: 700px) {
  table.u td, table.u td.k { display: grid; grid-template-columns: 6rem 1fr; white-space: normal; padding: 0 }
  table.u td::before { content: attr(data-l); color: var(--dim); font-size: 12px }
  table.u td:empty { display: none } }
"""
_STYLED = re.compile(r" style='([^']*)'")


def whole(path: str, title: str, of: str, found: Content, nonce: str) -> str:
    """The page at ``path``, for a policy that lets only styles with this ``nonce`` count."""
    links = "".join(
        f"<li><a href='{tab}'{' aria-current=page' if tab == path else ''}>{escape(name)}</a></li>"
        for tab, name in TABS.items()
    )
    above = (
        f"<a class='skip' href='#main'>{escape(ui.SKIP)}</a>"
        f"<nav aria-label='{escape(ui.PAGES)}'><ul>{links}</ul></nav>\n<main id='main'>"
    )
    text = page.page(title, of, found._replace(body=f"{found.body}</main>"), head="", above=above, style=_STYLE)
    return _without_attributes(text, nonce)


def _without_attributes(text: str, nonce: str) -> str:
    """Styles of single elements become rules. No text of others has a quotation mark that is not escaped."""
    rules: dict[str, int] = {}
    text = _STYLED.sub(lambda found: f" data-s='{rules.setdefault(found[1], len(rules))}'", text)
    added = "".join(f"[data-s='{number}'] {{ {rule} }}" for rule, number in rules.items())
    return text.replace("<style>", f"<style nonce='{nonce}'>", 1).replace("</style>", f"{added}</style>", 1)


# ---------------------------------------------------------------------------------------------------------- what is in


def gangs(rows: Sequence[get.Row], now: float, lead: Sequence[str], *, namespace: str, waiting: bool) -> Content:
    """All gangs, or those of a namespace or that wait: those that wait first, the one that waits longest before all."""
    spaces = sorted({row.namespace for row in rows})
    options = "".join(
        f"<option value='{escape(space)}'{' selected' if space == namespace else ''}>{_text(space) or ui.ALL}</option>"
        for space in ("", *spaces[:MOST_ROWS])
    )
    chosen = (
        f"<form action='{ROOT}'><label for='ns'>{ui.NAMESPACE}</label>"
        f"<select id='ns' name='namespace'>{options}</select>"
        f"<label><input type='checkbox' name='waiting' value='1'{' checked' if waiting else ''}> {ui.ONLY_WAITING}"
        f"</label><button>{pictures.FILTER}</button></form>"
        f"<form action='{EXPLAIN}'><label for='find'>{ui.FIND}</label>"
        f"<input id='find' name='name' required placeholder='{escape(ui.NAME)}'>"
        f"<input name='namespace' aria-label='{ui.NAMESPACE}' placeholder='{ui.NAMESPACE}' value='{escape(namespace)}'>"
        f"<button>{ui.EXPLANATION}</button></form>"
    )
    found = [r for r in rows if namespace in ("", r.namespace) and (not waiting or r.state in get.WAITS)]
    found.sort(key=lambda row: (row.state not in get.WAITS, row.created or now if row.state in get.WAITS else 0.0))
    head, *lines = get.lines("table", found[:MOST_ROWS], now)
    links = [{1: _link(row.namespace, row.name, row.kind)} for row in found]
    summed = page.sentences([get.in_short(Counter(row.state for row in found))])
    table = _table(head, lines, links) if lines else page.sentences([ui.NO_GANGS])
    more = [ui.more_gangs(count=left)] if (left := _beyond(found)) else []
    return Content(page.sentences(lead) + chosen + summed + table + page.sentences(more))


def explained(found: Explanation, more: str = "") -> Content:
    """What is known of one gang or pod, and a line ``more``."""
    action, sections = action_of((each.label, [Text(clean(line)) for line in each.lines]) for each in found.sections)
    title, why = found.head
    shown = [page.terms(label, [line.plain for line in lines], MOST_LINES) for label, lines in sections]
    if found.own is not None:
        shown += evidence_html(found.own, MOST_LINES)
    listed = f"<dl>{''.join(shown)}</dl>" if any(shown) else ""
    do, _, advice = action[0].plain.partition("  ") if action else ("", "", "")
    lines = f"<p><strong>{escape(do)}</strong> {escape(advice)}</p>" if action else ""
    lines += page.sentences([more]) if more else ""
    return Content(f"<section><p><strong>{_text(title.upper())}</strong> {_text(why)}</p>{lines}{listed}</section>")


def title_of(found: Explanation) -> tuple[str, str]:
    """The name of what an explanation is about, and what that is."""
    own = found.own
    if own is not None:
        return own.gang.key, f"{own.kind} · priority {own.priority}"
    name, _, about = found.title.partition("  ")
    return clean(name), clean(about)


def queues(rows: Sequence[QueueRow], lead: Sequence[str]) -> Content:
    """The tree of queues: a line for each resource of each."""
    head = ("QUEUE", "PENDING", "RESERVING", "ADMITTED", "RESOURCE", "USED", "RESERVED", "QUOTA", "BORROWED")
    lines: list[tuple[str, ...]] = []
    for row in rows:
        shown = entry(row)
        name = "· " * row.depth + row.name + (f" ({row.problem})" if row.problem else "")
        counts = [str(shown[key]) if row.is_queue else "" for key in ("pending", "reserving", "admitted")]
        uses = [
            (f"{use['resource']} of {use['flavor']}", *(use[key] for key in ("used", "reserved", "quota", "borrowed")))
            for use in shown["usage"]
        ]
        lines += [(name, *counts, *use) for use in uses or [("",) * 5]]
    table = _table(head, lines[:MOST_ROWS]) if lines else page.sentences([ui.NO_QUEUES])
    more = [ui.more_queues(count=left)] if (left := _beyond(lines)) else []
    return Content(page.sentences(lead) + table + page.sentences(more))


def evictions(record: Record, lead: Sequence[str]) -> Content:
    """What is on record, the newest first."""
    head, *lines = Record(record.lines[::-1][:MOST_ROWS], record.now).rows(MOST_NAMES)
    table = _table(head, lines) if lines else page.sentences([ui.NO_EVICTIONS])
    more = [ui.more_evictions(count=left)] if (left := _beyond(record.lines)) else []
    return Content(page.sentences(lead) + table + page.sentences(more))


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


def _link(namespace: str, name: str, kind: str) -> str:
    return f"{EXPLAIN}?{urlencode({'namespace': namespace, 'name': name, 'kind': kind})}"


def _beyond(found: Sequence[object]) -> int:
    """How many rows are not shown."""
    return max(0, len(found) - MOST_ROWS)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], links: Sequence[Mapping[int, str]] = ()) -> str:
    """Rows below their heads; ``links`` has for each row the addresses of its cells."""
    heads = "".join(f"<th scope='col'>{escape(each)}</th>" for each in head)
    rows = []
    for number, line in enumerate(lines):
        addresses = links[number] if links else {}
        cells = []
        for column, cell in enumerate(line):
            text = _text(cell)
            if column in addresses:
                text = f"<a href='{escape(addresses[column])}'>{text}</a>"
            short = " class='k'" if len(cell) < 12 else ""
            cells.append(f"<td{short} data-l='{escape(head[column].lower())}'>{text}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table class='u'><tr>{heads}</tr>\n" + "\n".join(rows) + "</table>"


def _text(text: str) -> str:
    return escape(clean(text))
