"""Rates and delays, on a clock that the test holds."""

from __future__ import annotations

import pytest

from gangsched.cluster.kube.retry import Backoff, TokenBucket, Window, retry_after_seconds


class Clock:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_bucket_gives_the_burst_then_the_rate() -> None:
    """`burst` tokens are free, the next ones come at `qps`, and idle time fills no more than the burst."""
    clock = Clock()
    bucket = TokenBucket(10.0, 3, clock)
    assert [bucket.reserve() for _ in range(5)] == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])
    clock.time += 0.2
    assert bucket.reserve() == pytest.approx(0.1)
    clock.time += 1000.0
    assert [bucket.reserve() for _ in range(4)] == pytest.approx([0.0, 0.0, 0.0, 0.1])


@pytest.mark.parametrize(("qps", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_bucket_refuses_nonsense(qps: float, burst: int) -> None:
    """A rate of nothing would be a standstill."""
    with pytest.raises(ValueError, match="must be"):
        TokenBucket(qps, burst)


def test_backoff_doubles_to_its_maximum_and_starts_over() -> None:
    """Delays lie in the upper half of steps that double up to the maximum."""
    least = Backoff(1.0, 5.0, chance=lambda: 0.0)
    assert [least.next_seconds() for _ in range(5)] == [0.5, 1.0, 2.0, 2.5, 2.5]
    most = Backoff(1.0, 5.0, chance=lambda: 1.0)
    assert [most.next_seconds() for _ in range(4)] == [1.0, 2.0, 4.0, 5.0]
    most.reset()
    assert most.next_seconds() == 1.0


def test_backoff_respects_the_server_up_to_a_limit() -> None:
    """Retry-After is a lower bound, but not for ever."""
    backoff = Backoff(1.0, 1.0, chance=lambda: 0.0)
    assert backoff.next_seconds(7.0) == 7.5
    assert backoff.next_seconds(86400.0) == 30.5


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("", None), ("3", 3.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    """Seconds are read, anything else is as good as absent."""
    assert retry_after_seconds(header) == seconds


def test_window_follows_the_server() -> None:
    """429 and slow answers halve it, at most once a second; quick answers widen it by one for each windowful."""
    now = [100.0]
    window = Window(16, least=4, clock=lambda: now[0])
    window.answered(0.01, too_many=True)
    window.answered(0.01, too_many=True)
    assert window.size == 8
    for _ in range(9):
        window.answered(0.01, too_many=False)
    assert window.size == 9
    for _ in range(5):
        now[0] += 1.0
        window.answered(2.0, too_many=False)
    assert window.size == 4
    for _ in range(1000):
        window.answered(0.01, too_many=False)
    assert window.size == 16
