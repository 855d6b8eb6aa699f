"""Counts of pods by term: kept event by event, they are what counting all pods anew gives."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.state.columns import KinColumns
from gangsched.core.state.podtable import TERMINATING, NodeIds, PodTable
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.state.termcounts import NodeCounts, Selection
from gangsched.model.constraints import LabelSelector, PodTerm, Requirement
from gangsched.model.records import Pod
from gangsched.model.selectors import selector_matches
from tests.amounts import amount
from tests.builders import node, pod, selects

NODES = ("n0", "n1", "n2", "n3")
LABELS: list[dict[str, str]] = [{}, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "a"}, {"app": "y", "tier": "b"}]
SPACES = ("d", "e")


def wants(*requirements: tuple[str, str, tuple[str, ...]]) -> LabelSelector:
    """A selector of these (key, operator, values)."""
    return LabelSelector(tuple(Requirement(*r) for r in requirements))


SELECTIONS: list[tuple[Selection, ...]] = [
    (Selection(selects(app="x"), ("d",)),),
    (Selection(selects(app="x"), ("d", "e")),),
    (Selection(selects(app="x"), ("d",)), Selection(selects(tier="a"), ("d", "e"))),
    (Selection(wants(("app", "In", ("x", "y"))), ("e",)),),
    (Selection(wants(("tier", "NotIn", ("a",)), ("app", "Exists", ())), ("d",)),),
    (Selection(wants(("tier", "DoesNotExist", ())), (), selects(team="t")),),
    (Selection(LabelSelector(), (), LabelSelector()),),
    (Selection(LabelSelector(), (), selects(**{"kubernetes.io/metadata.name": "e"})),),
    (Selection(None, ("d",)),),
]
SHAPES = [
    pod("s").obj().shape,
    pod("s").shape(anti_affinity=(PodTerm("zone", selects(app="x"), ("d",)),)).obj().shape,
    pod("s").shape(preferred_affinity=((7, PodTerm("zone", selects(app="x"), ("d",))),)).obj().shape,
]

events = st.lists(
    st.one_of(
        st.tuples(
            st.just("pod"),
            st.integers(0, 7),
            st.sampled_from(NODES),
            st.integers(0, len(LABELS) - 1),
            st.integers(0, len(SHAPES) - 1),
            st.sampled_from([0, TERMINATING]),
        ),
        st.tuples(st.just("gone"), st.integers(0, 7)),
        st.tuples(st.just("node"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("namespace"), st.sampled_from(SPACES), st.sampled_from(["t", "u", ""])),
        st.tuples(st.just("ask"), st.integers(0, len(SELECTIONS) - 1)),
        st.tuples(st.just("keep"), st.integers(0, len(SHAPES) - 1)),
    ),
    max_size=40,
)


class Changing:
    """A snapshot to which events happen, and what is there in the end."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.pods: dict[str, tuple[Pod, str, int]] = {}
        self.nodes: set[str] = set()
        for shape in SHAPES:
            self.snapshot.shape_number(shape)

    def happen(self, event: tuple[object, ...]) -> None:
        """One event."""
        match event:
            case ("pod", int(number), str(to), int(labels), int(shape), int(flags)):
                self.set_pod(number, to, labels, shape, flags)
            case ("gone", int(number)):
                self.drop_pod(f"u{number}")
            case ("node", str(name), bool(there)):
                if there:
                    self.nodes.add(name)
                    self.snapshot.set_node(node(name).obj())
                else:
                    self.nodes.discard(name)
                    self.snapshot.drop_node(name)
            case ("namespace", str(name), str(team)):
                self.snapshot.namespaces[name] = {"kubernetes.io/metadata.name": name, "team": team}
                self.snapshot.terms.namespaces_changed()
            case ("ask", int(which)):
                self.snapshot.align_rows()
                self.snapshot.terms.selected(SELECTIONS[which])
            case ("keep", int(which)):  # what no pod has is forgotten, and comes again
                self.snapshot.keep_shapes([SHAPES[which]])
                for each in SHAPES:
                    self.snapshot.shape_number(each)

    def set_pod(self, number: int, to: str, labels: int, shape: int, flags: int) -> None:
        """Create a pod, change it where it is, or move it."""
        uid = f"u{number}"
        made = pod(f"p{number}", SPACES[number % 2]).uid(uid).labels(dict(LABELS[labels])).obj()
        made = msgspec.structs.replace(made, shape=SHAPES[shape], node=to)
        if uid in self.pods and self.pods[uid][1] == to:
            self.snapshot.put(made, to, flags)
        else:
            self.drop_pod(uid)
            self.snapshot.put(made, to, flags)
        self.pods[uid] = (made, to, flags)

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        found = self.pods.pop(uid, None)
        if found is not None:
            self.snapshot.discharge(uid)

    def rebuilt(self) -> Snapshot:
        """A new snapshot of the same state."""
        fresh = Snapshot()
        fresh.namespaces.update(self.snapshot.namespaces)
        for shape in SHAPES:
            fresh.shape_number(shape)
        for name in sorted(self.nodes, reverse=True):
            fresh.set_node(node(name).obj())
        for made, to, flags in self.pods.values():
            fresh.put(made, to, flags)
        return fresh


def by_node(snapshot: Snapshot, counts: NodeCounts) -> dict[str, int]:
    """Counts by the name of the node."""
    rows, amounts = counts.rows(snapshot.node_ids)
    return {snapshot.nodes[r].name: a for r, a in zip(rows.tolist(), amounts.tolist(), strict=True)}


def everything(snapshot: Snapshot) -> list[dict[str, int]]:
    """All counts there are, selected and carried."""
    snapshot.align_rows()
    out = []
    for selections in SELECTIONS:
        found = snapshot.terms.selected(selections)
        out += [by_node(snapshot, found.live), by_node(snapshot, found.leaving)]
    named = snapshot.class_of(pod("p").label(app="x").obj())
    for carried in (*snapshot.terms.apart(named), *snapshot.terms.pulls(named)):
        out.append(by_node(snapshot, carried.pods))
    return out


@settings(max_examples=amount(300, 50), deadline=None)
@given(events)
def test_kept_counts_equal_rebuilt_ones(happened: list[tuple[object, ...]]) -> None:
    """Whatever happens to pods, nodes and namespaces, and whenever a count was first asked for."""
    changing = Changing()
    for event in happened:
        changing.happen(event)
    assert everything(changing.snapshot) == everything(changing.rebuilt())


@settings(max_examples=amount(60, 12), deadline=None)
@given(events)
def test_counts_agree_with_asking_each_pod(happened: list[tuple[object, ...]]) -> None:
    """A selected count is the number of pods on the node for which the selection holds."""
    changing = Changing()
    for event in happened:
        changing.happen(event)
    snapshot = changing.snapshot
    snapshot.align_rows()
    for selections in SELECTIONS:
        expected: dict[str, int] = {}
        for made, to, _ in changing.pods.values():
            hit = all(snapshot.terms.selects(s, made.namespace, made.labels) for s in selections)
            if hit and to in changing.nodes:
                expected[to] = expected.get(to, 0) + 1
        rows, counts = snapshot.terms.selected(selections).rows(snapshot.node_ids, leaving=True)
        found = np.bincount(rows, weights=counts, minlength=snapshot.size)
        assert {n.name: int(c) for n, c in zip(snapshot.nodes, found, strict=True) if c} == expected


@settings(max_examples=amount(60, 12), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.sampled_from([-2, 1, 5])), max_size=900))
def test_amounts_by_node_are_the_same_however_many_nodes_have_one(changes: list[tuple[int, int]]) -> None:
    """A dict while they are few, an array when they are many: nobody can tell."""
    counts = NodeCounts()
    expected: dict[int, int] = {}
    for at, more in changes:
        counts.add(at, more)
        expected[at] = expected.get(at, 0) + more
    nodes, amounts = counts.pairs()
    assert dict(zip(nodes.tolist(), amounts.tolist(), strict=True)) == {k: v for k, v in expected.items() if v}
    assert counts.total == sum(expected.values())


def test_many_nodes_with_pods_are_an_array() -> None:
    """The switch happens, and what was there before it is kept."""
    counts = NodeCounts()
    for number in range(300):
        counts.add(number, 1)
    counts.add(5000, 3)
    nodes, amounts = counts.pairs()
    assert (len(nodes), amounts.sum(), counts.total) == (301, 303, 303)


def test_numbers_of_nodes_that_are_gone_are_used_again() -> None:
    """A cluster that replaces its nodes all the time does not grow."""
    snapshot = Snapshot()
    for i in range(500):
        snapshot.set_node(node(f"n{i}").obj())
        made = pod(f"p{i}").on(f"n{i}").obj()
        snapshot.put(made, f"n{i}", 0)
        snapshot.drop_node(f"n{i}")
        snapshot.discharge(made.uid)
    assert snapshot.node_ids.join("new") == 0


def test_a_node_number_outlives_the_node_while_it_has_pods() -> None:
    """Pods of a node that is gone for a while count again when it comes back."""
    ids = NodeIds()
    assert (ids.join("a"), ids.join("b"), ids.join("a")) == (0, 1, 0)
    ids.place(["b"])
    assert ids.row[:2].tolist() == [-1, 0]
    assert not ids.release(0)
    assert ids.join("c") == 2
    assert ids.release(0)
    assert ids.join("d") == 0


def test_labels_that_no_pod_has_any_more_are_forgotten() -> None:
    """When the numbers of label sets are given anew, counts and columns stay right."""
    snapshot = Snapshot()
    snapshot.set_node(node("n0").obj())
    snapshot.align_rows()
    wanted = (Selection(selects(app="x"), ("d",)),)
    snapshot.terms.selected(wanted)
    keep = pod("keep").label(app="x").on("n0").obj()
    snapshot.put(keep, "n0", 0)
    generation = snapshot.table.kin_generation
    for i in range(5000):
        made = pod(f"p{i}").label(app="x", index=str(i)).on("n0").obj()
        snapshot.put(made, "n0", 0)
        snapshot.discharge(made.uid)
    assert snapshot.table.kin_generation > generation
    snapshot.put(pod("more").label(app="x", index="z").on("n0").obj(), "n0", 0)
    assert by_node(snapshot, snapshot.terms.selected(wanted).live) == {"n0": 2}
    slots = snapshot.terms.among(snapshot.table.occupied(), wanted)
    assert [p.name for s in slots if (p := snapshot.table.pods[s]) is not None] == ["keep", "more"]


labels_of_a_pod = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
requirements: st.SearchStrategy[tuple[str, str, set[str]]] = st.one_of(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["In", "NotIn"]), st.sets(st.sampled_from("xyzw"), min_size=1)),
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["Exists", "DoesNotExist"]), st.just(set())),
)


@settings(max_examples=amount(150, 25), deadline=None)
@given(st.lists(labels_of_a_pod, min_size=1, max_size=12), st.lists(requirements, max_size=3))
def test_selecting_all_at_once_is_selecting_each(
    pods: list[dict[str, str]], asked: list[tuple[str, str, set[str]]]
) -> None:
    """Columns answer as the selector does for one object, also for pods that come later."""
    table = PodTable()
    columns = KinColumns(table)
    selector = LabelSelector(tuple(Requirement(k, op, tuple(sorted(v))) for k, op, v in asked))
    seen: list[int] = []
    for labels in pods:
        seen.append(table.kin_number("d", labels))
        kins = np.array(seen, dtype=np.int64)
        expected = [selector_matches(selector, table.kins[k][1]) for k in seen]
        assert columns.selected(kins, selector).tolist() == expected


def test_more_selections_than_are_kept_stay_right() -> None:
    """Those that were not asked for lately are counted anew."""
    snapshot = Snapshot()
    snapshot.set_node(node("n0").obj())
    snapshot.align_rows()
    for i in range(2100):
        snapshot.terms.selected((Selection(selects(app=f"a{i}"), ("d",)),))
    snapshot.put(pod("p").label(app="a0").on("n0").obj(), "n0", 0)
    snapshot.put(pod("q").label(app="a2099").on("n0").obj(), "n0", 0)
    for app in ("a0", "a2099"):
        found = snapshot.terms.selected((Selection(selects(app=app), ("d",)),))
        assert by_node(snapshot, found.live) == {"n0": 1}
