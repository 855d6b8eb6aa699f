"""Queues that are stopped and opened again, and gangs in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gangsched.core.events import Changed
from gangsched.model.queues import STOP_DRAIN, STOP_NONE, LocalQueue
from gangsched.model.records import Job, QueueLabels
from tests.builders import PodBuilder, pod
from tests.core.harness import Built, Cluster
from tests.core.queues import big, objects
from tests.core.quota.world import queue

#: Queues a and b share 8 cores; a owns 4 of them and asks them back.
SHARED = (queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=4))


def stopped(kind: str = "ClusterQueue", policy: str = STOP_DRAIN, name: str = "a") -> Changed:
    """Queue ``name``, or the LocalQueue in front of it, with this stop policy."""
    known = next(q for q in SHARED if q.name == name)
    if kind == "ClusterQueue":
        return Changed(msgspec.structs.replace(known, stop=policy))
    return Changed(LocalQueue("d", f"q-{name}", name, stop=policy))


def opened(kind: str = "ClusterQueue", name: str = "a") -> Changed:
    """The same without one."""
    return stopped(kind, STOP_NONE, name)


def member(index: int) -> PodBuilder:
    """A pod of Job ``train``."""
    return pod(f"train-{index}").cpu(1).owner("Job", "train")


def job(**fields: Any) -> Job:
    """A Job of two with queue a."""
    template = msgspec.structs.replace(member(0).obj(), name="train", uid="")
    known = {"parallelism": 2, "completions": 2, "template": template, "version": "1", **fields}
    return Job("d", "train", "uid-Job-train", queue=QueueLabels("q-a"), **known)


def cluster(*things: Built, **options: Any) -> Cluster:
    """Both queues and a large node, with these bound as far as they fit."""
    made = Cluster(big(), *objects(*SHARED), *things, **options)
    made.run()
    return made


def training(**options: Any) -> Cluster:
    """Job ``train`` runs in queue a."""
    return cluster(job(), member(0), member(1), **options)


def lost(write: object) -> Callable[[object], bool]:
    """Judges one kind of write slow."""
    return lambda action: isinstance(action, write)  # type: ignore[arg-type]
