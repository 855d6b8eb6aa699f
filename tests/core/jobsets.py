"""A JobSet with two Jobs of two pods, running or waiting, and a queue for it."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.core.events import Changed
from gangsched.model.jobsets import JobSet, ReplicatedJob
from gangsched.model.queues import LocalQueue
from gangsched.model.records import Job, Owner, Pod, QueueLabels
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Built
from tests.core.queues import objects
from tests.core.quota.world import queue

JOBS, MEMBERS = 2, 4

TEAM = QueueLabels("team")


def member(job: int, index: int) -> PodBuilder:
    """A pod of a Job of the JobSet, without a node."""
    return pod(f"train-w-{job}-{index}").cpu(1).owner("Job", f"train-w-{job}")


TEMPLATE = msgspec.structs.replace(member(0, 0).obj(), name="train-w", uid="", owner=None)


def like() -> Job:
    """What the Jobs of the JobSet have in common."""
    return Job("d", "train-w", parallelism=MEMBERS, completions=MEMBERS, template=TEMPLATE)


def jobs(**fields: Any) -> list[Job]:
    """The Jobs of the JobSet."""
    known = {"backoff_limit": 0, "owner": Owner("JobSet", "train", "uid-JobSet-train"), **fields}
    out = []
    for name in (f"train-w-{i}" for i in range(JOBS)):
        owner = Owner("Job", name, f"uid-Job-{name}")
        template = msgspec.structs.replace(TEMPLATE, name=name, owner=owner)
        out.append(msgspec.structs.replace(like(), name=name, uid=owner.uid, template=template, **known))
    return out


def jobset(**fields: Any) -> JobSet:
    """A JobSet of two Jobs of four pods."""
    known = {"replicated": (ReplicatedJob(JOBS, like()),), "version": "1", **fields}
    return JobSet("d", "train", "uid-JobSet-train", **known)


def running() -> list[Pod]:
    """All pods, those of each Job on a node."""
    return [member(j, i).on(f"n{j + 1}").obj() for j in range(JOBS) for i in range(MEMBERS)]


def waiting() -> list[Pod]:
    """All pods as their controller has just made them."""
    return [member(j, i).uid(f"new-{j}-{i}").obj() for j in range(JOBS) for i in range(MEMBERS)]


def nodes() -> list[Built]:
    """Two nodes that hold four such pods each."""
    return [node("n1").cpu(4), node("n2").cpu(4)]


def quota(cpu: int) -> list[Built]:
    """One ClusterQueue with so many cores, used as ``team``."""
    return [*objects(queue("q", cpu=cpu)), Changed(LocalQueue("d", "team", "q"))]
