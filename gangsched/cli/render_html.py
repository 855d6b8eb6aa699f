"""A simulated run as one HTML page: a lane per node in SVG, below it the timeline. No scripts, nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from gangsched.cli.pictures import amount, quantity, scarcest
from gangsched.cli.simulation import Simulation, clock, records_of, summary_of, timeline
from gangsched.cluster.sim import history as log
from gangsched.model.records import SINGLE, GangId, Node, Pod

_LEFT, _WIDTH, _LANE, _GAP, _TOP = 150, 1000, 56, 14, 30
#: Width of a label of the axis, and characters of a name beside a lane.
_LABEL, _NAME = 60, 20
_HUES = (205, 28, 140, 275, 350, 60, 175, 315, 100, 240)

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --dim: #66707d; --paper: #fbfbfc; --lane: #eceff3; --line: #d5dae1 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --dim: #97a1ae; --paper: #14181e; --lane: #1f252d; --line: #333c47 } }
body { margin: 2.5rem auto; max-width: 1180px; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0 0 .2rem } h2 { font-size: 1.05rem; margin: 2rem 0 .6rem }
p { margin: .2rem 0 } .dim { color: var(--dim) } .bad { color: #d33 }
svg { width: 100%; height: auto; margin-top: 1rem } svg text { font: 12px system-ui, sans-serif; fill: var(--ink) }
svg .axis { fill: var(--dim); font-size: 11px } svg .lane { fill: var(--lane) } svg .tick { stroke: var(--line) }
svg .leaving { fill-opacity: .35; stroke-dasharray: 3 2 }
table { border-collapse: collapse; width: 100%; font-size: 13px } th { text-align: left; color: var(--dim) }
th, td { padding: .18rem .8rem .18rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td:first-child { font-variant-numeric: tabular-nums; color: var(--dim); white-space: nowrap }
td { overflow-wrap: anywhere }
"""


class Stay(msgspec.Struct):
    """A pod on a node: from its binding to its end, all in seconds from the start. None = not within the run."""

    pod: Pod
    begin: float
    leaving: float | None = None
    end: float | None = None


def page(simulation: Simulation) -> str:
    """The whole page."""
    summary = summary_of(simulation)
    counts = ", ".join(f"{number} {phase.lower()}" for phase, number in summary["pods"].items())
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>gangsched simulate</title>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<meta name='viewport' content='width=device-width'>"
        f"<style>{_STYLE}</style></head><body>\n<h1>Simulated run</h1>\n"
        f"<p>{escape(counts or 'no pods')}; {summary['binds']} bound, {summary['preempted']} preempted; last change at"
        f" {clock(summary['seconds'])} of {clock(summary['until'])}.</p>\n"
        f"{_lanes(simulation, summary['seconds'])}\n<h2>What happened</h2>\n{_table(simulation)}\n</body></html>\n"
    )


# --------------------------------------------------------------------------------------------------------------- lanes


def stays(simulation: Simulation) -> list[Stay]:
    """Every pod that was on a node, in the order of arrival there."""
    out: dict[str, Stay] = {}
    for entry in simulation.history:
        if entry.kind != "Pod" or not entry.changed:
            continue
        pod = entry.record
        stay = out.get(entry.uid)
        if isinstance(pod, Pod) and pod.bound and stay is None:
            stay = out[entry.uid] = Stay(pod, entry.at_seconds)
        if stay is None:
            continue
        gone = pod is None and entry.verb not in (log.EVENT, log.DECIDE)
        if isinstance(pod, Pod) and pod.deleting_since is not None and stay.leaving is None:
            stay.leaving = entry.at_seconds
        if stay.end is None and (gone or (isinstance(pod, Pod) and pod.finished)):
            stay.end = entry.at_seconds
    return list(out.values())


def _lanes(simulation: Simulation, last: float) -> str:
    resource = scarcest(records_of(simulation))
    nodes: dict[str, Node] = {}
    for entry in simulation.history:
        if isinstance(entry.record, Node):
            nodes[entry.record.name] = entry.record
    known = stays(simulation)
    span = max(last * 1.12, 1.0)
    height = _TOP + len(nodes) * (_LANE + _GAP) + 10
    hues: dict[GangId, int] = {}
    for stay in known:
        hues.setdefault(stay.pod.gang, _HUES[len(hues) % len(_HUES)])
    parts = [f"<svg viewBox='0 0 {_LEFT + _WIDTH + 10} {height}' role='img' aria-label='pods on nodes over time'>"]
    parts += _axis(span, height)
    for row, name in enumerate(sorted(nodes)):
        top = _TOP + row * (_LANE + _GAP)
        total = dict(nodes[name].allocatable).get(resource, 0)
        parts.append(f"<rect class='lane' x='{_LEFT}' y='{top}' width='{_WIDTH}' height='{_LANE}' rx='4'/>")
        shown = name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[1 - _NAME // 2 :]}"
        parts.append(f"<text x='0' y='{top + 24}'><title>{escape(name)}</title>{escape(shown)}</text>")
        parts.append(f"<text class='axis' x='0' y='{top + 40}'>{escape(quantity(resource, total))}</text>")
        parts += _boxes([s for s in known if s.pod.node == name], top, total, resource, span, hues)
    parts.append("</svg>")
    return "\n".join(parts)


def _axis(span: float, height: int) -> Iterable[str]:
    step = next(s for s in (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600, 10**5, 10**9) if span / s <= 12)
    for i in range(int(span / step) + 1):
        x = _LEFT + i * step / span * _WIDTH
        anchor = " text-anchor='end'" if x > _LEFT + _WIDTH - _LABEL else ""
        yield f"<line class='tick' x1='{x:.1f}' y1='20' x2='{x:.1f}' y2='{height - 6}'/>"
        yield f"<text class='axis' x='{x:.1f}' y='12'{anchor}>{clock(i * step)}</text>"


def _boxes(
    known: Sequence[Stay], top: int, total: int, resource: str, span: float, hues: dict[GangId, int]
) -> Iterable[str]:
    """The pods of one node: as high as their share of it, stacked where they overlap in time."""
    placed: list[tuple[float, float, float, float]] = []
    for stay in known:
        end = span if stay.end is None else stay.end
        share = min(1.0, max(amount(stay.pod, resource) / total, 0.02)) if total else 1.0
        floor = 0.0
        for begin, until, low, high in sorted(placed, key=lambda b: b[2]):
            if begin < end and stay.begin < until and low < floor + share and floor < high:
                floor = high
        placed.append((stay.begin, end, floor, floor + share))
        hue = hues[stay.pod.gang]
        y = top + _LANE * (1 - min(1.0, floor + share))
        tall = max(2.0, _LANE * share - 1)
        until = end if stay.leaving is None else stay.leaving
        title = f"<title>{escape(_tooltip(stay, resource))}</title>"
        for begin, finish, kind in ((stay.begin, until, "running"), (until, end, "leaving")):
            if finish > begin:
                x, wide = _LEFT + begin / span * _WIDTH, (finish - begin) / span * _WIDTH
                yield (
                    f"<rect class='{kind}' x='{x:.1f}' y='{y:.1f}' width='{wide:.1f}' height='{tall:.1f}' rx='3'"
                    f" fill='hsl({hue} 62% 62%)' stroke='hsl({hue} 55% 42%)'>{title}</rect>"
                )
        wide = (end - stay.begin) / span * _WIDTH
        room = int(wide / 7)
        if room > 4 and tall > 13:
            name = stay.pod.name if len(stay.pod.name) <= room else stay.pod.name[: room - 1] + "…"
            x = _LEFT + stay.begin / span * _WIDTH + 5
            yield f"<text x='{x:.1f}' y='{y + tall / 2 + 4:.1f}' pointer-events='none'>{escape(name)}</text>"


def _tooltip(stay: Stay, resource: str) -> str:
    pod = stay.pod
    gang = "" if pod.gang.family == SINGLE else f"\ngang {pod.gang.key}"
    times = f"\nbound {clock(stay.begin)}"
    times += "" if stay.leaving is None else f"\nleaving {clock(stay.leaving)}"
    times += "" if stay.end is None else f"\nended {clock(stay.end)}"
    return f"{pod.key}{gang}\npriority {pod.priority}\n{quantity(resource, amount(pod, resource))}{times}"


# --------------------------------------------------------------------------------------------------------------- table


def _table(simulation: Simulation) -> str:
    rows = [
        f"<tr><td>{clock(each.at_seconds)}</td><td>{escape(each.actor)}</td><td>{escape(each.what)}</td>"
        f"<td>{escape(each.object)}</td><td>{escape(each.detail)}</td></tr>"
        for each in timeline(simulation)
    ]
    head = "<tr><th>time</th><th>who</th><th>what</th><th>object</th><th>detail</th></tr>"
    return f"<table>{head}\n{chr(10).join(rows)}\n</table>"
