"""Lists of victims of which some are gone when another process takes over."""

from __future__ import annotations

from gangsched.core.actions import Mark, Remove, Unmark, Write
from gangsched.core.events import Outcome
from tests.builders import gang, node, pdb, pod
from tests.core.harness import Cluster


def half_removed(*, mode: str | None, minimum: int, members: int = 2) -> Cluster:
    """A single pod evicts members of a gang on n1 and n2; the first is gone when the process dies."""
    running = [pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in range(1, members + 1)]
    group = gang("g").min(minimum)
    cluster = Cluster(*(node(f"n{i}").cpu(4) for i in (1, 2, 3)), group.mode(mode) if mode else group, *running)
    cluster.run()
    sent: list[str] = []

    def slow(write: Write) -> bool:
        if isinstance(write, Remove):
            sent.append(write.pod.name)
        return isinstance(write, Remove) and write.pod.name != "m1"

    cluster.slow = slow
    cluster.show(
        node("n3").cordoned(), pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),))
    )
    cluster.run()
    assert "m1" in sent
    cluster.leave("m1")
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    return cluster


def test_nobody_is_marked_anew() -> None:
    """The list that stands is carried out: no second one is made."""
    cluster = half_removed(mode=None, minimum=2)
    assert [a.pod.name for a in cluster.log if isinstance(a, Mark)].count("m2") == 1


def test_a_member_whose_node_is_gone_is_not_marked_anew() -> None:
    """It was never on the list, though its gang leaves as a whole: others delete it."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("g").min(3),
        *(pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in (1, 2, 3)),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
    )
    cluster.run()
    cluster.leave("m2")
    cluster.restart()
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Mark)} == {"m1", "m2"}
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == {"m1", "m2"}


def test_a_list_that_breaks_a_budget_is_finished_although_a_removal_fails() -> None:
    """It broke that from the start, as far as is known: no budget was tightened for which others may be better."""
    victims = [pod(f"v{i}").cpu(4).label(app="x").on(f"n{i}") for i in (1, 2, 3)]
    tops = [pod(f"top{i}").cpu(4).priority(9).gang("top") for i in (1, 2, 3)]
    nodes = [node(f"n{i}").cpu(4) for i in (1, 2, 3)]
    cluster = Cluster(*nodes, *victims, pdb("b").selects(app="x").allows(1))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove) and write.pod.name != "v1"
    cluster.show(gang("top").min(3), *tops)
    cluster.run()
    cluster.leave("v1")
    cluster.restart()
    failing = ["v2", "v3"]

    def busy_once(write: Write) -> tuple[Outcome, str] | None:
        if not isinstance(write, Remove) or write.pod.name not in failing:
            return None
        failing.remove(write.pod.name)
        return Outcome.TRANSIENT, "busy"

    cluster.judge = busy_once
    cluster.slow = lambda _: False
    cluster.run()
    assert not failing
    assert not [a for a in cluster.log if isinstance(a, Unmark)]
    assert cluster.pod("v2").deleting_since is not None
    assert cluster.pod("v3").deleting_since is not None
