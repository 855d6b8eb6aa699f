"""What members ask of nodes, and the rules between pods that are counted for them."""

from __future__ import annotations

import numpy as np
import pytest

from gangsched.core.preemption.rules import APART, SPREAD, TOGETHER, Bar, Span
from gangsched.model.constraints import PodTerm, SpreadConstraint
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Built
from tests.core.preemption.asked import Asked, asked

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def term(key: str, **labels: str) -> PodTerm:
    """A term that selects pods of ``d`` with these labels."""
    return PodTerm(key, selects(**labels), ("d",))


def nodes(count: int = 4) -> list[Built]:
    """Nodes n0, n1, ... in two zones."""
    return [node(f"n{i}").cpu(8).label(**{ZONE: f"z{i % 2}"}) for i in range(count)]


def of(*members: PodBuilder, required: int | None = None, beside: tuple[Built, ...] = ()) -> Asked:
    """The question of a gang of these members, on four nodes."""
    mine = [m.priority(9).label(job="g").gang("g") for m in members]
    return asked(*nodes(), *beside, *mine, gang("g").min(len(mine) if required is None else required))


def row_of(made: Asked, resource: str) -> int:
    """The row of a resource in what members ask for."""
    return made.demand.resources.index.tolist().index(made.sim.snapshot.resources.index(resource))


def named(made: Asked, number: int = 0) -> list[list[str]]:
    """The members of each kind, by name."""
    return [[p.name for p in kind] for kind in made.demands[number].members]


# -- kinds -------------------------------------------------------------------------------------------------


def test_members_that_no_node_can_tell_apart_are_one_kind() -> None:
    """Same requests and same nodes, whatever their labels; another request or selector makes another kind."""
    made = of(
        pod("a").cpu(2), pod("b").cpu(2).label(rank="1"), pod("c").cpu(1), pod("d").cpu(2).selector(**{ZONE: "z1"})
    )
    assert named(made) == [["a", "b"], ["c"], ["d"]]
    assert made.demand.need == (2, 1, 1)
    assert made.demand.request[:, row_of(made, "cpu")].tolist() == [2000, 1000, 2000]
    assert made.demand.mask.tolist() == [[True] * 4, [True] * 4, [False, True, False, True]]


def test_members_with_rules_of_their_own_are_kinds_by_their_labels() -> None:
    """Where other pods matter, a label may decide whom a member keeps off."""
    away = term(HOSTNAME, rank="1")
    made = of(
        *(pod(n).cpu(2).label(rank=r).shape(anti_affinity=(away,)) for n, r in (("a", "1"), ("b", "1"), ("c", "2")))
    )
    assert named(made) == [["a", "b"], ["c"]]
    assert made.demand.rules.exclusive.tolist() == [[True, True], [True, False]]


def test_of_more_members_than_required_several_choices_are_tried() -> None:
    """By name, and the smallest; what all choices have in common is as small as the smallest, anywhere."""
    made = of(pod("a").cpu(4), pod("b").cpu(4).selector(**{ZONE: "z0"}), pod("c").cpu(1), required=1)
    assert [named(made, n) for n in range(len(made.demands))][:2] == [[["a"]], [["c"]]]
    common = made.demand.common
    assert common is not None
    cpu = row_of(made, "cpu")
    assert (common.need, common.request[0, cpu], common.mask.tolist()) == ((1,), 1000, [[True] * 4])
    assert [p is common for p in made.demand.parts()] == [True]


def test_all_members_required_have_no_choice() -> None:
    """One demand, and nothing in common that would say less."""
    made = of(pod("a").cpu(4), pod("b").cpu(1))
    assert len(made.demands) == 1
    assert made.demand.common is None


def test_parts_of_a_demand_are_met_whenever_it_is() -> None:
    """Each kind alone; and several together, each as small as the smallest of them."""
    made = of(pod("a").cpu(4).memory(1), pod("b").cpu(2).memory(2), pod("c").cpu(2).memory(2))
    cpu, memory = (row_of(made, r) for r in ("cpu", "memory"))
    parts = [(p.need, p.request[0, cpu], p.request[0, memory] / (1 << 30)) for p in made.demand.parts()]
    assert parts == [((1,), 4000, 1), ((2,), 2000, 2), ((3,), 2000, 1)]


# -- rules -------------------------------------------------------------------------------------------------


def bar_of(made: Asked) -> Bar:
    """The only bar."""
    (bar,) = made.demand.rules.bars
    return bar


@pytest.mark.parametrize(("key", "open_"), [(HOSTNAME, [True, False, True, True]), (ZONE, [True, False, True, False])])
@pytest.mark.parametrize("theirs", [False, True], ids=["members keep off", "it keeps off members"])
def test_anti_affinity_closes_domains(key: str, open_: list[bool], theirs: bool) -> None:
    """Of either side: the domain of a pod that keeps members off, or that they keep off, is closed until it leaves."""
    made_term = term(key, job="g") if theirs else term(key, app="x")
    other = pod("x").label(app="x").on("n1")
    member = pod("a").cpu(1)
    if theirs:
        other = other.shape(anti_affinity=(made_term,))
    else:
        member = member.shape(anti_affinity=(made_term,))
    made = of(member, beside=(other,))
    bar = bar_of(made)
    assert bar.open().tolist() == open_
    assert bar.by_node == (key == HOSTNAME)
    slots = made.slots("x")
    assert bar.shift(slots, made.sim.snapshot.table.row[slots], -1)
    assert bar.open().all()


def test_host_ports_close_nodes_and_keep_members_apart() -> None:
    """A node whose port is taken is closed; members with the same port do not share a node, others do."""
    made = of(pod("a").port(80), pod("b").port(81), beside=(pod("x").port(80).on("n2"),))
    rules = made.demand.rules
    assert [(bar.of, bar.open().tolist()) for bar in rules.bars] == [(0, [True, True, False, True]), (1, [True] * 4)]
    assert rules.exclusive.tolist() == [[True, False], [False, True]]
    assert rules.complete


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        (pod("a").shape(affinity=(term(ZONE, job="g"),)), TOGETHER),
        (pod("a").shape(anti_affinity=(term(ZONE, job="g"),)), APART),
        (pod("a").shape(spread=(SpreadConstraint(ZONE, 1, selects(job="g"), required=True),)), SPREAD),
    ],
    ids=["together", "apart", "spread"],
)
def test_a_rule_over_zones_is_a_span(member: PodBuilder, kind: str) -> None:
    """Affinity of members to each other, anti-affinity to each other, and an even spread: by domain, nothing else."""
    span = of(member).demand.rules.span
    assert span is not None
    assert (span.kind, span.size, span.code.tolist()) == (kind, 2, [0, 1, 0, 1])


def test_anti_affinity_by_node_is_no_span() -> None:
    """Every node is a domain: members exclude each other."""
    rules = of(pod("a").shape(anti_affinity=(term(HOSTNAME, job="g"),))).demand.rules
    assert rules.span is None
    assert rules.exclusive.tolist() == [[True]]


def test_members_near_other_pods_go_where_these_are() -> None:
    """Only domains with company are open, and company that leaves makes the gang fit less."""
    made = of(pod("a").shape(affinity=(term(ZONE, app="x"),)), beside=(pod("x").label(app="x").on("n1"),))
    assert bar_of(made).open().tolist() == made.demand.mask[0].tolist() == [False, True, False, True]
    assert bar_of(made).company
    assert not made.demand.rules.monotone


@pytest.mark.parametrize(
    ("span", "room", "held"),
    [
        (TOGETHER, [3.0, 2.0, 1.0, 4.0], 6.0),
        (APART, [3.0, 2.0, 0.0, 4.0], 2.0),
        (SPREAD, [3.0, 1.0, 0.0, 1.0], 5.0),
        (SPREAD, [5.0, 0.0, 0.0, 0.0], 1.0),
    ],
)
def test_members_held_under_a_span(span: str, room: list[float], held: float) -> None:
    """The largest domain; one in each; or no domain more than one above the emptiest."""
    code, none = np.array([0, 1, 0, 1]), np.zeros(0, dtype=np.bool_)
    made = Span(span, code, 2, np.zeros(2, dtype=np.int64), none, np.ones(2, dtype=np.bool_), skew=1)
    assert made.held(np.array(room)) == held


def test_rules_that_cannot_be_counted_are_incomplete() -> None:
    """Affinity to different pods: the members are placed instead."""
    made = of(*(pod(n).shape(affinity=(term(ZONE, app=n),)) for n in "ab"))
    assert not made.demand.rules.complete
