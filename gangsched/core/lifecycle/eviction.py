"""What an eviction is: pods that are made to leave, why, and how far that has come.

An eviction goes through its phases in order; `evicting.py` writes what each of them needs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.actions import MARK_REASON
from gangsched.core.actuation.actuator import Failure
from gangsched.core.decision import Victim
from gangsched.core.events import Outcome
from gangsched.core.lifecycle.intent import Owner, Owning
from gangsched.model.records import Pod

if TYPE_CHECKING:
    from gangsched.core.state.world import World


class Cause(enum.Enum):
    """Why pods are made to leave."""

    PREEMPTION = "preemption"  # a gang of higher priority, or with a right to their quota, needs their room
    DRAIN = "drain"  # their queue is stopped
    ROLLBACK = "rollback"  # their own gang is bound in part and cannot be whole


class Phase(enum.Enum):
    """How far an eviction has come."""

    NOMINATING = "Nominating"  # those for whom it is are being nominated; nothing has been written to a victim
    MARKING = "Marking"  # the marks, which are the list of victims, are being made durable
    REMOVING = "Removing"  # all of them stand; removals are on their way
    LEAVING = "WaitingForVictims"  # the cluster has accepted the removals; the pods terminate


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
        #: The pod that speaks for the gang, and the gang's priority.
        self.trigger = ""
        self.priority = math.inf
        self.phase = Phase.NOMINATING
        #: Victims, by UID, for which that has been asked.
        self.marked: set[str] = set()
        self.removed: set[str] = set()
        #: Victims that bear the mark of an earlier process, and those whom it had removed, or others of their unit.
        self.standing_marks: set[str] = set()
        self.left: set[str] = set()
        #: Victims whose removal may or may not have taken effect, and those that ended before they terminated.
        self.unsure: set[str] = set()
        self.ended: set[str] = set()
        #: Were removals asked for? How often have marks been written again since, because others took them back?
        self.announced = False
        self.marked_again = 0
        #: By the UID of a Job that is suspended, the victims that leave with it.
        self.leaving_with: dict[str, set[str]] = {}

    @property
    def begun(self) -> bool:
        """Have removals been asked for, by this process or an earlier one?"""
        return self.announced or bool(self.left)

    def meant(self, uid: str) -> set[str]:
        """The pods that a write to this pod or Job (UID) is about."""
        return self.leaving_with.get(uid, {uid})

    def owning(self, uid: str) -> Owning:
        """What one of its victims says of it."""
        victim, cause = self.victims.get(uid), self.cause.value
        owner = Owner(self.ident, cause, self.scheduler, self.owner, self.trigger)
        if victim is not None:
            unit = {"kind": victim.unit.kind, "unit": victim.unit.name}
            owner = msgspec.structs.replace(owner, **unit, partial=victim.partial, method=victim.method)
        return Owning(owner, self.mark, self.reason, self.priority)

    def standing(self, world: World) -> list[Pod]:
        """Victims that are still there and not terminating, by name."""
        pods = (world.pods.get(uid) for uid in self.victims)
        return sorted((p for p in pods if p is not None and p.live), key=lambda p: p.key)

    def settle(self, failed: Iterable[Failure]) -> list[Failure]:
        """The phase is over, and this has failed in it: returns what matters. A victim that is gone has left by itself;
        one whose removal has failed has not been removed.
        """
        failures = [f for f in failed if f.outcome is not Outcome.GONE]
        if self.phase is Phase.REMOVING:
            self.unsure.update(pod for f in failures if f.outcome is Outcome.TRANSIENT for pod in self.meant(f.uid))
        self.removed.difference_update(pod for f in failures for pod in self.meant(f.uid))
        return failures
