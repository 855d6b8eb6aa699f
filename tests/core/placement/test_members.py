"""Where members go: each with its own request, all or nothing by the minimum, others where there is room."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import BIND, UNSCHEDULABLE, Decision
from gangsched.core.events import Gone
from gangsched.core.framework.arguments import NodeResourcesFitArgs
from gangsched.core.framework.registry import PluginSet
from gangsched.core.placement import placer
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import CPU
from tests.builders import OURS, PodBuilder, gang, node, pod
from tests.core.harness import Built, placed, plan, world


def decided(*objects: Built, minimum: int) -> Decision:
    """The decision for gang d/g."""
    return plan(gang("g").min(minimum), *objects)["d/g"]


def members(**cores: float) -> list[PodBuilder]:
    """Pending members by name and requested cores."""
    return [pod(name).cpu(n).gang("g") for name, n in cores.items()]


def test_equal_members_spread() -> None:
    """The default score prefers empty nodes: one member per node while there are some."""
    found = decided(*(node(f"n{i}") for i in (1, 2, 3)), *members(a=1, b=1, c=1), minimum=3)
    assert placed(found) == {"a": "n1", "b": "n2", "c": "n3"}


def test_all_or_nothing() -> None:
    """One member too many for the cluster, and none is placed."""
    found = decided(node("n1").cpu(2), *members(a=1, b=1, c=1), minimum=3)
    assert (found.outcome, placed(found)) == (UNSCHEDULABLE, {})
    assert [u.pod for u in found.unplaced] == ["d/a", "d/b", "d/c"]


def test_members_beyond_the_minimum_join_where_there_is_room() -> None:
    """Two are needed, three fit, the fourth stays and is told why."""
    found = decided(node("n1").cpu(3), *members(a=1, b=1, c=1, d=1), minimum=2)
    assert found.outcome == BIND
    assert set(placed(found)) == {"a", "b", "c"}
    assert [(u.pod, u.reasons) for u in found.unplaced] == [("d/d", ("1 Insufficient cpu",))]


def test_the_easiest_members_make_up_the_minimum() -> None:
    """The first by name does not fit, but enough of the others do."""
    found = decided(node("n1").cpu(2), *members(a=3, b=1, c=1), minimum=2)
    assert found.outcome == BIND
    assert set(placed(found)) == {"b", "c"}


MIXED = [
    ("launcher-and-workers", {"n1": 2, "n2": 4}, {"launcher": 0.5, "w1": 2, "w2": 2, "w3": 1.5}),
    ("small-first-blocks", {"n1": 4, "n2": 2}, {"a": 2, "b": 4}),
    ("two-and-two-beside-three", {"n1": 4, "n2": 3}, {"a": 3, "b": 2, "c": 2}),
    ("perfect-packing", {"n1": 10, "n2": 10}, {"a": 6, "b": 5, "c": 5, "d": 4}),
]


@pytest.mark.parametrize(("nodes", "cores"), [m[1:] for m in MIXED], ids=[m[0] for m in MIXED])
def test_mixed_gangs_are_arranged(nodes: dict[str, float], cores: dict[str, float]) -> None:
    """A member's failure is not the gang's until another arrangement has been looked for."""
    found = decided(*(node(n).cpu(c) for n, c in nodes.items()), *members(**cores), minimum=len(cores))
    assert found.outcome == BIND
    used: Counter[str] = Counter()
    for name, to in placed(found).items():
        used[to] += round(cores[name] * 1000)
    assert all(used[n] <= c * 1000 for n, c in nodes.items())


def test_restricted_members_get_their_node() -> None:
    """A member that may run on one node only is placed before others take it."""
    found = decided(
        node("n1").cpu(2).label(disk="ssd"),
        node("n2").cpu(1.9),
        pod("a").cpu(1.5).gang("g"),
        pod("b").cpu(1.5).selector(disk="ssd").gang("g"),
        minimum=2,
    )
    assert placed(found) == {"a": "n2", "b": "n1"}


def test_every_member_is_held_to_its_own_filters() -> None:
    """Host ports keep equal members apart, tolerations differ between members."""
    found = decided(
        node("n1"),
        node("n2"),
        node("n3").taint("x"),
        pod("a").port(80).gang("g"),
        pod("b").port(80).gang("g"),
        pod("c").port(80).tolerates("x", "Exists").gang("g"),
        minimum=3,
    )
    assert found.outcome == BIND
    assert placed(found)["c"] == "n3"
    assert sorted(placed(found).values()) == ["n1", "n2", "n3"]


def test_a_nomination_is_preferred() -> None:
    """The nominated node is tried first, though another would score better."""
    found = decided(node("n1"), node("n2").cpu(2), pod("a").cpu(1).gang("g").nominated("n2"), minimum=1)
    assert placed(found) == {"a": "n2"}


@pytest.mark.parametrize("where", ["full", "gone"])
def test_a_stale_nomination_is_no_obstacle(where: str) -> None:
    """A nominated node that is full or gone is passed over."""
    found = decided(node("n1"), node("full").cpu(1), pod("x").cpu(1).on("full"),
                    pod("a").cpu(1).gang("g").nominated(where), minimum=1)  # fmt: skip
    assert placed(found) == {"a": "n1"}


def test_a_nomination_that_would_block_the_others_is_given_up() -> None:
    """A preference is not kept at the price of the gang."""
    found = decided(node("n1").cpu(2), node("n2").cpu(1), pod("a").cpu(1).gang("g").nominated("n1"),
                    pod("b").cpu(2).gang("g"), minimum=2)  # fmt: skip
    assert placed(found) == {"a": "n2", "b": "n1"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=4),
    st.lists(st.sampled_from((0.5, 1, 1.5, 2, 3)), min_size=1, max_size=7),
    st.data(),
)
def test_never_more_than_a_node_has_and_never_less_than_the_minimum(
    rooms: list[int], cores: list[float], data: st.DataObject
) -> None:
    """Whatever is decided is possible, and either nobody is placed or enough are."""
    minimum = data.draw(st.integers(1, len(cores)))
    found = decided(
        *(node(f"n{i}").cpu(r) for i, r in enumerate(rooms)),
        *(pod(f"p{i}").cpu(c).gang("g") for i, c in enumerate(cores)),
        minimum=minimum,
    )
    used: Counter[str] = Counter()
    for name, to in placed(found).items():
        used[to] += round(cores[int(name[1:])] * 1000)
    assert all(used[f"n{i}"] <= r * 1000 for i, r in enumerate(rooms))
    assert not placed(found) or len(placed(found)) >= minimum
    assert {u.pod for u in found.unplaced} | {f"d/{n}" for n in placed(found)} == {f"d/p{i}" for i in range(len(cores))}


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    count=st.integers(1, 40),
    cores=st.sampled_from([0.5, 1, 2]),
    strategy=st.sampled_from(["LeastAllocated", "MostAllocated"]),
)
def test_scoring_all_nodes_at_once_places_as_one_by_one(
    nodes: list[tuple[int, int]], count: int, cores: float, strategy: str
) -> None:
    """However many members are scored together, and whenever that stops to pay, each goes where it would go alone."""
    objects: list[Built] = [node(f"n{i:02d}").cpu(c).memory(m) for i, (c, m) in enumerate(nodes)]
    objects += [pod(f"m{i:02d}").cpu(cores).memory(0.5).gang("g") for i in range(count)]

    fit = msgspec.convert({"scoringStrategy": {"type": strategy}}, NodeResourcesFitArgs)
    plugins = PluginSet(arguments=(("NodeResourcesFit", fit),))

    def rows(many: int, at_once: int) -> dict[str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(placer, "MANY", many)
            patch.setattr(placer, "_NODES_AT_ONCE", at_once)
            return placed(plan(gang("g").min(1), *objects, profiles=((OURS, plugins),))["d/g"])

    alone = rows(10**6, 1)
    assert rows(1, 0) == alone  # all levels at once
    assert rows(1, 10) == alone  # the first few only


def test_a_crowd_is_placed_and_taken_back_like_its_members() -> None:
    """Placing many at once is placing one after another, for free room and for who is there."""
    core = world(node("n1").cpu(8), node("n2").cpu(8), pod("p").cpu(1).on("n1"))
    kind = core.world.snapshot.class_of(pod("m").cpu(2).obj())
    one, many = Simulation(core.world.snapshot), Simulation(core.world.snapshot)
    rows = [0, 1, 1]
    mark = many.mark()
    for row in rows:
        one.place(kind, row)
    many.place_all(kind, np.array(rows))
    assert many.free.tolist() == one.free.tolist()
    assert many.scored.tolist() == one.scored.tolist()
    assert list(many.visitors()) == list(one.visitors())
    many.rollback(mark)
    assert many.free.tolist() == Simulation(core.world.snapshot).free.tolist()
    assert list(many.visitors()) == []


def test_lifting_a_pod_of_a_node_that_is_gone_frees_nothing() -> None:
    """A Job that leaves as a whole may have pods on nodes that no longer exist: no other node gets their room."""
    core = world(node("n1"), node("n2"), pod("here").cpu(1).on("n1"), pod("lost").cpu(2).on("n2"))
    core.handle([Gone("Node", "", "n2")], 0.0)
    sim = Simulation(core.world.snapshot)
    free = sim.free.copy()
    slots = [core.world.snapshot.table.slot_of[f"uid-d-{name}"] for name in ("lost", "here")]
    mark = sim.mark()
    sim.lift_all(np.array(slots, dtype=np.int64))
    assert (sim.free - free)[CPU].tolist() == [1000.0]
    sim.rollback(mark)
    assert (sim.free == free).all()
