"""The controllers whose work a scheduler can see: disruption budgets, stale marks, pods of lost nodes."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from gangsched.cluster.sim.clock import VirtualClock
from gangsched.cluster.sim.history import BUDGET, DISRUPTION_CONTROLLER, GONE, POD_GC, UNMARK, Cause
from gangsched.cluster.sim.store import Store
from gangsched.cluster.sim.timing import Timing
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.records import Budget, Pod
from gangsched.model.selectors import selector_matches

BudgetKey = tuple[str, str]


class DisruptionController:
    """Keeps ``disruptionsAllowed`` of every budget, and takes back marks without a removal.

    As many pods are expected as have ever been bound under a budget: behind real pods stands a controller that
    would bring an evicted one back, and its scale does not shrink with an eviction. Pods are healthy while they run
    and do not terminate, and are not already counted as disrupted.
    Rules: https://kubernetes.io/docs/tasks/run-application/configure-pdb/ .
    """

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._expected: dict[BudgetKey, int] = {}
        self._due: set[BudgetKey] = set()
        store.subscribe(self._on_change)

    def catch_up(self) -> None:
        """Compute every budget now, as after a long time without changes."""
        for key in list(self._store.budgets):
            self._recompute(key)

    def _on_change(self, event: Event, old: Any) -> None:
        match event:
            case Changed(Pod() as pod):
                self._pod_changed(pod, old)
                if _marked(pod) and not (old is not None and _marked(old)):
                    self._clock.after(self._timing.stale_mark_seconds, lambda: self._take_back(pod))
            case Gone("Pod"):
                self._pod_changed(old, None)
            case Changed(Budget() as budget):
                self._soon((budget.namespace, budget.name))
            case Gone("PodDisruptionBudget", namespace, name):
                self._expected.pop((namespace, name), None)

    def _pod_changed(self, pod: Pod, old: Pod | None) -> None:
        for key, budget in self._store.budgets.items():
            if any(p is not None and _matches(budget, p) for p in (pod, old)):
                self._soon(key)

    def _soon(self, key: BudgetKey) -> None:
        if key not in self._due:
            self._due.add(key)
            self._clock.after(self._timing.controller_seconds, lambda: self._recompute(key))

    def _recompute(self, key: BudgetKey) -> None:
        self._due.discard(key)
        budget = self._store.budgets.get(key)
        if budget is None or not _has_spec(budget):
            return
        matching = [p for p in self._store.pods.values() if _matches(budget, p) and p.bound]
        live = [p for p in matching if p.live]
        expected = self._expected[key] = max(self._expected.get(key, 0), len(live))
        disrupted = tuple(n for n in budget.disrupted if any(p.name == n for p in live))
        healthy = sum(p.phase == "Running" and p.name not in disrupted for p in live)
        allowed = max(0, healthy - desired_healthy(budget, expected))
        updated = msgspec.structs.replace(budget, allowed=allowed, disrupted=disrupted)
        if updated != budget:
            detail = {"disruptionsAllowed": allowed, "healthy": healthy, "expected": expected}
            self._store.apply(Changed(updated), Cause(DISRUPTION_CONTROLLER, BUDGET, detail))

    def _take_back(self, known: Pod) -> None:
        pod = self._store.pod(known.namespace, known.name, known.uid)
        if pod is None or not _marked(pod) or pod.disruption is None or known.disruption is None:
            return
        if pod.disruption.since != known.disruption.since:
            return  # marked anew meanwhile
        condition = msgspec.structs.replace(pod.disruption, status="False", since=self._clock.stamp)
        self._store.put_pod(msgspec.structs.replace(pod, disruption=condition), Cause(DISRUPTION_CONTROLLER, UNMARK))


class PodGarbageCollector:
    """Deletes the pods of nodes that no longer exist."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        if isinstance(event, Gone) and event.kind == "Node":
            self._clock.after(self._timing.pod_gc_seconds, lambda: self._collect(event.name))

    def _collect(self, node: str) -> None:
        if node in self._store.nodes:
            return
        for pod in list(self._store.pods_on(node)):
            gone = Gone("Pod", pod.namespace, pod.name, pod.uid)
            self._store.apply(gone, Cause(POD_GC, GONE, {"node": node, "reason": "the node is gone"}))


def desired_healthy(budget: Budget, expected: int) -> int:
    """How many of ``expected`` pods the budget wants healthy; without a number in its spec, one."""
    if budget.max_unavailable is not None:
        return max(0, expected - _scaled(budget.max_unavailable, expected))
    return 1 if budget.min_available is None else _scaled(budget.min_available, expected)


def _scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of ``total`` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * total / 100)
    return int(value)


def _has_spec(budget: Budget) -> bool:
    """A budget that came with a status and no numbers to compute one from is left as it is."""
    return budget.allowed is None or budget.min_available is not None or budget.max_unavailable is not None


def _matches(budget: Budget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and selector_matches(budget.selector, pod.labels)


def _marked(pod: Pod) -> bool:
    return pod.disruption_target and pod.deleting_since is None
