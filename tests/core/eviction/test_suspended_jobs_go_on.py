"""A suspended Job waits as a gang, is planned again from its template, and goes on; another process finishes that."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Bind, Mark, Remove, ResumeJob, SuspendJob
from gangsched.core.events import Changed, Gone, Outcome
from gangsched.core.lifecycle.report import REFUSED
from gangsched.core.state.expected_members import Resumes
from gangsched.model.records import PREEMPT_LOWER, PREEMPT_NEVER, PriorityClass, QueueLabels
from tests.builders import OURS, gang, node, pod
from tests.core.eviction.jobs import MEMBERS, job, member, nodes, running, wide
from tests.core.harness import Cluster, reports, victims, writes
from tests.core.queues import objects
from tests.core.quota.world import queue


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
    assert not cluster.core.ledger.holders()
    assert not cluster.core.ledger.resuming


def test_room_that_nobody_comes_for_is_given_up() -> None:
    """After half a minute others may have it, and the owner is told that its pods may have been refused."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    cluster.show(pod("other").cpu(1))
    cluster.pass_time(29.0)
    assert not cluster.pod("other").node
    assert not reports(cluster.log, "ResumedPodsMissing")
    cluster.pass_time(2.0)
    assert cluster.pod("other").node
    assert [r.regarding[1:4] for r in reports(cluster.log, "ResumedPodsMissing")] == [("Job", "d", "train")]


def test_room_is_kept_for_as_long_as_pods_come() -> None:
    """Half a minute from each; what has not come by then is nobody's, and the owner is not blamed for it."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    cluster.show(pod("other").cpu(1).created(1.0))
    for index in range(MEMBERS - 2):
        cluster.pass_time(25.0)
        cluster.show(member(index).uid(f"again-{index}"))
        cluster.run()
        assert not cluster.pod("other").node
    cluster.pass_time(31.0)
    assert cluster.pod("other").node
    assert not reports(cluster.log, "ResumedPodsMissing")


def test_an_owner_whose_pods_do_not_come_pauses() -> None:
    """Its tenant suspends it again and again with the annotation: it holds room for a minute of an hour at most."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    suspended, held, starts = job(suspended=True, suspended_by=OURS), 0.0, []
    while cluster.now < 3600.0:
        if cluster.core.states().get("d/train") == "Starting":
            starts.append(cluster.now)
        while cluster.core.states().get("d/train") == "Starting":
            cluster.pass_time(1.0)
            held += 1.0
        cluster.show(suspended)
        cluster.pass_time(3.0)
    assert held <= 70.0
    pauses = [later - first for first, later in itertools.pairwise(starts)]
    assert pauses[0] >= 30.0
    assert all(later >= 1.4 * first for first, later in itertools.pairwise(pauses[1:])), pauses


def test_room_for_others_of_the_namespace_is_kept_for_a_shorter_time() -> None:
    """Jobs of ever new names do not get around the pause: after six nothing is kept for a Job."""
    resumes = Resumes()
    kept = []
    for number in range(8):
        kept.append(resumes.seconds("d", number))
        resumes.record_without_pods(f"job-{number}", "d", number)
    assert kept == [30.0, 15.0, 7.5, 3.75, 1.875, 0.9375, 0.0, 0.0]
    assert resumes.seconds("e", 8.0) == 30.0
    assert resumes.seconds("d", 3700.0) == 30.0


def test_a_stronger_gang_takes_the_room_of_a_job_that_starts() -> None:
    """Room is kept from those that are not stronger only; the Job goes on all the same, and is no gang any more."""
    cluster = preempted()
    cluster.delete("vip")
    cluster.run()
    cluster.show(wide("late", priority=5))
    cluster.run()
    assert cluster.pod("late").node
    assert not cluster.core.ledger.holders()
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
        cluster.show(Gone("Job", "d", "train") if gone else over)
        cluster.run()
        assert cluster.core.states() == {}
        assert not cluster.core.ledger.holders()
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
    assert not cluster.core.ledger.holders()


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
    assert not cluster.core.ledger.holders()
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
    cluster.show(Changed(PriorityClass("high", 100)))
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
    high = Changed(PriorityClass("high", 100, preemption_policy=policy))
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
    high = Changed(PriorityClass("high", 100, global_default=True))
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
