"""Gangs that are bound in part: members that are lost, announced or refused, and gangs that leave as a whole.

A gang that runs falls below its minimum when a member is deleted or fails, or when one could not be bound with the
others. Its controller needs a moment to make the member again. Whoever is decided in this moment would take its room,
and have to leave again or, if the gang may evict no pod, keep it. So as much as the gang lacks is held where the lost
members were, with the gang's priority and under its key, like the room of members that are nominated; its quota is
promised to it in the same way. Nothing of this is durable: after a restart the room is free for all.

Rollback: a gang that was bound in part, and whose other members have no place, leaves as a whole and starts anew.
There is no unbind: a bound pod can only be deleted. So this is off unless it is asked for, touches only members that
their controllers create again, and only when all bound members are of this kind and nothing of the gang ran before.

Members whose binding was refused for good go to other nodes. Why it was refused is not known here: an admission plug-in
may mind the node, the pod, or both. So another node is tried where there is room; no pod is evicted to find out. When
no other is left, all of them are tried again: whatever minded may have changed its mind. Nor is any pod evicted when
weaker work has got the room meanwhile, for the member would be refused again, and whoever has left would come back: not
before a pause is over, which doubles when the member is refused once more after it. Members are kept off as if they had
asked for that, and a spread constraint leaves out nodes that its pod does not ask for. They count all the same: the
place has to do for the members as they are.

Members that a gang announces are created only when others of it run. Room for them is part of the gang's plan, is kept
beside the room of its members, and stays when these are bound: for ``announced.holdSeconds`` from then. What of them
comes to a node needs none of it any more. The time is read off the bound members, so it goes on after a restart,
wherever there is room for the rest then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

import msgspec

from gangsched.core.actions import MARK_REASON, Bind
from gangsched.core.agenda import Page
from gangsched.core.decision import BIND, WAIT, UnitRef, Unschedulable, Verdict, Victim, group_key
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.ledger import Kind, announced_by
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.group import TRIES, Failed, Group, Refusal, pause
from gangsched.core.lifecycle.table import State
from gangsched.core.planning.context import Pause, Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.explain import failing
from gangsched.core.quota.stop_policy import STOPPED
from gangsched.core.state.announced import what_of
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.state.membership import ONLY_WAITING
from gangsched.core.world.announced_room import keep_announced
from gangsched.core.world.world import World, keep_room
from gangsched.messages import notes
from gangsched.model.preemptible import protected
from gangsched.model.records import SINGLE, GangId, Pod

#: How long room is held from when it became free, and once more from when a successor has been seen.
HOLD_SECONDS = 30.0
#: Seconds in which a gang evicts no pod after a member was refused; twice as long each time it is refused after that.
FIRST_PAUSE_SECONDS = 120.0
#: Of how many members of one gang room is held at most, the latest ones: each is looked at in every decision.
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

    def __init__(self, world: World) -> None:
        self._world = world
        self._begun = False
        self.rooms: dict[GangId, dict[str, _Room]] = {}
        self._leaving: dict[str, GangId] = {}
        self._shown: dict[GangId, str] = {}
        self._work = world.ledger.work
        self._due: Page[tuple[GangId, str]] = world.ledger.agenda.page()

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

    def gone(self, uid: str) -> None:
        """A pod takes no room any more."""
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
        before = group.failures.refusals.get(uid)
        pauses = before.pauses if before is not None and before.asked == _asked(pod) else 0
        first = not pauses or before is None or before.until <= now
        if first:
            until = now + pause(FIRST_PAUSE_SECONDS, pauses + 1)
            group.failures.refusals[uid] = Refusal(pauses + 1, until, _asked(pod))
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

    # -- what follows --------------------------------------------------------------------------------------

    def follow(self, groups: Mapping[str, Group], drained: Callable[[str], bool], nodes: Container[str]) -> None:
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
        """Does the group run in part, and is it to go on? While bindings are on their way, what is lost is kept."""
        membership = self._world.membership
        if group is not None and group.rolled_back:
            return False
        bound = any(membership.census(gang).bound for gang in gangs)
        specs = [membership.spec(gang) for gang in gangs]
        if not bound or any(spec is None or spec.match_policy == ONLY_WAITING for spec in specs):
            return False
        return (group is not None and group.state is State.BINDING) or membership.half_bound(gangs)

    def _wanted(self, gang: GangId) -> list[_Room]:
        """The latest rooms, as many as the gang lacks. Those whose time is over are forgotten, unless the member that
        was refused is still there: it would have its time again.
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
        """May a successor go to this node at all?"""
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
        before = world.ledger.of(key)
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
            world.ledger.release(key)
            return
        if any(p.pod.volumes is not None for p in pods):
            world.ledger.work.changes.append(Change(Hint.VOLUMES))
        keep_room(world, key, gangs, [(r.pod, r.node) for r in rooms], Kind.REPLACEMENT)


class _StandIns(msgspec.Struct):
    """Where stand-ins of a group would be; ``seen`` are the members (UIDs) that were on nodes when it was looked at."""

    gangs: tuple[GangId, ...]
    places: list[tuple[Pod, str]]
    seen: set[str]


class AnnouncedRoom:
    """What is kept, by the key of the group."""

    def __init__(self, decider: Decider, reporter: Reporter) -> None:
        self._world = decider.world
        self._ledger = decider.world.ledger
        self._hold_seconds = decider.options.announced_hold_seconds
        self._share = decider.options.announced_share
        self._decider = decider
        self._reporter = reporter
        self.rooms: dict[str, _StandIns] = {}
        self._until = self._ledger.agenda.page()

    def hold(self, group: Group, places: Sequence[tuple[Pod, str]]) -> None:
        """The group has a plan: from now on exactly this is kept for what it announces; of one that runs, what is."""
        if group.key not in self._until and (places or group.key in self.rooms):
            self._keep(group.key, _StandIns(group.gangs, list(places), set()))

    def resumed(self, group: Group) -> None:
        """The group goes on with the plan of an earlier process."""
        plan, membership = group.plan, self._world.membership
        absent = [pod for gang in group.gangs for pod in membership.absent_at_start(gang)]
        if plan is not None and absent:
            found = self._decider.room_for(absent, group.gangs, plan.placements, plan.victims)
            self.hold(group, found)

    def plan_over(self, key: str) -> None:
        """Its plan is over: the time begins if members are bound, else nothing is kept any longer."""
        if key in self.rooms:
            if key not in self._until:
                self._until.at(key, self._world.now + self._hold_seconds)
            self._settle(key)

    def touch(self, gangs: Iterable[GangId]) -> None:
        """Something about these gangs may be different now."""
        if (key := group_key(tuple(gangs))) in self._until:
            self._settle(key)

    def time_over(self) -> None:
        """What has not come in time need not come any more."""
        for key in self._until.due(self._world.now):
            room = self.rooms[key]
            about = report.stands_for(self._world, room.gangs[0])
            if about is not None:
                kept = ", ".join(f"{count} {what}" for what, count in sorted(self._sizes(room, room.places).items()))
                note = notes.announced_room_released(seconds=int(self._hold_seconds), kept=kept)
                self._reporter.event(about, report.ROOM_RELEASED, note)
            self._keep(key, msgspec.structs.replace(room, places=[]))

    def take_over(self) -> None:
        """Gangs of which members run already have the rest of their time, the strongest first."""
        world, membership = self._world, self._world.membership
        found = []
        for gang in membership.members:
            if membership.is_ours(gang) and (spec := membership.spec(gang)) is not None and spec.announces:
                bound, began = membership.census(gang).bound, world.sightings.began_at
                since = min((began.get(p.uid, p.runs_since) for p in bound), default=0.0)
                until = since + self._hold_seconds
                if until > world.now:
                    found.append((-membership.preemptor_priority((gang,)), gang, until))
        for _, gang, until in sorted(found):
            gangs, _ = membership.group(gang)
            absent = membership.absent(gang, membership.placed(gang))
            places = self._decider.room_for(absent, gangs)
            self._until.at(group_key(gangs), until)
            self._keep(group_key(gangs), _StandIns(gangs, places, {p.uid for p in membership.pods(gang)}))

    def _settle(self, key: str) -> None:
        """Keep what members lack that are on no node; the first to be given back is where others have come."""
        room, membership = self.rooms[key], self._world.membership
        bound = [pod for gang in room.gangs for pod in membership.census(gang).bound]
        lacking: Counter[str] = Counter()
        for gang in room.gangs if bound else ():
            lacking += self._sizes(room, ((pod, "") for pod in membership.absent(gang, membership.placed(gang))))
        assumed = self._ledger.assumed
        new = {pod.uid: pod.node or assumed.get(pod.uid, "") for pod in bound if pod.uid not in room.seen}
        room.seen.update(new)
        kept: Counter[str] = Counter()
        places = []
        for place in sorted(room.places, key=lambda place: place[1] in new.values()):
            if kept[what_of(place[0])] < lacking[what_of(place[0])]:
                kept += self._sizes(room, [place])
                places.append(place)
        if len(places) < len(room.places) or not places:
            self._keep(key, msgspec.structs.replace(room, places=places))

    def _sizes(self, room: _StandIns, places: Iterable[tuple[Pod, str]]) -> Counter[str]:
        """How many stand-ins there are of each role, and how much (in base units) of each resource of a sum."""
        specs = [self._world.membership.spec(gang) for gang in room.gangs]
        sums: Container[str] = {name for spec in specs if spec is not None for name, _ in spec.min_resources}
        out: Counter[str] = Counter()
        for pod, _ in places:
            what = what_of(pod)
            out[what] += pod.shape.requests[0][1] if what in sums else 1
        return out

    def _keep(self, key: str, room: _StandIns) -> None:
        if room.places:
            self.rooms[key] = room
            keep_announced(self._world, room.gangs, room.places, self._share)
        else:
            self.rooms.pop(key, None)
            self._until.never(key)
            self._ledger.release(announced_by(key))


def leaving(world: World, group: Group, verdict: Verdict) -> list[Victim]:
    """The members to remove; none when the gang has to go on as it is.

    It is rolled back when its other members have no place, or when their bindings fail again and again; only so often
    in a row, and only if its API does not ask for its members to be spared.
    """
    membership = world.membership
    if not group.failures.begun or not all(map(membership.strict, group.gangs)):
        return []
    if not membership.half_bound(group.gangs):
        group.failures.begun.clear()
        return []
    refused = group.failures.count(Failed.BINDING) >= TRIES
    if not (refused or hopeless(verdict)) or group.failures.count(Failed.ROLLBACK) >= TRIES:
        return []
    members = [membership.census(gang) for gang in group.gangs]
    bound = [pod for census in members for pod in census.bound]
    if any(census.succeeded for census in members) or not all(_may_go(group, pod) for pod in bound):
        return []
    found = [_as_victim(pod) for pod in bound]
    return [] if failing(found, world) else found  # a Job would count them as failed, and end


def hopeless(verdict: Verdict) -> bool:
    """Have the other members no place, and will they have none either when time has passed, gangs ahead have had their
    turn, quota is given back, a plug-in works again, or the gang may evict again?
    """
    why = verdict.first
    if not isinstance(why, Unschedulable):
        return False
    return not (why.failed_plugin or why.retry_at is not None or why.behind or why.short_of_quota)


def _may_go(group: Group, pod: Pod) -> bool:
    return pod.uid in group.failures.begun and pod.owner is not None and not protected(pod, evict_daemonset_pods=False)


def _as_victim(pod: Pod) -> Victim:
    return Victim.of(pod, UnitRef("PodGroup", pod.gang.key), reason="Rollback")


def mark_text(world: World, group: Group) -> str:
    """What the marks of its members say: a restart finds out by it that this was under way, and takes it back."""
    pending = [pod for gang in group.gangs for pod in world.membership.census(gang).pending]
    trigger = min((pod.key for pod in pending), default=group.gangs[0].key)
    return notes.rolling_back(scheduler=group.gangs[0].scheduler, gang=group.name, trigger=trigger)


# -- members whose binding was refused --------------------------------------------------------------------


def pause_of(world: World, group: Group) -> Pause:
    """When the group may evict others (again), and why not before."""
    for uid, refusal in list(group.failures.refusals.items()):
        pod = world.pods.get(uid)
        if pod is None or pod.node or not pod.live or _asked(pod) != refusal.asked:
            del group.failures.refusals[uid]
    refused = max((refusal.until for refusal in group.failures.refusals.values()), default=0.0)
    rounds = group.failures.count(Failed.ROUND)
    many = notes.rounds(rounds=rounds) if rounds > 1 else notes.ONE_ROUND
    paused = Pause(group.failures.paused_until, notes.pauses(many=many))
    return max(Pause(refused, notes.BINDING_REFUSED), paused)


def _asked(pod: Pod) -> object:
    return pod.shape, pod.labels, pod.hints, pod.priority


def other_nodes(decider: Decider, group: Group) -> Verdict | None:
    """The decision to go where no binding of the same member has been refused; None when there is no such room."""
    if not group.failures.refused_on:
        return None
    pause, keep_off = pause_of(decider.world, group), group.failures.refused_on
    verdict = decider.decide(Question(group.gangs, may_preempt=False, pause=pause, keep_off=keep_off))
    given = {uid: found for d in verdict.decisions if d.quota is not None for uid, found in d.quota.by_pod.items()}
    if verdict.outcome in (BIND, WAIT) and decider.still_holds(
        group.gangs, verdict.placements, (), terminating_leave=verdict.outcome == WAIT, flavors=given
    ):
        return verdict
    group.failures.refused_on.clear()
    return None
