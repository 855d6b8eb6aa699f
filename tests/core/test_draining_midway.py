"""A drain that meets plans of others, a restart, or the loss of leadership."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark, Remove, SuspendJob
from gangsched.core.events import LeadershipChanged
from gangsched.model.records import Condition, QueueLabels
from tests.builders import gang, pod
from tests.core.harness import reports, writes
from tests.core.test_draining import cluster, lost, opened, stopped, training
from tests.core.test_joint import queued

# -- with plans of others ------------------------------------------------------------------------------------------


def test_a_plan_that_gives_up_leaves_the_drains_mark() -> None:
    """Two need the same pod to leave: when the preemptor goes, it is marked for the queue again, and leaves."""
    made = cluster(queued("old", "b", 8))
    made.slow = lost(Remove)
    made.show(queued("new", "a", 4))
    made.run()
    made.show(stopped(name="b"))
    made.run()
    made.slow = lambda _: False
    made.delete("new")
    made.answer()
    made.run()
    assert made.pod("old").deleting_since is not None


def test_a_drain_that_gives_up_leaves_the_plans_mark() -> None:
    """The queue is opened again while a preemptor still needs the pod to leave."""
    made = cluster(queued("old", "b", 8))
    made.slow = lost(Remove | Mark)
    made.show(queued("new", "a", 4))
    made.run()
    made.show(stopped(name="b"))
    made.run()
    made.show(opened(name="b"))
    made.run()
    made.slow = lambda _: False
    made.answer()
    made.run()
    said = made.pod("old").disruption
    assert made.pod("old").deleting_since is not None
    assert said is not None
    assert (said.status, said.reason) == ("True", "PreemptionByScheduler")


# -- restarts ------------------------------------------------------------------------------------------------------


def test_a_restart_goes_on_with_what_is_marked() -> None:
    """Marks that stand are not written again."""
    made = training()
    made.slow = lost(SuspendJob)
    made.show(stopped())
    made.run()
    made.slow = lambda _: False
    made.restart()
    assert writes(made.run()) == [("SuspendJob", "train")]


def test_a_restart_midway_removes_the_rest_once() -> None:
    """One member terminates and one is marked: only the other is removed, and nobody is told again."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    made = cluster(group, pod("m1").cpu(1).gang("g"), pod("m2").cpu(1).gang("g"))
    made.slow = lambda write: isinstance(write, Remove) and write.pod.name == "m2"
    made.show(stopped())
    made.run()
    made.slow = lambda _: False
    made.restart()
    actions = made.run()
    assert writes(actions) == [("Remove", "m2")]
    assert [r for r in reports(actions, "EvictedDueToClusterQueueStopped") if r.regarding[1] == "PodGroup"] == []


def test_a_restart_after_the_suspension_writes_nothing() -> None:
    """The Job is suspended, and its pods have not been deleted yet."""
    made = training()
    made.show(stopped())
    made.run()
    for i in range(2):
        made.change(f"train-{i}", deleting_since=None)
    made.restart()
    assert writes(made.run()) == []


@pytest.mark.parametrize("half", [False, True])
def test_a_restart_finds_the_queue_open(half: bool) -> None:
    """Marks of an earlier process are taken back, of who has not been removed."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    made = cluster(group, pod("m1").cpu(1).gang("g"), pod("m2").cpu(1).gang("g"))
    made.slow = lambda write: isinstance(write, Remove) and (write.pod.name == "m2" or not half)
    made.show(stopped())
    made.run()
    made.slow = lambda _: False
    made.show(opened())
    made.restart()
    stay = ["m2"] if half else ["m1", "m2"]
    assert [w for w in writes(made.run()) if w[0] != "Bind"] == [("Unmark", name) for name in stay]


def test_a_deposed_leader_writes_nothing_more() -> None:
    """What was under way is the next leader's."""
    made = training()
    made.slow = lost(Mark)
    made.show(stopped())
    made.run()
    made.show(LeadershipChanged(False))
    made.run()
    made.slow = lambda _: False
    made.answer()
    mark = len(made.log)
    made.pass_time(60)
    assert writes(made.log[mark:]) == []


def test_a_forged_mark_is_none_of_ours() -> None:
    """A mark of another scheduler, and one that only looks alike, move nobody."""
    said = Condition("True", "ClusterQueueStopped", "other: draining ClusterQueue a, which is stopped: d/x leaves")
    made = cluster(queued("x", "a").on("n1").field(disruption=said), pod("y").on("n1").field(disruption=said))
    assert writes(made.log) == []
