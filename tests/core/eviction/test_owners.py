"""A plan owns the pods that it counts on and could take by its own right: they leave for it, whatever others do."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Mark, Remove
from gangsched.core.actuation.records import owners_of
from gangsched.core.decision import WAIT
from gangsched.core.events import Outcome
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster
from tests.core.stories import evicted, go_on


def owners(cluster: Cluster) -> dict[str, list[str]]:
    """For whom each victim leaves, as it says itself."""
    found = {name: owners_of(each) for (_, name), each in cluster.pods.items()}
    return {name: [owner.name.removeprefix("d/") for owner in each] for name, each in found.items() if each}


def until_removal(*objects: Built, **options: Any) -> Cluster:
    """All has been decided and marked; no removal has been sent."""
    cluster = Cluster(*objects, **options)
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.answer()
    cluster.run()
    return cluster


def sharing(priority: int = 5, victim: int = 0) -> Cluster:
    """``first``, of priority 5, evicts v and needs most of its room, ``second`` the rest of it."""
    return until_removal(
        node("n1"), pod("v").cpu(4).priority(victim).on("n1"),
        pod("first").cpu(3).priority(5), pod("second").cpu(1).priority(priority).created(9),
    )  # fmt: skip


WS = {"w1", "w2", "w3"}


def whole(*preemptors: Built, mode: str = "elastic") -> Cluster:
    """Gang low runs on three nodes, with so much priority, and needs two members."""
    members = [pod(f"w{i}").cpu(4).gang("low").on(f"n{i}", 10.0 * i) for i in (1, 2, 3)]
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    return until_removal(*nodes, gang("low").min(2), *members, *preemptors, gang_mode=mode)


# -- who owns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ["priority", "policy"])
def test_who_could_not_take_it_depends_on_it(right: str) -> None:
    """A pod of the same priority, or one that never evicts: the victim bears one name."""
    cluster = sharing(priority=4, victim=4) if right == "priority" else until_removal(
        node("n1"), pod("v").cpu(4).on("n1"), pod("first").cpu(3).priority(5), pod("n").cpu(1).priority(4).never()
    )  # fmt: skip
    assert cluster.decisions[-1].outcome == WAIT
    assert owners(cluster) == {"v": ["first"]}


# -- what becomes of it --------------------------------------------------------------------------------------


def test_a_blocked_removal_of_one_owner_does_not_forbid_that_of_another() -> None:
    """The first gives up when a budget blocks its removal; the second's is carried out."""
    cluster = sharing()
    refused: list[Remove] = []

    def once(write: Any) -> tuple[Outcome, str] | None:
        if isinstance(write, Remove) and not refused:
            refused.append(write)
            return Outcome.BLOCKED, "because"
        return None

    cluster.judge = once
    go_on(cluster)
    assert len(refused) == 1
    assert evicted(cluster) == {"v"}


# -- plans after one that is withdrawn -----------------------------------------------------------------------


def two(**fields: Any) -> tuple[Built, ...]:
    """Two nodes, on which a cheap and a dear pod run; ``first`` takes the cheap one, ``second`` the other."""
    return (
        node("n1"), node("n2"), pod("cheap").cpu(4).on("n1"), pod("dear").cpu(4).priority(1).on("n2"),
        pod("first").cpu(4).priority(5), pod("second").cpu(4).priority(4),
    )  # fmt: skip


def test_stronger_plans_are_not_decided_anew() -> None:
    """They have not seen the room of the weaker one as taken: nothing has changed for them."""
    cluster = until_removal(*two())
    large = pod("other").cpu(8).priority(2).on("n3"), pod("strong").cpu(8).priority(9)
    cluster.show(node("n3").cpu(8), *large)
    cluster.run()
    before = len(cluster.decisions)
    assert [d.gang.name for d in cluster.decisions if d.victims] == ["first", "second", "strong"]
    cluster.delete("second")
    cluster.run()
    assert [d.gang.name for d in cluster.decisions[before:]] == []
