"""What the benchmark of the extras makes of its measurements."""

from __future__ import annotations

from tests.bench import extras
from tests.bench.live.backlog import Result
from tests.bench.live.candidates import OURS


def run(cpu_seconds: float, seconds: float) -> Result:
    """A run that bound 5,000 pods."""
    return Result(
        cell="c",
        candidate=OURS,
        pods=5000,
        bound=5000,
        removed=0,
        first_bind=0.5,
        last_bind=seconds,
        first_removal=None,
        last_removal=None,
        cpu_seconds=cpu_seconds,
        peak_mb=50.0,
        calls_per_pod=2.0,
        calls={},
        finished=True,
    )


def test_the_least_of_each_loop_is_compared() -> None:
    """CPU time is told for 10,000 pods, whatever was bound, and as a part of that of asyncio's loop."""
    told = extras.loops_table({"uvloop": [run(9.0, 7.0), run(1.0, 8.0)], "asyncio": [run(2.0, 9.0)]})
    assert [line.split() for line in told.splitlines()[2:]] == [
        ["uvloop", "2.00", "0.50", "7.0"],
        ["asyncio", "4.00", "1.00", "9.0"],
    ]


def test_every_maker_of_log_lines_is_measured() -> None:
    """The two that are always there, and orjson where it is installed."""
    found = extras.microseconds()
    assert {"json", "msgspec"} <= set(found) <= {"json", "msgspec", "orjson"}
    assert all(0.0 < each.json < each.whole for each in found.values())
    assert [line.split()[0] for line in extras.lines_table(found).splitlines()[2:]] == list(found)
