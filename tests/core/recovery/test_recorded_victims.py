"""A process that takes over removes victims as they were to be removed when they were chosen."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Mark, Remove, SuspendJob, Unmark, Write
from gangsched.core.actuation.records import owners_of
from tests.builders import gang, node, pod
from tests.core.eviction.jobs import MEMBERS, job, nodes, running, wide
from tests.core.harness import Cluster
from tests.core.stories import names


def removing(write: Write) -> bool:
    """Is it a removal?"""
    return isinstance(write, Remove | SuspendJob)


@pytest.mark.parametrize(
    ("then", "now", "method"),
    [
        ({"failed": 6}, {"failed": 0, "backoff_limit": 100}, "suspend"),
        ({"backoff_limit": 100}, {"failed": 6}, "delete"),
    ],
    ids=["it would have ended", "it would have survived"],
)
def test_the_recorded_method_is_used(then: dict[str, Any], now: dict[str, Any], method: str) -> None:
    """Whether its Job would survive the loss of the victims may have changed since they were marked; one that has lost
    the first of them loses the others too.
    """
    cluster = Cluster(*nodes(), job(**then), *running(), wide())
    cluster.slow = removing
    cluster.run()
    marked = {name: owners_of(found)[0].method for (_, name), found in cluster.pods.items() if owners_of(found)}
    assert set(marked.values()) == {method}
    first = {min(marked)} if method == "delete" else set[str]()
    for name in first:
        cluster.answer(name)
    cluster.show(job(**now))
    cluster.restart()
    cluster.log.clear()
    cluster.run()
    assert names(cluster, Mark) | names(cluster, Unmark) == set()
    if method == "suspend":
        assert len(marked) == MEMBERS
        assert names(cluster, SuspendJob) == {"train"}
        assert names(cluster, Remove) == set()
    else:
        assert names(cluster, SuspendJob) == set()
        assert names(cluster, Remove) == set(marked) - first


def begun() -> Cluster:
    """A gang of three is to leave for another one, and w1 of it is gone."""
    cluster = Cluster(
        *(node(f"n{n}") for n in (1, 2, 3)),
        gang("low").min(3),
        *(pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2, 3)),
        *(pod(f"p{n}").cpu(3).priority(5).gang("g") for n in (1, 2, 3)),
        gang("g").min(3).timeout(60),
    )
    cluster.slow = removing
    cluster.run()
    cluster.answer("w1")
    cluster.leave("w1")
    return cluster
