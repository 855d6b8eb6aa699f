"""What is told of gangs with a queue, in the words of Kueue: reserved, admitted, pending, evicted."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from gangsched.core.actions import Action, JobStatus, Mark, Remove, Report, ResumeJob, SuspendJob
from gangsched.core.events import Changed, Gone
from gangsched.core.lifecycle.report import ADMITTED, EVICTED, PENDING, RESERVED
from gangsched.model.queues import LocalQueue
from gangsched.model.records import Job, QueueLabels
from tests.builders import gang, pod
from tests.core.harness import Built, Cluster, reports
from tests.core.jobsets import TEAM, jobs, jobset, nodes, running, waiting
from tests.core.jobsets import quota as team_quota
from tests.core.queues import big, job, objects, owned, queued
from tests.core.quota.world import queue
from tests.core.stories import go_on

#: Queue a owns 4 cores and asks them back; b owns none and borrows.
LENT = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))
PATHS = "preemptor path: /co/a; preemptee path: /co/b"
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"


def told(actions: Iterable[Action]) -> list[tuple[str, str, str]]:
    """Reason, kind and name of the Events in Kueue's words."""
    words = (RESERVED, ADMITTED, PENDING, EVICTED)
    return [(a.reason, a.regarding[1], a.regarding[3]) for a in actions if isinstance(a, Report) and a.reason in words]


def told_of(actions: Iterable[Action], name: str) -> list[str]:
    """The reasons of those about the object of this name."""
    return [reason for reason, _, about in told(actions) if about == name]


def conditions(actions: Iterable[Action], name: str) -> dict[str, tuple[str, str, str]]:
    """The conditions that a Job was given last, by type: status, reason, message."""
    found = [a.status["conditions"] for a in actions if isinstance(a, JobStatus) and a.name == name]
    return {kind: (status, reason, message) for each in found for kind, status, reason, message in each}


def test_a_gang_is_reserved_and_admitted_once():
    """The group object hears of both, with the times that they took; a member that comes later changes nothing."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a", ""))
    members = [pod(f"m{i}").cpu(1).gang("g") for i in range(2)]
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), group, *members)
    actions = cluster.run()
    assert told(actions) == [(RESERVED, "PodGroup", "g"), (ADMITTED, "PodGroup", "g")]
    assert [r.note for r in reports(actions, RESERVED) + reports(actions, ADMITTED)] == [
        "Quota reserved in ClusterQueue a, wait time since queued was 0s",
        "Admitted by ClusterQueue a, wait time since reservation was 0s",
    ]
    cluster.show(pod("m2").cpu(1).gang("g"))
    assert told(cluster.run()) == []
    assert cluster.pod("m2").node == "n1"


def test_without_a_queue_nothing_is_told():
    """Gangs without a queue hear nothing of quota, beside those with one."""
    cluster = Cluster(big(cpu=1), *objects(queue("a", cpu=4)), pod("x").cpu(1), pod("y").cpu(1))
    assert told(cluster.run()) == []


def test_reclaiming_is_told_on_both_sides():
    """The borrower's Job hears who takes its quota back and why; the owner has no quota until that has left."""
    cluster = Cluster(big(), *LENT, job("old", "b", 3), owned("old", 3))
    first = cluster.run()
    assert told(first) == [(RESERVED, "Job", "old"), (ADMITTED, "Job", "old")]
    assert conditions(first, "old") == {
        "QuotaReserved": ("True", "QuotaReserved", "Quota reserved in ClusterQueue b"),
        "Admitted": ("True", "Admitted", "The workload is admitted"),
    }
    cluster.show(job("new", "a", 4), owned("new", 4))
    taking = cluster.run()
    assert told(taking) == [(PENDING, "Job", "new"), (EVICTED, "Job", "old")]
    assert conditions(taking, "new") == {
        "QuotaReserved": ("False", "Pending", f"{SHORT.format(3)}. Pending the preemption of 1 workload(s)"),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }
    said = (
        "Preempted to accommodate a workload (UID: uid-Job-new, JobUID: uid-Job-new) due to reclamation within the"
        f" cohort; {PATHS}"
    )
    [evicted] = reports(taking, EVICTED)
    assert evicted.note.startswith(f"{said}; preemptor: d/new (priority 0, plan ")
    assert evicted.related is not None
    assert evicted.related[1:4] == ("Job", "d", "new")
    [pod_told] = [r for r in reports(taking, "Preempted") if r.regarding[3] == "old-0"]
    assert "(InCohortReclamation): reclamation within the cohort" in pod_told.note
    [mark] = [a for a in taking if isinstance(a, Mark)]
    assert mark.message.startswith(
        "py-gang-scheduler: preempting to accommodate a workload due to reclamation within the cohort, preemptor: d/new"
    )
    of_old = conditions(taking, "old")
    assert of_old.pop("gangsched.dev/PodsEvicted")[2].endswith("for gang d/new (plan 0-2): d/old-0")
    assert of_old == {
        "Evicted": ("True", "Preempted", said),
        "Preempted": ("True", "InCohortReclamation", said),
    }
    cluster.pass_time(7)
    cluster.leave()
    freed = cluster.run()
    assert told_of(freed, "new") == [RESERVED, ADMITTED]
    assert [r.note for r in reports(freed, RESERVED) + reports(freed, ADMITTED)][:2] == [
        "Quota reserved in ClusterQueue a, wait time since queued was 7s",
        "Admitted by ClusterQueue a, wait time since reservation was 0s",
    ]
    assert {name: status for name, (status, _, _) in conditions(freed, "new").items()} == {
        "QuotaReserved": "True",
        "Admitted": "True",
    }


def test_jobsets_have_the_same_conditions():
    """A JobSet that starts, and one whose Jobs have no quota, hear it on themselves, and not on their Jobs."""
    cluster = Cluster(*nodes(), jobset(queue=TEAM, suspended=True), *jobs(suspended=True), *team_quota(8))
    first = cluster.run()
    assert conditions(first, "train") == {
        "QuotaReserved": ("True", "QuotaReserved", "Quota reserved in ClusterQueue q"),
        "Admitted": ("True", "Admitted", "The workload is admitted"),
    }
    assert {(a.family, a.plural) for a in first if isinstance(a, JobStatus)} == {("jobset.x-k8s.io", "jobsets")}
    cluster = Cluster(*nodes(), jobset(queue=TEAM), *jobs(), *waiting(), *team_quota(7))
    assert conditions(cluster.run(), "train")["QuotaReserved"][:2] == ("False", "Pending")


def test_a_jobset_that_gives_its_quota_back_says_so():
    """Evicted and Preempted with the reason, then that it waits; all on the JobSet."""
    lent = objects(queue("a", "co", cpu=8, reclaim="Any"), queue("q", "co", cpu=0))
    team = Changed(LocalQueue("d", "team", "q"))
    cluster = Cluster(*nodes(), *lent, team, jobset(queue=TEAM), *jobs(), *running(), queued("owner", "a", 4))
    taking = conditions(cluster.run(), "train")
    assert taking["Evicted"][:2] == ("True", "Preempted")
    assert taking["Preempted"][:2] == ("True", "InCohortReclamation")
    cluster.leave()
    waits = conditions(cluster.run(), "train")
    assert {name: (status, reason) for name, (status, reason, _) in waits.items()} == {
        "QuotaReserved": ("False", "Pending"),
        "Admitted": ("False", "NoReservation"),
    }


def test_pending_says_why():
    """A Job whose pods find no quota gets an Event with the reason, and the condition; its pods have their own."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), job("x", "a", 5), owned("x", 5), queued("single", "a", 5))
    actions = cluster.run()
    why = (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered"
        " podsets requests (0) + current podset request (5) > maximum capacity (4)"
    )
    assert told(actions) == [(PENDING, "Job", "x")]
    assert [r.note for r in reports(actions, PENDING)] == [why]
    assert conditions(actions, "x") == {
        "QuotaReserved": ("False", "Pending", why),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }
    cluster.pass_time(600)
    assert told(cluster.run()) == []


def waiting_job(cpu: float) -> Job:
    """A Job that is suspended until its queue has room."""
    return msgspec.structs.replace(job("x", "a", cpu), suspended=True)


def test_a_suspended_job_hears_kueues_words_only():
    """It has no pods that could be scheduled: the Event is Pending, once for each reason, and so are the conditions."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), queued("first", "a", 4), waiting_job(3))
    actions = cluster.run()
    assert [r.regarding[3] for r in reports(actions, PENDING)] == ["x"]
    assert reports(actions, "FailedScheduling") == []
    [said] = reports(actions, PENDING)
    assert said.note == SHORT.format(3)
    assert conditions(actions, "x")["QuotaReserved"] == ("False", "Pending", said.note)
    assert told(cluster.pass_time(600)) == []
    cluster.delete("first")
    assert told(cluster.run()) == [(RESERVED, "Job", "x"), (ADMITTED, "Job", "x")]


def test_a_suspended_job_waits_for_its_victims():
    """What it was told before does not stay: it says that others leave for it, and has quota when they have left."""
    cluster = Cluster(big(), *LENT, job("old", "b", 4), owned("old", 4), pod("keeps").cpu(97).on("n1"), waiting_job(4))
    first = cluster.run()
    assert conditions(first, "x")["QuotaReserved"][:2] == ("False", "Pending")
    cluster.delete("keeps")
    taking = cluster.run()
    text = f"{SHORT.format(4)}. Pending the preemption of 1 workload(s)"
    assert [r.note for r in reports(first + taking, PENDING) if "Pending the" in r.note] == [text]
    assert conditions(first + taking, "x")["QuotaReserved"] == ("False", "Pending", text)
    cluster.leave()
    assert told_of(cluster.run(), "x") == [RESERVED, ADMITTED]


def test_nodes_alone_keep_it_pending_too():
    """There is quota, and a pod without a queue leaves for it; or one does so already."""
    cluster = Cluster(
        big(cpu=4),
        *objects(queue("a", cpu=4)),
        pod("low").cpu(4).priority(-1).on("n1"),
        job("x", "a", 4),
        owned("x", 4),
    )
    actions = cluster.run()
    text = "1 member can start after 1 pod is evicted. Pending the preemption of 1 workload(s)"
    assert conditions(actions, "x")["QuotaReserved"] == ("False", "Pending", text)
    leaving = pod("low").cpu(4).on("n1").terminating()
    cluster = Cluster(big(cpu=4), *objects(queue("a", cpu=4)), leaving, job("x", "a", 4), owned("x", 4))
    actions = cluster.run()
    text = "1 member can start when 1 terminating pod is gone"
    assert conditions(actions, "x")["QuotaReserved"] == ("False", "Pending", text)
    cluster.leave()
    assert told(cluster.run()) == [(RESERVED, "Job", "x"), (ADMITTED, "Job", "x")]


def test_a_plan_that_is_made_anew_says_nothing_new():
    """The node of the plan is lost, and another one is freed instead: the group has heard the reason before."""
    group = gang("g").min(1).field(queue=QueueLabels("q-a", ""))
    weak = [pod(f"low{i}").cpu(4).priority(-1).on(f"n{i}") for i in (1, 2)]
    cluster = Cluster(
        *(big(f"n{i}", cpu=4) for i in (1, 2)), *objects(queue("a", cpu=8)), *weak, group, pod("m").cpu(4).gang("g")
    )
    cluster.slow = lambda write: isinstance(write, Mark)  # no pod has left yet: a round would end in a pause
    first = cluster.run()
    assert told(first) == [(PENDING, "PodGroup", "g")]
    lost = cluster.pod("m").nominated_node
    cluster.show(Gone("Node", "", lost))
    go_on(cluster)
    again = cluster.pass_time(60)
    assert cluster.pod("m").nominated_node not in ("", lost)
    assert told([*cluster.log[len(first) :], *again]) == []


def test_one_event_per_gang_says_it_once():
    """Where the reason stands on the group object already, there is no second Event for it."""
    group = gang("g").min(1).field(queue=QueueLabels("q-a", ""))
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), group, pod("m").cpu(5).gang("g"), events_per_gang=True)
    actions = cluster.run()
    assert told(actions) == []
    assert [r.regarding[3] for r in reports(actions, "FailedScheduling")] == ["g"]


@pytest.mark.parametrize(
    ("again", "waited"),
    [
        (msgspec.structs.replace(job("x", "a", 1), created=100.0, suspended=True, suspended_since=900.0), 100),
        (msgspec.structs.replace(job("x", "a", 1), created=100.0, suspended=True), 900),
        (owned("x", 1).created(960), 40),
    ],
    ids=["suspended", "not seen by its controller", "pods created again"],
)
def test_who_comes_again_waits_anew(again: Built, waited: int) -> None:
    """The time since it was queued is that of this wait, not the age of the Job."""
    old = msgspec.structs.replace(job("x", "a", 1), created=100.0)
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), old, again)
    cluster.now = 1000.0
    [told_of] = reports(cluster.run(), RESERVED)
    assert told_of.note.endswith(f"wait time since queued was {waited}s")


def test_a_job_hears_that_it_runs_though_the_cluster_shows_it_first() -> None:
    """The watch is quicker than the answer: nobody stands in for the Job's pods any more when it comes."""
    held = msgspec.structs.replace(job("x", "a", 1), suspended=True)
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), held)
    cluster.slow = lambda write: isinstance(write, ResumeJob)
    assert told_of(cluster.run(), "x") == [RESERVED]
    cluster.show(job("x", "a", 1))
    cluster.run()
    cluster.answer()
    actions = cluster.run()
    assert told_of(actions, "x") == [ADMITTED]
    assert conditions(actions, "x")["Admitted"][0] == "True"
    assert reports([*actions, *cluster.pass_time(5)], "GangNotReady") == []


def test_another_process_tells_jobs_what_was_left_unsaid():
    """One process preempts for the Job, the next one sees the room freed and says so; what runs is told it anew."""
    cluster = Cluster(big(), *LENT, job("old", "b", 4), owned("old", 4))
    cluster.run()
    cluster.show(job("new", "a", 4), owned("new", 4))
    cluster.run()
    cluster.restart()
    first = cluster.run()
    assert conditions(first, "new") == conditions(first, "old") == {}
    assert told(first) == []
    cluster.leave()
    runs = cluster.run()
    assert told_of(runs, "new") == [RESERVED, ADMITTED]
    has = {
        "QuotaReserved": ("True", "QuotaReserved", "Quota reserved in ClusterQueue a"),
        "Admitted": ("True", "Admitted", "The workload is admitted"),
    }
    assert conditions(runs, "new") == has
    cluster.restart()
    again = cluster.run()
    assert conditions(again, "new") == has
    assert told_of(again, "new") == []


def test_another_process_suspends_for_quota_what_was_marked_for_it() -> None:
    """The marks do not say why; that both need quota does. The Job hears of the reason."""
    cluster = Cluster(big(), *LENT, job("old", "b", 4), owned("old", 4))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, SuspendJob)
    cluster.show(job("new", "a", 4), owned("new", 4))
    cluster.run()
    cluster.slow = lambda write: False
    cluster.restart()
    again = cluster.run()
    assert [(type(a).__name__, a.job.name) for a in again if isinstance(a, SuspendJob)] == [("SuspendJob", "old")]
    assert not any(isinstance(a, Remove) for a in again)
    assert conditions(again, "old")["Preempted"][1] == "InCohortReclamation"
