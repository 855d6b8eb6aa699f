"""The benchmark of the whole process runs and finishes; how fast says nothing here."""

from __future__ import annotations

import msgspec
import pytest

from tests.bench.live import arrival, backlog, cells
from tests.bench.live.candidates import ALL, FLOOR, OURS, Candidate
from tests.bench.live.report import Report, arrival_table, windows_table


@pytest.mark.controlplane
@pytest.mark.parametrize("cell", [cells.BACKLOG[1], cells.PREEMPTION[2]], ids=lambda c: c.name)
@pytest.mark.parametrize("candidate", [c for c in ALL if c.name in (FLOOR, OURS)], ids=lambda c: c.name)
async def test_backlog(cell: cells.Cell, candidate: Candidate) -> None:
    """Small cells, one with victims: everything is bound, and all that had to go has gone."""
    small = cell.smaller()
    found = await backlog.measure(small, candidate, 60.0)
    assert found.finished, found.note
    assert (found.bound, found.removed) == (small.pods, small.evicted)
    assert found.calls_per_pod >= 1.0


@pytest.mark.controlplane
async def test_arrival_and_the_reports() -> None:
    """Gangs that come and go on a small cluster; tables, JSON and the picture can be made of what comes out."""
    found = await arrival.measure(arrival.CHURN.smaller())
    assert found.finished, found.note
    assert found.rate == pytest.approx(found.floor * arrival.CHURN.share, abs=0.1)
    assert 0.0 < found.pod_p50 <= found.pod_p99
    report = Report("here", [], [found])
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    assert "churn" in arrival_table(report.arrival)
    assert "0-30" in windows_table(report.arrival)
