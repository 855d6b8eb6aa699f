"""A gang that waits for its volumes gives way to a stronger one: nobody is bound, what is bound for it stays so."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, BindVolume, Remove, SelectNode, WithdrawNomination
from gangsched.model.constraints import PodTerm
from gangsched.model.volumes import PersistentVolumeClaim
from tests.builders import LATER, OTHERS, claim, gang, node, pod, selects, volume
from tests.core.harness import Cluster, nodes_of, writes
from tests.core.stories import assert_clean, go_on, names
from tests.core.volumes.stories import G, bound, waiting

_VOLUME_WRITES = (BindVolume, SelectNode)


def stronger(cpu: int = 1, priority: int = 9) -> list[Any]:
    """Gang h of two, for one node each."""
    return [gang("h").min(2), *(pod(f"h{i}").cpu(cpu).priority(priority).gang("h") for i in (1, 2))]


def test_a_stronger_gang_gets_the_room_at_once() -> None:
    """It neither waits for the volumes nor evicts anybody; the weaker one is decided anew and finds no room."""
    cluster = waiting()
    cluster.show(*stronger())
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"h1", "h2"}
    assert names(cluster, Remove) == set()
    assert cluster.core.states() == {G: "Backoff"}
    assert cluster.core.world.snapshot.volumes.assumed == {}
    assert not cluster.core.ledger.holders()


@pytest.mark.parametrize("priority", [0, -1])
def test_others_wait(priority: int) -> None:
    """Gangs of the same or a lower priority do not get the room."""
    cluster = waiting()
    cluster.show(*stronger(priority=priority))
    cluster.run()
    assert cluster.core.states() == {G: "PreBinding", "d/h": "Backoff"}
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_nominations_are_withdrawn_before_the_gang_is_decided_anew() -> None:
    """Its victims have gone, its volumes are being bound, a stronger gang comes: no record of the plan stays."""
    cluster = waiting(*(pod(f"v{i}").cpu(1).priority(-1).on(f"n{i}") for i in (1, 2)))
    cluster.leave()
    cluster.run()
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.show(*stronger())
    cluster.run()
    assert names(cluster, WithdrawNomination) == {"m1", "m2"}
    assert set(nodes_of(cluster.log)) == {"h1", "h2"}
    assert names(cluster, Remove) == {"v1", "v2"}
    assert_clean(cluster)


def test_what_is_bound_stays_bound_and_is_not_asked_for_again() -> None:
    """The volume reaches n2 only: the gang waits for that node, and goes on with the claim as it is."""
    cluster = waiting()
    cluster.bind_claims("c2")
    cluster.run()
    cluster.show(*stronger())
    cluster.run()
    found = cluster.storage["PersistentVolumeClaim", "c2"]
    assert isinstance(found, PersistentVolumeClaim)
    assert (found.bound, found.volume_name) == (True, "v2")
    cluster.show(node("n3").cpu(1))
    cluster.pass_time(20)
    assert nodes_of(cluster.log).keys() == {"h1", "h2"}, "n3 does not reach the volume"
    for name in ("h1", "h2"):
        cluster.delete(name)
    cluster.pass_time(20)
    cluster.bind_claims()
    cluster.run()
    assert {a.pod.name: a.node for a in cluster.log if isinstance(a, Bind) and a.pod.name == "m2"} == {"m2": "n2"}
    assert bound(cluster) == {"m1", "m2"}
    assert [a.claim for a in cluster.log if isinstance(a, BindVolume)] == ["c2"]


def test_writes_that_are_on_their_way_are_waited_for() -> None:
    """While the answer for a volume is out the gang is not decided again; then it goes by what has become of it."""
    cluster = Cluster(node("n1"), LATER, claim("c"), volume("v", "n1"), pod("p").cpu(4).claims("c"))
    cluster.slow = lambda write: isinstance(write, _VOLUME_WRITES)
    cluster.run()
    cluster.show(pod("high").cpu(4).priority(9))
    cluster.run()
    assert cluster.core.states() == {"d/p": "Queued"}
    assert [d.gang.name for d in cluster.decisions] == ["p", "high"]
    go_on(cluster)
    assert cluster.core.states() == {"d/p": "Backoff"}
    cluster.delete("high")
    cluster.pass_time(20)
    cluster.bind_claims()
    cluster.run()
    assert bound(cluster) == {"p"}
    assert len([kind for kind, _ in writes(cluster.log) if kind == "BindVolume"]) == 1


def test_a_stronger_gang_that_fits_beside_it_changes_nothing() -> None:
    """Only who takes the room ends the plan."""
    cluster = waiting(node("n3").cpu(1))
    cluster.show(pod("h").cpu(1).priority(9).selector(**{"kubernetes.io/hostname": "n3"}))
    cluster.run()
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.bind_claims()
    cluster.run()
    assert bound(cluster) == {"h", "m1", "m2"}


def test_the_stronger_gang_may_have_volumes_too() -> None:
    """Both would wait for volumes on the same node: the room is the stronger one's as soon as it is decided."""
    cluster = Cluster(node("n1").cpu(1), LATER, claim("c1"), claim("c2"), volume("v1"), volume("v2"))
    cluster.show(pod("low").cpu(1).claims("c1"))
    cluster.run()
    cluster.show(pod("high").cpu(1).priority(9).claims("c2"))
    cluster.run()
    assert cluster.core.states() == {"d/low": "Backoff", "d/high": "PreBinding"}
    assert {a.claim: a.volume for a in cluster.log if isinstance(a, BindVolume)} == {"c1": "v1", "c2": "v2"}
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"high": "n1"}


def test_members_that_ran_and_are_gone_make_the_plan_too_small() -> None:
    """One of two ran, the other waits for its volume; the first is re-created: both are placed, none alone."""
    cluster = Cluster(node("n1"), LATER, gang("g").min(2), claim("c"), volume("v"), pod("m1").gang("g").on("n1"))
    cluster.show(pod("m2").gang("g").claims("c"))
    cluster.run()
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.show(pod("m1").uid("again").cpu(8).gang("g"))
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {}, "m1 does not fit any more"
    cluster.show(node("n2").cpu(8))
    cluster.pass_time(20)
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_room_of_a_pod_that_is_on_its_way_out_is_not_there_yet() -> None:
    """Another scheduler's pod has taken it and is being deleted: the gang is bound when it is gone."""
    cluster = waiting()
    cluster.show(pod("thief").cpu(1).scheduler(OTHERS).on("n1").terminating())
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.leave()
    cluster.pass_time(20)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_its_members_that_run_are_candidates_like_others() -> None:
    """A gang with a further member that waits for its volume has posted nothing: who may be evicted stays so."""
    cluster = Cluster(node("n1"), LATER, gang("g").min(1), claim("c"), volume("v"), pod("m1").cpu(3).gang("g").on("n1"))
    cluster.show(pod("m2").cpu(1).gang("g").claims("c"))
    cluster.run()
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.show(pod("high").cpu(4).priority(9))
    cluster.run()
    assert names(cluster, Remove) == {"m1"}
    cluster.bind_claims()
    cluster.leave()
    cluster.pass_time(20)
    assert bound(cluster) == {"high"}


def test_a_restart_after_giving_way_keeps_the_order() -> None:
    """A new process sees a claim that is bound and a gang that waits, nothing else."""
    cluster = waiting()
    cluster.bind_claims("c2")
    cluster.show(*stronger())
    cluster.run()
    before = len(cluster.log)
    cluster.restart()
    cluster.run()
    assert writes(cluster.log[before:]) == []
    for name in ("h1", "h2"):
        cluster.delete(name)
    cluster.pass_time(20)
    cluster.bind_claims()
    cluster.run()
    assert bound(cluster) == {"m1", "m2"}


def test_rules_that_look_beyond_the_node_are_asked_again_at_the_end() -> None:
    """Another scheduler has bound a pod elsewhere in the zone that the member must not be near."""
    away = PodTerm("zone", selects(app="x"), ("d",))
    cluster = Cluster(
        *(node(name).label(zone=zone) for name, zone in (("n1", "a"), ("n2", "a"))),
        LATER,
        claim("c"),
        volume("v"),
        pod("p").claims("c").shape(anti_affinity=(away,)).selector(**{"kubernetes.io/hostname": "n1"}),
    )
    cluster.run()
    assert cluster.core.states() == {"d/p": "PreBinding"}
    cluster.show(pod("x").label(app="x").scheduler(OTHERS).on("n2"))
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert cluster.core.states() == {"d/p": "Backoff"}
