"""Evictions under way, and the pods that they make leave: who owns the leaving of which pod, and how far that has come.

An eviction goes through its phases in order; :mod:`gangsched.core.lifecycle.evicting` asks for what each of them needs.
A pod is condemned by one eviction, its owner. Its record says what its leaving costs budgets; what stands on the pod is
read off that (:mod:`gangsched.core.actuation.desired`).
"""

from __future__ import annotations

import enum
import math
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import msgspec

from gangsched.core.actions import MARK_REASON
from gangsched.core.agenda import Page
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.events import Failure, Outcome
from gangsched.model.records import Budget, Pod

#: A removal that was sent shows within this time (seconds), and a budget's status counts it. What does not is not
#: counted on any more.
UNSEEN_SECONDS = 30.0
#: The owner of a pod that no plan needs any more, and whose removal has been sent all the same.
NO_PLAN = ""
#: So often a list is marked again of which others have taken back marks.
_CONFLICTS = 3


class Cause(enum.Enum):
    """Why pods are made to leave."""

    PREEMPTION = "preemption"  # a gang of higher priority, or with a right to their quota, needs their room
    DRAIN = "drain"  # their queue is stopped
    ROLLBACK = "rollback"  # their own gang is bound in part and cannot be whole


class Phase(enum.Enum):
    """How far an eviction has come."""

    NOMINATING = "Nominating"  # those for whom it is are being nominated; nothing has been written to a victim
    NOTICE = "Notice"  # the victims bear the time at which they will be marked and removed, which has not come yet
    MARKING = "Marking"  # the marks, which are the list of victims, are being made durable
    REMOVING = "Removing"  # all of them stand; removals are on their way
    LEAVING = "WaitingForVictims"  # the cluster has accepted the removals; the pods terminate


class VictimState(enum.Enum):
    """How far the eviction of one pod has come. A victim to which nothing has been written has no state."""

    MARKING = "marking"  # its mark has been asked for
    MARKED = "marked"  # the mark is known to stand
    REMOVING = "removing"  # its removal has been asked for: it leaves, unless the answer says otherwise
    UNKNOWN = "unknown"  # the answer to its removal was lost; its mark is known to stand
    UNMARKED = "unmarked"  # others took back its mark after its removal was asked for: it is marked again


#: States in which the mark is known to stand.
_STANDS = (VictimState.MARKED, VictimState.REMOVING, VictimState.UNKNOWN)

#: Phases in which no removal has been asked for, unless an earlier look has.
UNBEGUN = (Phase.NOMINATING, Phase.NOTICE, Phase.MARKING)
#: Those after which it is seen whether (further) victims are removed.
STOPS = (Phase.MARKING, Phase.REMOVING)


def unit_of(victim: Victim) -> UnitRef | str:
    """Return the unit that leaves together with this victim. A member that is taken singly is a unit of its own."""
    return victim.uid if victim.partial else victim.unit


class Grounds(msgspec.Struct, frozen=True):
    """On what grounds pods are made to leave: what stands on them.

    ``owner`` is the gang (``ns/name``) or queue for which they leave, ``ident`` the id of the plan, ``trigger`` the pod
    that represents the gang, ``priority`` the gang's. ``mark`` and ``reason`` are message and reason of the victims'
    DisruptionTarget condition.
    """

    cause: Cause
    owner: str
    scheduler: str
    ident: str
    trigger: str = ""
    priority: float = math.inf
    mark: str = ""
    reason: str = MARK_REASON


class Eviction:
    """Pods that are made to leave together, on behalf of a scheduler. See each attribute."""

    def __init__(self, key: str, grounds: Grounds, victims: Iterable[Victim] = ()) -> None:
        #: That of its writes, and of what it owns.
        self.key = key
        self.grounds = grounds
        #: Its number in the order of decisions; 0: it is for no gang, and waits for none.
        self.number = 0
        self.victims = {v.uid: v for v in victims}
        #: How far each victim has come, by UID, from its mark on.
        self.state: dict[str, VictimState] = {}
        #: Of how many pods each unit consisted when they were first marked.
        self.sizes = Counter(map(unit_of, self.victims.values()))
        self.phase = Phase.NOMINATING
        #: No victim is marked or removed before this time, in whole seconds; 0: at once. Was this plan made because
        #: something had happened while the victims of another had notice?
        self.begins = 0.0
        self.weighed_again = False
        #: Victims of which the API has refused the removal, with its words.
        self.refused: dict[str, str] = {}
        #: Have removals been asked for, by this process or an earlier one? How often were some of them refused because
        #: a pod was not as it was marked?
        self.begun = False
        self.conflicts = 0
        #: By the UID of a Job that is suspended, the victims that leave with it.
        self.leaving_with: dict[str, set[str]] = {}

    def within(self, *states: VictimState) -> set[str]:
        """The victims (UIDs) in one of these states."""
        return {uid for uid, state in self.state.items() if state in states}

    @property
    def removing(self) -> set[str]:
        """The victims (UIDs) whose removal has been asked for and has not failed."""
        return self.within(VictimState.REMOVING)

    def meant(self, uid: str) -> set[str]:
        """The pods that a write to this pod or Job (UID) is about."""
        return self.leaving_with.get(uid, {uid})

    def all_meant(self, failures: Iterable[Failure]) -> set[str]:
        """The pods that these failed writes are about."""
        return {pod for failure in failures for pod in self.meant(failure.uid)}

    def standing(self, pods: Mapping[str, Pod]) -> list[Pod]:
        """Victims that are still there (``pods`` by UID) and not terminating, by name."""
        found = (pods.get(uid) for uid in self.victims)
        return sorted((p for p in found if p is not None and p.live), key=lambda p: p.key)

    def count(self, pods: Mapping[str, Pod]) -> None:
        """Record the size of each unit when it is marked. Pods that left before do not mean that the eviction began."""
        there = (uid for uid in self.victims if (pod := pods.get(uid)) is not None and pod.deleting_since is None)
        self.sizes = Counter(unit_of(self.victims[uid]) for uid in there)

    def to_go(self, pods: Mapping[str, Pod]) -> list[Pod]:
        """Return those of them whose removal is still to be requested, by name."""
        return [pod for pod in self.standing(pods) if self.state.get(pod.uid) is not VictimState.REMOVING]

    def stands(self, uid: str) -> bool:
        """Return whether the mark of a victim is known to stand."""
        return self.state.get(uid) in _STANDS

    def marking(self, uid: str) -> None:
        """Record that the mark of a victim is requested."""
        asked = self.state.get(uid) in (VictimState.UNKNOWN, VictimState.UNMARKED)
        self.state[uid] = VictimState.UNMARKED if asked else VictimState.MARKING

    def lost_mark(self, uid: str) -> None:
        """Others have taken back the mark of a victim that is still to be removed."""
        if self.stands(uid) and self.state[uid] is not VictimState.REMOVING:
            self.marking(uid)

    def removed(self, uid: str) -> bool:
        """Record that the removal of a victim is requested. Return True if it is for the first time."""
        first = self.state.get(uid) is not VictimState.UNKNOWN
        self.state[uid] = VictimState.REMOVING
        return first

    def may_have_left(self, failures: Iterable[Failure]) -> bool:
        """Return whether a victim has been removed, or may have been, though these writes of the phase have failed."""
        failed = self.all_meant(f for f in failures if f.outcome is not Outcome.TRANSIENT)
        return bool((self.removing - failed) | self.within(VictimState.UNKNOWN))

    def begun_units(self, left: Container[str]) -> set[UnitRef | str]:
        """Return the units that leave as a whole for a gang, and of which a pod was removed, or may have been. Pods
        that had ``left`` by themselves (UIDs) were not removed.
        """
        if self.grounds.cause is not Cause.PREEMPTION:
            return set()
        asked = self.within(VictimState.REMOVING, VictimState.UNKNOWN) & self.victims.keys()
        removed = (self.victims[uid] for uid in asked if uid not in left)
        return {victim.unit for victim in removed if not victim.partial and victim.method != "suspend"}

    def record_answers(self, failed: Sequence[Failure]) -> list[Failure]:
        """Every write of the phase has been answered, and these have failed: update the state of the victims. Return
        the failures that matter.

        A victim that is gone has left by itself. One whose removal has failed has not been removed. If it was refused
        because of the state of the pod, others may have taken back the mark.
        """
        failures = [f for f in failed if f.outcome is not Outcome.GONE]
        if self.phase is Phase.MARKING:
            wrong = {f.uid for f in failures}
            for uid in self.within(VictimState.MARKING, VictimState.UNMARKED) - wrong:
                before = self.state[uid]
                self.state[uid] = VictimState.MARKED if before is VictimState.MARKING else VictimState.UNKNOWN
            return failures
        for failure in failures:
            for uid in self.meant(failure.uid) & self.state.keys():
                self.state[uid] = _AFTER.get(failure.outcome, VictimState.MARKED)
                if failure.outcome not in _AFTER:
                    self.refused[uid] = failure.text
        return failures

    def fails(self, failures: Sequence[Failure]) -> bool:
        """Return True if these failures of a phase end it, and count conflicts.

        After removals have begun, an unknown outcome is tried again, and so is a mark that others have taken back. The
        number of such conflicts is limited, because an owner may want the pod to stay.
        """
        outcomes = {f.outcome for f in failures}
        if self.phase is Phase.MARKING:
            return bool(outcomes) and not (self.begun and outcomes <= {Outcome.TRANSIENT})
        if Outcome.CONFLICT in outcomes:
            self.conflicts += 1
            jobs = any(f.outcome is Outcome.CONFLICT and f.uid not in self.victims for f in failures)
            if jobs or self.grounds.cause is not Cause.PREEMPTION or self.conflicts > _CONFLICTS:
                return True
        return not outcomes <= _AFTER.keys()


#: What a failed removal leaves of its victim, where it was not refused.
_AFTER = {Outcome.TRANSIENT: VictimState.UNKNOWN, Outcome.CONFLICT: VictimState.UNMARKED}


class CondemnedPod(msgspec.Struct):
    """A pod that is being evicted, or has left.

    ``owner`` is the key of the eviction that evicts it (None: none does any more). ``named`` is the eviction that
    stands on it by name, or is about to. One that is over stands there until its removal shows, or fails. The pod is
    ``standing`` until it terminates. ``left`` is when it was seen to (seconds), or may have, ``unsure`` when the answer
    to its removal was lost. ``counted`` are the budgets (keys) whose status counts it as gone. ``suspended`` is the Job
    or JobSet (UID) with which it leaves, if that is to be suspended.
    """

    pod: Pod
    owner: str | None = None
    named: Eviction | None = None
    standing: bool = True
    suspended: str = ""
    left: float | None = None
    unsure: float | None = None
    counted: set[str] = msgspec.field(default_factory=set)

    @property
    def charged_until(self) -> float:
        """Until when budgets are charged for it whose status does not count it (seconds): the going of a pod that was
        not healthy changes none.
        """
        return math.inf if self.left is None else self.left + UNSEEN_SECONDS


class Condemned:
    """The pods of all evictions under way. ``evictions`` has these by key.

    Plans have the number of their decision. A plan counts only on what plans of a lower number remove, so that no two
    wait for each other.
    """

    def __init__(self, until: Page[str]) -> None:
        self.evictions: dict[str, Eviction] = {}
        #: The Jobs and JobSets (UIDs) that are to be suspended, with how many of their pods stand.
        self.suspends: Counter[str] = Counter()
        self._begun = 0
        #: Of each pod that is to leave, by UID.
        self.records: dict[str, CondemnedPod] = {}
        self._until = until  # when removals without a plan should have shown
        self._left: deque[tuple[float, str]] = deque()

    # -- evictions -----------------------------------------------------------------------------------------

    def begin(self, eviction: Eviction, *, for_gang: bool = False) -> None:
        """It is under way from now on. One that is not for a gang waits for no other, and none takes its room."""
        self._begun += for_gang
        eviction.number = self._begun if for_gang else 0
        self.evictions[eviction.key] = eviction

    def end(self, eviction: Eviction) -> None:
        """It is over."""
        if self.evictions.get(eviction.key) is eviction:
            del self.evictions[eviction.key]

    def add(self, pod: Pod, key: str, suspended: str = "") -> bool:
        """The eviction makes this pod leave, with the Job or JobSet (UID) that is ``suspended`` for that, if one is,
        unless another owns it. True when it owns the pod from now on.
        """
        found = self._record(pod)
        new = found.owner is None
        if new:
            found.owner = key
            if pod.live:
                found.standing, found.left = True, None
                found.counted.clear()
        if pod.live and suspended and not found.suspended:
            found.suspended = suspended
            self.suspends[suspended] += 1
        return new

    def name(self, pod: Pod, eviction: Eviction) -> None:
        """The pod is on the list of this eviction: it names it as its owner, or will."""
        self._record(pod).named = eviction

    def _record(self, pod: Pod) -> CondemnedPod:
        found = self.records.get(pod.uid)
        if found is None:
            found = self.records[pod.uid] = CondemnedPod(pod, standing=pod.live)
        return found

    def spare(self, uid: str, key: str) -> bool:
        """The eviction does not need this pod to leave. True when it was its owner."""
        found = self.records.get(uid)
        if found is None or found.owner != key:
            return False
        found.owner = None
        if key == NO_PLAN:
            self._until.never(uid)
        self._stands_no_more(found)
        if found.unsure is not None and found.left is None:
            self._leave(found, found.unsure)
        self._tidy(uid, found)
        return True

    def forget_name(self, uid: str, key: str) -> Eviction | None:
        """Record that the pod does not name the eviction with this key any more. Return that eviction, if it did."""
        found = self.records.get(uid)
        eviction = found.named if found is not None else None
        if found is None or eviction is None or eviction.key != key:
            return None
        found.named = None
        self._tidy(uid, found)
        return eviction

    def _stands_no_more(self, found: CondemnedPod) -> None:
        found.standing = False
        if found.suspended:
            self.suspends[found.suspended] -= 1
            if not self.suspends[found.suspended]:
                del self.suspends[found.suspended]
            found.suspended = ""

    def _tidy(self, uid: str, found: CondemnedPod) -> None:
        if found.owner is None and found.named is None and found.left is None:
            del self.records[uid]

    def sent(self, uid: str, key: str, now: float) -> None:
        """The eviction does not need the pod to leave, but has sent its removal: it leaves unless that shows
        otherwise.
        """
        found = self.records.get(uid)
        if found is not None and found.owner == key:
            found.owner = NO_PLAN
            self._until.at(uid, now + UNSEEN_SECONDS)

    def unseen(self, now: float) -> list[str]:
        """UIDs of pods of which a removal was sent that has not shown in time."""
        return self._until.due(now)

    # -- what happens --------------------------------------------------------------------------------------

    def leaves(self, uid: str, now: float) -> None:
        """The pod has been seen to terminate."""
        found = self.records.get(uid)
        if found is not None and found.standing:
            self._stands_no_more(found)
            if found.owner is not None:
                self._leave(found, now)

    def answer_lost(self, uids: Iterable[str], now: float) -> None:
        """Record that the removals of these pods may have had an effect. Even if they need not leave any more, budgets
        are charged as if the pods had been seen to leave now.
        """
        for found in filter(None, map(self.records.get, uids)):
            found.unsure = now

    def _leave(self, found: CondemnedPod, now: float) -> None:
        found.left = now
        self._left.append((now, found.pod.uid))

    def record_left(self, uid: str, now: float) -> None:
        """Record that the pod takes no room any more."""
        self.leaves(uid, now)
        self._until.never(uid)
        found = self.records.get(uid)
        if found is not None:
            found.owner = found.named = None
            self._tidy(uid, found)

    def budget_changed(self, budget: Budget, before: Budget) -> None:
        """A budget is shown, which was as ``before``. Its status counts the pods that it names. One that the disruption
        controller has computed since counts pods that have been seen to leave, too. This is neither the same status
        once more nor one with further names, which the API server adds.
        """
        status, named = (budget.allowed, budget.disrupted), set(budget.disrupted)
        anew = status != (before.allowed, before.disrupted) and named <= set(before.disrupted)
        for charge in self.records.values() if anew or named else ():
            if charge.pod.namespace == budget.namespace and (
                charge.pod.name in named or (anew and charge.left is not None)
            ):
                charge.counted.add(budget.key)

    # -- questions -----------------------------------------------------------------------------------------

    def __contains__(self, uid: object) -> bool:
        return isinstance(uid, str) and self.owner(uid) is not None

    def owner(self, uid: str) -> str | None:
        """The key of the eviction that makes a pod leave; None: none does."""
        found = self.records.get(uid)
        return found.owner if found is not None else None

    def owned_by(self, uid: str) -> Eviction | None:
        """The eviction that makes a pod leave, if it is under way."""
        return self.evictions.get(self.owner(uid) or NO_PLAN)

    def named(self, uid: str) -> Eviction | None:
        """The eviction that a pod names as its owner, or is about to."""
        found = self.records.get(uid)
        return found.named if found is not None else None

    def leaves_for_others(self, uid: str, key: str) -> bool:
        """Return True if an eviction other than that of this key has asked for the removal of the pod, and it has not
        failed.
        """
        owner = self.owner(uid)
        if owner is None or owner == key:
            return False
        eviction = self.evictions.get(owner)
        return owner == NO_PLAN or (eviction is not None and uid in eviction.removing)

    def removed_for(self, uid: str) -> str | None:
        """The name of the gang whose plan makes a pod leave; None if none is known."""
        plan = self.owned_by(uid)
        return plan.grounds.owner if plan is not None and plan.number else None

    def counts_on(self, uid: str, key: str) -> bool:
        """Return True if the plan with this key, or a gang without a plan, may count on the pod's room."""
        owner, mine = self.owner(uid), self.evictions.get(key)
        if owner is None or owner == NO_PLAN:
            return owner == NO_PLAN
        plan = self.evictions.get(owner)
        return owner != key and plan is not None and plan.number < (mine.number if mine is not None else math.inf)

    def gone_for(self, key: str, priority: float = -math.inf) -> list[str]:
        """UIDs of the pods on whose leaving that plan may count, by plans of at least this priority; in no order. Pods
        that terminate already are left out.
        """
        standing = (uid for uid, found in self.records.items() if found.standing)
        return [uid for uid in standing if self._by(uid, priority) and self.counts_on(uid, key)]

    def _by(self, uid: str, priority: float) -> bool:
        plan = self.owned_by(uid)
        return plan is None or not plan.number or plan.grounds.priority >= priority

    def weaker_owners(self, uids: Iterable[str], priority: float) -> set[str]:
        """The keys of the plans for gangs below this priority that make these pods leave, as far as they stand."""
        plans = {uid: self.owned_by(uid) for uid in uids if uid in self.records and self.records[uid].standing}
        return {p.key for p in plans.values() if p is not None and p.number and p.grounds.priority < priority}

    def after(self, key: str) -> list[str]:
        """The keys of the plans that were made after the one with this key, and with its room taken. A stronger one has
        not seen that.
        """
        mine = self.evictions.get(key)
        if mine is None or not mine.number:
            return []
        later = ((other, p) for other, p in self.evictions.items() if p.number > mine.number)
        return [other for other, plan in later if plan.grounds.priority <= mine.grounds.priority]

    def charges(self, key: str, but: Container[str], now: float) -> Iterator[CondemnedPod]:
        """Return what budgets are charged for before the plan with this key, or a gang without a plan, without these
        pods (UIDs). A later plan's share of a budget is not taken from an earlier one.
        """
        while self._left and self._left[0][0] + UNSEEN_SECONDS <= now:
            since, uid = self._left.popleft()
            if uid in self.records and self.records[uid].left == since:
                self.records[uid].left = None
                self._tidy(uid, self.records[uid])
        for uid, charge in self.records.items():
            if uid not in but and (charge.left is not None or (charge.standing and self.counts_on(uid, key))):
                yield charge
