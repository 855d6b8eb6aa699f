"""Which of the waiting writes goes next."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.queue import BOUND, WHY_NOT, WRITES_PER_OVERDUE, Item, Lane, WriteQueue
from gangsched.core.actions import Bind, GangStatus, Mark, PodRef, Report, SetCondition
from gangsched.core.lifecycle.report import pod_reference


def pod(name: str) -> PodRef:
    """A pod whose UID is its name."""
    return PodRef("ns", name, name)


def report(name: str, note: str = "n") -> Report:
    """An Event about a pod."""
    return Report(pod_reference(pod(name)), "Normal", "R", "A", note)


def take_all(queue: WriteQueue) -> list[object]:
    """Everything that may be taken when each is answered at once."""
    out: list[object] = []
    while (item := queue.next_write(0.0)) is not None:
        out.append(item.action)
        queue.done(item, 0.0)
    return out


def test_decisions_before_conditions_before_events() -> None:
    """Whatever the order of submission, writes go first, then conditions, then Events."""
    queue = WriteQueue()
    queue.put(report("a"), 0.0)
    queue.put(SetCondition(pod("b"), "r", "m"), 0.0)
    queue.put(Bind(1, pod("c"), "n"), 0.0)
    queue.put(Bind(2, pod("d"), "n"), 0.0)
    kinds = [type(action).__name__ for action in take_all(queue)]
    assert kinds == ["Bind", "Bind", "SetCondition", "Report"]
    assert len(queue) == 0


def test_newest_condition_of_a_pod_wins() -> None:
    """A condition that still waits is replaced, and a binding makes it pointless."""
    queue = WriteQueue()
    queue.put(SetCondition(pod("a"), "r", "old"), 0.0)
    queue.put(SetCondition(pod("b"), "r", "b"), 0.0)
    queue.put(SetCondition(pod("a"), "r", "new"), 0.0)
    queue.put(Bind(1, pod("b"), "n"), 0.0)
    assert take_all(queue) == [Bind(1, pod("b"), "n"), SetCondition(pod("a"), "r", "new")]
    assert queue.dropped["replaced"] == 2


def test_writes_to_one_pod_do_not_overlap() -> None:
    """The second write to a pod waits for the first; writes to other pods overtake it, in order."""
    queue = WriteQueue()
    queue.put(Mark(1, pod("a"), "m"), 0.0)
    queue.put(Mark(2, pod("a"), "m"), 0.0)
    queue.put(Mark(3, pod("b"), "m"), 0.0)
    queue.put(SetCondition(pod("a"), "r", "m"), 0.0)
    first, third = queue.next_write(0.0), queue.next_write(0.0)
    assert first is not None
    assert third is not None
    assert (first.action, third.action) == (Mark(1, pod("a"), "m"), Mark(3, pod("b"), "m"))
    assert queue.next_write(0.0) is None
    assert queue.writes_waiting == 1
    queue.done(first, 0.0)
    assert take_all(queue) == [Mark(2, pod("a"), "m"), SetCondition(pod("a"), "r", "m")]


def test_condition_in_flight_holds_up_the_binding() -> None:
    """A binding asked for later must not be overtaken by a condition that says the pod was not scheduled."""
    queue = WriteQueue()
    queue.put(SetCondition(pod("a"), "r", "m"), 0.0)
    condition = queue.next_write(0.0)
    assert condition is not None
    queue.put(Bind(1, pod("a"), "n"), 0.0)
    assert queue.next_write(0.0) is None
    queue.done(condition, 0.0)
    assert take_all(queue) == [Bind(1, pod("a"), "n")]


def test_low_queue_leave_room() -> None:
    """Only so many conditions and Events are on their way at once; writes are not held up by them."""
    queue = WriteQueue(low_in_flight=1)
    queue.put(report("a"), 0.0)
    queue.put(SetCondition(pod("b"), "r", "m"), 0.0)
    low = queue.next_write(0.0)
    assert low is not None
    assert queue.next_write(0.0) is None
    queue.put(Bind(1, pod("c"), "n"), 0.0)
    write = queue.next_write(0.0)
    assert write is not None
    assert write.lane is Lane.WRITE
    queue.done(low, 0.0)
    assert take_all(queue) == [report("a")]


def test_overload_drops_the_oldest_and_counts() -> None:
    """Too many waiting Events or conditions: the oldest go, an equal one is absorbed, all of it is counted."""
    queue = WriteQueue(most=2)
    for name in ("a", "b", "b", "c"):
        queue.put(report(name), 0.0)
    for name in ("x", "y", "z"):
        queue.put(SetCondition(pod(name), "r", "m"), 0.0)
    assert take_all(queue) == [*(SetCondition(pod(n), "r", "m") for n in "yz"), report("b"), report("c")]
    assert queue.dropped == {"replaced": 0, "repeated": 1, "overload": 2, "abandoned": 0}


def test_events_of_bindings_drive_out_no_others() -> None:
    """Each kind of Event has its own limit: that victims left is told although many more bindings are to be told."""
    queue = WriteQueue(most=2)
    left = Report(pod_reference(pod("victim")), "Normal", "Preempted", "Preempting", "n")
    queue.put(left, 0.0)
    bound = [Report(pod_reference(pod(name)), "Normal", "Scheduled", BOUND, "n") for name in "abc"]
    for each in (*bound, bound[2]):
        queue.put(each, 0.0)
    assert take_all(queue) == [left, *bound[1:]]
    assert (queue.dropped["overload"], queue.dropped["repeated"]) == (1, 1)


def test_clear_returns_what_must_be_answered() -> None:
    """Clearing hands back waiting writes, deferred ones included, forgets the rest, and says how much that was."""
    queue = WriteQueue()
    for number, name in enumerate(("a", "a", "b")):
        queue.put(Mark(number, pod(name), "m"), 0.0)
    queue.put(report("c"), 0.0)
    first = queue.next_write(0.0)
    second = queue.next_write(0.0)
    assert first is not None
    assert second is not None
    assert queue.next_write(0.0) is not None  # the report: write 1 is deferred behind write 0
    queue.put(report("d"), 0.0)
    queue.put(Report(pod_reference(pod("d")), "Normal", "R", WHY_NOT, "n"), 0.0)
    queue.put(Report(pod_reference(pod("e")), "Normal", "R", BOUND, "n"), 0.0)
    queue.put(SetCondition(pod("f"), "r", "m"), 0.0)
    assert (queue.low_waiting, queue.low_in_flight) == (4, 1)
    assert [item.action for item in queue.clear()] == [Mark(1, pod("a"), "m")]
    assert (len(queue), queue.dropped["abandoned"]) == (0, 4)
    queue.done(first, 0.0)
    assert queue.next_write(0.0) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30))
def test_every_write_is_taken_once_in_the_order_of_its_pod(steps: list[tuple[str, bool]]) -> None:
    """For any interleaving of submissions and answers, each pod's writes go one at a time and in order."""
    queue = WriteQueue()
    in_flight: list[Item] = []
    taken: list[Mark] = []
    submitted: list[Mark] = []

    def take() -> None:
        item = queue.next_write(0.0)
        if item is not None:
            assert isinstance(item.action, Mark)
            assert item.uid not in {each.uid for each in in_flight}
            in_flight.append(item)
            taken.append(item.action)

    for number, (name, answer) in enumerate(steps):
        submitted.append(Mark(number, pod(name), "m"))
        queue.put(submitted[-1], 0.0)
        take()
        if answer and in_flight:
            queue.done(in_flight.pop(0), 0.0)
    while in_flight or len(queue):
        take()
        if in_flight:
            queue.done(in_flight.pop(), 0.0)
    for name in "abc":
        assert [w for w in taken if w.pod.name == name] == [w for w in submitted if w.pod.name == name]


def test_nothing_for_people_while_many_bindings_are_on_their_way() -> None:
    """Events wait while the API server is busy with bindings, but not for ever."""
    queue = WriteQueue(busy_writes=1, patience_seconds=5.0)
    writes = [Bind(n, pod(f"p{n}"), "node") for n in range(2)]
    for write in writes:
        queue.put(write, 0.0)
    sent = [queue.next_write(0.0), queue.next_write(0.0)]
    queue.put(report("a"), 1.0)
    assert queue.next_write(6.0) is None
    assert queue.next_write(6.1) is not None
    queue.put(report("b"), 6.1)
    assert queue.next_write(6.1) is None
    assert sent[0] is not None
    queue.done(sent[0], 0.0)
    assert queue.next_write(6.1) is not None


def replay(queue: WriteQueue, now: float, turns: int, window: int) -> list[Item]:
    """So many turns of a full window, in which what was sent first is answered first; what was taken."""
    taken: list[Item] = []
    answered = 0
    for _ in range(turns):
        item = queue.next_write(now)
        if item is None:
            break
        taken.append(item)
        if len(taken) - answered >= window:
            queue.done(taken[answered], now)
            answered += 1
    return taken


def test_a_full_queue_of_writes_lets_through_what_has_waited_too_long() -> None:
    """Before the patience is over all turns are for writes; then one of nine is for people, in the order of waiting."""
    queue = WriteQueue(patience_seconds=5.0)
    for n in range(2000):
        queue.put(Bind(n, pod(f"p{n}"), "node"), 0.0)
    told = [report(f"r{n}") for n in range(100)]
    for each in told[:50]:
        queue.put(each, 1.0)
    queue.put(SetCondition(pod("c"), "r", "m"), 2.0)
    for each in told[50:]:
        queue.put(each, 3.0)
    assert {item.lane for item in replay(queue, 6.0, 100, 48)} == {Lane.WRITE}
    late = replay(queue, 7.5, 900, 48)
    turns = [n for n, item in enumerate(late) if item.lane is not Lane.WRITE]
    assert {after - before for before, after in pairwise(turns)} == {WRITES_PER_OVERDUE + 1}
    actions = [item.action for item in late if item.lane is not Lane.WRITE]
    assert actions == [*told[:50], SetCondition(pod("c"), "r", "m")]  # the others have waited for less than 5 s
    writes = [item.action.id for item in late if isinstance(item.action, Bind)]
    assert writes == sorted(writes)


def test_slow_events_do_not_fill_the_window_while_writes_wait() -> None:
    """However long Events take, their share of what is on its way stays small while there are writes to send."""
    queue = WriteQueue(patience_seconds=5.0, low_in_flight=16)
    for n in range(2000):
        queue.put(Bind(n, pod(f"p{n}"), "node"), 0.0)
        queue.put(report(f"r{n}"), 0.0)
    writes: list[Item] = []
    for _ in range(1500):
        item = queue.next_write(9.0)
        assert item is not None
        if item.lane is Lane.WRITE:
            writes.append(item)
        while len(writes) + queue.low_in_flight >= 48:  # only writes are answered
            queue.done(writes.pop(0), 9.0)
    assert 1 <= queue.low_in_flight <= 48 / WRITES_PER_OVERDUE


@given(
    st.lists(st.tuples(st.sampled_from(["write", "condition", "report", "take", "done"]), st.integers(0, 9))),
    st.floats(0.0, 20.0),
)
def test_people_never_get_more_than_their_share_while_writes_wait(steps: list[tuple[str, int]], apart: float) -> None:
    """Whatever happens: while a write could be sent, of nine things in a row at most one is for people."""
    queue = WriteQueue(busy_writes=2, kept_back_seconds=0.5, calm_seconds=0.5)
    in_flight: list[Item] = []
    writes_in_a_row = WRITES_PER_OVERDUE
    for number, (what, which) in enumerate(steps * 20):
        now = number * apart
        if what == "write":
            queue.put(Mark(number, pod(f"p{number}"), "m"), now)
        elif what == "condition":
            queue.put(SetCondition(pod(f"c{which}"), "r", "m"), now)
        elif what == "report":
            queue.put(report(f"r{number}"), now)
        elif what == "done":
            if in_flight:
                queue.done(in_flight.pop(which % len(in_flight)), now)
        else:
            waiting = queue.writes_waiting  # of other pods each: any of them could be sent
            item = queue.next_write(now)
            if item is None:
                assert not waiting
                continue
            in_flight.append(item)
            if item.lane is Lane.WRITE:
                writes_in_a_row += 1
            else:
                assert not waiting or writes_in_a_row >= WRITES_PER_OVERDUE
                writes_in_a_row = 0 if waiting else writes_in_a_row


def test_nothing_for_people_between_two_waves_of_writes() -> None:
    """What follows many writes that have just been answered finds the API server free; few writes hold nobody up."""
    queue = WriteQueue(busy_writes=1, calm_seconds=0.5)
    for n in range(2):
        queue.put(Bind(n, pod(f"p{n}"), "node"), 0.0)
    sent = [queue.next_write(0.0), queue.next_write(0.0)]
    for item in sent:
        assert item is not None
        queue.done(item, 1.0)
    queue.put(report("a"), 1.0)
    assert queue.next_write(1.25) is None
    assert queue.ready_in(1.25) == 0.25
    queue.put(Bind(2, pod("p2"), "node"), 1.25)
    taken = [queue.next_write(1.5), queue.next_write(1.5)]
    assert [item.action for item in taken if item] == [Bind(2, pod("p2"), "node"), report("a")]


def test_reasons_are_kept_back_and_outlived_by_a_binding() -> None:
    """Why a pod is not scheduled is told after a while, in its newest version, and never once it is bound."""
    queue = WriteQueue(kept_back_seconds=0.5)

    def not_ready(name: str, note: str) -> Report:
        return Report(pod_reference(pod(name)), "Normal", "GangNotReady", WHY_NOT, note)

    for name in "ab":
        queue.put(not_ready(name, "1 of 3"), 1.0)
        queue.put(SetCondition(pod(name), "r", "1 of 3"), 1.0)
        queue.put(not_ready(name, "2 of 3"), 1.25)
        queue.put(SetCondition(pod(name), "r", "2 of 3"), 1.25)
    assert queue.next_write(1.25) is None
    assert queue.ready_in(1.25) == 0.25
    queue.put(Bind(1, pod("b"), "n"), 1.25)
    taken = [queue.next_write(1.5) for _ in range(4)]
    actions = [item.action if item else None for item in taken]
    assert actions == [Bind(1, pod("b"), "n"), SetCondition(pod("a"), "r", "2 of 3"), not_ready("a", "2 of 3"), None]
    assert queue.ready_in(1.5) is None


def test_a_group_that_is_bound_does_not_say_why_it_waited() -> None:
    """The Event that members were bound replaces the one about the same object that still waits."""
    about = ("scheduling.k8s.io/v1alpha2", "PodGroup", "d", "g", "u")
    queue = WriteQueue(kept_back_seconds=0.5)
    queue.put(Report(about, "Normal", "GangNotReady", WHY_NOT, "1/2 members"), 0.0)
    told = Report(about, "Normal", "Scheduled", "Binding", "2 pods")
    queue.put(told, 0.1)
    taken = queue.next_write(9.0)
    assert taken is not None
    assert taken.action == told
    assert (len(queue), queue.dropped["replaced"]) == (0, 1)


def test_statuses_come_last_and_none_is_dropped() -> None:
    """One of an object is on its way at a time; what is wanted while it waits is one with it."""
    queue = WriteQueue(most=2, kept_back_seconds=0.5, patience_seconds=60.0)

    def status(name: str, phase: str = "Pending") -> GangStatus:
        return GangStatus("family", "ns", name, "", {"phase": phase})

    for name in "abc":
        queue.put(status(name), 1.0)
    queue.put(status("a", "Running"), 1.25)
    told = report("x")
    queue.put(told, 1.25)
    first, *others = (queue.next_write(1.5) for _ in range(4))
    assert first is not None
    assert first.action == told
    assert [item.action for item in others if item is not None] == [status(name) for name in "abc"]
    queue.put(status("a", "Running"), 1.5)
    assert queue.next_write(9.0) is None
    for item in others:
        assert item is not None
        queue.done(item, 9.0)
    taken = queue.next_write(9.0)
    assert taken is not None
    assert taken.action == status("a", "Running")
    assert set(queue.dropped.values()) == {0}
