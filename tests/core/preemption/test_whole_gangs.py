"""Which running gangs leave whole, where they share no nodes."""

from __future__ import annotations

import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from gangsched.core.placement.arrangement import MAX_MEMBERS
from gangsched.core.planning.outcomes import Outcomes
from gangsched.core.preemption import branch_and_bound
from gangsched.core.preemption import gangs as gangs_module
from gangsched.core.preemption import search as search_module
from gangsched.model.constraints import PodTerm
from tests.builders import gang, node, pod, selects
from tests.core.harness import Built, placed, plan
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


@pytest.mark.parametrize("size", [MAX_MEMBERS, MAX_MEMBERS + 4])
def test_members_near_each_other_go_where_all_of_them_fit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gangs leave from two zones: the one that scores best, and is packed tightest, has room for nine members only. And
    where members do not find their places nobody says that there are none.
    """
    near = PodTerm("zone", selects(job="g"), ("d",))
    question: list[Built] = []
    for n in range(size):
        question += [node(f"b{n:02d}").cpu(4).label(zone="b"), pod(f"b{n:02d}").cpu(4).gang(f"r{n}").on(f"b{n:02d}")]
        if n < 5:
            cpu = 8 if n else 4
            question += [node(f"a{n}").cpu(cpu).label(zone="a"), pod(f"a{n}").cpu(cpu).gang(f"r{n}").on(f"a{n}")]
        question.append(gang(f"r{n}").min(1 + (n < 5)))
    mine = [pod(f"g{n:02d}").cpu(4).priority(9).gang("g").label(job="g").shape(affinity=(near,)) for n in range(size)]
    found = plan(*question, *mine, gang("g").min(size))["d/g"]
    assert found.outcome == PREEMPT
    assert {name[0] for name in placed(found).values()} == {"b"}

    monkeypatch.setattr(Outcomes, "preempt", lambda *_: None)
    refused = plan(*question, *mine, gang("g").min(size))["d/g"]
    assert refused.outcome == UNSCHEDULABLE
    assert "no victims were found" in refused.message
