"""Jobs that would not survive the loss of their pods: suspended as a whole, after all of their pods are marked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Mark, Remove, SuspendJob, Unmark
from gangsched.core.actuation.records import owners_of
from gangsched.core.decision import UnitRef
from gangsched.core.events import Changed, Outcome
from gangsched.model.constraints import PodTerm
from gangsched.model.queues import KueueWorkload
from gangsched.model.records import Owner, Pod, QueueLabels
from tests.builders import FAILING, IGNORED, OURS, gang, node, pdb, pod, selects
from tests.core.eviction.jobs import MEMBERS, job, member, methods, nodes, running, wide
from tests.core.harness import Cluster, plan, reports, victims, writes
from tests.core.queues import objects
from tests.core.quota.world import queue

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
    survives = plan(*others, job(backoff_limit=0, failure_rules=IGNORED))["d/vip"]
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
        ({"failure_rules": IGNORED}, {}),
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
        pods.append(Changed(KueueWorkload("d", "job-train", (Owner("Job", "train", theirs.uid),))))
    elif seen == "a label on a pod":
        pods[-1] = msgspec.structs.replace(pods[-1], labels={**pods[-1].labels, **mark})
    elif seen == "a label on the template":
        theirs = msgspec.structs.replace(theirs, template=member(0).labels(mark).obj())
    found = methods(*nodes(), *objects(queue("a", cpu=100)), theirs, *pods, wide())
    assert set(found.values()) == ({"suspend"} if seen == "nothing" else {"delete"})


@pytest.mark.parametrize("fields", [{"failure_rules": FAILING}, {"failed": 6, "owner": Owner("CronJob", "c", "u")}])
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


def test_a_job_is_suspended_when_the_pods_that_another_plan_takes_of_it_terminate() -> None:
    """Two pods arrive at once: four pods leave singly for the one, and the others with their Job for the other. The Job
    takes along all eight, so it is suspended when the first four terminate and its own are marked.
    """
    cluster = Cluster(*nodes(), job(), *running(), wide("vip-a"), wide("vip-b"))
    cluster.slow = lambda write: isinstance(write, Mark | Remove)
    cluster.run()
    first, second = ({v.name for v in made.victims} for made in cluster.decisions[:2])
    assert (len(first), len(second)) == (4, 4)
    cluster.answer(*second)
    cluster.run()
    assert not [a for a in cluster.log if isinstance(a, SuspendJob)]
    cluster.answer(*first)
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert [a.preemptor for a in cluster.log if isinstance(a, SuspendJob)] == ["d/vip-b"]
    marked = {name: {o.name for o in owners_of(cluster.pod(name))} for name in first | second}
    assert {name for name, owners in marked.items() if "d/vip-b" in owners} == second


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


@pytest.mark.parametrize("suspends", [True, False], ids=["suspended", "warned of"])
@pytest.mark.parametrize("meanwhile", ["they have notice", "they are marked", "another process takes over"])
def test_a_job_that_loses_pods_elsewhere_is_asked_again_whether_it_survives(meanwhile: str, suspends: bool) -> None:
    """Four pods may leave singly when that is decided, and one too many by the time they are to be removed: the Job is
    suspended as a whole then, and where it cannot be a plan has warned of its end before the first of them leaves.
    """
    options = {"suspend_jobs": suspends, "notice": (("", 30.0),) if meanwhile == "they have notice" else ()}
    cluster = Cluster(*nodes(), job(failed=2), *running(), wide(), **options)
    cluster.slow = lambda write: isinstance(write, Mark) and bool(write.message)
    cluster.run()
    assert [(v.method, d.warnings) for d in cluster.decisions for v in d.victims] == [("delete", ())] * 4
    cluster.show(job(failed=3))
    if meanwhile == "another process takes over":
        cluster.slow = lambda _: False
        cluster.answer()
        cluster.restart(**options)
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.pass_time(60)
    assert cluster.jobs["d", "train"].suspended is suspends
    assert any(isinstance(a, Remove) for a in cluster.log) is not suspends
    assert any("would fail" in text for d in cluster.decisions for text in d.warnings) is not suspends


@pytest.mark.parametrize("stronger", [True, False])
def test_who_counts_on_pods_by_which_their_job_would_fail_by_now_waits_for_what_becomes_of_them(stronger: bool) -> None:
    """Four pods may leave singly for the first gang. Then their Job loses another, and the next gang counts on theirs:
    they do not leave for it in a way that nobody has chosen, and the Job is suspended.
    """
    cluster = Cluster(*nodes(), job(failed=2), *running(), wide())
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert [v.method for v in cluster.decisions[-1].victims] == ["delete"] * 4
    cluster.show(job(failed=3), wide("next", 20) if stronger else pod("next").cpu(0.5).priority(9))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.pass_time(60)
    assert cluster.jobs["d", "train"].suspended
    assert not any(isinstance(a, Remove) for a in cluster.log)
