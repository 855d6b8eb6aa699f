"""A drain that meets plans of others, a restart, or the loss of leadership."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, JobStatus, Mark, Remove, ResumeJob, SuspendJob, Write
from gangsched.core.events import LeadershipChanged, Outcome, WriteDone
from gangsched.model.queues import STOP_HOLD
from gangsched.model.records import Condition, QueueLabels
from tests.builders import OURS, gang, pdb, pod
from tests.core.eviction.draining import SHARED, cluster, job, lost, member, opened, stopped, training
from tests.core.harness import Cluster, reports, writes
from tests.core.queues import big, objects, queued

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


# -- with gangs that are being bound, or rolled back ---------------------------------------------------------------


def test_a_pod_whose_node_is_known_before_the_answer_leaves() -> None:
    """Its queue was drained while it was being bound; when the answer comes last, nothing else follows it."""
    made = cluster()
    made.slow = lost(Bind)
    made.show(queued("x", "a"))
    made.run()
    (bind,) = made.waiting
    made.waiting.clear()
    made.show(stopped())
    made.run()
    made.change("x", node="n1", phase="Running")
    assert writes(made.run()) == []
    assert writes(made.handle(WriteDone(bind.id, Outcome.OK))) == [("Mark", "x")]


def bound_in_part(**options: Any) -> Cluster:
    """One of two members runs in queue a, and the other one's binding was refused so often that they may roll back."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    members = [pod(f"m{i}").cpu(1).gang("g").owner("ReplicaSet", "rs").label(app="g") for i in range(2)]
    refused = (Outcome.REFUSED, "because")
    made = Cluster(big(), *objects(*SHARED), group, *members, rollback=True, **options)
    made.judge = lambda action: refused if isinstance(action, Bind) and action.pod.name == "m1" else None
    made.run()
    assert made.pod("m0").node
    return made


def test_a_gang_that_is_drained_is_not_rolled_back() -> None:
    """It leaves as a whole already: the marks of its queue stand, and each pod is removed once."""
    made = bound_in_part()
    made.slow = lost(Remove)
    made.show(stopped())
    made.pass_time(20)
    made.slow = lambda _: False
    made.answer()
    made.run()
    assert [w for w in writes(made.log) if w[0] in ("Mark", "Remove")] == [("Mark", "m0"), ("Remove", "m0")]


def test_nor_is_one_that_cannot_leave_for_now() -> None:
    """A budget keeps it in a drained queue: nothing is written, and the next try is always to come."""
    made = bound_in_part(strict_budgets=True)
    made.show(pdb("keep").selects(app="g").allows(0), stopped())
    made.run()
    mark = len(made.log)
    made.pass_time(60)
    assert [w for w in writes(made.log[mark:]) if w[0] in ("Mark", "Remove")] == []
    assert (made.core.wake_at() or 0.0) > made.now


def test_a_try_that_is_due_and_cannot_be_made_is_put_off() -> None:
    """A member is being bound by then: the scheduler does not ask to be woken in the past."""
    made = bound_in_part(strict_budgets=True)
    made.show(pdb("keep").selects(app="g").allows(0), stopped())
    made.run()
    made.core.world.assume(made.pod("m1").uid, "n1")
    made.now += 600
    made.run()
    assert (made.core.wake_at() or 0.0) > made.now


# -- with Jobs that go on ------------------------------------------------------------------------------------------


def starting(slow: type[Write] | tuple[()] = ()) -> Cluster:
    """Job ``train`` has its quota and goes on; no pod of it is there. These writes are slow."""
    made = cluster()
    made.slow = lambda action: isinstance(action, slow)
    made.show(job(suspended=True, suspended_by=OURS))
    assert writes(made.run()) == [("ResumeJob", "train")]
    return made


@pytest.mark.parametrize("pods", [0, 2])
def test_a_job_without_running_pods_is_suspended_again(pods: int) -> None:
    """It waits as one that has never started, its pods with it, and goes on when the queue is open."""
    made = starting()
    for i in range(pods):
        made.show(member(i).field(gates=("wait",)))
    made.show(stopped())
    actions = made.run()
    assert writes(actions) == [("SuspendJob", "train")]
    assert [r.regarding[1] for r in reports(actions, "EvictedDueToClusterQueueStopped")] == ["Job"]
    evicted = [c for a in actions if isinstance(a, JobStatus) for c in a.status["conditions"] if c[0] == "Evicted"]
    assert evicted == [("Evicted", "True", "ClusterQueueStopped", "The ClusterQueue is stopped")]
    made.leave()
    made.pass_time(60)
    assert made.jobs["d", "train"].suspended_by == OURS
    assert not made.core.ledger.holders()
    made.show(opened())
    assert [a.job.name for a in made.pass_time(60) if isinstance(a, ResumeJob)] == ["train"]


def test_a_job_that_goes_on_is_left_alone_by_hold() -> None:
    """Only what is drained has to stop."""
    made = starting()
    made.show(stopped(policy=STOP_HOLD))
    assert writes(made.run()) == []
    assert made.core.states() == {"d/train": "Starting"}


def test_a_job_is_suspended_again_when_it_is_known_to_go_on() -> None:
    """While the write that lets it go on is on its way there is nothing to suspend."""
    made = starting(slow=ResumeJob)
    made.show(stopped())
    assert writes(made.run()) == []
    made.slow = lambda _: False
    made.answer()
    assert writes(made.run()) == [("SuspendJob", "train")]


@pytest.mark.parametrize("open_again", [False, True])
def test_a_suspension_that_fails_is_repeated_while_the_queue_is_drained(open_again: bool) -> None:
    """After a pause; once the queue is open the Job goes on with the room that was kept."""
    made = starting()
    made.judge = lambda action: (Outcome.CONFLICT, "it has changed") if isinstance(action, SuspendJob) else None
    made.show(stopped())
    assert writes(made.run()) == [("SuspendJob", "train")]
    made.judge = lambda _: None
    if open_again:
        made.show(opened())
    assert [w for w in writes(made.pass_time(10)) if w[0] == "SuspendJob"] == [("SuspendJob", "train")] * (
        not open_again
    )
    assert made.core.states() == ({"d/train": "Starting"} if open_again else {"d/train": "Backoff"})


def test_a_job_that_runs_in_part_leaves_with_its_pods() -> None:
    """They are marked first, and it is suspended once."""
    made = starting()
    made.show(member(0))
    made.run()
    made.change("train-0", node="n1", phase="Running")
    made.show(stopped())
    assert writes(made.run()) == [("Mark", "train-0"), ("SuspendJob", "train")]


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
