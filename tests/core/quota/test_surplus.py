"""Elastic gangs whose quota is taken: what they can do without leaves one by one, the rest only if it must."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.decision import Decision, UnitRef
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import Job, QueueLabels
from tests.builders import gang, pdb, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, victims
from tests.core.queues import big, objects, queued
from tests.core.quota.world import queue


def lent(nominal: int, *, own: int = 2, **policy: Any) -> list[Built]:
    """Queue a owns so much of what b has borrowed."""
    return [big(), *objects(queue("a", "co", cpu=nominal, reclaim="Any", **policy), queue("b", "co", cpu=own))]


def app(name: str, size: int, minimum: int, **fields: Any) -> list[Built]:
    """A running gang of b with so many members, of which it needs some."""
    members = [queued(f"{name}{i}", "b", 1, **fields).gang(name).on("n1", started=float(i)) for i in range(size)]
    return [gang(name).min(minimum), *members]


def names(found: Decision) -> list[str]:
    """The victims."""
    return [v.name for v in found.victims]


@pytest.mark.parametrize(("asked", "leaves"), [(1, 1), (2, 2), (3, 3), (4, 5)])
def test_surplus_leaves_one_by_one_and_then_the_whole(asked: int, leaves: int):
    """As many members leave as are asked back, and all of them where the gang cannot do without one more."""
    found = plan(*lent(4, own=1), *app("m", 5, 2), queued("x", "a", asked))["d/x"]
    assert (found.outcome, len(found.victims)) == ("preempt", leaves)
    assert {v.partial for v in found.victims} == {leaves < 5}
    assert {(v.unit, v.reason) for v in found.victims} == {(UnitRef("PodGroup", "d/m"), "InCohortReclamation")}


def test_what_is_said_of_a_surplus_member():
    """The text says why quota takes it, and that its gang goes on."""
    found = plan(*lent(1), *app("m", 3, 1), queued("x", "a", 1))["d/x"]
    said = "reclamation within the cohort; other members of PodGroup d/m keep running"
    assert [v.why for v in found.victims] == [said]
    assert found.quota is not None
    assert found.quota.borrowed == ()


def test_the_order_of_the_queue_rules_stands():
    """The first in the order leaves as a whole before the second loses a surplus member."""
    first, second = app("k", 2, 1, priority=1), app("m", 2, 1, priority=2)
    found = plan(*lent(3, own=1), *first, *second, queued("x", "a", 3))["d/x"]
    assert (names(found)[:2], len(found.victims)) == (["k0", "k1"], 3)
    assert {v.partial for v in found.victims if v.unit.name == "d/m"} == {True}


def test_the_rest_is_put_back_where_another_makes_up_for_it():
    """A gang that was taken whole keeps what it needs when a later victim turns out to be large enough."""
    large = queued("z", "b", 3, priority=5).on("n1")
    found = plan(*lent(4, own=1), *app("k", 2, 1, priority=1), large, queued("x", "a", 4))["d/x"]
    assert (names(found), {v.partial for v in found.victims if v.unit.name == "d/k"}) == (["k0", "z"], {True})


@pytest.mark.parametrize("mode", ["atomic", "minimal"])
def test_gangs_that_are_not_taken_apart_leave_whole(mode: str):
    """Only where the mode of a gang is elastic does quota take some of its members."""
    found = plan(*lent(4, own=1), *app("m", 5, 2), queued("x", "a", 1), gang_mode=mode)["d/x"]
    assert len(found.victims) == 5


def test_groups_of_kueue_leave_whole():
    """Pods that Kueue's own labels make a group leave as with Kueue."""
    family = "kueue.x-k8s.io"
    members = [queued(f"m{i}", "b", 1).gang("m", family).on("n1") for i in range(4)]
    found = plan(*lent(3, own=1), gang("m").family(family).min(1), *members, queued("x", "a", 1))["d/x"]
    assert len(found.victims) == 4


def test_a_protected_member_keeps_the_rest_and_not_the_surplus():
    """Where all of a gang may not leave, what it can do without still may."""
    members = app("m", 3, 1)
    members[1] = queued("m0", "b", 1).gang("m").on("n1").static()
    found = plan(*lent(3, own=0), *members, queued("x", "a", 2), queued("y", "a", 3))
    assert names(found["d/x"]) == ["m1", "m2"]
    assert found["d/y"].outcome == "unschedulable"


def test_budgets_count_among_surplus_members():
    """Members whose budget allows nothing stay where others of the gang will do."""
    members = app("m", 4, 1)
    members[1] = queued("m0", "b", 1).gang("m").on("n1").labels({QUEUE_LABEL: "q-b", "keep": "me"})
    found = plan(*lent(2), *members, pdb("keep").selects(keep="me").allows(0), queued("x", "a", 2))["d/x"]
    assert "m0" not in names(found)
    assert len(found.victims) == 2


@pytest.mark.parametrize(("limit", "leaves"), [(6, 1), (0, 4)])
def test_a_job_that_would_end_leaves_whole(limit: int, leaves: int):
    """A member is surplus only if its Job survives that."""
    members = [pod(f"m{i}").cpu(1).gang("m").owner("Job", "m").on("n1") for i in range(4)]
    job = Job(
        "d",
        "m",
        "uid-Job-m",
        parallelism=4,
        completions=4,
        backoff_limit=limit,
        template=members[0].obj(),
        version="1",
        queue=QueueLabels("q-b", ""),
    )
    found = plan(*lent(3, own=1), gang("m").min(1), job, *members, queued("x", "a", 1))["d/x"]
    assert len(found.victims) == leaves


def test_what_leaves_already_is_counted_once():
    """Quota that a leaving member of a gang gives back is not asked of another member."""
    cluster = Cluster(*lent(3, own=3), *app("m", 6, 1))
    cluster.show(queued("x", "a", 1))
    cluster.run()
    cluster.show(queued("y", "a", 1))
    cluster.run()
    assert [len(victims(d)) for d in cluster.decisions if d.outcome == "preempt"] == [1, 1]
    cluster.leave()
    assert sorted(nodes_of(cluster.run())) == ["x", "y"]
    assert sum(p.gang.name == "m" for p in cluster.pods.values()) == 4


def test_a_terminating_member_is_awaited():
    """Who leaves anyway gives its quota back first: nobody else of its gang is evicted."""
    members = app("m", 4, 1)
    members[2] = queued("m1", "b", 1).gang("m").on("n1").terminating(30)
    found = plan(*lent(2), *members, queued("x", "a", 1))["d/x"]
    assert (found.outcome, [a.pod for a in found.awaiting], found.victims) == ("wait", ["d/m1"], ())


def test_the_gang_of_a_surplus_victim_keeps_its_quota():
    """Others see that the gang still holds what its other members use."""
    cluster = Cluster(*lent(1), *app("m", 3, 1), queued("x", "a", 1))
    cluster.run()
    cluster.pass_time(5)
    cluster.leave()
    cluster.run()
    managed = cluster.core.world.managed
    managed.update_holdings()
    assert sorted(dict(a.usage)["default", "cpu"] for a in managed.quota.admissions.values()) == [1000, 2000]


@pytest.mark.parametrize("fair", [True, False])
def test_fair_sharing_takes_surplus_too(fair: bool):
    """Whichever rules say who gives way, a gang gives way only as far as it has to."""
    found = plan(*lent(2), *app("m", 4, 1), queued("x", "a", 2), fair_sharing=fair)["d/x"]
    assert len(found.victims) == 2


def test_a_gang_with_many_surplus_members_is_no_long_search():
    """All surplus is taken in one step, and what is not needed is put back."""
    records = objects(queue("a", "co", cpu=2000, reclaim="Any"), queue("b", "co", cpu=0))
    members = app("m", 1500, 1)
    there = big(cpu=3000).pods(5000)
    found = plan(there, *records, *members, queued("x", "a", 700), search_steps=3000)["d/x"]
    assert (found.outcome, len(found.victims)) == ("preempt", 200)
