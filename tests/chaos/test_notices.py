"""Victims with notice under faults and crashes."""

from __future__ import annotations

from tests.chaos.__main__ import run


def test_the_part_is_worth_playing() -> None:
    """In a few seeds of it pods leave that have had notice, through crashes, and nothing is wrong."""
    found = [run(seed, ("notices",)) for seed in range(2000, 2024)]
    assert {r.seed: r.problems for r in found if r.problems} == {}
    assert sum(r.seen["pods evicted"] for r in found) > 5
    assert sum(r.seen["crashes"] for r in found) > 2
