"""A binding that is refused for good."""

from __future__ import annotations

from typing import Any

from gangsched.core.actions import Bind, Write
from gangsched.core.events import Outcome
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Cluster


def member(number: int, uid: str = "") -> PodBuilder:
    """A member that a controller makes again."""
    made = pod(f"m{number}").cpu(3).gang("g").owner("ReplicaSet", "rs")
    return made.uid(uid) if uid else made


def refusing(**options: Any) -> Cluster:
    """Two nodes for two members that controllers make again; the binding of m2 is refused."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), member(1), member(2), **options)
    cluster.judge = refuse_m2
    return cluster


def refuse_m2(write: Write) -> tuple[Outcome, str] | None:
    """The binding of m2 is refused for good."""
    return (Outcome.REFUSED, "because") if isinstance(write, Bind) and write.pod.name == "m2" else None
