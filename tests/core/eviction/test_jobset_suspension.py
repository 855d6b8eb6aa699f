"""JobSets whose pods have to leave: suspended as a whole, planned again from their templates, let go on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Bind, Remove, ResumeJob, SuspendJob
from gangsched.core.events import Changed, Gone
from gangsched.core.lifecycle.report import REFUSED
from gangsched.model.jobset_survival import JobSetPolicy, JobSetRule
from gangsched.model.jobsets import QUEUED_JOBSET, JobSet, ReplicatedJob
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import QUEUED_JOB, SINGLE, Owner, QueueLabels
from tests.builders import IGNORED, OURS, PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, reports, victims, writes
from tests.core.jobsets import JOBS, MEMBERS, TEAM, jobs, jobset, like, member, nodes, quota, running, waiting
from tests.core.queues import objects
from tests.core.quota.world import queue
from tests.core.stories import evicted


def wide(name: str = "vip") -> PodBuilder:
    """A pod that takes a whole node."""
    return pod(name).cpu(4).priority(10)


def methods(*found: Built, **options: Any) -> set[tuple[str, str, str]]:
    """How, and as members of which unit, the victims of the gang ``d/vip`` leave."""
    made = plan(*found, **options)["d/vip"]
    return {(v.method, v.unit.kind, v.unit.name) for v in made.victims}


# -- which JobSets are suspended ---------------------------------------------------------------------------------


def test_a_jobset_leaves_as_a_whole_when_one_of_its_jobs_would_end() -> None:
    """The pods of its other Jobs are victims too."""
    made = plan(*nodes(), jobset(), *jobs(), *running(), wide())["d/vip"]
    assert victims(made) == [f"train-w-{j}-{i}" for j in range(JOBS) for i in range(MEMBERS)]
    assert {(v.method, v.unit.kind, v.unit.name) for v in made.victims} == {("suspend", "JobSet", "d/train")}
    assert made.warnings == ()
    assert not made.spared


FAILS, RESTARTS = JobSetRule("FailJobSet"), JobSetRule("RestartJobSetAndIgnoreMaxRestarts")
SINGLY, COUNTED = JobSetRule("RestartJobAndIgnoreMaxRestarts"), JobSetRule("RestartJob")


@pytest.mark.parametrize(
    "policy", [JobSetPolicy(5), JobSetPolicy(0), JobSetPolicy(5, (FAILS,)), JobSetPolicy(0, (RESTARTS,))]
)
def test_a_jobset_that_its_policy_restarts_is_suspended_too(policy: JobSetPolicy) -> None:
    """All of its pods leave either way, and suspended it uses up no restart and comes back as a whole."""
    made = plan(*nodes(), jobset(failure_policy=policy), *jobs(), *running(), wide())["d/vip"]
    assert len(made.victims) == JOBS * MEMBERS
    assert {(v.method, v.unit.kind) for v in made.victims} == {("suspend", "JobSet")}


@pytest.mark.parametrize("policy", [JobSetPolicy(0, (SINGLY,)), JobSetPolicy(JOBS, (COUNTED,))])
def test_a_jobset_whose_policy_makes_jobs_anew_loses_one_of_them(policy: JobSetPolicy) -> None:
    """The others go on, so the pods of one Job leave together, by deletion, and the plan says what becomes of both."""
    made = plan(*nodes(), jobset(failure_policy=policy), *jobs(), *running(), wide())["d/vip"]
    assert len({v.name.rpartition("-")[0] for v in made.victims}) == 1
    assert {(v.method, v.unit.kind) for v in made.victims} == {("delete", "Job")}
    assert len(made.victims) == MEMBERS
    assert made.warnings[-1] == "JobSet d/train would create 1 Job again by its failurePolicy and continue"


def test_a_jobset_without_restarts_left_ends_with_its_jobs() -> None:
    """One more than maxRestarts is the end, so it leaves as a whole."""
    policy = JobSetPolicy(JOBS + 1, (COUNTED,), counted=2)
    assert {m for m, _, _ in methods(*nodes(), jobset(failure_policy=policy), *jobs(), *running(), wide())} == {
        "suspend"
    }


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (None, "JobSet d/train would fail with its Job: it has no failurePolicy"),
        (
            JobSetPolicy(5, (FAILS,)),
            "JobSet d/train would fail with its Job: a rule of its failurePolicy says FailJobSet",
        ),
        (
            JobSetPolicy(3, counted=3),
            "JobSet d/train would fail with its Job: it has been restarted 3 of 3 times (maxRestarts)",
        ),
        (JobSetPolicy(3), "JobSet d/train would be restarted as a whole, by its failurePolicy"),
    ],
)
def test_a_plan_says_what_becomes_of_a_jobset_that_is_not_suspended(policy: JobSetPolicy | None, words: str) -> None:
    """By the rules of its controller, beside what becomes of its Jobs."""
    made = plan(*nodes(), jobset(failure_policy=policy), *jobs(), *running(), wide(), suspend_jobs=False)["d/vip"]
    assert {v.method for v in made.victims} == {"delete"}
    assert made.warnings[-1] == words


@pytest.mark.parametrize("options", [{}, {"suspend_jobs": False}])
def test_a_jobset_counts_with_all_of_its_jobs(options: dict[str, Any]) -> None:
    """Four pods of one Job would do, and end eight: seven single pods leave instead, suspended or not."""
    others = [pod(f"other-{i}").cpu(0.5).on("n3") for i in range(7)]
    known = (*nodes(), node("n3").cpu(4), jobset(), *running(), *others, wide())
    made = plan(*known, *jobs(), **options)["d/vip"]
    assert victims(made) == [f"other-{i}" for i in range(7)]
    made = plan(*known, *jobs(backoff_limit=4), **options)["d/vip"]
    assert len(made.victims) == 4
    assert {v.method for v in made.victims} == {"delete"}


def test_a_pod_that_may_not_be_evicted_keeps_its_jobset() -> None:
    """It is of another Job, which the JobSet takes along: of its own Job as many pods leave as that survives."""
    pods = running()
    pods[-1] = msgspec.structs.replace(pods[-1], priority=900)
    made = plan(*nodes(), jobset(), *jobs(), *pods, wide())["d/vip"]
    assert made.outcome == "unschedulable"
    why = "it would end if any of its pods were evicted, and has one that may not be"
    assert [(s.unit.kind, s.unit.name, s.reason) for s in made.spared] == [("JobSet", "d/train", why)]
    first, second = jobs()
    survives = msgspec.structs.replace(first, backoff_limit=4)
    made = plan(*nodes(), jobset(), survives, second, *pods, wide())["d/vip"]
    assert victims(made) == [f"train-w-0-{i}" for i in range(MEMBERS)]


def test_a_jobset_whose_jobs_would_survive_loses_single_pods() -> None:
    """Four deleted pods are within the backoffLimit of the Job."""
    assert {m for m, _, _ in methods(*nodes(), jobset(), *jobs(backoff_limit=6), *running(), wide())} == {"delete"}


def test_a_jobset_of_which_nothing_would_be_left_is_suspended() -> None:
    """Though its Jobs would survive, none of their pods shall count; the group stays the unit."""
    members = [member(j, i).gang("g").on(f"n{j + 1}").obj() for j in range(JOBS) for i in range(MEMBERS)]
    found = (*nodes(), jobset(), *jobs(backoff_limit=6), gang("g").min(8).mode("gang"), *members)
    assert methods(*found, wide()) == {("suspend", "PodGroup", "d/g")}


def test_a_jobset_of_which_a_pod_is_being_bound_keeps_that_pod() -> None:
    """Something is left of it, although no other pod of it runs yet: one pod is deleted, and the plan holds when the
    other one has arrived.
    """
    alone, small = pod("alone").cpu(4).on("n3"), node("n2").cpu(2)
    found: list[Built] = [jobset(), *jobs(backoff_limit=6), member(0, 0).cpu(4).on("n1"), alone]
    cluster = Cluster(node("n1").cpu(4), small, node("n3").cpu(4), *found, member(1, 0).cpu(1))
    cluster.slow = lambda write: isinstance(write, Bind | Remove | SuspendJob)
    cluster.run()
    cluster.show(gang("vip").min(2).timeout(60), *(wide(f"vip-{i}").gang("vip") for i in range(2)))
    cluster.run()
    cluster.answer("alone", "train-w-1-0")
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert evicted(cluster) == {"alone", "train-w-0-0"}
    assert not cluster.jobsets["d", "train"].suspended
    assert nodes_of(cluster.log) == {"train-w-1-0": "n2"}


@pytest.mark.parametrize(
    ("known", "fields", "options"),
    [
        ([jobset()], {"failure_rules": IGNORED}, {}),
        ([jobset()], {}, {"suspend_jobs": False}),
        ([], {}, {}),
        ([msgspec.structs.replace(jobset(), uid="another")], {}, {}),
        ([jobset(queue=TEAM)], {}, {}),
        ([jobset(finished=True)], {}, {}),
    ],
)
def test_jobsets_whose_pods_are_deleted_all_the_same(
    known: list[JobSet], fields: dict[str, Any], options: dict[str, Any]
) -> None:
    """A policy that ignores disruption, the setting, one that is not known, and one that others would resume."""
    assert {m for m, _, _ in methods(*nodes(), *known, *jobs(**fields), *running(), wide(), **options)} == {"delete"}


# -- the way out and back ----------------------------------------------------------------------------------------


def preempted(**fields: Any) -> Cluster:
    """The JobSet is suspended, its pods are gone, and the preemptor runs."""
    cluster = Cluster(*nodes(), jobset(**fields), *jobs(), *running(), wide())
    cluster.run()
    cluster.leave()
    cluster.run()
    return cluster


def test_one_write_suspends_the_jobset_after_all_pods_are_marked() -> None:
    """No Job is written to: the JobSet's controller would let it go on at once."""
    cluster = Cluster(*nodes(), jobset(), *jobs(), *running(), wide())
    actions = cluster.run()
    assert [kind for kind, _ in writes(actions)] == ["Nominate", *["Mark"] * 8, "SuspendJob"]
    suspend = next(a for a in actions if isinstance(a, SuspendJob))
    assert (suspend.job.kind, suspend.job.key, suspend.job.uid) == ("JobSet", "d/train", "uid-JobSet-train")
    assert (suspend.version, suspend.scheduler, suspend.preemptor) == ("1", OURS, "d/vip")
    told = [r.regarding[:4] for r in reports(actions, "Preempted")]
    assert ("jobset.x-k8s.io/v1alpha2", "JobSet", "d", "train") in told
    cluster.leave()
    assert ("Bind", "vip") in writes(cluster.run())


def test_a_suspended_jobset_is_planned_as_a_gang_and_told_why_it_waits() -> None:
    """Eight members, of which the free node holds four."""
    cluster = preempted()
    assert cluster.core.states()["d/train"] == "Backoff"
    last = cluster.decisions[-1]
    assert (last.gang.key, last.outcome, last.required) == ("d/train", "unschedulable", 8)
    failed = [r for r in reports(cluster.log, "FailedScheduling") if r.regarding[1] == "JobSet"]
    assert failed
    assert failed[-1].regarding[3] == "train"


def test_it_goes_on_when_the_whole_fits_and_its_room_is_kept() -> None:
    """One write, the room for eight pods until they have come, and nobody else gets it meanwhile."""
    cluster = preempted()
    cluster.delete("vip")
    actions = cluster.run()
    assert [(a.job.kind, a.job.name, a.held) for a in actions if isinstance(a, ResumeJob)] == [
        ("JobSet", "train", False)
    ]
    assert [r.regarding[1] for r in reports(actions, "Resumed")] == ["JobSet"]
    cluster.show(pod("thief").cpu(1))
    cluster.run()
    assert not cluster.pod("thief").node
    cluster.show(*waiting())
    assert len(nodes_of(cluster.run())) == 8
    assert not cluster.core.ledger.holders()


def test_what_has_succeeded_already_needs_no_room() -> None:
    """A Job that is complete takes nothing, one that is half done only its other half."""
    first, second = jobs(suspended=True)
    done = (msgspec.structs.replace(first, finished=True), msgspec.structs.replace(second, succeeded=2))
    cluster = Cluster(node("n1").cpu(2), jobset(suspended=True, suspended_by=OURS), *done)
    assert writes(cluster.run()) == [("ResumeJob", "train")]


def test_jobs_that_are_not_there_yet_are_planned_from_the_jobset() -> None:
    """Replicas of a template: one Job is missing, and counts all the same."""
    cluster = Cluster(node("n1").cpu(4), jobset(suspended=True, suspended_by=OURS), jobs(suspended=True)[0])
    assert writes(cluster.run()) == []
    assert cluster.decisions[-1].required == 8
    cluster.show(node("n2").cpu(4))
    assert writes(cluster.run()) == [("ResumeJob", "train")]


def test_the_end_of_the_jobset_ends_its_wait() -> None:
    """Deleted or finished, before and after it is let go on: nothing is held, and nothing decided any more."""
    for ending in (Gone("JobSet", "d", "train"), jobset(finished=True)):
        for starting in (False, True):
            cluster = preempted()
            if starting:
                cluster.delete("vip")
                cluster.run()
            cluster.show(ending)
            cluster.run()
            assert cluster.core.states() == {}
            assert not cluster.core.ledger.holders()


def test_another_process_lets_it_go_on() -> None:
    """All that it needs to know stands on the JobSet."""
    cluster = preempted()
    cluster.restart()
    cluster.run()
    cluster.delete("vip")
    cluster.run()
    assert [a.job.kind for a in cluster.log if isinstance(a, ResumeJob)] == ["JobSet"]


def test_another_process_finishes_a_suspension() -> None:
    """All pods are marked, the JobSet is not suspended yet: the same pods leave, the same way."""
    cluster = Cluster(*nodes(), jobset(), *jobs(), *running(), wide())
    cluster.slow = lambda write: isinstance(write, SuspendJob)
    cluster.run()
    cluster.slow = lambda _: False
    cluster.restart()
    assert writes(cluster.run()) == [("SuspendJob", "train")]


def test_a_users_own_suspension_is_not_ended() -> None:
    """Without our name on record, and without a queue, there is nothing to plan."""
    for by in ("", "somebody-else"):
        cluster = Cluster(*nodes(), jobset(suspended=True, suspended_by=by), *jobs(suspended=True))
        assert cluster.run() == []


# -- with a queue ------------------------------------------------------------------------------------------------


def test_the_label_of_a_jobset_reaches_the_pods_of_its_jobs() -> None:
    """They are one workload: all eight get quota, or none does."""
    found = (*nodes(), jobset(queue=TEAM), *jobs(), *waiting())
    cluster = Cluster(*found, *quota(7))
    assert nodes_of(cluster.run()) == {}
    assert {p.gang.family for p in cluster.core.world.pods.values()} == {QUEUED_JOBSET}
    assert len(nodes_of(Cluster(*found, *quota(8)).run())) == 8


def test_only_the_pods_that_are_members_are_waited_for() -> None:
    """Not those of another scheduler, of a group, or of a Job with a queue of its own."""
    others = [
        member(9, 0).scheduler("other").obj(),
        member(9, 0).gang("g").obj(),
    ]
    extra = [msgspec.structs.replace(like(), name=f"train-x{i}", template=t) for i, t in enumerate(others)]
    extra.append(msgspec.structs.replace(like(), name="train-x2", queue=QueueLabels("own")))
    made = jobset(queue=TEAM, replicated=(*jobset().replicated, *(ReplicatedJob(3, each) for each in extra)))
    assert len(nodes_of(Cluster(*nodes(), made, *jobs(), *waiting(), *quota(8)).run())) == 8


def test_jobs_that_have_finished_need_no_pods() -> None:
    """Those of the other start as soon as that is known, though no pod of it is left."""
    first, second = jobs()
    cluster = Cluster(*nodes(), jobset(queue=TEAM), first, second, *waiting()[4:], *quota(8))
    assert nodes_of(cluster.run()) == {}
    cluster.show(msgspec.structs.replace(first, succeeded=4, finished=True))
    assert len(nodes_of(cluster.run())) == 4


def test_a_job_needs_no_more_pods_than_it_wants_now() -> None:
    """Of eight completions three are missing: whether the pods that have succeeded are still there says nothing."""
    fields = {"parallelism": 4, "completions": 8, "succeeded": 5, "owner": None, "queue": TEAM}
    tail = msgspec.structs.replace(jobs()[0], **fields)
    done = [msgspec.structs.replace(p, phase="Succeeded") for p in running()[:2]]
    for there in ([], done):
        new = waiting()[4 - 3 : 4] if not there else [member(0, i).uid(f"new-{i}").obj() for i in (5, 6, 7)]
        assert len(nodes_of(Cluster(*nodes(), tail, *there, *new, *quota(8)).run())) == 3
        assert nodes_of(Cluster(*nodes(), tail, *there, *new[1:], *quota(8)).run()) == {}


@pytest.mark.parametrize("queued", [QueueLabels(), TEAM])
def test_a_jobset_that_a_controller_has_made_is_left_to_it(queued: QueueLabels) -> None:
    """It is not suspended, and not let go on."""
    above = Owner("TrainJob", "t", "u")
    made = plan(*nodes(), jobset(owner=above), *jobs(), *running(), wide())["d/vip"]
    assert {v.method for v in made.victims} == {"delete"}
    held = Cluster(*nodes(), jobset(owner=above, suspended=True, queue=queued), *quota(8))
    assert held.run() == []


def test_a_jobset_that_is_too_large_is_refused() -> None:
    """By its templates, or by what its Jobs want."""
    like_ = ReplicatedJob(5_000, msgspec.structs.replace(like(), parallelism=3, completions=3))
    large = jobset(suspended=True, suspended_by=OURS, replicated=(like_,))
    first = msgspec.structs.replace(jobs()[0], parallelism=2_000_000_000, completions=None)
    for found in ((large,), (jobset(suspended=True, suspended_by=OURS), first)):
        cluster = Cluster(*nodes(), *found)
        cluster.run()
        assert [a.regarding[:4] for a in reports(cluster.log, REFUSED)] == [
            ("jobset.x-k8s.io/v1alpha2", "JobSet", "d", "train")
        ]
        assert not cluster.core.world.pods


def test_the_order_in_which_they_become_known_does_not_matter() -> None:
    """Pods, Jobs, JobSet and queues in any order: the same gang."""
    parts: list[list[Built]] = [[*waiting()], [*jobs()], [jobset(queue=TEAM)], quota(7)]
    for turn in range(len(parts)):
        ordered = [*parts[turn:], *parts[:turn]]
        cluster = Cluster(*nodes(), *(each for part in ordered for each in part))
        assert nodes_of(cluster.run()) == {}
        assert {p.gang.family for p in cluster.core.world.pods.values()} == {QUEUED_JOBSET}


def test_a_label_that_is_taken_off_sets_the_pods_free() -> None:
    """They are gangs of one again and need no quota."""
    cluster = Cluster(*nodes(), jobset(queue=TEAM), *jobs(), *waiting(), *quota(7))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.show(jobset())
    assert len(nodes_of(cluster.run())) == 8


def test_pods_that_outlive_their_jobset_are_on_their_own() -> None:
    """Until they are deleted with it they belong to no workload."""
    cluster = Cluster(*nodes(), jobset(queue=TEAM), *jobs(), *waiting(), *quota(7))
    cluster.run()
    cluster.pass_time(60)
    cluster.show(Gone("JobSet", "d", "train"))
    cluster.run()
    assert {p.gang.family for p in cluster.core.world.pods.values()} == {SINGLE}


def test_jobs_that_start_one_after_another_are_gangs_of_their_own() -> None:
    """The second Job has no pods before the first runs; both use the queue of the JobSet."""
    cluster = Cluster(*nodes(), jobset(queue=TEAM, in_order=True), *jobs(), *waiting()[:MEMBERS], *quota(4))
    assert len(nodes_of(cluster.run())) == MEMBERS
    assert {p.gang.family for p in cluster.core.world.pods.values()} == {QUEUED_JOB}
    cluster.show(*waiting()[MEMBERS:])
    assert nodes_of(cluster.run()) == {}


def test_a_jobset_that_was_created_suspended_is_held_until_its_queue_has_room() -> None:
    """It has no pods and no record of ours: planned from its templates, and let go on within its quota."""
    cluster = Cluster(*nodes(), jobset(queue=TEAM, suspended=True), *quota(7))
    assert writes(cluster.run()) == []
    assert "insufficient quota" in cluster.decisions[-1].message
    cluster.show(Changed(queue("q", cpu=8)))
    actions = cluster.run()
    assert [(a.job.key, a.held) for a in actions if isinstance(a, ResumeJob)] == [("d/train", True)]
    cluster.show(*jobs())
    cluster.show(*waiting())
    assert len(nodes_of(cluster.run())) == 8


def test_a_job_that_was_created_suspended_is_held_too() -> None:
    """Written as for Kueue; one whose owner decides on that is left to its owner."""
    one = msgspec.structs.replace(jobs(suspended=True)[0], queue=TEAM, owner=None)
    cluster = Cluster(*nodes(), one, *quota(3))
    assert writes(cluster.run()) == []
    cluster.show(Changed(queue("q", cpu=4)))
    assert [(a.job.kind, a.job.key, a.held) for a in cluster.run() if isinstance(a, ResumeJob)] == [
        ("Job", "d/train-w-0", True)
    ]
    owned = msgspec.structs.replace(one, owner=Owner("MPIJob", "m", "u"))
    assert Cluster(*nodes(), owned, *quota(4)).run() == []


def test_queues_that_come_later_start_what_is_held() -> None:
    """Job, JobSet and queues may become known in any order."""
    cluster = Cluster(*nodes(), jobset(queue=TEAM, suspended=True), *jobs(suspended=True))
    assert cluster.run() == []
    cluster.show(*quota(8))
    assert writes(cluster.run()) == [("ResumeJob", "train")]


def test_without_queues_here_nobody_starts_a_held_jobset() -> None:
    """Whoever manages quota elsewhere does."""
    assert Cluster(*nodes(), jobset(queue=TEAM, suspended=True), *jobs(suspended=True)).run() == []


def test_a_jobset_that_borrows_is_suspended_when_its_owner_asks_back() -> None:
    """Reclaimed like a Job: one write, and it comes back when the quota does."""
    queues = [*objects(queue("a", "co", cpu=8, reclaim="Any"), queue("b", "co", cpu=0))]
    cluster = Cluster(*nodes(), *queues, jobset(queue=QueueLabels("q-b")), *jobs(), *waiting())
    assert len(nodes_of(cluster.run())) == 8
    cluster.show(pod("owner").cpu(4).labels({QUEUE_LABEL: "q-a"}))
    assert [a.job.key for a in cluster.run() if isinstance(a, SuspendJob)] == ["d/train"]
    cluster.leave()
    assert "owner" in nodes_of(cluster.run())
    cluster.delete("owner")
    assert [a.job.key for a in cluster.run() if isinstance(a, ResumeJob)] == ["d/train"]


def test_a_jobset_goes_on_although_one_of_its_jobs_is_gone_before_its_pods() -> None:
    """Nothing tells any more which JobSet these pods belonged to when they go."""
    first = running()[:MEMBERS]
    leaving = [msgspec.structs.replace(p, deleting_since=0.0) for p in first]
    suspended = jobset(suspended=True, suspended_by=OURS)
    cluster = Cluster(*nodes(), suspended, *jobs(suspended=True), *first)
    cluster.run()
    cluster.show(*leaving)
    cluster.run()
    cluster.show(Gone("Job", "d", "train-w-0"))
    cluster.run()
    for each in leaving:
        cluster.delete(each.name)
    cluster.run()
    assert writes(cluster.log) == [("ResumeJob", "train")]


def test_nothing_is_kept_of_jobs_that_are_gone() -> None:
    """A cluster sees very many of them."""
    cluster = Cluster(*nodes(), *jobs(), *running())
    cluster.run()
    world = cluster.core.world
    for each in running():
        world.drop_pod(each.uid)
    assert world.jobs._pods == {}
