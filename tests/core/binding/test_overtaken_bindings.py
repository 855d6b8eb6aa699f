"""Bindings that were not sent, because others had bound pods to the same nodes since they were decided."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind, Nominate, Report, SetCondition, WithdrawNomination, Write
from gangsched.core.events import Outcome
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.core.lifecycle.report import SCHEDULED
from tests.builders import gang, node, pod
from tests.core.harness import Cluster
from tests.core.stories import assert_clean, evicted, names, preempting


def overtaken(cluster: Cluster, *theirs: tuple[str, str, float]) -> None:
    """The next bindings of ours wait; so many pods of others (name, node, CPU) come first, then theirs are answered."""
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    assert cluster.waiting
    cluster.show(*(pod(name).scheduler("another").cpu(cpu).on(on) for name, on, cpu in theirs))
    taken = {on for _, on, _ in theirs}
    told = {w.id for w in cluster.waiting if isinstance(w, Bind) and w.node in taken}
    cluster.judge = lambda w: (
        (Outcome.OUTDATED, "d/x has been bound there") if isinstance(w, Bind) and w.id in told else None
    )
    cluster.slow = lambda _: False
    cluster.answer()


def asked(cluster: Cluster, name: str) -> list[str]:
    """The nodes that bindings of a pod were asked for, in order."""
    return [a.node for a in cluster.log if isinstance(a, Bind) and a.pod.name == name]


def whole(size: int = 2, cpu: float = 3, nodes: int = 3) -> Cluster:
    """A gang and more nodes than it needs, of 4 CPUs each."""
    members = [pod(f"m{i}").cpu(cpu).gang("g") for i in range(1, size + 1)]
    return Cluster(*(node(f"n{i}") for i in range(1, nodes + 1)), gang("g").min(size), *members)


def test_a_member_that_still_fits_is_bound_where_it_was_to_be() -> None:
    """At once, and nobody is told anything but that it is bound."""
    cluster = whole()
    overtaken(cluster, ("x", "n1", 1), ("y", "n2", 1), ("z", "n3", 1))
    actions = cluster.run()
    assert {name: asked(cluster, name) for name in ("m1", "m2")} == {"m1": ["n1", "n1"], "m2": ["n2", "n2"]}
    assert {cluster.pod(n).node for n in ("m1", "m2")} == {"n1", "n2"}
    assert not [a for a in actions if isinstance(a, SetCondition)]
    assert {a.reason for a in actions if isinstance(a, Report)} == {SCHEDULED}
    assert cluster.core.states() == {}


def test_a_member_whose_room_was_taken_goes_elsewhere_at_once() -> None:
    """The other one stays where it is, and the gang ends whole."""
    cluster = whole()
    overtaken(cluster, ("x", "n1", 3))
    cluster.run()
    assert (cluster.pod("m1").node, cluster.pod("m2").node) == ("n3", "n2")
    assert asked(cluster, "m2") == ["n2"]


def test_what_is_not_resources_is_looked_at_too() -> None:
    """A host port that somebody else's pod has taken."""
    cluster = Cluster(node("n1"), node("n2"), pod("p").cpu(1).port(80))
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    [first] = asked(cluster, "p")
    cluster.show(pod("x").scheduler("another").port(80).on(first))
    cluster.slow = lambda _: False
    [held] = cluster.waiting
    cluster.judge = lambda w: (Outcome.OUTDATED, "x") if w is held else None
    cluster.answer()
    cluster.run()
    assert cluster.pod("p").node == {"n1": "n2", "n2": "n1"}[first]


def test_a_busy_neighbour_starves_nobody() -> None:
    """However often it happens in a row, there is no pause, and no binding of a gang counts as refused for it."""
    cluster = whole(nodes=2)
    left = 20

    def judge(write: Write) -> tuple[Outcome, str] | None:
        nonlocal left
        if not isinstance(write, Bind) or not left:
            return None
        left -= 1
        cluster.show(pod(f"x{left}").scheduler("another").on(write.node))
        return Outcome.OUTDATED, "because"

    cluster.judge = judge
    cluster.run()
    assert left == 0
    assert cluster.now == 0.0
    assert {cluster.pod(n).node for n in ("m1", "m2")} == {"n1", "n2"}
    assert cluster.core.states() == {}


def test_the_room_is_kept_while_other_members_are_on_their_way() -> None:
    """Nobody else of ours gets it before the gang has been looked at again."""
    cluster = whole(nodes=2)
    cluster.slow = lambda write: isinstance(write, Bind) and write.pod.name == "m2"
    cluster.judge = lambda w: (Outcome.OUTDATED, "because") if isinstance(w, Bind) and w.pod.name == "m1" else None
    cluster.run()
    cluster.show(pod("p").cpu(3))
    cluster.run()
    assert asked(cluster, "p") == []
    cluster.judge = lambda _: None
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert {cluster.pod(n).node for n in ("m1", "m2")} == {"n1", "n2"}


@pytest.mark.parametrize("cpu", [1, 2])
def test_a_preempting_gang_keeps_its_nominations_while_it_fits(cpu: int) -> None:
    """They keep others off: they are taken back only when the room is gone."""
    cluster = preempting()
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.leave()
    overtaken(cluster, ("x", "n1", cpu))
    cluster.pass_time(ROUND_PAUSE_SECONDS)
    fits = cpu == 1
    assert names(cluster, WithdrawNomination) == (set() if fits else {"m1"})
    assert sum(isinstance(a, Nominate) for a in cluster.log) == (2 if fits else 3)
    assert evicted(cluster) == (set() if fits else {"x"})
    cluster.leave()
    cluster.run()
    assert {cluster.pod(n).node for n in ("m1", "m2")} == {"n1", "n2"}
    assert cluster.core.states() == {}
    assert_clean(cluster)


@pytest.mark.parametrize("other", [Outcome.CONFLICT, Outcome.REFUSED, Outcome.GONE])
def test_beside_another_failure(other: Outcome) -> None:
    """Both members are placed anew, none is taken for bound."""
    cluster = whole(nodes=4)
    answers = {"m1": Outcome.OUTDATED, "m2": other}
    cluster.judge = lambda w: (answers.pop(w.pod.name), "because") if w.pod.name in answers else None
    cluster.pass_time(10)
    assert answers == {}
    assert {bool(cluster.pod(n).node) for n in ("m1", "m2")} == {True}
    assert cluster.core.states() == {}


def test_beside_a_binding_whose_fate_is_unknown() -> None:
    """That is repeated first; the one that was not sent keeps its room meanwhile, and is bound afterwards."""
    cluster = whole(nodes=2)
    answers = {"m1": Outcome.OUTDATED, "m2": Outcome.TRANSIENT}
    cluster.judge = lambda w: (answers.pop(w.pod.name), "because") if w.pod.name in answers else None
    cluster.run()
    cluster.show(pod("p").cpu(3))
    cluster.pass_time(10)
    assert {cluster.pod(n).node for n in ("m1", "m2")} == {"n1", "n2"}
    assert asked(cluster, "p") == []


def test_a_gang_that_is_regrouped_meanwhile_takes_no_room_for_it() -> None:
    """A member that was not bound is pending again, and is placed with its new group."""
    cluster = whole(nodes=2)
    cluster.slow = lambda write: isinstance(write, Bind) and write.pod.name == "m2"
    answers = [Outcome.OUTDATED]
    cluster.judge = lambda w: (answers.pop(), "because") if w.pod.name == "m1" and answers else None
    cluster.run()
    pair = ("d/g", "d/h")
    cluster.show(gang("g").min(2).group(*pair), gang("h").group(*pair), pod("x").scheduler("another").cpu(3).on("n1"))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert asked(cluster, "m1") == ["n1"]
    cluster.show(node("n3"), pod("h1").cpu(1).gang("h"))
    cluster.run()
    assert {n: cluster.pod(n).node for n in ("m1", "m2")} == {"m1": "n3", "m2": "n2"}
    assert cluster.core.states() == {}


def test_a_member_that_is_gone_by_then() -> None:
    """It is not asked for again; the others wait for another one."""
    cluster = whole()
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    cluster.delete("m1")
    cluster.judge = lambda w: (Outcome.OUTDATED, "because") if isinstance(w, Bind) and w.pod.name == "m1" else None
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert len(asked(cluster, "m1")) == 1
    cluster.show(pod("m3").cpu(3).gang("g"))
    cluster.pass_time(10)
    assert all(cluster.pod(n).node for n in ("m2", "m3"))
