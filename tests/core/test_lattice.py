"""Sets of states: how many members of each class have a place."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.preemption.lattice import Lattice, Vector

MOST = (3, 2, 1)


def loads(lattice: Lattice, vectors: list[Vector]) -> tuple[int, ...]:
    """The largest loads among these, as a node offers them."""
    states = 0
    for vector in vectors:
        states |= 1 << lattice.code(vector)
    return lattice.top(lattice.closed(states))


vectors = st.lists(st.tuples(*(st.integers(0, n) for n in MOST)), min_size=1, max_size=4)


@given(st.lists(vectors, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_what_nodes_hold_together(nodes: list[list[Vector]]) -> None:
    """Exactly the sums of what each holds, and all that is less, up to the number of members."""
    lattice = Lattice(MOST, [((0, 1, 2), 6)])
    states = 1
    for node in nodes:
        states = lattice.added(states, loads(lattice, node))
    sums = [tuple(min(n, sum(v)) for n, v in zip(MOST, zip(*chosen, strict=True), strict=True))
            for chosen in product(*nodes)]  # fmt: skip
    for state in product(*(range(n + 1) for n in MOST)):
        held = any(all(a <= b for a, b in zip(state, total, strict=True)) for total in sums)
        assert bool(states >> lattice.code(state) & 1) == held


@given(st.lists(vectors, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_state_is_traced_back_to_its_nodes(nodes: list[list[Vector]]) -> None:
    """The parts add up to the state, and each node can hold its part."""
    lattice = Lattice(MOST, [((0, 1, 2), 6)])
    offered = [loads(lattice, node) for node in nodes]
    states = 1
    for some in offered:
        states = lattice.added(states, some)
    for target in lattice.top(states):
        parts = lattice.traced(offered, target)
        assert parts is not None
        assert sum(parts) == target
        for part, node in zip(parts, nodes, strict=True):
            mine = lattice.vector(part)
            assert any(all(a <= b for a, b in zip(mine, vector, strict=True)) for vector in node)


def test_a_state_out_of_reach_has_no_trace() -> None:
    """Nothing is invented."""
    lattice = Lattice((2,), [((0,), 2)])
    assert lattice.traced([loads(lattice, [(1,)])], lattice.code((2,))) is None


def test_members_without_a_place() -> None:
    """Of the classes of a gang so many are needed; those of another gang do not make up for them."""
    lattice = Lattice((2, 2), [((0,), 1), ((1,), 2)])
    held = lattice.closed(1 << lattice.code((2, 1)))
    assert lattice.shortfall(held) == 1
    assert lattice.goal(held) == -1
    assert lattice.vector(lattice.goal(lattice.closed(1 << lattice.code((2, 2))))) == (1, 2)
