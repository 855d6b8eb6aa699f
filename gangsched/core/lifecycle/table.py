"""The life of a gang: the one table in which its state changes.

A step is (state, signal) -> (next state, writes). The scheduler looks the step up and carries out the writes; it
never sets a state by itself. Where several states share a step they share a row. What is not in the table is listed in
:data:`IGNORED` with the reason, so that every pair is accounted for. What happens between the decision to evict and the
room that is free then are phases of the eviction (:mod:`gangsched.core.ledger.condemned`), not states of the gang.
"""

from __future__ import annotations

import enum

import msgspec


class _Word(enum.Enum):
    """Members are looked up all the time, and are one object each: no need to hash their names."""

    __hash__ = object.__hash__


class State(_Word):
    """Where a gang (or GangGroup) is."""

    GATHERING = "Gathering"  # members or the group object are missing
    QUEUED = "Queued"  # ready to be decided
    BACKOFF = "Backoff"  # does not fit; waits for a helpful event or its time
    EVICTING = "Evicting"  # its members are nominated, and pods are made to leave or awaited; or it is rolled back
    PREBINDING = "PreBinding"  # claims get volumes and devices, or nominations elsewhere end; no member is bound yet
    BINDING = "Binding"  # bindings are on their way
    STARTING = "Starting"  # the Job that we had suspended is let go on; its room is kept until its pods take it
    BOUND = "Bound"  # everything that was decided is bound


class Signal(_Word):
    """What can happen to a gang."""

    GATHERED = "gathered"  # everything needed to decide is there
    SCATTERED = "scattered"  # something needed is missing (again)
    FITS = "fits"  # there is room now, and all volumes are bound: bind
    VOLUMES = "volumes"  # there is room now: bind as soon as the volumes of all members are bound
    START = "start"  # there is room now for a suspended Job
    EVICT = "evict"  # decided: needs room that is, or must be, given up
    ROLL_BACK = "roll-back"  # decided: the members that are bound leave, for the others have no place
    NO_FIT = "no-fit"  # decided: nothing helps now
    DONE = "done"  # every member is bound, or room is no longer kept for the pods of the Job
    FAILED = "failed"  # a write failed for good, the gang's time is over, or it has been rolled back
    BROKEN = "broken"  # the plan does not hold any more: others took its room, a node or a member is lost
    WAKE = "wake"  # an event that may help, or the backoff is over
    MORE = "more"  # further members are pending
    RESUME = "resume"  # an earlier process has left a plan that can be finished


class Do(_Word):
    """Writes and bookkeeping of a step, carried out in order."""

    NOMINATE = "nominate every placed member"
    MARK = "mark every victim"
    PREBIND = "hold the members' room, bind their volumes and give them devices"
    BIND = "bind every placed member"
    LET_GO_ON = "end the suspension of the Job and keep its room"
    WITHDRAW = "withdraw nominations"
    UNMARK = "take back unused marks"
    RELEASE = "release held room"
    REPORT = "tell why on every member"
    ENQUEUE = "put into the queue"
    PARK = "wait for an event that may help, at least for the backoff"
    RETRY = "try again after the backoff"
    DEQUEUE = "take out of the queue"


class Step(msgspec.Struct, frozen=True):
    """The next state and what is to be done on the way."""

    state: State
    do: tuple[Do, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One step, and the states in which a signal leads to it."""

    states: tuple[State, ...]
    signal: Signal
    step: Step


#: Room is held for the members, and not taken yet. (Not for one that is rolled back: see ``Group.holding``.)
HOLDING = (State.EVICTING, State.PREBINDING)
#: Where something has a time by which it must have happened, and where writes are on their way.
TIMED = (*HOLDING, State.STARTING)
UNDER_WAY = (*TIMED, State.BINDING)
_GIVE_UP = (Do.WITHDRAW, Do.UNMARK, Do.RELEASE)


def _rows() -> tuple[Row, ...]:
    s, e, d = State, Signal, Do
    found: tuple[tuple[tuple[State, ...], Signal, State, tuple[Do, ...]], ...] = (
        ((s.GATHERING,), e.GATHERED, s.QUEUED, (d.ENQUEUE,)),
        ((s.GATHERING,), e.SCATTERED, s.GATHERING, (d.REPORT,)),
        ((s.QUEUED,), e.RESUME, s.EVICTING, (d.DEQUEUE,)),
        ((s.QUEUED, s.EVICTING), e.EVICT, s.EVICTING, (d.DEQUEUE, d.NOMINATE)),
        ((s.QUEUED,), e.ROLL_BACK, s.EVICTING, (d.DEQUEUE, d.WITHDRAW, d.REPORT, d.MARK)),
        ((s.QUEUED,), e.NO_FIT, s.BACKOFF, (d.DEQUEUE, d.WITHDRAW, d.REPORT, d.PARK)),
        ((s.QUEUED, *HOLDING), e.FITS, s.BINDING, (d.DEQUEUE, d.BIND)),
        ((s.QUEUED, s.EVICTING), e.VOLUMES, s.PREBINDING, (d.DEQUEUE, d.PREBIND)),
        ((s.QUEUED, s.EVICTING), e.START, s.STARTING, (d.DEQUEUE, d.LET_GO_ON)),
        ((s.BACKOFF,), e.WAKE, s.QUEUED, (d.ENQUEUE,)),
        ((s.BACKOFF, s.BOUND), e.MORE, s.QUEUED, (d.ENQUEUE,)),
        ((s.BINDING, s.STARTING), e.DONE, s.BOUND, (d.RELEASE,)),
        # Much may have happened since the decision: it is made again, rather than waiting for more to happen.
        (UNDER_WAY, e.FAILED, s.BACKOFF, (*_GIVE_UP, d.REPORT, d.RETRY)),
        (UNDER_WAY, e.BROKEN, s.QUEUED, (*_GIVE_UP, d.ENQUEUE)),
        (UNDER_WAY, e.SCATTERED, s.GATHERING, (*_GIVE_UP, d.REPORT)),
        ((s.QUEUED, s.BACKOFF, s.BOUND), e.SCATTERED, s.GATHERING, (d.DEQUEUE, d.WITHDRAW, d.REPORT)),
    )
    return tuple(Row(states, signal, Step(state, do)) for states, signal, state, do in found)


ROWS = _rows()
#: The effects of signals in states. Pairs without effect are not listed.
TABLE = {(state, row.signal): row.step for row in ROWS for state in row.states}


def _but(*states: State) -> tuple[State, ...]:
    return tuple(state for state in State if state not in states)


_ONLY_QUEUED = (_but(State.QUEUED), "only a queued gang is decided")
_NO_PLAN = ((State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND), "there is no plan (any more)")

#: Pairs that change nothing, by signal, with the reason. Tests check that table and list cover every pair.
IGNORED: dict[Signal, tuple[tuple[State, ...], str]] = {
    Signal.GATHERED: (_but(State.GATHERING), "it was complete before"),
    Signal.FITS: (_but(State.QUEUED, *HOLDING), "its members are bound already, or have no place"),
    Signal.VOLUMES: (_but(State.QUEUED, State.EVICTING), "only a gang that could otherwise be bound now"),
    Signal.START: (_but(State.QUEUED, State.EVICTING), "only a gang that could otherwise be bound now"),
    Signal.EVICT: (_but(State.QUEUED, State.EVICTING), "only a gang that is decided, or goes on without its victims"),
    Signal.ROLL_BACK: _ONLY_QUEUED,
    Signal.NO_FIT: _ONLY_QUEUED,
    Signal.DONE: (_but(State.BINDING, State.STARTING), "late answers to writes of a plan that is over"),
    Signal.FAILED: _NO_PLAN,
    Signal.BROKEN: _NO_PLAN,
    Signal.WAKE: (_but(State.BACKOFF), "only a parked gang is woken"),
    Signal.MORE: (_but(State.BACKOFF, State.BOUND), "further members are seen when the gang is decided next"),
    Signal.RESUME: (_but(State.QUEUED), "only a gang that has just been found can have a plan of an earlier process"),
}


def as_markdown() -> str:
    """The table for the documentation."""
    lines = ["| state | signal | next state | on the way |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        states = ", ".join(state.value for state in row.states)
        does = "; ".join(d.value for d in row.step.do) or "-"
        lines.append(f"| {states} | {row.signal.value} | {row.step.state.value} | {does} |")
    return "\n".join(lines)
