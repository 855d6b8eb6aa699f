"""Bindings that are refused for good: their members go to other nodes, and nobody is evicted for that."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from gangsched.core.actions import Bind, Nominate, Remove, Write
from gangsched.core.events import Outcome
from gangsched.core.planning.avoiding import kept_off
from gangsched.model.records import IN, NodeTerm, Requirement, SpreadConstraint
from gangsched.model.selectors import any_node_term_matches
from tests.builders import gang, node, pod, selects
from tests.core.harness import Cluster, Judge
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
