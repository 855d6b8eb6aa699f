"""The benchmark of the whole process runs and finishes; how fast says nothing here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from tests.bench.live import arrival, cells
from tests.bench.live.candidates import ALL, FLOOR, KUBE, OURS
from tests.bench.live.report import Report

BINDS, PREEMPTS = cells.BACKLOG[1], cells.PREEMPTION[2]
#: On a machine that does much else.
SECONDS = 240.0


@pytest.mark.controlplane
async def test_the_command(tmp_path: Path) -> None:
    """Gangs that are bound, gangs that preempt, and gangs that come and go, with everybody who runs there: whoever is
    not cut off binds all and removes what has to go, and figures and picture are written.
    """
    json, svg = tmp_path / "found.json", tmp_path / "found.svg"
    chosen = [f"--only={name}" for name in (BINDS.name, PREEMPTS.name, arrival.CHURN.name)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.live", "--smoke", *chosen, f"--json={json}", f"--svg={svg}"),
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
    assert [(r.cell, r.candidate) for r in found.backlog] == [(c.name, x.name) for c in (BINDS, PREEMPTS) for x in ALL]
    assert [(o.cell, o.candidate) for o in found.arrival] == [(arrival.CHURN.name, name) for name in (OURS, KUBE)]
    evicted = {cell.name: cell.smaller().evicted for cell in (BINDS, PREEMPTS)}
    for result in found.backlog:
        assert result.finished or result.candidate == KUBE, result.note
        assert not result.finished or result.bound == result.pods
        assert not result.finished or result.removed == evicted[result.cell]
        assert not result.finished or (result.told is None) == (result.candidate == FLOOR), result.note
        assert result.calls.get("POST pods/binding", 0) == result.bound
    for outcome in found.arrival:
        assert outcome.finished or outcome.candidate == KUBE, outcome.note
        assert outcome.rate > 0.0
    ours = found.arrival[0]
    assert ours.rate == pytest.approx(ours.floor * arrival.CHURN.share, abs=0.1)
    assert 0.0 < ours.pod_p50 <= ours.pod_p99
    assert "<svg" in svg.read_text(encoding="utf-8")
    table = told.decode()
    assert all(name in table for name in ("all told s", "of all runs", "gang p99 s", "0-30"))
