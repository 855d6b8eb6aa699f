"""The memory of each gang or GangGroup with pending members, and of its failures.

If pods were evicted for a gang and it was not bound, it pauses, because the same pods would take the room again. The
pause is longer each time, until the gang is bound.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from gangsched.core.actuation.records import Intent
from gangsched.core.agenda import pause
from gangsched.core.decision import Placement, QuotaUse, Victim, group_key, names_of
from gangsched.core.devices.binding import DeviceBinding
from gangsched.core.ledger.condemned import Cause, Eviction, Grounds, Phase
from gangsched.core.lifecycle.table import HOLDING, State
from gangsched.core.queue.signature import Signature
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.volumes.binding import ClaimBinding
from gangsched.core.world.obstacles import Obstacle
from gangsched.model.records import SINGLE, GangId


class Failed(enum.Enum):
    """The failed attempts of the gang."""

    ATTEMPT = "attempt"  # a decision, or a plan: its backoff doubles with each
    ROUND = "round"  # others were evicted for it
    CONFLICT = "conflict"  # the cluster was not what a plan assumed
    CHANGED = "changed"  # a plan was made anew for what had changed about its victims, in the present round
    BINDING = "binding"  # some members were bound, and others could not be
    WAIT = "wait"  # room was held for it while it waited for pods that leave, and it was not bound
    ROLLBACK = "rollback"  # those that were bound have been removed for that


class Round(enum.Enum):
    """How far a round of evictions has come."""

    OVER = "over"  # or none has begun
    UNDER_WAY = "under way"
    TAKEN = "taken"  # another pod took the room that was freed
    LOST = "lost"  # it is over, that was so, and the next one has not begun


#: So often in a row is something tried that others may undo: a rollback, the binding of a member.
TRIES = 3
#: Seconds in which a gang evicts no pod after a round of evictions that did not end in its binding; twice as long after
#: each further one.
ROUND_PAUSE_SECONDS = 30.0
#: The same after the binding or the nomination of a member was refused.
REFUSED_PAUSE_SECONDS = 120.0


class Refusal(msgspec.Struct, frozen=True):
    """A member could not be bound or nominated. ``until`` is the end of the ``pauses``-th pause, ``asked`` what the
    member looked like, ``why`` what was refused, in words.
    """

    pauses: int
    until: float
    asked: object
    why: str


class Failures:
    """How often in a row each has happened. ``begun`` are the UIDs of the members that were bound since the gang was
    last whole, ``refused_on`` the nodes on which others were refused for good, by UID. ``refusals`` are, by UID, those
    of members that have not been bound since; they keep the gang from evicting others, as the rounds that have come to
    nothing do until ``paused_until``. While it waits for pods that leave, no room is held for it before
    ``no_hold_until``.
    """

    def __init__(self) -> None:
        self._count: Counter[Failed] = Counter()
        self.begun: set[str] = set()
        self.refused_on: dict[str, set[str]] = {}
        self.refusals: dict[str, Refusal] = {}
        #: Which node the last plan has lost while its pods left, in words.
        self.lost = ""
        self.paused_until = 0.0
        self.no_hold_until = 0.0
        self._waited = 0.0
        self._round = Round.OVER

    def refuse(self, uid: str, asked: object, now: float, why: str) -> bool:
        """A member that looks like this was refused for good. Return whether a pause begins by it: none does during the
        one before, which is half as long.
        """
        before = self.refusals.get(uid)
        pauses = before.pauses if before is not None and before.asked == asked else 0
        if pauses and before is not None and before.until > now:
            return False
        self.refusals[uid] = Refusal(pauses + 1, now + pause(REFUSED_PAUSE_SECONDS, pauses + 1), asked, why)
        return True

    def record(self, cause: Failed) -> None:
        """It has happened once more."""
        self._count[cause] += 1
        if cause is Failed.ROUND:
            self.forget(Failed.CHANGED)
            self._round = Round.UNDER_WAY

    def room_taken(self) -> None:
        """Another pod took the room that was freed in this round, and may do so again: the pause is twice as long."""
        if self._round is Round.UNDER_WAY:
            self._round = Round.TAKEN

    def round_ended(self, now: float, *, none_left: bool) -> None:
        """A plan is over. If others were evicted for it, and the gang is not bound (:meth:`bound`), it pauses.
        ``none_left`` says that no pod can have left for it.
        """
        if self._round not in (Round.UNDER_WAY, Round.TAKEN):
            return
        if none_left:
            self._count[Failed.ROUND] -= 1
            self._round = Round.OVER
        else:
            self._round = Round.LOST if self._round is Round.TAKEN else Round.OVER
            first = ROUND_PAUSE_SECONDS * (2.0 if self.taken else 1.0)
            self.paused_until = now + pause(first, self.count(Failed.ROUND))

    @property
    def taken(self) -> bool:
        """Return whether the room was taken by others in the last round that came to nothing."""
        return self._round is Round.LOST

    def held_in_vain(self, seconds: float, most: float, now: float) -> None:
        """Room was held so long for a wait that did not end in its binding. After ``most`` in all nothing is held until
        a pause is over.
        """
        self._waited += seconds
        if self._waited >= most:
            self.record(Failed.WAIT)
            self._waited, self.no_hold_until = 0.0, now + pause(ROUND_PAUSE_SECONDS, self.count(Failed.WAIT))

    def count(self, cause: Failed) -> int:
        """How often it has happened."""
        return self._count[cause]

    @property
    def matter(self) -> bool:
        """Return True if a decision depends on what has happened to the gang."""
        counted = self._count[Failed.ROUND] or self._count[Failed.WAIT]
        return bool(counted or self.begun or self.refused_on or self.refusals)

    def forget(self, cause: Failed) -> None:
        """It counts no more."""
        del self._count[cause]

    def whole_again(self) -> None:
        """The gang is bound as decided, or not at all."""
        self.begun.clear()
        self.refused_on.clear()
        self.forget(Failed.BINDING)

    def bound(self) -> None:
        """The gang is bound as decided: what happened before is over."""
        self._count.clear()
        self.lost = ""
        self.paused_until, self.no_hold_until, self._waited = 0.0, 0.0, 0.0
        self.whole_again()


class Read(NamedTuple):
    """The facts behind a choice of victims, beside room: how many members each gang of the preemptor ``required``, how
    many others run of the ``gangs`` of victims, which Jobs (UIDs) are ``failing`` by it, and what ``budgets`` (keys)
    allowed.
    """

    required: tuple[int, ...] = ()
    gangs: tuple[object, ...] = ()
    failing: frozenset[str] = frozenset()
    budgets: Mapping[str, float] = {}


class Plan:
    """A decision that is being carried out: which pods go where, and which are evicted for it.

    ``awaited`` are the UIDs of others that leave anyway, ``nominated`` the nodes to which members have been nominated,
    by UID. The ledger has the victims and other pods that are not gone yet. ``neighbours`` are the UIDs of the pods on
    the plan's nodes when it was made: later pods there have taken room. ``claims`` are those that are being bound for
    the members, ``devices`` those that are being given devices. ``read`` is what the choice of its victims rests on.
    """

    def __init__(self, placements: Sequence[Placement], eviction: Eviction, awaited: Sequence[str] = ()) -> None:
        self.placements = list(placements)
        self.eviction = eviction
        self.awaited = tuple(awaited)
        self.nominated: dict[str, str] = {}
        self.neighbours: set[str] = set()
        self.claims: list[ClaimBinding] = []
        self.devices: list[DeviceBinding] = []
        #: The nodes of members that are given devices, if other schedulers may give out the same ones.
        self.device_nodes: frozenset[str] = frozenset()
        #: When all of them had their devices, as the cluster shows.
        self.given_at: float | None = None
        #: When room began to be held although no pod leaves for it.
        self.waits_since: float | None = None
        self.read = Read()
        #: The nodes that are worth holding against other schedulers.
        self.scarce: frozenset[str] = frozenset()
        #: Some of its members have room already, which others may take before the rest of the room is free.
        self.uses_free_room = False

    @cached_property
    def first(self) -> Placement | None:
        """The member that messages name."""
        return min(self.placements, key=lambda place: place.key, default=None)

    @cached_property
    def node_of(self) -> dict[str, str]:
        """The nodes of the members, by UID."""
        return {p.uid: p.node for p in self.placements}

    @property
    def ident(self) -> str:
        """The plan's id."""
        return self.eviction.grounds.ident

    def intent(self, place: Placement) -> Intent:
        """The record on the member with this place."""
        return Intent(self.ident, len(self.victims), place.node, len(self.awaited))

    @property
    def victims(self) -> Mapping[str, Victim]:
        """The victims by UID."""
        return self.eviction.victims


class Outlook(NamedTuple):
    """Why a gang that was decided does not fit: no room on nodes would help, or the plug-in of this name has failed.
    ``until`` is when (seconds), if passing time may change that.
    """

    short_of_quota: bool = False
    failed_plugin: str = ""
    until: float | None = None


class Group:
    """One gang, or the gangs of one GangGroup. ``state`` changes only through the lifecycle table.

    ``waiting_since`` is when it first could not be placed.
    No room may be reserved for it before ``reserves_from``.
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
        self.reserves_from = 0.0
        self.signature: Signature | None = None
        self.outlook = Outlook()
        self.quiet_until = 0.0
        self.obstacle: Obstacle | None = None
        self.facts: object = None
        self.noticed: dict[str, float] = {}
        self.message = ""
        self.written: dict[str, tuple[str, str]] = {}
        self.quota: QuotaUse | None = None

    @property
    def name(self) -> str:
        """``namespace/name``, or all of them joined by commas for a GangGroup."""
        return names_of(self.gangs)

    @property
    def without_pods(self) -> bool:
        """True for a suspended Job or JobSet. Nothing can be written to its members, and they cannot be bound."""
        return self.gangs[0].family in WITHOUT_PODS

    @property
    def single(self) -> bool:
        """A pod without a group."""
        return len(self.gangs) == 1 and self.gangs[0].family == SINGLE

    def update_facts(self, look: object) -> bool:
        """Store how the group looks now, and return True if that has changed. Then it may be equal to other gangs than
        before.
        """
        other, self.facts = look != self.facts, look
        if other:
            self.signature = None
        return other

    @property
    def problem(self) -> str:
        """Why it cannot be decided, in words; empty when it can."""
        return self.obstacle.text if self.obstacle is not None else ""

    def evicts(self, *phases: Phase) -> bool:
        """Return True if an eviction for it, but not one of its own members, is in one of these phases."""
        evicting = self.state is State.EVICTING and not self.rolled_back
        return evicting and self.plan is not None and self.plan.eviction.phase in phases

    @property
    def holding(self) -> bool:
        """True if room is held for its members and they have not taken it yet."""
        return self.state in HOLDING and not self.rolled_back

    @property
    def rolled_back(self) -> bool:
        """True if its own members are being removed, so that their controllers create them again."""
        if self.state is not State.EVICTING or self.plan is None:
            return False
        return self.plan.eviction.grounds.cause is Cause.ROLLBACK

    @property
    def stage(self) -> str:
        """The state in a word; of one that evicts, the phase of that."""
        if self.state is State.EVICTING and self.plan is not None:
            return self.plan.eviction.phase.value
        return self.state.value

    def eviction(self, ident: str, victims: Iterable[Victim] = (), cause: Cause = Cause.PREEMPTION) -> Eviction:
        """An eviction for this group, or of its own members."""
        return Eviction(self.key, Grounds(cause, self.name, self.gangs[0].scheduler, ident), victims)
