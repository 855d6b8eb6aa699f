"""A process that takes over removes victims as they were to be removed when they were chosen."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Mark, Remove, SuspendJob, Unmark, Write
from gangsched.core.actuation.records import owners_of
from tests.builders import gang, node, pod
from tests.core.eviction.jobs import MEMBERS, job, nodes, running, wide
from tests.core.harness import Cluster
from tests.core.stories import evicted, names


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
    """Whether its Job would survive the loss of the victims may have changed since they were marked."""
    cluster = Cluster(*nodes(), job(**then), *running(), wide())
    cluster.slow = removing
    cluster.run()
    marked = {name: owners_of(found)[0].method for (_, name), found in cluster.pods.items() if owners_of(found)}
    assert set(marked.values()) == {method}
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
        assert names(cluster, Remove) == set(marked)


@pytest.mark.parametrize("minimum", [1, 2], ids=["a member alone", "the gang"])
def test_the_recorded_unit_is_used(minimum: int) -> None:
    """One of two members was to leave alone or with the other, and its removal has begun. What minimum the gang has by
    now does not matter: who was not on the list stays, and who was leaves, marked or not.
    """
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("low").min(minimum),
        *(pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2)),
        pod("p").cpu(3).priority(5),
    )
    cluster.slow = removing
    cluster.run()
    (first, *others) = sorted(name for (_, name), found in cluster.pods.items() if owners_of(found))
    assert len(others) == minimum - 1
    cluster.answer(first)
    for name in others:
        cluster.change(name, disruption=None, evicted_for=None)
    cluster.show(gang("low").min(3 - minimum))
    cluster.run()
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) == {first, *others}
