"""Affinity, anti-affinity and spread: which nodes pass, and how pods placed and lifted in thought count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.events import Changed
from gangsched.core.plugins.base import Filter
from gangsched.core.plugins.inter_pod_affinity import InterPodAffinity
from gangsched.core.plugins.node import NodePorts
from gangsched.core.plugins.topology_spread import PodTopologySpread, SpreadDefaults
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Phantom, Simulation
from gangsched.model.constraints import NAMESPACE_NAME, LabelSelector, NodeTerm, PodTerm, Requirement, SpreadConstraint
from gangsched.model.records import Namespace, PodSelector
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, Cluster, plan, world

HOST, ZONE = "kubernetes.io/hostname", "zone"


def term(key: str = ZONE, namespaces: tuple[str, ...] = ("d",), **labels: str) -> PodTerm:
    """Pods with these labels in the same domain of ``key``."""
    return PodTerm(key, selects(**labels), namespaces)


def near(builder: PodBuilder, *terms: PodTerm) -> PodBuilder:
    """With required affinity."""
    return builder.shape(affinity=terms)


def apart(builder: PodBuilder, *terms: PodTerm) -> PodBuilder:
    """With required anti-affinity."""
    return builder.shape(anti_affinity=terms)


def spread(builder: PodBuilder, key: str = ZONE, skew: int = 1, **more: Any) -> PodBuilder:
    """With a hard spread constraint over its own label ``app``."""
    labels = more.pop("labels", {"app": "x"})
    return builder.shape(spread=(SpreadConstraint(key, skew, selects(**labels), True, **more),))


def class_of(sim: Simulation, builder: PodBuilder) -> PodClass:
    """The class of a pod."""
    sim.snapshot.shape_number(builder.obj().shape)
    return sim.snapshot.class_of(builder.obj())


def passing(rule: Filter, wanted: PodBuilder, *objects: Built) -> list[str]:
    """Names of the nodes that pass; all when the filter does not apply."""
    core = world(*NODES, *objects)
    core.world.snapshot.shape_number(wanted.obj().shape)
    sim = Simulation(core.world.snapshot)
    made = class_of(sim, wanted)
    mask = rule.mask(rule.prepare(made, sim)) if rule.applies(made, sim) else np.ones(sim.snapshot.size, dtype=np.bool_)
    return [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok]


#: Zones a (a1, a2) and b (b1); x1 is in no zone.
NODES = [node("a1").label(zone="a"), node("a2").label(zone="a"), node("b1").label(zone="b"), node("x1")]
ALL = ["a1", "a2", "b1", "x1"]


def on(name: str, to: str, app: str = "x") -> PodBuilder:
    """A running pod with label app."""
    return pod(name).label(app=app).on(to)


AFFINITY: list[tuple[str, PodBuilder, list[Built], list[str]]] = [
    ("no-terms", pod("p"), [on("x", "a1")], ALL),
    ("same-zone", near(pod("p"), term(app="x")), [on("x", "a1")], ["a1", "a2"]),
    ("same-host", near(pod("p"), term(HOST, app="x")), [on("x", "a1")], ["a1"]),
    ("nobody-there", near(pod("p"), term(app="x")), [], []),
    ("first-of-a-series", near(pod("p").label(app="x"), term(app="x")), [], ["a1", "a2", "b1"]),
    ("not-the-first", near(pod("p").label(app="x"), term(app="x")), [on("x", "b1")], ["b1"]),
    ("terminating-counts", near(pod("p"), term(app="x")), [on("x", "b1").terminating()], ["b1"]),
    ("finished-does-not", near(pod("p"), term(app="x")), [on("x", "b1").phase("Failed")], []),
    ("all-terms", near(pod("p"), term(app="x"), term(app="x", tier="y")), [on("x", "a1")], []),
    (
        "one-pod-for-all-terms",
        near(pod("p"), term(app="x"), term(HOST, tier="y")),
        [on("x", "a1").label(tier="y"), on("z", "b1")],
        ["a1"],
    ),
    ("other-namespace", near(pod("p"), term(namespaces=("e",), app="x")), [on("x", "a1")], []),
    (
        "named-namespace",
        near(pod("p"), term(namespaces=("e",), app="x")),
        [pod("x", "e").label(app="x").on("b1")],
        ["b1"],
    ),
    ("anti-zone", apart(pod("p"), term(app="x")), [on("x", "a1")], ["b1", "x1"]),
    ("anti-host", apart(pod("p"), term(HOST, app="x")), [on("x", "a1")], ["a2", "b1", "x1"]),
    ("anti-nobody", apart(pod("p").label(app="x"), term(app="x")), [], ALL),
    ("theirs", pod("p").label(app="x"), [apart(pod("y").on("a1"), term(app="x"))], ["b1", "x1"]),
    ("theirs-not-mine", pod("p").label(app="z"), [apart(pod("y").on("a1"), term(app="x"))], ALL),
    ("theirs-other-namespace", pod("p", "e").label(app="x"), [apart(pod("y").on("a1"), term(app="x"))], ALL),
]


@pytest.mark.parametrize(("wanted", "objects", "expected"), [c[1:] for c in AFFINITY], ids=[c[0] for c in AFFINITY])
def test_affinity(wanted: PodBuilder, objects: list[Built], expected: list[str]) -> None:
    """Terms of both sides, by domain, with the rule for the first pod of a series."""
    assert passing(InterPodAffinity(), wanted, *objects) == expected


def test_namespace_selectors_follow_the_labels_of_namespaces() -> None:
    """A selector chooses namespaces by label, now and after a change; an empty one chooses all."""
    chosen = PodTerm(ZONE, selects(app="x"), (), selects(team="t"))
    other = pod("x", "e").label(app="x").on("b1")
    assert passing(InterPodAffinity(), near(pod("p"), chosen), other) == []
    labelled = Changed(Namespace("e", {"team": "t"}))
    assert passing(InterPodAffinity(), near(pod("p"), chosen), other, labelled) == ["b1"]
    every = PodTerm(ZONE, selects(app="x"), (), LabelSelector())
    assert passing(InterPodAffinity(), near(pod("p"), every), other) == ["b1"]


def me(**more: Any) -> PodBuilder:
    """A pod with app=x that spreads over zones."""
    return spread(pod("p").label(app="x"), **more)


ONE_IN_A: list[Built] = [on("x", "a1")]
SPREAD: list[tuple[str, PodBuilder, list[Built], list[str]]] = [
    ("empty", me(), [], ["a1", "a2", "b1"]),
    ("full-zone", me(), [*ONE_IN_A], ["b1"]),
    ("more-skew", me(skew=2), [*ONE_IN_A], ["a1", "a2", "b1"]),
    ("even", me(), [*ONE_IN_A, on("y", "b1")], ["a1", "a2", "b1"]),
    ("by-host", me(key=HOST), [*ONE_IN_A], ["a2", "b1", "x1"]),
    ("not-selecting-itself", spread(pod("p")), [on("x1", "a1"), on("x2", "a1")], ["b1"]),
    ("not-selecting-itself-one", spread(pod("p")), [*ONE_IN_A], ["a1", "a2", "b1"]),
    ("terminating-does-not-count", me(), [on("x", "a1").terminating()], ["a1", "a2", "b1"]),
    ("other-labels", me(), [on("x", "a1", "other")], ["a1", "a2", "b1"]),
    ("other-namespace", me(), [pod("x", "e").label(app="x").on("a1")], ["a1", "a2", "b1"]),
    ("min-domains", me(min_domains=3), [*ONE_IN_A, on("y", "b1")], []),
    ("min-domains-met", me(min_domains=2), [*ONE_IN_A, on("y", "b1")], ["a1", "a2", "b1"]),
    (
        "own-selector-narrows-domains",
        me().requires(NodeTerm((Requirement("zone", "In", ("a",)),))),
        [*ONE_IN_A],
        ["a1", "a2"],
    ),
]


@pytest.mark.parametrize(("wanted", "objects", "expected"), [c[1:] for c in SPREAD], ids=[c[0] for c in SPREAD])
def test_spread(wanted: PodBuilder, objects: list[Built], expected: list[str]) -> None:
    """Skew against the emptiest eligible domain, the pod itself counted where it matches; no key, no place."""
    found = passing(PodTopologySpread(), wanted, *objects)
    if expected == ["a1", "a2"]:  # zone b is not eligible, but the filter about the node is another one
        found = [n for n in found if n != "b1"]
    assert found == expected


def test_taints_count_only_when_honoured() -> None:
    """A domain whose nodes are all tainted does not hold the others back when taints are honoured."""
    tainted = node("b1").label(zone="b").taint("k")
    assert passing(PodTopologySpread(), me(honor_taints=True), tainted, *ONE_IN_A)[:2] == ["a1", "a2"]
    assert "a1" not in passing(PodTopologySpread(), me(), tainted, *ONE_IN_A)


def test_soft_constraints_do_not_filter() -> None:
    """ScheduleAnyway is a preference."""
    soft = pod("p").label(app="x").shape(spread=(SpreadConstraint(ZONE, 1, selects(app="x"), False),))
    assert passing(PodTopologySpread(), soft, *ONE_IN_A) == ALL


# -- what-if equals what-is --------------------------------------------------------------------------------

KINDS: list[PodBuilder] = [
    on("k0", "a1"),
    on("k1", "a1", "z"),
    apart(pod("k2").label(app="z"), term(app="x")),
    pod("k3").label(app="x").port(80),
]
WANTED: list[PodBuilder] = [
    near(pod("p").label(app="x"), term(app="x")),
    apart(pod("p").label(app="x"), term(HOST, app="z")),
    me(),
    me(key=HOST, skew=2),
    pod("p").label(app="x").port(80),
]
RULES: list[Filter] = [InterPodAffinity(), PodTopologySpread(), NodePorts()]
PLACES = ["a1", "a2", "b1", "x1"]


def masks(sim: Simulation, wanted: PodBuilder) -> list[list[bool]]:
    """The answers of all filters that see pods."""
    made = class_of(sim, wanted)
    return [
        rule.mask(sim.state(rule, made)).tolist() if rule.applies(made, sim) else [True] * sim.snapshot.size
        for rule in RULES
    ]


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from(PLACES), st.booleans()), max_size=6),
    st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from(range(4))), max_size=4),
    st.sets(st.integers(0, 5)),
    st.sampled_from(range(len(WANTED))),
)
def test_placing_and_lifting_equals_building(
    running: list[tuple[int, str, bool]], placed: list[tuple[int, int]], lifted: set[int], which: int
) -> None:
    """A state that was told of every pod that came and went answers like one made afterwards; undoing undoes."""
    pods = []
    for i, (kind, to, leaving) in enumerate(running):
        made = alike(KINDS[kind], f"r{i}", to)
        pods.append(made.terminating() if leaving else made)
    core = world(*NODES, *pods)
    snapshot = core.world.snapshot
    for builder in (*KINDS, *WANTED):
        snapshot.shape_number(builder.obj().shape)
    wanted = WANTED[which]
    told, fresh = Simulation(snapshot), Simulation(snapshot)
    before = masks(told, wanted)
    mark = told.mark()
    for sim in (told, fresh):
        for n in sorted(lifted):
            if n < len(pods):
                sim.lift(snapshot.table.slot_of[f"uid-d-r{n}"])
        for kind, row in placed:
            sim.place(class_of(sim, KINDS[kind]), row)
    assert masks(told, wanted) == masks(fresh, wanted)
    told.rollback(mark)
    assert masks(told, wanted) == before


def test_lifting_a_terminating_pod_changes_no_spread() -> None:
    """It did not count while it was there, so it is not missed when it is lifted."""
    core = world(*NODES, on("x", "a1"), on("t", "a1").terminating())
    core.world.snapshot.shape_number(me().obj().shape)
    told, fresh = Simulation(core.world.snapshot), Simulation(core.world.snapshot)
    masks(told, me())
    for sim in (told, fresh):
        sim.lift(core.world.snapshot.table.slot_of["uid-d-t"])
    assert masks(told, me()) == masks(fresh, me())


def test_a_terminating_pod_that_returns_changes_no_spread() -> None:
    """Lifted before the state was made and put back afterwards, it counts neither then nor now."""
    core = world(*NODES, on("x", "a1"), on("t", "a1").terminating())
    core.world.snapshot.shape_number(me().obj().shape)
    slot = core.world.snapshot.table.slot_of["uid-d-t"]
    told, fresh = Simulation(core.world.snapshot), Simulation(core.world.snapshot)
    told.lift(slot)
    masks(told, me())
    told.put_back(slot)
    assert masks(told, me()) == masks(fresh, me())


def alike(builder: PodBuilder, name: str, to: str) -> PodBuilder:
    """A running pod like this one, with another name."""
    old = builder.obj()
    made = pod(name).labels(dict(old.labels)).on(to)
    return made.shape(anti_affinity=old.shape.anti_affinity, host_ports=old.shape.host_ports)


# -- room that others hold ---------------------------------------------------------------------------------


def held_by_others(wanted: PodBuilder, rule: Filter, held: list[tuple[PodBuilder, str]], *objects: Built) -> list[str]:
    """Names of the nodes that pass while others hold room for these pods on these nodes."""
    core = world(*NODES, *objects)
    snapshot = core.world.snapshot
    for builder in (wanted, *(b for b, _ in held)):
        snapshot.shape_number(builder.obj().shape)
    phantoms = [Phantom(snapshot.class_of(b.obj()), f"h{i}", to) for i, (b, to) in enumerate(held)]
    sim = Simulation(snapshot, phantoms)
    made = class_of(sim, wanted)
    mask = rule.mask(sim.state(rule, made)) if rule.applies(made, sim) else np.ones(sim.snapshot.size, dtype=np.bool_)
    return [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok]


X = pod("h").label(app="x")
HELD: list[tuple[str, Filter, PodBuilder, list[tuple[PodBuilder, str]], list[Built], list[str]]] = [
    ("affinity-by-held-only", InterPodAffinity(), near(pod("p"), term(app="x")), [(X, "b1")], [], []),
    (
        "affinity-by-both",
        InterPodAffinity(),
        near(pod("p"), term(app="x")),
        [(X, "b1")],
        [on("x", "a1")],
        ["a1", "a2"],
    ),
    (
        "first-of-a-series-beside-held",
        InterPodAffinity(),
        near(pod("p").label(app="x"), term(app="x")),
        [(X, "b1")],
        [],
        ["b1"],
    ),
    ("anti-affinity-to-held", InterPodAffinity(), apart(pod("p"), term(app="x")), [(X, "b1")], [], ["a1", "a2", "x1"]),
    (
        "anti-affinity-of-held",
        InterPodAffinity(),
        pod("p").label(app="x"),
        [(apart(pod("h"), term(app="x")), "b1")],
        [],
        ["a1", "a2", "x1"],
    ),
    ("held-fills-a-zone", PodTopologySpread(), me(), [(X, "b1")], [], ["a1", "a2"]),
    ("held-evens-out", PodTopologySpread(), me(), [(X, "b1")], ONE_IN_A, ["b1"]),
    ("held-elsewhere", PodTopologySpread(), me(), [(pod("h").label(app="z"), "b1")], [], ["a1", "a2", "b1"]),
]


@pytest.mark.parametrize(
    ("rule", "wanted", "held", "objects", "expected"), [c[1:] for c in HELD], ids=[c[0] for c in HELD]
)
def test_held_pods_may_come_or_not(
    rule: Filter, wanted: PodBuilder, held: list[tuple[PodBuilder, str]], objects: list[Built], expected: list[str]
) -> None:
    """A node passes only if it passes with the held pods and without them."""
    assert held_by_others(wanted, rule, held, *objects) == expected


def test_affinity_is_not_satisfied_by_a_pod_that_has_only_been_promised_a_node() -> None:
    """The nominated pod may never come; its follower waits until it is bound."""
    found = plan(
        node("n1"),
        pod("v").cpu(4).on("n1"),
        pod("leader").label(app="x").cpu(1).priority(9),
        near(pod("follower"), term(HOST, app="x")),
    )
    assert found["d/leader"].outcome == "preempt"
    assert found["d/follower"].outcome == "unschedulable"
    assert "node(s) didn't match pod affinity rules" in found["d/follower"].message


# -- gangs -------------------------------------------------------------------------------------------------


def test_members_that_keep_apart_get_a_node_each() -> None:
    """Members of one gang see each other while they are placed."""
    members = [apart(pod(f"m{i}").label(app="x"), term(HOST, app="x")).gang("g") for i in (1, 2, 3)]
    found = plan(*NODES, gang("g").min(3), *members)["d/g"]
    assert len({p.node for p in found.placements}) == 3
    found = plan(*NODES[:2], gang("g").min(3), *members)["d/g"]
    assert found.outcome == "unschedulable"
    assert "node(s) didn't match pod anti-affinity rules" in found.message


def test_a_pod_in_the_way_by_anti_affinity_is_a_victim() -> None:
    """Eviction cures anti-affinity."""
    found = plan(node("n1"), on("v", "n1"), apart(pod("p").priority(5), term(HOST, app="x")))["d/p"]
    assert (found.outcome, [v.name for v in found.victims]) == ("preempt", ["v"])


def test_a_gang_with_affinity_to_itself_starts_in_one_domain() -> None:
    """The first member goes anywhere, the others to where it is."""
    members = [near(pod(f"m{i}").label(app="x").cpu(2), term(app="x")).gang("g") for i in (1, 2, 3)]
    three = [node("a1").label(zone="a").cpu(2), *(node(f"b{i}").label(zone="b").cpu(2) for i in (1, 2, 3))]
    found = plan(*three, gang("g").min(3), *members)["d/g"]
    assert (found.outcome, sorted(p.node for p in found.placements)) == ("bind", ["b1", "b2", "b3"])


def test_a_gang_spreads_over_zones_as_if_placed_one_by_one() -> None:
    """Each member counts for the next; more than the emptiest zone allows do not fit."""
    nodes = [node(f"{z}{i}").label(zone=z) for z in "abc" for i in (1, 2)]
    members = [spread(pod(f"m{i}").label(app="x")).gang("g") for i in range(6)]
    found = plan(*nodes, gang("g").min(6), *members)["d/g"]
    assert sorted(p.node[0] for p in found.placements) == ["a", "a", "b", "b", "c", "c"]
    full = [*nodes[:4], node("c1").label(zone="c").pods(1)]
    found = plan(*full, gang("g").min(6), *members)["d/g"]
    assert found.outcome == "unschedulable"
    assert "node(s) didn't match pod topology spread constraints" in found.message


def test_members_of_one_kind_keep_off_those_of_another() -> None:
    """Anti-affinity of one member holds against members without any that come after it."""
    launcher = apart(pod("a-launcher").label(role="l"), term(HOST, role="w")).gang("g")
    workers = [pod(f"w{i}").label(role="w").cpu(1).gang("g") for i in (1, 2)]
    found = plan(node("n1"), node("n2"), gang("g").min(3), launcher, *workers)["d/g"]
    at = {p.name: p.node for p in found.placements}
    assert at["w1"] == at["w2"] != at["a-launcher"]


# -- reasons -----------------------------------------------------------------------------------------------


def test_a_node_fails_the_first_constraint_that_it_fails() -> None:
    """Skew of the first constraint hides the label that the second misses, and the other way round."""
    rules = (SpreadConstraint(ZONE, 1, selects(app="x"), True), SpreadConstraint("rack", 1, selects(app="x"), True))
    nodes = [node("a1").label(zone="a", rack="r"), node("a2").label(zone="a"), node("b1").label(zone="b", rack="r")]
    core = world(*nodes, node("c1").label(rack="r"), on("x", "a1"))
    wanted = pod("p").label(app="x").shape(spread=rules)
    core.world.snapshot.shape_number(wanted.obj().shape)
    sim = Simulation(core.world.snapshot)
    rule = PodTopologySpread()
    missing, skewed = rule.failures(sim.state(rule, class_of(sim, wanted)))
    names = [n.name for n in sim.snapshot.nodes]
    assert [n for n, hit in zip(names, missing.nodes, strict=True) if hit] == ["c1"]
    assert [n for n, hit in zip(names, skewed.nodes, strict=True) if hit] == ["a1", "a2"]
    assert (missing.resolvable, skewed.resolvable) == (False, True)
    assert missing.text == f"{skewed.text} (missing required label)"


def test_default_constraints_hold_for_pods_of_a_service() -> None:
    """A configured hard default filters pods without constraints of their own, if something selects them."""
    rule = PodTopologySpread(SpreadDefaults("List", (SpreadConstraint(ZONE, 1, None, True),)))
    service = Changed(PodSelector("Service", "d", "s", selects(app="x")))
    assert passing(rule, pod("p").label(app="x"), *ONE_IN_A) == ALL
    assert passing(rule, pod("p").label(app="x"), service, *ONE_IN_A) == ["b1"]
    assert passing(rule, pod("p").label(app="z"), service, *ONE_IN_A) == ALL
    assert passing(rule, me(skew=2), service, *ONE_IN_A) == ["a1", "a2", "b1"]
    assert passing(PodTopologySpread(), pod("p").label(app="x"), service, *ONE_IN_A) == ALL


def test_the_end_of_a_pod_that_kept_others_off_wakes_them() -> None:
    """Also when it leaves a node that is too small for them: its anti-affinity closed the whole zone."""
    small, large = node("a1").label(zone="a").cpu(1), node("a2").label(zone="a").cpu(4)
    cluster = Cluster(small, large, apart(pod("y").cpu(1).on("a1"), term(app="x")), pod("p").label(app="x").cpu(2))
    cluster.run()
    assert cluster.pod("p").node == ""
    cluster.delete("y")
    cluster.pass_time(20)
    assert cluster.pod("p").node == "a2"


def test_a_namespace_that_nobody_has_shown_is_known_by_its_name() -> None:
    """Manifests without Namespace objects still allow selectors for the label that every namespace has."""
    by_name = PodTerm(ZONE, selects(app="x"), (), LabelSelector((Requirement(NAMESPACE_NAME, "In", ("e",)),)))
    assert passing(InterPodAffinity(), near(pod("p"), by_name), pod("x", "e").label(app="x").on("b1")) == ["b1"]
    assert passing(InterPodAffinity(), near(pod("p"), by_name), pod("x", "f").label(app="x").on("b1")) == []


TERM_OF_THE_LEAVING = [
    (apart(pod("y").cpu(1).on("a1").terminating(), term(app="x")), pod("p").label(app="x").cpu(2)),
    (pod("y").label(app="x").cpu(1).on("a1").terminating(), apart(pod("p").cpu(2), term(app="x"))),
]


@pytest.mark.parametrize(("leaving", "wanted"), TERM_OF_THE_LEAVING, ids=["its-term", "our-term"])
def test_a_terminating_pod_on_another_node_is_waited_for(leaving: PodBuilder, wanted: PodBuilder) -> None:
    """Anti-affinity over a zone holds until the pod is gone, wherever in the zone it is."""
    small, large = node("a1").label(zone="a").cpu(1), node("a2").label(zone="a").cpu(4)
    found = plan(small, large, leaving, wanted)["d/p"]
    assert (found.outcome, [(p.name, p.node) for p in found.placements]) == ("wait", [("p", "a2")])
    assert [(a.pod, a.node) for a in found.awaiting] == [("d/y", "a1")]


def test_a_terminating_pod_of_another_domain_is_not_waited_for() -> None:
    """Anti-affinity by host concerns nobody on another host."""
    leaving = apart(pod("y").on("a1").terminating(), term(HOST, app="x"))
    found = plan(node("a1").label(zone="a"), node("a2").label(zone="a"), leaving, pod("p").label(app="x"))["d/p"]
    assert (found.outcome, found.placements[0].node, found.awaiting) == ("bind", "a2", ())


def test_the_first_of_a_series_waits_for_the_end_of_the_last() -> None:
    """While a terminating pod of the series is there, affinity asks for its zone, which has no room."""
    leaving = on("x", "a1").cpu(1).terminating()
    wanted = near(pod("p").label(app="x").cpu(2), term(app="x"))
    found = plan(node("a1").label(zone="a").cpu(1), node("b1").label(zone="b").cpu(4), leaving, wanted)["d/p"]
    assert (found.outcome, found.placements[0].node) == ("wait", "b1")
    assert [a.pod for a in found.awaiting] == ["d/x"]


def test_a_term_that_a_pod_has_twice_leaves_with_it() -> None:
    """Saying twice whom it keeps away from makes a pod no harder to evict."""
    apart = term("kubernetes.io/hostname", app="x")
    there = pod("low").cpu(1).on("n1").shape(anti_affinity=(apart, apart))
    made = plan(node("n1"), there, pod("high").cpu(1).priority(5).label(app="x"))
    assert [v.name for v in made["d/high"].victims] == ["low"]
