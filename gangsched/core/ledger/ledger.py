"""The ledger: room that is kept, gangs that are being bound, flavors that were given, pods that are to leave, and who
waits for which to be gone.

Nothing in it can be read off the cluster. A process that loses its leadership begins a new one, and so forgets all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

import msgspec

from gangsched.core.agenda import Agenda, Page
from gangsched.core.decision import Flavors
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.backfill import Turns
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.ledger.held_shares import HeldShares
from gangsched.core.ledger.reservation import PlanReservation
from gangsched.core.ledger.worklist import Worklist
from gangsched.core.state.simulation import Phantom
from gangsched.model.records import GangId


class Ledger:
    """What is intended; see each attribute. With ``strict`` the gangs that do not fit keep their nodes from those
    behind them.

    A holder has one :class:`~gangsched.core.ledger.reservation.PlanReservation` for its members, and
    another record for its turn in the queue (``turns``).
    """

    def __init__(self, strict: bool = False, hold_seconds: float = 0.0) -> None:
        #: By UID the flavors in which a pod was given quota, and when (seconds): for as long as the pod is there.
        self.flavors: dict[str, tuple[Flavors, float]] = {}
        #: The gangs whose bindings are on their way.
        self.binding: set[GangId] = set()
        #: By UID the keys of the groups that wait for a pod to be gone; and the same from their side.
        self.awaited: dict[str, set[str]] = {}
        #: What of it has to be looked at again, here and by those who carry it out. When the time of groups is over,
        #: by key.
        self.agenda = Agenda()
        self.deadlines: Page[str] = self.agenda.page()
        #: What of all that is known and intended has to be looked at again.
        self.work = Worklist()
        self.condemned = Condemned(self.agenda.page())
        #: The nodes that are to be held against other schedulers, by name, with the value of the taint.
        self.held: dict[str, str] = {}
        #: For how long, and for whom.
        self.held_shares = HeldShares(hold_seconds)
        self._waits: dict[str, set[str]] = {}
        self._rooms: dict[str, PlanReservation] = {}
        #: The gangs that do not fit, and what they keep from those behind them.
        self.turns = Turns(strict)
        #: What :attr:`Snapshot.told_apart` was when kept room was last given the classes of its members.
        self.told_apart = 0
        #: By UID of a Job or JobSet that goes on the holder that keeps room for its pods.
        self.resuming: dict[str, str] = {}
        self._holders_on: dict[str, set[str]] = {}

    # -- reservations --------------------------------------------------------------------------------------

    def hold(self, made: PlanReservation) -> None:
        """From now on exactly this is kept for its holder, beside what is kept for its turn."""
        self._take_out(made.holder)
        self._rooms[made.holder] = made
        for pod in made.pods:
            self._holders_on.setdefault(pod.node, set()).add(made.holder)
        if made.owner:
            self.resuming[made.owner] = made.holder

    def release(self, holder: str) -> None:
        """Nothing is kept for this holder any more, what is kept for its turn aside. Others may use the room, and the
        volumes, which were to be bound where that is.
        """
        given = self._take_out(holder)
        self.work.changes += [Change(Hint.ROOM, p.node) for p in given]
        if any(p.pod.volumes is not None for p in given):
            self.work.changes.append(Change(Hint.VOLUMES))

    def _take_out(self, holder: str) -> tuple[Phantom, ...]:
        made = self._rooms.pop(holder, None)
        if made is None:
            return ()
        for node in {pod.node for pod in made.pods}:
            self._holders_on[node].discard(holder)
            if not self._holders_on[node]:
                del self._holders_on[node]
        if made.owner:
            self.resuming.pop(made.owner, None)
        return made.pods

    def resume(self, holder: str, owner: str) -> None:
        """What is kept for this holder is for the pods of a Job or JobSet (UID) that goes on."""
        made = self._rooms.get(holder)
        if made is not None:
            self.hold(msgspec.structs.replace(made, owner=owner))

    def seen_resumed(self, owner: str) -> None:
        """The cluster has shown that this Job or JobSet (UID), for whose pods room is kept, is no longer suspended."""
        holder = self.resuming[owner]
        self._rooms[holder] = msgspec.structs.replace(self._rooms[holder], resumed=True)

    def adopt(self, owner: str, uid: str, node: str) -> Phantom | None:
        """A pod of a Job or JobSet that goes on takes room on a node: as much is no longer kept for it, there if
        possible. Returns what that was; None when nothing is kept for this pod.
        """
        made = self.kept_for(owner)
        if made is None or not made.pods or uid in made.adopted:
            return None
        index = next((i for i, p in enumerate(made.pods) if p.node == node), len(made.pods) - 1)
        pods = (*made.pods[:index], *made.pods[index + 1 :])
        self.hold(msgspec.structs.replace(made, pods=pods, adopted=made.adopted | {uid}))
        return made.pods[index]

    def kept_for(self, owner: str) -> PlanReservation | None:
        """What is kept for the pods of a Job or JobSet (UID) that goes on."""
        return self._rooms.get(self.resuming.get(owner, ""))

    def holders(self) -> Collection[str]:
        """The holders for which room is kept, what is kept for their turns aside."""
        return self._rooms.keys()

    def plan_reservation(self, holder: str) -> PlanReservation | None:
        """Return what is kept for the plan of this holder. What is kept for its turn is not part of it."""
        return self._rooms.get(holder)

    def pods_of(self, holder: str) -> tuple[Phantom, ...]:
        """The pods for which that is."""
        made = self._rooms.get(holder)
        return made.pods if made is not None else ()

    def plans(self) -> list[PlanReservation]:
        """Return what is kept, by holder, what is kept for turns aside."""
        return [self._rooms[holder] for holder in sorted(self._rooms)]

    def may_have_taken(self, taker: str, nodes: Iterable[str], priority: int) -> None:
        """Room that is kept on these nodes for others of lower priority than this one of ``taker`` may be gone now."""
        holders = (holder for node in nodes for holder in self._holders_on.get(node, ()))
        self.work.taken_from.update(h for h in holders if h != taker and self._rooms[h].priority < priority)

    def kept_on(self, nodes: Iterable[str], but: str = "") -> list[Phantom]:
        """The pods for which room is kept on these nodes, what is kept for turns, or for the holder ``but``, aside."""
        held = ((node, holder) for node in nodes for holder in self._holders_on.get(node, ()) if holder != but)
        return [pod for node, holder in held for pod in self._rooms[holder].pods if pod.node == node]

    @property
    def empty(self) -> bool:
        """True if no room is kept."""
        return not self._rooms and not self.turns.reserving()

    def reclass(self, of_its_class: Callable[[Phantom], Phantom]) -> None:
        """Pods that were alike are distinguished from now on."""
        for made in self._rooms.values():
            self._rooms[made.holder] = made.of_classes(of_its_class)
        self.turns.reclass(of_its_class)

    # -- who waits for whom --------------------------------------------------------------------------------

    def wait_for(self, uid: str, key: str) -> None:
        """The group with this key waits for a pod to be gone."""
        self.awaited.setdefault(uid, set()).add(key)
        self._waits.setdefault(key, set()).add(uid)

    def no_longer_waits(self, uid: str, key: str) -> None:
        """That group does not wait for the pod any more."""
        _discard(self.awaited, uid, key)
        _discard(self._waits, key, uid)

    def waits(self, key: str) -> AbstractSet[str]:
        """The UIDs of the pods for which the group with this key waits."""
        return self._waits.get(key, frozenset())

    def stop_waiting(self, key: str) -> None:
        """That group waits for no pod any more."""
        for uid in self._waits.pop(key, ()):
            _discard(self.awaited, uid, key)

    def freed(self, uid: str) -> set[str]:
        """A pod is gone: no group waits for it any more. Returns the keys of the groups that did."""
        keys = self.awaited.pop(uid, set())
        for key in keys:
            _discard(self._waits, key, uid)
        return keys

    def waiting_without_claim(self, uid: str) -> Iterator[str]:
        """Return the keys of the groups that wait for a pod which they may not count on (any more)."""
        return (key for key in self.awaited.get(uid, ()) if not self.condemned.counts_on(uid, key))


def _discard(of: dict[str, set[str]], name: str, member: str) -> None:
    """Take a member out of a set, and the set out of the mapping when nothing is left in it."""
    found = of.get(name)
    if found is not None:
        found.discard(member)
        if not found:
            del of[name]
