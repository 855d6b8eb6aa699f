"""Bursts: many gangs that evict at once, decided before any pod has left, or coming one after another."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Write
from gangsched.core.events import record_of
from gangsched.model.records import Pod
from tests.amounts import amount
from tests.core.harness import Cluster, event, plan
from tests.properties.bursts import Burst, let_leave, play


@pytest.mark.parametrize("first", range(0, amount(200, 40), 20))
def test_run_evicts_exactly_what_plan_says(first: int) -> None:
    """All gangs are there before the first decision: the victims are the same, at once and in the end."""
    found = {seed: play(seed) for seed in range(first, first + 20)}
    assert [seed for seed, played in found.items() if not played.same] == []
    assert sum(bool(played.planned) for played in found.values()) > 10


@pytest.mark.parametrize("first", range(0, amount(100, 20), 20))
def test_gangs_that_come_in_any_order_come_to_rest(first: int) -> None:
    """While writes are slow and preemptors are deleted: in the end no pod is to leave, or waited for, any more."""
    for seed in range(first, first + 20):
        burst, chance = Burst(seed), random.Random(seed)
        cluster = Cluster(*burst.there, **burst.options)
        slow = chance.choice((Mark, Remove, Nominate, ()))

        def is_slow(write: Write, kind: Any = slow) -> bool:
            return isinstance(write, kind)

        cluster.slow = is_slow
        for each in chance.sample(burst.come, len(burst.come)):
            cluster.show(each)
            for _ in range(chance.randint(0, 5)):
                cluster.step()
            waiting = [n for (_, n), p in sorted(cluster.pods.items()) if n.startswith("p") and not p.node]
            if waiting and chance.random() < 0.2:
                cluster.delete(chance.choice(waiting))
        cluster.slow = lambda _: False
        cluster.answer()
        cluster.run(400)
        let_leave(cluster)
        ledger = cluster.core.ledger
        live = [p.uid for p in cluster.pods.values() if p.live]
        assert [uid for uid in live if uid in ledger.condemned] == [], seed
        assert (set(ledger.holders()), ledger.awaited) == (set(), {}), seed


def test_the_bursts_are_what_they_are_meant_to_be() -> None:
    """Most of them make gangs wait for victims of others."""
    seen = 0
    for seed in range(amount(60, 30)):
        burst = Burst(seed)
        assert all(isinstance(record_of(event(each)), Pod) for each in burst.come)
        found = plan(*burst.there, *burst.come, **burst.options).values()
        seen += any(a.plan for d in found for a in d.awaiting)
    assert seen > amount(15, 6)
