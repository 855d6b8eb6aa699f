"""A page about nodes: racks with a line per node, what its bars mean, and what is shown. No scripts; nothing is loaded.

A page stays below the size of a mail. If it would be larger, pods of a gang are drawn together and equal nodes once. If
that is not enough, each rack is drawn as one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gangsched.cli.html_text import escape
from gangsched.cli.pictures import racks as by_rack
from gangsched.messages import pictures
from gangsched.messages.text import pluralize
from gangsched.model.records import Node

#: The nodes of a page are no longer than this, and neither is the rest, in bytes.
NODES_BYTES, TEXT_BYTES = 180_000, 90_000
#: A box takes so much at least.
_BOX_BYTES = 50
#: How much is drawn: every pod; pods of a gang together, and nodes that are alike once; a rack as one node.
EVERY_POD, ALIKE, RACKS = LEVELS = range(3)
#: So many gangs have a colour of their own, and as many can be chosen.
HUES = (205, 28, 140, 275, 350, 60, 175, 315, 100, 240)
_CHOICES = 12
#: More nodes than this are not unfolded where nothing changes.
_UNFOLDED = 200

RUNS, NEW, LEAVES, TERMINATES = "r", "w", "l", "t"

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --dim: #5b6572; --paper: #fbfbfc; --lane: #e6e9ee; --line: #d5dae1 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --dim: #97a1ae; --paper: #14181e; --lane: #262d36; --line: #333c47 } }
* { box-sizing: border-box }
body { margin: 1.5rem auto; max-width: 1180px; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0 0 .2rem } h2 { font-size: 1.05rem; margin: 2rem 0 .6rem }
h3 { font-size: 1rem; margin: 0 } p { margin: .2rem 0 } small, em, dt, .dim { color: var(--dim); font-style: normal }
small { font-weight: 400; font-size: .85em }
section { border-left: 4px solid var(--line); padding: .1rem 0 .1rem .8rem; margin: .8rem 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; margin: .2rem 0; font-size: 13px }
dd { margin: 0; overflow-wrap: anywhere } section p, summary { overflow-wrap: anywhere }
fieldset { border: 0; padding: 0; margin: .6rem 0; display: flex; flex-wrap: wrap; gap: .2rem .9rem; font-size: 13px }
legend { float: left; color: var(--dim) } label { overflow-wrap: anywhere }
summary { cursor: pointer; margin: .8rem 0 .3rem; font-weight: 600; font-size: 14px }
.n { display: grid; grid-template-columns: 11rem repeat(var(--bars), 1fr) 9rem; gap: .6rem; align-items: center;
  margin: 3px 0; font-size: 13px }
.n b { font-weight: 500; overflow-wrap: anywhere } .n em { font-size: 12px }
.n s { position: relative; display: block; height: 20px; background: var(--lane); border-radius: 4px;
  overflow: hidden; text-decoration: none }
.t .n s { height: 46px } .n.x s { height: 18px; background: none } .n.x { font-size: 12px }
.n i { position: absolute; top: 0; height: 100%; overflow: hidden; white-space: nowrap; font: 11px/20px system-ui;
  padding: 0 3px; border-radius: 3px; color: #10151b }
.t .n i { top: auto; line-height: 13px }
.q { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: 13px; align-items: center }
.q i { display: inline-block; width: 26px; height: 14px; vertical-align: -2px; margin-right: .3rem; border-radius: 3px }
.n i, .q i { background: hsl(var(--h) 62% 66%); border: 1px solid hsl(var(--h) 45% 42%) }
i.w { box-shadow: inset 0 0 0 2px #10151b } .n i.t, .q i.t { border-style: dashed }
.n i.l, .n i.t, .q i.l, .q i.t { background: repeating-linear-gradient(135deg,
  hsl(var(--h) 62% 80%) 0 5px, hsl(var(--h) 40% 62%) 5px 8px) }
.n.x i { color: var(--dim); background: none; border: 0 } .q i.f { background: var(--lane) }
i.p { --h: 0; filter: grayscale(1) }
table { border-collapse: collapse; width: 100%; font-size: 13px } th { text-align: left; color: var(--dim) }
th, td { padding: .18rem .8rem .18rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td:first-child { font-variant-numeric: tabular-nums; color: var(--dim); white-space: nowrap }
td { overflow-wrap: anywhere } td:nth-child(2), td:nth-child(3) { overflow-wrap: normal }
@media (max-width: 700px) {
  body { padding: 0 .6rem } .n { grid-template-columns: 1fr 1fr; gap: 1px .6rem; margin: 8px 0 }
  .n b { order: -2 } .n em { order: -1; text-align: right } .t .n s { grid-column: 1 / 3 }
  tr { display: block; padding: .3rem 0; border-bottom: 1px solid var(--line) } tr:first-child { display: none }
  td { display: inline; border: 0; padding: 0 .4rem 0 0 } td:nth-child(n+4) { display: block }
  dl { grid-template-columns: 1fr } }
"""


class Box(NamedTuple):
    """A pod, or several, in a bar: where, in shares of it; of which kind and hue (None: no gang); in which words."""

    left: float
    width: float
    kind: str
    hue: int | None
    label: str
    title: str
    floor: float = 0.0
    height: float = 1.0
    link: str = ""


class Row(NamedTuple):
    """A node, or several which are alike, with its bars; ``gangs`` are the numbers of those that are on it. Links lead
    to the ``anchor``.
    """

    name: str
    note: str
    bars: tuple[tuple[Box, ...], ...]
    changes: bool
    gangs: frozenset[int]
    anchor: str = ""


class Rack(NamedTuple):
    """Lines of nodes under a title."""

    title: str
    rows: Sequence[Row]


def fitting(make: Callable[[int], str], most: int = NODES_BYTES, boxes: int = 0) -> str:
    """The text of the first of the levels that is not too long, or else of the last. With every pod there are so many
    ``boxes``: where they alone are too long, the others are not drawn to find that out.
    """
    text = ""
    for level in LEVELS[1 if boxes * _BOX_BYTES > most else 0 :]:
        text = make(level)
        if len(text.encode()) <= most:
            break
    return text


def alike(rows: Iterable[Row]) -> list[Row]:
    """Nodes that look the same, once, in the place of the first."""
    same: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        look = tuple(tuple(box._replace(title="", link="") for box in bar) for bar in row.bars)
        same.setdefault((row.note, row.changes, look), []).append(row)
    return [
        found[0]
        if len(found) == 1
        else found[0]._replace(
            name=pictures.alike(first=found[0].name, last=found[-1].name, nodes=pluralize(len(found), "node"))
        )
        for found in same.values()
    ]


def racked(
    nodes: Iterable[Node],
    level: int,
    row: Callable[[Sequence[Node]], Row],
    title: Callable[[str, Sequence[Node]], str],
) -> list[Rack]:
    """The nodes by rack, with so much of each: ``row`` draws some of them as one, ``title`` names a rack."""
    found = []
    for name, some in by_rack(nodes):
        if level == RACKS:
            rows = [row(some)._replace(name=pictures.whole_rack(nodes=pluralize(len(some), "node")))]
        else:
            rows = [row([node]) for node in some]
        found.append(Rack(title(name or pictures.NO_RACK, some), rows if level == EVERY_POD else alike(rows)))
    return found


def nodes_html(racks: Sequence[Rack], bars: int, style: str = "", axis: str = "") -> str:
    """The racks, of which each node has so many bars, unfolded where something changes or there are few nodes."""
    few = sum(len(rack.rows) for rack in racks) <= _UNFOLDED
    parts = []
    for rack in racks:
        shown = " open" if few or any(row.changes for row in rack.rows) else ""
        rows = "\n".join(map(_row, rack.rows))
        parts.append(f"<details{shown}><summary>{escape(rack.title)}</summary>\n{axis}\n{rows}\n</details>")
    return f"<div style='--bars: {bars}'><div class='{style}'>\n" + "\n".join(parts) + "\n</div></div>"


def _row(row: Row) -> str:
    marks = " ".join(["n", *(["c"] if row.changes else []), *(f"g{n}" for n in sorted(row.gangs) if n < _CHOICES)])
    bars = "".join(f"<s>{''.join(map(_box, bar))}</s>" for bar in row.bars)
    anchor = f" id='{escape(row.anchor)}'" if row.anchor else ""
    return f"<div class='{marks}'{anchor}><b>{escape(row.name)}</b>{bars}<em>{escape(row.note)}</em></div>"


def _box(box: Box) -> str:
    hue = "p" if box.hue is None else f"h{box.hue % len(HUES)}"
    tall = "" if box.height >= 1 else f";bottom:{box.floor * 100:.3g}%;height:{box.height * 100:.3g}%"
    where = f"left:{box.left * 100:.4g}%;width:{box.width * 100:.4g}%{tall}"
    text = f"<i class='{box.kind} {hue}' style='{where}' title='{escape(box.title)}'>{escape(box.label)}</i>"
    return f"<a href='{escape(box.link)}'>{text}</a>" if box.link else text


class Content(NamedTuple):
    """The contents of a page below its title, and its rules of style."""

    body: str
    style: str = ""


def content(
    lead: Sequence[str], body: str, gangs: Sequence[str], kinds: Sequence[str], links: Mapping[str, str] = {}
) -> Content:
    """Sentences, what bars mean, and ``body``; ``gangs`` by number, with ``links`` to their pages."""
    chosen = "".join(
        f"body:has(#f{n}:checked) .n:not(.{mark}):not(.x), body:has(#f{n}:checked) details:not(:has(.{mark}))"
        " { display: none }"
        for n, mark in [("c", "c"), *((str(n), f"g{n}") for n in range(min(len(gangs), _CHOICES)))]
    )
    return Content(f"{sentences(lead)}{_legend(kinds, gangs, links)}\n{_choices(gangs)}\n{body}", chosen)


def sentences(lines: Iterable[str]) -> str:
    """A paragraph for each."""
    return "".join(f"<p>{escape(line)}</p>\n" for line in lines)


def terms(label: str, lines: Sequence[str], most: int) -> str:
    """So many lines at most under a label, in a list of such."""
    more = [pictures.more_nodes(count=len(lines) - most)] if len(lines) > most else []
    return "".join(
        f"<dt>{escape(label) if n == 0 else ''}</dt><dd>{escape(line)}</dd>"
        for n, line in enumerate([*lines[:most], *more])
    )


#: The policy in a page that is a file: it loads nothing and runs nothing.
_ALONE = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"


def page(title: str, of: str, found: Content, *, head: str = _ALONE, above: str = "", style: str = "") -> str:
    """The whole page: a title, what it is ``of``, and what is in it; ``above`` its title is what all pages have."""
    hues = "".join(f".h{n} {{ --h: {hue} }}" for n, hue in enumerate(HUES))
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{escape(title)} {escape(of)}</title>"
        f"{head}<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{_STYLE}{style}{hues}{found.style}</style></head><body>\n"
        f"{above}<h1>{escape(title)} <small>{escape(of)}</small></h1>\n{found.body}\n</body></html>\n"
    )


_KINDS = {
    RUNS: pictures.LEGEND_RUNS,
    NEW: pictures.LEGEND_NEW,
    LEAVES: pictures.LEGEND_LEAVES,
    TERMINATES: pictures.LEGEND_TERMINATES,
}


def _legend(kinds: Sequence[str], gangs: Sequence[str], links: Mapping[str, str]) -> str:
    items = [f"<span><i class='{kind} h0'></i>{escape(_KINDS[kind])}</span>" for kind in kinds]
    items.append(f"<span><i class='f p'></i>{escape(pictures.LEGEND_FREE)}</span>")
    for number, name in enumerate(gangs[:_CHOICES]):
        text = f"<a href='{escape(links[name])}'>{escape(name)}</a>" if name in links else escape(name)
        items.append(f"<span><i class='h{number % len(HUES)}'></i>{text}</span>")
    items.append(f"<span><i class='p'></i>{escape(pictures.SINGLE_PODS)}</span>")
    return f"<div class='q'>{''.join(items)}</div>"


def _choices(gangs: Sequence[str]) -> str:
    names = [("a", pictures.ALL), ("c", pictures.ONLY_CHANGED), *((str(n), g) for n, g in enumerate(gangs[:_CHOICES]))]
    inputs = "".join(
        f"<span><input type='radio' name='f' id='f{key}'{' checked' if key == 'a' else ''}>"
        f"<label for='f{key}'>{escape(name)}</label></span>"
        for key, name in names
    )
    return f"<fieldset><legend>{escape(pictures.FILTER)}</legend>{inputs}</fieldset>"
