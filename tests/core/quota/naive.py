"""The rules of quota told again, slowly and without any state: an oracle for the tree and the search for victims.

Usage of cohorts is summed up from the workloads each time; candidates are listed and sorted whole.
"""

from __future__ import annotations

from gangsched.core.quota.quota import Quota
from gangsched.core.quota.tree import Amounts, Cell, quotas
from gangsched.core.quota.workloads import Admission, Workload
from gangsched.model.queues import ANY, LOWER, NEVER, Limits


class Naive:
    """A quota's objects, and a set of admissions that may be changed at will."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.present: dict[str, Admission] = dict(quota.admissions)
        names = {q.cohort for q in quota.queues.values()} | set(quota.cohorts)
        names |= {c.parent for c in quota.cohorts.values()}
        self.cohorts = sorted(names - {""})

    # -- the tree ------------------------------------------------------------------------------------------

    def parent(self, node: str) -> str:
        """The cohort above a queue (``q:name``) or cohort (``c:name``); empty for a root."""
        kind, name = node[0], node[2:]
        if kind == "q":
            above = self.quota.queues[name].cohort
        else:
            above = self.quota.cohorts[name].parent if name in self.quota.cohorts else ""
        return f"c:{above}" if above else ""

    def children(self, node: str) -> list[str]:
        """Queues and cohorts directly below."""
        below = [f"q:{q}" for q in self.quota.queues] + [f"c:{c}" for c in self.cohorts]
        return [n for n in below if self.parent(n) == node]

    def line(self, node: str) -> list[str]:
        """Ancestors from the parent to the root."""
        out = []
        while node := self.parent(node):
            out.append(node)
        return out

    def limits(self, node: str, cell: Cell) -> Limits:
        """What the object itself says."""
        spec = self.quota.queues[node[2:]] if node[0] == "q" else self.quota.cohorts.get(node[2:])
        return dict(quotas(spec.groups)).get(cell, Limits()) if spec is not None else Limits()

    def subtree(self, node: str, cell: Cell) -> int:
        """Own quota and what children lend."""
        return self.limits(node, cell).nominal + sum(
            self.subtree(c, cell) - self.local(c, cell) for c in self.children(node)
        )

    def local(self, node: str, cell: Cell) -> int:
        """What is never lent."""
        lending = self.limits(node, cell).lending
        return 0 if lending is None else max(0, self.subtree(node, cell) - lending)

    def usage(self, node: str, cell: Cell) -> int:
        """What is used here."""
        if node[0] == "q":
            return sum(
                units
                for a in self.present.values()
                if a.workload.queue == node[2:]
                for used, units in a.usage
                if used == cell
            )
        return sum(max(0, self.usage(c, cell) - self.local(c, cell)) for c in self.children(node))

    def available(self, node: str, cell: Cell) -> int:
        """What more could be used."""
        subtree, local, usage = self.subtree(node, cell), self.local(node, cell), self.usage(node, cell)
        if not self.parent(node):
            return subtree - usage
        above = self.available(self.parent(node), cell)
        borrowing = self.limits(node, cell).borrowing
        if borrowing is not None:
            above = min(above, subtree - local - max(0, usage - local) + borrowing)
        return max(0, local - usage) + above

    def within(self, node: str, cells: set[Cell]) -> bool:
        """Nothing beyond its quota in these."""
        return all(self.usage(node, c) <= self.subtree(node, c) for c in cells)

    # -- victims -------------------------------------------------------------------------------------------

    def victims(self, asks: Workload, requests: Amounts, need: set[Cell]) -> dict[str, str]:
        """Reasons by UID."""
        spec = self.quota.queues[asks.queue]
        me = f"q:{asks.queue}"
        policy = spec.preemption
        same = [
            (a, "InClusterQueue", "")
            for a in self.present.values()
            if a.workload.queue == asks.queue and self._may(policy.within, asks, a) and self._uses(a, need)
        ]
        ahead: list[tuple[Admission, str, str]] = []
        others: list[tuple[Admission, str, str]] = []
        if policy.reclaim != NEVER:
            advantage = all(self.usage(me, c) + u <= self.subtree(me, c) for c, u in requests)
            rest = [(c, max(0, u - max(0, self.local(me, c) - self.usage(me, c)))) for c, u in requests]
            done = me
            for cohort in self.line(me):
                for queue in self._over(cohort, done, need):
                    for a in self.present.values():
                        if f"q:{a.workload.queue}" != queue or not self._uses(a, need):
                            continue
                        if not self._may(policy.reclaim, asks, a):
                            continue
                        if advantage:
                            ahead.append((a, "Hierarchical", cohort))
                            continue
                        high = a.workload.priority >= asks.priority or (
                            policy.threshold is not None and a.workload.priority > policy.threshold
                        )
                        kind = "NotBorrowing" if policy.borrow == NEVER or high else "Borrowing"
                        others.append((a, kind, cohort))
                fits = all(self.usage(cohort, c) + u <= self.subtree(cohort, c) for c, u in rest)
                rest = [(c, max(0, u - max(0, self.local(cohort, c) - self.usage(cohort, c)))) for c, u in rest]
                advantage = advantage or fits
                done = cohort
        under = all(self.usage(me, c) < self.limits(me, c).nominal for c in need)
        if (not ahead and not others) or (policy.borrow == NEVER and not under):
            attempts = [True]
        elif policy.borrow == NEVER and not ahead:
            attempts = [False, True]
        else:
            attempts = [True, False]
        ordered = [
            c
            for evicted in (True, False)
            for listed in (ahead, others, same)
            for c in sorted(listed, key=lambda c: c[0].order)
            if c[0].evicted == evicted
        ]
        for borrowing in attempts:
            found = self._attempt(asks, requests, need, ordered, borrowing)
            if found:
                return found
        return {}

    def _attempt(
        self,
        asks: Workload,
        requests: Amounts,
        need: set[Cell],
        ordered: list[tuple[Admission, str, str]],
        borrowing: bool,
    ) -> dict[str, str]:
        before = dict(self.present)
        taken: list[tuple[Admission, str]] = []
        out: dict[str, str] = {}
        for admission, kind, meeting in ordered:
            if kind != "InClusterQueue":
                if borrowing and kind == "NotBorrowing":
                    continue
                node = f"q:{admission.workload.queue}"
                between = self.line(node)
                if any(self.within(n, need) for n in (node, *between[: between.index(meeting)])):
                    continue
            del self.present[admission.workload.uid]
            taken.append((admission, kind))
            if self._fits(asks, requests, need, borrowing):
                for back, _ in taken[-2::-1]:
                    self.present[back.workload.uid] = back
                    if not self._fits(asks, requests, need, borrowing):
                        del self.present[back.workload.uid]
                words = {"Borrowing": "InCohortReclaimWhileBorrowing", "InClusterQueue": "InClusterQueue"}
                out = {
                    a.workload.uid: words.get(k, "InCohortReclamation")
                    for a, k in taken
                    if a.workload.uid not in self.present
                }
                break
        self.present = before
        return out

    def _fits(self, asks: Workload, requests: Amounts, need: set[Cell], borrowing: bool) -> bool:
        me = f"q:{asks.queue}"
        for cell, units in requests:
            over = self.usage(me, cell) + units > self.limits(me, cell).nominal
            if not borrowing and cell in need and over:  # Kueue: of any cell, short or not (kueue#7393)
                return False
            if units > max(0, self.available(me, cell)):
                return False
        return True

    def _over(self, cohort: str, skip: str, need: set[Cell]) -> list[str]:
        out = []
        for child in self.children(cohort):
            if child == skip or self.within(child, need):
                continue
            out += [child] if child[0] == "q" else self._over(child, skip, need)
        return out

    @staticmethod
    def _uses(admission: Admission, need: set[Cell]) -> bool:
        return any(cell in need for cell, _ in admission.usage)

    @staticmethod
    def _may(policy: str, asks: Workload, admission: Admission) -> bool:
        theirs = admission.workload
        if policy == NEVER:
            return False
        lower = theirs.priority < asks.priority
        if policy == LOWER:
            return lower
        return policy == ANY or lower or (theirs.priority == asks.priority and asks.queued < theirs.queued)
