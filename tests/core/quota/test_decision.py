"""The scheduler's decision about one workload is that of the rules, whenever nodes have room for everybody."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import event, given, settings

from gangsched.core.decision import BIND, PREEMPT, WAIT
from gangsched.core.quota.workloads import PodSet
from tests.amounts import amount
from tests.core.quota.naive_flavors import Oracle
from tests.core.quota.random_worlds import SEEDS, world
from tests.core.quota.world import cluster_of, reasons


@pytest.mark.parametrize("fair", [False, True], ids=["classic", "fair"])
@settings(max_examples=amount(150, 50), deadline=None)
@given(SEEDS)
def test_the_decision_is_that_of_the_rules(fair, seed):
    """Admitted in the same flavors, at the expense of the same workloads for the same reasons, or refused in the same
    words.
    """
    quota, asks = world(seed, fair)
    if seed % 4 == 0:
        asks = msgspec.structs.replace(asks, pod_sets=(PodSet("main", 2, asks.pod_sets[0].shape),))
    expected = Oracle(quota, asks).answer()
    leaving = {name for name in expected.victims if quota.admissions[name].evicted}
    found = cluster_of(quota).decide(asks)
    event(f"{expected.verdict}, {len(expected.victims)} victims, {len(leaving)} of them leaving")
    if expected.verdict == "refuse":
        assert (found.outcome, found.victims) == ("unschedulable", ())
        assert found.message.startswith(expected.message)
        return
    assert found.quota is not None
    assert found.outcome == (
        BIND if expected.verdict == "admit" else PREEMPT if leaving != set(expected.victims) else WAIT
    )
    assert set(found.quota.flavors) == {(resource, expected.flavor) for resource, _ in asks.pod_sets[0].shape.requests}
    assert reasons(found) == {name: why for name, why in expected.victims.items() if name not in leaving}
    assert {a.pod for a in found.awaiting} == {f"d/{name}" for name in leaving}
