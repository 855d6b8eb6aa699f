"""What the benchmark of log lines makes of its measurements."""

from __future__ import annotations

from tests.bench import log_lines


def test_every_maker_of_log_lines_is_measured() -> None:
    """The two that are always there, and orjson where it is installed."""
    found = log_lines.microseconds()
    assert {"json", "msgspec"} <= set(found) <= {"json", "msgspec", "orjson"}
    assert all(0.0 < each.json < each.whole for each in found.values())
    assert [line.split()[0] for line in log_lines.lines_table(found).splitlines()[2:]] == list(found)
