"""Lists of victims that were begun: who is removed first, and when others may be let off.

A gang that has removed some of its list removes the rest, also when another process takes over in between. A victim may
be let off

* when the gang does not need it to go any more, or has no use for the list any more: judged by what the process that
  lets it off knows in that moment, see :func:`_rightly`;
* when the plan has to end by itself: its time is over, a write of its own was refused, a member that it places is
  gone, a Job would fail by the loss of a victim, or users have changed something that it is about (a member, a victim,
  a group, a budget, a queue, a volume).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Sequence

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim import invariants
from gangsched.cluster.sim.history import Entry, History, ends_object
from gangsched.cluster.sim.invariants import Round
from gangsched.core.actions import (
    Action,
    Bind,
    BindVolume,
    Mark,
    Nominate,
    Remove,
    SelectNode,
    Spare,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.actuation.records import read_owners
from gangsched.core.decision import BIND, Decision
from gangsched.core.events import Event, Outcome, WriteDone
from gangsched.core.plugins.node import tolerates
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, mode_of, survives
from gangsched.model.records import Node, Pod
from tests.chaos.part_checks import RACE_SECONDS
from tests.chaos.play import Played
from tests.chaos.rooms import Process
from tests.chaos.told import Told, short_of


def second_lists(played: Played) -> list[str]:
    """Lists of which a pod was removed and another one was let off, although the gang still needed it to go."""
    out = []
    for each in invariants.rounds(played.world.history):
        entries = _let_off(played, each) if each.nominated else []
        names = [e.object for e in entries if not _rightly(played, each, e)]
        if names and not _ends(played, each):
            about = f"{each.gang} has removed {len(each.removed)} of {len(each.marked)} (plan {each.plan})"
            out.append(f"{about}, and let off {names}")
    return out


def _let_off(played: Played, each: Round) -> list[Entry]:
    """When victims were let off that live under no mark any more, of a list of which somebody has been removed."""
    if not each.removed:
        return []
    history = played.world.history
    over = _over(history, each)
    standing = set(each.marked) - set(each.removed)
    out = []
    unmarked: set[str] = set()  # by others, and not marked again: another process cannot know of these
    for entry in history.entries[: over + 1]:
        if entry.uid not in standing or entry.kind != "Pod":
            continue
        if ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live):
            standing.discard(entry.uid)
        elif entry.verb == log.MARK and entry.outcome == log.OK:
            if each.gang in _marked_for(entry):
                unmarked.discard(entry.uid)
        elif entry.verb == log.UNMARK and entry.actor != log.SCHEDULER:
            unmarked.add(entry.uid)
        elif entry.number <= min(each.removed.values()) or not _taken_back(entry) or entry.uid in unmarked:
            continue
        else:
            out.append(entry)
    return out


def _marked_for(mark: Entry) -> list[str]:
    """The gangs for which a victim leaves by this mark."""
    found = invariants.owners_in(str(mark.detail.get("owners", "")), str(mark.detail["message"]))
    return [gang for gang, _ in found]


def _taken_back(entry: Entry) -> bool:
    """Has the scheduler taken a mark back? Those that others take back it writes again."""
    return entry.verb == log.UNMARK and entry.outcome == log.OK and entry.actor == log.SCHEDULER


def _over(history: History, each: Round) -> int:
    """The number of the entry with which nobody follows the list any more."""
    unmarked = [
        e.number
        for e in history.of(log.UNMARK)
        if e.uid in each.marked and e.number > min(each.removed.values()) and _taken_back(e)
    ]
    return min(unmarked, default=len(history.entries) - 1)


# -- what the process knew when it let a victim off ----------------------------------------------------------------


def _rightly(played: Played, each: Round, unmark: Entry) -> bool:
    """Did the gang need this victim to go no more, or could the list not help it any more, as far as the process knew
    that let it off? That is so where all that it lacks has room beside those who stay; and where a node to which its
    members were nominated has no room for them even without the list, because of pods that have come, are overdue or
    leave for later plans only, of bindings on their way and of what is kept for gangs of higher priority, or of the
    same whose plans were made before. Or where a Job would fail by the loss of who stands, as it would not have before,
    or a gang that gives up a surplus member would run on with too few.
    """
    return any(_right_then(played, each, batch) for batch in _asked_in(played, each, unmark))


def _right_then(played: Played, each: Round, batch: int) -> bool:
    if _fails_jobs(played, each, batch):
        return True
    before, after = (_known(played, batch, asked=asked) for asked in (False, True))
    if _breaks_gangs(played, each, before.told):
        return True
    return any(_needless(played, each, known) or _hopeless(played, each, known) for known in (before, after))


def _asked_in(played: Played, each: Round, unmark: Entry) -> list[int]:
    """The numbers of the batches in which it was asked that the victim does not leave for this gang any more: that its
    removal is not sent, and then that it has no mark, or one for others only. A plan may be over with the first. A
    process that takes over reads from the mark for whom it leaves.
    """
    marks = [e for e in played.world.history.of(log.MARK) if e.uid == unmark.uid and e.outcome == log.OK]
    found, spared, process, listed = list[int](), list[int](), 0, True
    for number, batch in enumerate(played.batches):
        if batch.at_seconds > unmark.at_seconds:
            break
        if batch.process != process:
            found_on_it = [e for e in marks if e.at_seconds <= batch.at_seconds][-1:]
            process, listed = batch.process, all(each.gang in _marked_for(e) for e in found_on_it)
            spared = []
        for action in batch.actions:
            if not isinstance(action, Mark | Unmark | Remove | Spare) or action.pod.uid != unmark.uid:
                continue
            if isinstance(action, Remove | Spare):
                spared = [number] if isinstance(action, Spare) else []
                continue
            stays = isinstance(action, Mark) and each.gang in [name for name, _ in _named(action)]
            if listed and not stays:
                found = [*spared, number]
            listed, spared = stays, []
    return found


def _named(mark: Mark) -> list[tuple[str, str]]:
    return invariants.owners_in(mark.owners, mark.message)


class _Known(msgspec.Struct):
    """What a process knows ``at_seconds``, to which nodes (``kept``) it keeps room for pods that wait, which are
    ``nominated`` there, the numbers of its own plans for those that it has ``planned``, and whom it lets off (UIDs).
    ``numbers`` has those of its plans by their ids, and ``leave_for`` the ids of the plans for which those that it has
    marked leave. ``losses`` are members that gangs have lost, or could not bind, whose room it may keep. ``volumes``
    are the pods (UIDs) for which it has asked for a volume, by the number of the write, ``bound_claims`` those for
    whose claims it has chosen one that is there.
    """

    told: Told
    kept: dict[str, str] = {}
    nominated: set[str] = set()
    planned: dict[str, int] = {}
    plans: int = 0
    let_off: set[str] = set()
    numbers: dict[str, int] = {}
    leave_for: dict[str, list[str]] = {}
    losses: list[Pod] = []
    volumes: dict[int, str] = {}
    bound_claims: set[str] = set()
    at_seconds: float = 0.0

    def answered(self, event: Event) -> None:
        """It is told this: who has not got its volume keeps no room."""
        if isinstance(event, WriteDone) and event.outcome is not Outcome.OK and event.action_id in self.volumes:
            self.kept[self.volumes[event.action_id]] = ""

    def decide(self, decision: Decision) -> None:
        """It has decided a gang: those that could be bound have their room from now on, also while they wait for their
        volumes, until it is decided again.
        """
        self.kept.update((pod.uid, "") for pod in self.told.members(decision.gang))
        if decision.outcome == BIND:
            self._keep({place.uid: place.node for place in decision.placements})

    def _keep(self, places: dict[str, str]) -> None:
        self.plans += 1
        self.kept.update(places)
        self.nominated.difference_update(places)
        self.planned.update(dict.fromkeys(places, self.plans))

    def ask(self, action: Action, *, only: bool = False) -> None:
        """It asks for this; ``only`` who is let off by that matters."""
        if isinstance(action, Unmark):
            self.let_off.add(action.pod.uid)
        if only:
            return
        self.told.asked(action)
        match action:
            case Mark():
                self.let_off.discard(action.pod.uid)
                self.leave_for[action.pod.uid] = [plan for _, plan in _named(action)]
            case Nominate(node=node):
                self._keep({action.pod.uid: node})
                self.nominated.add(action.pod.uid)
                self.numbers.setdefault(action.plan, self.plans)
            case BindVolume() | SelectNode():
                self.volumes[action.id] = action.pod.uid
                self.bound_claims.update([action.pod.uid] if isinstance(action, BindVolume) else [])
            case WithdrawNomination() if action.pod.uid not in self.nominated:
                pass  # it is to be bound elsewhere, as has been decided since, when that is done
            case WithdrawNomination() | Bind():
                self.kept[action.pod.uid] = ""

    def waits(self, pod: Pod) -> bool:
        """Does the pod wait, and is not being bound?"""
        return pod.live and not pod.node and pod.uid not in self.told.bindings

    def stay(self, node: str) -> list[Pod]:
        """The pods that take room on a node and do not leave it, or that may have been bound there."""
        told = self.told
        there = told.staying_on(node)
        known = {pod.uid for pod in there}
        let_off = (told.pods.get(uid) for uid in sorted(self.let_off - known))
        there += [pod for pod in let_off if pod is not None and pod.bound and pod.live and pod.node == node]
        return there + [told.pods[uid] for uid in sorted(told.unsure - known) if told.tried[uid] == node]

    def stay_for(self, node: str, first: float, overdue_after: float) -> list[Pod]:
        """The same as far as the plan with this number is concerned: it cannot count on pods that are marked for later
        plans only, nor on those that still terminate so long after their grace period (seconds).
        """
        told = self.told
        there = (pod for pod in told.pods.values() if pod.node == node and pod.bound and told.leaving(pod))
        return self.stay(node) + [
            pod
            for pod in there
            if (pod.live and self._leaves_later(pod.uid, first)) or self._overdue(pod, overdue_after)
        ]

    def _leaves_later(self, uid: str, first: float) -> bool:
        plans = self.leave_for.get(uid, []) if uid not in self.let_off else []
        return bool(plans) and all(self.numbers.get(plan, -1) > first for plan in plans)

    def _overdue(self, pod: Pod, overdue_after: float) -> bool:
        return self.told.leaves_by.get(pod.uid, math.inf) + overdue_after <= self.at_seconds

    def priority(self, pod: Pod) -> int:
        """That of the pod's gang."""
        return self.told.priority(pod.gang)

    def kept_for(self, node: str, *, recorded: bool) -> list[Pod]:
        """The pods for which this process keeps room there, and those for which an earlier one has ``recorded`` that,
        which it may give up.
        """
        waiting = (pod for pod in self.told.pods.values() if self.waits(pod))
        return [
            p for p in waiting if self.kept.get(p.uid, p.nominated_node if p.on_record and recorded else "") == node
        ]

    def kept_from(self, node: str, priority: float, first: float, *, recorded: bool) -> list[Pod]:
        """The same, as far as it is kept from a plan of this priority with this number: a later one of its priority was
        made with its room taken.
        """
        kept = self.kept_for(node, recorded=recorded)
        return [p for p in kept if self.priority(p) >= priority + (self.planned.get(p.uid, math.inf) >= first)]


def _known(played: Played, last: int, *, asked: bool) -> _Known:
    """What the process of this batch knew when it had been told what is in it, or had also ``asked`` for it."""
    process = played.batches[last].process
    known, rooms = _Known(Told(), at_seconds=played.batches[last].at_seconds), Process()
    for number, batch in enumerate(played.batches[: last + 1]):
        if batch.process != process:
            continue
        for event in batch.events:
            known.told.hear(event, batch.at_seconds)
            known.answered(event)
        rooms.hear(batch.events, batch.at_seconds)
        for decision in batch.decisions if number < last or asked else ():
            known.decide(decision)
        for action in batch.actions:
            known.ask(action, only=number == last and not asked)
            if number < last or asked:
                deque(rooms.asks(action, batch.at_seconds), maxlen=0)
    known.losses = [*rooms.of_losses(known.at_seconds, perhaps=True)]
    return known


def _fails_jobs(played: Played, each: Round, last: int) -> bool:
    """Would a Job fail by the loss of victims, as its process knew in this batch, and not when it made the plan, or
    found it? A pod that is lost may have been counted before it is seen to leave.
    """
    process = played.batches[last].process
    mine = [n for n, batch in enumerate(played.batches[: last + 1]) if batch.process == process]
    asked = ((n, a) for n in mine for a in played.batches[n].actions)
    made = next((n for n, a in asked if isinstance(a, Nominate) and a.plan == each.plan), mine[0])
    then, now = (_failing(_known(played, n, asked=False).told, each) for n in (made, last))
    return not now <= then


def _breaks_gangs(played: Played, each: Round, told: Told) -> bool:
    """Would a gang of which a victim was to leave singly run on with too few members beside all that leave, or with any
    although it leaves as a whole by now?
    """
    marks = (
        (e.uid, o)
        for e in played.world.history.of(log.MARK)
        for o in read_owners(str(e.detail.get("owners", ""))) or ()
    )
    singly = {uid for uid, owner in marks if owner.plan == each.plan and owner.partial}
    for gang in {pod.gang for uid in singly if (pod := told.pods.get(uid)) is not None and pod.live}:
        spec, stay = told.group(gang), [pod for pod in told.placed(gang) if not told.leaving(pod)]
        mode = mode_of(spec, played.scenario.options)
        if spec is not None and stay and (mode == ATOMIC or (mode == ELASTIC and len(stay) < spec.min_member)):
            return True
    return False


def _failing(told: Told, each: Round) -> set[str]:
    """The Jobs (UIDs) that would fail by the loss of the victims that stand."""
    known = (told.pods.get(uid) for uid in each.marked)
    stand = Counter(pod.owner.uid for pod in known if pod is not None and pod.live and pod.owner is not None)
    limits = {job.uid: survives(job, 0) for job in told.jobs.values()}
    return {uid for uid, limit in limits.items() if limit is not None and stand[uid] > limit}


def _first(each: Round, known: _Known) -> float:
    """The number of the plan for its members; -1: it is that of an earlier process."""
    return min((known.planned.get(uid, -1) for uid in each.nominated), default=-1)


def _needless(played: Played, each: Round, known: _Known) -> bool:
    """Have as many members as the gang lacks room beside those who stay, and beside what is kept from it?"""
    told = known.told
    gang = told.named(each.gang)
    if gang is None:
        return False
    own, first, nodes = told.priority(gang), _first(each, known), _places(played, each).values()
    there = {}
    for name in sorted(told.nodes):
        theirs = known.kept_from(name, own, first if name in nodes else math.inf, recorded=False)
        there[name] = [*known.stay(name), *(pod for pod in theirs if pod.gang != gang)]
    waiting = [pod for pod in told.members(gang) if known.waits(pod)]
    return any(_placed(told, there, some) for some in itertools.combinations(waiting, told.lacking(gang)))


def _places(played: Played, each: Round) -> dict[str, str]:
    """To which nodes its members (UIDs) were nominated."""
    entries = played.world.history.entries
    return {uid: str(entries[number].detail["node"]) for uid, number in each.nominated.items()}


def _placed(told: Told, there: dict[str, list[Pod]], pods: Sequence[Pod]) -> bool:
    """Is there a node for each of these, as far as room goes?"""
    if not pods:
        return True
    first, *rest = pods
    for name, others in there.items():
        if _usable(told.nodes[name], first) and not short_of(told.nodes[name], [*others, first], first):
            others.append(first)
            found = _placed(told, there, rest)
            others.pop()
            if found:
                return True
    return False


def _hopeless(played: Played, each: Round, known: _Known) -> bool:
    """Is a node not there any more for the members that were nominated to it, also without anybody of the list?"""
    places, first = _places(played, each), _first(each, known)
    members = [pod for uid in places if (pod := known.told.pods.get(uid)) is not None]
    own = min(map(known.priority, members), default=math.inf)
    overdue_after = played.scenario.options.overdue_after_seconds
    for name in sorted(set(places.values())):
        node = known.told.nodes.get(name)
        mine = [pod for pod in members if places[pod.uid] == name and known.waits(pod)]
        if node is None or not all(_usable(node, pod) for pod in mine):
            return True
        stay = known.stay_for(name, first, overdue_after)
        stay = [pod for pod in stay if pod.uid not in each.marked or not pod.live]
        theirs = known.kept_from(name, own, first, recorded=True)
        if any(pod.volumes is not None for pod in mine) and any(pod.uid in known.bound_claims for pod in theirs):
            return True  # that was the volume of the node which was meant for them, as far as can be seen here
        lost = (pod for pod in known.losses if pod.node == name and pod.gang.key != each.gang)
        theirs += [pod for pod in lost if known.priority(pod) >= own]
        if short_of(node, [*stay, *theirs, *mine]):
            return True
    return False


def _usable(node: Node, pod: Pod) -> bool:
    """May the pod be bound to the node, room aside? One that is not ready keeps pods off by its taints alone."""
    kept_off = (t for t in node.taints if t.effect != "PreferNoSchedule" and not tolerates(pod.shape.tolerations, t))
    return not node.unschedulable and not node.deleting and not any(kept_off)


# -- when a plan has to end ----------------------------------------------------------------------------------------


def _ends(played: Played, each: Round) -> bool:
    """Is its time over, or has anything happened until then with which it cannot be carried out as it was made?"""
    history = played.world.history
    over = _over(history, each)
    began, ended = history.entries[min(each.nominated.values())].at_seconds, history.entries[over].at_seconds
    asked = (b.at_seconds for b in played.batches for a in b.actions if isinstance(a, Nominate) and a.plan == each.plan)
    if ended - next(asked, began) >= played.scenario.options.timeout_seconds:
        return True
    window = [e for e in history.entries[: over + 1] if e.at_seconds >= began - RACE_SECONDS]
    return any(_concerns(entry, each) for entry in window)


def _concerns(entry: Entry, each: Round) -> bool:
    """Was a write of the plan refused, is a member gone that it places, or did users change what it is about? Nodes,
    and pods that are neither its victims nor members of its gang, only matter as far as there is room: see
    :func:`_rightly`.
    """
    own = entry.uid in each.marked or entry.uid in each.nominated
    member = isinstance(entry.record, Pod) and entry.record.gang.key == each.gang
    if entry.actor == log.SCHEDULER:
        wrote = entry.verb in (log.DELETE, log.EVICT, log.NOMINATE, log.BIND, log.MARK)
        return wrote and own and entry.outcome not in (log.OK, "transient")
    if entry.uid in each.nominated and ends_object(entry):
        return True
    return entry.actor == log.USER and (own or member or entry.kind not in ("Pod", "Node"))
