"""A simulated run as a table for people: the timeline, the nodes at the end, and what became of every pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from gangsched.cli.answers import first_clause
from gangsched.cli.pictures import MAX_NODES, Painter, Placed
from gangsched.cli.render import headline, make_console, most_rows, printed
from gangsched.cli.simulation import Simulation, clock, pods_of, records_of, summary_of, timeline, unknown_run_times
from gangsched.cli.trace_figures import Figures
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import moment
from gangsched.messages import pictures
from gangsched.messages.text import join_names, pluralize
from gangsched.model.errors import one_line
from gangsched.model.times import render_duration

#: On a terminal longer tables end in a line that says so; ``-o json`` has everything.
MAX_ROWS = 400

#: The width of tables beside names: the other columns, and the space between.
_TIMELINE_WITHOUT_NAMES, _PODS_WITHOUT_NAMES = 40, 68
#: Columns of pods that narrower terminals go without: the input says the same.
_NARROW, _LEFT_OUT, _LEFT_OUT_WIDTH = 100, ("GANG", "PRIORITY", "ARRIVED"), 30
#: The column WHY has this width at least; longer reasons of pending pods are below the table, once each.
_WHY = 30
_NAMED = 3
#: Names never get fewer characters than this.
_NARROWEST = 16

_STYLES = {
    log.DECIDE: "bold",
    log.NOMINATE: "cyan",
    log.MARK: "yellow",
    log.DELETE: "red",
    log.EVICT: "red",
    log.GONE: "red",
    log.SUSPEND: "red",
    log.RESUME: "green",
    log.FAIL: "bold red",
    log.COMPLETE: "green",
    log.REJECT: "bold red",
    log.BIND: "green",
    log.RUN: "green",
    log.SUCCEED: "green",
}


def render(simulation: Simulation, console: Console | None = None) -> None:
    """Print the run."""
    trace = simulation.trace
    show = partial(_print, simulation=simulation) if trace is None else partial(_print_figures, figures=trace)
    printed(console or make_console(), show)


def _print(out: Console, simulation: Simulation) -> None:
    most = most_rows(out, MAX_ROWS)
    out.print(_timeline(simulation, out.width, most))
    out.print()
    out.print(headline("nodes at the end"))
    painter = Painter(records_of(simulation), most_nodes=most_rows(out, MAX_NODES))
    end = moment(simulation.history, len(simulation.history))
    nodes = painter.nodes(Placed(end.nodes, list(end.pods.values())), out.width // 4)
    out.print(Padding(nodes, (0, 0, 0, 2), expand=False))
    out.print()
    out.print(headline("pods"))
    found = pods_of(simulation)
    out.print(_pods(found, out.width, most))
    out.print()
    if pending := _pending(found):
        out.print(Padding(Group(*pending, ""), (0, 0, 0, 2), expand=False))
    for line in _summary(summary_of(simulation)):
        out.print(line)
    for said in unknown_run_times(simulation):
        out.print(Text(said, style="dim"))


def _timeline(simulation: Simulation, width: int, most: int) -> Table:
    whole, folded = {"no_wrap": True}, {"overflow": "fold"}
    time = {**whole, "style": "dim", "justify": "right"}
    table = _table({"TIME": time, "WHO": whole, "WHAT": whole, "OBJECT": folded, "DETAIL": folded})
    told = timeline(simulation)
    half = max(_NARROWEST, (width - _TIMELINE_WITHOUT_NAMES) // 2)
    for each in told[:most]:
        table.add_row(
            clock(each.at_seconds),
            each.actor,
            Text(each.what, style=_STYLES.get(each.verb, "") if each.verb == each.what else "bold red"),
            Text(_broken(each.object, half)),
            Text(_broken(each.detail, half)),
        )
    if len(told) > most:
        table.add_row("…", "", "", f"{len(told) - most} more (-o json has all)", "")
    return table


def _table(columns: Mapping[str, Mapping[str, Any]]) -> Table:
    """An empty table with these columns, as rich knows them."""
    made = (Column(title, **how) for title, how in columns.items())
    return Table(*made, box=None, pad_edge=False, padding=(0, 2, 0, 0))


def _broken(text: str, width: int) -> str:
    """Words longer than ``width`` go on in a new line, after a separator if there is one in the half before."""
    lines = []
    for word in text.split(" "):
        rest = word
        while len(rest) > width:
            cut = max(rest.rfind(separator, width // 2, width) for separator in "/-.,") + 1 or width
            lines.append(rest[:cut] + "\n")
            rest = rest[cut:]
        lines.append(rest + " ")
    return "".join(lines).rstrip()


def _shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Names of which the longer ones lack something in the middle: what tells them apart is mostly at their ends. Names
    that would then look alike stay as they are.
    """
    whole = dict.fromkeys(names)
    head = width // 3
    short = {n: n if len(n) <= width else f"{n[:head]}…{n[head + 1 - width :]}" for n in whole}
    return short if len(set(short.values())) == len(whole) else {n: n for n in whole}


def _cap(longest: Sequence[int], room: int) -> int:
    """How long names may be so that columns of these lengths have room beside each other."""
    return next((cap for cap in range(room, _NARROWEST, -1) if sum(min(n, cap) for n in longest) <= room), _NARROWEST)


def _pods(pods: dict[str, dict[str, Any]], width: int, most: int) -> Table:
    titles = ("POD", "GANG", "PRIORITY", "PHASE", "NODE", "ARRIVED", "BOUND", "ENDED")
    narrow = width < _NARROW
    kept = [n for n, title in enumerate(titles) if not (narrow and title in _LEFT_OUT)]
    kinds = {titles[n]: {"no_wrap": True, "justify": "right" if titles[n] == "PRIORITY" else "left"} for n in kept}
    table = _table(kinds | {"WHY": {"overflow": "fold", "style": "dim", "min_width": _why_width(pods)}})
    shown = list(pods.items())[:most]
    columns = [
        {one_line(key) for key, _ in shown},
        {one_line(_name(pod["gang"])) for _, pod in shown},
        {one_line(pod["node"] or "") for _, pod in shown},
        {one_line(_name(pod["preemptedBy"])) for _, pod in shown},
    ]
    cap = _cap(
        [max(map(len, names), default=0) for names in columns], width - _PODS_WITHOUT_NAMES + narrow * _LEFT_OUT_WIDTH
    )
    key_of, gang_of, node_of, preemptor_of = (_shortened(sorted(names), cap) for names in columns)
    for key, pod in shown:
        preemptor = preemptor_of[one_line(_name(pod["preemptedBy"]))]
        cells = (
            Text(key_of[one_line(key)]),
            Text(gang_of[one_line(_name(pod["gang"]))]),
            str(pod["priority"]),
            "Terminating" if pod["terminating"] else pod["phase"],
            Text(node_of[one_line(pod["node"] or "")]),
            *("" if pod[field] is None else clock(pod[field]) for field in ("arrivedAt", "boundAt", "endedAt")),
        )
        table.add_row(
            *(cells[n] for n in kept),
            Text(f"for {preemptor}" if preemptor else first_clause(one_line(pod["message"] or _drained(pod)), _WHY)),
        )
    if len(pods) > most:
        table.add_row(f"… {len(pods) - most} more (-o json has all)")
    return table


def _why_width(pods: dict[str, dict[str, Any]]) -> int:
    """The width that the column WHY needs."""
    return min(_WHY, max((len(pod["message"] or "") for pod in pods.values()), default=0))


def _pending(pods: dict[str, dict[str, Any]]) -> list[Text]:
    """Why pods are still pending at the end, whole: a line for all that wait for the same reason."""
    alike: dict[str, list[str]] = {}
    for key, pod in pods.items():
        if pod["message"] and pod["phase"] == "Pending":
            alike.setdefault(one_line(pod["message"]), []).append(one_line(key))
    lines = []
    for message, keys in alike.items():
        if len(message) > _WHY:
            whose = keys[0] if len(keys) == 1 else f"{pluralize(len(keys), 'pod')} ({join_names(keys, _NAMED)})"
            lines.append(Text(f"{whose}: {message}"))
    return lines


def _drained(pod: dict[str, Any]) -> str:
    return f"{pod['drainedBy']} is drained" if "drainedBy" in pod else ""


def _name(key: str | None) -> str:
    return (key or "").rpartition("/")[2]


def _summary(summary: dict[str, Any]) -> list[Text]:
    counts = ", ".join(f"{number} {phase.lower()}" for phase, number in summary["pods"].items())
    after = "nothing more could happen" if summary["ended"] == "quiet" else f"played until {clock(summary['until'])}"
    drained = f", {summary['drained']} drained" if "drained" in summary else ""
    text = f"{counts or 'no pods'}; {summary['binds']} bound, {summary['preempted']} preempted{drained}; "
    return [Text(f"{text}last change at {clock(summary['seconds'])}, {after}", style="bold")]


def _print_figures(out: Console, figures: Figures) -> None:
    """Print what came of a trace."""
    columns = (pictures.PRIORITY, pictures.JOBS, pictures.NEVER_STARTED, pictures.MEAN_WAIT, pictures.MEDIAN)
    table = _table({title: {"justify": "right", "no_wrap": True} for title in (*columns, pictures.MOST_WAITS)})
    for priority, each in figures.waits.items():
        times = (each.mean_seconds, each.median_seconds, each.p95_seconds)
        table.add_row(priority, str(each.jobs), str(each.never_started), *map(render_duration, map(round, times)))
    out.print(table)
    out.print()
    span, share = render_duration(round(figures.makespan_seconds)), f"{figures.gpu_allocation:.1%}"
    out.print(Text(pictures.trace_took(span=span, share=share)))
    pods, jobs = pluralize(figures.evicted_pods, "pod"), pluralize(figures.interrupted_jobs, "job")
    lost, done = f"{figures.gpu_hours_lost:.1f}", f"{figures.gpu_hours_done:.1f}"
    out.print(Text(pictures.trace_cost(pods=pods, jobs=jobs, lost=lost, done=done)))
