"""What a process that does not lead keeps is what the cluster shows, and no more, however long it stands by."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator

from gangsched.core.actions import Remove
from gangsched.core.events import LeadershipChanged
from gangsched.core.scheduler import Scheduler
from tests.builders import gang, node, pod
from tests.core.harness import Cluster

_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)


def objects(core: Scheduler) -> int:
    """How many objects hang together with a scheduler, code aside. What it keeps in tuples and numbers counts with
    what keeps it.
    """
    seen: dict[int, object] = {}
    todo: list[object] = [core]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, _CODE):
            seen[id(one)] = one
            todo += gc.get_referents(one)
    return len(seen)


def lives(cluster: Cluster, first: int, count: int) -> Iterator[str]:
    """Pods that come, are bound by others, terminate and are gone, one every ten seconds; some are nominated before."""
    for number in range(first, first + count):
        name = f"pod-{number:06}"
        cluster.show(pod(name).cpu(1).priority(9).scheduler("other").nominated("n1", intent=False))
        cluster.pass_time(2)
        cluster.change(name, node="n1", nominated_node="")
        cluster.pass_time(4)
        cluster.change(name, deleting_since=cluster.now + 30)
        cluster.pass_time(4)
        cluster.delete(name)
        cluster.run()
        yield name


def test_a_standby_of_an_hour_keeps_no_more_than_one_of_ten_minutes() -> None:
    """Pods come and go all the time."""
    cluster = Cluster(node("n1"), gang("g").min(2), pod("m").gang("g"), wait_for_leadership=True)
    for _ in lives(cluster, 0, 60):
        pass
    early = objects(cluster.core)
    for _ in lives(cluster, 60, 300):
        pass
    assert objects(cluster.core) <= early * 1.02


def test_leadership_that_is_lost_and_won_a_hundred_times_leaves_nothing_behind() -> None:
    """Plans are under way each time, in whatever phase they are: one waits for victims, one depends on it."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("v").cpu(4).on("n1").field(grace_seconds=1e6), pod("w").cpu(4).on("n2").priority(7),
        gang("g").min(2), *(pod(f"m{i}").gang("g").cpu(2).priority(5) for i in range(2)),
        pod("never").cpu(4).priority(6).never(),
    )  # fmt: skip
    cluster.slow = lambda write: isinstance(write, Remove)

    def again(times: int) -> int:
        for _ in range(times):
            cluster.run()
            cluster.handle(LeadershipChanged(False))
            cluster.waiting.clear()
            cluster.handle(LeadershipChanged(True))
        cluster.handle(LeadershipChanged(False))
        cluster.waiting.clear()
        found = objects(cluster.core)
        cluster.handle(LeadershipChanged(True))
        return found

    first = again(10)
    assert again(90) <= first * 1.02
    ledger = cluster.core.world.ledger
    assert len(ledger.holders()) <= 2
