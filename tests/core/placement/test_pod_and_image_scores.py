"""Scores about other pods and about images: kube-scheduler's formulas, also while pods come and go in thought."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.events import Changed
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.placement.placer import Placer, Want
from gangsched.core.plugins.base import Score
from gangsched.core.plugins.inter_pod_affinity import InterPodAffinityScore
from gangsched.core.plugins.node import ImageLocality, NodeResourcesFit
from gangsched.core.plugins.topology_spread import PodTopologySpreadScore, SpreadDefaults
from gangsched.core.state.simulation import Phantom, Simulation
from gangsched.core.state.snapshot import Snapshot
from gangsched.model.constraints import PodTerm, SpreadConstraint
from gangsched.model.records import Node, Pod, PodSelector
from gangsched.model.selectors import selector_matches
from tests.amounts import amount
from tests.builders import NodeBuilder, PodBuilder, node, pod, selects
from tests.core.harness import Built, world

HOST, ZONE, REAL_ZONE = "kubernetes.io/hostname", "zone", "topology.kubernetes.io/zone"
MB = 1 << 20


def term(key: str = ZONE, **labels: str) -> PodTerm:
    """Pods of namespace d with these labels in the same domain of ``key``."""
    return PodTerm(key, selects(**labels), ("d",))


def likes(builder: PodBuilder, *terms: tuple[int, PodTerm]) -> PodBuilder:
    """With preferred affinity."""
    return builder.shape(preferred_affinity=terms)


def shuns(builder: PodBuilder, *terms: tuple[int, PodTerm]) -> PodBuilder:
    """With preferred anti-affinity."""
    return builder.shape(preferred_anti_affinity=terms)


def soft(builder: PodBuilder, *rules: tuple[str, int], **more: Any) -> PodBuilder:
    """With soft constraints (key, maxSkew) over app=x."""
    return builder.shape(spread=tuple(SpreadConstraint(k, s, selects(app="x"), False, **more) for k, s in rules))


def on(name: str, to: str, app: str = "x") -> PodBuilder:
    """A running pod with label app."""
    return pod(name).label(app=app).on(to)


def scored(rule: Score, wanted: PodBuilder, *objects: Built, feasible: str = "") -> dict[str, float] | None:
    """The score of each feasible node (all, unless listed), None when the score does not apply."""
    core = world(*objects)
    core.world.snapshot.shape_number(wanted.obj().shape)
    sim = Simulation(core.world.snapshot)
    names = [n.name for n in sim.snapshot.nodes]
    mask = np.array([not feasible or n in feasible.split() for n in names], dtype=np.bool_)
    made = sim.snapshot.class_of(wanted.obj())
    if not rule.applies(made, sim):
        return None
    state = rule.prepare(made, sim, mask)
    found = {n: float(v) for n, v, ok in zip(names, rule.values(state), mask, strict=True) if ok}
    assert found == {n: rule.value(state, row) for row, n in enumerate(names) if n in found}
    return found


#: Zones a (a1, a2) and b (b1); x1 is in no zone.
NODES = [node("a1").label(zone="a"), node("a2").label(zone="a"), node("b1").label(zone="b"), node("x1")]

AFFINITY: list[tuple[str, InterPodAffinityScore, PodBuilder, list[Built], list[float] | None]] = [
    ("nothing", InterPodAffinityScore(), pod("p"), [on("x", "a1")], None),
    ("near", InterPodAffinityScore(), likes(pod("p"), (5, term(app="x"))), [on("x", "a1")], [100, 100, 0, 0]),
    ("nobody", InterPodAffinityScore(), likes(pod("p"), (5, term(app="x"))), [], [0, 0, 0, 0]),
    ("apart", InterPodAffinityScore(), shuns(pod("p"), (5, term(app="x"))), [on("x", "a1")], [0, 0, 100, 100]),
    (
        "each-pod-counts",
        InterPodAffinityScore(),
        likes(pod("p"), (5, term(app="x"))),
        [on("x", "a1"), on("y", "a2"), on("z", "b1")],
        [100, 100, 50, 0],
    ),
    (
        "both-ways",
        InterPodAffinityScore(),
        shuns(likes(pod("p"), (9, term(app="x"))), (3, term(HOST, app="x"))),
        [on("x", "a1")],
        [66, 100, 0, 0],
    ),
    (
        "theirs",
        InterPodAffinityScore(),
        pod("p").label(app="x"),
        [likes(on("y", "b1", "y"), (3, term(app="x")))],
        [0, 0, 100, 0],
    ),
    (
        "theirs-apart",
        InterPodAffinityScore(),
        pod("p").label(app="x"),
        [shuns(on("y", "b1", "y"), (3, term(app="x")))],
        [100, 100, 0, 100],
    ),
    (
        "their-required",
        InterPodAffinityScore(),
        pod("p").label(app="x"),
        [on("y", "b1", "y").shape(affinity=(term(app="x"),))],
        [0, 0, 100, 0],
    ),
    (
        "their-required-weighed",
        InterPodAffinityScore(3),
        pod("p").label(app="x"),
        [on("y", "b1", "y").shape(affinity=(term(app="x"),)), likes(on("z", "a1", "y"), (4, term(HOST, app="x")))],
        [100, 0, 75, 0],
    ),
    (
        "their-required-ignored",
        InterPodAffinityScore(0),
        pod("p").label(app="x"),
        [on("y", "b1", "y").shape(affinity=(term(app="x"),))],
        None,
    ),
    (
        "theirs-ignored",
        InterPodAffinityScore(1, True),
        pod("p").label(app="x"),
        [likes(on("y", "b1", "y"), (3, term(app="x")))],
        None,
    ),
    (
        "theirs-not-ignored-with-own",
        InterPodAffinityScore(1, True),
        likes(pod("p").label(app="x"), (1, term(app="none"))),
        [likes(on("y", "b1", "y"), (3, term(app="x")))],
        [0, 0, 100, 0],
    ),
    ("theirs-not-me", InterPodAffinityScore(), pod("p"), [likes(on("y", "b1", "y"), (3, term(app="x")))], None),
]


@pytest.mark.parametrize(
    ("rule", "wanted", "objects", "expected"), [c[1:] for c in AFFINITY], ids=[c[0] for c in AFFINITY]
)
def test_preferred_affinity(
    rule: InterPodAffinityScore, wanted: PodBuilder, objects: list[Built], expected: list[float] | None
) -> None:
    """Weights of both sides by domain; the least becomes 0, the most 100, in whole points."""
    found = scored(rule, wanted, *NODES, *objects)
    assert found == (None if expected is None else dict(zip(("a1", "a2", "b1", "x1"), expected, strict=True)))


def test_only_feasible_nodes_set_the_scale() -> None:
    """A node that cannot take the pod is neither the best nor the worst."""
    wanted = likes(pod("p"), (1, term(HOST, app="x")))
    there = [on("x", "a1"), on("y", "a1"), on("z", "b1")]
    assert scored(InterPodAffinityScore(), wanted, *NODES, *there, feasible="a2 b1") == {"a2": 0, "b1": 100}


def spread_points(*sums: float) -> list[int]:
    """The points of nodes with these sums."""
    whole = [math.floor(s + 0.5) for s in sums]
    return [100 * (max(whole) + min(whole) - s) // max(whole) for s in whole]


LOG = [math.log(n + 2) for n in range(6)]


def test_soft_spread_prefers_the_emptier_domain() -> None:
    """Counts are weighed by the number of domains among the feasible nodes; a node without the label gets 0."""
    there = [on("x", "a1"), on("y", "a2"), on("z", "b1"), on("other", "b1", "z"), on("t", "b1").terminating()]
    a, b = spread_points(2 * LOG[2], 1 * LOG[2])
    found = scored(PodTopologySpreadScore(), soft(pod("p"), (ZONE, 1)), *NODES, *there)
    assert found == {"a1": a, "a2": a, "b1": b, "x1": 0}


def test_soft_spread_over_hosts_counts_each_host() -> None:
    """The number of hosts is that of the feasible nodes that are compared."""
    there = [on("x", "a1"), on("y", "a1"), on("z", "b1")]
    a1, a2, b1 = spread_points(2 * LOG[3] + 4, 4, LOG[3] + 4)
    found = scored(PodTopologySpreadScore(), soft(pod("p"), (HOST, 5)), *NODES, *there, feasible="a1 a2 b1")
    assert found == {"a1": a1, "a2": a2, "b1": b1}


def test_soft_spread_without_pods_is_the_same_everywhere() -> None:
    """Nothing to choose between: all get 100, but for nodes that are not compared."""
    assert scored(PodTopologySpreadScore(), soft(pod("p"), (ZONE, 1)), *NODES) == {
        "a1": 100,
        "a2": 100,
        "b1": 100,
        "x1": 0,
    }


def test_soft_spread_sees_only_eligible_nodes() -> None:
    """Pods on tainted nodes do not count where taints are honoured, except by host."""
    tainted = [node("a1").label(zone="a"), node("b1").label(zone="b"), node("b2").label(zone="b").taint("k")]
    there = [on("x", "a1"), on("y", "b2"), on("z", "b2")]
    honoured = soft(pod("p"), (ZONE, 1), honor_taints=True)
    assert scored(PodTopologySpreadScore(), honoured, *tainted, *there) == {"a1": 0, "b1": 100, "b2": 100}
    a1, b1, b2 = spread_points(LOG[2], 2 * LOG[2], 2 * LOG[2])
    assert scored(PodTopologySpreadScore(), soft(pod("p"), (ZONE, 1)), *tainted, *there) == {
        "a1": a1,
        "b1": b1,
        "b2": b2,
    }
    hosts = soft(pod("p"), (HOST, 1), honor_taints=True)
    assert scored(PodTopologySpreadScore(), hosts, *tainted, *there) == dict(
        zip(("a1", "b1", "b2"), spread_points(LOG[3], 0, 2 * LOG[3]), strict=True)
    )


def test_hard_constraints_are_not_scored() -> None:
    """They are the filter's."""
    hard = pod("p").shape(spread=(SpreadConstraint(ZONE, 1, selects(app="x"), True),))
    assert scored(PodTopologySpreadScore(), hard, *NODES, on("x", "a1")) is None


SERVICE = Changed(PodSelector("Service", "d", "s", selects(app="x")))
REAL = [
    node("a1").label(**{REAL_ZONE: "a"}),
    node("a2").label(**{REAL_ZONE: "a"}),
    node("b1").label(**{REAL_ZONE: "b"}),
    node("x1"),
]


def test_system_defaults_spread_pods_of_a_service() -> None:
    """Skew 3 over hosts and 5 over zones, also of nodes without a zone: they count as one zone more, and by host."""
    there = [on("x", "a1"), on("y", "a1"), on("z", "b1")]
    zone, host = LOG[3], LOG[4]
    expected = spread_points(2 * host + 2 + 2 * zone + 4, 2 + 2 * zone + 4, host + 2 + zone + 4, 2)
    found = scored(PodTopologySpreadScore(), pod("p").label(app="x"), *REAL, SERVICE, *there)
    assert found == dict(zip(("a1", "a2", "b1", "x1"), expected, strict=True))
    assert scored(PodTopologySpreadScore(), pod("p").label(app="z"), *REAL, SERVICE, *there) is None


def test_own_constraints_replace_the_defaults() -> None:
    """A pod with constraints of its own, hard ones too, is not spread by default."""
    hard = pod("p").label(app="x").shape(spread=(SpreadConstraint(ZONE, 1, selects(app="x"), True),))
    assert scored(PodTopologySpreadScore(), hard, *REAL, SERVICE, on("x", "a1")) is None


def test_configured_defaults_ask_for_all_labels() -> None:
    """Unlike with the system's defaults, a node without the label gets 0."""
    rule = PodTopologySpreadScore(SpreadDefaults("List", (SpreadConstraint(REAL_ZONE, 1, None, False),)))
    found = scored(rule, pod("p").label(app="x"), *REAL, SERVICE, on("x", "a1"))
    assert found == {"a1": 0, "a2": 0, "b1": 100, "x1": 0}
    nothing = PodTopologySpreadScore(SpreadDefaults("List"))
    assert scored(nothing, pod("p").label(app="x"), *REAL, SERVICE, on("x", "a1")) is None


def with_images(builder: NodeBuilder, **sizes_mb: int) -> Node:
    """A node that has images ``name:latest``."""
    images = tuple(sorted((f"{name}:latest", size * MB) for name, size in sizes_mb.items()))
    return msgspec.structs.replace(builder.obj(), images=images)


def wanting(*images: str, volumes: tuple[str, ...] = ()) -> PodBuilder:
    """A pod with a container for each image."""
    return pod("p").shape(
        images=tuple(f"{i}:latest" for i in images), image_volumes=tuple(f"{v}:latest" for v in volumes)
    )


IMAGES = [with_images(node("n1"), app=600, big=4000), with_images(node("n2"), app=600), node("n3").obj()]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (wanting("none"), None),
        # 600 MB on two of three nodes count 400 MB, between 23 MB and 1000 MB.
        (wanting("app"), [100 * (400 - 23) // (1000 - 23)] * 2 + [0]),
        # 4000 MB on one of three nodes, less than the 2000 MB for two containers, of which the other has no image here.
        (wanting("big", "none"), [100 * (4000 // 3 - 23) // (2000 - 23), 0, 0]),
        (wanting("big"), [100, 0, 0]),
        (wanting("app", "app"), [100 * (800 - 23) // (2000 - 23)] * 2 + [0]),
        (wanting("none", volumes=("app",)), [100 * (400 - 23) // (1000 - 23)] * 2 + [0]),
    ],
)
def test_image_locality(wanted: PodBuilder, expected: list[int] | None) -> None:
    """Bytes that are there already, scaled by the share of nodes that have them."""
    found = scored(ImageLocality(), wanted, *IMAGES)
    assert found == (None if expected is None else dict(zip(("n1", "n2", "n3"), expected, strict=True)))


def test_images_come_and_go_with_nodes() -> None:
    """A pulled image counts, a removed one does not, and a node that is gone is no longer one of those that have it."""
    rule, wanted = ImageLocality(), wanting("app").obj()
    snapshot = Snapshot()
    for change in IMAGES:
        snapshot.set_node(change)

    def scores() -> list[float]:
        sim = Simulation(snapshot)
        made = snapshot.class_of(wanted)
        if not rule.applies(made, sim):
            return []
        return list(rule.values(rule.prepare(made, sim, np.ones(snapshot.size, dtype=np.bool_))))

    assert scores() == [38, 38, 0]
    snapshot.set_node(with_images(node("n3"), app=600))
    assert scores() == [59, 59, 59]
    snapshot.set_node(node("n1").obj())
    assert scores() == [0, 38, 38]
    snapshot.drop_node("n2")
    assert scores() == [0, 28]
    snapshot.drop_node("n3")
    assert scores() == []


# -- within a gang -----------------------------------------------------------------------------------------


def placed(score: Score, members: list[PodBuilder], *objects: Built) -> list[str]:
    """Where the members of a gang go when nothing but this score tells nodes apart."""
    core = world(*objects)
    pods = [m.obj() for m in members]
    for each in pods:
        core.world.snapshot.shape_number(each.shape)
    placer = Placer(Pipeline([NodeResourcesFit()], [(score, 1.0)]))
    sim = Simulation(core.world.snapshot)
    found = placer.required([Want(tuple(pods), len(pods))], sim, {})
    return [sim.snapshot.nodes[found.rows[p.uid]].name for p in pods]


def test_members_that_prefer_each_other_go_together() -> None:
    """The first goes to the first node, the others to its zone while there is room."""
    nodes = [node("a1").label(zone="a").pods(1), node("b1").label(zone="b"), node("z1").label(zone="a").pods(2)]
    members = [likes(pod(f"m{i}").label(app="x"), (1, term(app="x"))).gang("g") for i in range(4)]
    assert placed(InterPodAffinityScore(), members, *nodes) == ["a1", "z1", "z1", "b1"]


def test_members_follow_the_wish_of_one_placed_before() -> None:
    """A member without terms of its own goes where one that was placed before it wants company."""
    nodes = [node("a1").label(zone="a").pods(1), node("b1").label(zone="b"), node("z1").label(zone="a")]
    leader = likes(pod("a-leader"), (1, term(role="w"))).gang("g")
    workers = [pod(f"w{i}").label(role="w").gang("g") for i in range(2)]
    assert placed(InterPodAffinityScore(), [leader, *workers], *nodes) == ["a1", "z1", "z1"]


def test_members_that_spread_softly_alternate() -> None:
    """Each member counts for the next."""
    nodes = [node("a1").label(zone="a"), node("a2").label(zone="a"), node("b1").label(zone="b")]
    members = [soft(pod(f"m{i}").label(app="x"), (ZONE, 1)).gang("g") for i in range(4)]
    assert placed(PodTopologySpreadScore(), members, *nodes) == ["a1", "b1", "a1", "b1"]


# -- what-if equals what-is, and both equal the definition ---------------------------------------------------

TERMS = [term(app="x"), term(HOST, app="x"), term(app="y"), PodTerm(ZONE, selects(app="x"), ("d", "e"))]
a_shape = st.builds(
    lambda near, apart, required, spread: (
        pod("s")
        .shape(preferred_affinity=near, preferred_anti_affinity=apart, affinity=required, spread=spread)
        .obj()
        .shape
    ),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(TERMS)), max_size=2).map(tuple),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(TERMS)), max_size=1).map(tuple),
    st.lists(st.sampled_from(TERMS), max_size=1).map(tuple),
    st.lists(
        st.builds(
            SpreadConstraint,
            st.sampled_from([ZONE, HOST]),
            st.integers(1, 3),
            st.sampled_from([selects(app="x"), selects(app="y")]),
            st.just(value=False),
            honor_taints=st.booleans(),
        ),
        max_size=2,
        unique_by=lambda c: c.topology_key,
    ).map(tuple),
)
a_pod = st.builds(
    lambda number, shape, app, space, to, leaving: msgspec.structs.replace(
        (pod(f"p{number}", space).terminating() if leaving else pod(f"p{number}", space)).label(app=app).obj(),
        shape=shape,
        node=to,
        phase="Running",
    ),
    st.integers(0, 10**6),
    a_shape,
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from(["d", "e"]),
    st.sampled_from(["a1", "a2", "b1", "x1"]),
    st.booleans(),
)
SOME = [node("a1").label(zone="a"), node("a2").label(zone="a").taint("k"), node("b1").label(zone="b"), node("x1")]


def affinity_by_definition(wanted: Pod, there: list[Pod], nodes: list[Node]) -> list[int]:
    """InterPodAffinity, node by node and pod by pod."""
    at = {n.name: n.labels for n in nodes}

    def names(t: PodTerm, other: Pod) -> bool:
        return other.namespace in t.namespaces and selector_matches(t.selector, other.labels)

    sums = [0] * len(nodes)
    for other in there:
        terms = [(w, t) for w, t in wanted.shape.preferred_affinity if names(t, other)]
        terms += [(-w, t) for w, t in wanted.shape.preferred_anti_affinity if names(t, other)]
        terms += [(1, t) for t in other.shape.affinity if names(t, wanted)]
        terms += [(w, t) for w, t in other.shape.preferred_affinity if names(t, wanted)]
        terms += [(-w, t) for w, t in other.shape.preferred_anti_affinity if names(t, wanted)]
        for n, each in enumerate(nodes):
            for weight, t in terms:
                key = t.topology_key
                if key in each.labels and each.labels[key] == at[other.node].get(key):
                    sums[n] += weight
    least, most = min(sums), max(sums)
    return [int(100 * ((s - least) / (most - least))) if most > least else 0 for s in sums]


def spread_by_definition(wanted: Pod, there: list[Pod], nodes: list[Node]) -> list[int]:
    """PodTopologySpread, node by node and pod by pod."""
    rules = wanted.shape.spread
    there = [p for p in there if p.deleting_since is None and p.namespace == wanted.namespace]
    compared = [n for n in nodes if all(c.topology_key in n.labels for c in rules)]
    sums = {}
    for each in compared:
        total = 0.0
        for rule in rules:
            key = rule.topology_key
            alike = [n for n in compared if n.labels[key] == each.labels[key]]
            if key != HOST:
                alike = [n for n in alike if not (rule.honor_taints and n.taints)]
            count = sum(selector_matches(rule.selector, p.labels) for p in there if p.node in {n.name for n in alike})
            total += count * math.log(len({n.labels[key] for n in compared}) + 2) + rule.max_skew - 1
        sums[each.name] = math.floor(total + 0.5)
    least, most = min(sums.values(), default=0), max(sums.values(), default=0)
    return [0 if n.name not in sums else 100 * (most + least - sums[n.name]) // most if most else 100 for n in nodes]


@settings(max_examples=amount(200, 60), deadline=None)
@given(a_pod, st.lists(a_pod, max_size=8, unique_by=lambda p: p.name), st.sets(st.integers(0, 7)), st.integers(0, 8))
def test_scores_are_those_of_the_definition_and_follow_what_if(
    wanted: Pod, others: list[Pod], lifted: set[int], first_placed: int
) -> None:
    """Counted incrementally, told of every change or asked afterwards: always the sum over pods that are there."""
    wanted = msgspec.structs.replace(wanted, name="wanted", node="", deleting_since=None, phase="Pending")
    running, coming = others[:first_placed], others[first_placed:]
    held, coming = coming[:1], coming[1:]
    coming = [msgspec.structs.replace(p, deleting_since=None) for p in coming]
    held = [msgspec.structs.replace(p, deleting_since=None) for p in held]
    core = world(*SOME, *running)
    snapshot = core.world.snapshot
    for each in (wanted, *others):
        snapshot.shape_number(each.shape)
    made = snapshot.class_of(wanted)
    phantoms = [Phantom(snapshot.class_of(p), p.uid, p.node) for p in held]
    told, fresh = Simulation(snapshot, phantoms), Simulation(snapshot, phantoms)
    everywhere = np.ones(snapshot.size, dtype=np.bool_)
    rules: tuple[Score, ...] = (InterPodAffinityScore(), PodTopologySpreadScore())

    def values(sim: Simulation) -> list[list[float]]:
        return [
            list(rule.values(rule.prepare(made, sim, everywhere))) if rule.applies(made, sim) else [0.0] * snapshot.size
            for rule in rules
        ]

    before = values(told)
    mark = told.mark()
    for sim in (told, fresh):
        for n in sorted(lifted):
            if n < len(running):
                sim.lift(snapshot.table.slot_of[running[n].uid])
        for each in coming:
            sim.place(snapshot.class_of(each), snapshot.row_of[each.node])
    there = [p for n, p in enumerate(running) if n not in lifted] + coming + held
    expected = [
        affinity_by_definition(wanted, there, snapshot.nodes),
        spread_by_definition(wanted, there, snapshot.nodes) if wanted.shape.spread else [0] * snapshot.size,
    ]
    assert values(told) == values(fresh) == expected
    told.rollback(mark)
    assert values(told) == before
