"""How often a warning is repeated."""

from __future__ import annotations

from gangsched.cluster.kube.log_throttle import Seldom


def test_intervals_grow_to_a_limit() -> None:
    """Asked every second: at once, then after 10, 20 and 40 seconds, and from then on every 40."""
    seldom = Seldom(first_seconds=10.0, longest_seconds=40.0)
    assert [now for now in range(160) if seldom.due("no namespace", float(now))] == [0, 10, 30, 70, 110, 150]


def test_something_new_is_said_at_once() -> None:
    """Another text does not wait for the interval of the last one, and has its own."""
    seldom = Seldom(first_seconds=10.0)
    said = [seldom.due(text, now) for now, text in enumerate(["a", "a", "b", "b", "a"])]
    assert said == [True, False, True, False, True]
