"""What owners are told of pods that leave."""

from __future__ import annotations

from gangsched.core.actions import GangStatus, JobStatus, Mark
from tests.builders import OTHERS, gang, node, pod
from tests.core.eviction.jobs import job
from tests.core.harness import Cluster, reports


def test_each_owner_is_told_once_for_all_of_its_pods() -> None:
    """A Job and a group of ours have conditions, a ReplicaSet and a group of others Events."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in range(4)),
        job("batch", backoff_limit=20, parallelism=2, completions=2),
        gang("low").min(2),
        gang("theirs").min(2),
        *(pod(f"batch-{i}").cpu(2).priority(1).owner("Job", "batch").on("n0") for i in range(2)),
        *(pod(f"web-{i}").cpu(2).priority(1).owner("ReplicaSet", "web").on("n1") for i in range(2)),
        *(pod(f"low-{i}").cpu(2).priority(1).gang("low").on("n2") for i in range(2)),
        *(pod(f"theirs-{i}").cpu(2).priority(1).scheduler(OTHERS).gang("theirs").on("n3") for i in range(2)),
        gang("g").min(4),
        *(pod(f"m{i}").cpu(4).priority(5).gang("g") for i in range(4)),
    )
    cluster.run()
    cluster.leave()
    cluster.run()
    plan = cluster.decisions[0]
    assert len(plan.victims) == 8

    def text(name: str) -> str:
        return f"Preempted 2 pods for gang d/g (plan 0-1): d/{name}-0, d/{name}-1"

    told = reports(cluster.log, "PodsEvicted")
    assert {(r.regarding[1], r.regarding[3]): r.note for r in told} == {
        ("ReplicaSet", "web"): text("web"),
        ("PodGroup", "theirs"): text("theirs"),
    }
    assert len(told) == 2
    (status,) = [a for a in cluster.log if isinstance(a, JobStatus)]
    last = "1970-01-01T00:00:00Z: "
    assert (status.name, status.status["conditions"]) == (
        "batch",
        (("gangsched.dev/PodsEvicted", "True", "Preempted", last + text("batch")),),
    )
    groups = {a.name: a.status["evicted"] for a in cluster.log if type(a) is GangStatus}
    assert groups == {"low": last + text("low"), "g": ""}


def test_a_job_of_another_api_is_told_by_an_event() -> None:
    """Volcano's has the kind of a Job and not its conditions: a Job with its name is not told."""
    cluster = Cluster(
        node("n1").cpu(4),
        job("train", backoff_limit=20),
        pod("web").cpu(4).priority(1).owner("Job.v1alpha1.batch.volcano.sh", "train").on("n1"),
        gang("g").min(1),
        pod("m").cpu(4).priority(5).gang("g"),
    )
    cluster.run()
    [told] = reports(cluster.log, "PodsEvicted")
    assert told.regarding[:4] == ("batch.volcano.sh/v1alpha1", "Job", "d", "train")
    assert not [a for a in cluster.log if isinstance(a, JobStatus)]


def test_nobody_is_told_before_a_pod_is_removed() -> None:
    """While the marks are being written the plan may still be withdrawn."""
    cluster = Cluster(
        node("n1").cpu(4),
        pod("web").cpu(4).priority(1).owner("ReplicaSet", "web").on("n1"),
        gang("g").min(1),
        pod("m").cpu(4).priority(5).gang("g"),
    )
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert reports(cluster.log, "PodsEvicted") == []
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert len(reports(cluster.log, "PodsEvicted")) == 1
