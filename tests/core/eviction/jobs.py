"""A Job of eight pods on two nodes, and a pod that wants one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.model.records import Job, Pod
from tests.builders import PodBuilder, node, pod
from tests.core.harness import plan

MEMBERS = 8


def member(index: int, name: str = "train") -> PodBuilder:
    """A pod of the Job, without a node."""
    return pod(f"{name}-{index}").cpu(1).owner("Job", name)


def job(name: str = "train", **fields: Any) -> Job:
    """A Job of eight with the default backoffLimit; one that was suspended to make room has had pods."""
    template = msgspec.structs.replace(member(0, name).obj(), name=name, uid="")
    known = {"parallelism": MEMBERS, "completions": MEMBERS, "template": template, "version": "1", **fields}
    known = {"evicted": bool(known.get("suspended_by")), **known}
    return Job("d", name, f"uid-Job-{name}", **known)


def running(count: int = MEMBERS, name: str = "train") -> list[Pod]:
    """The Job's pods, four on each node."""
    return [member(i, name).on(f"n{i // 4 + 1}").obj() for i in range(count)]


def nodes(count: int = 2) -> list[Any]:
    """Nodes that hold four such pods each."""
    return [node(f"n{i + 1}").cpu(4) for i in range(count)]


def wide(name: str = "vip", priority: int = 10) -> PodBuilder:
    """A pod that takes a whole node."""
    return pod(name).cpu(4).priority(priority)


def methods(*objects: Any, **options: Any) -> dict[str, str]:
    """How each victim of the gang ``d/vip`` leaves."""
    return {v.name: v.method for v in plan(*objects, **options)["d/vip"].victims}
