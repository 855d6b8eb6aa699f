"""Pods that are spared on the simulated cluster: a removal that is late or waits is not carried out, others are."""

from __future__ import annotations

from gangsched.cluster.sim import SimCluster
from gangsched.cluster.sim.faults import NoFaults, WriteFault
from gangsched.core.actions import Action, Mark, Remove, Spare
from gangsched.core.events import Outcome, WriteDone
from tests.cluster.sim.objects import get, node, pod, ref, world

LATE_SECONDS = 5.0


class LateRemovals(NoFaults):
    """Every removal leaves late."""

    def write(self, action: Action) -> WriteFault:
        """A delay for removals."""
        return WriteFault(delay_seconds=LATE_SECONDS if isinstance(action, Remove) else 0.0)


def connected(faults: NoFaults) -> SimCluster:
    """A scheduler's connection to a world with the running pods a and b."""
    cluster = SimCluster(world(node("n1"), *(pod(n, node="n1", grace_seconds=30.0) for n in "ab"), faults=faults))
    cluster.poll()
    return cluster


def answers(cluster: SimCluster, until: float) -> list[tuple[int, Outcome]]:
    """What has been answered by then."""
    out: list[tuple[int, Outcome]] = []
    while (now := cluster.world.clock.now) < until:
        _, events = cluster.wait(until)
        out += [(e.action_id, e.outcome) for e in events if isinstance(e, WriteDone)]
        assert cluster.world.clock.now >= now
    return out


def test_a_late_removal_can_be_recalled() -> None:
    """It is answered when its turn comes, and never reaches the server; the other one does."""
    cluster = connected(LateRemovals())
    cluster.submit([Remove(1, ref("a")), Remove(2, ref("b"))])
    assert answers(cluster, 3.0) == []
    cluster.submit([Spare(ref("a"))])
    assert answers(cluster, 60.0) == [(1, Outcome.OUTDATED), (2, Outcome.OK)]
    assert get(cluster.world, "a").deleting_since is None
    assert cluster.world.api.in_flight == 0
    assert [(e.object, e.outcome) for e in cluster.world.history.of("delete")] == [
        ("ns/a", Outcome.OUTDATED),
        ("ns/b", Outcome.OK),
    ]


def test_a_removal_that_waits_behind_another_write_is_recalled() -> None:
    """It was never sent; the write before it is not touched."""
    cluster = connected(NoFaults())
    cluster.submit([Mark(1, ref("a"), "m"), Remove(2, ref("a"))])
    cluster.submit([Spare(ref("a"))])
    assert answers(cluster, 10.0) == [(2, Outcome.OUTDATED), (1, Outcome.OK)]
    assert get(cluster.world, "a").deleting_since is None


def test_a_removal_that_has_left_takes_effect() -> None:
    """On its way to the server, or answered: the recall comes too late."""
    cluster = connected(NoFaults())
    cluster.submit([Remove(1, ref("a"))])
    cluster.wait(cluster.world.clock.now + cluster.world.timing.write_seconds / 2)
    cluster.submit([Spare(ref("a"))])
    assert answers(cluster, 10.0) == [(1, Outcome.OK)]
    cluster.submit([Spare(ref("a"))])
    assert get(cluster.world, "a").deleting_since is not None


def test_the_removals_of_another_process_are_its_own() -> None:
    """What one process wants says nothing of what another has sent."""
    first = connected(LateRemovals())
    first.submit([Remove(1, ref("a"))])
    first.close()
    second = SimCluster(first.world)
    second.poll()
    second.submit([Spare(ref("a"))])
    answers(second, 20.0)
    assert get(second.world, "a").deleting_since is not None
