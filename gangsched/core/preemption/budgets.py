"""PodDisruptionBudgets: how many more disruptions each allows, and which victims go beyond."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from gangsched.core.arrays import Ints, distinct
from gangsched.core.ledger.condemned import Leaving
from gangsched.core.state.podtable import PodTable
from gangsched.model.records import Budget, Labels, Pod
from gangsched.model.selectors import selector_matches


class Budgets:
    """The budgets of the cluster, with the room that each has left.

    ``pods`` are the bound, non-terminating pods from which a budget without a status is computed. An empty
    selector selects every pod of its namespace (policy/v1).
    """

    def __init__(self, budgets: Iterable[Budget], pods: Iterable[Pod] = ()) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        self._charged: set[str] = set()  # namespaces with budgets that name pods whose eviction is under way
        for budget in sorted(budgets, key=lambda b: b.key):
            self._by_namespace.setdefault(budget.namespace, []).append(budget)
            if budget.disrupted:
                self._charged.add(budget.namespace)
        self._matches: dict[tuple[str, int], tuple[Labels, tuple[Budget, ...], tuple[str, ...]]] = {}
        unknown = {b.key: b for group in self._by_namespace.values() for b in group if b.allowed is None}
        self._without_status = frozenset(unknown)
        healthy = dict.fromkeys(unknown, 0)
        if unknown:
            for pod in pods:
                for budget in self.matching(pod):
                    if budget.key in healthy:
                        healthy[budget.key] += 1
        self.allowed: dict[str, int] = {}
        for group in self._by_namespace.values():
            for budget in group:
                self.allowed[budget.key] = (
                    budget.allowed if budget.allowed is not None else from_spec(budget, healthy[budget.key])
                )

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def matching(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that a disruption of this pod would be charged to."""
        found = self._selecting(pod)[0]
        if pod.namespace not in self._charged:
            return found
        # A pod in disruptedPods has been charged already: the API server counts it as gone.
        return tuple(b for b in found if pod.name not in b.disrupted)

    def keys(self, pod: Pod) -> tuple[str, ...]:
        """Their keys."""
        if pod.namespace in self._charged:
            return tuple(b.key for b in self.matching(pod))
        found = self._matches.get((pod.namespace, id(pod.labels)))
        return found[2] if found is not None else self._selecting(pod)[1]

    def by_budget(self, table: PodTable, slots: Ints) -> dict[str, Ints]:
        """Of these slots, those whose disruption each budget would be charged for, by its key; in key order."""
        kins = table.kin[slots]
        found: dict[str, list[Ints]] = {}
        for kin in distinct(kins).tolist():
            namespace, labels = table.kins[kin]
            for budget in self._matching(namespace, labels)[0]:
                mine = slots[kins == kin]
                if budget.disrupted:  # charged already: the API server counts these as gone
                    names = ((s, table.pods[s]) for s in mine.tolist())
                    mine = np.array(
                        [s for s, p in names if p is None or p.name not in budget.disrupted], dtype=np.int64
                    )
                found.setdefault(budget.key, []).append(mine)
        return {key: np.concatenate(found[key]) for key in sorted(found)}

    def draws(self, pods: Iterable[Pod]) -> Counter[str]:
        """How many of these pods each budget would be charged for."""
        out: Counter[str] = Counter()
        for pod in pods:
            for key in self.keys(pod):
                out[key] += 1
        return out

    def _selecting(self, pod: Pod) -> tuple[tuple[Budget, ...], tuple[str, ...]]:
        return self._matching(pod.namespace, pod.labels)

    def _matching(self, namespace: str, labels: Labels) -> tuple[tuple[Budget, ...], tuple[str, ...]]:
        """The budgets of this namespace whose selector selects these labels, and their keys."""
        group = self._by_namespace.get(namespace)
        if not group:
            return (), ()
        key = (namespace, id(labels))
        found = self._matches.get(key)
        if found is None:
            matching = tuple(b for b in group if selector_matches(b.selector, labels))
            # The labels are kept so that their id stays their own.
            found = self._matches[key] = labels, matching, tuple(b.key for b in matching)
        return found[1], found[2]

    def charge(self, pods: Iterable[Pod]) -> None:
        """These pods leave: so much less is allowed from now on."""
        for key, count in self.draws(pods).items():
            self.allowed[key] -= count

    def count(self, leaving: Iterable[Leaving]) -> None:
        """Leaving what no status counts yet. A budget without a status does not count pods that have been seen to
        leave.
        """
        for charge in leaving:
            for key in self.keys(charge.pod):
                if key not in charge.counted and (charge.left is None or key not in self._without_status):
                    self.allowed[key] = max(0, self.allowed[key] - 1)

    def unbreakable(self, pods: Iterable[Pod]) -> set[str]:
        """UIDs of the pods that the eviction API lets go under no circumstances: those whose budget allows nothing
        now, and those under several budgets (the API refuses to evict them).
        """
        out: set[str] = set()
        for pod in pods:
            matching = self.matching(pod)
            if len(matching) > 1 or any(self.allowed[b.key] <= 0 for b in matching):
                out.add(pod.uid)
        return out

    def beyond(self, victims: Sequence[Pod]) -> set[str]:
        """UIDs of the victims that go beyond a budget.

        Victims are walked by priority, highest first, then by namespace/name; one is beyond if any matching
        budget has nothing left, otherwise it takes one from each.
        """
        if not self._by_namespace:
            return set()
        left = dict(self.allowed)
        out: set[str] = set()
        for pod in sorted(victims, key=lambda p: (-p.priority, p.key)):
            keys = self.keys(pod)
            if any(left[key] <= 0 for key in keys):
                out.add(pod.uid)
                continue
            for key in keys:
                left[key] -= 1
        return out

    def exceeded(self, victims: Iterable[Pod]) -> tuple[str, ...]:
        """The budgets (namespace/name) of the victims that go beyond one, in order."""
        pods = list(victims)
        beyond = self.beyond(pods)
        return tuple(sorted({key for p in pods if p.uid in beyond for key in self.keys(p)}))


def from_spec(budget: Budget, healthy: int) -> int:
    """Disruptions that a budget allows when ``healthy`` matching pods run and all of them are expected."""
    if budget.max_unavailable is not None:
        return max(0, _scaled(budget.max_unavailable, healthy))
    minimum = 1 if budget.min_available is None else _scaled(budget.min_available, healthy)
    return max(0, healthy - minimum)


def _scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of ``total`` rounded up, as the disruption controller does it."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * total / 100)
    return int(value)
