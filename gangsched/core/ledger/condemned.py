"""Pods that are to leave, the plans that make them, and the disruption budgets to which they are charged."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Container, Iterator

import msgspec

from gangsched.model.records import Budget, Pod

#: A removal that was sent shows within this time (seconds), and a budget's status counts it. What does not is not
#: counted on any more.
UNSEEN_SECONDS = 30.0
#: The owner of what nobody's plan needs any more, and whose removal has been sent all the same.
NOBODY = ""


class Charge(msgspec.Struct):
    """What the leaving of a pod costs budgets that do not count it yet.

    ``left`` is when it was seen to terminate or to be gone (seconds); None: neither. ``counted`` are the budgets (keys)
    whose status has been told since.
    """

    pod: Pod
    left: float | None = None
    counted: set[str] = msgspec.field(default_factory=set)


class _Plan(msgspec.Struct, frozen=True):
    number: int
    name: str


class Condemned:
    """The pods of every eviction under way, by UID, each with the plans (keys of groups) that own it.

    Plans have the number of their decision. A plan counts only on what plans of a lower number remove, so that no two
    wait for each other.
    """

    def __init__(self) -> None:
        self._plans: dict[str, _Plan] = {}
        self._begun = 0
        self._owners: dict[str, set[str]] = {}
        self._until: dict[str, float] = {}
        self._charges: dict[str, Charge] = {}
        self._left: deque[tuple[float, str]] = deque()

    # -- plans ---------------------------------------------------------------------------------------------

    def begin(self, key: str, name: str, *, waits: bool = True) -> None:
        """There is a plan with this key from now on; ``name`` is that of whoever it is for, empty for nobody. One that
        never ``waits`` for what others remove comes before all that do.
        """
        self._begun += waits
        self._plans[key] = _Plan(self._begun if waits else 0, name)

    def end(self, key: str) -> None:
        """There is no plan with this key any more, and it owns nothing."""
        self._plans.pop(key, None)

    def add(self, pod: Pod, key: str) -> bool:
        """The plan makes this pod leave. True when nobody's did until now."""
        new = pod.uid not in self._owners
        self._owners.setdefault(pod.uid, set()).add(key)
        if pod.uid not in self._charges:
            self._charges[pod.uid] = Charge(pod)
        return new

    def spare(self, uid: str, key: str) -> bool:
        """The plan does not need this pod to leave. True when nobody makes it leave since now."""
        owners = self._owners.get(uid)
        if owners is None or key not in owners:
            return False
        owners.discard(key)
        if key == NOBODY:
            self._until.pop(uid, None)
        if owners:
            return False
        del self._owners[uid]
        charge = self._charges.get(uid)
        if charge is not None and charge.left is None:
            del self._charges[uid]
        return True

    def sent(self, uid: str, key: str, now: float) -> None:
        """The plan does not need the pod to leave, but has sent its removal: it leaves unless that shows otherwise."""
        owners = self._owners.get(uid)
        if owners is not None and key in owners:
            owners.discard(key)
            owners.add(NOBODY)
            self._until[uid] = now + UNSEEN_SECONDS

    def unseen(self, now: float) -> list[str]:
        """UIDs of pods of which a removal was sent that has not shown in time."""
        return [uid for uid, until in self._until.items() if until <= now]

    def wake_at(self) -> float | None:
        """When :meth:`unseen` will have something; None: never."""
        return min(self._until.values(), default=None)

    # -- what happens --------------------------------------------------------------------------------------

    def leaves(self, uid: str, now: float) -> None:
        """The pod has been seen to terminate."""
        charge = self._charges.get(uid)
        if charge is not None and charge.left is None:
            charge.left = now
            self._left.append((now, uid))

    def gone(self, uid: str, now: float) -> None:
        """The pod takes no room any more."""
        self.leaves(uid, now)
        self._owners.pop(uid, None)
        self._until.pop(uid, None)

    def counted(self, budget: Budget) -> None:
        """The status of a budget has been told: it counts those that have been seen to leave before, and those that it
        names.
        """
        for charge in self._charges.values():
            if charge.pod.namespace == budget.namespace and (
                charge.left is not None or charge.pod.name in budget.disrupted
            ):
                charge.counted.add(budget.key)

    # -- questions -----------------------------------------------------------------------------------------

    def __contains__(self, uid: object) -> bool:
        return uid in self._owners

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owners(self, uid: str) -> Collection[str]:
        """The keys of the plans that make a pod leave."""
        return self._owners.get(uid, ())

    def removed_for(self, uid: str) -> str | None:
        """The name of whoever's plan makes a pod leave, the first plan of several; None if nobody's is known."""
        found = [self._plans[key] for key in self._owners.get(uid, ()) if key in self._plans]
        first = min(found, key=lambda plan: plan.number, default=None)
        return first.name or None if first is not None else None

    def counts_on(self, uid: str, key: str) -> bool:
        """May the plan with this key, or who has none yet, count on the pod to be gone?"""
        below = self._number(key)
        return any(o == NOBODY or (o != key and self._number(o) < below) for o in self._owners.get(uid, ()))

    def _number(self, key: str) -> float:
        plan = self._plans.get(key)
        return plan.number if plan is not None else math.inf

    def gone_for(self, key: str) -> Iterator[str]:
        """UIDs of the pods on whose leaving that plan may count."""
        return (uid for uid in self._owners if self.counts_on(uid, key))

    def charges(self, but: Container[str], now: float) -> Iterator[Charge]:
        """What budgets have to be charged for, other than for these pods (UIDs)."""
        while self._left and self._left[0][0] + UNSEEN_SECONDS <= now:
            self._charges.pop(self._left.popleft()[1], None)
        yield from (charge for uid, charge in self._charges.items() if uid not in but)
