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
#: The owner of what no plan needs any more, and whose removal has been sent all the same.
NO_PLAN = ""


class Charge(msgspec.Struct):
    """What the leaving of a pod costs budgets that do not count it yet.

    ``left`` is when it was seen to terminate or to be gone (seconds); None: neither. ``counted`` are the budgets (keys)
    whose status has arrived since.
    """

    pod: Pod
    left: float | None = None
    counted: set[str] = msgspec.field(default_factory=set)


class _Plan(msgspec.Struct, frozen=True):
    number: int
    name: str
    priority: float


class Condemned:
    """The pods of every eviction under way, by UID, each with the plans (keys of groups) that own it.

    Plans have the number of their decision. A plan counts only on what plans of a lower number remove, so that no two
    wait for each other.
    """

    def __init__(self) -> None:
        self._plans: dict[str, _Plan] = {}
        self._begun = 0
        self._owners: dict[str, set[str]] = {}
        self._standing: set[str] = set()  # those of them that do not terminate yet
        self._until: dict[str, float] = {}
        self._charges: dict[str, Charge] = {}
        self._left: deque[tuple[float, str]] = deque()

    # -- plans ---------------------------------------------------------------------------------------------

    def begin(self, key: str, name: str = "", priority: float | None = None) -> None:
        """There is a plan with this key from now on. ``name`` and ``priority`` are those of the gang it is for; a plan
        without either waits for no other, and none takes its room.
        """
        self._begun += priority is not None
        number, weight = (0, math.inf) if priority is None else (self._begun, priority)
        self._plans[key] = _Plan(number, name, weight)

    def end(self, key: str) -> None:
        """There is no plan with this key any more, and it owns nothing."""
        self._plans.pop(key, None)

    def add(self, pod: Pod, key: str) -> bool:
        """The plan makes this pod leave. True when no other did until now."""
        new = pod.uid not in self._owners
        self._owners.setdefault(pod.uid, set()).add(key)
        if pod.live:
            self._standing.add(pod.uid)
            if pod.uid not in self._charges:
                self._charges[pod.uid] = Charge(pod)
        return new

    def spare(self, uid: str, key: str) -> bool:
        """The plan does not need this pod to leave. True when none does any more."""
        owners = self._owners.get(uid)
        if owners is None or key not in owners:
            return False
        owners.discard(key)
        if key == NO_PLAN:
            self._until.pop(uid, None)
        if owners:
            return False
        del self._owners[uid]
        self._standing.discard(uid)
        charge = self._charges.get(uid)
        if charge is not None and charge.left is None:
            del self._charges[uid]
        return True

    def sent(self, uid: str, key: str, now: float) -> None:
        """The plan does not need the pod to leave, but has sent its removal: it leaves unless that shows otherwise."""
        owners = self._owners.get(uid)
        if owners is not None and key in owners:
            owners.discard(key)
            owners.add(NO_PLAN)
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
        self._standing.discard(uid)
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
        """The status of a budget has arrived: it counts those that have been seen to leave before, and those that it
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
        """The name of the gang whose plan makes a pod leave, the first plan of several; None if none is known."""
        found = [self._plans[key] for key in self._owners.get(uid, ()) if key in self._plans]
        first = min(found, key=lambda plan: plan.number, default=None)
        return first.name or None if first is not None else None

    def counts_on(self, uid: str, key: str) -> bool:
        """May the plan with this key, or a gang without a plan, count on the pod to be gone?"""
        mine = self._plans.get(key)
        below = mine.number if mine is not None else math.inf
        for owner in self._owners.get(uid, ()):
            plan = self._plans.get(owner)
            if owner == NO_PLAN or (owner != key and plan is not None and plan.number < below):
                return True
        return False

    def gone_for(self, key: str, priority: float = -math.inf) -> list[str]:
        """UIDs of the pods on whose leaving that plan may count, by plans of at least this priority; in no order. Those
        that terminate already are left out.
        """
        return [uid for uid in self._standing if self._by(uid, priority) and self.counts_on(uid, key)]

    def _by(self, uid: str, priority: float) -> bool:
        plans = (self._plans.get(owner) for owner in self._owners[uid])
        return priority == -math.inf or any(plan is None or plan.priority >= priority for plan in plans)

    def after(self, key: str) -> list[str]:
        """The keys of the plans that were made after the one with this key, and with its room taken. A stronger one has
        not seen that.
        """
        mine = self._plans.get(key)
        if mine is None or not mine.number:
            return []
        later = ((other, p) for other, p in self._plans.items() if p.number > mine.number)
        return [other for other, plan in later if plan.priority <= mine.priority]

    def has_plan(self, key: str) -> bool:
        """Is there a plan with this key?"""
        return key in self._plans

    def charges(self, key: str, but: Container[str], now: float) -> Iterator[Charge]:
        """What budgets have to be charged for before the plan with this key, or a gang without a plan; these pods
        (UIDs) aside. What a later plan takes of a budget is not taken from an earlier one.
        """
        while self._left and self._left[0][0] + UNSEEN_SECONDS <= now:
            self._charges.pop(self._left.popleft()[1], None)
        for uid, charge in self._charges.items():
            if uid not in but and (charge.left is not None or self.counts_on(uid, key)):
                yield charge
