"""A gang that is bound in part says so, and leaves as a whole only where that was asked for and harms nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Bind, Mark, Remove, Unmark, Write
from gangsched.core.decision import UNSCHEDULABLE, Verdict
from gangsched.core.events import Outcome
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import REFUSED_PAUSE_SECONDS, Group
from gangsched.core.lifecycle.rollback import hopeless
from gangsched.model.records import SINGLE, GangId, Job
from tests.builders import PodBuilder, decided, gang, node, pdb, pod
from tests.core.binding.refusals import member, refuse_m2, refusing
from tests.core.harness import Cluster, nodes_of, reports, texts, writes
from tests.core.plugins.profiles import OTHER, Strict, with_filter
from tests.core.stories import G, go_on, names

IN_PART = "The gang is bound in part: 1 bound, 1 more needed"


def half(*more: Any, change: Callable[[PodBuilder], PodBuilder] = lambda p: p, **options: Any) -> Cluster:
    """Two nodes for two members; m1 is bound, m2's binding is refused, and its node is taken by somebody else."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), change(member(1)), member(2), *more, **options)
    cluster.judge = refuse_m2
    cluster.run()
    assert (cluster.pod("m1").node, cluster.pod("m2").node) == ("n1", "")
    cluster.judge = lambda _: None
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    return cluster


def test_by_default_the_gang_waits_and_says_that_it_is_bound_in_part() -> None:
    """Nobody is removed; condition and Event of the member that waits name what is bound and what is needed."""
    cluster = half()
    assert names(cluster, Remove) == names(cluster, Mark) == set()
    reason, text = texts(cluster.log, "m2")[-1]
    assert reason == "Unschedulable"
    assert text.startswith("waits: until 1970-01-01T00:02:00Z, when it may evict others: a binding was refused")
    assert "0/2 nodes are available" in text
    assert IN_PART in text
    assert any(IN_PART in r.note for r in reports(cluster.log, "FailedScheduling"))
    cluster.show(node("n3"))
    cluster.pass_time(20)
    assert nodes_of(cluster.log)["m2"] == "n3"


def test_members_that_a_controller_makes_again_leave_and_the_gang_comes_back_whole() -> None:
    """Marked first, then removed by UID, told with a reason of its own; the new pod waits for the other."""
    cluster = half(rollback=True)
    assert [kind for kind, name in writes(cluster.log) if name == "m1"] == ["Bind", "Mark", "Remove"]
    assert {a.pod.uid for a in cluster.log if isinstance(a, Remove)} == {"uid-d-m1"}
    (told,) = reports(cluster.log, report.ROLLED_BACK)
    assert told.regarding[3] == "m1"
    why = "Removed from n1: gang d/g is bound in part only; ReplicaSet rs creates it again: not now: "
    assert told.note.startswith(why)
    assert reports(cluster.log, "Preempted") == []
    cluster.leave()
    cluster.show(member(1, "again"))
    cluster.pass_time(20)
    assert {name for (_, name), p in cluster.pods.items() if p.node} == set()
    assert cluster.core.states() == {G: "Backoff"}
    cluster.show(node("n3"))
    cluster.pass_time(20)
    assert {p.node for p in cluster.pods.values()} == {"n1", "n3"}
    assert cluster.core.states() == {}


def test_members_of_a_gang_that_is_not_strict_are_spared() -> None:
    """Koordinator's mode NonStrict: what is bound stays, and the others wait for a place."""
    cluster = half(gang("g").min(2).field(strict=False), rollback=True)
    assert names(cluster, Remove) == names(cluster, Mark) == set()
    assert cluster.pod("m1").node == "n1"
    cluster.show(node("n3"))
    cluster.pass_time(20)
    assert nodes_of(cluster.log)["m2"] == "n3"


def test_others_get_the_room_that_a_rollback_gives_back() -> None:
    """That is what it is for: a pod of lower priority that fits runs instead of half a gang."""
    cluster = half(rollback=True)
    cluster.show(pod("waits").cpu(3).priority(-1))
    cluster.leave()
    cluster.pass_time(20)
    assert nodes_of(cluster.log)["waits"] == "n1"


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.field(owner=None),
        lambda p: p.owner("DaemonSet", "ds"),
        lambda p: p.label(**{"scheduling.koordinator.sh/disable-preemptible": "true"}),
    ],
    ids=["no-controller", "daemonset", "protected"],
)
def test_members_that_nobody_makes_again_or_that_are_protected_stay(change: Callable[[PodBuilder], PodBuilder]) -> None:
    """The gang waits and says so, as without the setting."""
    cluster = half(change=change, rollback=True)
    assert names(cluster, Remove) == names(cluster, Mark) == set()
    assert IN_PART in texts(cluster.log, "m2")[-1][1]


def test_one_member_without_a_controller_keeps_all() -> None:
    """A rollback that leaves somebody behind would still leave the gang in part."""
    third = pod("m3").cpu(1).gang("g")
    cluster = half(third, gang("g").min(3), rollback=True)
    assert {n for n in ("m1", "m3") if cluster.pod(n).node} == {"m1", "m3"}
    assert names(cluster, Remove) == set()


def test_a_gang_that_ran_and_lost_a_member_is_not_rolled_back() -> None:
    """Its other members have done work; the lost one is placed when there is room."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), member(1), member(2), rollback=True)
    cluster.run()
    assert cluster.core.states() == {}
    cluster.delete("m2")
    cluster.show(node("n2").cordoned(), member(2, "again"))
    cluster.pass_time(60)
    assert names(cluster, Remove) == set()
    assert IN_PART in texts(cluster.log, "m2")[-1][1]


def test_one_member_that_ran_before_keeps_all() -> None:
    """Another process has bound it: for how long the gang was whole since is not known."""
    early = member(3).cpu(1).on("n1")
    there = {"kubernetes.io/hostname": "n1"}
    cluster = half(early, gang("g").min(3), change=lambda p: p.selector(**there), rollback=True)
    assert names(cluster, Remove) == set()


def test_members_that_another_process_has_bound_are_not_rolled_back() -> None:
    """It does not know for how long they have run as part of a whole gang."""
    found = [member(1).on("n1"), member(2)]
    cluster = Cluster(node("n1"), node("n2").cordoned(), gang("g").min(2), *found, rollback=True)
    cluster.pass_time(60)
    assert names(cluster, Remove) == set()


def test_bindings_that_are_refused_again_and_again_end_in_a_rollback() -> None:
    """There is a place as far as is known here, and yet the member is not bound: three times is enough."""
    cluster = refusing(rollback=True)
    cluster.pass_time(20)
    assert len([a for a in cluster.log if isinstance(a, Bind) and a.pod.name == "m2"]) == 3
    assert names(cluster, Remove) == {"m1"}


def test_rollbacks_end() -> None:
    """A member that can never be bound does not cost the others their place for ever."""
    cluster = refusing(rollback=True)
    for n in range(6):
        cluster.pass_time(120)
        if cluster.pod("m1").deleting_since is not None:
            cluster.leave()
            cluster.show(member(1, f"again-{n}"))
    assert len([a for a in cluster.log if isinstance(a, Remove)]) == 3
    assert cluster.pod("m1").node


def marking() -> Cluster:
    """A gang that is bound in part and whose members are being marked; the answers are on their way."""
    cluster = refusing(rollback=True)
    cluster.run()
    cluster.judge = lambda _: None
    cluster.slow = lambda w: isinstance(w, Mark)
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    assert cluster.core.states() == {G: "Marking"}
    return cluster


def test_room_that_turns_up_while_members_are_marked_saves_them() -> None:
    """Nobody is removed any more, and the marks are taken back."""
    cluster = marking()
    cluster.show(node("n3"))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert names(cluster, Unmark) == {"m1"}
    assert nodes_of(cluster.log)["m2"] == "n3"


def test_a_minimum_that_is_lowered_meanwhile_saves_them_too() -> None:
    """The gang is whole as it is."""
    cluster = refusing(rollback=True)
    cluster.run()
    cluster.slow = lambda w: isinstance(w, Mark)
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    cluster.show(gang("g").min(1))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert names(cluster, Unmark) == {"m1"}


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [(Mark, Outcome.REFUSED), (Mark, Outcome.TRANSIENT), (Remove, Outcome.REFUSED), (Remove, Outcome.BLOCKED)],
)
def test_a_rollback_that_fails_is_taken_back_and_tried_again(kind: type[Write], outcome: Outcome) -> None:
    """No mark stays on a member that stays."""
    failed: list[Write] = []

    def judge(write: Write) -> tuple[Outcome, str] | None:
        if not failed and refuse_m2(write):
            return refuse_m2(write)
        if isinstance(write, kind) and not failed:
            failed.append(write)
            return outcome, "because"
        return None

    cluster = refusing(rollback=True)
    cluster.judge = judge
    cluster.run()
    cluster.show(node("n2").cordoned())
    cluster.pass_time(1.5)
    found = cluster.pod("m1")
    assert found.deleting_since is None
    assert found.disruption is None or found.disruption.status == "False"
    cluster.pass_time(30)
    assert cluster.pod("m1").deleting_since is not None


def test_a_removal_that_fails_for_a_while_is_repeated() -> None:
    """The list is finished, however often the server is away."""
    left = [0] * 5

    def judge(write: Write) -> tuple[Outcome, str] | None:
        if isinstance(write, Remove) and left:
            left.pop()
            return Outcome.TRANSIENT, "because"
        return refuse_m2(write)

    cluster = refusing(rollback=True)
    cluster.judge = judge
    cluster.run()
    cluster.show(node("n2").cordoned())
    cluster.pass_time(20)
    assert cluster.pod("m1").deleting_since is not None
    assert left == []


def test_a_restart_takes_the_marks_of_a_rollback_back() -> None:
    """The new process does not know why they should leave: they stay, and the gang waits."""
    cluster = refusing(rollback=True)
    cluster.run()
    cluster.slow = lambda w: isinstance(w, Remove)
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    assert cluster.core.states() == {G: "Removing"}
    cluster.restart(rollback=True)
    go_on(cluster)
    assert names(cluster, Unmark) == {"m1"}
    assert cluster.pod("m1").deleting_since is None


@pytest.mark.parametrize("kind", ["ReplicaSet", "JAXJob", "TFJob", "XGBoostJob"])
def test_only_a_job_of_kubernetes_is_asked_whether_it_would_end(kind: str) -> None:
    """What plans warn of for owners of other kinds keeps no gang bound in part."""
    cluster = half(change=lambda p: p.owner(kind, "train"), rollback=True)
    assert names(cluster, Remove) == {"m1"}


@pytest.mark.parametrize(("limit", "removed"), [(6, {"m1"}), (0, set())])
def test_a_job_that_would_end_keeps_its_pods(limit: int, removed: set[str]) -> None:
    """It counts deleted pods as failed: beyond its backoffLimit a rollback would be the end of it."""
    owner = Job("d", "j", "uid-Job-j", backoff_limit=limit)
    cluster = half(owner, change=lambda p: p.owner("Job", "j"), rollback=True)
    assert names(cluster, Remove) == removed


def test_a_job_that_would_end_by_the_time_its_pods_are_marked_keeps_them() -> None:
    """It has lost another pod meanwhile, and survives no more than that."""
    owner = Job("d", "j", "uid-Job-j", backoff_limit=1)
    cluster = Cluster(
        node("n1"), node("n2"), gang("g").min(2), member(1).owner("Job", "j"), member(2), owner, rollback=True
    )
    cluster.judge = refuse_m2
    cluster.run()
    cluster.slow = lambda w: isinstance(w, Mark)
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    assert cluster.core.states() == {G: "Marking"}
    cluster.show(msgspec.structs.replace(owner, failed=1))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert names(cluster, Unmark) == {"m1"}


def test_budgets_that_may_not_be_broken_are_asked() -> None:
    """In strict mode the members leave through evictions."""
    cluster = half(pdb("b").allows(1), rollback=True, strict_budgets=True)
    assert [a.evict for a in cluster.log if isinstance(a, Remove)] == [True]


@pytest.mark.parametrize(
    "passes",
    [{"failed_plugin": "Strict"}, {"retry_at": 60.0}, {"behind": True}, {"short_of_quota": True}],
    ids=lambda fields: next(iter(fields)),
)
def test_what_passes_is_not_hopeless(passes: dict[str, Any]) -> None:
    """A place may turn up without anybody leaving; so it may when a pause is over."""
    group = Group((GangId(SINGLE, "d", "g", "s"),))
    found = Verdict((decided(UNSCHEDULABLE, group.gangs[0]),))
    assert hopeless(found)
    assert not hopeless(found.but(**passes))


@pytest.mark.parametrize("delay", [0.0, REFUSED_PAUSE_SECONDS + 60])
def test_a_gang_that_will_evict_later_is_not_rolled_back(delay: float) -> None:
    """Its place is taken by a pod that may leave for it, once its preemption delay is over, and the pause after a
    refused binding.
    """
    cluster = refusing(rollback=True, preemption_delay_seconds=delay)
    cluster.show(member(1).priority(10), member(2).priority(10))
    cluster.run()
    cluster.judge = lambda _: None
    cluster.show(pod("low").cpu(3).priority(0).on("n2"))
    cluster.pass_time(5)
    assert names(cluster, Remove) == set()
    cluster.pass_time(max(delay, REFUSED_PAUSE_SECONDS))
    assert names(cluster, Remove) == {"low"}


def test_a_plugin_that_fails_removes_nobody() -> None:
    """Nothing is known about a place for the other member until it works again."""
    strict = Strict()
    members = [member(i).scheduler(OTHER) for i in (1, 2)]
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *members, rollback=True, **with_filter(strict))
    cluster.judge = refuse_m2
    cluster.run()
    cluster.judge = lambda _: None
    strict.wrong = "mask"
    cluster.pass_time(2)
    assert texts(cluster.log, "m2")[-1][0] == "SchedulerError"
    assert names(cluster, Remove) == set()


def test_a_victim_that_turns_up_while_members_are_marked_saves_them() -> None:
    """The gang may evict it instead, if not at once after a refused binding."""
    cluster = marking()
    cluster.show(node("n3"), pod("low").cpu(3).priority(-1).on("n3"))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    cluster.pass_time(REFUSED_PAUSE_SECONDS)
    assert names(cluster, Remove) == {"low"}


def test_a_refused_binding_counts_although_another_one_is_repeated() -> None:
    """The repeated one succeeds, and the gang is as much in part as it was."""
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    cluster = Cluster(*nodes, gang("g").min(3), *map(member, (1, 2, 3)), rollback=True)
    timeouts = [(Outcome.TRANSIENT, "timeout")]

    def judge(write: Write) -> tuple[Outcome, str] | None:
        again = isinstance(write, Bind) and write.pod.name == "m3" and bool(timeouts)
        return timeouts.pop() if again else refuse_m2(write)

    cluster.judge = judge
    cluster.pass_time(1.5)
    assert {p.name for p in cluster.pods.values() if p.node} == {"m1", "m3"}
    assert cluster.core.states() == {G: "Backoff"}
    assert texts(cluster.log, "m2")[-1][1].startswith("Binding: refused: because")
    cluster.show(node("n2").cordoned())
    cluster.pass_time(10)
    assert names(cluster, Remove) == {"m1", "m3"}
