"""Jobs that would not survive the loss of their pods: suspended as a whole, planned again, let go on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Bind, Mark, Remove, ResumeJob, SuspendJob, Unmark
from gangsched.core.decision import UnitRef
from gangsched.core.events import JobGone, KueueAdmits, Outcome, PriorityClassChanged
from gangsched.core.lifecycle.report import REFUSED
from gangsched.model.records import PREEMPT_LOWER, PREEMPT_NEVER, Job, Owner, Pod, PodTerm, PriorityClass, QueueLabels
from tests.builders import OURS, PodBuilder, gang, node, pdb, pod, selects
from tests.core.harness import Cluster, plan, reports, victims, writes
from tests.core.queues import objects
from tests.core.quota.world import queue

MEMBERS = 8


def member(index: int, name: str = "train") -> PodBuilder:
    """A pod of the Job, without a node."""
    return pod(f"{name}-{index}").cpu(1).owner("Job", name)


def job(name: str = "train", **fields: Any) -> Job:
    """A Job of eight with the default backoffLimit."""
    template = msgspec.structs.replace(member(0, name).obj(), name=name, uid="")
    known = {"parallelism": MEMBERS, "completions": MEMBERS, "template": template, "version": "1", **fields}
    return Job("d", name, f"uid-Job-{name}", **known)


def running(count: int = MEMBERS, name: str = "train") -> list[Pod]:
    """The Job's pods, four on each node."""
    return [member(i, name).on(f"n{i // 4 + 1}").obj() for i in range(count)]


def nodes(count: int = 2) -> list[Any]:
    """Nodes that hold four such pods each."""
    return [node(f"n{i + 1}").cpu(4) for i in range(count)]


def wide(name: str = "vip", priority: int = 10) -> PodBuilder:
    """A pod that takes a whole node."""
    return pod(name).cpu(4).priority(priority)


def methods(*objects: Any, **options: Any) -> dict[str, str]:
    """How each victim of the gang ``d/vip`` leaves."""
    return {v.name: v.method for v in plan(*objects, **options)["d/vip"].victims}


# -- which Jobs are suspended ------------------------------------------------------------------------------------


def test_a_job_that_would_survive_loses_single_pods() -> None:
    """Four deleted pods are within a backoffLimit of 6."""
    found = methods(*nodes(), job(), *running(), wide())
    assert list(found.values()) == ["delete"] * 4


def test_a_job_that_would_fail_leaves_as_a_whole() -> None:
    """Its other pods, which would end with it, are victims too; nothing is left to warn of."""
    made = plan(*nodes(), job(failed=3), *running(), wide())["d/vip"]
    assert victims(made) == [f"train-{i}" for i in range(MEMBERS)]
    assert {(v.method, v.unit.kind, v.unit.name) for v in made.victims} == {("suspend", "Job", "d/train")}
    assert made.warnings == ()


def test_whose_room_a_job_gives_up_as_well_stays() -> None:
    """A gang needs two of three nodes. The one with a single pod is the cheaper second one, until the Job on the others
    has to leave both of them anyway.
    """
    members = [pod(f"m{i}").cpu(4).priority(10).gang("vip") for i in range(2)]
    others = [*nodes(3), gang("vip").min(2), *running(), pod("alone").cpu(4).on("n3"), *members]
    survives = plan(*others, job(backoff_limit=0, ignores_disruption=True))["d/vip"]
    assert (len(survives.victims), "alone" in victims(survives)) == (5, True)
    made = plan(*others, job(backoff_limit=0))["d/vip"]
    assert victims(made) == [f"train-{i}" for i in range(MEMBERS)]
    assert {p.node for p in made.placements} == {"n1", "n2"}
    assert [(s.unit.name, s.reason) for s in made.spared] == [("d/alone", "the gang fits without its room")]


def test_a_gang_that_needs_a_pod_that_would_leave_with_its_job_does_not_fit() -> None:
    """The pod has to run in the zone of the cache, which is of the Job that would have to make room."""
    beside = PodTerm("zone", selects(app="cache"), ("d",))
    cache = member(1).label(app="cache").on("n2")
    zone = [node("n1").cpu(4).label(zone="a", k="x"), node("n2").cpu(4).label(zone="a")]
    wants = pod("vip").cpu(4).priority(10).selector(k="x").shape(affinity=(beside,))
    made = plan(*zone, job(backoff_limit=0), member(0).on("n1"), cache, wants)["d/vip"]
    assert (made.outcome, made.victims) == ("unschedulable", ())
    assert [(s.unit.name, s.reason) for s in made.spared] == [("d/train", "evicting it would not make the gang fit")]


def test_a_gang_that_leaves_in_part_with_its_job_leaves_whole() -> None:
    """Of gang low one member leaves with its Job, and so does Job train, from two nodes: the room of the other member
    of low is not needed then, but it is of no use alone.
    """
    lone = [pod(f"low-{i}").cpu(4).priority(1).gang("low").owner("Job", f"low-{i}").on(f"n{i + 3}") for i in range(2)]
    jobs = [job(f"low-{i}", parallelism=1, completions=1, backoff_limit=6 * i) for i in range(2)]
    spread = [member(i).cpu(4 if i == 0 else 1).on("n1" if i == 0 else "n2").obj() for i in range(5)]
    members = [pod(f"m{i}").cpu(4).priority(10).gang("vip") for i in range(3)]
    whole: list[Any] = [gang("low").min(2), gang("vip").min(3), job(backoff_limit=0, parallelism=5, completions=5)]
    made = plan(*nodes(4), *whole, *jobs, *lone, *spread, *members)["d/vip"]
    assert {v.name: (v.method, v.partial) for v in made.victims if v.name.startswith("low")} == {
        "low-0": ("suspend", False),
        "low-1": ("delete", False),
    }


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"ignores_disruption": True}, {}),
        ({}, {"suspend_jobs": False}),
        ({"owner": Owner("JobSet", "s", "u")}, {}),
        ({"template": None}, {}),
        ({"queue": QueueLabels("team")}, {}),
        ({"parallelism": 10_001, "completions": None}, {}),
        ({"template": member(0).light_gang("no name", 8).obj()}, {}),
    ],
)
def test_jobs_whose_pods_are_deleted_all_the_same(fields: dict[str, Any], options: dict[str, Any]) -> None:
    """A policy that ignores disruption, the setting, and suspensions that others would end at once."""
    found = methods(*nodes(), job(failed=6, **fields), *running(), wide(), **options)
    assert set(found.values()) == {"delete"}


@pytest.mark.parametrize("seen", ["nothing", "a Workload", "a label on a pod", "a label on the template"])
def test_a_job_that_kueue_has_admitted_too_is_not_suspended(seen: str) -> None:
    """Kueue would let it go on at once. Without a sign of Kueue its quota is ours, and pod priority means nothing."""
    theirs = job(failed=6, queue=QueueLabels("q-a"))
    pods: list[Any] = [*running()]
    mark = {"kueue.x-k8s.io/podset": "main"}
    if seen == "a Workload":
        pods.append(KueueAdmits("d", "job-train", (Owner("Job", "train", theirs.uid),)))
    elif seen == "a label on a pod":
        pods[-1] = msgspec.structs.replace(pods[-1], labels={**pods[-1].labels, **mark})
    elif seen == "a label on the template":
        theirs = msgspec.structs.replace(theirs, template=member(0).labels(mark).obj())
    found = methods(*nodes(), *objects(queue("a", cpu=100)), theirs, *pods, wide())
    assert set(found.values()) == ({"suspend"} if seen == "nothing" else {"delete"})


@pytest.mark.parametrize("fields", [{"fails_on_disruption": True}, {"failed": 6, "owner": Owner("CronJob", "c", "u")}])
def test_further_jobs_that_are_suspended(fields: dict[str, Any]) -> None:
    """One whose podFailurePolicy ends it at once, and one that a CronJob has made."""
    assert set(methods(*nodes(), job(**fields), *running(), wide()).values()) == {"suspend"}


def test_members_beyond_the_minimum_are_deleted_as_long_as_the_job_survives_it() -> None:
    """A gang can spare four members; where its Job ends with the next one that is deleted, it leaves whole."""
    pods = [member(i).gang("g").on(f"n{i // 4 + 1}").obj() for i in range(MEMBERS)]
    made = plan(*nodes(), job(failed=2), gang("g").min(4), *pods, wide())["d/vip"]
    assert [(v.method, v.partial) for v in made.victims] == [("delete", True)] * 4
    assert made.warnings == ()
    made = plan(*nodes(), job(failed=3), gang("g").min(4), *pods, wide())["d/vip"]
    assert [(v.method, v.partial) for v in made.victims] == [("suspend", False)] * MEMBERS
    assert {(v.unit.kind, v.unit.name) for v in made.victims} == {("PodGroup", "d/g")}
    assert made.warnings == ()


def kept(pods: list[Pod], how: str) -> list[Pod]:
    """The same with the last one protected, or of a priority that is not lower than that of ``d/vip``."""
    label = {"scheduling.koordinator.sh/disable-preemptible": "true"}
    change: dict[str, Any] = {"labels": label} if how == "protected" else {"priority": 900}
    return [*pods[:-1], msgspec.structs.replace(pods[-1], **change)]


@pytest.mark.parametrize("how", ["protected", "driver"])
@pytest.mark.parametrize("options", [{}, {"suspend_jobs": False}])
def test_a_pod_that_may_not_be_evicted_keeps_its_job(how: str, options: dict[str, Any]) -> None:
    """The Job does not end over the head of a protected pod, or of a driver of high priority, whether it would be
    suspended or fail: none of its pods leaves.
    """
    made = plan(*nodes(), job(failed=6), *kept(running(), how), wide(), **options)["d/vip"]
    assert (made.outcome, made.victims) == ("unschedulable", ())
    why = "it would end if any of its pods were evicted, and has one that may not be"
    assert [(s.unit.kind, s.unit.name, s.reason) for s in made.spared] == [("Job", "d/train", why)]


@pytest.mark.parametrize("how", ["protected", "driver"])
def test_beside_a_pod_that_may_not_be_evicted_so_many_leave_as_the_job_survives(how: str) -> None:
    """Four of it may be deleted; where it is three, another pod has to help, be its priority what it may."""
    other = pod("other").cpu(1).priority(5).on("n1")
    pods = kept([member(i).on(f"n{(i + 1) // 4 + 1}").obj() for i in range(MEMBERS - 1)], how)
    made = plan(*nodes(), job(failed=2), *pods, other, wide())["d/vip"]
    assert victims(made) == ["other", "train-0", "train-1", "train-2"]
    made = plan(*nodes(), job(failed=4), *pods, other, wide())["d/vip"]
    assert made.outcome == "unschedulable"
    why = "it would end if more of its pods were evicted, and has one that may not be"
    assert (UnitRef("Job", "d/train"), why) in [(s.unit, s.reason) for s in made.spared]


def test_the_priority_of_a_driver_counts_for_its_whole_job() -> None:
    """A pod of priority 20 leaves before a Job whose workers have none, and whose driver has 900."""
    workers = [member(i).on("n1").obj() for i in range(4)]
    driver = member(4).priority(900).on("n2").obj()
    other = pod("other").cpu(4).priority(20).on("n3")
    made = plan(*nodes(3), job(backoff_limit=0), *workers, driver, other, wide(priority=1000))["d/vip"]
    assert victims(made) == ["other"]
    assert (made.optimal, made.gap) == (True, None)


@pytest.mark.parametrize("options", [{}, {"suspend_jobs": False}])
def test_the_budgets_of_all_pods_of_a_job_count(options: dict[str, Any]) -> None:
    """A worker that no budget covers would take along one that does: another pod of the same priority leaves."""
    workers = [member(i).on("n1").obj() for i in range(4)]
    covered = member(4).label(app="ps").on("n2").obj()
    others = [pod(f"other-{i}").cpu(0.5).on("n3") for i in range(8)]
    known = (*nodes(3), *workers, covered, pdb("b").selects(app="ps").allows(0), *others, wide())
    made = plan(*known, job(backoff_limit=0), **options)["d/vip"]
    assert victims(made) == [f"other-{i}" for i in range(8)]
    assert not any(v.over_budget for v in made.victims)
    assert victims(plan(*known, job(), **options)["d/vip"]) == [f"train-{i}" for i in range(4)]


def test_all_pods_of_a_job_that_ends_without_being_suspended_count() -> None:
    """Eight pods of a Job that would fail, four of them for nothing, are more than five single ones."""
    others = [pod(f"other-{i}").cpu(0.75).on("n3") for i in range(5)]
    known = (*nodes(3), *running(), *others, wide())
    for limit, kind, count in ((0, "other", 5), (4, "train", 4)):
        made = plan(*known, job(backoff_limit=limit), suspend_jobs=False)["d/vip"]
        assert [v.name.split("-")[0] for v in made.victims] == [kind] * count
        assert made.warnings == ()
    alone = plan(*nodes(), *running(), job(backoff_limit=0), wide(), suspend_jobs=False)["d/vip"]
    assert [(v.name, v.method) for v in alone.victims] == [(f"train-{i}", "delete") for i in range(MEMBERS)]
    assert alone.warnings == ("Job d/train would fail: 8 more failed pods exceed its backoffLimit of 0",)


@pytest.mark.parametrize("survived", range(6))
def test_as_many_pods_leave_singly_as_their_job_survives(survived: int) -> None:
    """Where a gang of so many wants one node each and more than the Job survives, all of it leaves."""
    pods = [member(i).on(f"n{i + 1}").obj() for i in range(5)]
    members = [pod(f"m{i}").cpu(1).priority(10).gang("vip") for i in range(3)]
    small = [node(f"n{i + 1}").cpu(1) for i in range(5)]
    made = plan(*small, gang("vip").min(3), *members, *pods, job(backoff_limit=survived))["d/vip"]
    assert len(made.victims) == (3 if survived >= 3 else 5)
    assert {v.method for v in made.victims} == ({"delete"} if survived >= 3 else {"suspend"})


def test_a_job_takes_pods_along_that_are_not_in_its_gang() -> None:
    """A gang of the Job's workers leaves with the driver, which is in no gang; the Job is the unit."""
    workers = [member(i).gang("g").on("n1").obj() for i in range(4)]
    driver = member(4).priority(3).on("n2").obj()
    made = plan(*nodes(), job(backoff_limit=0), gang("g").min(4), *workers, driver, wide())["d/vip"]
    assert victims(made) == [f"train-{i}" for i in range(5)]
    assert {(v.unit.kind, v.unit.name, v.method) for v in made.victims} == {("Job", "d/train", "suspend")}
    driver, other = msgspec.structs.replace(driver, priority=900), pod("other").cpu(4).priority(5).on("n3")
    made = plan(*nodes(3), job(backoff_limit=0), gang("g").min(4), *workers, driver, other, wide())["d/vip"]
    assert victims(made) == ["other"]


def test_pods_on_nodes_that_are_gone_leave_with_their_job() -> None:
    """They make no room, and are suspended with the others all the same."""
    made = plan(*nodes(1), job(backoff_limit=0), *running(), wide())["d/vip"]
    assert victims(made) == [f"train-{i}" for i in range(MEMBERS)]


def test_budgets_that_may_not_be_broken_count_the_other_pods() -> None:
    """Four evictions are allowed, and the Job would be eight; it survives none."""
    pods = [member(i).label(app="t").on(f"n{i // 4 + 1}").obj() for i in range(MEMBERS)]
    for allowed, method in ((4, set()), (8, {"suspend"})):
        objects = (*nodes(), job(failed=6), *pods, pdb("b").selects(app="t").allows(allowed), wide())
        assert set(methods(*objects, strict_budgets=True).values()) == method
    objects = (*nodes(), job(failed=2), *pods, pdb("b").selects(app="t").allows(4), wide())
    assert list(methods(*objects, strict_budgets=True).values()) == ["evict"] * 4


def test_what_other_plans_take_counts() -> None:
    """Two pods arrive at once; each takes four, which together would be the end of the Job."""
    cluster = Cluster(*nodes(), job(), *running(), wide("vip-a"), wide("vip-b"))
    cluster.run()
    assert [a.job.name for a in cluster.log if isinstance(a, SuspendJob)] == ["train"]
    assert [{v.method for v in d.victims} for d in cluster.decisions[:2]] == [{"delete"}, {"suspend"}]


# -- the way out -------------------------------------------------------------------------------------------------


def test_all_pods_are_marked_before_the_job_is_suspended() -> None:
    """Marks first, then one write for all of them, then their Events; the gang is bound when all are gone."""
    cluster = Cluster(*nodes(), job(failed=6), *running(), wide())
    actions = cluster.run()
    kinds = [kind for kind, _ in writes(actions)]
    assert kinds == ["Nominate", *["Mark"] * MEMBERS, "SuspendJob"]
    suspend = next(a for a in actions if isinstance(a, SuspendJob))
    assert (suspend.scheduler, suspend.preemptor, suspend.version) == (OURS, "d/vip", "1")
    told = reports(actions, "Preempted")
    assert [r.regarding[1] for r in told].count("Job") == 1
    assert {r.regarding[3] for r in told if r.regarding[1] == "Pod"} == {"vip", *(f"train-{i}" for i in range(MEMBERS))}
    cluster.leave()
    assert ("Bind", "vip") in writes(cluster.run())


def test_a_suspension_that_fails_takes_back_the_marks() -> None:
    """When the Job may not be written to, nobody has left and nobody stays marked."""
    cluster = Cluster(*nodes(), job(failed=6), *running(), wide())
    cluster.judge = lambda write: (Outcome.REFUSED, "forbidden") if isinstance(write, SuspendJob) else None
    actions = cluster.run()
    assert len([a for a in actions if isinstance(a, Unmark)]) == MEMBERS
    assert all(p.live for p in cluster.pods.values())


def test_a_transient_failure_is_repeated() -> None:
    """The same Job is suspended again; nobody is deleted instead."""
    cluster = Cluster(*nodes(), job(failed=6), *running(), wide())
    answers = [(Outcome.TRANSIENT, "timeout")]
    cluster.judge = lambda write: answers.pop() if isinstance(write, SuspendJob) and answers else None
    actions = cluster.run()
    assert len([a for a in actions if isinstance(a, SuspendJob)]) == 2
    assert not [a for a in actions if isinstance(a, Remove)]


def test_a_suspension_that_fails_late_takes_back_the_marks() -> None:
    """The gang is gone by the time of the answer: the Job's pods stay, and bear no mark."""
    cluster = Cluster(*nodes(), job(failed=6), *running(), wide())
    cluster.slow = lambda write: isinstance(write, SuspendJob)
    cluster.run()
    cluster.delete("vip")
    cluster.run()
    cluster.slow = lambda _: False
    cluster.judge = lambda write: (Outcome.TRANSIENT, "timeout") if isinstance(write, SuspendJob) else None
    cluster.answer()
    cluster.run()
    standing = [p.disruption for p in cluster.pods.values()]
    assert [d.status for d in standing if d is not None] == ["False"] * MEMBERS


def test_a_pod_that_has_come_since_is_marked_too() -> None:
    """A ninth pod is bound between decision and suspension: the gang is decided again with it."""
    cluster = Cluster(*nodes(3), job(failed=6, parallelism=9, completions=9), *running(), wide().selector(zone="z"))
    cluster.show(node("n1").cpu(4).label(zone="z"))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(member(8).on("n3"))
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    [suspend] = [n for n, a in enumerate(cluster.log) if isinstance(a, SuspendJob)]
    marked = {a.pod.name for a in cluster.log[:suspend] if isinstance(a, Mark)}
    assert marked == {f"train-{i}" for i in range(9)}


# -- the way back ------------------------------------------------------------------------------------------------


def preempted(**fields: Any) -> Cluster:
    """The Job is suspended, its pods are gone, and the pod that took the room of four runs."""
    cluster = Cluster(*nodes(), job(**{"failed": 6, **fields}), *running(), wide())
    cluster.run()
    cluster.leave()
    cluster.run()
    assert cluster.pod("vip").node
    return cluster


def test_a_suspended_job_waits_as_a_gang() -> None:
    """It is decided as one gang of eight and told on the Job that it does not fit; no pod is written to."""
    cluster = preempted()
    last = cluster.decisions[-1]
    assert (last.gang.key, last.kind, last.required, last.outcome) == ("d/train", "Job", MEMBERS, "unschedulable")
    told = [r for r in reports(cluster.log, "FailedScheduling") if r.regarding[1] == "Job"]
    assert [r.regarding[:4] for r in told] == [("batch/v1", "Job", "d", "train")]
    assert {a.pod.name for a in cluster.log if isinstance(a, Bind)} == {"vip"}


def test_the_room_is_kept_until_its_pods_have_it() -> None:
    """When it fits, the suspension ends; what comes before its pods does not get their room, and they do."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    resume = next(a for a in cluster.log if isinstance(a, ResumeJob))
    assert (resume.job.name, resume.scheduler) == ("train", OURS)
    assert cluster.core.states() == {"d/train": "Starting"}
    assert [r.regarding[3] for r in reports(cluster.log, "Resumed")] == ["train"]
    cluster.show(pod("thief").cpu(1).created(-1.0))
    cluster.run()
    assert not cluster.pod("thief").node
    for index in range(MEMBERS):
        cluster.show(member(index).uid(f"again-{index}"))
        cluster.run()
        assert cluster.pod(f"train-{index}").node
    cluster.pass_time(60.0)
    assert not cluster.pod("thief").node
    assert cluster.core.states() == {"d/thief": "Backoff"}
    assert not cluster.core.world.ledger.holders()
    assert not cluster.core.world.ledger.resumes


def test_room_that_nobody_comes_for_is_given_up() -> None:
    """After the gang's timeout others may have it."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    cluster.show(pod("other").cpu(1))
    cluster.pass_time(599.0)
    assert not cluster.pod("other").node
    cluster.pass_time(2.0)
    assert cluster.pod("other").node


def test_a_stronger_gang_takes_the_room_of_a_job_that_starts() -> None:
    """Room is kept from those that are not stronger only; the Job goes on all the same, and is no gang any more."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    cluster.show(wide("late", priority=5))
    cluster.run()
    assert cluster.pod("late").node
    assert not cluster.core.world.ledger.holders()
    assert cluster.core.states() == {}


def test_a_job_whose_start_fails_after_its_room_was_taken_waits_again() -> None:
    """Nobody follows that write any more; the Job is still suspended, and starts when there is room."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.slow = lambda write: isinstance(write, ResumeJob)
    cluster.run()
    cluster.show(wide("late", priority=5))
    cluster.run()
    assert cluster.core.states() == {"d/train": "Bound"}
    cluster.slow = lambda _: False
    cluster.judge = lambda write: (Outcome.TRANSIENT, "timeout") if isinstance(write, ResumeJob) else None
    cluster.answer()
    cluster.run()
    assert cluster.core.states() == {"d/train": "Backoff"}
    cluster.judge = lambda _: None
    cluster.delete("late")
    cluster.pass_time(5.0)
    assert cluster.core.states() == {"d/train": "Starting"}


@pytest.mark.parametrize("gone", [True, False])
def test_the_end_of_the_job_ends_its_wait(gone: bool) -> None:
    """A Job that is deleted, or finishes, holds nothing and is decided no more, before and after it is let go on."""
    for starting in (False, True):
        cluster = preempted()
        if starting:
            cluster.delete("vip")
            cluster.run()
        over = msgspec.structs.replace(cluster.jobs["d", "train"], finished=True)
        cluster.show(JobGone("d", "train") if gone else over)
        cluster.run()
        assert cluster.core.states() == {}
        assert not cluster.core.world.ledger.holders()
        assert cluster.core.wake_at() is None


@pytest.mark.parametrize("by", ["", OURS])
def test_a_job_that_is_suspended_again_gives_its_room_up(by: str) -> None:
    """Its user has, or another gang needed room: nobody comes for what is kept, and only ours waits again."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    cluster.show(msgspec.structs.replace(cluster.jobs["d", "train"], suspended=True, suspended_by=by))
    cluster.show(pod("other").cpu(4).created(1.0))
    cluster.run()
    assert bool(cluster.pod("other").node) == (not by)
    assert cluster.core.states() == ({"d/train": "Starting", "d/other": "Backoff"} if by else {})
    assert len([a for a in cluster.log if isinstance(a, ResumeJob)]) == (2 if by else 1)


def test_pods_that_form_a_gang_take_the_room_of_their_job() -> None:
    """The room is theirs whether they name a group or not."""
    template = member(0).gang("g").obj()
    cluster = preempted(template=msgspec.structs.replace(template, name="train", uid=""))
    cluster.show(gang("g").min(MEMBERS))
    cluster.delete("vip")
    cluster.run()
    cluster.show(*(member(i).gang("g").uid(f"again-{i}") for i in range(MEMBERS)))
    cluster.run()
    assert all(cluster.pod(f"train-{i}").node for i in range(MEMBERS))
    assert not cluster.core.world.ledger.holders()


def test_a_users_own_suspension_is_not_ended() -> None:
    """Without our name on record there is nothing to plan; nor with that of another scheduler."""
    for by in ("", "somebody-else"):
        cluster = Cluster(*nodes(), job(suspended=True, suspended_by=by))
        assert cluster.run() == []


def test_a_suspended_job_preempts_weaker_pods() -> None:
    """Its victims are marked and removed for it before it is let go on, without a write to pods that do not exist."""
    low = [pod(f"low-{i}").cpu(4).priority(-5).on(f"n{i + 1}") for i in range(2)]
    cluster = Cluster(*nodes(), job(suspended=True, suspended_by=OURS), *low)
    actions = cluster.run()
    assert writes(actions) == [("Mark", "low-0"), ("Mark", "low-1"), ("Remove", "low-0"), ("Remove", "low-1")]
    cluster.leave()
    assert writes(cluster.run()) == [("ResumeJob", "train")]


def test_a_job_that_may_not_be_resumed_is_tried_again() -> None:
    """A failure backs off and gives the room back meanwhile."""
    cluster = preempted()
    answers = [(Outcome.REFUSED, "forbidden")]
    cluster.judge = lambda write: answers.pop() if isinstance(write, ResumeJob) and answers else None
    cluster.delete("vip")
    cluster.run()
    assert not cluster.core.world.ledger.holders()
    cluster.pass_time(5.0)
    assert len([a for a in cluster.log if isinstance(a, ResumeJob)]) == 2
    assert cluster.core.states() == {"d/train": "Starting"}


def test_the_priority_of_a_template_is_that_of_its_class() -> None:
    """Admission gives it to pods only; here the class may also come after the Job."""
    template = msgspec.structs.replace(member(0).obj(), name="train", uid="", priority_class="high")
    low = pod("low").cpu(4).priority(50).on("n1")
    cluster = Cluster(*nodes(), job(suspended=True, suspended_by=OURS, template=template), low)
    cluster.run()
    assert cluster.decisions[-1].priority == 0
    cluster.show(PriorityClassChanged(PriorityClass("high", 100)))
    cluster.run()
    assert (cluster.decisions[-1].priority, victims(cluster.decisions[-1])) == (100, ["low"])


def test_a_template_says_no_priority_itself() -> None:
    """Anybody may write one into a Job: the API server checks it of pods only."""
    template = member(0).priority(1_999_999_999).uid("").obj()
    low = pod("low").cpu(4).priority(50).on("n1")
    cluster = Cluster(node("n1").cpu(4), job(suspended=True, suspended_by=OURS, template=template), low)
    cluster.run()
    assert cluster.decisions[-1].priority == 0
    assert writes(cluster.log) == []


@pytest.mark.parametrize("policy", [PREEMPT_LOWER, PREEMPT_NEVER])
def test_the_preemption_policy_of_a_template_is_that_of_its_class(policy: str) -> None:
    """Whatever it says itself."""
    other = PREEMPT_NEVER if policy == PREEMPT_LOWER else PREEMPT_LOWER
    template = msgspec.structs.replace(member(0).uid("").obj(), priority_class="high", preemption_policy=other)
    high = PriorityClassChanged(PriorityClass("high", 100, preemption_policy=policy))
    low = pod("low").cpu(4).on("n1")
    cluster = Cluster(*nodes(), job(suspended=True, suspended_by=OURS, template=template), high, low)
    cluster.run()
    assert victims(cluster.decisions[-1]) == (["low"] if policy == PREEMPT_LOWER else [])


@pytest.mark.parametrize("fields", [{"suspended_by": OURS}, {"queue": QueueLabels("q-a")}])
def test_a_job_that_is_too_large_is_refused_once(fields: dict[str, Any]) -> None:
    """No pod is planned for it, others are, and it is planned when it has been made smaller."""
    huge = job(suspended=True, parallelism=2_000_000_000, completions=None, **fields)
    cluster = Cluster(*nodes(), *objects(queue("a", cpu=8)), huge, pod("other").cpu(1))
    cluster.run()
    cluster.show(msgspec.structs.replace(huge, version="2"))
    cluster.run()
    assert [(a.regarding[:4], a.note) for a in reports(cluster.log, REFUSED)] == [
        (
            ("batch/v1", "Job", "d", "train"),
            "spec.parallelism: 2000000000 pods are more than the 10000 with which a Job may wait for its start",
        )
    ]
    assert [a.pod.name for a in cluster.log if isinstance(a, Bind)] == ["other"]
    cluster.show(msgspec.structs.replace(huge, parallelism=4))
    cluster.run()
    assert [a.job.name for a in cluster.log if isinstance(a, ResumeJob)] == ["train"]


@pytest.mark.parametrize("fields", [{"suspended_by": OURS}, {"queue": QueueLabels("q-a")}])
def test_a_job_whose_pods_would_make_a_mistake_is_refused_once(fields: dict[str, Any]) -> None:
    """Nobody leaves for it: its pods, which name their gang as no gang can be called, would wait for ever."""
    wrong = member(0).uid("").light_gang("no name", 8).obj()
    low = pod("low").cpu(4).on("n1")
    high = PriorityClassChanged(PriorityClass("high", 100, global_default=True))
    cluster = Cluster(*nodes(), *objects(queue("a", cpu=8)), low, high, job(suspended=True, template=wrong, **fields))
    cluster.pass_time(60)
    assert writes(cluster.log) == []
    (told,) = reports(cluster.log, REFUSED)
    assert told.note.startswith("spec.template.metadata.annotations[gang.scheduling.koordinator.sh/name]: 'no name'")


# -- restarts ----------------------------------------------------------------------------------------------------


def test_another_process_lets_the_job_go_on() -> None:
    """All that it needs to know stands on the Job."""
    cluster = preempted()
    cluster.restart()
    cluster.run()
    cluster.delete("vip")
    cluster.run()
    assert [a.job.name for a in cluster.log if isinstance(a, ResumeJob)] == ["train"]


def test_another_process_finishes_a_suspension() -> None:
    """All pods are marked, the Job is not suspended yet: the same pods leave, the same way."""
    cluster = Cluster(*nodes(), job(failed=6), *running(), wide())
    cluster.slow = lambda write: isinstance(write, SuspendJob)
    cluster.run()
    cluster.slow = lambda _: False
    cluster.restart()
    actions = cluster.run()
    assert writes(actions) == [("SuspendJob", "train")]
    cluster.leave()
    cluster.run()
    assert cluster.pod("vip").node


def test_another_process_finishes_the_list_of_a_suspended_job() -> None:
    """One of its victims is leaving, the other is marked: that one leaves too, and nobody who would be less harm."""
    low = [pod(f"low-{i}").cpu(4).priority(-5).on(f"n{i + 1}") for i in range(2)]
    cluster = Cluster(*nodes(), job(suspended=True, suspended_by=OURS), *low)
    cluster.slow = lambda write: isinstance(write, Remove) and write.pod.name == "low-1"
    cluster.run()
    cluster.slow = lambda _: False
    cluster.show(node("n3").cpu(4), pod("cheap").cpu(4).priority(-9).on("n3"))
    cluster.restart()
    assert writes(cluster.run()) == [("Remove", "low-1")]
    cluster.leave()
    assert writes(cluster.run()) == [("ResumeJob", "train")]


def test_another_process_takes_back_the_list_of_a_suspended_job_that_nobody_has_left_for() -> None:
    """It is decided afresh: a victim that is less harm has turned up."""
    low = pod("low").cpu(8).priority(-5).on("n1")
    cluster = Cluster(node("n1").cpu(8), job(suspended=True, suspended_by=OURS), low)
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.slow = lambda _: False
    cluster.show(node("n2").cpu(8), pod("cheap").cpu(8).priority(-9).on("n2"))
    cluster.restart()
    assert writes(cluster.run()) == [("Unmark", "low"), ("Mark", "cheap"), ("Remove", "cheap")]


def test_another_process_does_not_suspend_over_unmarked_pods() -> None:
    """Seven of eight were marked: marks are withdrawn, and the gang is decided afresh."""
    cluster = Cluster(*nodes(), job(failed=6), *running(), wide())
    cluster.slow = lambda write: isinstance(write, Mark) and write.pod.name == "train-7"
    cluster.run()
    cluster.slow = lambda _: False
    cluster.restart()
    actions = cluster.run()
    suspend = next(n for n, a in enumerate(actions) if isinstance(a, SuspendJob))
    assert {a.pod.name for a in actions[:suspend] if isinstance(a, Mark)} == {f"train-{i}" for i in range(MEMBERS)}
