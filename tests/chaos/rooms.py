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
    """A member that its gang has lost. Its room is kept ``until`` then at least (seconds; infinite while it leaves, and
    in the past where it may have been chosen to leave), and until ``latest`` at most.
    """

    pod: Pod
    until: float
    latest: float


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
        # Until when room is kept for members (UIDs), from the first refusal on since their gang is bound in part.
        self._refusals: dict[GangId, dict[str, float]] = defaultdict(dict)
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
                case WriteDone(action_id, Outcome.REFUSED):
                    self._refused(action_id, now)
            self.told.hear(event, now)
        if not self._begun:
            self._found = {p.uid: p.nominated_node for p in self.told.pods.values() if p.on_record}
        self._begun = True
        for gang in [gang for gang in {**self._lost, **self._refusals} if not self._in_part(gang)]:
            self._forget(gang)
        for uid in [uid for uid in self._kept if not self._waits(uid)]:
            del self._kept[uid]

    def _lacking(self, gang: GangId) -> int:
        """How many members it lacks beside those that may be bound: these have room, and are asked for there again."""
        told = self.told
        return max(0, told.lacking(gang) - sum(p.uid in told.unsure for p in told.members(gang)))

    def _in_part(self, gang: GangId) -> bool:
        """Is it bound in part, or may be? What is lost without harm, or when nobody is left, is lost for good."""
        bound = any(p.live and p.node for p in self.told.members(gang))
        return self._binds(gang) or (bound and self._lacking(gang) > 0)

    def _forget(self, gang: GangId) -> None:
        self._lost.pop(gang, None)
        self._refusals.pop(gang, None)

    def _binds(self, gang: GangId) -> bool:
        """Are bindings of its members on their way, or may be, or other writes of it?"""
        told = self.told
        going = told.bindings.keys() | told.unsure
        return gang.key in told.busy or any(p.uid in going for p in told.members(gang))

    def _waits(self, uid: str) -> bool:
        pod = self.told.pods.get(uid)
        return pod is not None and pod.live and not pod.node

    def _refused(self, action_id: int, now: float) -> None:
        """A member of a gang could not be bound, for good: its room is kept for so long from when that was so first. It
        may be again from now on: after a long pause, or if the member is not what it was.
        """
        pod, node = self.told.binding_of(action_id)
        if pod is not None:
            until = self._refusals[pod.gang].setdefault(pod.uid, now + KEPT_SECONDS)
            self._keep(msgspec.structs.replace(pod, node=node), until, now + KEPT_SECONDS)

    def _keep(self, pod: Pod, until: float, latest: float) -> None:
        """This member's room is the one that is kept last."""
        lost = self._lost[pod.gang]
        lost.pop(pod.uid, None)
        lost[pod.uid] = _Lost(pod, -math.inf if self._plan_begins() else until, latest)

    def _loses(self, uid: str, after: Pod | None, now: float) -> None:
        before = self.told.pods.get(uid)
        if before is None or not self._begun:
            return
        if after is None and not before.node:  # one that was refused: nobody is kept off for a pod that is gone
            self._lost[before.gang].pop(uid, None)
        free = after is None or after.finished
        until = now + KEPT_SECONDS if free else math.inf
        latest = until + KEPT_SECONDS  # once more from when a successor has been seen
        known = self._lost[before.gang].get(uid)
        if known is not None and known.latest == math.inf and free:
            del self._lost[before.gang][uid]
            self._lost[before.gang][uid] = _Lost(known.pod, min(known.until, until), latest)
        told = self.told
        lost = before.bound and before.live and (after is None or not after.live)
        said = (after or before).disruption
        job = told.jobs.get((before.namespace, before.owner.name)) if before.owner is not None else None
        ended = after is not None and after.phase == "Succeeded"
        stopped = before.owner is not None and (job is None or job.suspended or job.finished)
        chosen = (said is not None and said.status == "True") or uid in told.marked  # one that was taken back is none
        if lost and not (chosen or ended or stopped):
            self._keep(before, until, latest)

    # -- what it asks for --------------------------------------------------------------------------------------

    def asks(self, action: Action, now: float) -> Iterator[str]:
        """What is wrong with this."""
        told = self.told
        match action:
            case Nominate(_, ref, node) if ref.uid in told.pods:
                pod = told.pods[ref.uid]
                self._found.pop(ref.uid, None)
                self._kept[ref.uid] = _Kept(pod, node, told.priority(pod.gang), next(self._numbers))
            case Mark() if action.pod.uid in told.pods:
                if any(owner.cause == Cause.ROLLBACK.value for owner in read_owners(action.owners) or ()):
                    self._forget(told.pods[action.pod.uid].gang)  # it takes no members any more
            case WithdrawNomination():
                self._kept.pop(action.pod.uid, None)
                self._found.pop(action.pod.uid, None)
                self._withdrawn(action.pod.uid)
            case Bind(_, ref, node) if ref.uid in told.pods:
                pod = told.pods[ref.uid]
                own = self._kept.pop(ref.uid, None)
                if told.tried.get(ref.uid) != node:  # else the same as before, which may have taken effect
                    planned = own.number if own is not None and own.node == node else math.inf
                    if self._found.get(ref.uid) == node:
                        planned = -1  # it goes on with what an earlier process has planned, before any plan of its own
                    yield from self._gives(pod, node, now, planned)
        told.asked(action)

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
        """The lost members whose room is kept: of gangs that run, all by themselves, the latest ones, as many as they
        lack. Or all of which that may be so.
        """
        told = self.told
        if self._plan_begins() and not perhaps:
            return
        for gang, lost in self._lost.items():
            known = told.group(gang)
            if gang.family == SINGLE or known is None or known.match_policy != "once-satisfied" or known.group:
                continue
            members, lacking = told.members(gang), self._lacking(gang)
            rooms = [each for each in lost.values() if now < each.latest - AT_ONCE and self._takes(each.pod.node)]
            if not lacking or not any(p.live and p.node for p in members):
                continue
            if perhaps:
                yield from (each.pod for each in rooms)
            elif not self._under_way(gang, members):
                yield from (each.pod for each in rooms[-lacking:] if now < each.until - AT_ONCE)

    def _takes(self, name: str) -> bool:
        """Does the node take pods?"""
        node = self.told.nodes.get(name)
        return node is not None and node.ready and not (node.unschedulable or node.deleting or node.outdated)

    def _under_way(self, gang: GangId, members: list[Pod]) -> bool:
        """Is anything under way for a gang with these members that may have ended what is kept for its losses?"""
        leaving = any(self.told.leaving(p) for p in members if p.live and p.node)
        planned = any(each.pod.gang == gang for each in self._kept.values()) or any(map(self.told.queued, members))
        moves = any(pod.uid in self.told.moving for pod in members)  # it has room, which is all that it lacks
        return self._binds(gang) or leaving or planned or moves


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
