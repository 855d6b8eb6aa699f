"""The queue between the threads, and the clock that both read."""

from __future__ import annotations

import threading

from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.connection import Connection
from gangsched.cluster.kube.inbox import Inbox, WallClock
from gangsched.core.events import NodeGone, Synced


def test_clock_never_runs_backwards_and_never_stands_still() -> None:
    """Set forward, it follows; set back, it goes on at its own pace."""
    wall, mono = [1000.0], [5.0]
    clock = WallClock(lambda: wall[0], lambda: mono[0])
    assert clock.now() == 1000.0
    wall[0], mono[0] = 1010.0, 15.0
    assert clock.now() == 1010.0
    wall[0], mono[0] = 400.0, 16.0
    assert clock.now() == 1011.0
    mono[0] = 18.0
    assert clock.now() == 1013.0
    wall[0] = 2000.0
    assert clock.now() == 2000.0


def test_events_arrive_in_one_batch_and_in_order() -> None:
    """What was put before is fetched at once; the next poll is empty."""
    inbox = Inbox(WallClock())
    inbox.put([NodeGone("a"), NodeGone("b")])
    inbox.put([NodeGone("c")])
    now, events = inbox.wait(None)
    assert events == [NodeGone("a"), NodeGone("b"), NodeGone("c")]
    later, nothing = inbox.poll()
    assert nothing == []
    assert later >= now


def test_wait_ends_when_the_time_has_come() -> None:
    """A time in the past does not block, and gives no events."""
    inbox = Inbox(WallClock())
    now, events = inbox.wait(0.0)
    assert events == []
    assert inbox.wait(now + 0.01)[0] >= now + 0.01


def test_put_and_close_wake_a_waiting_thread() -> None:
    """A thread that waits for ever gets what another puts, and an empty batch when the inbox is closed."""
    inbox = Inbox(WallClock())
    got: list[object] = []

    def fetch() -> None:
        got.extend(inbox.wait(None)[1])
        got.append(tuple(inbox.wait(None)[1]))

    thread = threading.Thread(target=fetch)
    thread.start()
    inbox.put([NodeGone("a")])
    inbox.close()
    thread.join(10.0)
    assert not thread.is_alive()
    assert got == [NodeGone("a"), ()]
    inbox.put([NodeGone("late")])
    assert inbox.poll()[1] == []


def test_how_many_events_wait_is_told_when_they_come_and_when_they_are_fetched() -> None:
    """Whoever looks at the metric after a flood sees that it is over."""
    told: list[float] = []
    connection = Connection("none", None)
    cluster = KubeCluster(connection, lease=None, observe=lambda name, value, _: told.append(value))
    cluster._deliver([Synced(), Synced()])
    cluster._deliver([Synced()])
    assert len(cluster.poll()[1]) == 3
    cluster.poll()
    assert told == [2, 3, 0]
