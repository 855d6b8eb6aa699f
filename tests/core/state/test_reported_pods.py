"""Only pods that the cluster has reported are walked over; members that a plan expects are found by UID."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.events import Changed, Gone, KindRead, Reading, ServerClock
from gangsched.model.constraints import LabelSelector
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.dialects.owners import GANG
from gangsched.model.jobsets import ReplicatedJob
from gangsched.model.preemptible import DAEMON_SET, MARKS, VOLCANO
from gangsched.model.records import Gang, Job, Namespace, Owner, PodSelector, PriorityClass
from tests.builders import node, pod
from tests.core.eviction.jobs import job
from tests.core.harness import Built, Cluster
from tests.core.jobsets import TEAM, TEMPLATE, jobset, like, quota

#: The template says by the mark of another API that its pods are never evicted.
MARKED = msgspec.structs.replace(TEMPLATE, hints={**TEMPLATE.hints, VOLCANO: "false"}, unheeded=frozenset({VOLCANO}))


def waiting_job() -> Job:
    """A suspended Job with a queue."""
    return job("train", suspended=True, queue=TEAM, template=MARKED)


def waiting_jobset() -> object:
    """A suspended JobSet with a queue, of which no Job has been made."""
    owned = msgspec.structs.replace(MARKED, owner=Owner("Job", "train-w", "uid-Job-train-w"))
    jobs = ReplicatedJob(2, msgspec.structs.replace(like(), template=owned))
    return jobset(suspended=True, queue=TEAM, replicated=(jobs,))


def operator(kind: str, **fields: Any) -> Changed:
    """An object of an operator that is declared to be a gang."""
    family = OPERATORS[kind].family
    made = Gang(family, "d", "other", kind=kind, uid="uid-other", min_member=2, declared=True)
    return Changed(msgspec.structs.replace(made, **fields))


def stateful_set() -> Changed:
    """A StatefulSet that is declared to be a gang."""
    gang = Gang(
        OPERATORS["StatefulSet"].family, "d", "db", kind="StatefulSet", uid="uid-db", min_member=2, declared=True
    )
    return Changed(PodSelector("StatefulSet", "d", "db", LabelSelector(), gang))


#: What is followed by a walk over the pods of a namespace, or of the cluster.
EVENTS: dict[str, list[Built]] = {
    "RayCluster": [operator("RayCluster")],
    "RayCluster gone": [operator("RayCluster"), Gone("PodGroup", "d", "other", "", OPERATORS["RayCluster"].family)],
    "PyTorchJob": [operator("PyTorchJob")],
    "LeaderWorkerSet": [operator("LeaderWorkerSet")],
    "StatefulSet": [stateful_set()],
    "StatefulSet gone": [stateful_set(), Gone("StatefulSet", "d", "db", "", "apps")],
    "namespace": [Changed(Namespace("d", {GANG: "true"}))],
    "class": [Changed(PriorityClass("high", 7))],
    "clock": [ServerClock(3.0)],
    "queue gone": [Gone("ClusterQueue", "", "q", "", "kueue.x-k8s.io")],
    **{
        f"{kind} read": [KindRead(kind, Reading.READ)]
        for kind in sorted({*MARKS.values(), f"{DAEMON_SET}.apps"})
        if kind
    },
    **{f"{kind} absent": [KindRead(kind, Reading.ABSENT)] for kind in sorted({*MARKS.values()}) if kind},
}


@pytest.mark.parametrize("waits", [waiting_job, waiting_jobset])
@pytest.mark.parametrize("happens", EVENTS)
def test_walks_over_pods_do_not_see_members_without_pods(happens: str, waits: Any) -> None:
    """The members of what is suspended are as before, and it waits as before, whatever is walked over."""
    read = KindRead("Job.batch", Reading.READ)
    cluster = Cluster(node("n1").cpu(1), read, waits(), pod("runs").cpu(1).on("n1"), *quota(8))
    cluster.run()
    world = cluster.core.world
    before = {*world.membership.expected.made}
    assert before
    assert {*world.pods} == {"uid-d-runs"}
    cluster.show(*EVENTS[happens])
    cluster.run()
    assert {*world.pods} == {"uid-d-runs"}
    assert {*world.membership.expected.made} == (set() if happens == "queue gone" else before)


def test_members_are_found_by_uid() -> None:
    """Those that the cluster has reported, and those that are expected."""
    cluster = Cluster(node("n1").cpu(1), waiting_job(), pod("runs").cpu(1).on("n1"), *quota(8))
    cluster.run()
    world = cluster.core.world
    found = [world.members[uid].name for uid in ("uid-d-runs", "uid-Job-train/0")]
    assert found == ["runs", "train-0"]
    assert "uid-Job-train/0" in world.members
    assert world.members.get("uid-Job-train/9999") is None
