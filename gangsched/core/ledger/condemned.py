"""Evictions under way, and the pods that they make leave: who owns the leaving of which pod, and how far that has come.

An eviction goes through its phases in order; :mod:`gangsched.core.lifecycle.evicting` asks for what each of them needs.
Each condemned pod has one record, which says who needs it to leave, whom it is to name as its owners, and what its
leaving costs budgets; what stands on the pod is read off that (:mod:`gangsched.core.actuation.desired`).
"""

from __future__ import annotations

import enum
import math
from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

import msgspec

from gangsched.core.actions import MARK_REASON
from gangsched.core.agenda import Page
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.events import Failure, Outcome
from gangsched.messages import notes
from gangsched.model.records import Budget, Pod

#: A removal that was sent shows within this time (seconds), and a budget's status counts it. What does not is not
#: counted on any more.
UNSEEN_SECONDS = 30.0
#: The owner of what no plan needs any more, and whose removal has been sent all the same.
NO_PLAN = ""
#: So often a list is marked again of which others have taken back marks.
_CONFLICTS = 3
_DIFFERS = frozenset({Outcome.TRANSIENT, Outcome.OUTDATED})
#: Outcomes of removals that do not say that the pod stays.
_UNKNOWN = (Outcome.GONE, Outcome.TRANSIENT)


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


#: Phases in which no removal has been asked for, unless an earlier process, or an earlier look, has.
UNBEGUN = (Phase.NOMINATING, Phase.NOTICE, Phase.MARKING)
#: Those after which it is seen whether (further) victims are removed.
STOPS = (Phase.MARKING, Phase.REMOVING)


def unit_of(victim: Victim) -> UnitRef | str:
    """What leaves together with this victim; a member that is taken singly is a unit of its own."""
    return victim.uid if victim.partial else victim.unit


class Eviction:
    """Pods that are made to leave together, on behalf of a scheduler. See each attribute."""

    def __init__(
        self, cause: Cause, key: str, owner: str, scheduler: str, ident: str, victims: Iterable[Victim] = ()
    ) -> None:
        self.cause = cause
        #: That of its writes, and of what it owns.
        self.key = key
        #: The gang (``ns/name``) or queue for which the pods leave.
        self.owner = owner
        self.scheduler = scheduler
        #: The id of the plan, and its number in the order of decisions; 0: it is for no gang, and waits for none.
        self.ident = ident
        self.number = 0
        self.victims = {v.uid: v for v in victims}
        #: Of how many pods each unit consisted when they were first marked.
        self.sizes = Counter(map(unit_of, self.victims.values()))
        #: Message and reason of the victims' DisruptionTarget condition.
        self.mark = ""
        self.reason = MARK_REASON
        #: The pod that represents the gang, and the gang's priority.
        self.trigger = ""
        self.priority = math.inf
        self.phase = Phase.NOMINATING
        #: No victim is marked or removed before this time, in whole seconds; 0: at once. Was this plan made because
        #: something had happened while the victims of another had notice?
        self.begins = 0.0
        self.weighed_again = False
        #: Victims, by UID, on whom it is to stand, those of whom is known that it does, and those that are to go.
        self.marked: set[str] = set()
        self.acknowledged: set[str] = set()
        self.removed: set[str] = set()
        #: Victims whom an earlier process had removed, and others of their unit.
        self.left: set[str] = set()
        #: Victims whose removal may or may not have taken effect, those of whom the API has refused it, with its words,
        #: and those that ended, or were gone, before they were removed.
        self.unsure: set[str] = set()
        self.refused: dict[str, str] = {}
        self.ended: set[str] = set()
        #: Without an owner it is waited until then whether such a removal shows; 0: there is none.
        self.shows_until = 0.0
        #: Victims whose removal has been reported.
        self.reported: set[str] = set()
        #: Were removals asked for? How often were some of them refused because a pod was not as it was marked?
        self.announced = False
        self.conflicts = 0
        #: By the UID of a Job that loses pods by it: how many had failed when it was decided, and was it known that the
        #: Job would fail?
        self.jobs: dict[str, tuple[int, bool]] = {}
        #: By the UID of a Job that is suspended, the victims that leave with it.
        self.leaving_with: dict[str, set[str]] = {}
        #: The key of the eviction that was abandoned with this one as its rest; empty: it has an owner.
        self.former = ""

    @property
    def begun(self) -> bool:
        """Have removals been asked for, by this process or an earlier one?"""
        return self.announced or bool(self.left)

    def meant(self, uid: str) -> set[str]:
        """The pods that a write to this pod or Job (UID) is about."""
        return self.leaving_with.get(uid, {uid})

    def all_meant(self, failures: Iterable[Failure]) -> set[str]:
        """The pods that these failed writes are about."""
        return {pod for failure in failures for pod in self.meant(failure.uid)}

    def rest(self, victims: Iterable[Victim]) -> Eviction:
        """What goes on of it for these victims when it is abandoned, as far as it has come."""
        out = Eviction(self.cause, notes.rest_of(plan=self.ident), self.owner, self.scheduler, self.ident, victims)
        out.former, out.phase, out.announced = self.key, Phase.REMOVING, True
        out.mark, out.reason, out.trigger, out.priority = self.mark, self.reason, self.trigger, self.priority
        out.acknowledged, out.removed, out.left = set(self.acknowledged), set(self.removed), set(self.left)
        out.unsure, out.sizes = set(self.unsure), self.sizes
        return out

    def standing(self, pods: Mapping[str, Pod]) -> list[Pod]:
        """Victims that are still there (``pods`` by UID) and not terminating, by name."""
        found = (pods.get(uid) for uid in self.victims)
        return sorted((p for p in found if p is not None and p.live), key=lambda p: p.key)

    def count(self, pods: Mapping[str, Pod]) -> None:
        """How many of each unit are to bear its mark: who leaves, or is gone, before that is no sign that it has begun,
        and one that has ended by itself says so.
        """
        there = (uid for uid in self.victims if (pod := pods.get(uid)) is not None and pod.deleting_since is None)
        self.sizes = Counter(unit_of(self.victims[uid]) for uid in there)

    def to_go(self, pods: Mapping[str, Pod]) -> list[Pod]:
        """Those of them whose removal is still to be asked for, by name."""
        return [pod for pod in self.standing(pods) if pod.uid not in self.removed]

    def begun_units(
        self, pods: Mapping[str, Pod], unanswered: Collection[str], failures: Sequence[Failure]
    ) -> set[UnitRef | str]:
        """The units of which a pod has been removed for this eviction, as is known or as it shows: what others delete
        does not count. Removals of ``unanswered`` pods (UIDs) may not have taken effect, and these have failed in this
        phase. Who is gone after a removal without an answer has been removed; who was gone, or had ended, before one
        had an effect has not.
        """
        if not self.begun:
            return set()
        asked = self.removed | self.unsure
        left = {uid for uid in asked if (pod := pods.get(uid)) is not None and pod.deleting_since is not None}
        left |= self.accepted(unanswered, failures) | {uid for uid in self.unsure if uid not in pods}
        left = left - self.ended - self._by_others(failures) | self.left
        return {unit_of(self.victims[uid]) for uid in left if uid in self.victims}

    def in_doubt(self, pods: Mapping[str, Pod]) -> set[UnitRef | str]:
        """The units of which a pod may have been removed: it stands, as far as is known, and the answer was lost."""
        return {unit_of(self.victims[pod.uid]) for pod in self.to_go(pods) if pod.uid in self.unsure}

    def accepted(self, unanswered: Collection[str], failures: Iterable[Failure]) -> set[str]:
        """The pods that have been removed, as far as answers say."""
        failed = self.all_meant(f for f in failures if f.outcome not in _UNKNOWN)
        return self.removed.difference(unanswered, failed)

    def _by_others(self, failures: Iterable[Failure]) -> set[str]:
        """The pods that were gone before they were removed, as far as no earlier answer was lost."""
        return self.all_meant(f for f in failures if f.outcome is Outcome.GONE) - self.unsure

    def settle(self, failed: Sequence[Failure]) -> list[Failure]:
        """Every write of the phase has been answered, and these have failed: that is what is known to stand. Returns
        what matters. A victim that is gone has left by itself; one whose removal has failed has not been
        removed, and where it was refused because of the state of the pod, others may have taken back the mark.
        """
        failures = [f for f in failed if f.outcome is not Outcome.GONE]
        if self.phase is Phase.MARKING:
            self.acknowledged = self.marked.difference(f.uid for f in failures)
            return failures
        self.ended |= self._by_others(failed)
        for failure in failures:
            pods = self.meant(failure.uid)
            self.removed -= pods
            if failure.outcome is Outcome.TRANSIENT:
                self.unsure |= pods
            elif failure.outcome is Outcome.CONFLICT:
                self.acknowledged -= pods
            elif failure.outcome is not Outcome.OUTDATED:
                self.refused.update(dict.fromkeys(pods, failure.text))
        return failures

    def fails(self, failures: Sequence[Failure]) -> bool:
        """Do these failures of a phase end it? What is unknown or was not sent still differs from what is wanted once
        removals have begun; a mark that others have taken back does, too. Not for ever: an owner may want the pod to
        stay.
        """
        outcomes = {f.outcome for f in failures}
        if self.phase is Phase.MARKING:
            return bool(outcomes) and not (self.begun and outcomes <= _DIFFERS)
        if Outcome.CONFLICT in outcomes:
            self.conflicts += 1
            jobs = any(f.outcome is Outcome.CONFLICT and f.uid not in self.victims for f in failures)
            if jobs or self.cause is not Cause.PREEMPTION or self.conflicts > _CONFLICTS:
                return True
        return not outcomes <= {Outcome.CONFLICT, *_DIFFERS}


class Leaving(msgspec.Struct):
    """A pod that is made to leave, or has left.

    ``owners`` are the keys of the evictions that need it to leave, ``named`` those that stand on it by name, or are
    about to: one that is over stands there until its removal shows, or fails. It is ``standing`` until it terminates.
    ``left`` is when it was seen to (seconds), or may have, ``unsure`` when the answer to its removal was lost.
    ``counted`` are the budgets (keys) whose status counts it as gone.
    ``suspended`` is the Job or JobSet (UID) with which it leaves, if that is to be suspended.
    """

    pod: Pod
    owners: set[str] = msgspec.field(default_factory=set)
    named: dict[str, Eviction] = msgspec.field(default_factory=dict)
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
    """The pods of all evictions under way. ``evictions`` has these by key, ``rests`` those of them without a gang.

    Plans have the number of their decision. A plan counts only on what plans of a lower number remove, so that no two
    wait for each other.
    """

    def __init__(self, until: Page[str]) -> None:
        self.evictions: dict[str, Eviction] = {}
        self.rests: dict[str, Eviction] = {}
        #: The Jobs and JobSets (UIDs) that are to be suspended, with how many of their pods stand.
        self.suspends: Counter[str] = Counter()
        self._begun = 0
        #: Of each pod that is to leave, by UID.
        self.records: dict[str, Leaving] = {}
        self._until = until  # when removals without a plan should have shown
        self._left: deque[tuple[float, str]] = deque()

    # -- evictions -----------------------------------------------------------------------------------------

    def begin(self, eviction: Eviction, *, for_gang: bool = False) -> None:
        """It is under way from now on. One that is not for a gang waits for no other, and none takes its room."""
        self._begun += for_gang
        eviction.number = self._begun if for_gang else 0
        self.evictions[eviction.key] = eviction
        if eviction.former:
            self.rests[eviction.key] = eviction

    def end(self, eviction: Eviction) -> None:
        """It is over."""
        if self.evictions.get(eviction.key) is eviction:
            del self.evictions[eviction.key]
            self.rests.pop(eviction.key, None)

    def add(self, pod: Pod, key: str, suspended: str = "") -> bool:
        """The eviction makes this pod leave, with the Job or JobSet (UID) that is ``suspended`` for that, if one is.
        True when no other did until now.
        """
        found = self._record(pod)
        new = not found.owners
        found.owners.add(key)
        if new and pod.live:
            found.standing, found.left = True, None
            found.counted.clear()
        if pod.live and suspended and not found.suspended:
            found.suspended = suspended
            self.suspends[suspended] += 1
        return new

    def name(self, pod: Pod, eviction: Eviction) -> None:
        """The pod is on the list of this eviction: it names it as an owner, or will."""
        eviction.marked.add(pod.uid)
        self._record(pod).named[eviction.key] = eviction

    def _record(self, pod: Pod) -> Leaving:
        found = self.records.get(pod.uid)
        if found is None:
            found = self.records[pod.uid] = Leaving(pod, standing=pod.live)
        return found

    def spare(self, uid: str, key: str) -> bool:
        """The eviction does not need this pod to leave. True when none does any more."""
        found = self.records.get(uid)
        if found is None or key not in found.owners:
            return False
        found.owners.discard(key)
        if key == NO_PLAN:
            self._until.never(uid)
        if not found.owners:
            self._stands_no_more(found)
            if found.unsure is not None and found.left is None:
                self._leave(found, found.unsure)
        self._tidy(uid, found)
        return not found.owners

    def unname(self, uid: str, key: str) -> Eviction | None:
        """The pod does not name the eviction with this key any more. Returns that, if it did."""
        found = self.records.get(uid)
        eviction = found.named.pop(key, None) if found is not None else None
        if found is not None:
            self._tidy(uid, found)
        return eviction

    def _stands_no_more(self, found: Leaving) -> None:
        found.standing = False
        if found.suspended:
            self.suspends[found.suspended] -= 1
            if not self.suspends[found.suspended]:
                del self.suspends[found.suspended]
            found.suspended = ""

    def _tidy(self, uid: str, found: Leaving) -> None:
        if not found.owners and not found.named and found.left is None:
            del self.records[uid]

    def sent(self, uid: str, key: str, now: float) -> None:
        """The eviction does not need the pod to leave, but has sent its removal: it leaves unless that shows
        otherwise.
        """
        found = self.records.get(uid)
        if found is not None and key in found.owners:
            found.owners.discard(key)
            found.owners.add(NO_PLAN)
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
            if found.owners:
                self._leave(found, now)

    def answer_lost(self, uids: Iterable[str], now: float) -> None:
        """The removals of these pods may or may not have had an effect: even if they need not leave any more, budgets
        are charged as if they had been seen to leave now.
        """
        for found in filter(None, map(self.records.get, uids)):
            found.unsure = now

    def _leave(self, found: Leaving, now: float) -> None:
        found.left = now
        self._left.append((now, found.pod.uid))

    def gone(self, uid: str, now: float) -> None:
        """The pod takes no room any more."""
        self.leaves(uid, now)
        self._until.never(uid)
        found = self.records.get(uid)
        if found is not None:
            found.owners.clear()
            found.named.clear()
            self._tidy(uid, found)

    def counted(self, budget: Budget, before: Budget) -> None:
        """A budget is shown, which was as ``before``. Its status counts the pods that it names. One that the disruption
        controller has computed since counts those that have been seen to leave, too: not the same status once more, nor
        one with further names, which the API server adds.
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
        return isinstance(uid, str) and bool(self.owners(uid))

    def owners(self, uid: str) -> Collection[str]:
        """The keys of the evictions that make a pod leave."""
        found = self.records.get(uid)
        return found.owners if found is not None else ()

    def named(self, uid: str) -> Mapping[str, Eviction]:
        """The evictions that a pod names as its owners, or is about to, by key."""
        found = self.records.get(uid)
        return found.named if found is not None else {}

    def first(self, uid: str) -> Eviction | None:
        """One of the evictions that make a pod leave."""
        owners = (self.evictions.get(key) for key in sorted(self.owners(uid)))
        return next((e for e in owners if e is not None and uid in e.victims), None)

    def leaves_for_others(self, uid: str, key: str) -> bool:
        """Has the removal of the pod been asked for by another eviction than that of this key, and not failed?"""
        for other in self.owners(uid):
            eviction = self.evictions.get(other)
            if other == NO_PLAN or (other != key and eviction is not None and uid in eviction.removed):
                return True
        return False

    def removed_for(self, uid: str) -> str | None:
        """The name of the gang whose plan makes a pod leave, the first plan of several; None if none is known."""
        found = [self.evictions[key] for key in self.owners(uid) if key in self.evictions]
        first = min(found, key=lambda plan: plan.number, default=None)
        return first.owner if first is not None and first.number else None

    def counts_on(self, uid: str, key: str) -> bool:
        """May the plan with this key, or a gang without a plan, count on the pod to be gone?"""
        mine = self.evictions.get(key)
        below = mine.number if mine is not None else math.inf
        for owner in self.owners(uid):
            plan = self.evictions.get(owner)
            if owner == NO_PLAN or (owner != key and plan is not None and plan.number < below):
                return True
        return False

    def gone_for(self, key: str, priority: float = -math.inf) -> list[str]:
        """UIDs of the pods on whose leaving that plan may count, by plans of at least this priority; in no order. Those
        that terminate already are left out.
        """
        standing = (uid for uid, found in self.records.items() if found.standing)
        return [uid for uid in standing if self._by(uid, priority) and self.counts_on(uid, key)]

    def _by(self, uid: str, priority: float) -> bool:
        plans = (self.evictions.get(owner) for owner in self.owners(uid))
        return priority == -math.inf or any(p is None or not p.number or p.priority >= priority for p in plans)

    def after(self, key: str) -> list[str]:
        """The keys of the plans that were made after the one with this key, and with its room taken. A stronger one has
        not seen that.
        """
        mine = self.evictions.get(key)
        if mine is None or not mine.number:
            return []
        later = ((other, p) for other, p in self.evictions.items() if p.number > mine.number)
        return [other for other, plan in later if plan.priority <= mine.priority]

    def charges(self, key: str, but: Container[str], now: float) -> Iterator[Leaving]:
        """What budgets have to be charged for before the plan with this key, or a gang without a plan; these pods
        (UIDs) aside. What a later plan takes of a budget is not taken from an earlier one.
        """
        while self._left and self._left[0][0] + UNSEEN_SECONDS <= now:
            since, uid = self._left.popleft()
            if uid in self.records and self.records[uid].left == since:
                self.records[uid].left = None
                self._tidy(uid, self.records[uid])
        for uid, charge in self.records.items():
            if uid not in but and (charge.left is not None or (charge.standing and self.counts_on(uid, key))):
                yield charge
