"""What the scheduler remembers of each gang or GangGroup that has pending members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gangsched.core.decision import Decision, Placement, Victim
from gangsched.core.identity import group_key, names_of
from gangsched.core.lifecycle.eviction import Eviction, Phase
from gangsched.core.lifecycle.failures import Failures
from gangsched.core.lifecycle.ownership import Cause
from gangsched.core.lifecycle.table import HOLDING, State
from gangsched.core.queue.signature import Signature
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.volumes.binding import ClaimBinding
from gangsched.model.records import SINGLE, GangId

#: group_key is for those that import it from here.
__all__ = ["Group", "Plan", "group_key"]


class Plan:
    """A decision that is being carried out: which pods go where, and which are evicted for it.

    ``awaited`` are the UIDs of others that leave anyway, ``nominated`` the nodes to which members have been nominated,
    by UID. Who of the victims and of those is not gone yet is in the ledger. ``neighbours`` are the UIDs of the pods
    that were on the plan's nodes when it was made: whoever else is there later has taken room. ``claims`` are those
    that are being bound for the members. ``required`` is how many members each gang needed.
    """

    def __init__(self, placements: Sequence[Placement], eviction: Eviction, awaited: Sequence[str] = ()) -> None:
        self.placements = list(placements)
        self.eviction = eviction
        self.awaited = tuple(awaited)
        self.nominated: dict[str, str] = {}
        self.node_of = {p.uid: p.node for p in placements}
        self.neighbours: set[str] = set()
        self.claims: list[ClaimBinding] = []
        self.required: tuple[int, ...] = ()

    @property
    def ident(self) -> str:
        """The plan's id."""
        return self.eviction.ident

    @property
    def victims(self) -> Mapping[str, Victim]:
        """Who has to leave, by UID."""
        return self.eviction.victims


class Outlook(NamedTuple):
    """Why a gang that was decided does not fit: no room on nodes would help, or the plug-in of this name has failed."""

    short_of_quota: bool = False
    failed_plugin: str = ""


class Obstacle(NamedTuple):
    """Why a gang cannot be decided: the reason that its members show as their condition, and in words."""

    reason: str
    text: str


class Group:
    """One gang, or the gangs of one GangGroup. ``state`` changes only through the lifecycle table.

    ``waiting_since`` is when it first could not be placed, ``look_again_at`` when passing time may change that.
    Room has been reserved for it without a break since ``reserving_since``, and may not be before ``reserves_from``.
    ``obstacle`` is why it cannot be decided, ``failures`` what has gone wrong. ``signature`` is what it shares with
    gangs that are decided alike, once it was asked for. While it does not fit, ``outlook`` says why; until
    ``quiet_until`` a new reason is not reported, which follows then. ``noticed`` are the victims of the plan
    before (UIDs), and the time that was announced to each.
    """

    def __init__(self, gangs: tuple[GangId, ...]) -> None:
        self.gangs = gangs
        self.key = group_key(gangs)
        self.state = State.GATHERING
        self.plan: Plan | None = None
        self.failures = Failures()
        self.waiting_since: float | None = None
        self.reserving_since: float | None = None
        self.reserves_from = 0.0
        self.look_again_at: float | None = None
        self.signature: Signature | None = None
        self.outlook = Outlook()
        self.quiet_until = 0.0
        self.obstacle: Obstacle | None = None
        self.look: object = None
        self.noticed: dict[str, float] = {}
        self.message = ""
        self.told: dict[str, tuple[str, str]] = {}
        self.decisions: tuple[Decision, ...] = ()

    @property
    def name(self) -> str:
        """``namespace/name``, or all of them joined by commas for a GangGroup."""
        return names_of(self.gangs)

    @property
    def problem(self) -> str:
        """Why it cannot be decided, in words; empty when it can."""
        return self.obstacle.text if self.obstacle is not None else ""

    @property
    def without_pods(self) -> bool:
        """A suspended Job or JobSet? Nothing can be written to its members, and they cannot be bound."""
        return self.gangs[0].family in WITHOUT_PODS

    @property
    def single(self) -> bool:
        """A pod without a group."""
        return len(self.gangs) == 1 and self.gangs[0].family == SINGLE

    def evicts(self, *phases: Phase) -> bool:
        """Is an eviction for it in one of these phases? (Not one of its own members.)"""
        evicting = self.state is State.EVICTING and not self.rolled_back
        return evicting and self.plan is not None and self.plan.eviction.phase in phases

    @property
    def holding(self) -> bool:
        """Is room held for its members, and not taken yet?"""
        return self.state in HOLDING and not self.rolled_back

    @property
    def rolled_back(self) -> bool:
        """Are its own members being removed, for their controllers to create them again?"""
        if self.state is not State.EVICTING or self.plan is None:
            return False
        return self.plan.eviction.cause is Cause.ROLLBACK

    @property
    def stage(self) -> str:
        """The state in a word; of one that evicts, the phase of that."""
        if self.state is State.EVICTING and self.plan is not None:
            return self.plan.eviction.phase.value
        return self.state.value

    def eviction(self, ident: str, victims: Iterable[Victim] = (), cause: Cause = Cause.PREEMPTION) -> Eviction:
        """An eviction for this group, or of its own members."""
        return Eviction(cause, self.key, self.name, self.gangs[0].scheduler, ident, victims)
