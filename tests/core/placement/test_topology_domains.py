"""Topology domains: which one a gang goes into, without evictions and with them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT, Decision, Unschedulable
from gangsched.core.planning.topology import MAX_SEARCHES, OUTSIDE
from gangsched.model.constraints import PodTerm
from tests.amounts import amount
from tests.builders import GangBuilder, NodeBuilder, PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, placed, plan, victims

REQUIRED = (("rack", True),)
PREFERRED = (("rack", False),)


def rack(name: str, *nodes: str, cpu: float = 4) -> list[NodeBuilder]:
    """Nodes of one rack."""
    return [node(n).label(rack=name).cpu(cpu) for n in nodes]


def members(count: int, cpu: float = 3, name: str = "g") -> list[PodBuilder]:
    """Pending members of a gang, of priority 5."""
    return [pod(f"{name}{i}").cpu(cpu).priority(5).gang(name) for i in range(count)]


def wants(minimum: int, topology: Sequence[tuple[str, bool]] = REQUIRED, name: str = "g") -> GangBuilder:
    """A group with these constraints."""
    return gang(name).min(minimum).field(topology=tuple(topology))


def full(name: str, on: str, priority: int = 0) -> PodBuilder:
    """A pod that leaves no room for a member on its node."""
    return pod(name).cpu(3).priority(priority).on(on)


def decided(*objects: Built, **options: int) -> Decision:
    """The decision about gang ``g``."""
    return plan(*objects, **options)["d/g"]


def outcome(found: Decision) -> tuple[str, str | None, list[str], list[str]]:
    """What, where, on which nodes, at whose cost."""
    return found.outcome, found.topology_domain, sorted(placed(found).values()), victims(found)


A, B = rack("a", "a1", "a2"), rack("b", "b1", "b2")


# -- required, without evictions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "minimum", "number", "expected"),
    [
        ([*A, *B, full("x", "a1")], 2, 2, "b"),
        ([*rack("a", "a1", "a2", "a3"), *B, *rack("c", "c1", "c2", "c3", "c4")], 2, 2, "b"),
        ([*rack("a", "a1", "a2", "a3"), *B, full("x", "a1"), full("y", "b1")], 2, 2, "a"),
        ([*B, *rack("c", "c1", "c2", "c3"), *rack("d", "d1", "d2", "d3", "d4")], 2, 3, "c"),
        ([*B, *rack("c", "c1", "c2", "c3")], 3, 3, "c"),
        ([*rack("b", "b1", "b2", "b3", cpu=3), *rack("a", "a1", cpu=9)], 3, 3, "a"),
        ([*B, *A], 2, 2, "a"),
    ],
    ids=[
        "has-room",
        "best-packed",
        "free-room-counts",
        "most-members",
        "large-enough",
        "fewest-nodes",
        "first-by-name",
    ],
)
def test_the_domain_without_evictions(objects: list[Built], minimum: int, number: int, expected: str) -> None:
    """The domain that takes most members, then the one that is left with least room, then the smallest."""
    found = decided(*objects, wants(minimum), *members(number))
    assert (found.outcome, found.topology_domain) == (BIND, f"rack={expected}")
    assert {to[0] for to in placed(found).values()} == {expected}
    assert len(placed(found)) == number


def test_without_a_constraint_the_gang_may_spread() -> None:
    """The same cluster, for comparison: nothing keeps the members together, and no domain is named."""
    objects: list[Built] = [*A, *B, full("x", "a1"), full("y", "b1"), *members(2)]
    assert outcome(decided(*objects, wants(2, ()))) == (BIND, None, ["a2", "b2"], [])
    assert decided(*objects, wants(2)).outcome == PREEMPT


def test_nodes_without_the_label_are_left_out() -> None:
    """Room there does not count."""
    assert outcome(decided(node("n1"), node("n2"), *A, wants(2), *members(2)))[1:3] == ("rack=a", ["a1", "a2"])
    found = decided(node("n1"), node("n2"), *rack("a", "a1"), wants(2), *members(2))
    assert found.outcome == UNSCHEDULABLE
    assert found.message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't have the label rack. preemption: "
    )
    assert found.message.endswith(" topology: the gang needs one domain of rack: there is only rack=a.")


def test_no_node_has_the_label() -> None:
    """The reason names the label: it may be misspelt."""
    found = decided(node("n1"), wants(1), *members(1))
    assert (found.outcome, found.topology_domain) == (UNSCHEDULABLE, None)
    assert found.message == (
        "0/1 nodes are available: 1 node(s) didn't have the label rack. topology: no node has the label rack."
    )


def test_mixed_members() -> None:
    """Each class of members is counted with its own request: a rack for one of them only is none."""
    launcher = pod("l").cpu(1).gpu(1).priority(5).gang("g")
    objects: list[Built] = [*A, *rack("b", "b1", "b2"), node("b3").label(rack="b").gpu(1).cpu(1)]
    found = decided(*objects, wants(3), launcher, *members(2))
    assert outcome(found) == (BIND, "rack=b", ["b1", "b2", "b3"], [])


def test_a_domain_that_only_seems_to_hold_the_gang_is_passed_over() -> None:
    """Counting looks at resources; rules between pods are found out by placing the members."""
    apart = PodTerm("kubernetes.io/hostname", selects(app="x"), ("d",))
    one_each = [p.label(app="x").shape(anti_affinity=(apart,)) for p in members(2, cpu=1)]
    found = decided(*rack("a", "a1"), *rack("b", "b1", "b2", cpu=9), wants(2), *one_each)
    assert outcome(found) == (BIND, "rack=b", ["b1", "b2"], [])


def test_members_beyond_the_minimum_stay_in_the_domain() -> None:
    """They do not go elsewhere though there is room."""
    found = decided(*A, *B, full("x", "a1"), full("y", "b2", 9), wants(1), *members(3))
    assert (found.outcome, len(placed(found)), found.topology_domain) == (BIND, 1, "rack=a")
    assert [u.reasons for u in found.unplaced] == [("2 Insufficient cpu", f"2 {OUTSIDE}")] * 2


def test_several_required_labels() -> None:
    """The members share all of them: racks of the same name in two zones are two domains."""
    objects: list[Built] = [
        node("a1").label(zone="a", rack="1"),
        node("b1").label(zone="b", rack="1"),
        node("b2").label(zone="b", rack="2"),
        node("c1").label(zone="c", rack="1"),
        node("c2").label(zone="c", rack="1"),
    ]
    found = decided(*objects, wants(2, (("zone", True), ("rack", True))), *members(2))
    assert outcome(found) == (BIND, "zone=c,rack=1", ["c1", "c2"], [])


# -- required, with evictions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([full("x", "a1"), full("y", "b1").terminating()], (WAIT, "rack=b", ["b1", "b2"], [])),
        ([full("x", "a1", 1), full("y", "b1", 2)], (PREEMPT, "rack=a", ["a1", "a2"], ["x"])),
        ([full("x", "a1", 2), full("y", "b1", 1)], (PREEMPT, "rack=b", ["b1", "b2"], ["y"])),
        ([full("x", "a1"), full("z", "a2"), full("y", "b1")], (PREEMPT, "rack=b", ["b1", "b2"], ["y"])),
        ([full("x", "a1", 9), full("y", "b1", 4), full("z", "b2", 4)], (PREEMPT, "rack=b", ["b1", "b2"], ["y", "z"])),
        ([full("x", "a1", 9), full("y", "b1", 9)], (UNSCHEDULABLE, None, [], [])),
    ],
    ids=["waiting-is-better", "lower-priority", "lower-priority-elsewhere", "fewer-pods", "only-one", "none"],
)
def test_the_domain_with_evictions(
    objects: list[Built], expected: tuple[str, str | None, list[str], list[str]]
) -> None:
    """Room that is being freed before evictions; then the domain where the least harm is done."""
    assert outcome(decided(*A, *B, *objects, wants(2), *members(2))) == expected


def test_a_free_domain_is_better_than_any_eviction() -> None:
    """The free rack is worse packed."""
    found = decided(*A, *rack("b", "b1", "b2", "b3", "b4"), full("x", "a1"), wants(2), *members(2))
    assert outcome(found)[:2] == (BIND, "rack=b")


def test_a_gang_in_two_racks_leaves_both() -> None:
    """A unit goes as a whole, wherever its members are; that is weighed like any other harm."""
    low = [pod(f"v{i}").cpu(3).gang("v").on(on) for i, on in enumerate(("a1", "c1"))]
    objects: list[Built] = [*A, *rack("c", "c1", "c2"), gang("v").min(2), *low, full("z", "c2", 9)]
    found = decided(*objects, wants(2), *members(2))
    assert outcome(found) == (PREEMPT, "rack=a", ["a1", "a2"], ["v0", "v1"])
    found = decided(*objects, *B, full("y", "b1"), wants(2), *members(2))
    assert outcome(found) == (PREEMPT, "rack=b", ["b1", "b2"], ["y"])


def test_never_preempting_gangs_wait() -> None:
    """The reason is that of any gang, with the domain that comes nearest."""
    found = decided(*A, full("x", "a1"), *B, full("y", "b1"), full("z", "b2"), wants(2),
                    *(p.never() for p in members(2)))  # fmt: skip
    assert found.message == (
        f"0/4 nodes are available: 2 Insufficient cpu, 2 {OUTSIDE}. preemption: not eligible due to "
        "preemptionPolicy=Never. topology: the gang needs one domain of rack: 2 domains, rack=a comes nearest."
    )


def test_why_evictions_do_not_help() -> None:
    """Blockers are members without a node in the nearest domain even when everybody has left."""
    found = decided(*A, *rack("b", "b1"), full("x", "a1", 9), full("y", "a2"), wants(2), *members(2))
    assert isinstance(found, Unschedulable)
    assert "the gang would not fit even if the only lower-priority pod" in found.message
    assert len(found.blockers) == 1


# -- bound members -----------------------------------------------------------------------------------------


def bound(name: str, on: str) -> PodBuilder:
    """A member that runs already."""
    return pod(name).cpu(3).priority(5).gang("g").on(on)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], (BIND, "rack=a", ["a2"], [])),
        ([full("x", "a2")], (PREEMPT, "rack=a", ["a2"], ["x"])),
        ([full("x", "a2").terminating()], (WAIT, "rack=a", ["a2"], [])),
        ([full("x", "a2", 9)], (UNSCHEDULABLE, None, [], [])),
    ],
    ids=["bind", "preempt", "wait", "unschedulable"],
)
def test_the_others_follow_bound_members(
    objects: list[Built], expected: tuple[str, str | None, list[str], list[str]]
) -> None:
    """Only their domain counts, however much room there is in others."""
    found = decided(*A, *B, *objects, wants(2), bound("m", "a1"), *members(1))
    assert outcome(found) == expected
    if found.outcome == UNSCHEDULABLE:
        text = " topology: members are bound in rack=a already. The gang is bound in part: 1 bound, 1 more needed"
        assert text in found.message


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([bound("m", "a1"), bound("n", "b1")], "members are bound in 2 domains already: rack=a (d/m), rack=b (d/n)"),
        ([bound("m", "a1"), bound("n", "n1")], "d/n is bound to a node without the label rack"),
    ],
    ids=["two-domains", "unlabelled"],
)
def test_members_that_are_bound_apart(objects: list[Built], reason: str) -> None:
    """Nothing can bring them together again; the gang is told, and nobody is evicted."""
    found = decided(*A, *B, node("n1"), full("v", "a2"), *objects, wants(3), *members(1))
    why = f"0/5 nodes are available: 1 node(s) didn't have the label rack, 4 {OUTSIDE}. topology: {reason}."
    in_part = "The gang is bound in part: 2 bound, 1 more needed, which come before any weaker work"
    assert (found.outcome, found.message) == (UNSCHEDULABLE, f"{why} {in_part}")


def test_a_member_on_a_node_that_is_gone_binds_nobody() -> None:
    """Its domain is not known any more."""
    assert decided(*A, wants(2), bound("m", "gone"), *members(1)).outcome == BIND


def test_a_gang_at_its_minimum_grows_in_its_domain() -> None:
    """Members beyond the minimum bind there, or not at all."""
    assert outcome(decided(*A, *B, wants(1), bound("m", "a1"), *members(1)))[:3] == (BIND, "rack=a", ["a2"])
    found = decided(*A, *B, full("x", "a2"), wants(1), bound("m", "a1"), *members(1))
    assert (found.outcome, victims(found)) == (UNSCHEDULABLE, [])


# -- preferred ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([full("x", "a1")], (BIND, "rack=b", ["b1", "b2"], [])),
        ([full("x", "a1"), full("y", "b1")], (BIND, None, ["a2", "b2"], [])),
        ([full("x", "a1"), full("y", "b1").terminating()], (BIND, None, ["a2", "b2"], [])),
        (
            [full("x", "a1"), full("y", "a2"), full("z", "b1").terminating(), full("w", "b2").terminating()],
            (WAIT, "rack=b", ["b1", "b2"], []),
        ),
        (
            [full("w", "a1"), full("x", "a2", 1), full("y", "b1"), full("z", "b2", 1)],
            (PREEMPT, None, ["a1", "b1"], ["w", "y"]),
        ),
        (
            [full("w", "a1", 1), full("x", "a2", 1), full("y", "b1", 1), full("z", "b2", 1)],
            (PREEMPT, "rack=a", ["a1", "a2"], ["w", "x"]),
        ),
        (
            [full("w", "a1"), full("x", "a2", 1), full("y", "b1"), full("z", "b2")],
            (PREEMPT, "rack=b", ["b1", "b2"], ["y", "z"]),
        ),
    ],
    ids=["inside", "wide", "wide-now", "wait-inside", "less-harm-wide", "equal-harm-inside", "the-better-inside"],
)
def test_a_preferred_domain(objects: list[Built], expected: tuple[str, str | None, list[str], list[str]]) -> None:
    """One domain, then several, then evictions; these in one domain only if that does no more harm."""
    assert outcome(decided(*A, *B, *objects, wants(2, PREFERRED), *members(2))) == expected


def test_a_preferred_label_that_no_node_has() -> None:
    """It is as if nobody had asked."""
    assert outcome(decided(node("n1"), wants(1, PREFERRED), *members(1))) == (BIND, None, ["n1"], [])


def test_more_members_spill_out_of_a_preferred_domain() -> None:
    """The required ones are together; the others go where there is room, and no domain is claimed for all."""
    found = decided(*A, *rack("b", "b1"), wants(2, PREFERRED), *members(3))
    assert outcome(found) == (BIND, None, ["a1", "a2", "b1"], [])
    assert {placed(found)["g0"], placed(found)["g1"]} == {"a1", "a2"}


def test_bound_members_attract_where_preferred() -> None:
    """Their domain is tried first; it is no limit, and members that are apart already do not matter."""
    assert outcome(decided(*A, *B, wants(2, PREFERRED), bound("m", "b1"), *members(1)))[2] == ["b2"]
    found = decided(*A, *B, full("x", "b2"), wants(2, PREFERRED), bound("m", "b1"), *members(1))
    assert (found.outcome, found.topology_domain) == (BIND, None)
    found = decided(*A, *B, wants(3, PREFERRED), bound("m", "b1"), bound("n", "a1"), *members(1))
    assert (found.outcome, found.topology_domain) == (BIND, None)


@pytest.mark.parametrize(
    ("full_nodes", "label"),
    [([], "spine=s,rack=a"), (["a1"], "spine=s,rack=b"), (["a1", "b1"], "spine=s"), (["a1", "b1", "b2"], None)],
)
def test_a_preferred_label_within_a_required_one(full_nodes: list[str], label: str | None) -> None:
    """The innermost preferred label is given up first, the required one never."""
    objects: list[Built] = [n.label(spine="s") for n in (*rack("a", "a1", "a2"), *rack("b", "b1", "b2"))]
    objects += [n.label(spine="t") for n in rack("c", "c1")]
    objects += [full(f"x-{name}", name, 9) for name in full_nodes]
    found = decided(*objects, wants(2, (("spine", True), ("rack", False))), *members(2))
    assert (found.outcome == BIND, found.topology_domain) == (label is not None, label)


def test_a_nomination_across_domains_that_is_void_is_no_reason_to_spread() -> None:
    """One of the two nominated nodes is full: then a domain comes first, though a better scored node is outside."""
    nominated = [p.nominated(to) for p, to in zip(members(2), ("a1", "b1"), strict=True)]
    objects: list[Built] = [
        *A,
        *B,
        *rack("c", "c1", cpu=5),
        full("x", "a1", 9),
        full("y", "a2", 9),
        wants(2, PREFERRED),
    ]
    assert outcome(decided(*objects, *nominated)) == (BIND, "rack=b", ["b1", "b2"], [])


# -- groups, order, limits ---------------------------------------------------------------------------------


def test_the_gangs_of_a_group_share_the_domain() -> None:
    """The first gang that asks speaks for all of them: together they have one rack."""
    keys = ("d/g", "d/h")
    objects: list[Built] = [
        *A,
        *rack("b", "b1", "b2", "b3"),
        wants(2, ()).group(*keys),
        wants(1, name="h").group(*keys),
    ]
    found = plan(*objects, *members(2), *members(1, name="h"))
    assert {d.topology_domain for d in found.values()} == {"rack=b"}
    assert sorted(to for d in found.values() for to in placed(d).values()) == ["b1", "b2", "b3"]


def test_the_order_in_which_things_arrive_does_not_matter() -> None:
    """The same objects give the same plan, byte for byte."""
    objects: list[Built] = [n for r in "abcdef" for n in rack(r, *(f"{r}{i}" for i in range(4)))]
    objects += [full(f"x-{r}{i}", f"{r}{i}", 1 + (i + ord(r)) % 3) for r in "abcdef" for i in range(4)]
    objects += [wants(3), *members(3)]
    first = decided(*objects)
    assert first.outcome == PREEMPT
    for seed in range(5):
        random.Random(seed).shuffle(objects)
        assert decided(*objects) == first


def test_equal_domains_are_taken_by_the_name_of_the_domain() -> None:
    """Not by that of its nodes, nor in the order in which the values were first seen."""
    found = decided(*rack("z", "n1"), *rack("y", "n2"), *rack("x", "n3"), wants(1), *members(1))
    assert outcome(found) == (BIND, "rack=x", ["n3"], [])


def test_a_hopeful_domain_among_very_many() -> None:
    """Counting finds the one rack where only pods of low priority have to leave, and proves the others worse."""
    objects: list[NodeBuilder | PodBuilder] = []
    objects += [n for r in range(100) for n in rack(f"r{r:02}", f"n{r:02}-1", f"n{r:02}-2")]
    objects += [full(f"x{r:02}-{i}", f"n{r:02}-{i}", 1 if r == 73 else 2) for r in range(100) for i in (1, 2)]
    found = decided(*objects, wants(2), *members(2))
    assert (found.outcome, found.topology_domain, found.stopped) == (PREEMPT, "rack=r73", False)
    alone = decided(*(o for o in objects if "73" in o.obj().name), wants(2), *members(2))
    assert (victims(alone), alone.steps) == (victims(found), found.steps)


@pytest.mark.parametrize(("count", "stopped"), [(MAX_SEARCHES, False), (MAX_SEARCHES + 1, True)])
def test_domains_that_were_left_out_are_admitted(count: int, stopped: bool) -> None:
    """With more equal domains than are searched, the plan says that there may be a better one."""
    objects: list[Built] = [n for r in range(count) for n in rack(f"r{r:02}", f"n{r:02}")]
    objects += [full(f"x{r:02}", f"n{r:02}") for r in range(count)]
    found = decided(*objects, wants(1), *members(1))
    assert (found.outcome, found.topology_domain, found.stopped) == (PREEMPT, "rack=r00", stopped)


def test_a_gang_that_no_domain_can_hold_is_not_searched_for() -> None:
    """Counting is proof enough: no step is spent, nothing was left out."""
    objects: list[Built] = [n for r in range(50) for n in rack(f"r{r:02}", f"n{r:02}")]
    objects += [full(f"x{r:02}", f"n{r:02}") for r in range(50)]
    found = decided(*objects, wants(2), *members(2))
    assert (found.outcome, found.stopped, found.steps) == (UNSCHEDULABLE, False, 0)


# -- against one domain at a time --------------------------------------------------------------------------

ROOM = st.lists(st.sampled_from((0, 1, 2, 3)), min_size=1, max_size=3)


@settings(max_examples=amount(60, 25), deadline=None)
@given(st.lists(ROOM, min_size=1, max_size=4), st.integers(1, 4), st.data())
def test_as_good_as_the_best_domain_alone(racks: list[list[int]], minimum: int, data: st.DataObject) -> None:
    """Deciding for each rack as if there were no other gives the same outcome and the same harm by priority."""
    priorities = data.draw(st.lists(st.integers(1, 6), min_size=12, max_size=12))
    by_rack: list[list[Built]] = []
    numbers = iter(priorities)
    for r, nodes in enumerate(racks):
        objects: list[Built] = []
        for n, used in enumerate(nodes):
            objects += rack(f"r{r}", f"n{r}{n}", cpu=4)
            if used:
                objects.append(pod(f"x{r}{n}").cpu(1 + used).priority(next(numbers)).on(f"n{r}{n}"))
        by_rack.append(objects)
    gang_of_two: list[Built] = [wants(minimum), *members(minimum, cpu=2)]

    def harm(found: Decision) -> tuple[bool, bool, list[int]]:
        gone = [v.priority for v in found.victims]
        levels = [gone.count(p) for p in range(6, -1, -1)]
        return found.outcome == UNSCHEDULABLE, found.outcome == PREEMPT, levels

    together = decided(*(o for objects in by_rack for o in objects), *gang_of_two)
    alone = [decided(*objects, *gang_of_two) for objects in by_rack]
    assert harm(together) == min(map(harm, alone))
    assert len({to[:2] for to in placed(together).values()}) <= 1
