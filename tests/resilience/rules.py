"""What may never stand in an audit log: sentences by kind, none if all is well.

The rules are those of docs/internals/resilience.md. They look at requests (when they arrived, when they were
answered), at the lives of pods where a request says nothing about them, and at what the processes have written down
about what no request says: who was on the list of a plan, and when the bytes of a request had left.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tests.resilience import audit, begun
from tests.resilience.audit import Write
from tests.resilience.evidence import Evidence
from tests.resilience.load import Life

#: On its way to the server a request may lose so much.
WAY_SECONDS = 0.5
#: The watch shows so late at most that a mark or nomination was taken back by a request that nobody got an answer to.
SHOWN_SECONDS = 2.0

KINDS = (
    "no UID precondition",
    "removal of any version",
    "mark before intent",
    "removal without mark",
    "removal before all marks",
    "removal outside intent",
    "more victims than planned",
    "second list of victims",
    "list let off half-way",
    "victim not lower",
    "drain of an open queue",
    "mark left behind",
    "bound twice",
    "bind outside intent",
    "write without deadline",
    "write past the lease",
    "write of a deposed leader",
    "identity used twice",
)
GIVEN_UP, ON_THE_WIRE = "late write that was given up", "late write that had left before its sender was stopped"
#: The server has refused it: its mark had been taken back, so its victim was not in the version that it named any more.
MIDWAY = "late write that its sender was sending when it was stopped"
FENCED = "late removal that the server refused"
#: Counted and shown, but no violation: see docs/internals/resilience.md. Every other rule holds for these writes, too.
REMARKS = (GIVEN_UP, ON_THE_WIRE, FENCED, MIDWAY)


class Rules:
    """The log of one run. ``user`` is the scheduler's, ``lives`` are the pods by UID, ``frozen`` are the processes that
    were stopped for a while, each with the time at which that was; ``drained`` has, by kind and name of a queue, from
    when to when it was drained.
    """

    def __init__(
        self,
        log: Sequence[Write],
        lives: Mapping[str, Life],
        user: str,
        evidence: Evidence,
        frozen: Sequence[tuple[str, float]] = (),
        drained: Mapping[str, Sequence[tuple[float, float]]] = {},
    ) -> None:
        self._frozen = frozen
        self._drained = drained
        self._evidence = evidence
        self.lives = lives
        self.log = [self._settled(w) for w in log if w.user == user]
        self.ours = [w for w in self.log if w.process]
        self.removals = [w for w in self.ours if w.kind == audit.REMOVE and w.whole]
        self._intents = _Timeline(w for w in self.ours if w.kind in (audit.NOMINATE, audit.WITHDRAW))
        self._marks = _Timeline(w for w in self.ours if w.kind in (audit.MARK, audit.UNMARK))
        self._members: dict[str, list[Life]] = defaultdict(list)
        for life in lives.values():
            self._members[life.preemptor].append(life)
        self._gone = _first(w for w in self.ours if w.kind == audit.REMOVE and w.done)
        self._deleted = _first(w for w in log if w.kind == audit.REMOVE and w.done)  # by whomever
        self._may_have_gone: dict[str, list[Write]] = defaultdict(list)
        for w in self.removals:
            if w.done or w.code >= 500:
                self._may_have_gone[w.uid].append(w)
        self._plans: dict[str, list[Write]] = defaultdict(list)
        self._vain: dict[str, list[Write]] = defaultdict(list)
        for w in self.ours:
            if w.kind == audit.MARK and w.code == 404:
                self._vain[w.uid].append(w)
            elif w.kind == audit.NOMINATE and w.done:
                self._plans[w.plan].append(w)

    def _settled(self, w: Write) -> Write:
        """A write whose sender has vanished is answered as if it had failed; the pod knows whether it has."""
        life = self.lives.get(w.uid)
        if w.done or w.code < 500 or life is None:
            return w
        marked = w.kind == audit.MARK and bool(w.owners) and life.marked_for.issuperset(w.owners)
        nominated = w.kind == audit.NOMINATE and w.plan in life.plans
        seen = any(0 <= at - w.received <= SHOWN_SECONDS for at in life.withdrawn_at)
        withdrawn = w.kind == audit.WITHDRAW and seen
        shown = any(0 <= at - w.received <= SHOWN_SECONDS for at in life.unmarked_at)
        unmarked = w.kind == audit.UNMARK and shown
        return msgspec.structs.replace(w, code=200) if marked or nominated or withdrawn or unmarked else w

    def violations(
        self, *, request_timeout_seconds: float, renew_deadline_seconds: float, duration_seconds: float
    ) -> dict[str, list[str]]:
        """All that is wrong, by kind; every kind is there."""
        out: dict[str, list[str]] = {kind: [] for kind in (*KINDS, *REMARKS)}
        self._preconditions(out)
        self._lists(out)
        self._bindings(out)
        self._deadlines(out, request_timeout_seconds, renew_deadline_seconds, duration_seconds)
        return out

    @property
    def evicted(self) -> list[Write]:
        """The first successful removal of each pod."""
        return list(self._gone.values())

    def planned(self) -> tuple[int, int]:
        """Pods that are on the list of a plan of which somebody was removed, and how many of them we removed.

        The others left by themselves, before their turn came.
        """
        listed: set[str] = set()
        for w in self.evicted:
            _, plan, _ = self._owner(w)
            listed |= (self._evidence.victims(plan, w.received) or frozenset()) | {w.uid}
        kept = {uid for uid in listed if (last := self._marks.last(uid, math.inf)) and last.kind == audit.UNMARK}
        return len(listed - kept), len(self.evicted)

    # ------------------------------------------------------------------------------------------------- what is durable

    def standing(self, preemptor: str, at: float) -> tuple[str, int, int]:
        """The newest plan on record for a gang at a moment: its id, nominated members, victims. ("", 0, 0): none."""
        plans: dict[str, list[Write]] = defaultdict(list)
        for life in self._members.get(preemptor, ()):
            last = self._intents.last(life.uid, at)
            if any(t is not None and t + WAY_SECONDS <= at for t in (life.bound_at, life.gone_at)):
                continue  # the intent has been fulfilled, or there is nobody any more who had it
            if last is not None and last.kind == audit.NOMINATE:
                plans[last.plan].append(last)
        if not plans:
            return "", 0, 0
        newest = max(plans, key=lambda plan: max(w.received for w in plans[plan]))
        return newest, len(plans[newest]), max(w.victims for w in plans[newest])

    def _owners(self, write: Write) -> list[str]:
        """For whom a pod is marked when a write to it arrives: two plans may need its room."""
        last = self._marks.last(write.uid, write.received)
        # Whose mark has found that the pod is gone may find it again, by a removal that comes to nothing.
        vain = [m for m in self._vain[write.uid] if m.answered <= write.received and write.code == 404]
        marks = [last, *vain] if last is not None else vain
        return list(dict.fromkeys(preemptor for mark in marks for preemptor, _ in mark.owners))

    def _owner(self, write: Write) -> tuple[str, str, str]:
        """The preemptor and the plan that a removal is for, and what is wrong with it.

        Its sender has said for which plan it asked; if two have asked for the same pod the request is good if it is for
        either. Without a word of the sender it is for whoever the pod is marked.
        """
        asked = self._evidence.purposes(write.uid, write.received)
        queues = self._queues(write)
        if queues and not asked:
            drained = any(self._drains(queue, write.received) for queue in queues)
            return "", "", "" if drained else f"drain of an open queue: {queues}"
        owners = self._owners(write)
        if not owners:
            return "", "", "removal without mark: nobody has marked it"
        problems: list[tuple[str, str, str]] = []
        for preemptor, plan in asked or [(x, self.standing(x, write.received)[0]) for x in owners]:
            problem = self._problem(write, preemptor, plan)
            if not problem:
                return preemptor, plan, ""
            problems.append((preemptor, plan, problem))
        return problems[0]

    def _queues(self, write: Write) -> tuple[str, ...]:
        """The queues for which a pod is marked when a write to it arrives."""
        last = self._marks.last(write.uid, write.received)
        return last.queues if last is not None else ()

    def _drains(self, queue: str, at: float) -> bool:
        """Was the queue drained then, or so short before that nobody could know of its end?"""
        return any(begin <= at <= end + SHOWN_SECONDS for begin, end in self._drained.get(queue, ()))

    def _problem(self, write: Write, preemptor: str, plan: str) -> str:
        """What is wrong with a removal for a plan of a preemptor; empty if nothing is."""
        if self._finishes(write, (preemptor, plan)):
            return ""
        stands, _, number = self.standing(preemptor, write.received)
        if not plan or stands != plan:
            text = f"plan {plan or '(none)'} does not stand for {preemptor}, but {stands or 'none'}"
            return f"removal outside intent: {text}"
        victims = self._evidence.victims(plan, write.received) or frozenset()
        if write.uid not in victims or len(victims) > number:
            return f"removal outside intent: {write.object} is none of the {number} victims of plan {plan}"
        missing = self._missing(preemptor, plan, victims, write)
        if missing:
            return f"removal before all marks: {missing} of plan {plan} live without a mark"
        others = self._open_lists(preemptor, victims, write.received)
        return f"second list of victims: plan {plan} of {preemptor} while {others} stand" if others else ""

    def _finishes(self, write: Write, owner: tuple[str, str]) -> bool:
        """Is a removal of what is left of a unit of which another pod has been removed for this plan? It leaves whole,
        whatever has become of the plan. A process that has taken over cannot tell who has had that pod leave.
        """
        at = write.received
        marks = self._marks.until(write.uid, at)
        first = next((w for w in marks if owner in w.owners), write)
        units = {unit for unit in marks[-1].units if unit[:2] == owner} if marks else set()

        def begun(uid: str) -> bool:
            last = self._marks.last(uid, at)
            if uid == write.uid or last is None or units.isdisjoint(last.units) or not self._left(uid, at):
                return False
            return first.process != write.process or any(w.received < at for w in self._may_have_gone[uid])

        return bool(units) and any(map(begun, self._marks.objects))

    def _bound_members(self, preemptor: str, at: float) -> int:
        # The watch tells of a binding after the server has made it: what it tells a little later may be so already.
        return sum(
            1
            for x in self._members.get(preemptor, ())
            if x.bound_at is not None and x.bound_at <= at + WAY_SECONDS and (x.gone_at is None or x.gone_at > at)
        )

    # ------------------------------------------------------------------------------------------------------ the rules

    def _preconditions(self, out: dict[str, list[str]]) -> None:
        for w in self.ours:
            if w.of_pod and w.whole and not w.uid:
                out["no UID precondition"].append(_say(w))
        for w in self.removals:
            if not w.version:
                out["removal of any version"].append(_say(w))

    def _lists(self, out: dict[str, list[str]]) -> None:
        """Nominate, mark, remove: each complete before the next, one list for a gang at a time, nothing beside it."""
        for w in self.ours:
            if w.kind == audit.MARK:
                self._mark(w, out)
        removed: dict[str, set[str]] = defaultdict(set)
        for uid in self._marks.objects:
            last, life = self._marks.last(uid, math.inf), self.lives.get(uid)
            if last is not None and last.kind == audit.MARK and life is not None and life.runs:
                out["mark left behind"].append(_say(last))
        for w in self.removals:
            preemptor, plan, problem = self._owner(w)
            if problem:
                kind, _, text = problem.partition(": ")
                out[FENCED if self._was_fenced(w) else kind].append(f"{_say(w)}: {text}")
            if w.done and plan:
                removed[plan].add(w.uid)
                victims = max(n.victims for n in self._plans[plan])
                if len(removed[plan]) > victims:
                    out["more victims than planned"].append(f"{_say(w)}: plan {plan} has {victims}")
            highest = max((x.priority for x in self._members.get(preemptor, ())), default=None)
            victim = self.lives.get(w.uid)
            if preemptor and (highest is None or victim is None or victim.priority >= highest):
                out["victim not lower"].append(f"{_say(w)}: for {preemptor}")
        for plan in list(self._plans):
            self._finished(plan, out)

    def _mark(self, w: Write, out: dict[str, list[str]]) -> None:
        """Whom a mark is for: queues that drain, and gangs of which enough are nominated. Those who stood on the pod
        before have been judged then.
        """
        before = self._marks.last(w.uid, w.received)
        known = (*before.owners, *before.queues) if before is not None else ()
        for queue in w.queues:
            if queue not in known and not self._drains(queue, w.received):
                out["drain of an open queue"].append(f"{_say(w)}: {queue}")
        for preemptor, plan in w.owners if w.done else ():
            stands, nominated, _ = self.standing(preemptor, w.received)
            minimum = max((x.minimum for x in self._members.get(preemptor, ())), default=1)
            whole = nominated + self._bound_members(preemptor, w.received) >= minimum
            if (preemptor, plan) not in known and not (whole and stands == plan):
                out["mark before intent"].append(f"{_say(w)}: {nominated} of {minimum} of {preemptor} nominated")

    def _was_fenced(self, w: Write) -> bool:
        """Has the server refused a removal since its mark had been taken back?"""
        last = self._marks.last(w.uid, w.answered)
        return w.code == 409 and bool(w.version) and last is not None and last.kind == audit.UNMARK

    def _finished(self, plan: str, out: dict[str, list[str]]) -> None:
        """Was a list of which somebody was removed carried out to its end?"""
        first = min(self._plans[plan], key=lambda w: w.received)
        preemptor = self.lives[first.uid].preemptor if first.uid in self.lives else ""
        listed = self._evidence.victims(plan, math.inf) or frozenset()
        began, stay = self._begun((preemptor, plan)), listed - self._gone.keys()
        for w in begun.let_off((preemptor, plan), began, (self._marks.until(uid, math.inf) for uid in sorted(stay))):
            ended = min([w.received, *self._ends(plan)])
            if not begun.excused(first.received, ended, listed, preemptor, self.lives.values()):
                out["list let off half-way"].append(f"{_say(w)}: of plan {plan}, which had begun to remove others")

    def _ends(self, plan: str) -> list[float]:
        """When nominations of this plan were taken back, or made for another."""
        after = (self._intents.next(w.uid, w.answered) for w in self._plans[plan])
        return [w.received for w in after if w is not None and w.plan != plan]

    def _marked(self, uid: str, owner: tuple[str, str], at: float) -> bool:
        """Does the mark of a pod name this plan of this gang by then? One that found its pod gone counts: that victim
        has left all by itself.
        """
        last = self._marks.last(uid, at)
        stands = last is not None and owner in last.owners
        return stands or any(owner in w.owners and w.answered <= at for w in self._vain[uid])

    def _missing(self, preemptor: str, plan: str, victims: Iterable[str], write: Write) -> list[str]:
        """Victims of a plan that live when a removal arrives without having been marked for it.

        Who has left or is on the way out, by whatever hand, is not marked. A process that takes over knows no other
        list than the marks. Where these are enough it needs no others, but for those of whose gang one is marked.
        """
        at = write.received
        marked = {uid for uid in victims if self._marked(uid, (preemptor, plan), at)}
        out = [uid for uid in sorted(set(victims) - marked) if not self._left(uid, at)]
        lives = {uid: self.lives[uid] for uid in (*marked, *out) if uid in self.lives}
        if all(w.process != write.process for w in self._plans[plan]):
            gangs = {lives[uid].gang for uid in marked if uid in lives}
            out = [uid for uid in out if uid in lives and lives[uid].gang in gangs]
        return [lives[uid].name if uid in lives else uid for uid in out]

    def _left(self, uid: str, at: float) -> bool:
        """Has a pod left by a moment, or is it on the way out, by whatever hand?"""
        deleted, life = self._deleted.get(uid), self.lives.get(uid)
        times = [] if life is None else [t for t in (life.leaving_at, life.gone_at) if t is not None]
        if deleted is None:
            return any(t <= at + WAY_SECONDS for t in times)
        return any(t < at for t in (*times, deleted.received))

    def _open_lists(self, preemptor: str, listed: Iterable[str], at: float) -> list[str]:
        """Victims of earlier plans of the gang that still live under their mark and are not on this plan's list, though
        others of their list have been removed. A list that has not begun names its plan on its marks: no process takes
        it for another one, and the marks are taken back when the server answers again. So they are of who is let off,
        which is judged for itself.
        """
        out = []
        for uid in self._marks.objects:
            last, after = self._marks.last(uid, at), self._marks.next(uid, at)
            owners = {owner for owner in last.owners if owner[0] == preemptor} if last is not None else set()
            known = {owner for owner in owners if self._begun(owner) <= at}
            if last is None or uid in listed or not known or (after is not None and known.isdisjoint(after.owners)):
                continue
            gone, life = self._gone.get(uid), self.lives.get(uid)
            over = life is None or any(t is not None and t <= at + WAY_SECONDS for t in (life.leaving_at, life.gone_at))
            if not over and (gone is None or gone.received > at):
                out.append(last.object)
        return out

    def _begun(self, owner: tuple[str, str]) -> float:
        """When the first victim was removed for this plan: one that was marked anew has left for a later one."""
        removed = (self._gone.get(uid) for uid in self._evidence.victims(owner[1], math.inf) or ())
        times = (w.received for w in removed if w is not None and self._marked(w.uid, owner, w.received))
        return min(times, default=math.inf)

    def _bindings(self, out: dict[str, list[str]]) -> None:
        bound: dict[str, Write] = {}
        for w in self.ours:
            if w.kind != audit.BIND or not w.done:
                continue
            if w.uid in bound:
                out["bound twice"].append(f"{_say(w)}: to {w.node} after {bound[w.uid].node}")
            bound.setdefault(w.uid, w)
            intent = self._intents.last(w.uid, w.received)
            if intent is not None and intent.kind == audit.NOMINATE and intent.node != w.node:
                out["bind outside intent"].append(f"{_say(w)}: to {w.node}, nominated to {intent.node}")

    def _identities(self, out: dict[str, list[str]]) -> None:
        holders: dict[str, str] = {}
        for w in self.log:
            if w.kind != audit.LEASE or not w.done or not w.holder:
                continue
            if holders.setdefault(w.holder, w.process) != w.process:
                out["identity used twice"].append(f"{w.holder}: {holders[w.holder]} and {w.process}")

    def _deadlines(self, out: dict[str, list[str]], timeout: float, renew: float, duration: float) -> None:
        leases = [w for w in self.log if w.kind == audit.LEASE and w.done]
        self._identities(out)
        changes = _acquisitions(leases)
        times = [at for at, _ in changes]
        renewals: dict[str, list[float]] = defaultdict(list)
        for w in leases:
            if w.holder:
                renewals[w.process].append(w.received)
        for w in self.ours:
            if w.kind in (audit.LEASE, audit.GROUP_STATUS):
                continue
            if w.kind == audit.REVIEW and w.timeout_seconds is not None:
                continue  # a question that changes nothing, which who does not lead may ask, too, and for longer
            if w.timeout_seconds is None or w.timeout_seconds > timeout + 0.001:
                out["write without deadline"].append(_say(w))
                continue
            mine = renewals.get(w.process, [])
            position = bisect_right(mine, w.received)
            last = mine[position - 1] if position else None
            sent = self._evidence.sent.get(w.audit_id)
            # A sender that is stopped while it hands over the last byte notes that too late: what has arrived had left.
            left = min(sent.ended, w.received) if sent is not None else w.received
            late = last is None or left + w.timeout_seconds > last + renew + WAY_SECONDS
            past = last is None or late or w.answered > last + duration
            position = bisect_right(times, w.received)
            deposed = not position or changes[position - 1][1] != w.process
            stops = [at for tag, at in self._frozen if tag == w.process and at < w.received] if sent is not None else []
            if (past or deposed) and not w.done:
                out[GIVEN_UP].append(_say(w))
            elif (past or deposed) and sent is not None and any(sent.ended <= at for at in stops):
                out[ON_THE_WIRE].append(_say(w))
            elif (past or deposed) and sent is not None and any(sent.begun <= at < sent.ended for at in stops):
                out[MIDWAY].append(_say(w))
            elif past or deposed:
                since = (
                    f"{left - last:.3f} and {w.answered - last:.3f} s after a renewal"
                    if last is not None
                    else "no lease"
                )
                text = f"{_say(w)}: left and answered {since}, may take {w.timeout_seconds} s"
                out["write of a deposed leader" if deposed else "write past the lease"].append(text)


class _Timeline:
    """Successful writes by the pod they name, by when they were answered."""

    def __init__(self, writes: Iterable[Write]) -> None:
        self._writes: dict[str, list[Write]] = defaultdict(list)
        for w in sorted((w for w in writes if w.done), key=lambda w: w.answered):
            self._writes[w.uid].append(w)
        self._times = {uid: [w.answered for w in found] for uid, found in self._writes.items()}

    @property
    def objects(self) -> Sequence[str]:
        return tuple(self._writes)

    def until(self, uid: str, at: float) -> list[Write]:
        """Those that had been answered by then."""
        return self._writes[uid][: bisect_right(self._times[uid], at)] if uid in self._times else []

    def last(self, uid: str, at: float) -> Write | None:
        """The last one that had been answered by then."""
        found = self.until(uid, at)
        return found[-1] if found else None

    def next(self, uid: str, at: float) -> Write | None:
        """The first one that was answered after that."""
        found = self.until(uid, math.inf)[len(self.until(uid, at)) :]
        return found[0] if found else None


def _first(writes: Iterable[Write]) -> dict[str, Write]:
    out: dict[str, Write] = {}
    for w in writes:
        out.setdefault(w.uid, w)
    return out


def _acquisitions(leases: Iterable[Write]) -> list[tuple[float, str]]:
    """When the lease came to which process; an empty one means that it was given back."""
    out: list[tuple[float, str]] = []
    holder = ""
    for w in sorted(leases, key=lambda w: w.answered):
        if w.holder != holder:
            holder = w.holder
            out.append((w.answered, w.process if holder else ""))
    return out


def _say(w: Write) -> str:
    return f"{w.received:.3f} {w.process} {w.kind} {w.object} ({w.code})"
