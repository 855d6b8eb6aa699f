"""Half a minute of ordinary traffic runs clean; `python -m tests.everyday traffic --minutes 60` plays an hour."""

from __future__ import annotations

from pathlib import Path

from tests.everyday.traffic import Traffic, traffic


async def test_ordinary_traffic_runs_clean(tmp_path: Path) -> None:
    """Pods, gangs, nodes, a CRD, and a restart of the API server: no error, and every pod is bound."""
    seen = await traffic(tmp_path, 24.0)
    assert seen.wrong(measured=False) == []
    assert len(seen.waits) > 80
    assert seen.gangs_bound > 0


def test_what_is_wrong_is_told() -> None:
    """Late pods, an end of the process, errors, and memory that grows."""
    assert Traffic(waits=[0.1], memory=[100] * 40).wrong() == []
    bad = Traffic(
        waits=[6.0], late=["pod-0"], unbound=["pod-1"], memory=[100] * 20 + [110] * 20, errors=["{}"], ended=1
    )
    assert [text.split()[0] for text in bad.wrong()] == ["1", "pod-0", "1", "the", "error", "memory"]
