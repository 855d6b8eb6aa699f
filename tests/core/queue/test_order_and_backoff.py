"""The queue of gangs: order, backoff, waking, flushing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.actions import Bind
from gangsched.core.agenda import Page
from gangsched.core.decision import Order
from gangsched.core.events import Outcome
from gangsched.core.queue.scheduling_queue import FLUSH_SECONDS, Queue
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, texts


def at(key: str, priority: int = 0, created: float = 0.0) -> Order:
    """A place in the queue."""
    return -priority, created, key


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
    queue = Queue(Page())
    for each in pushed:
        queue.push(at(*each))
    assert queue.active() == expected
    assert drained(queue) == expected


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-2, 2), st.integers(0, 2)), max_size=30))
def test_head_and_active_agree(pushed: list[tuple[str, int, int]]) -> None:
    """The heap gives what sorting gives, whatever was pushed again."""
    queue, last = Queue(Page()), {}
    for key, priority, created in pushed:
        last[key] = at(key, priority, float(created))
        queue.push(last[key])
    expected = sorted(last, key=lambda k: last[k])
    assert drained(queue) == expected


def test_a_gang_that_comes_back_with_the_same_order_is_listed_once() -> None:
    """Entries that were taken out are not revived by an equal one."""
    queue = Queue(Page())
    queue.push(at("a", 1))
    queue.remove("a")
    queue.push(at("a", 1))
    assert queue.active() == ["a"]
    assert queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 0}


def test_a_parked_gang_that_is_woken_early_sits_out_its_backoff() -> None:
    """A helpful event within the backoff is kept until the backoff is over."""
    due: Page[str] = Page()
    queue = Queue(due)
    queue.park(at("a"), 0.0, 4.0)
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1}
    assert queue.parked() == ["a"]
    assert not queue.wake("a", 1.0)
    assert queue.parked() == []
    assert queue.counts() == {"active": 0, "backoff": 1, "unschedulable": 0}
    assert due.next() == 4.0
    assert queue.due(3.9) == []
    assert queue.due(4.0) == ["a"]
    assert queue.due(FLUSH_SECONDS + 1) == []


def test_a_helpful_event_after_the_backoff_wakes_at_once() -> None:
    """Nothing is waited for when the backoff is over."""
    queue = Queue(Page())
    queue.park(at("a"), 0.0, 4.0)
    assert queue.wake("a", 4.0)


def test_with_nothing_active_the_best_in_backoff_is_next() -> None:
    """Idling would help nobody; but what was put to rest after an error, and what nothing has woken, stay out."""
    queue = Queue(Page())
    for key, priority in (("a", 1), ("b", 5), ("parked", 9)):
        queue.park(at(key, priority), 0.0, 4.0)
    queue.rest("resting", 4.0)
    queue.wake("a", 1.0)
    queue.wake("b", 1.0)
    queue.push(at("active", -5))
    assert drained(queue) == ["active", "b", "a"]
    assert queue.counts() == {"active": 0, "backoff": 1, "unschedulable": 1}


def test_a_gang_that_left_backoff_is_not_taken_from_it() -> None:
    """What is due, parked again or removed is no longer in backoff."""
    queue = Queue(Page())
    for key in "abc":
        queue.park(at(key), 0.0, 4.0)
        queue.wake(key, 1.0)
    queue.remove("a")
    queue.park(at("b"), 1.0, 9.0)
    assert queue.due(4.0) == ["c"]
    assert queue.head() is None


def test_a_parked_gang_is_flushed() -> None:
    """Should no event come, the gang is tried again after a while all the same."""
    due: Page[str] = Page()
    queue = Queue(due)
    queue.park(at("a"), 10.0, 11.0)
    assert due.next() == 10.0 + FLUSH_SECONDS
    assert queue.due(9.0 + FLUSH_SECONDS) == []
    assert queue.due(10.0 + FLUSH_SECONDS) == ["a"]
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0}
    assert due.next() is None


@pytest.mark.parametrize(("latest", "expected"), [(50.0, 50.0), (2.0, 4.0), (9999.0, FLUSH_SECONDS)])
def test_time_alone_may_help(latest: float, expected: float) -> None:
    """A gang is tried again when time may have helped, after its backoff and no later than the flush."""
    due: Page[str] = Page()
    queue = Queue(due)
    queue.park(at("a"), 0.0, 4.0, latest)
    assert due.next() == expected


def test_a_removed_gang_is_neither_woken_nor_flushed() -> None:
    """A gang that is gone leaves nothing behind that would bring it back."""
    queue = Queue(Page())
    queue.park(at("a"), 0.0, 1.0)
    queue.park(at("b"), 0.0, 1.0)
    queue.remove("a")
    queue.push(at("b"))
    assert queue.parked() == []
    assert queue.due(2 * FLUSH_SECONDS) == []
    assert queue.active() == ["b"]


def test_resting_is_not_shortened() -> None:
    """A retry at a given time is not brought forward, and the last word counts."""
    queue = Queue(Page())
    queue.rest("a", 9.0)
    queue.rest("a", 2.0)
    assert queue.head() is None
    assert queue.due(1.0) == []
    assert queue.due(2.0) == ["a"]


# -- in the scheduler --------------------------------------------------------------------------------------


def test_an_idle_scheduler_does_not_wait_for_a_backoff() -> None:
    """Room turns up within the backoff: it is used at once."""
    cluster = Cluster(node("n1"), pod("a").cpu(4).on("n1"), pod("p").cpu(4))
    cluster.run()
    assert cluster.core.wake_at() is not None
    cluster.delete("a")
    cluster.run()
    assert (cluster.now, cluster.pod("p").node) == (0.0, "n1")


def test_people_are_not_told_more_often_than_once_per_backoff() -> None:
    """However often a gang is tried in between, and the last reason is told in the end."""
    cluster = Cluster(node("n0").cpu(1), gang("g").min(9), *(pod(f"m{i}").cpu(1 - i / 100).gang("g") for i in range(9)))
    cluster.run()
    for n in range(1, 6):
        cluster.show(node(f"n{n}").cpu(1))
        cluster.run()
    assert len(cluster.decisions) == 6
    assert len(texts(cluster.log, "m8")) == 1
    later = texts(cluster.pass_time(30), "m8")
    assert [". 0/6 nodes are available" in text for _, text in later] == [True]
    assert len(cluster.decisions) == 6


def test_of_many_pods_alike_one_is_tried_in_vain() -> None:
    """Room for one pod: the first takes it, the second finds none, and that is said for all the others."""
    cluster = Cluster(node("n1").cpu(3), pod("a").cpu(3).on("n1"), *(pod(f"p{i}").cpu(2).created(i) for i in range(20)))
    cluster.run()
    for now, expected in ((100, 2), (100, 2), (200, 2)):  # awake at once, then within the backoff
        cluster.pass_time(now - cluster.now)
        before = len(cluster.decisions)
        (gone,) = [p.name for p in cluster.pods.values() if p.node]
        cluster.delete(gone)
        cluster.run()
        assert len(cluster.decisions) - before == expected
    assert cluster.core.queue_counts()["unschedulable"] + cluster.core.queue_counts()["backoff"] == 17
    assert cluster.pod("p2").node == "n1"


def test_after_failed_writes_a_gang_rests_and_is_decided_again() -> None:
    """No event can say that an error is over: the gang is tried again after its backoff, neither earlier nor never."""
    cluster = Cluster(node("n1"), pod("p").cpu(4))
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if isinstance(write, Bind) else None
    cluster.run()
    cluster.show(node("n2"))
    cluster.run()
    assert len(cluster.decisions) == 1
    cluster.judge = lambda _: None
    cluster.pass_time(1)
    assert cluster.pod("p").node


def test_events_during_failing_writes_are_not_lost() -> None:
    """Room came while victims were being marked for a plan that then failed: it is found without a further event."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).on("n1"), pod("p").cpu(4).priority(5))
    cluster.slow = lambda write: True
    cluster.run()
    cluster.show(node("n2"))
    cluster.run()
    cluster.slow = lambda write: type(write).__name__ == "Mark"
    cluster.answer()
    cluster.run()
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if type(write).__name__ == "Mark" else None
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.judge = lambda _: None
    cluster.pass_time(5)
    assert cluster.pod("p").node == "n2"
    assert cluster.pod("v").deleting_since is None


def test_the_place_in_the_queue_follows_the_members() -> None:
    """A member of lower priority joins a gang that is queued: the gang is as low as that member."""
    cluster = Cluster(
        node("n1"),
        gang("g").min(1), pod("g1").cpu(4).priority(5).gang("g"),
        pod("p").cpu(4).priority(3).created(9),
    )  # fmt: skip
    cluster.handle()
    cluster.show(pod("g2").cpu(4).priority(1).gang("g"))
    cluster.run()
    assert cluster.decisions[0].gang.name == "p"


def test_a_queue_that_is_never_empty_keeps_nothing_of_what_has_passed() -> None:
    """A gang is parked and woken again and again while another one is active, and its place is forgotten each time."""
    due: Page[str] = Page()
    queue = Queue(due)
    queue.push((0, 0.0, "busy"))
    now = 0.0
    for _ in range(1000):
        queue.park((0, 1.0, "other"), now, now + 1.0)
        queue.wake("other", now)
        queue.push((0, 2.0, "again"))
        now += 2.0
        assert queue.head() == "busy"
        assert queue.due(now) == ["other"]
    assert (len(queue._eager), len(queue._active)) == (0, 2)
    assert len(due.heap) < 80
