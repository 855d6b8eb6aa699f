"""Who bound beyond a node's room beside another scheduler, and whether whoever did could have known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tests.resilience import audit
from tests.resilience.audit import Write
from tests.resilience.evidence import Evidence
from tests.resilience.load import Life

#: A decision of ours may be ignorant of somebody else's binding for no longer than this.
RACE_SECONDS = 1.0


class Verdict(msgspec.Struct):
    """``by_us`` and ``by_others``: bindings beyond a node's room that nobody could have avoided.

    ``oldest_seconds``: how long somebody else's binding had been made when ours was decided without knowing it.
    ``underway_seconds``: how long one of ours was on its way from its decision to the server; ``learned`` of them left
    only when the other had become known. ``faults``: ours that were decided by who knew better, or should have.
    """

    by_us: int = 0
    by_others: int = 0
    oldest_seconds: float = 0.0
    underway_seconds: float = 0.0
    learned: int = 0
    faults: list[str] = msgspec.field(default_factory=list)


def judge(
    log: Iterable[Write], lives: Mapping[str, Life], user: str, room: int, evidence: Evidence
) -> Verdict:  # room in mCPU
    """Follow every node through its bindings in the order in which the server answered them.

    Room is free again from the arrival of the last successful DELETE of its pod, which is when the pod can have been
    gone first. What a binding of ours could have known is all that its decision had been told: of a pod of somebody
    else that it had not been told of it is innocent, if that was bound less than a second before or later.
    """
    log = list(log)
    binds = {w.uid: w for w in log if w.kind == audit.BIND and w.done and w.uid in lives}
    steps = [(w.answered, 1, uid) for uid, w in binds.items()]
    steps += [(max(at, binds[uid].answered), 0, uid) for uid, at in _left(log, lives).items() if uid in binds]
    verdict = Verdict()
    there: dict[str, set[str]] = {}
    for at, comes, uid in sorted(steps):
        mine = binds[uid]
        others = there.setdefault(mine.node, set())
        if not comes:
            others.discard(uid)
            continue
        beyond = sum(lives[o].milli for o in others) + lives[uid].milli - room
        if beyond > 0 and mine.user != user:
            verdict.by_others += 1
        elif beyond > 0:
            _ours(verdict, at, mine, [binds[o] for o in others], beyond, lives, user, evidence)
        others.add(uid)
    return verdict


def _ours(
    verdict: Verdict,
    at: float,
    mine: Write,
    others: list[Write],
    beyond: int,
    lives: Mapping[str, Life],
    user: str,
    evidence: Evidence,
) -> None:
    """A binding of ours went ``beyond`` a node's room: without what it did not know, would there have been enough?"""
    decided = evidence.decided.get(mine.uid, mine.received)
    unknown = [w for w in others if w.user != user and evidence.known.get(w.uid, decided) >= decided]
    age = decided - min((w.answered for w in unknown), default=decided)
    if sum(lives[w.uid].milli for w in unknown) >= beyond and age <= RACE_SECONDS:
        sent = evidence.sent.get(mine.audit_id)
        left = sent.ended if sent is not None else decided
        verdict.by_us += 1
        verdict.oldest_seconds = max(verdict.oldest_seconds, age)
        verdict.underway_seconds = max(verdict.underway_seconds, mine.received - decided)
        verdict.learned += any(evidence.known.get(w.uid, left) < left for w in unknown)
        return
    said = [
        f"{mine.object} was bound to {mine.node} at {at:.3f}, {beyond} mCPU beyond its room (decided {decided:.3f})"
    ]
    for w in sorted(others, key=lambda w: w.answered):
        known = evidence.known.get(w.uid)
        when = f"known {known:.3f}" if known is not None else "never known"
        who = "ours" if w.user == user else "another's"
        said.append(f"{w.object} ({lives[w.uid].milli}, {who}) bound {w.answered:.3f}, {when}")
    verdict.faults.append("; ".join(said))


def _left(log: Iterable[Write], lives: Mapping[str, Life]) -> dict[str, float]:
    """When the room of a pod can have been free first, by UID; pods that stayed are not in it."""
    deletions: dict[str, list[float]] = {}
    for w in log:
        if w.kind == audit.REMOVE and w.done:
            deletions.setdefault(w.object, []).append(w.received)
    out = {}
    for uid, life in lives.items():
        if life.gone_at is not None:
            gone = life.gone_at
            out[uid] = max((at for at in deletions.get(life.name, ()) if at <= gone), default=gone)
    return out


def planned_again(nominations: Iterable[Write], lives: Mapping[str, Life]) -> int:
    """Gangs that were nominated by more than one plan."""
    plans = {(lives[w.uid].preemptor, w.plan) for w in nominations if w.uid in lives}
    return sum(n > 1 for n in Counter(gang for gang, _ in plans).values())
