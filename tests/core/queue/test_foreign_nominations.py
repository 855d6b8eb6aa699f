"""Nodes to which other schedulers have nominated pods of higher priority are left to these for a while."""

from __future__ import annotations

import pytest

from gangsched.cli.simulation import simulate
from gangsched.cluster.sim.history import moment
from gangsched.core.actions import Remove
from gangsched.core.decision import BIND, UNSCHEDULABLE
from gangsched.core.events import LeadershipChanged
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.core.options import Options
from gangsched.core.state.foreign_nominations import UNUSED_SECONDS
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, event, nodes_of, plan
from tests.core.stories import names


def foreign(priority: int = 9) -> PodBuilder:
    """A pending pod of another scheduler that fills n1, to which it is nominated."""
    return pod("theirs").cpu(4).priority(priority).scheduler("default-scheduler").nominated("n1", intent=False)


@pytest.mark.parametrize(("priority", "outcome"), [(9, UNSCHEDULABLE), (5, BIND), (4, BIND)])
def test_only_strictly_higher_priority_counts(priority: int, outcome: str) -> None:
    """Other nominations hold nothing."""
    found = plan(node("n1"), foreign(priority), pod("ours").cpu(1).priority(5))["d/ours"]
    assert found.outcome == outcome


def test_only_its_room_on_that_node_is_left() -> None:
    """A gang goes elsewhere, and to what is left there."""
    found = plan(
        node("n1").cpu(5), node("n2"), foreign(),
        gang("g").min(2), *(pod(f"m{i}").cpu(cpu).priority(5).gang("g") for i, cpu in enumerate((4, 1))),
    )  # fmt: skip
    assert {p.name: p.node for p in found["d/g"].placements} == {"m0": "n2", "m1": "n1"}


def test_no_victims_are_taken_where_another_scheduler_has_made_room() -> None:
    """The victim of ours would not make the gang fit on n1; one on n2 does."""
    there = [pod("v1").cpu(1).priority(0).on("n1").terminating(), pod("v2").cpu(4).priority(1).on("n2")]
    found = plan(node("n1"), node("n2"), *there, foreign(), pod("ours").cpu(4).priority(5))["d/ours"]
    assert [v.name for v in found.victims] == ["v2"]


def waiting(*others: Built) -> Cluster:
    """A pod of ours does not fit on the only node, which is left to the pod of another scheduler."""
    cluster = Cluster(node("n1"), foreign(), pod("ours").cpu(4).priority(5), *others)
    cluster.run()
    assert nodes_of(cluster.log) == {}
    return cluster


@pytest.mark.parametrize("how", ["deleted", "bound elsewhere", "nominated elsewhere", "nominated no more"])
def test_the_room_is_anybodys_when_the_nomination_ends(how: str) -> None:
    """At once."""
    cluster = waiting(node("n2").cpu(0))
    match how:
        case "deleted":
            cluster.delete("theirs")
        case "bound elsewhere":
            cluster.change("theirs", node="n2", nominated_node="")
        case "nominated elsewhere":
            cluster.change("theirs", nominated_node="n2")
        case _:
            cluster.change("theirs", nominated_node="")
    cluster.pass_time(15)
    assert nodes_of(cluster.log) == {"ours": "n1"}


def test_the_room_is_left_for_two_minutes() -> None:
    """Whatever else changes about the pod."""
    cluster = waiting()
    cluster.pass_time(UNUSED_SECONDS - 20)
    cluster.change("theirs", labels={"seen": "again"})
    cluster.pass_time(19)
    assert nodes_of(cluster.log) == {}
    cluster.pass_time(15)
    assert nodes_of(cluster.log) == {"ours": "n1"}


def test_the_two_minutes_begin_when_the_last_terminating_pod_has_left_the_node() -> None:
    """While one is there the pod could not be bound."""
    cluster = waiting(pod("v").cpu(1).priority(9).on("n1").terminating(1000.0).field(grace_seconds=1000.0))
    cluster.pass_time(200)
    assert nodes_of(cluster.log) == {}
    cluster.leave("v")
    cluster.pass_time(UNUSED_SECONDS - 1)
    assert nodes_of(cluster.log) == {}
    cluster.pass_time(15)
    assert nodes_of(cluster.log) == {"ours": "n1"}


def test_a_plan_gives_way_to_a_nomination_that_comes_later() -> None:
    """The gang takes other room; the victim that has been removed for it is the other pod's."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("v1").cpu(4).on("n1"), pod("v2").cpu(4).priority(1).on("n2"),
        pod("ours").cpu(4).priority(5),
    )  # fmt: skip
    cluster.run()
    assert names(cluster, Remove) == {"v1"}
    cluster.show(foreign())
    cluster.pass_time(ROUND_PAUSE_SECONDS)
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"ours": "n2"}


def test_a_leader_that_comes_knows_of_nominations_that_it_has_seen_before() -> None:
    """They are seen, and not intended."""
    cluster = waiting()
    cluster.handle(LeadershipChanged(False))
    cluster.handle(LeadershipChanged(True))
    cluster.run()
    assert nodes_of(cluster.log) == {}


def test_in_a_simulation_a_gang_starts_when_the_nomination_has_not_been_used() -> None:
    """The other scheduler is not there: after two minutes."""
    objects: list[Built] = [node("n1"), foreign(), pod("ours").cpu(4).priority(5)]
    for until, where in ((119.0, ""), (140.0, "n1")):
        run = simulate([event(o) for o in objects], Options(), until_seconds=until)
        assert moment(run.history, len(run.history)).pods["uid-d-ours"].node == where
