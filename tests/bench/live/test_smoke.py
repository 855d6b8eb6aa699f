"""The benchmark of the whole process runs and finishes; how fast says nothing here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.bench.live import arrival, cells
from tests.bench.live.candidates import ALL, FLOOR, KUBE, OURS, TELLING
from tests.bench.live.report import Report

#: On a machine that does much else.
SECONDS = 540.0


@pytest.mark.controlplane
async def test_the_command(tmp_path: Path) -> None:
    """All cells with everybody: whoever is not cut off binds all and removes what has to go, and figures and picture
    are written.
    """
    json, svg = tmp_path / "found.json", tmp_path / "found.svg"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.live", "--smoke", f"--json={json}", f"--svg={svg}"),
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
    found = msgspec.json.decode(json.read_bytes(), type=Report)
    assert found.failed == []
    assert [(r.cell, r.candidate) for r in found.backlog] == [(c.name, x.name) for c in cells.ALL for x in ALL]
    assert [r.candidate for r in found.telling] == [x.name for x in TELLING]
    assert [(o.cell, o.candidate) for o in found.arrival] == [
        (each.name, name) for each in arrival.ALL for name in (OURS, FLOOR, KUBE)
    ]
    evicted = {cell.name: cell.smaller().evicted for cell in (*cells.ALL, cells.TELLING)}
    for result in (*found.backlog, *found.telling):
        assert result.finished or result.candidate == KUBE, result.note
        assert not result.finished or result.bound == result.pods
        assert not result.finished or result.removed == evicted[result.cell]
        assert not result.finished or (result.told is None) == (result.candidate == FLOOR), result.note
        assert result.calls.get("POST pods/binding", 0) == result.bound
    for outcome in found.arrival:
        assert outcome.finished or outcome.candidate == KUBE, outcome.note
        assert not outcome.finished or 0.0 < outcome.gang_p50 <= outcome.gang_p99
        assert outcome.cpu_seconds > 0.0
        assert outcome.candidate != FLOOR or set(outcome.calls) <= {"POST pods/binding", "WATCH pods", *_READ}
    churn = [o for o in found.arrival if o.cell == arrival.CHURN.name]
    assert churn[0].rate == pytest.approx(churn[0].floor * arrival.CHURN.share, abs=0.1)
    assert {o.rate for o in churn} == {churn[0].rate}
    drawn = " ".join(" ".join(ElementTree.fromstring(svg.read_text(encoding="utf-8")).itertext()).split())
    assert all(each.name in drawn for each in (*cells.ALL, *arrival.ALL))
    table = told.decode()
    assert all(name in table for name in ("all told s", "of all runs", "gang p99 s", "0-30"))


#: What the floor reads before it is ready.
_READ = ("LIST nodes", "LIST pods")
