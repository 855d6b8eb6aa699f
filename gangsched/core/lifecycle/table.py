"""The life of a gang: the one table in which its state changes.

A step is (state, signal) -> (next state, writes). The scheduler looks the step up and carries out the writes; it
never sets a state by itself. What is not in the table is listed in :data:`IGNORED` with the reason, so that every
pair is accounted for.
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
    NOMINATED = "Nominated"  # nominations are being made durable
    MARKED = "Marked"  # the list of victims is being made durable
    EVICTING = "Evicting"  # victims are being removed
    WAITING = "WaitingForVictims"  # removed and awaited pods are terminating
    PREBINDING = "PreBinding"  # volumes of the members are being bound; no member is bound yet
    BINDING = "Binding"  # bindings are on their way
    MARKING_MEMBERS = "MarkingMembers"  # bound in part and given up: its bound members are being marked
    ROLLING_BACK = "RollingBack"  # these members are being removed, for their controllers to create them again
    STARTING = "Starting"  # the Job that we had suspended is let go on; its room is kept until its pods take it
    BOUND = "Bound"  # everything that was decided is bound


class Signal(_Word):
    """What can happen to a gang."""

    GATHERED = "gathered"  # everything needed to decide is there
    SCATTERED = "scattered"  # something needed is missing (again)
    FITS = "fits"  # decided: bind now
    VOLUMES = "volumes"  # there is room now: bind as soon as the volumes of all members are bound
    VOLUMES_BOUND = "volumes-bound"  # the last claim of the members is bound
    START = "start"  # there is room now for a suspended Job
    ADOPTED = "adopted"  # the last pod of the Job has taken its room
    PLAN = "plan"  # decided: needs room that is, or must be, given up
    NO_FIT = "no-fit"  # decided: nothing helps now
    WRITTEN = "written"  # every write of the current phase has succeeded
    MARK_LOST = "mark-lost"  # marks of victims that are still there have been taken back by others
    WRITE_FAILED = "write-failed"  # a write of the current phase failed for good
    ROOM_FREED = "room-freed"  # the last victim and awaited pod is gone
    PLAN_BROKEN = "plan-broken"  # a nominated node or member is lost, or somebody took the room
    TAKEN_OVER = "taken-over"  # a gang of higher priority took the room
    TIMEOUT = "timeout"  # the gang's time for nominated to binding is over
    WAKE = "wake"  # an event that may help, or the backoff is over
    ROLL_BACK = "roll-back"  # decided: the members that are bound leave, for the others have no place
    MORE = "more"  # further members are pending
    CONFLICT = "conflict"  # once more the cluster was not what the plan assumed
    RESUME = "resume"  # an earlier process has left a plan that can be finished
    DISCARD = "discard"  # an earlier process has left a plan that cannot


class Do(_Word):
    """Writes and bookkeeping of a step, carried out in order."""

    NOMINATE = "nominate every placed member"
    MARK = "mark every victim"
    REMOVE = "remove every victim, by suspending its Job where the plan says so"
    PREBIND = "hold the members' room and bind their volumes"
    BIND = "bind every placed member"
    MARK_MEMBERS = "mark the members that are bound"
    REMOVE_MEMBERS = "remove the marked members"
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


#: Room is held for the members, and not taken yet.
HOLDING = (State.NOMINATED, State.MARKED, State.EVICTING, State.WAITING, State.PREBINDING)
#: The members that are bound are leaving again.
ROLLING_BACK = (State.MARKING_MEMBERS, State.ROLLING_BACK)
#: Where something has a time by which it must have happened, and where a phase may be over.
TIMED = (*HOLDING, State.STARTING, *ROLLING_BACK)
PHASES = (*TIMED, State.BINDING)
_GIVE_UP = (Do.WITHDRAW, Do.UNMARK, Do.RELEASE)


def _table() -> dict[tuple[State, Signal], Step]:
    s, e = State, Signal
    table: dict[tuple[State, Signal], Step] = {
        (s.GATHERING, e.GATHERED): Step(s.QUEUED, (Do.ENQUEUE,)),
        (s.GATHERING, e.SCATTERED): Step(s.GATHERING, (Do.REPORT,)),
        (s.GATHERING, e.DISCARD): Step(s.GATHERING, (Do.WITHDRAW,)),
        (s.QUEUED, e.SCATTERED): Step(s.GATHERING, (Do.DEQUEUE, Do.WITHDRAW, Do.REPORT)),
        (s.QUEUED, e.RESUME): Step(s.EVICTING, (Do.DEQUEUE, Do.REMOVE)),
        (s.QUEUED, e.DISCARD): Step(s.QUEUED, (Do.DEQUEUE, Do.WITHDRAW, Do.ENQUEUE)),
        (s.QUEUED, e.FITS): Step(s.BINDING, (Do.DEQUEUE, Do.BIND)),
        (s.QUEUED, e.VOLUMES): Step(s.PREBINDING, (Do.DEQUEUE, Do.PREBIND)),
        (s.QUEUED, e.START): Step(s.STARTING, (Do.DEQUEUE, Do.LET_GO_ON)),
        (s.QUEUED, e.PLAN): Step(s.NOMINATED, (Do.DEQUEUE, Do.NOMINATE)),
        (s.QUEUED, e.NO_FIT): Step(s.BACKOFF, (Do.DEQUEUE, Do.WITHDRAW, Do.REPORT, Do.PARK)),
        (s.BACKOFF, e.WAKE): Step(s.QUEUED, (Do.ENQUEUE,)),
        (s.BACKOFF, e.SCATTERED): Step(s.GATHERING, (Do.DEQUEUE, Do.WITHDRAW, Do.REPORT)),
        (s.BACKOFF, e.MORE): Step(s.QUEUED, (Do.ENQUEUE,)),
        (s.NOMINATED, e.WRITTEN): Step(s.MARKED, (Do.MARK,)),
        (s.MARKED, e.WRITTEN): Step(s.EVICTING, (Do.REMOVE,)),
        (s.EVICTING, e.WRITTEN): Step(s.WAITING),
        (s.EVICTING, e.MARK_LOST): Step(s.MARKED, (Do.MARK,)),
        (s.WAITING, e.ROOM_FREED): Step(s.BINDING, (Do.BIND,)),
        (s.WAITING, e.START): Step(s.STARTING, (Do.LET_GO_ON,)),
        (s.WAITING, e.VOLUMES): Step(s.PREBINDING, (Do.PREBIND,)),
        (s.PREBINDING, e.VOLUMES_BOUND): Step(s.BINDING, (Do.BIND,)),
        (s.BINDING, e.WRITTEN): Step(s.BOUND, (Do.RELEASE,)),
        (s.BINDING, e.WRITE_FAILED): Step(s.BACKOFF, (Do.WITHDRAW, Do.RELEASE, Do.REPORT, Do.RETRY)),
        (s.BINDING, e.CONFLICT): Step(s.BACKOFF, (Do.WITHDRAW, Do.RELEASE, Do.REPORT, Do.RETRY)),
        (s.BINDING, e.SCATTERED): Step(s.GATHERING, (Do.WITHDRAW, Do.RELEASE, Do.REPORT)),
        (s.BINDING, e.PLAN_BROKEN): Step(s.QUEUED, (Do.WITHDRAW, Do.RELEASE, Do.ENQUEUE)),
        (s.STARTING, e.ADOPTED): Step(s.BOUND, (Do.RELEASE,)),
        (s.STARTING, e.TIMEOUT): Step(s.BOUND, (Do.RELEASE,)),
        (s.STARTING, e.TAKEN_OVER): Step(s.BOUND, (Do.RELEASE,)),
        (s.STARTING, e.WRITE_FAILED): Step(s.BACKOFF, (Do.RELEASE, Do.REPORT, Do.RETRY)),
        (s.STARTING, e.CONFLICT): Step(s.BACKOFF, (Do.RELEASE, Do.REPORT, Do.RETRY)),
        (s.STARTING, e.PLAN_BROKEN): Step(s.QUEUED, (Do.RELEASE, Do.ENQUEUE)),
        (s.STARTING, e.SCATTERED): Step(s.GATHERING, (Do.WITHDRAW, Do.RELEASE)),
        (s.BOUND, e.MORE): Step(s.QUEUED, (Do.ENQUEUE,)),
        (s.BOUND, e.SCATTERED): Step(s.GATHERING, (Do.WITHDRAW, Do.REPORT)),
    }
    for state in HOLDING:
        # Much may have happened since the decision: it is made again, rather than waiting for more to happen.
        table[(state, e.WRITE_FAILED)] = Step(s.BACKOFF, (*_GIVE_UP, Do.REPORT, Do.RETRY))
        table[(state, e.TIMEOUT)] = Step(s.BACKOFF, (*_GIVE_UP, Do.REPORT, Do.RETRY))
        table[(state, e.CONFLICT)] = Step(s.BACKOFF, (*_GIVE_UP, Do.REPORT, Do.RETRY))
        table[(state, e.PLAN_BROKEN)] = Step(s.QUEUED, (*_GIVE_UP, Do.ENQUEUE))
        table[(state, e.TAKEN_OVER)] = Step(s.QUEUED, (*_GIVE_UP, Do.ENQUEUE))
        table[(state, e.SCATTERED)] = Step(s.GATHERING, (*_GIVE_UP, Do.REPORT))
    table[(s.QUEUED, e.ROLL_BACK)] = Step(s.MARKING_MEMBERS, (Do.DEQUEUE, Do.WITHDRAW, Do.REPORT, Do.MARK_MEMBERS))
    table[(s.MARKING_MEMBERS, e.WRITTEN)] = Step(s.ROLLING_BACK, (Do.REMOVE_MEMBERS,))
    table[(s.MARKING_MEMBERS, e.SCATTERED)] = Step(s.GATHERING, (*_GIVE_UP, Do.REPORT))
    table[(s.ROLLING_BACK, e.WRITTEN)] = Step(s.BACKOFF, (*_GIVE_UP, Do.REPORT, Do.RETRY))
    for state in ROLLING_BACK:
        table[(state, e.PLAN_BROKEN)] = Step(s.QUEUED, (*_GIVE_UP, Do.ENQUEUE))
        for signal in (e.WRITE_FAILED, e.CONFLICT, e.TIMEOUT):
            table[(state, signal)] = Step(s.BACKOFF, (*_GIVE_UP, Do.REPORT, Do.RETRY))
    return table


TABLE = _table()

#: Pairs that change nothing, by signal, with the reason. Tests check that table and list cover every pair.
IGNORED: dict[Signal, tuple[tuple[State, ...], str]] = {
    Signal.GATHERED: (tuple(s for s in State if s is not State.GATHERING), "it was complete before"),
    Signal.FITS: (tuple(s for s in State if s is not State.QUEUED), "only a queued gang is decided"),
    Signal.VOLUMES: (
        tuple(s for s in State if s not in (State.QUEUED, State.WAITING)),
        "only a gang that could otherwise be bound now",
    ),
    Signal.VOLUMES_BOUND: (tuple(s for s in State if s is not State.PREBINDING), "nobody waits for volumes"),
    Signal.START: (
        tuple(s for s in State if s not in (State.QUEUED, State.WAITING)),
        "only a gang that could otherwise be bound now",
    ),
    Signal.ADOPTED: (tuple(s for s in State if s is not State.STARTING), "no room is kept for a Job"),
    Signal.PLAN: (tuple(s for s in State if s is not State.QUEUED), "only a queued gang is decided"),
    Signal.NO_FIT: (tuple(s for s in State if s is not State.QUEUED), "only a queued gang is decided"),
    Signal.WRITTEN: (
        (
            State.GATHERING,
            State.QUEUED,
            State.BACKOFF,
            State.WAITING,
            State.PREBINDING,
            State.STARTING,
            State.BOUND,
        ),
        "late answers to writes of a phase that is over; claims that are not bound yet, or pods that are still to come",
    ),
    Signal.MARK_LOST: (
        tuple(s for s in State if s is not State.EVICTING),
        "only a removal says so",
    ),
    Signal.WRITE_FAILED: (
        (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND),
        "late answers to writes of a phase that is over",
    ),
    Signal.ROOM_FREED: (
        tuple(s for s in State if s is not State.WAITING),
        "nobody waits, or the victims were gone before the phase was complete",
    ),
    Signal.PLAN_BROKEN: (
        (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND),
        "there is no plan",
    ),
    Signal.TAKEN_OVER: (
        (State.GATHERING, State.QUEUED, State.BACKOFF, State.BINDING, *ROLLING_BACK, State.BOUND),
        "no room is held, or it is assumed already",
    ),
    Signal.TIMEOUT: (
        (State.GATHERING, State.QUEUED, State.BACKOFF, State.BINDING, State.BOUND),
        "the time runs from nominated to binding, and while volumes are bound",
    ),
    Signal.ROLL_BACK: (tuple(s for s in State if s is not State.QUEUED), "only a queued gang is decided"),
    Signal.SCATTERED: ((State.ROLLING_BACK,), "its members are meant to leave; seen when all were asked to"),
    Signal.WAKE: (tuple(s for s in State if s is not State.BACKOFF), "only a parked gang is woken"),
    Signal.MORE: (
        tuple(s for s in State if s not in (State.BACKOFF, State.BOUND)),
        "further members are seen when the gang is decided next",
    ),
    Signal.CONFLICT: (
        (State.GATHERING, State.QUEUED, State.BACKOFF, State.BOUND),
        "late answers to writes of a phase that is over",
    ),
    Signal.RESUME: (
        tuple(s for s in State if s is not State.QUEUED),
        "only a complete gang that has just been found can have a plan of an earlier process",
    ),
    Signal.DISCARD: (
        tuple(s for s in State if s not in (State.GATHERING, State.QUEUED)),
        "only a gang that has just been found can have a plan of an earlier process",
    ),
}


def step(state: State, signal: Signal) -> Step | None:
    """What the signal does in this state; None when it changes nothing."""
    return TABLE.get((state, signal))


def as_markdown() -> str:
    """The table for the documentation."""
    lines = ["| state | signal | next state | on the way |", "| --- | --- | --- | --- |"]
    order = list(State)
    for (state, signal), found in sorted(TABLE.items(), key=lambda i: (order.index(i[0][0]), i[0][1].value)):
        does = "; ".join(d.value for d in found.do) or "-"
        lines.append(f"| {state.value} | {signal.value} | {found.state.value} | {does} |")
    return "\n".join(lines)
