"""The benchmark of the whole process runs and finishes; how fast says nothing here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.bench.live import arrival, cells
from tests.bench.live.candidates import FLOOR, KUBE, OURS, TELLING
from tests.bench.live.report import Report

#: On a machine that does much else.
SECONDS = 540.0


#: A cell of each shape; the others differ from one of them in numbers alone.
SHAPES = ("10,000 single pods", "500 gangs of 20", "200 evict 800 of 2,000 pods", "1,000 evict 10 gangs of 100")
#: kube-scheduler sees but one way of being measured, with and without victims.
WITH_KUBE = ("500 gangs of 20", "1,000 evict 10 gangs of 100")


def shape(cell: cells.Cell) -> tuple[bool, bool, bool]:
    """What decides which code measures a cell: gangs or not, victims or not, in gangs or not."""
    return cell.size > 1, cell.preempts, cell.victim_gang > 1


def test_each_shape_of_cell_is_tried() -> None:
    """Whatever cell is added, one like it is in the smoke run."""
    assert {shape(c) for c in cells.ALL if c.name in SHAPES} == {shape(c) for c in cells.ALL}
    assert {c.name for c in cells.ALL} >= {*SHAPES, *WITH_KUBE}


async def measured(json: Path, svg: Path, candidates: str, *only: str) -> str:
    """What a smoke run with these candidates and cells prints."""
    chosen = [word for name in only for word in ("--only", name)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.live", "--smoke", "--resume", f"--json={json}", f"--svg={svg}"),
        *("--candidates", candidates, *chosen),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        told, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 0, told.decode()
    return told.decode()


@pytest.mark.controlplane
async def test_the_command(tmp_path: Path) -> None:
    """Each shape of cell, in two runs of which the second goes on with the file of the first: whoever is not cut off
    binds all and removes what has to go, and figures and picture are written.
    """
    json, svg = tmp_path / "found.json", tmp_path / "found.svg"
    coming = [each.name for each in arrival.ALL]
    await measured(json, svg, f"{FLOOR},{OURS}", *SHAPES, cells.TELLING.name, *coming)
    table = await measured(json, svg, KUBE, *WITH_KUBE, arrival.CHURN.name)
    found = msgspec.json.decode(json.read_bytes(), type=Report)
    assert found.failed == []
    wanted = {(name, who) for name in SHAPES for who in (FLOOR, OURS)} | {(name, KUBE) for name in WITH_KUBE}
    assert {(r.cell, r.candidate) for r in found.backlog} == wanted
    assert len(found.backlog) == len(wanted)
    assert [r.candidate for r in found.telling] == [x.name for x in TELLING]
    came = [(name, who) for name in coming for who in (OURS, FLOOR)] + [(arrival.CHURN.name, KUBE)]
    assert sorted((o.cell, o.candidate) for o in found.arrival) == sorted(came)
    evicted = {cell.name: cell.smaller().evicted for cell in (*cells.ALL, cells.TELLING)}
    for result in (*found.backlog, *found.telling):
        assert result.finished or result.candidate == KUBE, result.note
        assert not result.finished or result.bound == result.pods
        assert not result.finished or result.removed == evicted[result.cell]
        assert not result.finished or (result.told is None) == (result.candidate == FLOOR), result.note
        # On a busy machine an answer comes too late, and the binding is sent once more.
        assert result.calls.get("POST pods/binding", 0) >= result.bound
    for outcome in found.arrival:
        assert outcome.finished or outcome.candidate == KUBE, outcome.note
        # Nothing is said of how long: on a busy machine the ruler reads creation and binding at once, and that is 0.
        assert not outcome.finished or 0.0 <= outcome.gang_p50 <= outcome.gang_p99
        assert outcome.cpu_seconds > 0.0
        assert outcome.candidate != FLOOR or set(outcome.calls) <= {"POST pods/binding", "WATCH pods", *_READ, _LEASE}
    churn = [o for o in found.arrival if o.cell == arrival.CHURN.name]
    assert churn[0].rate == pytest.approx(churn[0].floor * arrival.CHURN.share, abs=0.1)
    assert {o.rate for o in churn} == {churn[0].rate}
    drawn = " ".join(" ".join(ElementTree.fromstring(svg.read_text(encoding="utf-8")).itertext()).split())
    assert all(name in drawn for name in (*SHAPES, *coming))
    assert all(name in table for name in ("all told s", "of all runs", "gang p99 s", "0-30"))


#: The API server renews a Lease of its own every ten seconds, which it counts with the calls of others.
_LEASE = "PUT leases"
#: What the floor reads before it is ready.
_READ = ("LIST nodes", "LIST pods")
