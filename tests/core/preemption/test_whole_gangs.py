"""Which running gangs leave whole, where they share no nodes."""

from __future__ import annotations

import pytest

from gangsched.core.preemption import branch_and_bound
from gangsched.core.preemption import gangs as gangs_module
from gangsched.core.preemption import search as search_module
from tests.builders import gang, node, pod
from tests.core.harness import Built
from tests.core.preemption.asked import asked


def running(*gangs: tuple[int, int]) -> list[Built]:
    """Gangs without surplus on nodes of four CPUs of their own: on how many, and how many pods on each."""
    out: list[Built] = []
    for number, (nodes, pods) in enumerate(gangs):
        for row in range(nodes):
            host = f"n{number}-{row}"
            out.append(node(host).cpu(4))
            out += [
                pod(f"r{number}-{row}-{n}").cpu(4 // pods).priority(1).gang(f"r{number}").on(host) for n in range(pods)
            ]
        out.append(gang(f"r{number}").min(nodes * pods))
    return out


def members(count: int) -> list[Built]:
    """A gang whose members want whole nodes."""
    mine = [pod(f"g{n}").cpu(4).priority(9).gang("g") for n in range(count)]
    return [*mine, gang("g").min(count)]


@pytest.mark.parametrize("exchanged", [0, gangs_module._EXCHANGED], ids=["too many to exchange", "few"])
@pytest.mark.parametrize(
    ("wanted", "gangs", "pods"),
    [
        (8, 1, 32),  # only the first frees as many by itself
        (9, 2, 15),  # six nodes with two pods each and three with one, not the largest and whatever is cheapest then
        (10, 2, 16),
        (13, 2, 44),  # eight nodes and six: fewer pods than of eight and five, though there is room to spare
        (14, 2, 44),
        (15, 3, 31),
        (31, 6, 81),  # everything
    ],
)
def test_the_fewest_gangs_and_of_those_the_fewest_pods(
    wanted: int, gangs: int, pods: int, exchanged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is proven, without trying all ways, that none do less: also of more gangs than are exchanged."""
    monkeypatch.setattr(gangs_module, "_EXCHANGED", exchanged)
    monkeypatch.setattr(branch_and_bound, "MAX_DECISIONS", -1)
    monkeypatch.setattr(search_module, "fillings_of", lambda _: None)
    choice = asked(*running((8, 4), (6, 2), (5, 3), (5, 3), (4, 1), (3, 1)), *members(wanted)).search().run()
    assert choice is not None
    assert choice.harm.levels == ((1, gangs, pods),)
    assert choice.gap is None
