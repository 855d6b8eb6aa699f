"""Bursts: many gangs that evict at once, decided before any pod has left, or coming one after another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Write
from gangsched.core.events import PodChanged
from tests.builders import PodBuilder, gang, node, pdb, pod
from tests.core.harness import Built, Cluster, event, plan


class Burst:
    """Some nodes that are full, with gangs, single pods and budgets, and gangs of higher priority that come."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._free = {f"n{i}": 4 for i in range(self._random.randint(3, 8))}
        self.there: list[Built] = [node(name).cpu(4) for name in self._free]
        self.options: dict[str, Any] = {"gang_mode": self._random.choice(("elastic", "atomic", "minimal", "off"))}
        if self._random.random() < 0.3:
            self.options["strict_budgets"] = True
        for number in range(self._random.randint(1, 4)):
            members = list(self._run(f"v{number}", self._random.randint(2, 5), number % 3))
            self.there += [each.gang(f"v{number}") for each in members]
            self.there.append(gang(f"v{number}").min(self._random.randint(1, max(1, len(members)))))
        for number in range(self._random.randint(0, 6)):
            self.there += self._run(f"s{number}", 1, self._random.randint(0, 3))
        for app in "ab":
            if self._random.random() < 0.5:
                self.there.append(pdb(f"of-{app}").selects(app=app).allows(self._random.randint(0, 2)))
        self.come: list[PodBuilder] = []
        for number in range(self._random.randint(2, 7)):
            self._come(f"p{number}", self._random.randint(1, 3), float(number))

    def _run(self, name: str, count: int, priority: int) -> Iterator[PodBuilder]:
        """Pods that run, as far as there is room."""
        for member in range(count):
            cpu = self._random.choice((1, 2, 4))
            where = [name for name, free in self._free.items() if free >= cpu]
            if where:
                to = self._random.choice(where)
                self._free[to] -= cpu
                made = pod(f"{name}-{member}").cpu(cpu).priority(priority).label(app=self._random.choice("ab"))
                yield made.on(to, float(self._random.randint(0, 50)))

    def _come(self, name: str, count: int, created: float) -> None:
        cpu, priority = self._random.choice((1, 2, 3, 4)), self._random.randint(2, 6)
        members = [pod(f"{name}-{i}").cpu(cpu).priority(priority).created(created) for i in range(count)]
        if count > 1:
            self.there.append(gang(name).min(count).created(created))
            members = [each.gang(name) for each in members]
        self.come += members


def evicted(cluster: Cluster) -> set[str]:
    """Pods whose removal was asked for."""
    return {a.pod.name for a in cluster.log if isinstance(a, Remove)}


def let_leave(cluster: Cluster) -> None:
    """Until no pod terminates any more."""
    for _ in range(30):
        cluster.leave()
        cluster.run(400)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_run_evicts_what_plan_says(first: int) -> None:
    """All gangs are there before the first decision: the victims are the same, at once and in the end.

    They may be fewer: a plan that waits for another's victims removes no pod, and is made anew when more leave by then
    than it had counted on.
    """
    some = fewer = 0
    for seed in range(first, first + 20):
        burst = Burst(seed)
        planned = plan(*burst.there, *burst.come, **burst.options)
        victims = [v.name for d in planned.values() for v in d.victims]
        assert len(victims) == len(set(victims)), seed
        cluster = Cluster(*burst.there, *burst.come, **burst.options)
        cluster.run(400)
        let_leave(cluster)
        assert evicted(cluster) <= set(victims), seed
        some += bool(victims)
        fewer += evicted(cluster) != set(victims)
    assert some > 10
    assert fewer <= 1


@pytest.mark.parametrize("first", range(0, 100, 20))
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
        ledger = cluster.core.world.ledger
        live = [p.uid for p in cluster.pods.values() if p.live]
        assert [uid for uid in live if uid in ledger.condemned] == [], seed
        assert (set(ledger.holders()), ledger.awaited) == (set(), {}), seed


def test_the_bursts_are_what_they_are_meant_to_be() -> None:
    """Most of them make gangs wait for victims of others."""
    seen = 0
    for seed in range(60):
        burst = Burst(seed)
        assert all(isinstance(event(each), PodChanged) for each in burst.come)
        found = plan(*burst.there, *burst.come, **burst.options).values()
        seen += any(a.plan for d in found for a in d.awaiting)
    assert seen > 15
