"""Gangs whose members all ask for different amounts: ranks with requests of their own, or many worker groups."""

from __future__ import annotations

import pytest

from tests.builders import gang, node, pod
from tests.core.harness import Built, plan, victims

#: The product of 63 counts of two is beyond 64 bits, that of 62 is not.
SIZES = (1, 8, 62, 63, 64, 65, 128)


def members(sizes: int) -> list[Built]:
    """A gang with one member of each size, each more than half of a node."""
    return [gang("g").min(sizes), *(pod(f"g{n:03}").cpu(2 + n / 1000).priority(9).gang("g") for n in range(sizes))]


@pytest.mark.parametrize("sizes", SIZES)
def test_a_gang_of_any_number_of_sizes_evicts_no_more_than_it_needs(sizes: int) -> None:
    """One victim for each member is the least where each needs a node for itself, and two nodes are left alone."""
    full: list[Built] = [node(f"n{n:03}").cpu(3) for n in range(sizes + 2)]
    full += [pod(f"v{n:03}").cpu(3).priority(1).on(f"n{n:03}") for n in range(sizes + 2)]
    assert len(victims(plan(*full, *members(sizes))["d/g"])) == sizes


@pytest.mark.parametrize("sizes", SIZES)
def test_free_nodes_are_used_first_whatever_the_number_of_sizes(sizes: int) -> None:
    """Half of the nodes are free: only the others have victims."""
    free = sizes // 2
    nodes = [node(f"n{n:03}").cpu(3) for n in range(sizes)]
    low = [pod(f"v{n:03}").cpu(3).priority(1).on(f"n{n:03}") for n in range(free, sizes)]
    assert len(victims(plan(*nodes, *low, *members(sizes))["d/g"])) == sizes - free


@pytest.mark.parametrize("sizes", [39, 40, 41, 64])
def test_two_members_of_each_of_many_sizes_share_nodes(sizes: int) -> None:
    """With two of each size on a node the numbers of ways are powers of three: 40 sizes are beyond 64 bits."""
    nodes = [node(f"n{n:03}").cpu(6) for n in range(sizes)]
    low = [pod(f"v{n:03}").cpu(6).priority(1).on(f"n{n:03}") for n in range(sizes)]
    pairs: list[Built] = [gang("g").min(2 * sizes)]
    pairs += [pod(f"g{n:03}-{k}").cpu(2 + (n + 1) / 1000).priority(9).gang("g") for n in range(sizes) for k in (0, 1)]
    assert len(victims(plan(*nodes, *low, *pairs)["d/g"])) == sizes
