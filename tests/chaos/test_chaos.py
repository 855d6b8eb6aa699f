"""Hundreds of random lives under faults, troubles and crashes; ``python -m tests.chaos`` plays as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.amounts import amount
from tests.chaos.__main__ import Result, run
from tests.chaos.scenario import PARTS

CHUNK = 50
SEEDS = amount(600, 100)


@cache
def played(seed: int) -> Result:
    """What a seed came to; played once for all who ask."""
    return run(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_may_never_happen_does_not(first: int) -> None:
    """Whatever fails and whoever interferes: nobody is removed without a record, nothing is forgotten."""
    failed = {r.seed: r.problems for r in map(played, range(first, first + CHUNK)) if r.problems}
    assert failed == {}


def test_the_seeds_are_worth_playing() -> None:
    """Among them are many crashes, evictions, failed writes, every kind of trouble, and every part."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen.update(played(seed).seen)
    assert seen["crashes"] > SEEDS // 2
    assert seen["pods evicted"] > SEEDS // 2
    assert seen["writes that failed"] > 5 * SEEDS
    assert seen["bindings refused"] > SEEDS // 4
    kinds = {"delete_pod", "recreate_pod", "delete_node", "cordon", "taint", "shrink", "thief", "stronger_gang"}
    kinds |= {"refuse_bindings", "refuse_others"}
    kinds |= {"delete_job", "recreate_job", "suspend_job", "resume_job", "resize_job"}
    kinds |= {"refuse_members", "refuse_volumes", "take_volume", "recreate_claim", "fail_provisioning"}
    kinds |= {"refuse_claims", "take_devices", "delete_claim", "republish", "lose_device"}
    kinds |= {"stop_queue", "recreate_group", "move_minimum", "forbid_disruptions", *(f"with {name}" for name in PARTS)}
    assert seen["claims bound or asked for"] > SEEDS // 20
    assert seen["claims given devices"] > SEEDS // 20
    assert kinds | {"tighten_budget", "delete_group", "change_minimum"} <= set(seen)


@pytest.mark.parametrize(("part", "what"), [("rollback", "rolled back"), ("queues", "drained")])
def test_a_part_is_worth_playing(part: str, what: str) -> None:
    """In a few seeds of it pods leave in the way that it is about."""
    assert sum(run(seed, (part,)).seen[what] for seed in range(1000, 1012)) > 1
