"""The cluster as arrays: what is kept up to date event by event must equal what is built at once."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.state.podtable import ASSUMED, PROTECTED, TERMINATING
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.world.world import World
from gangsched.model.constraints import NodeTerm, PodTerm, Requirement
from tests.builders import GIB, OURS, NodeBuilder, PodBuilder, node, pod, selects

NODES = ("n1", "n2", "n3")
PODS = ("a", "b", "c", "d", "e")


def seen(world: World) -> dict[str, Any]:
    """All that decisions read, without slot, shape and resource numbers, which depend on the order of arrival."""
    snapshot = world.snapshot
    snapshot.align_rows()
    table = snapshot.table

    def amounts(matrix: Any, row: int) -> dict[str, float]:
        return {name: matrix[i, row] for i, name in enumerate(snapshot.resources) if matrix[i, row]}

    return {
        "nodes": [n.name for n in snapshot.nodes],
        "allocatable": [amounts(snapshot.allocatable, i) for i in range(snapshot.size)],
        "used": [amounts(snapshot.used, i) for i in range(snapshot.size)],
        "scored": snapshot.scored.tolist(),
        "pods": {
            p.uid: (
                p,
                int(table.row[slot]),
                int(table.priority[slot]),
                int(table.flags[slot]),
                table.gang_ids[table.gang[slot]],
                float(table.started[slot]),
                snapshot.shapes[table.shape[slot]],
            )
            for slot, p in enumerate(table.pods)
            if p is not None
        },
        "on": {n: sorted(p.uid for p in snapshot.pods_on(n)) for n in NODES},
        "columns": {
            "zone": [
                snapshot.columns.label("zone").values[c] if c >= 0 else None
                for c in snapshot.columns.label("zone").codes.tolist()
            ],
            "taints": [snapshot.columns.taints()[1][c] for c in snapshot.columns.taints()[0].tolist()],
            "ready": snapshot.columns.flag("ready").tolist(),
            "unschedulable": snapshot.columns.flag("unschedulable").tolist(),
        },
    }


@st.composite
def a_node(draw: st.DrawFn) -> NodeBuilder:
    """A node in one of a few variants."""
    made = node(draw(st.sampled_from(NODES))).cpu(draw(st.sampled_from((2, 4))))
    if draw(st.booleans()):
        made.gpu(2)
    if draw(st.booleans()):
        made.label(zone=draw(st.sampled_from(("x", "y"))))
    if draw(st.booleans()):
        made.taint("k")
    if draw(st.booleans()):
        made.not_ready()
    if draw(st.booleans()):
        made.cordoned()
    return made


@st.composite
def a_pod(draw: st.DrawFn) -> PodBuilder:
    """A pod in one of a few variants, pending or bound, possibly to a node that nobody knows."""
    name = draw(st.sampled_from(PODS))
    made = pod(name).cpu(draw(st.sampled_from((0.5, 1)))).priority(draw(st.sampled_from((0, 7))))
    made.uid(f"{name}-{draw(st.integers(1, 2))}")
    if draw(st.booleans()):
        made.gpu(1)
    if draw(st.booleans()):
        made.gang("g")
    if draw(st.booleans()):
        made.on(draw(st.sampled_from((*NODES, "unknown"))), started=draw(st.sampled_from((0.0, 5.0))))
        made.phase(draw(st.sampled_from(("Running", "Running", "Succeeded"))))
        if draw(st.booleans()):
            made.terminating()
    return made


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("node"), a_node()),
        st.tuples(st.just("no node"), st.sampled_from(NODES)),
        st.tuples(st.just("pod"), a_pod()),
        st.tuples(st.just("no pod"), st.sampled_from(PODS)),
        st.tuples(st.just("assume"), st.tuples(st.sampled_from(PODS), st.sampled_from(NODES))),
        st.tuples(st.just("forget"), st.sampled_from(PODS)),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("shapes"), st.none()),
    ),
    max_size=40,
)


def apply(world: World, change: tuple[str, Any], nodes: dict[str, Any]) -> None:
    """One change of the cluster."""
    kind, what = change
    if kind == "node":
        made = what.obj()
        nodes[made.name] = made
        world.snapshot.set_node(made)
    elif kind == "no node":
        nodes.pop(what, None)
        world.snapshot.drop_node(what)
    elif kind == "pod":
        world.set_pod(what.obj())
    elif kind == "read":
        seen(world)
    elif kind == "shapes":
        world.snapshot.keep_shapes(p.shape for p in world.pods.values())
    elif kind == "assume":
        found = world.find("d", what[0])
        if found is not None and not found.node and not found.finished:
            world.assume(found.uid, what[1])
    else:
        found = world.find("d", what)
        if found is not None:
            (world.drop_pod if kind == "no pod" else world.forget)(found.uid)


@settings(max_examples=150, deadline=None)
@given(CHANGES)
def test_incremental_equals_rebuilt(changes: list[tuple[str, Any]]) -> None:
    """Whatever happened in whatever order, the arrays are those of the objects that are left."""
    world = World([OURS])
    nodes: dict[str, Any] = {}
    for change in changes:
        apply(world, change, nodes)
    fresh = World([OURS])
    for made in nodes.values():
        fresh.snapshot.set_node(made)
    for uid, found in sorted(world.pods.items(), reverse=True):
        fresh.set_pod(found)
        if uid in world.assumed:
            fresh.assume(uid, world.assumed[uid])
    assert seen(world) == seen(fresh)


@settings(max_examples=50, deadline=None)
@given(CHANGES)
def test_nothing_is_left_when_everything_is_gone(changes: list[tuple[str, Any]]) -> None:
    """After all pods are gone no room is used and no slot is taken."""
    world = World([OURS])
    for change in changes:
        apply(world, change, {})
    for uid in list(world.pods):
        world.drop_pod(uid)
    world.snapshot.align_rows()
    assert not world.snapshot.used.any()
    assert not world.snapshot.scored.any()
    assert not world.snapshot.table.occupied().size
    assert not world.membership.members


def test_rows_are_in_name_order_whatever_the_order_of_arrival() -> None:
    """Ties are broken by row, so rows must not depend on which node came first."""
    snapshot = Snapshot()
    for name in ("n3", "n1"):
        snapshot.set_node(node(name).obj())
    snapshot.align_rows()
    snapshot.set_node(node("n2").obj())
    snapshot.align_rows()
    assert [n.name for n in snapshot.nodes] == ["n1", "n2", "n3"]
    assert snapshot.row_of == {"n1": 0, "n2": 1, "n3": 2}


def test_pods_bound_before_their_node_is_known_count_when_it_comes() -> None:
    """Pods and nodes are listed by different watches: either may come first."""
    world = World([OURS])
    world.set_pod(pod("a").cpu(1).memory(2).on("n1").obj())
    world.snapshot.set_node(node("n1").obj())
    world.snapshot.align_rows()
    assert world.snapshot.used[:3, 0].tolist() == [1, 1000, 2 * GIB]


def test_a_node_that_comes_back_has_its_pods_again() -> None:
    """A node object may be re-created while its pods are still bound to it."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    world.set_pod(pod("a").cpu(1).on("n1").obj())
    world.snapshot.drop_node("n1")
    world.snapshot.align_rows()
    assert world.snapshot.size == 0
    world.snapshot.set_node(node("n1").cpu(8).obj())
    world.snapshot.align_rows()
    assert world.snapshot.used[1].tolist() == [1000]


@pytest.mark.parametrize(
    ("made", "flags"),
    [
        (pod("a").on("n1"), 0),
        (pod("a").on("n1").terminating(), TERMINATING),
        (pod("a").on("n1").static(), PROTECTED),
        (pod("a").on("n1").owner("DaemonSet", "x"), PROTECTED),
        (pod("a").on("n1").owner("Job", "x"), 0),
        (pod("a").on("n1").labels({"scheduling.koordinator.sh/disable-preemptible": "true"}), PROTECTED),
        (pod("a").on("n1").hint("volcano.sh/preemptable", "false").terminating(), PROTECTED | TERMINATING),
    ],
    ids=["plain", "terminating", "static", "daemonset", "job", "koordinator", "volcano-terminating"],
)
def test_flags_say_what_a_pod_may_suffer(made: PodBuilder, flags: int) -> None:
    """The flags column has what the search for victims asks of every pod."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    world.set_pod(made.obj())
    assert world.snapshot.table.flags[0] == flags


def test_assumed_pods_take_room_until_forgotten() -> None:
    """Between our binding and its echo the room counts, and is free again when the binding fails."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    world.set_pod(pod("a").cpu(1).obj())
    world.assume("uid-d-a", "n1")
    world.snapshot.align_rows()
    assert (world.snapshot.used[1, 0], world.snapshot.table.flags[0]) == (1000, ASSUMED)
    world.forget("uid-d-a")
    assert world.snapshot.used[1, 0] == 0
    assert "uid-d-a" not in world.assumed


def test_the_echo_of_a_binding_replaces_the_assumption() -> None:
    """The cluster has the last word on where a pod is."""
    world = World([OURS])
    for name in ("n1", "n2"):
        world.snapshot.set_node(node(name).obj())
    world.snapshot.align_rows()
    world.set_pod(pod("a").cpu(1).obj())
    world.assume("uid-d-a", "n1")
    world.set_pod(pod("a").cpu(1).on("n2").obj())
    assert world.snapshot.used[1].tolist() == [0, 1000]
    assert world.snapshot.table.flags[0] == 0


def test_finished_pods_take_no_room() -> None:
    """Succeeded and failed pods keep their nodeName but not their resources."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    world.set_pod(pod("a").cpu(1).on("n1").obj())
    world.set_pod(pod("a").cpu(1).on("n1").phase("Failed").obj())
    world.snapshot.align_rows()
    assert not world.snapshot.used.any()


def test_a_pod_of_the_same_name_replaces_the_earlier_one() -> None:
    """A pod may be re-created before its deletion has been seen."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    world.set_pod(pod("a").cpu(1).on("n1").uid("old").obj())
    world.set_pod(pod("a").cpu(2).uid("new").obj())
    world.snapshot.align_rows()
    assert not world.snapshot.used.any()
    assert set(world.pods) == {"new"}


# -- node columns ------------------------------------------------------------------------------------------

LABELLED = [
    node("n1").label(zone="a", size="5"),
    node("n2").label(zone="b", size="11"),
    node("n3").label(zone="a", size="big"),
    node("n4"),
]


def rows(*terms: Requirement, fields: tuple[Requirement, ...] = ()) -> list[str]:
    """Names of the nodes that one term matches."""
    snapshot = Snapshot()
    for made in LABELLED:
        snapshot.set_node(made.obj())
    snapshot.align_rows()
    mask = snapshot.columns.term(NodeTerm(terms, fields))
    return [n.name for n, hit in zip(snapshot.nodes, mask, strict=True) if hit]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Requirement("zone", "In", ("a",)), ["n1", "n3"]),
        (Requirement("zone", "In", ("a", "b")), ["n1", "n2", "n3"]),
        (Requirement("zone", "In", ("nowhere",)), []),
        (Requirement("zone", "NotIn", ("a",)), ["n2", "n4"]),
        (Requirement("zone", "Exists"), ["n1", "n2", "n3"]),
        (Requirement("zone", "DoesNotExist"), ["n4"]),
        (Requirement("size", "Gt", ("5",)), ["n2"]),
        (Requirement("size", "Gt", ("4",)), ["n1", "n2"]),
        (Requirement("size", "Lt", ("11",)), ["n1"]),
        (Requirement("absent", "Lt", ("11",)), []),
    ],
    ids=lambda v: f"{v.key}-{v.operator}-{'-'.join(v.values)}" if isinstance(v, Requirement) else None,
)
def test_label_requirements(term: Requirement, expected: list[str]) -> None:
    """Every operator as the API defines it: NotIn also holds without the label, numbers are compared as such."""
    assert rows(term) == expected


def test_requirements_of_a_term_are_all_needed_and_none_match_nothing() -> None:
    """A term is a conjunction; an empty one matches no node."""
    assert rows(Requirement("zone", "In", ("a",)), Requirement("size", "Lt", ("11",))) == ["n1"]
    assert rows() == []


def test_fields_select_by_name() -> None:
    """Of fields the API knows metadata.name alone."""
    assert rows(fields=(Requirement("metadata.name", "In", ("n2", "gone")),)) == ["n2"]
    assert rows(fields=(Requirement("metadata.name", "NotIn", ("n2",)),)) == ["n1", "n3", "n4"]


def test_columns_follow_a_changed_node() -> None:
    """A column that has been made stays current when a node's labels, taints or flags change."""
    snapshot = Snapshot()
    snapshot.set_node(node("n1").label(zone="a").obj())
    snapshot.align_rows()
    zone_a = Requirement("zone", "In", ("a",))
    before = snapshot.static_generation
    assert snapshot.columns.requirement(zone_a).tolist() == [True]
    assert snapshot.columns.flag("ready").tolist() == [True]
    snapshot.columns.taints()
    snapshot.set_node(node("n1").label(zone="b").taint("k").not_ready().obj())
    assert snapshot.columns.requirement(zone_a).tolist() == [False]
    assert snapshot.columns.flag("ready").tolist() == [False]
    codes, sets = snapshot.columns.taints()
    assert [t.key for t in sets[codes[0]]] == ["k"]
    assert snapshot.static_generation > before


def test_only_what_static_filters_read_makes_a_new_generation() -> None:
    """Masks cached by generation survive a heartbeat and a change of capacity."""
    snapshot = Snapshot()
    made = node("n1").obj()
    snapshot.set_node(made)
    snapshot.align_rows()
    before = snapshot.static_generation
    snapshot.set_node(msgspec.structs.replace(node("n1").cpu(8).obj(), version="2"))
    assert snapshot.static_generation == before
    assert snapshot.allocatable[1].tolist() == [8000]


def test_a_resource_seen_late_is_a_row_for_all() -> None:
    """A device that appears after pods were charged gets its row; earlier amounts stay."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    world.set_pod(pod("a").cpu(1).on("n1").obj())
    world.snapshot.set_node(node("n2").gpu(4).obj())
    world.set_pod(pod("b").gpu(1).on("n2").obj())
    world.snapshot.align_rows()
    row = world.snapshot.resource_row["nvidia.com/gpu"]
    assert world.snapshot.used[row].tolist() == [0, 1]
    assert world.snapshot.allocatable[row].tolist() == [0, 4]
    assert np.array_equal(world.snapshot.used[1], [1000, 0])


def test_taints_that_no_node_has_any_more_are_forgotten() -> None:
    """An autoscaler that writes the time into its taint does not make every later decision look at all of them."""
    snapshot = Snapshot()
    snapshot.set_node(node("n1").taint("a").obj())
    snapshot.set_node(node("n2").obj())
    snapshot.align_rows()
    for second in range(1000):
        snapshot.set_node(node("n1").taint("deletion-candidate", str(second)).obj())
        codes, sets = snapshot.columns.taints()
        assert [sets[code] for code in codes] == [n.taints for n in snapshot.nodes]
        assert len(sets) < 300


def test_shapes_that_no_pod_has_any_more_are_forgotten() -> None:
    """Every image tag makes a new shape, and every term on a job's name: pods come and go for months."""
    world = World([OURS])
    world.snapshot.set_node(node("n1").obj())
    kept = pod("kept").cpu(1).on("n1").obj()
    world.set_pod(kept)
    like_kept = world.snapshot.class_of(kept)
    for k in range(3000):
        term = PodTerm("zone", selects(job=str(k)), ("d",))
        world.set_pod(pod("p").uid(f"u{k}").on("n1").shape(images=(f"app:{k}",), anti_affinity=(term,)).obj())
    snapshot = world.snapshot
    assert len(snapshot.shapes) < 1100
    assert len(snapshot.anti_shapes) < 1100
    assert len(snapshot.terms.apart(snapshot.class_of(pod("q").label(job="0").obj()))) == 0
    assert len(snapshot.terms.apart(snapshot.class_of(pod("q").label(job="2999").obj()))) == 1
    assert [snapshot.shapes[snapshot.table.shape[snapshot.table.slot_of[kept.uid]]]] == [kept.shape]
    assert snapshot.class_of(kept).shape is like_kept.shape


def test_label_values_that_no_node_has_any_more_are_forgotten() -> None:
    """Each node that an autoscaler adds and removes has a hostname of its own."""
    snapshot = Snapshot()
    snapshot.set_node(node("kept").label(host="kept").obj())
    for number in range(1000):
        snapshot.set_node(node(f"n{number}").label(host=f"n{number}").obj())
        snapshot.align_rows()
        column = snapshot.columns.label("host")
        assert [column.values[code] for code in column.codes] == ["kept", f"n{number}"]
        snapshot.drop_node(f"n{number}")
        snapshot.align_rows()
    assert len(snapshot.columns.label("host").values) < 300
