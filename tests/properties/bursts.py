"""Bursts: many gangs that evict at once. Do ``plan`` and ``run`` name the same victims?

    python -m tests.properties.bursts [--count 200] [--first 0]

A seed of which they differ is printed; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from gangsched.core.actions import Remove
from tests.builders import PodBuilder, gang, node, pdb, pod
from tests.core.harness import Built, Cluster, plan


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


class Played(NamedTuple):
    """The victims (names) of one burst: as ``plan`` says, each as often as it says so, and as ``run`` has it."""

    planned: list[str]
    evicted: set[str]

    @property
    def same(self) -> bool:
        """Are they the same, each named once?"""
        return sorted(self.evicted) == sorted(self.planned)


def play(seed: int) -> Played:
    """All gangs are there before the first decision."""
    burst = Burst(seed)
    found = plan(*burst.there, *burst.come, **burst.options)
    cluster = Cluster(*burst.there, *burst.come, **burst.options)
    cluster.run(400)
    let_leave(cluster)
    return Played([v.name for d in found.values() for v in d.victims], evicted(cluster))


def main() -> int:
    """Compare them; 1 when any differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.bursts")
    parser.add_argument("--count", type=int, default=200, help="seeds to play (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    args = parser.parse_args()
    evicting = differ = 0
    for seed in range(args.first, args.first + args.count):
        played = play(seed)
        evicting += bool(played.planned)
        if not played.same:
            differ += 1
            print(f"seed {seed}: plan {sorted(played.planned)}, run {sorted(played.evicted)}", flush=True)
    print(f"{args.count} bursts, {evicting} of them evict: {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
