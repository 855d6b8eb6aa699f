"""The soak: what it counts, not how fast that is."""

from __future__ import annotations

from tests.bench.soak import Soak


def test_small_pods_are_bound_beside_those_that_never_fit() -> None:
    """By decisions of their own: none of the pods that do not fit is decided again for what small ones do."""
    soak = Soak(nodes=8, pending=40, rate=20)
    soak.settle()
    assert not soak.waits
    soak.start()
    soak.run(soak.now + 4)
    assert len(soak.waits) >= 60
    assert len(soak.waiting()) <= 2
    assert soak.decided <= len(soak.waits) + 2
