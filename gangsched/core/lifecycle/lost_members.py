"""Members that a gang has lost: room is held where they were until they are made again.

A gang that runs falls below its minimum when a member is deleted or fails, or when one could not be bound with the
others. Its controller needs a moment to make the member again. Another gang that is decided in this moment would take
its room and be evicted again, or keep it if the gang may evict no pod. So as much as the gang lacks is held where the
lost members were, with the gang's priority and under its key, like the room of members that are nominated; its quota is
promised to it in the same way. Nothing of this is durable: after a restart the room is free for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping

import msgspec

from gangsched.core.actions import MARK_REASON, Bind
from gangsched.core.agenda import Page
from gangsched.core.decision import group_key
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle.group import Group
from gangsched.core.lifecycle.refused_bindings import asked_by
from gangsched.core.lifecycle.table import State
from gangsched.core.quota.stop_policy import STOPPED
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.state.membership import ONLY_WAITING
from gangsched.core.world.kept_room import keep_room
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.records import SINGLE, GangId, Pod

#: How long room is held from when it became free, and once more from when a successor has been seen.
HOLD_SECONDS = 30.0
#: The most members of one gang whose room is held, the latest ones, because every decision reads each.
ROOMS_AT_MOST = 256
#: With these reasons for its end a pod leaves for others.
_FOR_OTHERS = frozenset({MARK_REASON, *STOPPED.values()})


class _Room(msgspec.Struct):
    """Where a member was. As long as it is ``leaving`` it takes that room itself; what is held beside it is for a pod
    that might otherwise be promised what it gives up.
    """

    pod: Pod
    node: str
    until: float
    leaving: bool
    answered: bool = False


class Losses:
    """What gangs have lost, by gang and the UID of the member. :meth:`follow` turns it into held room. Nothing is noted
    before :meth:`begin`, which a process that only stands by does not call.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world = world
        self._ledger = ledger
        self._begun = False
        self.rooms: dict[GangId, dict[str, _Room]] = {}
        self._leaving: dict[str, GangId] = {}
        self._shown: dict[GangId, str] = {}
        self._work = ledger.work
        self._due: Page[tuple[GangId, str]] = ledger.agenda.page()

    def begin(self) -> None:
        """From now on what is lost is noted."""
        self._begun = True

    # -- what happens --------------------------------------------------------------------------------------

    def lost(self, before: Pod, *, leaving: bool) -> None:
        """A member that was bound and live until now terminates, if ``leaving``, or takes no room any more."""
        gang, world = before.gang, self._world
        alone = gang.family == SINGLE or gang.family in WITHOUT_PODS
        if alone or not self._begun or not world.membership.is_ours(gang):
            return
        pod = world.pods.get(before.uid, before)
        job = world.jobs.owner_of(before)
        said = pod.disruption
        evicted = said is not None and said.status == "True" and said.reason in _FOR_OTHERS
        if evicted or pod.phase == "Succeeded" or (job is not None and (job.suspended or job.finished)):
            return
        if leaving:
            self._leaving[before.uid] = gang
        self._keep(gang, before.uid, _Room(before, before.node, world.now + HOLD_SECONDS, leaving))

    def pod_gone(self, uid: str) -> None:
        """Begin the time for which the room of a lost member is held."""
        gang = self._leaving.pop(uid, None)
        if gang is None or uid not in self.rooms.get(gang, {}):
            return
        room, until = self.rooms[gang][uid], self._world.now + HOLD_SECONDS
        self._keep(gang, uid, msgspec.structs.replace(room, until=until, leaving=False))

    def refused(self, group: Group, action: Bind) -> None:
        """This binding of a member has been refused for good. For one that was refused before no further time begins
        as long as the gang is bound in part.
        """
        uid, now = action.pod.uid, self._world.now
        group.failures.refused_on.setdefault(uid, set()).add(action.node)
        pod = self._world.pods.get(uid)
        if pod is None:
            return
        first = group.failures.refuse(uid, asked_by(pod), now, notes.BINDING_REFUSED)
        if pod.gang.family != SINGLE:
            known = self.rooms.get(pod.gang, {}).get(uid)
            until = known.until if known is not None and not first else now + HOLD_SECONDS
            self._keep(pod.gang, uid, _Room(pod, action.node, until, leaving=False, answered=True))

    def touch(self, gangs: Iterable[GangId]) -> None:
        """Something about these gangs may be different now."""
        self._work.lost.update(gang for gang in gangs if gang in self.rooms)

    def _keep(self, gang: GangId, uid: str, room: _Room) -> None:
        rooms = self.rooms.setdefault(gang, {})
        rooms.pop(uid, None)  # the latest is the last
        rooms[uid] = room
        if len(rooms) > ROOMS_AT_MOST:
            oldest = next(iter(rooms))
            del rooms[oldest]
            self._leaving.pop(oldest, None)
            self._due.never((gang, oldest))
        self._work.lost.add(gang)
        self._due.at((gang, uid), room.until)

    # -- effects -------------------------------------------------------------------------------------------

    def update_room(self, groups: Mapping[str, Group], drained: Callable[[str], bool], nodes: Container[str]) -> None:
        """Hold what has to be held, and give back what has not. ``drained`` says of the key of a group whether it is
        being stopped by its queue; ``nodes`` are not what they were.
        """
        self._work.lost.update(g for g, rooms in self.rooms.items() if any(r.node in nodes for r in rooms.values()))
        self._work.lost.update(gang for gang, _ in self._due.due(self._world.now))
        dirty, self._work.lost = self._work.lost & self.rooms.keys(), set()
        found: dict[str, tuple[GangId, ...]] = {}
        for gang in sorted(dirty):
            gangs, _ = self._world.membership.group(gang)
            found[group_key(gangs)] = gangs
        for key, gangs in found.items():
            for gang in gangs:
                before = self._shown.get(gang, key)
                if before != key:  # it is in another group now
                    self._show(before, (gang,), [])
            group = groups.get(key)
            if drained(key) or not self._lacks(gangs, group):
                self._forget(gangs)
            rooms = [room for gang in gangs for room in self._wanted(gang)]
            if group is None or not (group.holding or group.state is State.STARTING):  # else its plan says what is held
                self._show(key, gangs, rooms)

    def keys(self) -> Collection[str]:
        """The keys of the groups for which room is held."""
        return self._shown.values()

    def _lacks(self, gangs: tuple[GangId, ...], group: Group | None) -> bool:
        """Return True if the group runs in part and is to go on. While bindings are on their way, the room of lost
        members is kept.
        """
        membership = self._world.membership
        if group is not None and group.rolled_back:
            return False
        bound = any(membership.census(gang).bound for gang in gangs)
        specs = [membership.spec(gang) for gang in gangs]
        if not bound or any(spec is None or spec.match_policy == ONLY_WAITING for spec in specs):
            return False
        return (group is not None and group.state is State.BINDING) or membership.half_bound(gangs)

    def _wanted(self, gang: GangId) -> list[_Room]:
        """The latest rooms, as many as the gang lacks. Expired entries are dropped, unless the refused member still
        exists: it would get a new time.
        """
        membership, now, rooms = self._world.membership, self._world.now, self.rooms.get(gang, {})
        if not rooms:
            return []
        census = membership.census(gang)
        if census.pending:
            for uid, room in [(u, r) for u, r in rooms.items() if not (r.answered or r.leaving)]:
                room.answered, room.until = True, now + HOLD_SECONDS
                self._due.at((gang, uid), room.until)
        for uid in [uid for uid, room in rooms.items() if room.until <= now and not room.leaving]:
            pod = self._world.pods.get(uid)
            if pod is None or pod.node or not pod.live:
                del rooms[uid]
        if not rooms:
            del self.rooms[gang]
        there = [room for room in rooms.values() if room.until > now and self._takes(room.node)]
        lacking = membership.required(gang, census)
        return there[-lacking:] if lacking else []

    def _takes(self, name: str) -> bool:
        """Return True if a successor may go to this node."""
        node = self._world.snapshot.node(name)
        return node is not None and node.ready and not (node.unschedulable or node.deleting or node.outdated)

    def _forget(self, gangs: Iterable[GangId]) -> None:
        for gang in gangs:
            for uid in self.rooms.pop(gang, ()):
                self._leaving.pop(uid, None)
                self._due.never((gang, uid))

    def _show(self, key: str, gangs: tuple[GangId, ...], rooms: list[_Room]) -> None:
        """From now on exactly this is held under a key."""
        world = self._world
        before = self._ledger.plan_reservation(key)
        priority = world.membership.preemptor_priority(gangs) if rooms else 0
        for gang in gangs:
            if rooms:
                self._shown[gang] = key
            else:
                self._shown.pop(gang, None)
        pods = before.pods if before is not None else ()
        same = [(p.uid, p.node) for p in pods] == [(r.pod.uid, r.node) for r in rooms]
        if same and (not pods or (before is not None and before.priority == priority)):
            return
        if not rooms:
            self._ledger.release(key)
            return
        if any(p.pod.volumes is not None for p in pods):
            self._work.changes.append(Change(Hint.VOLUMES))
        keep_room(world, self._ledger, key, gangs, [(r.pod, r.node) for r in rooms])


# -- members whose binding was refused --------------------------------------------------------------------
