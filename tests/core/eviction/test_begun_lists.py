"""A list of which somebody has been removed is removed to its end, whoever has been told what, before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Mark, Remove, SuspendJob, Unmark
from gangsched.core.events import Outcome, WriteDone
from gangsched.model.records import Job
from tests.builders import PodBuilder, gang, node, pdb, pod
from tests.core.eviction.recalls import two_gangs
from tests.core.harness import Built, Cluster
from tests.core.stories import evicted, go_on, member, names


def held_back(*objects: Built, **options: Any) -> Cluster:
    """Gang g of two needs two nodes; the removals of those who run there wait."""
    cluster = Cluster(gang("g").min(2).timeout(60), *(member(n) for n in (1, 2)), *objects, **options)
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    return cluster


def answered(cluster: Cluster, name: str, outcome: Outcome) -> None:
    """The removal of the pod is answered so, whatever has become of it."""
    write = next(w for w in cluster.waiting if w.pod.name == name)
    cluster.waiting.remove(write)
    cluster._events.append(WriteDone(write.id, outcome))
    cluster.run()


def killed_before_the_answer(cluster: Cluster) -> None:
    """The kubelet says of a pod that it has killed that it failed."""
    cluster.change("w1", deleting_since=30.0)
    cluster.run()
    cluster.change("w1", phase="Failed")
    cluster.sent = True
    cluster.run()
    answered(cluster, "w1", Outcome.OK)
    cluster.delete("w1")
    cluster.run()
    cluster.sent = False


def gone_after_a_lost_answer(cluster: Cluster) -> None:
    """The attempt after the one that had an effect finds nobody."""
    answered(cluster, "w1", Outcome.TRANSIENT)
    cluster.delete("w1")
    cluster.run()


def at_once(cluster: Cluster) -> None:
    """Without a grace period it is never seen to leave."""
    cluster.delete("w1")
    answered(cluster, "w1", Outcome.OK)


def before_another_process(cluster: Cluster) -> None:
    """It is gone when the process that takes over has seen it leaving."""
    cluster.answer("w1")
    cluster.run()
    cluster.restart()
    cluster.run()
    cluster.leave()
    cluster.run()


def before_another_process_has_begun(cluster: Cluster) -> None:
    """It has never been there for the process that takes over."""
    cluster.answer("w1")
    cluster.run()
    cluster.leave()
    cluster.restart()
    cluster.run()


LEFT: list[Callable[[Cluster], None]] = [
    killed_before_the_answer,
    gone_after_a_lost_answer,
    at_once,
    before_another_process,
    before_another_process_has_begun,
]


@pytest.mark.parametrize("first_leaves", LEFT)
def test_the_other_half_of_a_gang_leaves_too(first_leaves: Callable[[Cluster], None]) -> None:
    """Room for one member turns up, so that w2 could stay: but its gang is of no use without w1."""
    cluster = two_gangs()
    first_leaves(cluster)
    cluster.show(node("n3"))
    cluster.run()
    go_on(cluster)
    assert "w2" in evicted(cluster)


def test_the_other_gang_of_a_group_leaves_too_after_a_restart() -> None:
    """Both gangs of a GangGroup leave as one unit."""
    keys = ("d/a", "d/b")
    gangs = [gang(name).group(*keys).min(1) for name in ("a", "b")]
    members = [pod(f"{name}{n}").cpu(3).priority(1).gang(name).on(f"n{n}") for n, name in ((1, "a"), (2, "b"))]
    cluster = held_back(node("n1"), node("n2"), *gangs, *members)
    cluster.restart()
    cluster.run()
    cluster.answer("a1")
    cluster.run()
    cluster.show(node("n3"))
    cluster.run()
    go_on(cluster)
    assert evicted(cluster) == {"a1", "b2"}


# -- in the same way, after a restart ------------------------------------------------------------------------------


def owned(name: str, n: int, priority: int = 1) -> PodBuilder:
    """A pod of Job j that fills a node."""
    return pod(f"{name}{n}").cpu(3).priority(priority).owner("Job", "j").on(f"n{n}")


def job(pods: int, **fields: Any) -> Job:
    """Job j."""
    template = msgspec.structs.replace(pod("t").cpu(3).obj(), uid="")
    return Job("d", "j", "uid-Job-j", parallelism=pods, completions=pods, template=template, version="1", **fields)


def members_beyond_the_minimum() -> Cluster:
    """Of a GangGroup of two gangs that live with one member each; the Job of all survives it."""
    keys = ("d/a", "d/b")
    pods = [owned("a", 1).gang("a"), owned("a", 2).gang("a"), owned("a", 3, 2).gang("a"), owned("b", 4, 2).gang("b")]
    gangs = [gang(name).group(*keys).min(1) for name in ("a", "b")]
    return held_back(*(node(f"n{n}") for n in (1, 2, 3, 4)), *gangs, *pods, job(4, backoff_limit=2))


def others_with_a_budget() -> Cluster:
    """The third pod of the Job may not be evicted, and need not be: the Job survives the loss of the others."""
    pods = [owned("a", 1), owned("a", 2), owned("a", 3, 2).label(app="x")]
    budget = pdb("b").selects(app="x").allows(0)
    nodes = [node(f"n{n}") for n in (1, 2, 3)]
    return held_back(*nodes, *pods, budget, job(3, backoff_limit=2), strict_budgets=True)


def a_job_that_has_counted() -> Cluster:
    """It survives the loss of two, and has counted the first by the time of the restart."""
    pods = [owned("a", 1), owned("a", 2), owned("a", 3, 2)]
    return held_back(*(node(f"n{n}") for n in (1, 2, 3)), *pods, job(3, backoff_limit=2))


@pytest.mark.parametrize("begun", [members_beyond_the_minimum, others_with_a_budget, a_job_that_has_counted])
def test_pods_of_a_job_that_were_deleted_singly_go_on_to_be(begun: Callable[[], Cluster]) -> None:
    """Another process comes in between; it lets nobody off, suspends no Job and takes nobody else."""
    cluster = begun()
    assert names(cluster, Remove) == {"a1", "a2"}
    cluster.answer("a1")
    cluster.run()
    known = cluster.jobs["d", "j"]
    cluster.show(msgspec.structs.replace(known, failed=1))
    cluster.run()
    before = len(cluster.log)
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) == {"a1", "a2"}
    since = cluster.log[before:]
    assert [type(a).__name__ for a in since if isinstance(a, Mark | Unmark | SuspendJob)] == []


@pytest.mark.parametrize("elsewhere", ["another victim has used the budget", "others delete a pod of the Job"])
def test_a_job_that_was_to_be_suspended_still_is(elsewhere: str) -> None:
    """Another process comes in between. The Job would not survive what has to leave; all its pods are on the list."""
    budgets = elsewhere == "another victim has used the budget"
    train = [pod(f"t{i}").cpu(1).owner("Job", "j").label(app="x").on("n1") for i in range(4)]
    cluster = Cluster(
        node("n1").cpu(4),
        node("n2").cpu(4),
        job(4, backoff_limit=0 if budgets else 1),
        *train,
        pod("alone").cpu(4).priority(1).label(app="x").on("n2"),
        gang("vip").min(2).timeout(60),
        *(pod(f"m{i}").cpu(4).priority(10).gang("vip") for i in range(2)),
        pdb("b").selects(app="x").allows(5),
        strict_budgets=True,
    )
    cluster.slow = lambda write: isinstance(write, Remove | SuspendJob)
    cluster.run()
    assert {w.pod.name for w in cluster.waiting} == {"j", "alone"}
    if budgets:
        cluster.answer("alone")
        cluster.show(pdb("b").selects(app="x").allows(4))
    else:
        cluster.change("t0", deleting_since=cluster.now + 30)
    cluster.run()
    cluster.restart(strict_budgets=True)
    cluster.slow = lambda _: False
    cluster.run()
    assert cluster.jobs["d", "j"].suspended
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == {"alone"}


# -- though nobody needs the room any more --------------------------------------------------------------------------


def half_gone() -> Cluster:
    """w1 and w2 leave as a whole for gang g; w1 has been removed, and the removal of w2 waits."""
    cluster = two_gangs()
    cluster.answer("w1")
    cluster.run()
    assert evicted(cluster) == {"w1"}
    return cluster


def test_a_gang_that_goes_on_without_its_lost_member_is_let_off() -> None:
    """Somebody has deleted one that was on the list, and it does not need that one."""
    cluster = two_gangs()
    cluster.show(gang("low").min(1).priority(1))
    for name in ("w1", "m1", "m2"):
        cluster.delete(name)
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert names(cluster, Unmark) == set()
    cluster.pass_time(31)
    assert evicted(cluster) == set()
    assert names(cluster, Unmark) == {"w2"}


def test_only_what_leaves_as_a_whole_is_finished() -> None:
    """Members beyond the minimum leave singly: who has not left when nobody needs the room stays."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        node("n3"),
        gang("low").min(1).priority(1),
        gang("g").min(2).timeout(60),
        *(pod(f"w{i}").cpu(3).priority(1).gang("low").on(f"n{i}") for i in (1, 2, 3)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    first, second = sorted(write.pod.name for write in cluster.waiting)
    cluster.answer(first)
    cluster.run()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) == {first}
    assert names(cluster, Unmark) == {second}


def answered_to_nobody(outcome: Outcome) -> Cluster:
    """One of two has left, the preemptor is gone, and the other's removal is answered so."""
    cluster = half_gone()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.sent = True
    cluster.run()
    cluster.slow = lambda _: False
    answered(cluster, "w2", outcome)
    cluster.run()
    return cluster


def test_a_refused_removal_ends_it() -> None:
    """A refusal by the API is the one reason to stop in the middle."""
    cluster = answered_to_nobody(Outcome.REFUSED)
    assert evicted(cluster) == {"w1"}
    assert names(cluster, Unmark) == {"w2"}


# -- what has not begun --------------------------------------------------------------------------------------------


def test_what_is_left_of_a_list_is_spared_when_it_ends_by_itself() -> None:
    """The preemptor is gone, and the removal of the other half waits: an ended pod is not deleted."""
    cluster = half_gone()
    cluster.delete("m1")
    cluster.run()
    assert {write.pod.name for write in cluster.waiting} == {"w2"}
    cluster.log.clear()
    cluster.change("w2", phase="Succeeded")
    cluster.run()


@pytest.mark.parametrize("disruption", ["gang", "pod"])
def test_a_gang_that_leaves_whole_by_now_loses_no_further_member_singly(disruption: str) -> None:
    """Its object is gone when two of three are chosen, and comes back when the first of them has left."""
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    low = [pod(f"w{i}").cpu(3).gang("low").on(f"n{i}") for i in (1, 2, 3)]
    g = [pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)]
    cluster = Cluster(*nodes, *low, gang("g").min(2).timeout(60), *g, gang_mode="off")
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    first, _ = sorted(write.pod.name for write in cluster.waiting)
    cluster.answer(first)
    cluster.run()
    cluster.show(gang("low").min(3).mode(disruption))
    cluster.run()
