"""Patience: victims that have not run long enough are spared, and gangs wait before they evict."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core import events as ev
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, Decision
from gangsched.core.preemption.eligible import MANY_YOUNG
from gangsched.model.records import Condition, PriorityClass
from tests.builders import UPSTREAM, PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, placed, plan, victims, writes

WAITS = 600.0


def cls(name: str, run: float | None = None, delay: float | None = None) -> ev.Changed:
    """A PriorityClass with these annotations."""
    return ev.Changed(
        PriorityClass(name, minimum_run_time_seconds=run, preemption_delay_seconds=delay),
    )


def of(made: PodBuilder, name: str) -> PodBuilder:
    """The pod is of this class."""
    return made.field(priority_class=name)


def low(name: str, where: str, started: float) -> PodBuilder:
    """A pod of priority 1 that fills a node."""
    return pod(name).cpu(4).priority(1).on(where, started)


def high(name: str = "new") -> PodBuilder:
    """A pod of priority 9 that needs a whole node."""
    return pod(name).cpu(4).priority(9)


def decided(*objects: Built, now: float, name: str = "d/new", **options: Any) -> Decision:
    """What is decided about one gang."""
    return plan(*objects, now=now, **options)[name]


def why_spared(decision: Decision) -> dict[str, str]:
    """Reasons by unit."""
    return {s.unit.name: s.reason for s in decision.spared}


# -- victims -----------------------------------------------------------------------------------------------------


def test_it_is_off_by_default() -> None:
    """A pod that began this very moment is a victim like any other."""
    assert victims(decided(node("n1"), low("a", "n1", 100), high(), now=100)) == ["a"]


@pytest.mark.parametrize(("now", "expected"), [(699.0, []), (700.0, ["a"])])
def test_a_pod_is_spared_until_it_has_run_long_enough(now: float, expected: list[str]) -> None:
    """The moment at which the minimum is over is the first one at which it may be evicted."""
    found = decided(node("n1"), low("a", "n1", 100), high(), now=now, minimum_run_time_seconds=WAITS)
    assert victims(found) == expected
    if not expected:
        assert why_spared(found) == {
            "d/a": "it has not run for its minimum of 10m yet; it may be evicted from 1970-01-01T00:11:40Z"
        }
        assert "1 unit of lower priority has not run for the minimum time yet" in found.message
        assert "from 1970-01-01T00:11:40Z" in found.message


def test_the_older_pod_goes_although_it_has_lost_more_work() -> None:
    """Who has not run long enough is no candidate, however little work would be lost."""
    objects = (node("n1"), node("n2"), low("old", "n1", 0), low("young", "n2", 900), high())
    assert victims(decided(*objects, now=1000)) == ["young"]
    found = decided(*objects, now=1000, minimum_run_time_seconds=WAITS)
    assert victims(found) == ["old"]
    assert "d/young" in why_spared(found)


@pytest.mark.parametrize(
    ("name", "configured", "expected"),
    [("patient", 0.0, []), ("quick", WAITS, ["a"]), ("silent", WAITS, []), ("gone", WAITS, []), ("", WAITS, [])],
)
def test_the_class_of_the_victim_goes_over_the_configuration(name: str, configured: float, expected: list[str]) -> None:
    """An annotation counts, zero too; without one, without the class or without any, the configuration does."""
    classes = (cls("patient", run=WAITS), cls("quick", run=0.0), cls("silent"))
    found = decided(
        *classes, node("n1"), of(low("a", "n1", 100), name), high(), now=200, minimum_run_time_seconds=configured
    )
    assert victims(found) == expected


def test_a_class_that_is_gone_counts_no_more() -> None:
    """What a deleted PriorityClass said is forgotten."""
    objects = (cls("c", run=WAITS), node("n1"), of(low("a", "n1", 100), "c"), high())
    assert victims(decided(*objects, now=200)) == []
    assert victims(decided(*objects, ev.Gone("PriorityClass", "", "c"), now=200)) == ["a"]


def test_a_pod_that_has_not_started_runs_since_it_was_bound() -> None:
    """It waited for long before it was bound: that is no run time."""
    bound = low("a", "n1", 0).phase("Pending").field(scheduled_condition=Condition("True", since=900.0))
    found = decided(node("n1"), bound, high(), now=1000, minimum_run_time_seconds=WAITS)
    assert "1970-01-01T00:25:00Z" in why_spared(found)["d/a"]


def running(*started: float, family: str = UPSTREAM) -> list[Built]:
    """A gang of as many members as there are times, each on a node of its own."""
    made: list[Built] = []
    for i, at in enumerate(started):
        name = f"g{i}"
        made += [node(f"n{i}"), low(name, f"n{i}", at).gang("g", family)]
    return made


def test_a_whole_waits_for_its_youngest_member() -> None:
    """One member that began late keeps all others, and the reason names it."""
    objects = [gang("g").family(UPSTREAM).min(2).mode("gang"), *running(0, 900), high()]
    found = decided(*objects, now=1000, minimum_run_time_seconds=WAITS)
    assert found.outcome == UNSCHEDULABLE
    reason = why_spared(found)["d/g"]
    assert "its member d/g1 has not run for its minimum of 10m yet" in reason
    assert "1970-01-01T00:25:00Z" in reason
    assert sorted(victims(decided(*objects, now=1500, minimum_run_time_seconds=WAITS))) == ["g0", "g1"]


def test_members_beyond_the_minimum_count_each_for_itself() -> None:
    """A surplus member that has run long enough goes, the young one does not."""
    objects = [gang("g").family(UPSTREAM).min(1).field(disruption=None), *running(0, 900), high()]
    assert victims(decided(*objects, now=1000, minimum_run_time_seconds=WAITS)) == ["g0"]
    young = [gang("g").family(UPSTREAM).min(1).field(disruption=None), *running(800, 900), high()]
    assert victims(decided(*young, now=1000, minimum_run_time_seconds=WAITS)) == []


@pytest.mark.parametrize("mode", ["off", "minimal"])
def test_pods_taken_one_by_one_count_each_for_itself(mode: str) -> None:
    """Where gangs are broken up freely, only the member itself must have run long enough."""
    objects = [gang("g").family(UPSTREAM).min(2).field(disruption=None), *running(900, 0), high()]
    assert victims(decided(*objects, now=1000, minimum_run_time_seconds=WAITS, gang_mode=mode)) == ["g1"]


def test_the_class_of_a_group_speaks_for_its_members() -> None:
    """A group with a PriorityClass of its own: the members' classes do not count."""
    group = gang("g").family(UPSTREAM).min(1).mode("gang").field(priority_class="patient", priority=1)
    member = of(low("g0", "n0", 900).gang("g", UPSTREAM), "quick")
    objects = (cls("patient", run=WAITS), cls("quick", run=0.0), node("n0"), group, member, high())
    assert victims(decided(*objects, now=1000)) == []


def test_a_protected_member_is_the_reason_that_is_told() -> None:
    """A unit that may never be evicted does not become eligible by waiting."""
    member = low("g1", "n1", 900).gang("g", UPSTREAM).static()
    group = gang("g").family(UPSTREAM).min(2).mode("gang")
    objects = (group, node("n0"), low("g0", "n0", 0).gang("g", UPSTREAM), node("n1"), member, high())
    found = decided(*objects, now=1000, minimum_run_time_seconds=WAITS)
    assert why_spared(found)["d/g"] == "it has a member that may not be evicted"
    assert "not run for the minimum" not in found.message


def test_a_great_many_pods_are_spared_like_few() -> None:
    """Of more than a thousand the young ones stay as of ten, and only some are listed."""
    count = 12 * MANY_YOUNG
    pods = [pod(f"p{i:04}").cpu(0.001).priority(1).on("n1", 900 if i % 2 else 0) for i in range(count)]
    found = decided(
        node("n1").cpu(count / 1000).pods(2 * count),
        *pods,
        pod("new").cpu(0.002).priority(9),
        now=1000,
        minimum_run_time_seconds=WAITS,
    )
    assert len(found.victims) == 2
    assert all(int(name[1:]) % 2 == 0 for name in victims(found))
    young = [s for s in found.spared if "not run for its minimum" in s.reason]
    assert len(young) == MANY_YOUNG
    assert (
        str(count // 2)
        in decided(
            node("n1").cpu(count / 1000).pods(2 * count),
            *pods,
            pod("new").cpu(count / 1000).priority(9),
            now=1000,
            minimum_run_time_seconds=WAITS,
        ).message
    )


def test_the_gang_is_woken_when_a_victim_has_run_long_enough() -> None:
    """Nothing happens in the cluster: time alone makes the victim eligible, and the gang is decided then."""
    run = Cluster(node("n1"), low("a", "n1", 0), high(), minimum_run_time_seconds=60.0)
    run.run()
    assert writes(run.log) == []
    assert run.core.wake_at() == 60.0
    run.now = 60.0
    run.run()
    assert ("Remove", "a") in writes(run.log)


def test_it_is_woken_for_the_first_victim_of_several() -> None:
    """Several will become eligible: the first moment counts, the others are looked at after that."""
    run = Cluster(node("n1"), node("n2"), low("b", "n2", 40), low("a", "n1", 20), high(), minimum_run_time_seconds=60.0)
    run.now = 40.0
    run.run()
    assert run.core.wake_at() == 80.0


def test_a_changed_class_is_noticed_at_once() -> None:
    """The minimum is taken away: a parked gang is decided again without waiting for the old moment."""
    run = Cluster(cls("c", run=WAITS), node("n1"), of(low("a", "n1", 0), "c"), high())
    run.run()
    run.now = 20.0
    run.show(cls("c"))
    run.run()
    assert ("Remove", "a") in writes(run.log)


# -- preemptors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "outcome"), [(129.0, UNSCHEDULABLE), (130.0, PREEMPT)])
def test_plan_counts_the_delay_from_the_creation_of_the_gang(now: float, outcome: str) -> None:
    """Before the delay is over the plan evicts nobody and says until when."""
    found = decided(node("n1"), low("a", "n1", 0), high().created(100), now=now, preemption_delay_seconds=30.0)
    assert found.outcome == outcome
    if outcome == UNSCHEDULABLE:
        assert "waits 30s for room before it evicts (preemption delay), until 1970-01-01T00:02:10Z" in found.message


def test_the_oldest_pending_member_counts() -> None:
    """A member that came later does not make the gang wait longer."""
    members = [high(f"m{i}").gang("g").created(100 + 50 * i) for i in range(2)]
    objects: tuple[Built, ...] = (node("n1"), node("n2"), low("a", "n1", 0), gang("g").min(2), *members)
    assert decided(*objects, now=130, name="d/g", preemption_delay_seconds=30.0).outcome == PREEMPT


def test_a_gang_that_fits_does_not_wait() -> None:
    """The delay is for evictions only."""
    found = decided(node("n1"), high(), now=0, preemption_delay_seconds=30.0)
    assert (found.outcome, placed(found)) == (BIND, {"new": "n1"})


@pytest.mark.parametrize(
    ("name", "hints", "configured", "outcome"),
    [
        ("patient", {}, 0.0, UNSCHEDULABLE),
        ("quick", {}, 30.0, PREEMPT),
        ("silent", {}, 30.0, UNSCHEDULABLE),
        ("silent", {}, 0.0, PREEMPT),
        ("quick", {"kai.scheduler/preemption-delay": "1m"}, 0.0, UNSCHEDULABLE),
        ("patient", {"kai.scheduler/preemption-delay": "0s"}, 30.0, PREEMPT),
        ("patient", {"kai.scheduler/preemption-delay": "soon"}, 0.0, UNSCHEDULABLE),
    ],
)
def test_who_says_how_long_a_gang_waits(name: str, hints: dict[str, str], configured: float, outcome: str) -> None:
    """KAI's annotation of a member, then that of its PriorityClass, then the configuration."""
    made = of(high(), name)
    for key, value in hints.items():
        made.hint(key, value)
    classes = (cls("patient", delay=30.0), cls("quick", delay=0.0), cls("silent"))
    found = decided(*classes, node("n1"), low("a", "n1", 0), made, now=1, preemption_delay_seconds=configured)
    assert found.outcome == outcome


def test_the_most_patient_member_counts() -> None:
    """Members of different classes: the gang waits as long as any of them asks for."""
    members = [of(high(f"m{i}").gang("g"), name) for i, name in enumerate(("quick", "patient"))]
    objects = (cls("patient", delay=30.0), cls("quick", delay=0.0), node("n1"), node("n2"), low("a", "n1", 0))
    assert decided(*objects, gang("g").min(2), *members, now=29, name="d/g").outcome == UNSCHEDULABLE
    assert decided(*objects, gang("g").min(2), *members, now=30, name="d/g").outcome == PREEMPT


def test_a_delayed_gang_is_woken_when_its_time_has_come() -> None:
    """The wait is counted from the first decision without room, whenever the pod was created."""
    run = Cluster(node("n1"), low("a", "n1", 0), high().created(-1000), preemption_delay_seconds=30.0)
    run.now = 5.0
    run.run()
    assert writes(run.log) == []
    assert run.core.wake_at() == 35.0
    run.now = 35.0
    run.run()
    assert ("Remove", "a") in writes(run.log)


def test_a_node_that_comes_in_time_saves_the_victim() -> None:
    """What the delay is for: an autoscaler brings a node, and the gang starts there at once."""
    run = Cluster(node("n1"), low("a", "n1", 0), high(), preemption_delay_seconds=300.0)
    run.run()
    run.now = 20.0
    run.show(node("n2"))
    run.run()
    assert writes(run.log) == [("Bind", "new")]


def test_decisions_in_between_do_not_start_the_wait_again() -> None:
    """Something that might have helped did not: the delay still ends when it would have."""
    run = Cluster(node("n1"), low("a", "n1", 0), high(), preemption_delay_seconds=30.0)
    run.run()
    run.now = 15.0
    run.show(node("n2").cpu(1))
    run.run()
    assert run.core.wake_at() == 30.0


def test_both_waits_add_up() -> None:
    """The delay is over and the victim is still too young: the gang goes on waiting, for the victim."""
    run = Cluster(node("n1"), low("a", "n1", 0), high(), preemption_delay_seconds=30.0, minimum_run_time_seconds=60.0)
    run.run()
    assert run.core.wake_at() == 30.0
    run.now = 30.0
    run.run()
    assert run.core.wake_at() == 60.0
