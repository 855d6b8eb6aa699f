"""A simulated run as one HTML page: a lane per node over time, below it what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec

from gangsched.cli import page as pages
from gangsched.cli.html_text import escape
from gangsched.cli.page import Box, Row
from gangsched.cli.pictures import amount, quantity, scarcest
from gangsched.cli.simulation import Happened, Simulation, clock, records_of, summary_of, timeline, unknown_run_times
from gangsched.cluster.sim import history as log
from gangsched.messages import pictures
from gangsched.messages.text import join_names, pluralize
from gangsched.model.records import SINGLE, GangId, Node, Pod

#: Stays that begin and end within so many seconds of each other are the same where pods are drawn together.
_SAME = 0.1
#: Things of one sort that happen within so many seconds are one line, from so many things on.
_NEAR, _MANY = 0.05, 4
#: So many lines and names at most.
_ROWS, _NAMES = 400, 3
#: A box that is lower than this share of its lane has no room for a name.
_READABLE = 0.3
#: So many times are written above the lanes.
_TICKS = 6


class Stay(msgspec.Struct):
    """A pod on a node: from its binding to its end, all in seconds from the start. None = not within the run."""

    pod: Pod
    begin: float
    leaving: float | None = None
    end: float | None = None


def page(simulation: Simulation, of: str) -> str:
    """The whole page about a run ``of`` something."""
    summary = summary_of(simulation)
    counts = ", ".join(f"{number} {phase.lower()}" for phase, number in summary["pods"].items())
    drawn = _Drawn(simulation, summary["seconds"])
    ran = pictures.ran(
        counts=counts or pictures.NO_PODS,
        binds=summary["binds"],
        preempted=summary["preempted"],
        at=clock(summary["seconds"]),
        until=clock(summary["until"]),
    )
    lead = [ran, pictures.drawn(resource=drawn.resource)]
    lead += unknown_run_times(simulation)
    nodes = pages.fitting(drawn.nodes)
    body = f"{nodes}\n<h2>{escape(pictures.HAPPENED)}</h2>\n{_table(timeline(simulation))}"
    kinds = (pages.RUNS, pages.TERMINATES)
    return pages.page(pictures.RUN, of, pages.content(lead, body, [gang.key for gang in drawn.gangs], kinds))


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


class _Drawn:
    """The nodes of a run as lanes."""

    def __init__(self, simulation: Simulation, last: float) -> None:
        self.resource = scarcest(records_of(simulation))
        self._span = max(last * 1.12, 1.0)
        self._nodes: dict[str, Node] = {}
        for entry in simulation.history:
            if isinstance(entry.record, Node):
                self._nodes[entry.record.name] = entry.record
        self._on: dict[str, list[Stay]] = {}
        known = stays(simulation)
        for stay in known:
            self._on.setdefault(stay.pod.node, []).append(stay)
        ganged = [stay for stay in known if stay.pod.gang.family != SINGLE]
        found = [stay.pod.gang for stay in sorted(ganged, key=lambda stay: stay.begin <= 0)]  # those that come first
        self.gangs = list(dict.fromkeys(found))
        self._number: Mapping[GangId, int] = {gang: n for n, gang in enumerate(self.gangs)}

    def nodes(self, level: int) -> str:
        """All of them by rack, with so much of each."""

        def title(name: str, nodes: Sequence[Node]) -> str:
            return pictures.rack_of_run(name=name, nodes=pluralize(len(nodes), "node"))

        found = pages.racked(self._nodes.values(), level, partial(self._row, level=level), title)
        return pages.nodes_html(found, 1, "t", self._axis())

    def _axis(self) -> str:
        step = next(s for s in _STEPS if self._span / s <= _TICKS)
        times = [n * step for n in range(int(self._span / step) + 1)]
        marks = "".join(f"<i style='left:{at / self._span * 100:.4g}%'>{_short(at)}</i>" for at in times)
        return f"<div class='n x'><b></b><s>{marks}</s><em></em></div>"

    def _row(self, nodes: Sequence[Node], level: int) -> Row:
        names = [node.name for node in nodes]
        known = [stay for name in names for stay in self._on.get(name, ())]
        room = sum(dict(node.allocatable).get(self.resource, 0) for node in nodes)
        numbers = {self._number[stay.pod.gang] for stay in known if stay.pod.gang in self._number}
        changes = any(stay.begin > 0 or stay.leaving is not None or stay.end is not None for stay in known)
        boxes = tuple(self._boxes(known, room, level))
        return Row(names[0], quantity(self.resource, room), (boxes,), changes, frozenset(numbers))

    def _boxes(self, known: Sequence[Stay], room: int, level: int) -> Iterator[Box]:
        """As high as their share of the node, stacked where they overlap in time."""
        placed: list[tuple[float, float, float, float]] = []
        for same in _together(known, level):
            stay = same[0]
            end = self._span if stay.end is None else stay.end
            asked = sum(amount(each.pod, self.resource) for each in same)
            share = min(1.0, max(asked / room, 0.02)) if room else 1.0
            floor = 0.0
            for begin, until, low, high in sorted(placed, key=lambda b: b[2]):
                if begin < end and stay.begin < until and low < floor + share and floor < high:
                    floor = high
            placed.append((stay.begin, end, floor, floor + share))
            until = end if stay.leaving is None else stay.leaving
            number = self._number.get(stay.pod.gang)
            for begin, finish, kind in ((stay.begin, until, pages.RUNS), (until, end, pages.TERMINATES)):
                if finish > begin:
                    label = _label(same) if kind == pages.RUNS and share >= _READABLE else ""
                    left, width = begin / self._span, (finish - begin) / self._span
                    title = _tooltip(same, self.resource)
                    yield Box(left, width, kind, number, label, title, min(floor, 0.98), share * 0.97)


_STEPS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 10**6, 10**9)


def _short(seconds: float) -> str:
    return clock(seconds) if seconds % 1 else clock(seconds).partition(".")[0]


def _together(known: Sequence[Stay], level: int) -> Iterator[list[Stay]]:
    """Each stay, or those of a gang that begin and end together."""
    if level == pages.EVERY_POD:
        yield from ([stay] for stay in known)
        return

    def appearance(stay: Stay) -> tuple[object, ...]:
        times = (stay.begin, stay.leaving, stay.end)
        return (*(None if at is None else round(at / _SAME) for at in times), stay.pod.gang if _ganged(stay) else "")

    groups: dict[tuple[object, ...], list[Stay]] = {}
    for stay in known:
        groups.setdefault(appearance(stay), []).append(stay)
    yield from groups.values()


def _ganged(stay: Stay) -> bool:
    return stay.pod.gang.family != SINGLE


def _label(same: Sequence[Stay]) -> str:
    pod = same[0].pod
    if len(same) == 1:
        return pod.name
    return pictures.together(name=pod.gang.name if _ganged(same[0]) else pictures.SINGLE_PODS, pods=len(same))


def _tooltip(same: Sequence[Stay], resource: str) -> str:
    stay = same[0]
    pod = stay.pod
    name = pod.key if len(same) == 1 else _label(same)
    gang = "" if pod.gang.family == SINGLE else f"\ngang {pod.gang.key}"
    times = f"\nbound {clock(stay.begin)}"
    times += "" if stay.leaving is None else f"\nleaving {clock(stay.leaving)}"
    times += "" if stay.end is None else f"\nended {clock(stay.end)}"
    asked = sum(amount(each.pod, resource) for each in same)
    return f"{name}{gang}\npriority {pod.priority}\n{quantity(resource, asked)}{times}"


# --------------------------------------------------------------------------------------------------------------- table


def _table(told: Sequence[Happened]) -> str:
    lines = list(_lines(told))
    while len(lines) > _ROWS or sum(map(len, lines)) > pages.TEXT_BYTES:
        lines = lines[: min(_ROWS, len(lines) * 9 // 10)]
    head = "<tr><th>time</th><th>who</th><th>what</th><th>object</th><th>detail</th></tr>"
    more = len(list(_lines(told))) - len(lines)
    left_out = f"<p>{escape(pictures.more_rows(count=more))}</p>" if more else ""
    return f"<table>{head}\n{chr(10).join(lines)}\n</table>{left_out}"


def _lines(told: Sequence[Happened]) -> Iterator[str]:
    """A line each, or one for many things of one sort that happen at one time."""

    def sort(each: Happened) -> tuple[int, str, str]:
        return round(each.at_seconds / _NEAR), each.actor, each.what

    for _, found in groupby(told, sort):
        same = list(found)
        if len(same) < _MANY:
            yield from (_line(each, each.object, each.detail) for each in same)
            continue
        details = {each.detail for each in same}
        yield _line(
            same[0], join_names([each.object for each in same], _NAMES), details.pop() if len(details) == 1 else ""
        )


def _line(each: Happened, what: str, detail: str) -> str:
    cells = (clock(each.at_seconds), each.actor, each.what, what, detail)
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
