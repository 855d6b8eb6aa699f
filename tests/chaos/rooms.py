"""Room that the scheduler gave away though it was kept for a gang of at least the same priority.

It is kept for nominated members as long as their plan stands, and for a gang that runs and has lost members. All of it
is judged by what the process itself had been told: a race at the API server is none at this table.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from gangsched.core.actions import Action, Bind, Mark, Nominate, WithdrawNomination
from gangsched.core.actuation.records import read_owners
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.core.ledger.condemned import Cause
from gangsched.model.records import SINGLE, GangId, Pod
from tests.chaos.play import Played
from tests.chaos.told import AT_ONCE, Told, short_of

#: So long the room of a lost member is kept, from when it is free.
KEPT_SECONDS = 30.0


class _Kept(msgspec.Struct):
    """Room for this pod on a node, with the priority of its gang when that was asked for, and its ``number``."""

    pod: Pod
    node: str
    priority: int
    number: int


class _Lost(msgspec.Struct):
    """A member that its gang has lost, kept until then (seconds; from its end, if that is not known yet). ``perhaps``:
    it may have been chosen to leave by then, or other room is kept for its gang.
    """

    pod: Pod
    until: float
    perhaps: bool


class _Doubt(msgspec.Struct):
    """Room of nominated members (UIDs) that was given away, while writes of their gang were on their way: if these were
    withdrawn with the last of its answers, their plan may have been given up by then.
    """

    text: str
    members: set[str]


class Process:
    """One process of the scheduler: what it keeps for whom, and what was wrong with what it gave away."""

    def __init__(self) -> None:
        self.told = Told()
        self.doubts: list[_Doubt] = []
        self._kept: dict[str, _Kept] = {}
        self._found: dict[str, str] = {}  # nominations of an earlier process as they stand, by UID
        self._numbers = itertools.count()
        self._lost: dict[GangId, dict[str, _Lost]] = defaultdict(dict)
        self._over: dict[GangId, dict[str, _Lost]] = defaultdict(dict)  # those that a plan may have taken the place of
        self._refusals: dict[str, float] = {}  # until when room is kept for members (UIDs), from the first refusal on
        self._begun = False

    # -- what it is told ---------------------------------------------------------------------------------------

    def hear(self, events: list[Event], now: float) -> None:
        """Go on to the state after these events. Those of the first list tell of no loss."""
        for event in events:
            match event:
                case Changed(Pod() as pod):
                    self._loses(pod.uid, pod, now)
                case Gone("Pod", _, _, uid):
                    self._loses(uid, None, now)
                case WriteDone(action_id, outcome) if outcome in (Outcome.REFUSED, Outcome.CONFLICT):
                    self._refused(action_id, outcome, now)
            self.told.hear(event, now)
        if not self._begun:
            self._found = {p.uid: p.nominated_node for p in self.told.pods.values() if p.on_record}
        self._begun = True
        for gang in [gang for gang in self._lost if not (self._lacking(gang) or self._binds(gang))]:
            del self._lost[gang]  # what is lost without harm is lost for good
        for uid in [uid for uid in self._kept if not self._waits(uid)]:
            del self._kept[uid]

    def _lacking(self, gang: GangId) -> int:
        """How many members it lacks beside those that may be bound: these have room, and are asked for there again."""
        told = self.told
        return max(0, told.lacking(gang) - sum(p.uid in told.unsure for p in told.members(gang)))

    def _binds(self, gang: GangId) -> bool:
        """Are bindings of its members on their way, or may be, or other writes of it?"""
        told = self.told
        going = told.bindings.keys() | told.unsure
        return gang.key in told.busy or any(p.uid in going for p in told.members(gang))

    def _waits(self, uid: str) -> bool:
        pod = self.told.pods.get(uid)
        return pod is not None and pod.live and not pod.node

    def _refused(self, action_id: int, outcome: Outcome, now: float) -> None:
        """A member of a gang could not be bound: its room is kept rather than that of those who are leaving by then, if
        it was refused for good, for so long from when it was first.
        """
        keys = self.told.open.get(action_id, frozenset())
        for gang in (gang for gang in self._lost if gang.key in keys):
            for each in self._lost[gang].values():
                each.perhaps = each.perhaps or each.until == math.inf
        pod, node = self.told.binding_of(action_id)
        if pod is not None and outcome is Outcome.REFUSED:
            until = self._refusals.setdefault(pod.uid, now + KEPT_SECONDS)
            there = msgspec.structs.replace(pod, node=node)
            self._lost[pod.gang][pod.uid] = _Lost(there, until, self._plan_begins())

    def _loses(self, uid: str, after: Pod | None, now: float) -> None:
        before = self.told.pods.get(uid)
        if before is None or not self._begun:
            return
        if after is None and not before.node:  # one that was refused: nobody is kept off for a pod that is gone
            self._lost[before.gang].pop(uid, None)
        known = self._lost[before.gang].get(uid)
        if known is not None and (after is None or after.finished):
            known.until = min(known.until, now + KEPT_SECONDS)
        told = self.told
        lost = before.bound and before.live and (after is None or not after.live)
        said = (after or before).disruption
        job = told.jobs.get((before.namespace, before.owner.name)) if before.owner is not None else None
        ended = after is not None and after.phase == "Succeeded"
        stopped = before.owner is not None and (job is None or job.suspended or job.finished)
        chosen = said is not None or uid in told.marked
        if lost and not (chosen or ended or stopped):
            until = now + KEPT_SECONDS if after is None or after.finished else math.inf
            self._lost[before.gang][uid] = _Lost(before, until, self._plan_begins())

    # -- what it asks for --------------------------------------------------------------------------------------

    def asks(self, action: Action, now: float) -> Iterator[str]:
        """What is wrong with this."""
        told = self.told
        match action:
            case Nominate(_, ref, node) if ref.uid in told.pods:
                pod = told.pods[ref.uid]
                self._found.pop(ref.uid, None)
                self._kept[ref.uid] = _Kept(pod, node, told.priority(pod.gang), next(self._numbers))
                self._planned(pod.gang)
            case Mark() if action.pod.uid in told.pods:
                gang = told.pods[action.pod.uid].gang
                self._lost.pop(gang, None)  # it takes no members any more
                if any(owner.cause == Cause.ROLLBACK.value for owner in read_owners(action.owners) or ()):
                    for member in told.members(gang):  # if it takes some again, it begins anew
                        self._refusals.pop(member.uid, None)
            case WithdrawNomination():
                self._kept.pop(action.pod.uid, None)
                self._found.pop(action.pod.uid, None)
                self._withdrawn(action.pod.uid)
            case Bind(_, ref, node) if ref.uid in told.pods:
                pod = told.pods[ref.uid]
                own = self._kept.pop(ref.uid, None)
                self._planned(pod.gang)
                if told.tried.get(ref.uid) != node:  # else the same as before, which may have taken effect
                    planned = own.number if own is not None and own.node == node else math.inf
                    if self._found.get(ref.uid) == node:
                        planned = -1  # it goes on with what an earlier process has planned, before any plan of its own
                    yield from self._gives(pod, node, now, planned)
        told.asked(action)

    def _planned(self, gang: GangId) -> None:
        """What is kept for a gang is what it has planned. Losses that are leaving still may be kept after that, beside
        later ones.
        """
        lost = self._lost.pop(gang, {})
        self._lost[gang] = {uid: each for uid, each in lost.items() if each.until == math.inf}
        self._over[gang].update((uid, each) for uid, each in lost.items() if each.until != math.inf)

    def beyond_doubt(self) -> list[str]:
        """At the end of the process: what was wrong after all. Nobody knows what it had done with answers that it has
        not lived to hear.
        """
        waiting = self.told.busy
        gangs = {uid: pod.gang.key for uid, pod in self.told.pods.items()}
        return [d.text for d in self.doubts if not any(gangs.get(uid) in waiting for uid in d.members)]

    def _withdrawn(self, uid: str) -> None:
        self.doubts = [doubt for doubt in self.doubts if uid not in doubt.members]

    def _gives(self, pod: Pod, name: str, now: float, planned: float) -> Iterator[str]:
        """Is there room for this pod on the node, when all that are to leave it have left, beside those that stay, and
        those for which it is kept? Plans of its priority that were made after its own, of this number, were made with
        this room taken.
        """
        told, node = self.told, self.told.nodes.get(name)
        if node is None or told.queued(pod):
            return
        priority = told.priority(pod.gang)
        nominated = [
            each
            for each in self._kept.values()
            if each.node == name
            and not told.queued(each.pod)
            and each.pod.gang != pod.gang
            and min(each.priority, told.priority(each.pod.gang)) >= priority + (each.number > planned)
        ]
        lost = [p for p in self.of_losses(now) if p.node == name and p.gang != pod.gang]
        lost = [p for p in lost if told.priority(p.gang) >= priority]
        stay = [p for p in told.staying_on(name) if p.uid != pod.uid]
        about = f"at {now:.3f} s: {pod.key} (priority {priority}) on {name}, kept for"
        if lost and short_of(node, [*stay, *lost, pod], beside=pod):
            yield f"{about} {', '.join(p.key for p in lost)}, which is lost"
        kept = [each.pod for each in nominated]
        if not kept or not short_of(node, [*stay, *kept, pod], beside=pod):
            return
        text = f"{about} {', '.join(f'{k.pod.key} (priority {k.priority})' for k in nominated)}, which is nominated"
        busy = [p for p in kept if p.gang.key in told.busy]
        if busy and not short_of(node, [*stay, *(p for p in kept if p not in busy), pod], beside=pod):
            self.doubts.append(_Doubt(text, {p.uid for p in busy}))
        else:
            yield text

    def _plan_begins(self) -> bool:
        """Is a plan being written down? Its victims may be members of any gang, and bear no mark yet."""
        return any(each.pod.gang.key in self.told.busy for each in self._kept.values())

    def of_losses(self, now: float, *, perhaps: bool = False) -> Iterator[Pod]:
        """The lost members whose room is kept: of gangs that run, all by themselves, and lack at least so many. Those
        too of which that may be so, if these are wanted.
        """
        told = self.told
        if self._plan_begins() and not perhaps:
            return
        if perhaps:
            found = {gang: {**self._over[gang], **self._lost[gang]} for gang in [*self._over, *self._lost]}
        else:
            found = self._lost
        for gang, lost in found.items():
            known = told.group(gang)
            if gang.family == SINGLE or known is None or known.match_policy != "once-satisfied" or known.group:
                continue
            members = told.members(gang)
            bound = [p for p in members if p.live and p.node]
            rooms = [each for each in lost.values() if now < each.until - AT_ONCE]
            if not bound or not (self._lacking(gang) if perhaps else self._surely_kept(gang, members, rooms)):
                continue
            for each in rooms:
                node = told.nodes.get(each.pod.node)
                if node is not None and node.ready and not (node.unschedulable or node.deleting or node.outdated):
                    yield each.pod

    def _surely_kept(self, gang: GangId, members: list[Pod], rooms: list[_Lost]) -> bool:
        """Is nothing under way for a gang with these members that may have ended what is kept for these losses?"""
        busy = self._binds(gang) or any(self.told.leaving(p) for p in members if p.live and p.node)
        planned = any(each.pod.gang == gang for each in self._kept.values()) or any(map(self.told.queued, members))
        perhaps = any(each.perhaps for each in rooms)
        return not (busy or planned or perhaps or len(rooms) > self._lacking(gang))


def given_away(played: Played) -> list[str]:
    """Pods that were bound where there is no room for them beside what the same process keeps for gangs of at least
    their priority: for nominated members until that is withdrawn, and for lost ones for 30 seconds.

    Among gangs of queues other things than priority count, and nothing is said about those.
    """
    out: list[str] = []
    processes: dict[int, Process] = {}
    for batch in played.batches:
        process = processes.setdefault(batch.process, Process())
        process.hear(batch.events, batch.at_seconds)
        for action in batch.actions:
            out += process.asks(action, batch.at_seconds)
    return out + [text for process in processes.values() for text in process.beyond_doubt()]
