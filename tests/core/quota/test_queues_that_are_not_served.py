"""A label names a queue, and the cluster does not serve the API of queues: it is not known whether there is quota."""

from __future__ import annotations

import pytest

from gangsched.core.events import KindRead, Reading
from gangsched.core.world.obstacles import CLUSTER_QUEUES
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import QueueLabels
from tests.builders import node, pod
from tests.core.eviction.jobs import job, member
from tests.core.harness import Built, Cluster, nodes_of, plan, texts, writes
from tests.core.queues import objects
from tests.core.quota.world import queue

ABSENT, READ = (KindRead(CLUSTER_QUEUES, reading) for reading in (Reading.ABSENT, Reading.READ))


def waiting(by: str) -> list[Built]:
    """What bears the label, and its pod, which could take the place of a weaker one."""
    alone = pod("alone").cpu(4).priority(1000)
    match by:
        case "pod":
            return [alone.labels({QUEUE_LABEL: "q-a"})]
        case "Job":
            made = job(parallelism=1, completions=1, queue=QueueLabels("q-a"))
            return [made, member(0).cpu(4).priority(1000)]
    return [alone]


def weak() -> list[Built]:
    """A node and who runs there."""
    return [node("n1").cpu(4), pod("weak").cpu(4).on("n1").priority(1)]


@pytest.mark.parametrize(("by", "evicts"), [("pod", False), ("Job", False), ("", True)])
def test_nobody_is_evicted_on_the_guess_that_no_quota_is_needed(by: str, *, evicts: bool) -> None:
    """It waits with the reason; what names no queue does not."""
    cluster = Cluster(ABSENT, *weak(), *waiting(by))
    cluster.pass_time(600)
    assert any(verb == "Remove" for verb, _ in writes(cluster.log)) == evicts
    if by == "pod":
        reason, text = texts(cluster.log, "alone")[-1]
        assert reason == "GangNotReady"
        assert f"the cluster does not serve the API of queues ({CLUSTER_QUEUES})" in text


@pytest.mark.parametrize("reading", [Reading.READ, Reading.CLOSED, Reading.UNKNOWN])
def test_what_is_served_or_left_to_others(reading: Reading) -> None:
    """Queues that are served, or are others', or of which nothing is known hold up nothing."""
    found = plan(KindRead(CLUSTER_QUEUES, reading), node("n1").cpu(4), *waiting("pod"))["d/alone"]
    assert found.outcome == "bind"


def test_the_api_is_installed() -> None:
    """From then on its queue decides."""
    cluster = Cluster(ABSENT, node("n1").cpu(4), *waiting("pod"))
    assert nodes_of(cluster.run()) == {}
    cluster.show(*objects(queue("a", cpu=2)), READ)
    assert nodes_of(cluster.pass_time(60)) == {}
    cluster.show(*objects(queue("a", cpu=4)))
    assert nodes_of(cluster.pass_time(60)) == {"alone": "n1"}
