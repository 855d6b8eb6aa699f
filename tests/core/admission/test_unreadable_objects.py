"""Group objects and queues whose newest state cannot be understood: who waits, and what runs goes on as before."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Remove
from gangsched.core.events import Changed, ObjectRefused
from gangsched.core.lifecycle.report import REFUSED
from gangsched.model.queues import QUEUE_LABEL, ClusterQueue, LocalQueue, QueueObject, ResourceFlavor
from tests.builders import SIGS, PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, reports, texts
from tests.core.queues import big, objects, queued
from tests.core.quota.world import cohort, queue
from tests.core.stories import names

GROUP = ObjectRefused(f"PodGroup.{SIGS}", "d", "g", "uid-g", "spec.minMember", "-1 is not between 1 and 1000000")


def running(minimum: int | None) -> list[Built]:
    """Two members of a gang on two nodes; ``minimum`` is what its object said last, None: nobody has read it."""
    known = [gang("g").min(minimum).field(disruption=None)] if minimum is not None else []
    members = [pod(f"m{n}").cpu(3).priority(1).gang("g").on(f"n{n}") for n in (1, 2)]
    return [node("n1"), node("n2"), *known, GROUP, *members]


@pytest.mark.parametrize("minimum", [2, None], ids=["later", "at first sight"])
def test_a_gang_whose_object_is_refused_stays_whole(minimum: int | None) -> None:
    """One node would do, but none of its members leaves alone."""
    found = plan(*running(minimum), pod("new").cpu(3).priority(5))["d/new"]
    assert [v.name for v in found.victims] == ["m1", "m2"]
    assert not any(v.partial for v in found.victims)


def test_a_gang_whose_object_is_refused_has_as_many_to_spare_as_before() -> None:
    """What was known of it goes on to count for its victims."""
    found = plan(*running(1), pod("new").cpu(3).priority(5))["d/new"]
    assert len(found.victims) == 1


@pytest.mark.parametrize("minimum", [1, None], ids=["later", "at first sight"])
def test_further_members_wait_until_the_object_is_mended(minimum: int | None) -> None:
    """It is told once; its members say why they wait; nobody else does, and no status is written to it."""
    cluster = Cluster(*running(minimum), node("n3"), pod("m3").cpu(1).gang("g"), pod("other").cpu(1))
    cluster.run()
    cluster.show(GROUP)
    cluster.pass_time(60)
    assert nodes_of(cluster.log).keys() == {"other"}
    assert len(reports(cluster.log, REFUSED)) == 1
    assert texts(cluster.log, "m3")[-1] == (REFUSED, f"PodGroup d/g was refused: {GROUP.field}: {GROUP.message}")
    assert [a for a in cluster.log if type(a).__name__ == "GangStatus"] == []
    cluster.show(gang("g").min(1))
    cluster.run()
    assert nodes_of(cluster.log).keys() == {"other", "m3"}


def refused(kind: str, name: str) -> ObjectRefused:
    """A queue object that cannot be understood any more."""
    namespace = "d" if kind == "LocalQueue" else ""
    return ObjectRefused(f"{kind}.kueue.x-k8s.io", namespace, name, f"uid-{name}", "spec.x", "'y' is none of z")


QUEUE = queue("a", "co", cpu=4)
MENDED = {"ClusterQueue": ("a", QUEUE), "LocalQueue": ("q-a", LocalQueue("d", "q-a", "a"))}
MENDED_FLAVOR = {"ResourceFlavor": ("default", ResourceFlavor("default"))}


@pytest.mark.parametrize(("kind", "named"), [*MENDED.items(), *MENDED_FLAVOR.items()])
def test_a_queue_that_is_refused_admits_nobody(
    kind: str, named: tuple[str, ClusterQueue | LocalQueue | ResourceFlavor]
) -> None:
    """Who runs goes on, and keeps its quota from others; it is told once; those who wait start when it is mended."""
    name, mended = named
    cluster = Cluster(big(), *objects(QUEUE, queue("b", "co", cpu=0)), queued("runs", "a", 3))
    cluster.run()
    cluster.show(refused(kind, name), queued("new", "a", 1), queued("borrows", "b", 2), pod("free").cpu(1))
    cluster.run()
    cluster.show(refused(kind, name))
    cluster.pass_time(60)
    assert nodes_of(cluster.log).keys() == {"runs", "free"}
    assert names(cluster, Remove) == set()
    assert len(reports(cluster.log, REFUSED)) == 1
    cluster.show(Changed(mended))
    cluster.pass_time(60)
    assert nodes_of(cluster.log).keys() == {"runs", "free", "new"}


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue", "ResourceFlavor"])
def test_a_queue_that_nobody_has_read_yet_admits_nobody(kind: str) -> None:
    """Even if it is the only one: a restart opens nothing."""
    local, flavor = LocalQueue("d", "a", "a"), ResourceFlavor("default")
    known: dict[str, QueueObject] = {"ClusterQueue": QUEUE, "LocalQueue": local, "ResourceFlavor": flavor}
    shown = [Changed(each) for of, each in known.items() if of != kind]
    mine: PodBuilder = pod("new").cpu(1).labels({QUEUE_LABEL: "a"})
    cluster = Cluster(big(), *shown, refused(kind, "default" if kind == "ResourceFlavor" else "a"), mine)
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.show(Changed(known[kind]))
    cluster.pass_time(60)
    assert nodes_of(cluster.log) == {"new": "n1"}


def test_a_cohort_that_is_refused_stays_as_it_was() -> None:
    """Its quota goes on to be shared, and it is told."""
    cluster = Cluster(big(), *objects(queue("a", "co", cpu=0)), Changed(cohort("co", cpu=2)))
    cluster.show(refused("Cohort", "co"), queued("new", "a", 2))
    cluster.run()
    assert nodes_of(cluster.log) == {"new": "n1"}
    assert len(reports(cluster.log, REFUSED)) == 1
