"""The queue of gangs: order, backoff, waking, flushing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.queue import FLUSH_SECONDS, Hint, Queue


def drained(queue: Queue) -> list[str]:
    """Keys in the order in which they are decided."""
    out = []
    while (key := queue.head()) is not None:
        out.append(key)
        queue.remove(key)
    return out


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        ([("a", 0, 0.0), ("b", 5, 0.0)], ["b", "a"]),
        ([("a", 5, 9.0), ("b", 5, 3.0)], ["b", "a"]),
        ([("b", 5, 3.0), ("a", 5, 3.0)], ["a", "b"]),
        ([("b", -1, 0.0), ("a", -2, 0.0)], ["b", "a"]),
        ([("a", 0, 0.0), ("b", 1, 0.0), ("a", 2, 0.0)], ["a", "b"]),
    ],
    ids=["priority", "age", "name", "negative", "pushed-again"],
)
def test_order(pushed: list[tuple[str, int, float]], expected: list[str]) -> None:
    """Priority first, then age, then the name; a gang that is pushed again has its new place only."""
    queue = Queue()
    for key, priority, created in pushed:
        queue.push(key, priority, created)
    assert queue.active() == expected
    assert drained(queue) == expected


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-2, 2), st.integers(0, 2)), max_size=30))
def test_head_and_active_agree(pushed: list[tuple[str, int, int]]) -> None:
    """The heap gives what sorting gives, whatever was pushed again."""
    queue, last = Queue(), {}
    for key, priority, created in pushed:
        queue.push(key, priority, float(created))
        last[key] = (-priority, float(created), key)
    expected = sorted(last, key=lambda k: last[k])
    assert drained(queue) == expected


def test_a_gang_that_comes_back_with_the_same_order_is_listed_once() -> None:
    """Entries that were taken out are not revived by an equal one."""
    queue = Queue()
    queue.push("a", 1, 0.0)
    queue.remove("a")
    queue.push("a", 1, 0.0)
    assert queue.active() == ["a"]
    assert queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 0}


def test_a_parked_gang_is_woken_only_by_what_helps_and_after_its_backoff() -> None:
    """A helpful event within the backoff is kept until the backoff is over; another is no use."""
    queue = Queue()
    queue.park("a", Hint.ROOM, 0.0, 4.0)
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1}
    assert queue.woken_by(Hint.NODE, 1.0) == []
    assert queue.counts()["unschedulable"] == 1
    assert queue.woken_by(Hint.ROOM | Hint.NODE, 1.0) == []
    assert queue.counts() == {"active": 0, "backoff": 1, "unschedulable": 0}
    assert queue.wake_at() == 4.0
    assert queue.due(3.9) == []
    assert queue.due(4.0) == ["a"]
    assert queue.due(FLUSH_SECONDS + 1) == []


def test_a_helpful_event_after_the_backoff_wakes_at_once() -> None:
    """Nothing is waited for when the backoff is over."""
    queue = Queue()
    queue.park("b", Hint.ANY, 0.0, 4.0)
    queue.park("a", Hint.BUDGET, 0.0, 4.0)
    assert queue.woken_by(Hint.BUDGET, 4.0) == ["a", "b"]


def test_a_parked_gang_is_flushed() -> None:
    """Should no event come, the gang is tried again after a while all the same."""
    queue = Queue()
    queue.park("a", Hint.ROOM, 10.0, 11.0)
    assert queue.wake_at() == 10.0 + FLUSH_SECONDS
    assert queue.due(9.0 + FLUSH_SECONDS) == []
    assert queue.due(10.0 + FLUSH_SECONDS) == ["a"]
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0}
    assert queue.wake_at() is None


def test_a_removed_gang_is_neither_woken_nor_flushed() -> None:
    """A gang that is gone leaves nothing behind that would bring it back."""
    queue = Queue()
    queue.park("a", Hint.ROOM, 0.0, 1.0)
    queue.park("b", Hint.ROOM, 0.0, 1.0)
    queue.remove("a")
    queue.push("b", 0, 0.0)
    assert queue.woken_by(Hint.ANY, 9.0) == []
    assert queue.due(2 * FLUSH_SECONDS) == []
    assert queue.head() == "b"


def test_retry_comes_at_its_time_and_not_before() -> None:
    """A gang that retries waits for its time, not for events."""
    queue = Queue()
    queue.retry("a", 2.0)
    assert queue.woken_by(Hint.ANY, 1.0) == []
    assert queue.due(1.0) == []
    assert queue.due(2.0) == ["a"]
