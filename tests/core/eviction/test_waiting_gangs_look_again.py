"""A gang that waits for pods to leave is not deaf: when other room is freed meanwhile it is bound there."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.cli.simulation import simulate
from gangsched.cluster.sim.history import moment
from gangsched.core.actions import Mark, Nominate, Remove, WithdrawNomination
from gangsched.core.events import Outcome
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster, event, nodes_of
from tests.core.stories import names
from tests.judge.invariants import violations


def waiting(*others: Built, **options: Any) -> Cluster:
    """Gang g of two has evicted v1 and v2, which still terminate."""
    cluster = Cluster(
        node("n1"), node("n2"), gang("g").min(2), *(pod(f"v{i}").cpu(3).on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)), *others, **options,
    )  # fmt: skip
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v2"}
    return cluster


def depending(priority: int = 4) -> Cluster:
    """``second``, of priority 4, lives off what ``first`` evicts; the mark of that is not answered."""
    cluster = Cluster(
        node("n1"),
        pod("v").cpu(4).on("n1").priority(priority),
        pod("first").cpu(3).priority(5),
        pod("second").cpu(1).priority(4),
    )
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert names(cluster, Nominate) == {"first", "second"}
    return cluster


def test_nodes_that_appear_are_used() -> None:
    """The members are bound there while the victims go on terminating; nobody else leaves for them."""
    cluster = waiting()
    cluster.show(node("n3"), node("n4"))
    cluster.run()
    assert set(nodes_of(cluster.log).values()) == {"n3", "n4"}
    cluster.leave()
    cluster.run()
    ledger = cluster.core.ledger
    assert (names(cluster, Remove), ledger.awaited, set(ledger.holders())) == ({"v1", "v2"}, {}, set())


def test_one_node_does_for_a_part_that_waits() -> None:
    """One victim has gone and one has not: the member for the second node goes to the new one."""
    cluster = waiting()
    cluster.leave("v1")
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.show(node("n3"))
    cluster.run()
    assert set(nodes_of(cluster.log).values()) == {"n1", "n3"}


def test_room_that_does_not_do_changes_nothing() -> None:
    """The gang needs two places; it keeps waiting, and its plan stands."""
    cluster = waiting()
    cluster.show(node("n3"))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert len(cluster.decisions) == 1
    cluster.leave()
    cluster.run()
    assert len(nodes_of(cluster.log)) == 2


@pytest.mark.parametrize("how", ["ends", "is deleted", "is resized"])
def test_room_of_others_is_used(how: str) -> None:
    """A pod that was no victim leaves by itself, or gives room back."""
    cluster = waiting(node("n3").cpu(6), pod("x").cpu(6).priority(9).on("n3"))
    if how == "ends":
        cluster.change("x", phase="Succeeded")
    elif how == "is deleted":
        cluster.delete("x")
    else:
        cluster.show(pod("x").cpu(0).priority(9).on("n3"))
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n3", "m2": "n3"}


def test_a_plan_that_depends_on_another_is_taken_back() -> None:
    """Nothing had begun for it. The other plan goes on."""
    cluster = depending()
    cluster.show(node("n2").cpu(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"second": "n2"}
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"first": "n1", "second": "n2"}


@pytest.mark.parametrize("moves", [False, True])
def test_a_member_that_is_nominated_elsewhere_no_longer_keeps_the_others_waiting_when_it_is_gone(moves: bool) -> None:
    """It is deleted, or becomes another gang's, before its nomination is taken back."""
    cluster = Cluster(
        node("n1"),
        gang("g").min(1),
        gang("h").min(2),
        pod("v").cpu(4).on("n1"),
        *(pod(f"m{i}").cpu(2).priority(5).gang("g") for i in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, WithdrawNomination)
    cluster.run()
    cluster.show(node("n2").cpu(2))
    cluster.run()
    cluster.answer("m1")
    cluster.run()
    assert (nodes_of(cluster.log), names(cluster, WithdrawNomination)) == ({}, {"m1", "m2"})
    if moves:
        cluster.show(pod("m2").cpu(2).priority(5).gang("h").nominated("n1"))
    else:
        cluster.delete("m2")
        cluster.judge = lambda write: (Outcome.GONE, "no such pod") if write.pod.name == "m2" else None
    cluster.run()
    cluster.answer("m2")
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n2"}


@pytest.mark.parametrize("priority", [4, 3], ids=["depends", "owns"])
def test_marks_that_are_on_their_way_are_taken_back(priority: int) -> None:
    """There is room before the first removal: nobody is evicted."""
    cluster = depending(priority)
    cluster.show(node("n2"))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert (names(cluster, Remove), nodes_of(cluster.log)) == (set(), {"first": "n2", "second": "n2"})
    said = cluster.pod("v").disruption
    assert said is not None
    assert said.status == "False"


def test_whoever_is_first_in_the_queue_is_bound_first() -> None:
    """A stronger pod that is new gets the node; the one that waits goes on waiting."""
    cluster = Cluster(node("n1"), pod("v").cpu(3).on("n1"), pod("weak").cpu(3).priority(5))
    cluster.run()
    cluster.show(node("n2"), pod("strong").cpu(3).priority(9))
    cluster.run()
    assert nodes_of(cluster.log) == {"strong": "n2"}
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"strong": "n2", "weak": "n1"}


def test_room_that_is_kept_for_others_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Victims go one by one, and each is the room of one gang: nobody else is looked at."""
    looks = counted(monkeypatch)
    nodes = range(8)
    cluster = Cluster(
        *(node(f"n{i}") for i in nodes), *(pod(f"v{i}").cpu(4).on(f"n{i}") for i in nodes),
        *(pod(f"p{i}").cpu(4).priority(5) for i in nodes),
    )  # fmt: skip
    cluster.run()
    for i in nodes:
        cluster.leave(f"v{i}")
        cluster.run()
    assert (len(nodes_of(cluster.log)), looks) == (8, [])


def test_of_pods_that_are_alike_the_first_one_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with room that takes none of them is looked at once, and not for each."""
    looks = counted(monkeypatch)
    nodes = range(8)
    cluster = Cluster(
        *(node(f"n{i}") for i in nodes), *(pod(f"v{i}").cpu(4).on(f"n{i}") for i in nodes),
        *(pod(f"p{i}").cpu(4).priority(5).created(i) for i in nodes),
    )  # fmt: skip
    cluster.run()
    cluster.show(node("new").taint("only", "others"))
    cluster.run()
    assert (nodes_of(cluster.log), looks) == ({}, ["p0"])
    cluster.show(node("new"))
    cluster.run()
    assert nodes_of(cluster.log) == {"p0": "new"}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The gangs that are looked at again from now on."""
    looks: list[str] = []
    found = Decider.decide

    def decide(self: Decider, asked: Question) -> Any:
        if asked.at_once:
            looks.append(asked.gangs[0].name)
        return found(self, asked)

    monkeypatch.setattr(Decider, "decide", decide)
    return looks


def test_in_a_simulation_a_gang_starts_where_a_job_has_ended() -> None:
    """Its victims have a minute to stop; ten seconds after the decision another pod ends by itself."""
    objects: list[Built] = [
        node("n1"), node("n2"), pod("v").cpu(3).on("n1").field(grace_seconds=60.0), pod("p").cpu(3).priority(5),
        pod("job").cpu(3).priority(9).on("n2").hint("sim.gangsched.dev/run-for", "10s"),
    ]  # fmt: skip
    run = simulate([event(o) for o in objects], Options(), until_seconds=30.0)
    assert violations(run.history, run.options) == []
    assert moment(run.history, len(run.history)).pods["uid-d-p"].node == "n2"
