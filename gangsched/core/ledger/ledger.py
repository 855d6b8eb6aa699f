"""The ledger: room that is kept, bindings on their way, flavors that were given, pods that are to leave, and who waits
for which to be gone.

Nothing in it can be read off the cluster. A process that loses its leadership begins a new one, and so forgets all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

from gangsched.core.agenda import Agenda, Page
from gangsched.core.decision import Flavors
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.ledger.worklist import Worklist
from gangsched.core.state.simulation import Phantom
from gangsched.model.records import GangId

#: A place in the queue: smaller is earlier.
Turn: TypeAlias = tuple[int, float, str]


_ANNOUNCED = " announced"


def announced_by(group: str) -> str:
    """The holder of the room for the members that the gangs of this key announce."""
    return group + _ANNOUNCED


def group_of(holder: str) -> str:
    """The key of the group whose members, or those that it announces, the room of a holder is for."""
    return holder.removesuffix(_ANNOUNCED)


class Kind(enum.Enum):
    """Why room is kept."""

    NOMINATED = "nominated"  # the members of a plan, until the pods in their way are gone
    REPLACEMENT = "replacement"  # members that a gang has lost, until they are made again
    RESUMED = "resumed"  # the pods of a Job that goes on, until they are there
    ANNOUNCED = "announced"  # members that do not exist before others of their gang run
    BACKFILL = "backfill"  # a gang that keeps losing to work behind it, until others have ended


class Reservation(msgspec.Struct, frozen=True, eq=False):
    """Room for the ``pods`` of a holder (the key of a group), each on its node.

    It is kept from whatever has no higher ``priority``. What is kept for a gang that waits for its turn (BACKFILL) is
    kept from those behind it in the queue, of which ``turn`` is its place, and ``known_end`` whether it is known when
    the pods end that are in its way; it has been kept without a break ``since`` then (seconds). ``owner`` is the UID of
    the Job or JobSet whose pods a RESUMED reservation is for, ``adopted`` are the UIDs of those that have taken their
    part of it.
    """

    holder: str
    kind: Kind
    pods: tuple[Phantom, ...]
    priority: int = 0
    turn: Turn | None = None
    known_end: bool = False
    since: float = 0.0
    owner: str = ""
    adopted: frozenset[str] = frozenset()

    def binds(self, priority: int, turn: Turn | None, own: Container[str]) -> bool:
        """Is the room taken as far as a gang of this priority and place in the queue is concerned? Not if its group, or
        one that keeps room for it, is among the holders ``own``. Without a place nothing is kept for others' turns.
        """
        if self.holder in own:
            return False
        if self.turn is not None:
            return turn is not None and self.turn < turn
        return self.priority >= priority


class Ledger:
    """What is intended; see each attribute.

    Room that is *assumed* is charged to its node, and no priority takes it. All other room is a :class:`Reservation`:
    a holder has one for its members, whatever the reason, and another one for its turn.
    """

    def __init__(self) -> None:
        #: By UID the node to which our binding of a pod is on its way.
        self.assumed: dict[str, str] = {}
        #: By UID the flavors in which a pod was given quota, and when (seconds): for as long as the pod is there.
        self.flavors: dict[str, tuple[Flavors, float]] = {}
        #: The gangs whose bindings are on their way.
        self.binding: set[GangId] = set()
        #: By UID the keys of the groups that wait for a pod to be gone; and the same from their side.
        self.awaited: dict[str, set[str]] = {}
        #: Keys of groups of which an earlier process has left some members bound, and fewer than they need.
        self.begun: set[str] = set()
        #: UIDs of Jobs and JobSets for whose pods room is kept, and of which the cluster has shown that they go on.
        self.resumed: set[str] = set()
        #: What of it has to be looked at again, here and by those who carry it out. When the time of groups is over,
        #: by key.
        self.agenda = Agenda()
        self.deadlines: Page[str] = self.agenda.page()
        #: What of all that is known and intended has to be looked at again.
        self.work = Worklist()
        self.condemned = Condemned(self.agenda.page())
        #: The nodes that are to be held against other schedulers, by name, with the value of the taint.
        self.held: dict[str, str] = {}
        self._waits: dict[str, set[str]] = {}
        self._rooms: dict[str, Reservation] = {}
        self._turns: dict[str, Reservation] = {}
        #: By UID of a Job or JobSet that goes on the holder that keeps room for its pods.
        self.resuming: dict[str, str] = {}
        self._holders_on: dict[str, set[str]] = {}

    # -- reservations --------------------------------------------------------------------------------------

    def hold(self, made: Reservation) -> None:
        """From now on exactly this is kept for its holder, beside what is kept for its turn; or for its turn."""
        if made.kind is Kind.BACKFILL:
            self._turns[made.holder] = made
            return
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
            self.resumed.discard(made.owner)
        return made.pods

    def end_turn(self, holder: str) -> tuple[Phantom, ...]:
        """Nothing is kept for the turn of this holder any more; returns what was."""
        made = self._turns.pop(holder, None)
        return made.pods if made is not None else ()

    def move_turn(self, holder: str, turn: Turn) -> None:
        """The place of this holder in the queue is another now."""
        made = self._turns.get(holder)
        if made is not None:
            self._turns[holder] = msgspec.structs.replace(made, turn=turn)

    def resume(self, holder: str, owner: str) -> None:
        """What is kept for this holder is for the pods of a Job or JobSet (UID) that goes on."""
        made = self._rooms.get(holder)
        if made is not None:
            self.hold(msgspec.structs.replace(made, kind=Kind.RESUMED, owner=owner))

    def adopt(self, owner: str, uid: str, node: str) -> Phantom | None:
        """A pod of a Job or JobSet that goes on takes room on a node: as much is no longer kept for it, there if
        possible. Returns what that was; None when nothing is kept for this pod.
        """
        made = self.kept_for(owner)
        if made is None or not made.pods or uid in made.adopted:
            return None
        index = next((i for i, p in enumerate(made.pods) if p.node == node), len(made.pods) - 1)
        pods = (*made.pods[:index], *made.pods[index + 1 :])
        went_on = owner in self.resumed
        self.hold(msgspec.structs.replace(made, pods=pods, adopted=made.adopted | {uid}))
        if went_on:
            self.resumed.add(owner)
        return made.pods[index]

    def kept_for(self, owner: str) -> Reservation | None:
        """What is kept for the pods of a Job or JobSet (UID) that goes on."""
        return self._rooms.get(self.resuming.get(owner, ""))

    def holders(self) -> Collection[str]:
        """The holders for which room is kept, what is kept for their turns aside."""
        return self._rooms.keys()

    def of(self, holder: str) -> Reservation | None:
        """What is kept for this holder, what is kept for its turn aside."""
        return self._rooms.get(holder)

    def pods_of(self, holder: str) -> tuple[Phantom, ...]:
        """The pods for which that is."""
        made = self._rooms.get(holder)
        return made.pods if made is not None else ()

    def turns(self) -> Collection[str]:
        """The holders of which something is kept for their turn."""
        return self._turns.keys()

    def turn_ends(self, holder: str) -> bool:
        """Return whether it is known when what is kept for the turn of this holder can be used."""
        made = self._turns.get(holder)
        return made is not None and made.known_end

    def turn_since(self, holder: str) -> float | None:
        """Since when something is kept for the turn of this holder (seconds); None while nothing is."""
        made = self._turns.get(holder)
        return made.since if made is not None else None

    def turn_of(self, holder: str) -> tuple[Phantom, ...]:
        """What is kept for the turn of this holder."""
        made = self._turns.get(holder)
        return made.pods if made is not None else ()

    def seen_by(self, priority: int, turn: Turn | None, own: Container[str]) -> Iterator[Phantom]:
        """The pods whose room is taken as far as this gang is concerned; see :meth:`Reservation.binds`."""
        for holder in sorted(self._rooms):
            if self._rooms[holder].binds(priority, turn, own):
                yield from self._rooms[holder].pods
        for made in sorted(self._turns.values(), key=lambda r: r.turn or (0, 0.0, "")):
            if made.binds(priority, turn, own):
                yield from made.pods

    def may_have_taken(self, taker: str, nodes: Iterable[str], priority: int) -> None:
        """Room that is kept on these nodes for others of lower priority than this one of ``taker`` may be gone now."""
        holders = (holder for node in nodes for holder in self._holders_on.get(node, ()))
        self.work.taken_from.update(h for h in holders if h != taker and self._rooms[h].priority < priority)

    def kept_on(self, nodes: Iterable[str]) -> list[Phantom]:
        """The pods for which room is kept on these nodes, what is kept for turns aside."""
        held = ((node, holder) for node in nodes for holder in self._holders_on.get(node, ()))
        return [pod for node, holder in held for pod in self._rooms[holder].pods if pod.node == node]

    @property
    def empty(self) -> bool:
        """Is no room kept?"""
        return not self._rooms and not self._turns

    def reclass(self, of_its_class: Callable[[Phantom], Phantom]) -> None:
        """Pods that were alike are distinguished from now on."""
        for made in (*self._rooms.values(), *self._turns.values()):
            store = self._turns if made.kind is Kind.BACKFILL else self._rooms
            store[made.holder] = msgspec.structs.replace(made, pods=tuple(map(of_its_class, made.pods)))

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

    def in_vain(self, uid: str) -> Iterator[str]:
        """The keys of the groups that wait for a pod which they may not count on (any more)."""
        return (key for key in self.awaited.get(uid, ()) if not self.condemned.counts_on(uid, key))


def _discard(of: dict[str, set[str]], name: str, member: str) -> None:
    """Take a member out of a set, and the set out of the mapping when nothing is left in it."""
    found = of.get(name)
    if found is not None:
        found.discard(member)
        if not found:
            del of[name]
