"""Victims with long grace periods are removed first, so that all room appears together."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, Mark, Remove, SuspendJob, Unmark
from tests.builders import OTHERS, gang, node, pod
from tests.core.eviction.jobs import job, member
from tests.core.harness import Built, Cluster, nodes_of, reports, texts
from tests.core.stories import names

LONG, SHORT = 40.0, 10.0


def preempting(*more: Built, **options: Any) -> Cluster:
    """A gang of two that needs the nodes of two pods, one of them with a long grace period."""
    objects: list[Built] = [gang("g").min(2).timeout(300)]
    for n, grace in ((1, LONG), (2, SHORT)):
        objects.append(node(f"n{n}").cpu(4))
        objects.append(pod(f"v{n}").cpu(3).priority(1).on(f"n{n}").field(grace_seconds=grace))
        objects.append(pod(f"m{n}").cpu(3).priority(5).gang("g"))
    return Cluster(*objects, *more, **options)


def removed(cluster: Cluster) -> list[str]:
    """The victims in the order of their removals."""
    return [action.pod.name for action in cluster.log if isinstance(action, Remove)]


def test_the_longest_grace_period_comes_first() -> None:
    """The other victim goes so much later that both are gone in the same moment; both are marked before that."""
    cluster = preempting()
    cluster.run()
    assert names(cluster, Mark) == {"v1", "v2"}
    cluster.pass_time(LONG - SHORT - 1)
    assert removed(cluster) == ["v1"]
    cluster.pass_time(1)
    assert removed(cluster) == ["v1", "v2"]
    assert cluster.pod("v1").deleting_since == cluster.pod("v2").deleting_since == LONG
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_victims_that_do_not_go_cost_no_honest_pod() -> None:
    """On each node a pod with a grace period of ten minutes stays for all of it: the honest ones beside them run on."""
    cluster = Cluster(
        *(node(f"n{i}") for i in range(4)),
        *(pod(f"slow{i}").cpu(2).priority(1).on(f"n{i}").field(grace_seconds=600.0) for i in range(4)),
        *(pod(f"honest{i}").cpu(2).priority(1).on(f"n{i}").field(grace_seconds=30.0) for i in range(4)),
        gang("g").min(4).timeout(3600),
        *(pod(f"m{i}").cpu(4).priority(5).gang("g") for i in range(4)),
    )
    cluster.pass_time(240)
    assert sorted(removed(cluster)) == [f"slow{i}" for i in range(4)]


def test_each_victim_is_reported_when_it_is_removed() -> None:
    """Events name those that leave, not those that may yet stay."""
    cluster = preempting()
    cluster.run()
    assert not any("d/v2" in each.note for each in reports(cluster.log, "Preempted"))
    cluster.pass_time(LONG)
    told = [each.note for each in reports(cluster.log, "Preempted") if each.regarding[3] == "m1"]
    assert [note.rpartition(": ")[2] for note in told] == ["d/v1", "d/v2"]


def test_equal_grace_periods_are_removed_at_once() -> None:
    """As long as nothing is to be gained by waiting."""
    cluster = preempting()
    cluster.change("v1", grace_seconds=SHORT)
    cluster.run()
    assert removed(cluster) == ["v1", "v2"]


def test_a_victim_that_ends_early_brings_the_others_forward() -> None:
    """A grace period is only how long it may take at most."""
    cluster = preempting()
    cluster.run()
    cluster.pass_time(5)
    cluster.leave("v1")
    cluster.run()
    assert removed(cluster) == ["v1", "v2"]


def test_a_pod_that_terminates_anyway_is_waited_for() -> None:
    """The plan counts on it: no victim has to leave before that time."""
    cluster = preempting(node("n3").cpu(4), pod("old").cpu(3).on("n3").field(grace_seconds=60.0, deleting_since=60.0))
    cluster.show(gang("g").min(3).timeout(300), pod("m3").cpu(3).priority(5).gang("g"))
    cluster.run()
    assert removed(cluster) == []
    cluster.pass_time(60 - LONG)
    assert removed(cluster) == ["v1"]
    cluster.pass_time(LONG)
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2", "m3"}


def test_victims_stay_whose_turn_has_not_come_when_the_room_is_taken() -> None:
    """Another scheduler takes what has been freed first: the gang pauses, with one victim instead of two."""
    cluster = preempting()
    cluster.run()
    cluster.leave("v1")
    cluster.show(pod("thief").scheduler(OTHERS).cpu(3).priority(9).on("n1"))
    cluster.run()
    cluster.pass_time(LONG)
    assert removed(cluster) == ["v1"]
    assert names(cluster, Unmark) == {"v2"}
    assert any("d/thief" in each.note for each in reports(cluster.log, "FreedRoomTaken"))
    assert any("the gang pauses" in text for _, text in texts(cluster.log, "m1"))


def test_victims_stay_whose_turn_has_not_come_when_the_gang_lacks_nobody_any_more() -> None:
    """Its minimum is lowered to the members that run, after the first victim has been removed."""
    cluster = preempting(pod("m0").cpu(1).priority(5).gang("g").on("n1"))
    cluster.show(gang("g").min(3).timeout(300))
    cluster.run()
    assert removed(cluster) == ["v1"]
    cluster.show(gang("g").min(1).timeout(300))
    cluster.pass_time(LONG)
    assert removed(cluster) == ["v1"]
    assert names(cluster, Unmark) == {"v2"}


@pytest.mark.parametrize("failed", [0, 1])
def test_a_victim_whose_loss_its_job_would_not_survive_any_more_stays(failed: int) -> None:
    """The Job has lost another pod before its turn has come: it would fail, and no plan has said so."""
    cluster = preempting(job(backoff_limit=1))
    cluster.change("v2", owner=member(0).obj().owner)
    cluster.run()
    cluster.show(job(backoff_limit=1, failed=failed))
    cluster.pass_time(LONG - SHORT)
    assert removed(cluster) == (["v1"] if failed else ["v1", "v2"])
    assert names(cluster, Unmark) == ({"v2"} if failed else set())
    assert not any(d.warnings for d in cluster.decisions)


def test_only_pods_that_terminate_are_named_as_such() -> None:
    """When the time of the gang is over, a victim stays whose turn has not come."""
    cluster = preempting()
    cluster.show(gang("g").min(2).timeout(20))
    cluster.pass_time(20.5)
    assert removed(cluster) == ["v1"]
    assert texts(cluster.log, "m1")[-1][1].endswith("still terminating: d/v1")


@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_a_process_that_takes_over_goes_on_in_the_same_order(seconds: float) -> None:
    """When the others have to go is read off the pods that terminate."""
    cluster = preempting()
    cluster.run()
    cluster.pass_time(seconds)
    cluster.restart()
    cluster.run()
    cluster.pass_time(LONG - SHORT - 1 - seconds)
    assert removed(cluster) == ["v1"]
    cluster.pass_time(1)
    assert removed(cluster) == ["v1", "v2"]
    assert cluster.pod("v2").deleting_since == LONG


def test_a_mark_that_others_take_back_meanwhile_is_written_again() -> None:
    """The disruption controller does so after two minutes; no pod is removed without its mark."""
    cluster = preempting()
    cluster.change("v1", grace_seconds=200.0)
    cluster.run()
    cluster.pass_time(125)
    cluster.change("v2", disruption=None)
    cluster.pass_time(75)
    kinds = [type(a).__name__ for a in cluster.log if getattr(getattr(a, "pod", None), "name", "") == "v2"]
    assert kinds[-2:] == ["Mark", "Remove"]


def test_a_gang_leaves_together() -> None:
    """One of its members has a long grace period: what is left of a gang is of no use to anybody."""
    cluster = preempting(gang("low").min(2))
    for n, grace in ((1, LONG), (2, SHORT)):
        cluster.show(pod(f"v{n}").cpu(3).priority(1).gang("low").on(f"n{n}").field(grace_seconds=grace))
    cluster.run()
    assert removed(cluster) == ["v1", "v2"]


def test_a_job_is_suspended_for_all_of_its_pods() -> None:
    """They leave in any case once it is: their longest grace period counts."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        job(parallelism=4, completions=4, backoff_limit=0),
        *(member(i).on("n1").field(grace_seconds=SHORT) for i in range(4)),
        pod("v2").cpu(3).priority(1).on("n2").field(grace_seconds=LONG),
        gang("g").min(2).timeout(300),
        *(pod(f"m{i}").cpu(4).priority(5).gang("g") for i in (1, 2)),
    )
    cluster.run()
    assert removed(cluster) == ["v2"]
    assert not names(cluster, SuspendJob)
    cluster.pass_time(LONG - SHORT)
    assert [a.job.name for a in cluster.log if isinstance(a, SuspendJob)] == ["train"]
    cluster.leave()
    cluster.run()
    assert sum(isinstance(a, Bind) for a in cluster.log) == 2
