from typing import Any

from gangsched.cluster.sim.clock import VirtualClock


def noting(ran: list[Any], what: Any) -> Any:
    """A timer's action that notes that it ran."""
    return lambda: ran.append(what)


def test_ties_go_in_the_order_of_asking():
    """Timers of one moment run in the order in which they were set, whatever was set between them."""
    clock = VirtualClock()
    ran: list[Any] = []
    for name in "abc":
        clock.after(1.0, noting(ran, name))
        clock.after(0.5, noting(ran, name.upper()))
    clock.advance_to(2.0)
    assert ran == ["A", "B", "C", "a", "b", "c"]


def test_sums_of_delays_meet_in_one_moment():
    """Ten tenths of a second end exactly when one second does, although their floats do not."""
    clock = VirtualClock(start=1_700_000_000.0)
    ran: list[Any] = []

    def tick(left):
        ran.append(clock.elapsed_seconds)
        if left:
            clock.after(0.1, lambda: tick(left - 1))

    clock.after(0.1, lambda: tick(9))
    clock.after(1.0, noting(ran, "one second"))
    clock.advance_to(1_700_000_005.0)
    # The timer that was set first is the one of the whole second.
    assert ran[-2:] == ["one second", 1.0]


def test_advancing_reaches_the_moment_exactly():
    """After advancing to a moment, now is not before it, however it rounds."""
    clock = VirtualClock(start=1_700_000_000.123)
    moment = 1_700_000_000.123 + 0.1 + 0.2 + 1e-9
    clock.advance_to(moment)
    assert moment <= clock.now < moment + 1e-5


def test_timers_may_set_timers_for_now():
    """What is set for now while timers run is run in the same moment."""
    clock, ran = VirtualClock(), []
    clock.after(1.0, lambda: clock.after(0.0, lambda: ran.append(clock.elapsed_seconds)))
    clock.advance_to_next()
    assert ran == [1.0]
    assert clock.next_at is None


def test_a_moment_in_the_past_is_now():
    """A timer for a moment that has passed runs now, and the clock does not go back."""
    clock, ran = VirtualClock(), []
    clock.advance_to(5.0)
    clock.at(1.0, lambda: ran.append(clock.now))
    clock.run_due()
    assert ran == [5.0]
