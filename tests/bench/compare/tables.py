"""The tables and the picture that are made of the record, for the terminal and for the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench.compare.offline import THIS
from tests.bench.compare.record import Measured, Record
from tests.bench.live import cells
from tests.bench.live.backlog import Result
from tests.bench.live.candidates import FLOOR, KUBE, OURS
from tests.bench.live.cells import Cell
from tests.bench.publish import svg
from tests.bench.publish.tables import Table
from tests.pages import text_of

NEWEST, BEFORE = "1.37", "1.36"
THIRTY = cells.HARM[0].name
SUFFICES = cells.HARM[1:]
#: The cells on the page for readers, who need no more to choose.
SHOWN = (*cells.BACKLOG[1:], *cells.PREEMPTION)
#: What was not measured by `make compare`: other schedulers, and single runs made by hand.
QUOTED: dict[str, Any] = json.loads(text_of("docs/internals/rivals.json"))
_BY_HAND = QUOTED["kube-scheduler 1.37.2"]
PLANNED, RULES, QUOTE = "planned", "by its rules", "quoted"


def thirty(record: Record, *, others: bool = True) -> Table:
    """A gang of 30 comes to a cluster that is full of five gangs of 20: who evicts what."""
    rows = [_of_thirty(record, THIS, NEWEST, OURS)]
    rows += [_of_thirty(record, f"kube-scheduler {v}", v, KUBE) for v in (NEWEST, BEFORE)]
    for who, (pods, gangs) in QUOTED["thirty into five gangs of twenty"].items() if others else ():
        rows.append([who, str(pods), gangs, "", "", "", f"{QUOTE}, {QUOTED['measured']}"])
    header = ["", "pods evicted", "of gangs", "first / last pod, s", "CPU s", "RSS MB", "how"]
    return Table(header, rows)


def _of_thirty(record: Record, who: str, version: str, candidate: str) -> list[str]:
    measured = record.of(version, THIRTY).get(candidate)
    if measured is None:
        pods, how = record.cells[THIRTY][who], PLANNED if who == THIS else RULES
        return [who, str(pods.evicted), _gangs(pods.evicted, pods.broken), "", "", "", f"{how}, {record.rules_day}"]
    r = measured.result
    times = f"{_seconds(r, r.first_bind)} / {_seconds(r, r.last_bind)}"
    kept = [f"{r.cpu_seconds:.1f}", f"{r.peak_mb:.0f}"]
    return [who, str(r.removed), _gangs(r.removed, r.broken), times, *kept, _how(measured)]


def _gangs(evicted: int, broken: int) -> str:
    """Twenty pods to a gang; a broken one was not evicted whole."""
    size = cells.HARM[0].victim_gang
    whole = evicted // size if not broken else 0
    return f"{whole} whole" if not broken else f"{broken} broken"


def _how(measured: Measured) -> str:
    return f"{measured.kubernetes}, {measured.day}"


def one_victim(record: Record) -> Table:
    """Half of the nodes are free, and a gang comes that is one member larger than that half."""
    rows = []
    for cell in SUFFICES:
        rules = record.cells[cell.name]
        rows.append(
            [
                f"{cell.nodes:,} nodes",
                _removed(record, NEWEST, cell.name, OURS) or f"{rules[THIS].evicted}, {PLANNED}",
                _removed(record, NEWEST, cell.name, KUBE) or _quoted_victims(cell.nodes),
                str(rules[f"kube-scheduler {NEWEST}"].evicted),
                _removed(record, BEFORE, cell.name, KUBE) or f"{rules[f'kube-scheduler {BEFORE}'].evicted}, {RULES}",
            ]
        )
    header = ["", "this", f"kube-scheduler {NEWEST}", "by its rules", f"kube-scheduler {BEFORE}"]
    return Table(header, rows)


def _removed(record: Record, version: str, cell: str, candidate: str) -> str:
    found = record.of(version, cell).get(candidate)
    return f"{found.result.removed}, {found.day}" if found is not None else ""


def _quoted_victims(nodes: int) -> str:
    known = _BY_HAND["one victim suffices"].get(f"{nodes} nodes")
    return f"{known[1]}, {QUOTE}, {_BY_HAND['measured']}" if known else "not run"


def beside(record: Record, version: str = NEWEST, of: Sequence[Cell] = cells.ALL) -> Table:
    """These cells as far as they were measured on this version, or quoted."""
    rows = []
    for cell in (each.name for each in of):
        found = record.of(version, cell)
        if OURS in found and KUBE in found:
            rows.append(_beside(cell, found))
        elif version == NEWEST and cell in _BY_HAND["cells"]:
            rows.append(_quoted_beside(cell))
    header = [
        f"this / kube-scheduler {version}",
        "pods evicted",
        "gangs broken",
        "first pod, s",
        "last pod, s",
        "bare client, s",
        "CPU s",
        "RSS MB",
        "when",
    ]
    return Table(header, rows)


def _beside(cell: str, found: dict[str, Measured]) -> list[str]:
    ours, kube = found[OURS].result, found[KUBE].result
    floor = found[FLOOR].result if FLOOR in found else None
    preempts = bool(ours.removed or kube.removed)

    def pair(of: Callable[[Result], str]) -> str:
        return f"{of(ours)} / {of(kube)}"

    return [
        cell,
        pair(lambda r: str(r.removed)) if preempts else "–",
        pair(lambda r: str(r.broken)) if preempts else "–",
        pair(lambda r: _seconds(r, r.first_bind)),
        pair(lambda r: _seconds(r, r.last_bind)),
        _seconds(floor, floor.last_bind) if floor is not None else "–",
        pair(lambda r: f"{r.cpu_seconds:.1f}"),
        pair(lambda r: f"{r.peak_mb:.0f}"),
        f"{found[OURS].day}, load {found[OURS].load:.0f}",
    ]


def _quoted_beside(cell: str) -> list[str]:
    known = _BY_HAND["cells"][cell]
    (ours, kube), cpu, memory = known["seconds"], known["cpu"], known.get("rss_mb")
    last = [cell, "–", "–", "–", f"{ours} / {kube}", "–", " / ".join(map(str, cpu))]
    return [*last, " / ".join(map(str, memory)) if memory else "–", f"{_BY_HAND['measured']}, {QUOTE}"]


def _seconds(result: Result, moment: float | None) -> str:
    if moment is None or (moment == result.last_bind and not result.finished):
        return f"> {result.limit:.0f}"
    return f"{moment:.1f}"


def clusters(record: Record) -> Table:
    """What rules evict in random clusters."""
    rows = [[who, str(taken.evicted), str(taken.broken)] for who, taken in record.clusters.items()]
    return Table(["rules of", "pods evicted", "gangs left broken"], rows)


def text(record: Record) -> str:
    """All of it for a terminal."""
    parts = ["A gang of 30 comes to a cluster that is full of five gangs of 20:\n", thirty(record).text()]
    parts += ["\nHalf of the nodes are free, and the gang is one member larger than that half; pods evicted:\n"]
    parts += [one_victim(record).text()]
    for version in record.versions():
        found = beside(record, version)
        parts += [f"\nOn Kubernetes {version}:\n", found.text()] if found.rows else []
    if record.clusters:
        count = next(iter(record.clusters.values())).clusters
        parts += [f"\nRules of others on {count} random clusters, {record.clusters_day}:\n", clusters(record).text()]
    return "".join(parts)


_WIDTH, _LEFT, _RIGHT, _ROW, _GROUP = 880.0, 224.0, 760.0, 18.0, 62.0
_IN_PICTURE = (THIS, f"kube-scheduler {NEWEST}", f"kube-scheduler {BEFORE}")


def picture(record: Record) -> str:
    """An SVG: pods evicted for the same gang, as measured, or by the rules where that was not."""
    names = [cell.name for cell in cells.HARM]
    most = max(evicted for name in names for evicted, _ in _evicted(record, name))
    axis = svg.Axis(0.0, float(most), _LEFT, _RIGHT)
    title = "Pods evicted for the same gang in the same cluster"
    parts = [
        svg.text(24.0, 32.0, title, "title"),
        svg.text(24.0, 50.0, f"Less is better. {RULES.capitalize()} where it says so, else as measured.", "soft"),
        svg.legend(24.0, 72.0, [(who, n + 1) for n, who in enumerate(_IN_PICTURE)]),
    ]
    y = 92.0
    for name in names:
        parts.append(svg.text(_LEFT - 12, y + 1.8 * _ROW, name, "", "end"))
        for n, (evicted, how) in enumerate(_evicted(record, name)):
            top = y + n * _ROW
            end = axis.at(evicted)
            parts.append(svg.box(_LEFT, top, max(1.0, end - _LEFT), _ROW - 4, n + 1))
            parts.append(svg.text(end + 6, top + _ROW - 7, f"{evicted}{how}", "soft"))
        y += _GROUP
    return svg.document(_WIDTH, y + 8, title, parts)


def _evicted(record: Record, cell: str) -> list[tuple[int, str]]:
    found = []
    for who, version, candidate in zip(_IN_PICTURE, (NEWEST, NEWEST, BEFORE), (OURS, KUBE, KUBE), strict=True):
        measured = record.of(version, cell).get(candidate)
        if measured is not None:
            found.append((measured.result.removed, ""))
        else:
            found.append((record.cells[cell][who].evicted, " by rules"))
    return found
