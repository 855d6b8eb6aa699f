"""Gangs that are being evicted: their members that wait do not start on their own meanwhile."""

from __future__ import annotations

from gangsched.core.actions import Bind, Mark, Remove, SetCondition, SuspendJob, Unmark
from gangsched.core.events import Outcome
from tests.builders import PodBuilder, gang, node, pod
from tests.core.eviction import jobs
from tests.core.harness import Cluster, nodes_of, texts


def members(*names: str) -> list[PodBuilder]:
    """Members of the gang g."""
    return [pod(name).cpu(2).gang("g") for name in names]


def evicted_for_top(**fields: int) -> Cluster:
    """A gang of two on n1 that needs both, a third member that has no room, and a stronger pod that takes n1."""
    running = [m.on("n1") for m in members("m1", "m2")]
    cluster = Cluster(node("n1").cpu(4), gang("g").min(fields.get("minimum", 2)), *running, *members("m3"))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.show(pod("top").cpu(4).priority(9))
    cluster.run()
    assert {write.pod.name for write in cluster.waiting} == {"m1", "m2"}
    return cluster


def test_a_gang_that_leaves_is_not_healed() -> None:
    """One member is gone, the other about to be: a third that now has room would be alone."""
    cluster = evicted_for_top()
    cluster.show(node("n2").cpu(2))
    cluster.slow = lambda write: isinstance(write, Remove) and write.pod.name == "m2"
    cluster.answer("m1")
    cluster.leave("m1")
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"top": "n1"}
    assert cluster.core.states()["d/g"] == "Gathering"


def test_what_waits_is_told_why() -> None:
    """The reason is the eviction, not a lack of room."""
    cluster = evicted_for_top()
    cluster.show(node("n2").cpu(2))
    cluster.run()
    said = [a.message for a in cluster.log if isinstance(a, SetCondition) and a.pod.name == "m3"]
    assert said[-1] == "2 of its 2 bound members are being evicted"


def test_a_gang_that_stays_whole_takes_members_all_the_same() -> None:
    """What is left of it is as much as it needs."""
    cluster = Cluster(
        node("n1").cpu(2),
        node("n2").cpu(2),
        gang("g").min(1),
        *(m.on(f"n{i}") for i, m in enumerate(members("m1", "m2"), 1)),
        *members("m3"),
    )
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.show(pod("top").cpu(2).priority(9))
    cluster.run()
    assert len(cluster.waiting) == 1
    cluster.show(node("n3").cpu(2))
    cluster.run()
    assert nodes_of(cluster.log) == {"m3": "n3"}


def test_a_gang_that_is_spared_goes_on() -> None:
    """The stronger pod is gone before anybody has left: the third member starts where there is room."""
    cluster = Cluster(node("n1").cpu(4), gang("g").min(2), *(m.on("n1") for m in members("m1", "m2")), *members("m3"))
    cluster.run()
    cluster.slow = lambda write: not isinstance(write, Bind)
    cluster.show(pod("top").cpu(4).priority(9))
    cluster.run()
    cluster.show(node("n2").cpu(2))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.delete("top")
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert nodes_of(cluster.log) == {"m3": "n2"}


def suspended_for_top() -> Cluster:
    """A Job of three without a group, of which two pods run on n1, is to be suspended for a stronger pod."""
    job = jobs.job(backoff_limit=0, parallelism=3, completions=3)
    running = [jobs.member(i).cpu(2).on("n1") for i in range(2)]
    cluster = Cluster(node("n1").cpu(4), job, *running, jobs.member(2).cpu(2))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, SuspendJob)
    cluster.show(pod("top").cpu(4).priority(9))
    cluster.run()
    assert [write.pod.name for write in cluster.waiting] == ["train"]
    cluster.show(node("n2").cpu(2))
    cluster.run()
    return cluster


def test_no_pod_of_a_job_that_is_being_suspended_is_bound() -> None:
    """It would not be on the list of victims, and leave at once with them: the plan would have to end half-way."""
    cluster = suspended_for_top()
    assert nodes_of(cluster.log) == {}
    why = "the pods of d/train that run are being evicted, and it is suspended for that"
    assert texts(cluster.log, "train-2")[-1] == ("GangNotReady", why)
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"top": "n1"}


def test_a_pod_whose_job_stays_after_all_is_bound() -> None:
    """The API refuses the suspension, so the pods that run stay, and the next one may join them."""
    cluster = suspended_for_top()
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if isinstance(write, SuspendJob) else None
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.answer()
    cluster.run()
    assert nodes_of(cluster.log) == {"train-2": "n2"}


def test_a_pod_that_waits_while_its_job_is_suspended_is_not_forgotten() -> None:
    """The pods that ran end before anything has come of the suspension: then it may start."""
    cluster = suspended_for_top()
    cluster.change("train-0", phase="Succeeded")
    cluster.change("train-1", phase="Succeeded")
    cluster.run()
    assert nodes_of(cluster.log)["train-2"] == "n2"


def test_a_job_whose_pods_have_ended_by_themselves_ends_no_list() -> None:
    """It need not be suspended any more, and its next pod, which starts meanwhile, leaves nobody else behind."""
    job = jobs.job(backoff_limit=0, parallelism=2, completions=2)
    slow = pod("slow").cpu(2).on("n2").field(grace_seconds=60.0)
    running = jobs.member(0).cpu(2).on("n1").field(grace_seconds=1.0)
    alone = pod("alone").cpu(2).on("n1").field(grace_seconds=1.0)
    cluster = Cluster(node("n1").cpu(4), node("n2").cpu(2), job, running, alone, slow)
    cluster.run()
    tops = [pod(f"top-{n}").cpu(n).priority(9).gang("top") for n in (4, 2)]
    cluster.show(gang("top").min(2).timeout(300), *tops)
    cluster.run()
    assert {write.pod.name for write in cluster.log if isinstance(write, Mark)} == {"train-0", "alone", "slow"}
    cluster.change("train-0", phase="Succeeded")
    cluster.show(jobs.member(1).cpu(2), node("n3").cpu(2))
    cluster.run()
    assert nodes_of(cluster.log) == {"train-1": "n3"}
    cluster.pass_time(60)
    assert not any(isinstance(write, Unmark) for write in cluster.log)
    assert [write.pod.name for write in cluster.log if isinstance(write, Remove)] == ["slow", "alone"]
