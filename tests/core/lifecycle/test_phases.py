"""The table in which a gang's state changes: complete, reachable, and never backwards within a plan."""

from __future__ import annotations

import itertools

import pytest

from gangsched.core.lifecycle.table import (
    HOLDING,
    IGNORED,
    ROWS,
    TABLE,
    UNDER_WAY,
    Do,
    Signal,
    State,
    as_markdown,
)

#: A plan goes through these in order, from any of them to a later one.
ORDER = [State.EVICTING, State.PREBINDING, State.BINDING, State.BOUND]
RESTING = [State.GATHERING, State.QUEUED, State.BACKOFF]


@pytest.mark.parametrize(("state", "signal"), list(itertools.product(State, Signal)), ids=lambda x: x.value)
def test_every_pair_is_accounted_for(state: State, signal: Signal) -> None:
    """Each (state, signal) either has a step or is listed as ignored with a reason, never both."""
    states, reason = IGNORED.get(signal, ((), "-"))
    assert ((state, signal) in TABLE) != (state in states)
    assert reason


def test_the_table_fits_in_a_head() -> None:
    """There are at most 40 rows, and no two of them speak of the same state and signal."""
    pairs = [(state, row.signal) for row in ROWS for state in row.states]
    assert len(ROWS) <= 40
    assert len(pairs) == len(set(pairs)) == len(TABLE)


def test_every_state_can_be_reached_and_left() -> None:
    """No state is dead, none is a trap."""
    reached, front = {State.GATHERING}, [State.GATHERING]
    while front:
        here = front.pop()
        for (state, _), found in TABLE.items():
            if state is here and found.state not in reached:
                reached.add(found.state)
                front.append(found.state)
    assert reached == set(State)
    for state in State:
        assert any(found.state is not state for (origin, _), found in TABLE.items() if origin is state)


def test_a_plan_only_moves_forward() -> None:
    """Evict, bind volumes, bind: a step within a plan goes to a later state, all others end it, or begin another that
    needs fewer pods to leave. Only a plan for which an earlier process has made nominations and marks durable goes on
    with removal.
    """
    for (state, signal), found in TABLE.items():
        if state in ORDER and found.state in ORDER:
            begins_anew = signal is Signal.EVICT and found.do[-1] is Do.NOMINATE
            assert ORDER.index(found.state) > ORDER.index(state) or begins_anew
        if state in RESTING and found.state in ORDER:
            assert state is State.QUEUED
            first = {
                Signal.EVICT: (State.EVICTING, Do.NOMINATE),
                Signal.ROLL_BACK: (State.EVICTING, Do.MARK),
                Signal.RESUME: (State.EVICTING, Do.DEQUEUE),
                Signal.VOLUMES: (State.PREBINDING, Do.PREBIND),
                Signal.FITS: (State.BINDING, Do.BIND),
            }
            assert (found.state, found.do[-1]) == first[signal]


def test_room_of_a_job_that_starts_is_given_up_in_every_end() -> None:
    """A Job is let go on when it fits, and whatever ends its wait for its pods releases their room."""
    into = {key for key, found in TABLE.items() if found.state is State.STARTING}
    assert into == {(State.QUEUED, Signal.START), (State.EVICTING, Signal.START)}
    assert all(Do.LET_GO_ON in TABLE[key].do for key in into)
    ends = [found for (state, _), found in TABLE.items() if state is State.STARTING]
    assert ends
    assert all(Do.RELEASE in found.do and Do.BIND not in found.do for found in ends)


def test_a_gang_is_bound_only_when_room_and_volumes_are_there() -> None:
    """Whoever asks for the bindings has heard that its members fit, and so has whoever asks for their volumes."""
    asked = {do: {signal for (_, signal), found in TABLE.items() if do in found.do} for do in (Do.BIND, Do.PREBIND)}
    assert asked == {Do.BIND: {Signal.FITS}, Do.PREBIND: {Signal.VOLUMES}}


def test_the_writes_of_a_state_belong_to_the_step_into_it() -> None:
    """They are asked for on entering it and nowhere else."""
    entered = {
        do: {found.state for found in TABLE.values() if do in found.do}
        for do in (Do.NOMINATE, Do.MARK, Do.PREBIND, Do.BIND)
    }
    assert entered == {
        Do.NOMINATE: {State.EVICTING},
        Do.MARK: {State.EVICTING},
        Do.PREBIND: {State.PREBINDING},
        Do.BIND: {State.BINDING},
    }


def test_giving_up_leaves_nothing_behind() -> None:
    """Whatever ends a plan early takes back nominations and unused marks and frees the room, in this order."""
    for (state, _), found in TABLE.items():
        if state in UNDER_WAY and found.state in RESTING:
            assert found.do[:3] == (Do.WITHDRAW, Do.UNMARK, Do.RELEASE)


def test_whoever_holds_room_gives_way() -> None:
    """From the nomination to the last volume a stronger gang may have the room; the weaker one is decided anew."""
    for state in HOLDING:
        assert TABLE[(state, Signal.BROKEN)].state is State.QUEUED


def test_a_gang_that_is_incomplete_has_no_record_of_a_plan() -> None:
    """Whoever gathers (again) takes back what stands on record, whatever state it comes from."""
    for (state, signal), found in TABLE.items():
        if found.state is State.GATHERING and state is not State.GATHERING:
            assert Do.WITHDRAW in found.do, (state, signal)


def test_a_gang_that_rests_is_where_its_state_says() -> None:
    """What enters the queue is queued, what leaves it is dequeued, what backs off has a time to come back."""
    for (state, signal), found in TABLE.items():
        if found.state is State.QUEUED:
            assert Do.ENQUEUE in found.do, (state, signal)
        if state is State.QUEUED:
            assert Do.DEQUEUE in found.do, (state, signal)
        if found.state is State.BACKOFF:
            assert {Do.PARK, Do.RETRY} & set(found.do), (state, signal)
            assert Do.REPORT in found.do, (state, signal)


def test_every_kind_of_work_is_used() -> None:
    """The table has no vocabulary that nothing uses."""
    assert {do for found in TABLE.values() for do in found.do} == set(Do)


def test_the_documentation_has_every_step() -> None:
    """One line per row, beside the header."""
    lines = as_markdown().splitlines()
    assert len(lines) == len(ROWS) + 2
    assert (
        "| Queued, Evicting, PreBinding | fits | Binding | take out of the queue; bind every placed member |" in lines
    )
