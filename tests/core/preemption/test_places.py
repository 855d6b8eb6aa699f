"""The places for members of a tiny gang, against every set of pods that may leave."""

from __future__ import annotations

import numpy as np
import pytest

from gangsched.core.preemption import several_kinds
from gangsched.core.preemption.node_prices import MAY, Offer
from tests.core.preemption.asked import asked
from tests.core.preemption.crowds import RULES, crowd, found_and_least, tariff


@pytest.mark.parametrize("rule", RULES)
def test_no_places_cost_less(rule: str) -> None:
    """Places are found whenever there are some, at the least price; a lower bound is not above it."""
    needed = 0
    for seed in range(25):
        made = asked(*crowd(seed, rule))
        found, least = found_and_least(made)
        assert (found is None) == (least is None), f"seed {seed}"
        if found is None or least is None:
            continue
        if rule == "away from x in a zone":  # each node of a zone pays for the pods that leave all of it
            assert found.price.real >= least.real, f"seed {seed}"
        else:
            assert found.price.real == least.real, f"seed {seed}"
        bound = made.places(lower=True).bound(Offer(np.full(len(made.candidates), MAY), tariff(made)))
        assert bound is None or bound.real <= least.real, f"seed {seed}"
        assert tuple(found.counts.sum(axis=1)) == made.demand.need
        fit = made.fit()
        fit.take(made.candidates.slot[found.gone])
        assert fit.fits()
        needed += bool(found.gone.any())
    assert needed >= 5


@pytest.mark.parametrize("limit", ["_TABLE", "_OPTIONS"])
@pytest.mark.parametrize("rule", ["two kinds", "three kinds", "kinds of two zones", "a port, and two kinds"])
def test_many_members_of_several_kinds_are_placed_in_turn(
    limit: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the table would be too large: what is found works, never costs less than the least, and mostly not more."""
    both = equal = 0
    for seed in range(25):
        made = asked(*crowd(seed, rule))
        exact = made.places().best(Offer(np.full(len(made.candidates), MAY), tariff(made)))
        with monkeypatch.context() as patch:
            patch.setattr(several_kinds, limit, 0)
            found = made.places().best(Offer(np.full(len(made.candidates), MAY), tariff(made)))
        assert (found is None) == (exact is None), f"seed {seed}"
        if found is None or exact is None:
            continue
        assert found.price.real >= exact.price.real, f"seed {seed}"
        fit = made.fit()
        fit.take(made.candidates.slot[found.gone])
        assert fit.fits(), f"seed {seed}"
        both, equal = both + 1, equal + (found.price.real == exact.price.real)
    assert both >= 15
    assert equal >= 0.8 * both
