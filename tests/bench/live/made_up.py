"""Results and outcomes that were not measured."""

from __future__ import annotations

from tests.bench.live import backlog
from tests.bench.live.outcome import Outcome, Window


def result(cell: str, candidate: str, seconds: float) -> backlog.Result:
    """A run that was done after so many seconds."""
    return backlog.Result(
        cell=cell,
        candidate=candidate,
        pods=2,
        bound=2,
        removed=0,
        first_bind=0.5,
        last_bind=seconds,
        first_removal=seconds / 2.0,
        last_removal=None,
        cpu_seconds=0.1,
        peak_mb=50.0,
        calls_per_pod=2.0,
        calls={"POST pods/binding": 2, "POST events": 2},
        finished=True,
    )


def outcome(cell: str, p99: list[float]) -> Outcome:
    """A run whose windows have these latencies."""
    return Outcome(
        cell=cell,
        rate=100.0,
        pods=8,
        bound=8,
        bare_list=1.0,
        ready=3.0,
        pod_p50=0.1,
        pod_p99=0.2,
        gang_p50=0.1,
        gang_p99=0.2,
        windows=[Window(8, 0.1, each, 100.0) for each in p99],
        rss_ready_mb=90.0,
        rss_end_mb=100.0,
        peak_mb=100.0,
        cpu_seconds=1.0,
        loop_lag_p99=0.05,
        calls_per_pod=2.0,
        calls={},
        samples=[],
        finished=True,
    )
