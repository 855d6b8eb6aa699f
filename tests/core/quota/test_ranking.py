"""What is kept from one search to the next: rankings of queues, and searches that only look at the first of them."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gangsched.core.quota.fair_sharing import FairRules
from gangsched.core.quota.preemption import Need, VictimSearch, holders_of
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.workloads import Admission, merged
from tests.core.quota.naive_fair import NaiveFair
from tests.core.quota.random_worlds import SEEDS, asks, fill, objects


def changes(chance: Random, quota: Quota) -> None:
    """Some come, some go, some are told to leave."""
    for uid in sorted(quota.admissions):
        drawn = chance.random()
        if drawn < 0.2:
            quota.release(uid)
        elif drawn < 0.3:
            quota.admit(msgspec.structs.replace(quota.admissions[uid], evicted=True))
    for i in range(chance.randint(0, 4)):
        made = asks(chance, f"new{i}", chance.choice(sorted(quota.queues)), 3)
        usage = quota.assign(made).usage
        if usage:
            quota.admit(Admission(made, usage, float(chance.randint(0, 3))))


@pytest.mark.parametrize("evicted", [False, True])
@given(SEEDS)
def test_rankings_are_what_sorting_gives(evicted, seed):
    """After any changes a ranking has the queues above their quota, each once, by their first holder."""
    chance = Random(seed)
    quota = fill(chance, objects(chance))
    holders = quota.holders
    for _ in range(3):
        cells = frozenset(c for c in quota.tree.cells.values() if chance.random() < 0.5)
        for cohort in quota.tree.cohorts.values():
            queues = [n for n in cohort.children if n.is_queue and not n.within(cells)]
            first = sorted((key, n.name) for n in queues if (key := holders.first(n, evicted)) is not None)
            found = [(key, n.name) for key, n in holders.rankings(evicted).ranking_of(cohort).above(cells)]
            assert found == first
            event(f"{len(found)} queues")
        changes(chance, quota)


@given(st.lists(st.lists(st.integers(0, 999), unique=True), max_size=6), st.integers(0, 5))
def test_streams_are_merged(numbers, slack):
    """In order, and no stream is begun before its turn may have come."""
    lists = [sorted((n * 10 + i,) for n in each) for i, each in enumerate(numbers)]
    begun = []

    def stream(items):
        begun.append(items)
        yield from items

    bounds = sorted(((items[0][0] - slack,), i) for i, items in enumerate(lists) if items)
    found = []
    for item in merged((bound, stream([((x,),) for (x,) in lists[i]])) for bound, i in bounds):
        found.append(item[0])
        assert all(items[0][0][0] - slack <= item[0][0] for items in begun)
    assert found == sorted(item for items in lists for item in items)


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.sampled_from(("x", "y")))
def test_who_gives_way_is_who_the_rules_say(seed, flavor):
    """The search that goes on from rankings chooses as one that compares all queues at each step."""
    chance = Random(seed)
    quota = fill(chance, objects(chance, fair=True))
    for i in range(3):
        wants = asks(chance, f"asks{i}", chance.choice(sorted(quota.queues)))
        requests = tuple(quota.tree.indexed(((flavor, r), n) for r, n in wants.pod_sets[0].requests({}).items()))
        node = quota.tree.queues[wants.queue]
        cells = frozenset(cell for cell, units in requests if units > node.available(cell))
        if cells:
            need = Need(wants, requests, cells)
            spec = quota.queues[wants.queue]
            rules = FairRules(quota.holders, quota.shares, spec, need)
            found = holders_of(VictimSearch(rules).run())
            event(f"{len(found)} victims")
            assert [(h.admission.workload.uid, reason) for h, reason in found] == NaiveFair(quota, need).victims()
        changes(chance, quota)
