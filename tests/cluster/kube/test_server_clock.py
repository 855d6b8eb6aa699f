"""What is written into conditions is the time of the server, where ours is another."""

from __future__ import annotations

import pytest

from gangsched.cluster.kube.clock import CHECKED_SECONDS, ServerTime
from gangsched.core.state.sightings import SAME_CLOCK_SECONDS


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (None, 1000.0),
        (SAME_CLOCK_SECONDS - 0.1, 1000.0),
        (1 - SAME_CLOCK_SECONDS, 1000.0),
        (150.0, 1150.0),
        (-3600.0, -2600.0),
    ],
)
def test_the_time_of_the_server(ahead: float | None, expected: float) -> None:
    """A small difference is none, nor is one that is not known."""
    assert ServerTime(lambda _: ahead, lambda: 1000.0, lambda: 0.0).now() == expected


def test_a_clock_that_is_set_is_noticed() -> None:
    """Not for each stamp: the server's answers are looked at once in a while."""
    wall, at, asked = [1000.0], [5.0], []

    def ahead(now: float) -> float:
        asked.append(now)
        return 1000.0 + at[0] - 5.0 - now

    stamps = ServerTime(ahead, lambda: wall[0], lambda: at[0])
    assert [stamps.now() for _ in range(3)] == [1000.0] * 3
    wall[0], at[0] = 400.0, 5.0 + CHECKED_SECONDS
    assert stamps.now() == 1000.0 + CHECKED_SECONDS
    assert asked == [1000.0, 400.0]
