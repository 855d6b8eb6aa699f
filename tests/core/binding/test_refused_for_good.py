"""Bindings that are refused for good: their members go to other nodes, and nobody is evicted for that."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from gangsched.core.actions import Bind, Nominate, Remove, Write
from gangsched.core.events import Outcome
from gangsched.core.planning.context import kept_off
from gangsched.model.constraints import IN, NodeTerm, Requirement, SpreadConstraint
from gangsched.model.selectors import any_node_term_matches
from tests.builders import gang, node, pod, selects
from tests.core.harness import Cluster, Judge, texts
from tests.core.stories import names


def refusing(*pairs: tuple[str, str]) -> Judge:
    """A judge that refuses these pods on these nodes."""

    def judge(write: Write) -> tuple[Outcome, str] | None:
        return (Outcome.REFUSED, "no") if isinstance(write, Bind) and (write.pod.name, write.node) in pairs else None

    return judge


def two(*nodes: str) -> Cluster:
    """A gang of two on these nodes, of which each takes one member."""
    members = [pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)]
    return Cluster(*map(node, nodes), gang("g").min(2), *members)


def test_a_member_goes_where_it_has_not_been_refused() -> None:
    """The next attempt leaves the node out that has refused it, although it is still there and still free."""
    cluster = two("n1", "n2", "n3")
    cluster.judge = refusing(("m1", "n1"), ("m1", "n2"), ("m2", "n2"))
    cluster.pass_time(20)
    assert {n: cluster.pod(n).node for n in ("m1", "m2")} == {"m1": "n3", "m2": "n1"}
    asked = [(a.pod.name, a.node) for a in cluster.log if isinstance(a, Bind)]
    assert len(asked) == len(set(asked))


def test_two_members_that_are_refused_change_places() -> None:
    """It is the member that is kept off a node, not the gang."""
    cluster = two("n1", "n2")
    cluster.judge = refusing(("m1", "n1"), ("m2", "n2"))
    cluster.pass_time(3)
    assert {n: cluster.pod(n).node for n in ("m1", "m2")} == {"m1": "n2", "m2": "n1"}


@pytest.mark.parametrize(("empty", "goes_to"), [(["n1"], ""), (["n1", "n4"], "n4")], ids=["no other", "another"])
def test_a_node_that_has_refused_counts_for_the_spread(empty: list[str], goes_to: str) -> None:
    """Nodes with one pod each are no place for a second one as long as there is a node with none, refused or not."""
    rule = SpreadConstraint("kubernetes.io/hostname", 1, selects(app="web"), True)
    there = [pod(f"on-{name}").cpu(1).label(app="web").on(name) for name in ("n2", "n3")]
    asking = pod("p").cpu(1).label(app="web").shape(spread=(rule,))
    cluster = Cluster(*map(node, [*empty, "n2", "n3"]), *there, asking)
    cluster.judge = refusing(("p", "n1"))
    cluster.pass_time(60)
    assert cluster.pod("p").node == goes_to
    assert {a.node for a in cluster.log if isinstance(a, Bind)} == set(empty)


def test_nobody_is_evicted_because_a_binding_was_refused() -> None:
    """Where only an eviction would make other room, the same node is asked again, until it takes the member."""
    cluster = two("n1", "n2")
    cluster.show(node("n3"), pod("low").cpu(3).priority(1).on("n3"))
    cluster.judge = refusing(("m2", "n2"))
    cluster.pass_time(60)
    assert cluster.pod("m2").node == ""
    cluster.judge = lambda _: None
    cluster.pass_time(20)
    assert cluster.pod("m2").node == "n2"
    assert names(cluster, Remove) == names(cluster, Nominate) == set()


def test_when_every_node_has_refused_all_are_tried_again() -> None:
    """One of them may have changed its mind: each is asked once before any is asked again."""
    cluster = Cluster(*(node(f"n{i}") for i in (1, 2, 3)), pod("p").cpu(3))
    cluster.judge = refusing(*(("p", f"n{i}") for i in (1, 2, 3)))
    cluster.pass_time(60)
    asked = [a.node for a in cluster.log if isinstance(a, Bind)]
    assert len(asked) >= 6
    assert set(asked[:3]) == set(asked[3:6]) == {"n1", "n2", "n3"}


def test_a_gang_that_is_bound_forgets_who_has_refused_it() -> None:
    """A member that comes later may go anywhere."""
    cluster = two("n1", "n2", "n3")
    cluster.judge = refusing(("m1", "n1"))
    cluster.pass_time(5)
    cluster.judge = lambda _: None
    (free,) = {"n1", "n2", "n3"} - {cluster.pod(n).node for n in ("m1", "m2")}
    cluster.show(pod("m3").cpu(3).priority(5).gang("g"))
    cluster.pass_time(5)
    assert cluster.pod("m3").node == free


def refused_for_ever(size: int) -> Cluster:
    """A gang of this size, or a single pod, whose m1 no node takes; weak work comes back whenever it was evicted."""
    names_of = [f"m{i + 1}" for i in range(size)]
    members = [pod(n).cpu(3).priority(5) for n in names_of]
    cluster = Cluster(*(node(f"n{i + 1}") for i in range(size)))
    if size > 1:
        cluster.show(gang("g").min(size), *(member.gang("g") for member in members))
    else:
        cluster.show(*members)
    cluster.judge = lambda w: (Outcome.REFUSED, "no") if isinstance(w, Bind) and w.pod.name == "m1" else None
    cluster.run()
    cluster.show(pod("weak").cpu(3).priority(1))
    return cluster


def evictions(cluster: Cluster, seconds: int) -> list[float]:
    """When the weak pod was evicted in this time, to ten seconds."""
    out: list[float] = []
    for round_ in range(seconds // 10):
        before = len(cluster.log)
        cluster.pass_time(10)
        out += [cluster.now for a in cluster.log[before:] if isinstance(a, Remove)]
        cluster.leave()
        cluster.run()
        if ("d", "weak") not in cluster.pods:
            cluster.show(pod("weak").cpu(3).priority(1).uid(f"weak-{round_}").created(cluster.now))
    return out


@pytest.mark.parametrize("size", [1, 2])
def test_a_member_that_is_refused_for_ever_evicts_less_and_less(size: int) -> None:
    """Whoever leaves for it does so in vain: there are pauses of 2, 4, 8, 16, 30 minutes, and 30 from then on."""
    cluster = refused_for_ever(size)
    found = evictions(cluster, 160 * 60)
    minutes = [round(t / 60) for t in found]
    gaps = [later - earlier for earlier, later in zip([0, *minutes], minutes, strict=False)]
    assert gaps == [2, 4, 8, 16, 30, 30, 30, 30]
    assert len([m for m in minutes if m <= 60]) <= 5


def test_a_member_that_waits_for_the_end_of_its_pause_says_so() -> None:
    """Its condition has the reason and the time."""
    cluster = refused_for_ever(1)
    cluster.pass_time(60)
    assert (
        "a binding was refused, and so the gang pauses; no pod is evicted for it until 1970-01-01T00:02:00Z"
        in (texts(cluster.log, "m1")[-1][1])
    )


def test_a_member_that_is_not_what_was_refused_may_evict() -> None:
    """Its labels have changed: whoever refused it may let it through now."""
    cluster = refused_for_ever(2)
    cluster.pass_time(60)
    assert cluster.pod("weak").node
    assert names(cluster, Remove) == set()
    cluster.change("m1", labels={"allowed": "yes"})
    cluster.judge = lambda _: None
    cluster.run()
    assert names(cluster, Remove) == {"weak"}
    cluster.leave()
    cluster.run()
    assert cluster.pod("m1").node


def test_a_member_that_was_bound_after_all_has_no_pause() -> None:
    """What was refused once and has run since is like any other: its successor evicts at once."""
    cluster = refused_for_ever(2)
    cluster.judge = lambda _: None
    cluster.pass_time(20)
    assert cluster.pod("m1").node
    cluster.delete("m1")
    cluster.pass_time(60)
    assert cluster.pod("weak").node
    cluster.show(pod("m1").uid("again").cpu(3).priority(5).gang("g"))
    cluster.run()
    assert names(cluster, Remove) == {"weak"}


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        (None, {"b", "c"}),
        ((), set()),
        ((NodeTerm(),), set()),
        ((NodeTerm(fields=(Requirement("metadata.name", IN, ("a", "b")),)),), {"b"}),
        ((NodeTerm((Requirement("zone", IN, ("west",)),)), NodeTerm()), {"c"}),
    ],
    ids=["nothing asked", "no term", "an empty term", "a name", "a label or nothing"],
)
def test_a_pod_is_kept_off_beside_what_it_asks_for(terms: tuple[NodeTerm, ...] | None, left: Collection[str]) -> None:
    """Node c is in the west; a is left out."""
    asked = pod("p").shape(node_terms=terms).obj()
    found = kept_off(asked, {"a"}).shape.node_terms
    assert found is not None
    zone = {"a": "west", "b": "east", "c": "west"}
    assert {n for n in zone if any_node_term_matches(found, n, {"zone": zone[n]})} == left
