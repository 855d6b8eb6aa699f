"""Room that is held for members that a gang expects: they are announced, lost, or those of a resumed Job.

Such a member has no pod, or none that is on a node. Its gang has room for it already, or had. Without a hold another
gang that is decided first would take that room and be evicted again, or keep it if the gang may evict no pod. So
room is held where a member is expected, for as many as the gang lacks, with the gang's priority:

======================= =============================================== ================================================
Members                 Their room is held until                        At most
======================= =============================================== ================================================
announced               ``announced.holdSeconds`` after the others of   a share of each resource for a namespace
                        the plan are bound
lost                    30 s after the member was gone, and 30 s after  the 256 latest members of a gang
                        a successor is seen
of a resumed Job        30 s after its last pod came                    shorter each time in an hour that the pods of
                                                                        the namespace did not come
======================= =============================================== ================================================

Quota is promised to them in the same way. Room for lost members and for those of resumed Jobs is not durable: after a
restart it is free for all. The time of announced members is read off the bound ones, so it continues after a restart,
wherever there is room for the rest then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

import msgspec

from gangsched.core.actions import MARK_REASON, Bind
from gangsched.core.agenda import Page
from gangsched.core.decision import group_key
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.ledger.reservation import announced_by
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.group import Group
from gangsched.core.lifecycle.refused_bindings import asked_by
from gangsched.core.lifecycle.table import State
from gangsched.core.options import Options
from gangsched.core.planning.context import KnownPlan
from gangsched.core.planning.cycle import Decider
from gangsched.core.quota.stop_policy import STOPPED
from gangsched.core.state.expected_members import amount_of, role_or_resource
from gangsched.core.state.jobs import WITHOUT_PODS, Suspendable
from gangsched.core.state.membership import ONLY_WAITING
from gangsched.core.world.kept_room import keep_announced, keep_room
from gangsched.core.world.suspended import held
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
    """What gangs have lost, by gang and the UID of the member. :meth:`update_room` turns it into held room. Nothing is
    noted before :meth:`begin`, which a process that only stands by does not call.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world = world
        self._ledger = ledger
        self._begun = False
        self.rooms: dict[GangId, dict[str, _Room]] = {}
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
        self._keep(gang, before.uid, _Room(before, before.node, world.now + HOLD_SECONDS, leaving))

    def pod_gone(self, pod: Pod) -> None:
        """Begin the time for which the room of a lost member is held. ``pod`` is its last record."""
        room = self.rooms.get(pod.gang, {}).get(pod.uid)
        if room is not None and room.leaving:
            until = self._world.now + HOLD_SECONDS
            self._keep(pod.gang, pod.uid, msgspec.structs.replace(room, until=until, leaving=False))

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
        for uid, room in [(uid, room) for uid, room in rooms.items() if room.until <= now]:
            pod = self._world.pods.get(uid)
            if pod is None or ((pod.node or not pod.live) and not room.leaving):
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


class _Announced(msgspec.Struct):
    """Where announced members of a group will be. ``seen`` are the members (UIDs) on nodes at the last look."""

    gangs: tuple[GangId, ...]
    places: list[tuple[Pod, str]]
    seen: set[str]


class AnnouncedRoom:
    """What is kept, by the key of the group."""

    def __init__(self, decider: Decider, reporter: Reporter) -> None:
        self._world = decider.world
        self._ledger = decider.ledger
        self._hold_seconds = decider.options.announced_hold_seconds
        self._share = decider.options.announced_share
        self._decider = decider
        self._reporter = reporter
        self.rooms: dict[str, _Announced] = {}
        self._until = self._ledger.agenda.page(on_due=self._release)

    def hold(self, group: Group, places: Sequence[tuple[Pod, str]]) -> None:
        """The group has a plan: from now on exactly this is kept for what it announces; of one that runs, what is."""
        if group.key not in self._until and (places or group.key in self.rooms):
            self._keep(group.key, _Announced(group.gangs, list(places), set()))

    def resumed(self, group: Group) -> None:
        """The group goes on with the plan of an earlier process."""
        plan, membership = group.plan, self._world.membership
        absent = [pod for gang in group.gangs for pod in membership.absent_at_start(gang)]
        if plan is not None and absent:
            known = KnownPlan(group.gangs, plan.placements, plan.victims, absent=absent)
            self.hold(group, self._decider.still_holds(known).absent)

    def plan_over(self, key: str) -> None:
        """Its plan is over: the time begins if members are bound, else nothing is kept any longer."""
        if key in self.rooms:
            if key not in self._until:
                self._until.at(key, self._world.now + self._hold_seconds)
            self._give_back(key)

    def touch(self, gangs: Iterable[GangId]) -> None:
        """Something about these gangs may be different now."""
        if (key := group_key(tuple(gangs))) in self._until:
            self._give_back(key)

    def _release(self, key: str) -> None:
        """Release the room of members that were not created in time."""
        room = self.rooms[key]
        about = report.stands_for(self._world, room.gangs[0])
        if about is not None:
            kept = ", ".join(f"{count} {what}" for what, count in sorted(_amounts(room.places).items()))
            note = notes.announced_room_released(seconds=int(self._hold_seconds), kept=kept)
            self._reporter.event(about, report.ROOM_RELEASED, note)
        self._keep(key, msgspec.structs.replace(room, places=[]))

    def take_over(self) -> None:
        """Gangs of which members run already have the rest of their time, the strongest first."""
        world, membership = self._world, self._world.membership
        found = []
        for gang in membership.gangs():
            if membership.is_ours(gang) and (spec := membership.spec(gang)) is not None and spec.announces:
                bound, began = membership.census(gang).bound, world.sightings.began_at
                since = min((began.get(p.uid, p.runs_since) for p in bound), default=0.0)
                until = since + self._hold_seconds
                if until > world.now:
                    found.append((-membership.preemptor_priority((gang,)), gang, until))
        for _, gang, until in sorted(found):
            gangs, _ = membership.group(gang)
            absent = [pod for each in membership.absent(gang, membership.placed(gang)) for pod in each.pods()]
            places = [*self._decider.still_holds(KnownPlan(gangs, absent=absent)).absent]
            self._until.at(group_key(gangs), until)
            self._keep(group_key(gangs), _Announced(gangs, places, {p.uid for p in membership.pods(gang)}))

    def _give_back(self, key: str) -> None:
        """Keep what members lack that are on no node; the first to be given back is where others have come."""
        room, membership = self.rooms[key], self._world.membership
        bound = [pod for gang in room.gangs for pod in membership.census(gang).bound]
        lacking: Counter[str] = Counter()
        for gang in room.gangs if bound else ():
            for each in membership.absent(gang, membership.placed(gang)):
                lacking[each.what] += each.number * amount_of(each.like)
        assumed = self._world.assumed
        new = {pod.uid: pod.node or assumed.get(pod.uid, "") for pod in bound if pod.uid not in room.seen}
        room.seen.update(new)
        kept: Counter[str] = Counter()
        places = []
        for place in sorted(room.places, key=lambda place: place[1] in new.values()):
            if kept[role_or_resource(place[0])] < lacking[role_or_resource(place[0])]:
                kept += _amounts([place])
                places.append(place)
        if len(places) < len(room.places) or not places:
            self._keep(key, msgspec.structs.replace(room, places=places))

    def _keep(self, key: str, room: _Announced) -> None:
        if room.places:
            self.rooms[key] = room
            keep_announced(self._world, self._ledger, room.gangs, room.places, self._share)
        else:
            self.rooms.pop(key, None)
            self._until.never(key)
            self._ledger.release(announced_by(key))


def _amounts(places: Iterable[tuple[Pod, str]]) -> Counter[str]:
    """Return how many members there are of each role, and how much (in base units) of each resource of a sum."""
    out: Counter[str] = Counter()
    for pod, _ in places:
        out[role_or_resource(pod)] += amount_of(pod)
    return out


class ResumedRoom:
    """The room for the pods of Jobs and JobSets that this scheduler has resumed. The ledger has it, by the key of the
    group.
    """

    def __init__(self, world: World, ledger: Ledger, options: Options) -> None:
        self._world = world
        self._ledger = ledger
        self._most_seconds = options.timeout_seconds

    def begin(self, key: str, owner: Suspendable) -> None:
        """Keep what the group holds for the pods that will come."""
        self._ledger.resume(key, owner.uid)
        self._prolong(key, owner.namespace)

    def _prolong(self, key: str, namespace: str) -> None:
        """Begin the time of the pods that have not come yet."""
        seconds = self._world.resumes.seconds(namespace, self._world.now)
        self._ledger.deadlines.at(key, self._world.now + min(seconds, self._most_seconds))

    def is_suspended_again(self, owner: Suspendable) -> bool:
        """Return True if a resumed Job has been suspended since, by this scheduler or by others. No pods come then.
        Until the cluster shows that the Job runs, it only looks suspended.
        """
        made = self._ledger.kept_for(owner.uid)
        if made is not None and not owner.suspended:
            self._ledger.seen_resumed(owner.uid)
        ours = owner.suspended_by or held(self._world, owner)
        return owner.suspended and (not ours or (made is not None and made.resumed))

    def use_room(self, pod: Pod, node: str) -> None:
        """Give up as much room as a pod of a resumed Job takes on a node, there if possible."""
        ledger = self._ledger
        owner = self._world.jobs.owner_of(pod) if ledger.resuming and pod.live else None
        made = ledger.kept_for(owner.uid) if owner is not None else None
        taken = ledger.adopt(owner.uid, pod.uid, node) if owner is not None else None
        if made is None or taken is None:
            return
        self._prolong(made.holder, pod.namespace)
        if taken.node != node:
            ledger.work.changes.append(Change(Hint.ROOM, taken.node))
        ledger.work.phases.add(made.holder)

    def record_without_pods(self, group: Group) -> float | None:
        """Record that no pod of a resumed Job came in time. Return when the Job may be resumed again (seconds); None if
        a pod came.
        """
        made, owner = self._ledger.plan_reservation(group.key), report.job_of(self._world, group.gangs[0])
        if made is None or made.adopted or owner is None or owner.suspended:
            return None
        return self._world.resumes.record_without_pods(owner.uid, owner.namespace, self._world.now)
