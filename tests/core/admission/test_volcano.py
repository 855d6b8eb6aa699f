"""Gangs of Volcano: roles, priorities, and the phase for which its controllers wait."""

from __future__ import annotations

import itertools

import pytest

from gangsched.core import events as ev
from gangsched.core.actions import SetGroupStatus
from gangsched.core.lifecycle import group_statuses
from gangsched.core.lifecycle.group_statuses import MOST_OVERWRITTEN, PERIOD_SECONDS
from gangsched.core.lifecycle.report import STATUS_HELD_BACK
from gangsched.model.records import Gang, PriorityClass
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, plan, reports

FAMILY, TASK = "scheduling.volcano.sh", "volcano.sh/task-spec"
OURS = ("volcano", "py-gang-scheduler")


def group(minimum, name="g", **fields):
    """A PodGroup of Volcano on which nothing has been written yet."""
    return gang(name).family(FAMILY).min(minimum).field(source="PodGroup", **fields)


def member(name, role="", of="g", scheduler="volcano", cpu=1):
    """A pod of the group, of some role."""
    made = pod(name).cpu(cpu).scheduler(scheduler).gang(of, FAMILY)
    return made.labels({TASK: role}) if role else made


def phases(cluster):
    """What was written as the phase of groups, in order."""
    return [(a.pod.name, a.status["phase"]) for a in cluster.log if isinstance(a, SetGroupStatus)]


def outcomes(*objects, **options):
    """The outcome of each gang."""
    made = plan(*objects, scheduler_names=OURS, **options)
    return {key: (decision.outcome, sorted(p.name for p in decision.placements)) for key, decision in made.items()}


def test_a_group_without_members_is_in_the_queue_where_its_name_is_answered_to():
    """Volcano's controllers create pods only then."""
    cluster = Cluster(node("n").cpu(4), group(2), scheduler_names=OURS)
    cluster.run()
    assert phases(cluster) == [("g", "Inqueue")]


def test_a_group_without_members_of_a_name_that_is_not_ours_is_left_alone():
    """Somebody else will say when its pods may be created."""
    cluster = Cluster(node("n").cpu(4), group(2))
    cluster.run()
    assert phases(cluster) == []


def test_a_group_that_cannot_be_understood_is_not_written_to():
    """No phase is true of it."""
    broken = ev.ObjectRefused(f"PodGroup.{FAMILY}", "d", "g", "uid-d-g", "spec.subGroupPolicy", "no")
    cluster = Cluster(node("n").cpu(4), broken, scheduler_names=OURS)
    cluster.run()
    assert phases(cluster) == []


def test_the_phase_follows_the_members():
    """Inqueue while they wait, Running when those that it needs are bound, Completed when all have ended."""
    cluster = Cluster(node("n").cpu(4), group(2), scheduler_names=OURS)
    cluster.run()
    cluster.show(member("a"), member("b"))
    cluster.run()
    assert phases(cluster)[-1] == ("g", "Running")
    for name in ("a", "b"):
        cluster.show(member(name).on("n").phase("Succeeded"))
    cluster.run()
    assert phases(cluster)[-1] == ("g", "Completed")
    assert [phase for _, phase in phases(cluster)].count("Inqueue") == 1


def test_a_gang_that_does_not_fit_says_why():
    """The condition Unschedulable has what the members are told."""
    cluster = Cluster(node("n").cpu(1), group(2), member("a"), member("b"), scheduler_names=OURS)
    cluster.run()
    cluster.show(*(p for p in cluster.pods.values()))
    cluster.run()
    last = [a for a in cluster.log if isinstance(a, SetGroupStatus)][-1].status
    assert last["phase"] == "Inqueue"
    (found,) = last["conditions"]
    assert (found["type"], found["status"], found["reason"]) == ("Unschedulable", "True", "NotEnoughResources")
    assert "Insufficient cpu" in found["message"]


def test_what_somebody_else_writes_over_the_phase_is_corrected():
    """A scheduler that is being stopped may still write Pending."""
    cluster = Cluster(node("n").cpu(4), group(2), scheduler_names=OURS)
    cluster.run()
    mine = [a for a in cluster.log if isinstance(a, SetGroupStatus)][-1].status
    cluster.show(group(2, status=mine))
    cluster.run()
    assert len(phases(cluster)) == 1
    cluster.show(group(2, status={**mine, "phase": "Pending"}))
    cluster.run()
    assert phases(cluster) == [("g", "Inqueue")] * 2


def settled(cluster, status):
    """The status of the group when nothing more is written, from this one on. Each write is shown to the scheduler."""
    seen = len(cluster.log)
    for generation in range(1, 50):
        cluster.run()
        new = [a.status for a in cluster.log[seen:] if isinstance(a, SetGroupStatus)]
        if not new:
            return status
        for each in new:
            status = {**status, **each}
        seen = len(cluster.log)
        cluster.show(group(2, status=status, generation=generation))
    raise AssertionError("the status is written for ever")


@pytest.mark.parametrize(("cpu", "phase"), [(1, "Inqueue"), (4, "Running")])
def test_the_status_of_a_group_has_one_writer(cpu, phase):
    """Two names are answered to, and the members have one of them: the status comes to rest."""
    cluster = Cluster(node("n").cpu(cpu), group(2), scheduler_names=OURS)
    status = settled(cluster, {})
    assert status["phase"] == "Inqueue"  # as awaited, while there are no members
    cluster.show(member("a", scheduler="py-gang-scheduler"))
    status = settled(cluster, status)
    assert [each["reason"] for each in status["conditions"]] == ["NotEnoughTasks"]
    cluster.show(member("b", scheduler="py-gang-scheduler"))
    status = settled(cluster, status)
    assert status["phase"] == phase
    cluster.delete("a")
    cluster.delete("b")
    status = settled(cluster, status)
    assert (status["phase"], status["conditions"]) == ("Inqueue", [])


def test_the_writer_is_another_when_its_members_are_gone():
    """Members of both names: the first writes, and the second when the first has none any more."""
    cluster = Cluster(node("n").cpu(4), group(1), member("a", scheduler="py-gang-scheduler"), scheduler_names=OURS)
    cluster.run()
    cluster.show(member("b", cpu=8))
    before = phases(cluster)
    assert before[-1] == ("g", "Running")
    cluster.run()
    assert phases(cluster) == before
    cluster.delete("a")
    cluster.run()
    assert phases(cluster)[-1] == ("g", "Inqueue")


def test_a_status_that_is_overwritten_again_and_again_is_held_back(monkeypatch):
    """By ourselves, whatever the reason: a few times within a second, then once a second; that is counted and reported
    once.
    """
    says = itertools.cycle(("one", "another"))
    real = group_statuses.gang_status
    monkeypatch.setattr(group_statuses, "gang_status", lambda *of: {**real(*of), "message": next(says)})
    cluster = Cluster(node("n").cpu(4), group(2), scheduler_names=OURS)
    for generation in range(1, 41):
        cluster.run()
        cluster.show(group(2, generation=generation))
    written = len(phases(cluster))
    assert written <= 2 * (MOST_OVERWRITTEN + 1)
    assert cluster.core.drain_held_back() > 10
    assert len(reports(cluster.log, STATUS_HELD_BACK)) == 1
    monkeypatch.undo()
    cluster.pass_time(PERIOD_SECONDS)
    assert len(phases(cluster)) > written


def test_a_phase_is_taken_back_before_it_was_seen():
    """What is on its way to the server counts as written: with its members gone the group is in the queue again."""
    cluster = Cluster(node("n").cpu(4), group(1), member("a"), scheduler_names=OURS)
    cluster.run()
    assert phases(cluster)[-1] == ("g", "Running")
    cluster.delete("a")
    cluster.run()
    assert phases(cluster)[-1] == ("g", "Inqueue")


def test_conditions_of_others_stay():
    """Of the two that tell where a gang stands there is one."""
    theirs = {"type": "Theirs", "status": "True"}
    old = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no room"}
    status = {"phase": "Inqueue", "conditions": [theirs, old]}
    cluster = Cluster(node("n").cpu(4), group(1, status=status), member("a"), scheduler_names=OURS)
    cluster.run()
    last = [a for a in cluster.log if isinstance(a, SetGroupStatus)][-1].status
    assert [each["type"] for each in last["conditions"]] == ["Theirs", "Scheduled"]


def test_an_eviction_is_a_condition():
    """It says which pods of the group left, and for whom."""
    runs = member("a").on("n").priority(1)
    above = pod("above").cpu(4).priority(10)
    cluster = Cluster(node("n").cpu(4), group(1), runs, above, scheduler_names=OURS)
    cluster.run()
    cluster.leave()
    cluster.run()
    last = [a for a in cluster.log if isinstance(a, SetGroupStatus)][-1].status
    told = {each["type"]: each["message"] for each in last["conditions"]}
    assert "for gang d/above" in told["gangsched.dev/PodsEvicted"]


def test_a_new_leader_writes_what_an_earlier_one_could_not():
    """It looks at groups without members too."""
    cluster = Cluster(group(2), scheduler_names=OURS, wait_for_leadership=True)
    cluster.run()
    before = phases(cluster)
    cluster.show(ev.LeadershipChanged(True))
    cluster.run()
    assert (before, phases(cluster)) == ([], [("g", "Inqueue")])


ROLES = (("ps", 1), ("worker", 2))


def test_no_role_may_be_missing():
    """Enough members are there, and not of each role."""
    workers = [member(f"w{i}", "worker") for i in range(3)]
    found = plan(node("n").cpu(8), group(3, roles=ROLES), *workers, scheduler_names=OURS)
    assert found["d/g"].outcome == "gathering"
    assert "1 of the members with the role ps missing" in found["d/g"].message


def test_those_that_start_are_of_each_role():
    """There is room for three of five: the role that comes last by name is among them."""
    workers = [member(f"a{i}", "worker") for i in range(4)]
    found = outcomes(node("n").cpu(3), group(3, roles=ROLES), *workers, member("z", "ps"))
    assert found == {"d/g": ("bind", ["a0", "a1", "z"])}


def test_a_role_that_does_not_fit_holds_up_all_of_them():
    """All or nothing is of roles too."""
    workers = [member(f"a{i}", "worker") for i in range(4)]
    found = outcomes(node("n").cpu(5), group(3, roles=ROLES), *workers, member("z", "ps", cpu=4))
    assert found["d/g"][0] == "unschedulable"


def test_roles_that_run_already_are_counted():
    """Of a gang that has lost a member of a role, that role is replaced."""
    runs = [member(f"a{i}", "worker").on("n") for i in range(3)]
    found = plan(node("n").cpu(4), group(3, roles=ROLES), *runs, member("z", "ps"), scheduler_names=OURS)
    assert (found["d/g"].outcome, found["d/g"].required) == ("bind", 1)


@pytest.mark.parametrize(("bound", "victims"), [("worker", {"a2"}), ("ps", {"a0", "a1", "a2", "z"})])
def test_surplus_is_of_a_role(bound, victims):
    """A third worker is more than is needed; a second role that is needed is not, and the whole gang goes."""
    roles = ROLES if bound == "worker" else (("ps", 1), ("worker", 3))
    runs = [member(f"a{i}", "worker").on("n").priority(0) for i in range(3)]
    above = pod("above").cpu(1).priority(10)
    objects = [node("n").cpu(4), group(3 if bound == "worker" else 4, roles=roles), *runs]
    found = plan(*objects, member("z", "ps").on("n").priority(0), above, scheduler_names=OURS)
    assert {v.name for v in found["d/above"].victims} == victims


@pytest.mark.parametrize(("known", "outcome"), [(True, "preempt"), (False, "unschedulable")])
def test_the_priority_of_the_class_that_a_group_names(known, outcome):
    """It is that of the gang, whatever its pods have; without the class that of its pods counts."""
    classes = [ev.Changed(PriorityClass("high", 100))] if known else []
    victim = pod("low").cpu(1).on("n").priority(5)
    found = outcomes(*classes, node("n").cpu(1), victim, group(1, priority_class="high"), member("a"))
    assert found["d/g"][0] == outcome


def test_the_reader_and_these_builders_mean_the_same():
    """The record has the family that the reader gives it."""
    assert isinstance(group(1).obj(), Gang)
    assert group(1).obj().family == FAMILY


LEAVES = member("releasing").on("n").terminating()
RUNS = member("running").on("n")
#: Case, minimum, members. In Volcano the group has the condition Unschedulable in the last three: at
#: once when a replacement waits, and also where no member does. Here a member that leaves counts until it is gone, and
#: where none waits nothing lacks room.
RELEASING = [
    ("partial termination", 2, [RUNS, LEAVES]),
    ("pending replacement still needs condition", 2, [RUNS, LEAVES, member("replacement", cpu=9)]),
    ("never scheduled releasing task is not counted", 1, [member("releasing").terminating()]),
    ("scheduled tasks below minAvailable", 3, [RUNS, LEAVES]),
]


@pytest.mark.parametrize(("least", "members"), [each[1:] for each in RELEASING], ids=[each[0] for each in RELEASING])
def test_members_that_leave_count_until_they_are_gone(least, members):
    """The cases of TestShouldSkipUnschedulableForReleasing (volcano-sh/volcano ed72c7c, pkg/scheduler/plugins/gang)."""
    cluster = Cluster(node("n").cpu(4), group(least), *members, scheduler_names=OURS)
    cluster.run()
    *_, last = [a.status for a in cluster.log if isinstance(a, SetGroupStatus)]
    assert "Unschedulable" not in {each["type"] for each in last.get("conditions", ())}


def test_a_replacement_of_a_member_that_is_gone_shows_what_lacks():
    """The group runs in part, and its condition has the reason of the member that waits."""
    cluster = Cluster(node("n").cpu(4), group(2), RUNS, LEAVES, member("replacement", cpu=9), scheduler_names=OURS)
    cluster.run()
    cluster.leave()
    cluster.run()
    *_, last = [a.status for a in cluster.log if isinstance(a, SetGroupStatus)]
    told = {each["type"]: each["message"] for each in last["conditions"]}
    assert last["phase"] == "Unknown"
    assert "Insufficient cpu" in told["Unschedulable"]
