"""A small cluster in which somebody preempts, and the writes by which it is done: a victim bears its owner."""

from __future__ import annotations

from gangsched.cluster.sim import World
from gangsched.core.actions import Action, Bind, Mark, Nominate, Remove
from gangsched.core.actuation.records import EvictionOwner, Owners, written
from gangsched.core.lifecycle.report import mark_message
from tests.cluster.sim.objects import SCHEDULER, gang, node, pod, ref, world


def preemption() -> World:
    """Two nodes held by x and y, and the gang g of a and b that needs both."""
    return world(
        node("n1"),
        node("n2"),
        pod("x", 4, node="n1", grace_seconds=3.0),
        pod("y", 4, node="n2", grace_seconds=3.0),
        gang("g", 2),
        pod("a", 3, gang="g"),
        pod("b", 3, gang="g"),
    )


def nominate(name: str, where: str, plan: str = "p1") -> Nominate:
    """A nomination by this plan."""
    return Nominate(1, ref(name), where, plan, f"plan {plan}")


def mark(
    name: str, plan: str = "p1", owner: str = "ns/g", cause: str = "preemption", text: str = "", not_before: str = ""
) -> Mark:
    """A mark by this plan of this gang or queue."""
    made = EvictionOwner(plan, cause, SCHEDULER, owner, not_before=not_before)
    text = text or mark_message(SCHEDULER, owner, "ns/a")
    return Mark(2, ref(name), text, owners=written(Owners.of([made])))


def remove(name: str, text: str = "") -> Remove:
    """The removal of this pod."""
    return Remove(3, ref(name), mark=text)


NOMINATE_A, NOMINATE_B = nominate("a", "n1"), nominate("b", "n2")
MARK_X, MARK_Y = mark("x"), mark("y")
REMOVE_X, REMOVE_Y = remove("x"), remove("y")
BIND_A, BIND_B = Bind(4, ref("a"), "n1"), Bind(4, ref("b"), "n2")
PHASES: list[Action] = [NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y, REMOVE_X, REMOVE_Y]
