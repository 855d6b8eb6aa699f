"""Gangs in queues of Volcano and KAI: the queue that their group names limits them."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.events import Changed, Gone, KindRead, Reading
from gangsched.core.world.obstacles import CLUSTER_QUEUES
from gangsched.model import wire
from gangsched.model.dialects import kai, volcano
from gangsched.model.queues import ClusterQueue, Limits, LocalQueue, of_other_api, queue_api
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan
from tests.core.queues import objects
from tests.core.quota.world import queue as cluster_queue


def queue(name: str, cores: int | None = None, family: str = volcano.FAMILY, **more: Any) -> Changed:
    """A queue of so many cores, and what it does not use of others."""
    limits = {} if cores is None else {"cpu": Limits(cores * 1000)}
    return Changed(of_other_api(family, wire.ObjectMeta(name), "root", limits, **more))


def group(name: str, of: str, family: str = volcano.FAMILY) -> Built:
    """A group of one member in a queue."""
    return gang(name).family(family).min(1).field(queue_name=of)


def member(of: str, family: str = volcano.FAMILY) -> PodBuilder:
    """A pod of two cores and some memory."""
    return pod(f"{of}-0").cpu(2).memory(1).priority(5).gang(of, family)


def test_the_queue_of_a_group_limits_it() -> None:
    """By what it has quota for; other resources are free, and so are groups whose queue is not there."""
    seen: list[Built] = [
        node("n1").cpu(8),
        queue("small", 3),
        group("a", "small"),
        group("b", "small"),
        group("c", "none"),
    ]
    found = plan(*seen, member("a"), member("b"), member("c"))
    assert {name: each.outcome for name, each in found.items()} == {
        "d/a": "bind",
        "d/b": "unschedulable",
        "d/c": "bind",
    }
    assert "insufficient unused quota for cpu" in found["d/b"].message


@pytest.mark.parametrize("family", [volcano.FAMILY, kai.FAMILY])
def test_a_queue_that_is_read_counts_where_kueue_is_not_served(family: str) -> None:
    """Its own API is what matters to it."""
    absent = KindRead(CLUSTER_QUEUES, Reading.ABSENT)
    groups = [group("a", "small", family), group("b", "small", family)]
    found = plan(
        absent, node("n1").cpu(8), queue("small", 3, family), *groups, member("a", family), member("b", family)
    )
    assert {name: each.outcome for name, each in found.items()} == {"d/a": "bind", "d/b": "unschedulable"}
    assert "insufficient unused quota for cpu" in found["d/b"].message


def test_a_queue_borrows_what_others_of_its_parent_do_not_use() -> None:
    """And it is taken back from it when they need it, though nodes are free."""
    seen: list[Built] = [
        node("n1").cpu(8),
        queue("one", 2),
        queue("two", 2),
        *(group(g, "one") for g in "ab"),
        group("c", "two"),
    ]
    running = [member(g).on("n1") for g in "ab"]
    decision = plan(*seen, *running, member("c"))["d/c"]
    assert (decision.outcome, len(decision.victims)) == ("preempt", 1)


@pytest.mark.parametrize("cores", [None, 8])
def test_gangs_of_one_queue_evict_each_other(cores: int | None) -> None:
    """Where nodes alone are short, with limits and without: as in Volcano's queue `default`."""
    seen: list[Built] = [node("n1").cpu(2), queue("default", cores), group("a", "default"), group("v", "default")]
    decision = plan(*seen, member("a"), member("v").priority(1).on("n1"))["d/a"]
    assert (decision.outcome, [v.name for v in decision.victims]) == ("preempt", ["v-0"])


def test_a_local_queue_of_that_name_goes_before() -> None:
    """It is the administrator's word."""
    local: list[Built] = [*objects(cluster_queue("q", cpu=1)), Changed(LocalQueue("d", "small", "q"))]
    found = plan(node("n1").cpu(8), queue("small", 4), *local, group("a", "small"), member("a"))
    assert found["d/a"].outcome == "unschedulable"


def test_a_queue_comes_and_goes() -> None:
    """Gangs that it kept waiting start when it is gone; nothing of its own is written to it."""
    cluster = Cluster(node("n1").cpu(8), queue("small", 1), group("a", "small"), member("a"))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert [s for s in cluster.core.queue_statuses(again=True) if ":" in s.name] == []
    cluster.show(Gone("Queue", "", "small", group=volcano.FAMILY))
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"a-0"}


def test_queues_of_two_apis_with_one_name() -> None:
    """Are different queues."""
    seen: list[Built] = [
        node("n1").cpu(8),
        queue("q", 1),
        queue("q", 4, kai.FAMILY),
        group("a", "q"),
        group("k", "q", kai.FAMILY),
    ]
    found = plan(*seen, member("a"), member("k", kai.FAMILY))
    assert (found["d/a"].outcome, found["d/k"].outcome) == ("unschedulable", "bind")


def test_pods_run_for_the_minimum_of_their_queue() -> None:
    """One for others of the same queue, one for those of other queues."""
    name = kai.FAMILY
    times = {"preempt_after": 100.0, "reclaim_after": 300.0}
    seen: list[Built] = [
        node("n1").cpu(2),
        queue("q", None, name, **times),
        queue("r", None, name),
        group("v", "q", name),
    ]
    victim = member("v", name).priority(1).on("n1", started=0.0)

    def outcomes(now: float) -> tuple[str, str]:
        """For one of the same queue, and one of another."""
        made = (plan(*seen, victim, group("x", of, name), member("x", name), now=now)["d/x"] for of in ("q", "r"))
        one, other = (each.outcome for each in made)
        return one, other

    assert outcomes(50.0) == ("unschedulable", "unschedulable")
    assert outcomes(150.0) == ("preempt", "unschedulable")
    assert outcomes(350.0) == ("preempt", "preempt")


def test_a_queue_object_is_a_cluster_queue_of_another_name() -> None:
    """No ClusterQueue can be called so."""
    assert isinstance(queue("q").record, ClusterQueue)
    assert queue("q").record.name == "scheduling.volcano.sh:q"


@pytest.mark.parametrize("family", [volcano.FAMILY, kai.FAMILY])
@pytest.mark.parametrize(
    ("name", "reading", "waits"),
    [
        ("team", Reading.ABSENT, True),
        ("team", Reading.READ, False),
        ("team", Reading.CLOSED, False),
        ("default", Reading.ABSENT, False),
        ("", Reading.ABSENT, False),
    ],
)
def test_a_queue_whose_api_is_not_served_is_waited_for(
    family: str, name: str, reading: Reading, *, waits: bool
) -> None:
    """Nobody is evicted on the guess that no quota is needed; ``default`` is what the API itself writes."""
    told = KindRead(queue_api(family), reading)
    weak = pod("weak").cpu(8).on("n1").priority(1)
    strong = pod("strong-0").cpu(8).priority(9).gang("a", family)
    found = plan(told, node("n1").cpu(8), weak, group("a", name, family), strong)["d/a"]
    assert (found.outcome == "gathering") == waits
    if waits:
        assert f"names the queue team, and the cluster does not serve the API of its queues (Queue.{family})" in (
            found.message
        )
