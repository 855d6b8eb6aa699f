"""Members that a gang announces are created only when others of it run: room is kept for them until then.

That room is part of the gang's plan, is kept beside the room of its members, and stays when these are bound: for
``announced.holdSeconds`` from then. Members that got a node no longer need held room. The time is read off the bound
members, so it goes on after a restart, wherever there is room for the rest then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

import msgspec

from gangsched.core.decision import group_key
from gangsched.core.ledger.ledger import announced_by
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.group import Group
from gangsched.core.planning.context import KnownPlan
from gangsched.core.planning.cycle import Decider
from gangsched.core.state.expected_members import role_or_resource
from gangsched.core.world.kept_room import keep_announced
from gangsched.messages import notes
from gangsched.model.records import GangId, Pod


class _StandIns(msgspec.Struct):
    """Where stand-ins of a group would be; ``seen`` are the members (UIDs) that were on nodes when it was looked at."""

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
        self.rooms: dict[str, _StandIns] = {}
        self._until = self._ledger.agenda.page(on_due=self._release)

    def hold(self, group: Group, places: Sequence[tuple[Pod, str]]) -> None:
        """The group has a plan: from now on exactly this is kept for what it announces; of one that runs, what is."""
        if group.key not in self._until and (places or group.key in self.rooms):
            self._keep(group.key, _StandIns(group.gangs, list(places), set()))

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
            kept = ", ".join(f"{count} {what}" for what, count in sorted(self._sizes(room, room.places).items()))
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
            absent = membership.absent(gang, membership.placed(gang))
            places = [*self._decider.still_holds(KnownPlan(gangs, absent=absent)).absent]
            self._until.at(group_key(gangs), until)
            self._keep(group_key(gangs), _StandIns(gangs, places, {p.uid for p in membership.pods(gang)}))

    def _give_back(self, key: str) -> None:
        """Keep what members lack that are on no node; the first to be given back is where others have come."""
        room, membership = self.rooms[key], self._world.membership
        bound = [pod for gang in room.gangs for pod in membership.census(gang).bound]
        lacking: Counter[str] = Counter()
        for gang in room.gangs if bound else ():
            lacking += self._sizes(room, ((pod, "") for pod in membership.absent(gang, membership.placed(gang))))
        assumed = self._world.assumed
        new = {pod.uid: pod.node or assumed.get(pod.uid, "") for pod in bound if pod.uid not in room.seen}
        room.seen.update(new)
        kept: Counter[str] = Counter()
        places = []
        for place in sorted(room.places, key=lambda place: place[1] in new.values()):
            if kept[role_or_resource(place[0])] < lacking[role_or_resource(place[0])]:
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
            what = role_or_resource(pod)
            out[what] += pod.shape.requests[0][1] if what in sums else 1
        return out

    def _keep(self, key: str, room: _StandIns) -> None:
        if room.places:
            self.rooms[key] = room
            keep_announced(self._world, self._ledger, room.gangs, room.places, self._share)
        else:
            self.rooms.pop(key, None)
            self._until.never(key)
            self._ledger.release(announced_by(key))
