"""Queues with ``stopPolicy: HoldAndDrain``: who leaves and how, who stays, and what a restart makes of it."""

from __future__ import annotations

from collections.abc import Container, Iterator

import pytest

from gangsched.core.actions import JobStatus, Mark, Remove, SuspendJob, Unmark
from gangsched.core.events import LeadershipChanged, Outcome
from gangsched.core.forecast import forecast
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.lifecycle import draining
from gangsched.core.lifecycle.draining import AT_ONCE
from gangsched.core.options import Options
from gangsched.core.preemption.drain_plan import DrainPlan
from gangsched.core.preemption.harm import Budgets
from gangsched.core.preemption.removal import budgets_of
from gangsched.core.quota import stop_policy
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.quota.stop_policy import Stop
from gangsched.core.world.world import World
from gangsched.model.queues import QUEUE_LABEL, STOP_DRAIN, STOP_HOLD, STOP_NONE
from gangsched.model.records import Owner, QueueLabels
from tests.builders import OURS, gang, pdb, pod
from tests.core.eviction.draining import SHARED, cluster, job, lost, member, opened, stopped, training
from tests.core.harness import Built, Cluster, event, nodes_of, reports, texts, writes
from tests.core.queues import big, objects, queued

REASONS = {"ClusterQueue": "ClusterQueueStopped", "LocalQueue": "LocalQueueStopped"}


# -- who leaves ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize(("policy", "leave"), [(STOP_DRAIN, {"x", "m1", "m2"}), (STOP_HOLD, set()), (STOP_NONE, set())])
def test_who_leaves_by_which_policy(kind: str, policy: str, leave: set[str]) -> None:
    """HoldAndDrain makes pods and gangs of the queue leave; other queues, and what has none, are not touched."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    made = cluster(
        queued("x", "a"), group, pod("m1").cpu(1).gang("g"), pod("m2").cpu(1).gang("g"), queued("y", "b"), pod("z")
    )
    made.show(stopped(kind, policy))
    assert {name for what, name in writes(made.run()) if what == "Remove"} == leave


def test_pods_that_others_have_bound_leave_too() -> None:
    """Whoever bound it, a pod with the label holds quota of the queue."""
    made = cluster(pod("x").scheduler("default-scheduler").labels({QUEUE_LABEL: "q-a"}).on("n1"))
    made.show(stopped())
    assert writes(made.run()) == [("Mark", "x"), ("Remove", "x")]


@pytest.mark.parametrize("kind", REASONS)
def test_every_pod_is_marked_before_one_leaves(kind: str) -> None:
    """The mark names the stopped queue; its reason is Kueue's. No pod is removed while a mark is on its way."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    made = cluster(group, pod("m1").cpu(1).gang("g"), pod("m2").cpu(1).gang("g"))
    made.slow = lambda write: write.pod.name == "m2"
    made.show(stopped(kind))
    assert writes(made.run()) == [("Mark", "m1"), ("Mark", "m2")]
    said = made.pod("m1").disruption
    name = {"ClusterQueue": "a", "LocalQueue": "d/q-a"}[kind]
    assert said is not None
    assert (said.reason, said.message) == (
        REASONS[kind],
        f"{OURS}: draining {kind} {name}, which is stopped: d/g leaves",
    )
    made.slow = lambda _: False
    made.answer()
    assert writes(made.run()) == [("Remove", "m1"), ("Remove", "m2")]


@pytest.mark.parametrize("kind", REASONS)
def test_a_job_is_suspended_and_told_in_kueues_words(kind: str) -> None:
    """It is not deleted, nor is it failed: conditions and Events say why."""
    made = training()
    made.show(stopped(kind))
    actions = made.run()
    assert writes(actions) == [("Mark", "train-0"), ("Mark", "train-1"), ("SuspendJob", "train")]
    assert made.jobs["d", "train"].suspended_by == OURS
    evicted = [c for a in actions if isinstance(a, JobStatus) for c in a.status["conditions"] if c[0] == "Evicted"]
    assert evicted == [("Evicted", "True", REASONS[kind], f"The {kind} is stopped")]
    told = reports(actions, f"EvictedDueTo{REASONS[kind]}")
    assert [r.regarding[1:4] for r in told] == [
        ("Job", "d", "train"),
        ("Pod", "d", "train-0"),
        ("Pod", "d", "train-1"),
    ]
    assert all(r.note.startswith(f"The {kind} is stopped: ") for r in told)


def test_a_pod_is_told_once() -> None:
    """A pod that is a workload of its own has one Event."""
    made = cluster(queued("x", "a"))
    made.show(stopped())
    assert [r.regarding[3] for r in reports(made.run(), "EvictedDueToClusterQueueStopped")] == ["x"]


def test_what_protects_from_preemption_does_not_keep_a_queue_open() -> None:
    """Priority, a mark of the owner, a minimum run time: nobody preempts here."""
    label = {"scheduling.koordinator.sh/disable-preemptible": "true", QUEUE_LABEL: "q-a"}
    made = cluster(pod("x").labels(label).priority(10**9).on("n1"), minimum_run_time_seconds=600.0)
    made.show(stopped())
    assert ("Remove", "x") in writes(made.run())


def test_what_would_start_again_in_place_stays() -> None:
    """A static pod, and one of a DaemonSet unless that is set."""
    daemon = queued("d1", "a").owner("DaemonSet", "ds").on("n1")
    for options, leave in (({}, []), ({"evict_daemonset_pods": True}, [("Remove", "d1")])):
        made = cluster(daemon, queued("s", "a").static().on("n1"), **options)
        made.show(stopped())
        assert [w for w in writes(made.run()) if w[0] == "Remove"] == leave


def test_a_queue_that_was_stopped_before_is_drained_at_the_start() -> None:
    """What runs in it when the scheduler starts leaves."""
    made = Cluster(big(), *objects(*SHARED), stopped(), queued("x", "a").on("n1"))
    assert writes(made.run()) == [("Mark", "x"), ("Remove", "x")]


def test_who_waits_is_not_touched_and_stays_waiting() -> None:
    """Nothing is written to pods without a node but why they wait."""
    made = Cluster(big(), *objects(*SHARED), stopped(), queued("x", "a"))
    assert writes(made.run()) == []
    assert texts(made.log, "x")[-1][1] == "ClusterQueue a is inactive: its stopPolicy is HoldAndDrain"


def test_without_quota_or_leadership_nothing_is_drained() -> None:
    """Queue objects that mean nothing here, and a process that does not lead."""
    things: list[Built] = [big(), *objects(*SHARED), stopped(), queued("x", "a").on("n1")]
    assert writes(Cluster(*things, quota=False).run()) == []
    made = Cluster(*things, wait_for_leadership=True)
    assert writes(made.run()) == []
    made.show(LeadershipChanged(True))
    assert writes(made.run()) == [("Mark", "x"), ("Remove", "x")]


def test_only_so_many_leave_at_once() -> None:
    """The others are marked when the first have been removed."""
    made = cluster(*(queued(f"x{i:03}", "a", 0.01).on("n1") for i in range(AT_ONCE + 8)))
    made.slow = lost(Mark)
    made.show(stopped())
    assert len(writes(made.run())) == AT_ONCE
    made.slow = lambda _: False
    made.answer()
    made.run()
    assert sum(isinstance(a, Remove) for a in made.log) == AT_ONCE + 8


def test_nobody_is_looked_for_while_enough_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens meanwhile costs the same however many wait to leave."""
    looked: list[str] = []
    found = stop_policy.leaving

    def counted(managed: Managed, queues: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Stop]]:
        for uid, stop in found(managed, queues):
            looked.append(uid)
            yield uid, stop

    monkeypatch.setattr(stop_policy, "leaving", counted)
    made = cluster(*(queued(f"x{i:03}", "a", 0.01).on("n1") for i in range(2 * AT_ONCE)))
    made.slow = lost(Mark)
    made.show(stopped())
    made.run()
    assert len(looked) == AT_ONCE
    made.show(pod("z"))
    made.run()
    assert len(looked) == AT_ONCE


def test_budgets_are_read_once_for_all_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a status is computed from all pods: not once more for each workload."""
    built: list[int] = []

    def counted(world: World, condemned: Condemned, but: Container[str] = ()) -> Budgets:
        built[-1] += 1
        return budgets_of(world, condemned, but=but)

    monkeypatch.setattr(draining, "budgets_of", counted)
    for count in (2, AT_ONCE):
        made = cluster(*(queued(f"x{i:03}", "a", 0.01).on("n1") for i in range(count)), pdb("keep").selects(app="x"))
        built.append(0)
        made.slow = lost(Mark)
        made.handle(stopped())
    assert built == [1, 1]


# -- promises ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [STOP_HOLD, STOP_DRAIN])
@pytest.mark.parametrize("kind", REASONS)
def test_who_has_quota_and_does_not_run_loses_it(kind: str, policy: str) -> None:
    """Nobody is evicted for a gang whose queue is stopped in the meantime; its marks and nominations are withdrawn."""
    made = cluster(queued("old", "b", 8))
    made.slow = lost(Mark)
    made.show(queued("new", "a", 4))
    assert writes(made.run()) == [("Nominate", "new"), ("Mark", "old")]
    made.show(stopped(kind, policy))
    made.slow = lambda _: False
    made.answer()
    made.run()
    assert not any(isinstance(a, Remove) for a in made.log)
    assert made.pod("new").nominated_node == ""
    assert made.pod("old").disruption.status == "False"  # type: ignore[union-attr]


# -- opened again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("policy", [STOP_NONE, STOP_HOLD])
def test_a_queue_that_is_opened_before_the_removal_keeps_its_workloads(kind: str, policy: str) -> None:
    """Marked and not removed: the marks are taken back, with the queue's name, and nobody leaves."""
    made = training()
    made.slow = lost(Mark)
    made.show(stopped(kind))
    made.run()
    made.show(stopped(kind, policy))
    made.run()
    made.slow = lambda _: False
    made.answer()
    made.run()
    assert not any(isinstance(a, SuspendJob | Remove) for a in made.log)
    said = [made.pod(f"train-{i}").disruption for i in range(2)]
    assert [(c.status, c.reason) for c in said if c is not None] == [("False", REASONS[kind])] * 2
    assert said[0] is not None
    assert said[0].message.endswith("is no longer drained")


def test_a_queue_that_is_opened_midway_keeps_the_rest() -> None:
    """Who has been removed has gone; who has not stays."""
    made = cluster(queued("x", "a"), queued("y", "a"))
    made.slow = lambda write: write.pod.name == "y"
    made.show(stopped())
    made.run()
    made.show(opened())
    made.run()
    made.slow = lambda _: False
    made.answer()
    made.run()
    removed = [a.pod.name for a in made.log if isinstance(a, Remove)]
    assert removed == ["x"]
    assert made.pod("y").disruption.status == "False"  # type: ignore[union-attr]


def test_workloads_come_back_in_order() -> None:
    """When the queue is open again they are admitted as anybody else: by priority, then age."""
    made = cluster(*(queued(f"x{i}", "a", 4).priority(i) for i in range(2)))
    assert set(nodes_of(made.log)) == {"x0", "x1"}
    made.show(stopped())
    made.run()
    made.leave()
    for i in range(2):
        made.show(queued(f"x{i}", "a", 4).priority(i).uid(f"again-{i}"))
    mark = len(made.log)
    made.run()
    made.pass_time(60)
    assert nodes_of(made.log[mark:]) == {}
    made.show(opened())
    made.pass_time(60)
    assert list(nodes_of(made.log[mark:])) == ["x1", "x0"]


def test_a_job_goes_on_when_its_queue_is_open_again() -> None:
    """It waits suspended as long as the queue is stopped."""
    made = training()
    made.show(stopped())
    made.run()
    made.leave()
    made.pass_time(60)
    assert made.jobs["d", "train"].suspended
    made.show(opened())
    made.pass_time(60)
    assert not made.jobs["d", "train"].suspended


def test_what_was_borrowed_is_free_for_others() -> None:
    """A queue that borrows is drained: the owner's next workload takes its place when it is gone, not before."""
    made = cluster(queued("old", "b", 8).on("n1"), queued("new", "a", 4).never())
    assert nodes_of(made.run()) == {}
    made.show(stopped(name="b"))
    made.run()
    assert ("Remove", "old") in writes(made.log)
    assert "new" not in nodes_of(made.log)
    made.leave()
    made.pass_time(30)
    assert nodes_of(made.log)["new"] == "n1"


# -- writes that fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "outcome"), [(Mark, Outcome.TRANSIENT), (SuspendJob, Outcome.TRANSIENT), (SuspendJob, Outcome.CONFLICT)]
)
def test_writes_that_fail_are_repeated(write: type, outcome: Outcome) -> None:
    """After a pause everything is marked anew, and the Job is suspended once."""
    made = training()
    made.judge = lambda action: (outcome, "try again") if isinstance(action, write) else None
    made.show(stopped())
    made.run()
    assert [j.suspended for j in made.jobs.values()] == [False]
    made.judge = lambda _: None
    made.pass_time(5)
    assert made.jobs["d", "train"].suspended
    assert [a for a in made.log if isinstance(a, Unmark)] == []


def test_a_write_that_is_refused_takes_the_marks_back() -> None:
    """Nobody stays marked over a removal that may never be allowed, and people are told once why."""
    made = training()
    made.judge = lambda action: (Outcome.REFUSED, "no right to patch jobs") if isinstance(action, SuspendJob) else None
    made.show(stopped())
    made.run()
    assert made.pod("train-0").disruption.status == "False"  # type: ignore[union-attr]
    made.pass_time(60)
    assert [r.note for r in reports(made.log, "DrainBlocked")] == [
        "ClusterQueue a is drained, and this stays for now: refused: no right to patch jobs"
    ]


def test_removals_that_fail_late_leave_no_mark() -> None:
    """The queue is opened while a removal is on its way, and that fails."""
    made = cluster(queued("x", "a"))
    made.slow = lost(Remove)
    made.show(stopped())
    made.run()
    made.show(opened())
    made.run()
    made.judge = lambda action: (Outcome.TRANSIENT, "no answer") if isinstance(action, Remove) else None
    made.slow = lambda _: False
    made.answer()
    made.run()
    assert made.pod("x").disruption.status == "False"  # type: ignore[union-attr]


# -- budgets -------------------------------------------------------------------------------------------------------


def test_budgets_are_broken_unless_they_are_strict() -> None:
    """With ``preferred`` budgets the workload is deleted; with strict ones it stays until they let all of it go."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    pods = [pod(f"m{i}").cpu(1).gang("g").label(app="g") for i in range(2)]
    kept: list[Built] = [group, *pods, pdb("keep").selects(app="g").allows(1)]
    preferred, made = cluster(*kept), cluster(*kept, strict_budgets=True)
    for each in (preferred, made):
        each.show(stopped())
        each.run()
    assert [a.evict for a in preferred.log if isinstance(a, Remove)] == [False, False]
    assert not any(isinstance(a, Mark | Remove) for a in made.log)
    told = reports(made.log, "DrainBlocked")
    assert [r.note for r in told] == [
        "ClusterQueue a is drained, and this stays for now: d/keep does not allow all of its 2 pods to go"
    ]
    made.pass_time(60)
    assert len(reports(made.log, "DrainBlocked")) == 1
    made.show(pdb("keep").selects(app="g").allows(2))
    made.pass_time(30)
    assert [(a.pod.name, a.evict) for a in made.log if isinstance(a, Remove)] == [("m0", True), ("m1", True)]


def test_workloads_share_what_a_strict_budget_allows() -> None:
    """Two of three may go: the third is not even marked."""
    pods = [queued(f"x{i}", "a").label(app="x").labels({QUEUE_LABEL: "q-a", "app": "x"}) for i in range(3)]
    made = cluster(*pods, pdb("keep").selects(app="x").allows(2), strict_budgets=True)
    made.show(stopped())
    made.run()
    assert len({a.pod.name for a in made.log if isinstance(a, Mark)}) == 2


def test_who_leaves_first_has_what_a_budget_allows() -> None:
    """The one of low priority is displaced first: the other goes beyond, although preemption would count it first."""
    pods = [queued(f"x{i}", "a").labels({QUEUE_LABEL: "q-a", "app": "x"}).priority(i).on("n1") for i in range(3)]
    shown = [big(), *objects(*SHARED), stopped(), *pods, pdb("keep").selects(app="x").allows(2)]
    left: list[DrainPlan] = []
    list(forecast([event(o) for o in shown], Options(), 0.0, left))
    assert [(v.name, v.over_budget) for each in left for v in each.victims] == [
        ("x0", False),
        ("x1", False),
        ("x2", True),
    ]


def test_what_is_blocked_leaves_the_budget_to_others() -> None:
    """The group needs more than a strict budget allows; the pod after it has that to itself."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    members = [pod(f"m{i}").cpu(1).gang("g").label(app="x").on("n1") for i in range(2)]
    alone = queued("x", "a").labels({QUEUE_LABEL: "q-a", "app": "x"}).priority(9).on("n1")
    shown = [big(), *objects(*SHARED), stopped(), group, *members, alone, pdb("keep").selects(app="x").allows(1)]
    left: list[DrainPlan] = []
    list(forecast([event(o) for o in shown], Options(strict_budgets=True), 0.0, left))
    assert [(each.name, bool(each.blocked)) for each in left] == [("d/g", True), ("d/x", False)]


def test_a_budget_that_vanishes_midway_stops_the_rest() -> None:
    """The first pod has been evicted, the second is refused: its mark is taken back, and it is tried again."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a"))
    pods = [pod(f"m{i}").cpu(1).gang("g").label(app="g") for i in range(2)]
    made = cluster(group, *pods, pdb("keep").selects(app="g").allows(2), strict_budgets=True)
    blocked = (Outcome.BLOCKED, "PodDisruptionBudget d/keep allows no disruption now")
    made.judge = lambda a: blocked if isinstance(a, Remove) and a.pod.name == "m1" else None
    made.show(stopped())
    made.run()
    assert made.pod("m0").deleting_since is not None
    assert made.pod("m1").disruption.status == "False"  # type: ignore[union-attr]
    made.judge = lambda _: None
    made.pass_time(5)
    assert made.pod("m1").deleting_since is not None


def test_jobs_of_controllers_that_would_resume_them_are_deleted() -> None:
    """As with preemption: what a controller above would undo at once is not tried."""
    made = cluster(job(owner=Owner("Workflow", "w", "u")), member(0), member(1))
    made.show(stopped())
    assert [w for w in writes(made.run()) if w[0] != "Mark"] == [("Remove", "train-0"), ("Remove", "train-1")]


def test_both_queues_stopped() -> None:
    """The LocalQueue is named, and opening one of two changes the mark and not the outcome."""
    made = cluster(queued("x", "a"))
    made.slow = lost(Mark)
    made.show(stopped("ClusterQueue"), stopped("LocalQueue"))
    made.run()
    made.show(opened("LocalQueue"))
    made.run()
    made.slow = lambda _: False
    made.answer()
    made.run()
    said = made.pod("x").disruption
    assert said is not None
    assert said.reason == "ClusterQueueStopped"
    assert made.pod("x").deleting_since is not None
