"""Gangs with a queue that Kueue admits as well: left alone, not counted, and told once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.actions import Action, ResumeJob
from gangsched.core.events import Changed, Gone, LeadershipChanged, Synced
from gangsched.core.lifecycle.report import TWO_ADMITTERS
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.jobs import AdmittedByKueue
from gangsched.core.world.suspended import expecting
from gangsched.model.queues import KueueWorkload
from gangsched.model.records import Job, Owner, Pod, QueueLabels
from tests.builders import OURS, PodBuilder, gang, pod
from tests.core.harness import Built, Cluster, event, nodes_of, plan, reports, writes
from tests.core.jobsets import TEAM, jobs, jobset, nodes, waiting
from tests.core.jobsets import quota as team_quota
from tests.core.queues import big, job, objects, owned, queued
from tests.core.quota.world import queue

MANAGED = "kueue.x-k8s.io/managed"
STARTED = "kueue.x-k8s.io/podset"
GATE = "kueue.x-k8s.io/admission"


def of_kueue(name: str, cpu: float = 1, *gates: str) -> PodBuilder:
    """A pod with a queue that has gone through Kueue's webhook."""
    built = queued(name, "a", cpu).label(**{MANAGED: "true"})
    return built.gated(*gates) if gates else built


def suspended(name: str, cpu: float = 1, **fields: object) -> Job:
    """A Job that waits for its queue."""
    return msgspec.structs.replace(job(name, "a", cpu), suspended=True, **fields)


def workload(name: str, *owners: Owner) -> Changed:
    """Kueue's Workload of these objects."""
    return Changed(KueueWorkload("d", name, owners))


def told(actions: Iterable[Action]) -> list[tuple[str, str]]:
    """Kind and name of the objects that hear of two admitters."""
    return [(r.regarding[1], r.regarding[3]) for r in reports(actions, TWO_ADMITTERS)]


@pytest.mark.parametrize("gates", [(), (GATE,), ("kueue.x-k8s.io/topology",)], ids=["label", "gate", "other gate"])
def test_a_pod_is_left_alone_beside_one_that_runs(gates: tuple[str, ...]) -> None:
    """It gets no node and one Event that names both admitters and the ways out; the normal one has the whole quota."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), of_kueue("theirs", 4, *gates), queued("ours", "a", 4))
    actions = cluster.run()
    assert nodes_of(actions) == {"ours": "n1"}
    assert told(actions) == [("Pod", "theirs")]
    [event] = reports(actions, TWO_ADMITTERS)
    mark = f"scheduling gate {gates[0]}" if gates else f"label {MANAGED}"
    assert event.kind == "Warning"
    for part in ("kueue.x-k8s.io/queue-name", f"Kueue ({mark})", OURS, "quota.mode: auto", "remove the label"):
        assert part in event.note
    assert reports(actions, "GangNotReady") == []
    shown = cluster.pod("theirs").scheduled_condition
    assert (shown.reason if shown else "") == ("" if gates else TWO_ADMITTERS)
    cluster.change("theirs", version="2")
    assert told(cluster.pass_time(600)) == []


def test_it_goes_on_when_the_marks_are_gone() -> None:
    """Without label and gate it is admitted like any other."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), of_kueue("x", 4, GATE))
    cluster.run()
    cluster.change("x", labels=queued("x", "a").obj().labels, gates=())
    assert nodes_of(cluster.run()) == {"x": "n1"}


def test_what_runs_is_not_counted_twice() -> None:
    """Quota that Kueue has given to a running pod is not charged here as well, from when its mark is seen."""
    quota = objects(queue("a", cpu=4))
    theirs = of_kueue("theirs", 4).on("n1")
    assert nodes_of(Cluster(big(), *quota, theirs, queued("ours", "a", 4)).run()) == {"ours": "n1"}
    cluster = Cluster(big(), *quota, queued("theirs", "a", 4).on("n1"), queued("ours", "a", 4))
    assert nodes_of(cluster.run()) == {}
    cluster.change("theirs", labels=theirs.obj().labels)
    assert nodes_of(cluster.run()) == {"ours": "n1"}


def test_one_marked_member_is_enough() -> None:
    """A group is admitted as a whole, so it is left alone as a whole; its object hears of it, its members do not."""
    group = gang("g").min(2).field(queue=QueueLabels("q-a", ""))
    cluster = Cluster(
        big(), *objects(queue("a", cpu=4)), group, pod("m0").cpu(1).gang("g"), of_kueue("m1", 1, GATE).gang("g")
    )
    actions = cluster.run()
    assert nodes_of(actions) == {}
    assert told(actions) == [("PodGroup", "g")]


def test_pods_of_a_job_that_kueue_has_started() -> None:
    """The label that its template got says so; the Job hears of it."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), job("x", "a", 1), owned("x", 1).label(**{STARTED: "main"}))
    actions = cluster.run()
    assert writes(actions) == []
    assert told(actions) == [("Job", "x")]


@pytest.mark.parametrize("by", ["", OURS], ids=["held for its queue", "suspended by us"])
@pytest.mark.parametrize("first", [True, False], ids=["Workload first", "Job first"])
def test_a_suspended_job_with_a_workload_is_not_resumed(by: str, *, first: bool) -> None:
    """Nothing on the Job tells that it waits in Kueue, its Workload does. It goes on here when that is gone."""
    theirs = suspended("x", suspended_by=by)
    made = workload("job-x", Owner("Job", "x", theirs.uid))
    seen: list[Built] = [made, theirs] if first else [theirs, made]
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), *seen)
    actions = cluster.run()
    assert writes(actions) == []
    assert told(actions) == [("Job", "x")]
    assert "Kueue (Workload d/job-x)" in reports(actions, TWO_ADMITTERS)[0].note
    cluster.show(Gone("Workload", "d", "job-x"))
    assert [a.job.name for a in cluster.run() if isinstance(a, ResumeJob)] == ["x"]


@pytest.mark.parametrize("standby", [True, False], ids=["seen by a standby", "seen at the start"])
def test_a_suspended_job_is_told_whatever_is_listed_first(*, standby: bool) -> None:
    """The kinds are listed one after another, long before anything may be written; what is known then is told."""
    theirs = suspended("x")
    seen: list[Built] = [*objects(queue("a", cpu=4)), theirs, workload("job-x", Owner("Job", "x", theirs.uid))]
    for order in permutations(map(event, seen)):
        core = Scheduler(Options(wait_for_leadership=standby))
        before = [core.handle([one], 0.0) for one in order]
        then = core.handle([Synced()], 1.0)
        if standby:
            before.append(then)
            then = core.handle([LeadershipChanged(True)], 2.0)
        assert before == [[]] * len(before)
        assert told(then) == [("Job", "x")]


@pytest.mark.parametrize("by", ["", OURS], ids=["held for its queue", "suspended by us"])
def test_a_mark_on_the_template_of_a_suspended_job(by: str) -> None:
    """Its pods would bear it, so it is not let go on, whatever else changes about it; it goes on without the mark."""
    marked = suspended("x", suspended_by=by, template=owned("x", 1).label(**{STARTED: "main"}).obj())
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), marked)
    actions = cluster.run()
    for version in "234":
        cluster.show(msgspec.structs.replace(marked, version=version))
        actions += cluster.run()
        assert expecting(cluster.core.world) == set()
    assert writes(actions) == []
    assert told(actions) == [("Job", "x")]
    cluster.show(suspended("x", suspended_by=by, version="5"))
    assert [a.job.name for a in cluster.run() if isinstance(a, ResumeJob)] == ["x"]


def test_a_mark_on_the_template_of_a_suspended_jobset() -> None:
    """It counts whichever of its Jobs bears it."""
    plain = jobset(queue=TEAM, suspended=True)
    *others, last = plain.replicated
    template = last.job.template
    assert template is not None
    template = msgspec.structs.replace(template, labels={**template.labels, STARTED: "main"})
    last = msgspec.structs.replace(last, job=msgspec.structs.replace(last.job, template=template))
    marked = msgspec.structs.replace(plain, replicated=(*others, last))
    cluster = Cluster(*nodes(), marked, *team_quota(8))
    actions = cluster.run()
    cluster.show(msgspec.structs.replace(marked, version="2"))
    actions += cluster.run()
    assert writes(actions) == []
    assert told(actions) == [("JobSet", "train")]


def test_a_mark_means_nothing_to_a_job_without_a_queue() -> None:
    """One that we have suspended goes on, and its stand-ins do not count as pods of Kueue's meanwhile."""
    marked = suspended("x", 8, suspended_by=OURS, queue=QueueLabels())
    marked = msgspec.structs.replace(marked, template=owned("x", 8).label(**{STARTED: "main"}).obj())
    cluster = Cluster(big(cpu=4), *objects(queue("a", cpu=4)), marked)
    cluster.run()
    [gang_of_it] = cluster.core.world.membership.gangs()
    assert cluster.core.world.jobs.kueue.mark_on(gang_of_it) == ""
    cluster.show(big("n2", cpu=8))
    assert [a.job.name for a in cluster.pass_time(60) if isinstance(a, ResumeJob)] == ["x"]


def test_a_workload_of_another_object_means_nothing() -> None:
    """Neither one of a Job of that name that is gone, nor one that another Job owns now."""
    theirs = suspended("x")
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), theirs, workload("w", Owner("Job", "x", "an earlier one")))
    assert [a.job.name for a in cluster.run() if isinstance(a, ResumeJob)] == ["x"]
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), theirs, workload("w", Owner("Job", "x", theirs.uid)))
    cluster.run()
    cluster.show(workload("w", Owner("Job", "y", "uid-Job-y")))
    assert [a.job.name for a in cluster.run() if isinstance(a, ResumeJob)] == ["x"]


def test_a_job_that_goes_on_when_kueue_takes_it_is_given_up() -> None:
    """Kueue makes its Workload when we have let the Job go on, and suspends it again: its room is free for others."""
    cluster = Cluster(big(cpu=4), *objects(queue("a", cpu=4)), suspended("x", 4))
    cluster.run()
    cluster.show(workload("w", Owner("Job", "x", "uid-Job-x")))
    assert told(cluster.run()) == []
    cluster.show(msgspec.structs.replace(cluster.jobs["d", "x"], suspended=True), queued("ours", "a", 4))
    actions = cluster.run()
    assert told(actions) == [("Job", "x")]
    assert nodes_of(actions) == {"ours": "n1"}


@pytest.mark.parametrize("theirs", [True, False], ids=["Kueue takes it", "Kueue does not"])
def test_a_new_job_waits_where_kueue_is_at_work(*, theirs: bool) -> None:
    """Its Workload may still come, so it is not resumed for some seconds; where there has never been one, it is."""
    quota = objects(queue("a", cpu=4))
    alone = Cluster(big(), *quota, suspended("x"), owner_wait_seconds=5.0)
    assert len(writes(alone.run())) == 1
    cluster = Cluster(big(), *quota, workload("w", Owner("Job", "y", "uid-Job-y")), owner_wait_seconds=5.0)
    cluster.pass_time(100)
    cluster.show(suspended("x", created=100.0), suspended("old", created=10.0))
    assert [name for _, name in writes(cluster.run())] == ["old"]
    assert cluster.core.wake_at() == 105.0
    if theirs:
        cluster.show(workload("job-x", Owner("Job", "x", "uid-Job-x")))
        assert told(cluster.run()) == [("Job", "x")]
    assert writes(cluster.pass_time(4)) == []
    assert [name for _, name in writes(cluster.pass_time(600))] == ([] if theirs else ["x"])


def test_a_new_job_waits_no_longer_where_the_clock_of_the_server_is_ahead() -> None:
    """Created in an hour, as it seems: the wait is the same, however often the Job is seen meanwhile."""
    other = workload("w", Owner("Job", "y", "uid-Job-y"))
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), other, owner_wait_seconds=5.0)
    cluster.pass_time(100)
    cluster.show(suspended("x", created=3700.0))
    assert writes(cluster.pass_time(3)) == []
    cluster.show(suspended("x", created=3700.0))
    assert cluster.core.wake_at() == 105.0
    assert [name for _, name in writes(cluster.pass_time(2))] == ["x"]


def test_a_new_job_that_is_gone_is_not_waited_for() -> None:
    """What was kept back and deleted leaves nothing to be done."""
    other = workload("w", Owner("Job", "y", "uid-Job-y"))
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), other, suspended("x"), owner_wait_seconds=5.0)
    cluster.run()
    cluster.show(Gone("Job", "d", "x"))
    assert cluster.pass_time(60) == []
    assert cluster.core.wake_at() is None


@pytest.mark.parametrize("held", [True, False])
def test_jobsets(*, held: bool) -> None:
    """The Workload is that of the JobSet; so is the Event, whether its Jobs have pods or not."""
    pods = [] if held else waiting()
    cluster = Cluster(*nodes(), jobset(queue=TEAM, suspended=held), *jobs(suspended=held), *pods, *team_quota(8))
    cluster.show(workload("w", Owner("JobSet", "train", "uid-JobSet-train")))
    actions = cluster.run()
    assert writes(actions) == []
    assert told(actions) == [("JobSet", "train")]
    cluster.show(Gone("Workload", "d", "w"))
    assert len(writes(cluster.run())) == (1 if held else 8)


def test_without_queues_here_kueue_is_not_in_the_way() -> None:
    """Where no ClusterQueue is read, Kueue's pods are pods: those that it has started are placed, a gate is a gate."""
    cluster = Cluster(big(), of_kueue("started"), of_kueue("gated", 1, GATE))
    actions = cluster.run()
    assert nodes_of(actions) == {"started": "n1"}
    assert told(actions) == []


def test_without_a_queue_label_there_is_one_admitter() -> None:
    """What Kueue manages without a label of a queue is placed when Kueue has let it go."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), pod("x").cpu(1).label(**{MANAGED: "true"}))
    actions = cluster.run()
    assert nodes_of(actions) == {"x": "n1"}
    assert told(actions) == []


def test_the_last_queue_goes() -> None:
    """What was left alone is placed when there is no ClusterQueue here any more."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), of_kueue("x"))
    assert nodes_of(cluster.run()) == {}
    cluster.show(Gone("ClusterQueue", "", "a"))
    assert nodes_of(cluster.run()) == {"x": "n1"}


def test_others_are_not_told() -> None:
    """A pod and a Job of another scheduler are no business of ours."""
    template = owned("x", 1).scheduler("default-scheduler").obj()
    theirs = suspended("x", template=template)
    made = workload("w", Owner("Job", "x", theirs.uid))
    other = of_kueue("p").scheduler("default-scheduler")
    assert told(Cluster(big(), *objects(queue("a", cpu=4)), theirs, made, other).run()) == []


def test_a_plan_says_it_too() -> None:
    """In a forecast the gang gathers, with the same words."""
    found = plan(big(), *objects(queue("a", cpu=4)), of_kueue("x"))["d/x"]
    assert found.outcome == "gathering"
    assert "two admitters" in found.message


def test_a_plan_that_is_under_way_is_given_up() -> None:
    """A gang whose victims are marked is seen to be Kueue's: its victims stay."""
    cluster = Cluster(
        big(cpu=4), *objects(queue("a", cpu=4)), pod("low").cpu(4).on("n1"), queued("x", "a", 4, priority=5)
    )
    cluster.slow = lambda write: type(write).__name__ == "Mark"
    cluster.run()
    cluster.change("x", labels=of_kueue("x").obj().labels)
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert cluster.pod("low").deleting_since is None
    marked = cluster.pod("low").disruption
    assert marked is not None
    assert marked.status == "False"
    assert cluster.pod("x").nominated_node == ""


OWNERS = [Owner("Job", name, f"uid-{name}") for name in "abc"]
STEPS = st.lists(
    st.tuples(st.sampled_from(["w1", "w2"]), st.lists(st.sampled_from(OWNERS), max_size=3))
    | st.tuples(st.sampled_from(["p", "q"]), st.sampled_from(["g", "h"]), st.booleans())
)


@given(STEPS)
def test_what_is_known_of_kueue_follows_the_last_word(steps: list[tuple[Any, ...]]) -> None:
    """Pods that change gang and marks, Workloads that change owners: only what was said last counts, and all of it."""
    known = AdmittedByKueue()
    workloads: dict[str, set[str]] = {}
    pods: dict[str, Pod] = {}
    for step in steps:
        if len(step) == 2:
            key, owners = step
            known.workload_set(key, tuple(owners))
            workloads[key] = {o.uid for o in owners}
        else:
            name, group, marked = step
            built = pod(name).gang(group)
            now = (built.label(**{MANAGED: "true"}) if marked else built).obj()
            known.pod_set(pods.get(name), now)
            pods[name] = now
    for owner in OWNERS:
        assert bool(known.workload_of(owner.uid)) == any(owner.uid in uids for uids in workloads.values())
    for group in "gh":
        members = [p for p in pods.values() if p.gang.name == group]
        gangs = {pod("p").gang(group).obj().gang}
        assert [bool(known.mark_on(g)) for g in gangs] == [any(MANAGED in p.labels for p in members)]
    for key in workloads:
        known.workload_set(key, ())
    for each in pods.values():
        known.pod_dropped(each)
    assert not any(table for table in vars(known).values() if isinstance(table, dict))


def test_the_mark_of_a_gang_does_not_depend_on_which_member_was_seen_first() -> None:
    """Of members with other marks the same one is told, and another one when that is gone."""
    first, second = of_kueue("a").gang("g").obj(), of_kueue("b", 1, GATE).gang("g").obj()
    for order in ((first, second), (second, first)):
        known = AdmittedByKueue()
        for each in order:
            known.pod_set(None, each)
        assert known.mark_on(first.gang) == f"label {MANAGED}"
        known.pod_dropped(first)
        assert known.mark_on(first.gang) == f"scheduling gate {GATE}"
