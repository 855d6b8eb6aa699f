"""What the scheduler remembers of each gang or GangGroup that has pending members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gangsched.core.decision import Decision, Placement, Victim
from gangsched.core.lifecycle import State
from gangsched.core.likeness import Likeness
from gangsched.core.permit import Barrier
from gangsched.model.records import SINGLE, GangId

if TYPE_CHECKING:
    from gangsched.core.volumebinding import ClaimBinding


def group_key(gangs: Sequence[GangId]) -> str:
    """The key of a group: unique, and sorted like ``namespace/name``."""
    return ",".join(f"{g.key}#{g.family}#{g.scheduler}" for g in gangs)


class Plan:
    """A decision that is being carried out.

    ``waiting`` are the UIDs of victims and awaited pods that are not gone yet. ``nominated`` are the members and
    ``removed`` the victims for which that has been asked. ``neighbours`` are the UIDs of the pods that
    were on the plan's nodes when it was made: whoever else is there later has taken room. ``claims`` are those that are
    being bound for the members.
    """

    def __init__(
        self, ident: str, placements: Sequence[Placement], victims: Sequence[Victim], awaited: Sequence[str]
    ) -> None:
        self.ident = ident
        self.placements = list(placements)
        self.victims = {v.uid: v for v in victims}
        self.waiting: set[str] = {*self.victims, *awaited}
        self.removed: set[str] = set()
        self.nominated: set[str] = set()
        self.node_of = {p.uid: p.node for p in placements}
        self.neighbours: set[str] = set()
        self.announced = False
        self.claims: list[ClaimBinding] = []


class Group:
    """One gang, or the gangs of one GangGroup. ``state`` changes only through the lifecycle table.

    ``waiting_since`` is when it first could not be placed, ``look_again_at`` when passing time may change that.
    ``unsure`` are members whose binding may or may not have taken effect; it is repeated at ``retry_at``.
    ``conflicts`` counts plans in a row that failed because the cluster was not what they assumed. ``failed_plugin``
    names the plug-in over which the last decision failed.

    While it does not fit, ``likeness`` is what it shares with gangs that are helped by the same, and ``behind`` says
    that gangs ahead keep something from it; until ``quiet_until`` nobody is told a new reason, which is made up for at
    ``tell_at``.
    """

    def __init__(self, gangs: tuple[GangId, ...]) -> None:
        self.gangs = gangs
        self.key = group_key(gangs)
        self.state = State.GATHERING
        self.barrier = Barrier()
        self.plan: Plan | None = None
        self.attempts = 0
        self.rounds = 0
        self.deadline: float | None = None
        self.retry_at: float | None = None
        self.waiting_since: float | None = None
        self.look_again_at: float | None = None
        self.unsure: list[str] = []
        self.conflicts = 0
        self.likeness: Likeness | None = None
        self.behind = False
        self.quiet_until = 0.0
        self.tell_at: float | None = None
        self.problem = ""
        self.look: object = None
        self.message = ""
        self.failed_plugin = ""
        self.told: dict[str, tuple[str, str]] = {}
        self.decisions: tuple[Decision, ...] = ()

    @property
    def name(self) -> str:
        """``namespace/name``, or all of them joined by commas for a GangGroup."""
        return ",".join(g.key for g in self.gangs)

    @property
    def single(self) -> bool:
        """A pod without a group."""
        return len(self.gangs) == 1 and self.gangs[0].family == SINGLE
