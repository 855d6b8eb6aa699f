"""What an eviction is: pods that are made to leave, why, and how far that has come; and who may (still) be a victim.

An eviction goes through its phases in order; `evicting.py` writes what each of them needs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.actions import MARK_REASON
from gangsched.core.actuation.actuator import Failure
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.events import Outcome
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.ownership import Cause, Owner, Owning
from gangsched.messages import notes
from gangsched.model.preemptible import protected
from gangsched.model.records import PREEMPT_NEVER, GangId, Pod
from gangsched.model.times import render_time

if TYPE_CHECKING:
    from gangsched.core.world.world import World

#: So often a list is marked again of which others have taken back marks.
_CONFLICTS = 3
_DIFFERS = frozenset({Outcome.TRANSIENT, Outcome.OUTDATED})


class Phase(enum.Enum):
    """How far an eviction has come."""

    NOMINATING = "Nominating"  # those for whom it is are being nominated; nothing has been written to a victim
    NOTICE = "Notice"  # the victims bear the time at which they will be marked and removed, which has not come yet
    MARKING = "Marking"  # the marks, which are the list of victims, are being made durable
    REMOVING = "Removing"  # all of them stand; removals are on their way
    LEAVING = "WaitingForVictims"  # the cluster has accepted the removals; the pods terminate


#: Phases in which no removal has been asked for, unless an earlier process, or an earlier look, has.
UNBEGUN = (Phase.NOMINATING, Phase.NOTICE, Phase.MARKING)
#: Outcomes of removals that do not say that the pod stays.
_UNKNOWN = (Outcome.GONE, Outcome.TRANSIENT)


def unit_of(victim: Victim) -> UnitRef | str:
    """What leaves together with this victim; a member that is taken singly is a unit of its own."""
    return victim.uid if victim.partial else victim.unit


class Eviction:
    """Pods that are made to leave together, on behalf of a scheduler. See each attribute."""

    def __init__(
        self, cause: Cause, key: str, owner: str, scheduler: str, ident: str, victims: Iterable[Victim] = ()
    ) -> None:
        self.cause = cause
        #: That of its writes, and of what it owns in the ledger.
        self.key = key
        #: The gang (``ns/name``) or queue for which the pods leave.
        self.owner = owner
        self.scheduler = scheduler
        #: The id of the plan.
        self.ident = ident
        self.victims = {v.uid: v for v in victims}
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
        #: Victims whose removal may or may not have taken effect, those of whom the API has refused it, and those that
        #: ended before they terminated.
        self.unsure: set[str] = set()
        self.refused: set[str] = set()
        self.ended: set[str] = set()
        #: Victims whose removal has been reported.
        self.reported: set[str] = set()
        #: Were removals asked for? How often were some of them refused because a pod was not as it was marked?
        self.announced = False
        self.conflicts = 0
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

    def rest(self, victims: Iterable[Victim]) -> Eviction:
        """What goes on of it for these victims when it is abandoned, as far as it has come."""
        out = Eviction(self.cause, notes.rest_of(self.ident), self.owner, self.scheduler, self.ident, victims)
        out.former, out.phase, out.announced = self.key, Phase.REMOVING, True
        out.mark, out.reason, out.trigger, out.priority = self.mark, self.reason, self.trigger, self.priority
        out.acknowledged, out.removed, out.left = set(self.acknowledged), set(self.removed), set(self.left)
        return out

    def owning(self, uid: str) -> Owning:
        """What one of its victims says of it."""
        victim, cause = self.victims.get(uid), self.cause.value
        owner = Owner(self.ident, cause, self.scheduler, self.owner, self.trigger)
        if victim is not None:
            unit = {"kind": victim.unit.kind, "unit": victim.unit.name}
            owner = msgspec.structs.replace(owner, **unit, partial=victim.partial, method=victim.method)
        if self.begins:
            owner = msgspec.structs.replace(owner, not_before=render_time(self.begins))
        return Owning(owner, self.mark_on(uid), self.reason, self.priority, self.begins)

    def mark_on(self, uid: str) -> str:
        """The message of the DisruptionTarget condition of this victim."""
        victim = self.victims.get(uid)
        return self.mark if victim is None else report.mark_for(self.mark, victim.reason)

    def standing(self, world: World) -> list[Pod]:
        """Victims that are still there and not terminating, by name."""
        pods = (world.pods.get(uid) for uid in self.victims)
        return sorted((p for p in pods if p is not None and p.live), key=lambda p: p.key)

    def to_go(self, world: World) -> list[Pod]:
        """Those of them whose removal is still to be asked for, by name."""
        return [pod for pod in self.standing(world) if pod.uid not in self.removed]

    def begun_units(self, world: World, unanswered: Collection[str], failures: Iterable[Failure]) -> set[UnitRef | str]:
        """The units of which a pod has been removed, or leaves since removals were asked for. Those of ``unanswered``
        pods (UIDs) may not have taken effect, and these have failed in this phase. Who is gone after a removal without
        an answer has been removed; who has ended before one had an effect has not.
        """
        if not self.begun:
            return set()
        pods = world.pods
        left = {uid for uid in self.victims if (pod := pods.get(uid)) is not None and pod.deleting_since is not None}
        left |= self.accepted(unanswered, failures) | {uid for uid in self.unsure if uid not in pods}
        left = left - self.ended | self.left
        return {unit_of(self.victims[uid]) for uid in left if uid in self.victims}

    def accepted(self, unanswered: Collection[str], failures: Iterable[Failure]) -> set[str]:
        """The pods that have been removed, as far as answers say."""
        failed = {pod for f in failures if f.outcome not in _UNKNOWN for pod in self.meant(f.uid)}
        return self.removed.difference(unanswered, failed)

    def settle(self, failed: Iterable[Failure]) -> list[Failure]:
        """Every write of the phase has been answered, and these have failed: that is what is known to stand. Returns
        what matters. A victim that is gone has left by itself; one whose removal has failed has not been
        removed, and where it was refused because of the state of the pod, others may have taken back the mark.
        """
        failures = [f for f in failed if f.outcome is not Outcome.GONE]
        if self.phase is Phase.MARKING:
            self.acknowledged = self.marked.difference(f.uid for f in failures)
            return failures
        for failure in failures:
            pods = self.meant(failure.uid)
            self.removed -= pods
            if failure.outcome is Outcome.TRANSIENT:
                self.unsure |= pods
            elif failure.outcome is Outcome.CONFLICT:
                self.acknowledged -= pods
            elif failure.outcome is not Outcome.OUTDATED:
                self.refused |= pods
        return failures

    def fails(self, failures: Sequence[Failure]) -> bool:
        """Do these failures of a phase end it? What is unknown or was not sent still differs from what is wanted once
        removals have begun; a mark that others have taken back does, too. Not for ever: an owner may want the pod to
        stay.
        """
        outcomes = {f.outcome for f in failures}
        if self.phase is Phase.MARKING:
            return bool(outcomes) and not (self.announced and outcomes <= _DIFFERS)
        if Outcome.CONFLICT in outcomes:
            self.conflicts += 1
            jobs = any(f.outcome is Outcome.CONFLICT and f.uid not in self.victims for f in failures)
            if jobs or self.cause is not Cause.PREEMPTION or self.conflicts > _CONFLICTS:
                return True
        return not outcomes <= {Outcome.CONFLICT, *_DIFFERS}


def may_leave(world: World, pod: Pod, gangs: Sequence[GangId], evict_daemonset_pods: bool) -> bool:
    """Does the pod run, of a lower priority than these gangs, no member of them and not protected?"""
    membership = world.membership
    return (
        pod.live
        and pod.bound
        and pod.gang not in gangs
        and (pod.priority < membership.preemptor_priority(gangs) or _for_quota(world, pod, gangs))
        and membership.policy(gangs) != PREEMPT_NEVER
        and not protected(pod, evict_daemonset_pods)
    )


def _for_quota(world: World, pod: Pod, gangs: Sequence[GangId]) -> bool:
    """Do both need quota? Then it is not the pods' priority that has made one the victim of the other."""
    managed = world.managed
    return managed.is_managed(gangs) and managed.is_managed(world.membership.group(pod.gang)[0])
