"""What only counts under high priorities is looked at where there is no plan without it."""

from __future__ import annotations

import math

import pytest

from gangsched.core.preemption import node_prices
from gangsched.core.preemption.search import Choice, Search
from tests.amounts import amount
from tests.bench.worlds import cluster
from tests.core.preemption.asked import asked_in


@pytest.mark.parametrize("rule", ["", "apart", "together", "spread"])
@pytest.mark.parametrize("member", [(24, 32), (46, 32), (60, 64)])
@pytest.mark.parametrize("gang_size", [1, 4])
def test_the_choice_is_as_good_as_that_among_all_pods(
    gang_size: int, member: tuple[int, int], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the lowest priorities are enough or not: as few victims, and as much is known of how few could do."""
    monkeypatch.setattr(node_prices, "_PODS", 0)  # as in clusters so large that no program proves the plan
    nodes = amount(40, 24)
    case = cluster(nodes=nodes, pods=14 * nodes, gang_size=gang_size, members=20, member=member, rule=rule)
    found: list[Choice | None] = [asked_in(case).search(5000).run()]
    monkeypatch.setattr(Search, "_reaches", lambda _: [math.inf])
    found.append(asked_in(case).search(5000).run())
    some, everything = found
    assert (some is None) == (everything is None)
    if some is not None and everything is not None:
        assert (some.harm.levels, some.gap) == (everything.harm.levels, everything.gap)
