"""Kueue's decision about one workload, told plainly: an oracle for the scheduler's decision where nodes have room.

Rules: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavorfungibility and
https://kueue.sigs.k8s.io/docs/concepts/preemption/ . A head that fails with flavors left goes on after them in the next
cycle; here all its cycles are one answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gangsched.core.quota.preemption import Need
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.tree import Amounts, Cell
from gangsched.core.quota.workloads import Workload
from gangsched.model.queues import MAY_STOP, NEVER, PREEMPTION_FIRST, Fungibility
from tests.core.quota.naive import Naive
from tests.core.quota.naive_fair import NaiveFair

#: What can be done for a resource in a flavor, worst first.
NO_FIT, NOBODY, OWN, OTHERS, FIT = range(5)

#: ``(mode, level)``.
Price = tuple[int, int]


class Answer(msgspec.Struct):
    """``admit``, ``preempt`` or ``refuse``; the flavor of each resource, who goes and why, or why not."""

    verdict: str
    flavor: str = ""
    victims: dict[str, str] = {}
    message: str = ""


class Oracle:
    """One workload of one pod set, whose queue has one resource group."""

    def __init__(self, quota: Quota, asks: Workload) -> None:
        self.quota, self.asks = quota, asks
        self.naive, self.empty = Naive(quota), Naive(quota)
        self.empty.present = {}
        self.me = f"q:{asks.queue}"
        self.spec = quota.queues[asks.queue]
        self.requests = asks.pod_sets[0].requests({})

    def answer(self) -> Answer:
        """The first choice of flavors that comes to something."""
        start, first = 0, ""
        while True:
            price, flavor, problems, tried = self._choose(start)
            if price[0] == FIT:
                return Answer("admit", flavor)
            short = {(flavor, r) for r, n in self.requests.items() if self._price(flavor, r, n)[0][0] in (OWN, OTHERS)}
            if price[0] in (OWN, OTHERS):
                victims = self._victims(self._amounts(flavor), short)
                if victims:
                    return Answer("preempt", flavor, victims)
            first = first or f"couldn't assign flavors to pod set main: {', '.join(sorted(problems))}"
            if tried == len(self.spec.groups[0].flavors) - 1:
                return Answer("refuse", message=first)
            start = tried + 1

    def _amounts(self, flavor: str) -> Amounts:
        return tuple(((flavor, r), n) for r, n in self.requests.items())

    # -- flavors -------------------------------------------------------------------------------------------

    def _choose(self, start: int) -> tuple[Price, str, list[str], int]:
        """The best flavor from this one on, its price, why others did not do, and which was tried last."""
        best, chosen, problems, tried = (NO_FIT, 0), "", [], start
        rules = self.spec.fungibility
        names = [f.flavor for f in self.spec.groups[0].flavors]
        for tried in range(start, len(names)):
            worst = (FIT, 0)
            for resource, n in self.requests.items():
                price, problem = self._price(names[tried], resource, n)
                problems += [problem] if problem else []
                worst = price if better(worst, price, rules) else worst
                if price[0] == NO_FIT:
                    break
            stop = worst[0] >= OWN and (worst[0] == FIT or rules.when_can_preempt == MAY_STOP)
            stop = stop and (worst[1] == 0 or rules.when_can_borrow == MAY_STOP)
            if worst[0] != NO_FIT and (stop or better(worst, best, rules)):
                best, chosen = worst, names[tried]
            if stop:
                break
        if chosen:
            each = [self._price(chosen, r, n)[0][0] for r, n in self.requests.items()]
            best = (min(each), best[1])
        return best, chosen, problems, tried

    def _price(self, flavor: str, resource: str, n: int) -> tuple[Price, str]:
        cell = (flavor, resource)
        most = self.empty.available(self.me, cell)
        if n > most:
            return (NO_FIT, 0), (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests (0) + "
                f"current podset request ({n}) > maximum capacity ({most})"
            )
        room = max(0, self.naive.available(self.me, cell))
        level, above = self._level(cell, n)
        if n <= room:
            return (FIT, level), ""
        problem = f"insufficient unused quota for {resource} in flavor {flavor}, {n - room} more needed"
        policy = self.spec.preemption
        fair = self.quota.fair_sharing and policy.reclaim != NEVER
        if n > self.naive.limits(self.me, cell).nominal and not above and policy.borrow == NEVER and not fair:
            return (NO_FIT, 0), problem
        victims = self._victims(((cell, n),), {cell})
        before = self.naive.present
        self.naive.present = {uid: a for uid, a in before.items() if uid not in victims}
        level, _ = self._level(cell, n)
        self.naive.present = before
        if not victims:
            return (NOBODY, level), problem
        mine = any(before[uid].workload.queue == self.asks.queue for uid in victims)
        return (OWN if mine else OTHERS, level), problem

    def _level(self, cell: Cell, n: int) -> tuple[int, bool]:
        """The height of the smallest subtree with so much quota unused, else of the tree; is there more above?"""
        node = self.me
        while True:
            if self.naive.usage(node, cell) + n <= self.naive.subtree(node, cell):
                return self._height(node), bool(self.naive.parent(node))
            n -= max(0, self.naive.local(node, cell) - self.naive.usage(node, cell))
            if not self.naive.parent(node):
                return self._height(node), False
            node = self.naive.parent(node)

    def _height(self, node: str) -> int:
        return max((self._height(child) + 1 for child in self.naive.children(node)), default=0)

    # -- victims -------------------------------------------------------------------------------------------

    def _victims(self, amounts: Amounts, cells: Iterable[Cell]) -> dict[str, str]:
        if not self.quota.fair_sharing:
            return self.naive.victims(self.asks, amounts, set(cells))
        numbers = frozenset(self.quota.tree.cells[cell] for cell in cells)
        return dict(NaiveFair(self.quota, Need(self.asks, tuple(self.quota.tree.indexed(amounts)), numbers)).victims())


def better(one: Price, other: Price, rules: Fungibility) -> bool:
    """Is the first preferred?"""
    if NO_FIT in (one[0], other[0]):
        return one[0] != NO_FIT
    if (one[0] == NOBODY) != (other[0] == NOBODY):
        return other[0] == NOBODY
    if rules.preference == PREEMPTION_FIRST:
        return (-one[1], one[0]) > (-other[1], other[0])
    return (one[0], -one[1]) > (other[0], -other[1])
