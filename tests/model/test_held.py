"""The taint by which room on a node is held: what it is called, whose it is, and that nothing else of a node is."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.constraints import Taint
from gangsched.model.convert import Converter
from gangsched.model.held import HELD, Held, is_of, value_of, with_held
from tests.builders import node, pod
from tests.core.harness import plan

OURS = "py-gang-scheduler"


def converted(*taints: tuple[str, str, str]) -> tuple[tuple[Taint, ...], Held | None]:
    """The taints of a node as it is read, and that by which it is held."""
    spec = {"taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in taints]}
    found = Converter().node(msgspec.convert({"metadata": {"name": "n"}, "spec": spec}, wire.Node))
    return found.taints, found.held


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_is_read_without_the_taint_and_with_its_place(place: int) -> None:
    """The others keep their order, so that all of them together are as they were."""
    taints = [("a", "1", "NoSchedule"), ("b", "", "PreferNoSchedule")]
    taints.insert(place, (HELD, "19af-1.x", "NoSchedule"))
    others, held = converted(*taints)
    assert held == Held("19af-1.x", place)
    assert [each.key for each in others] == ["a", "b"]
    assert with_held(others, held) == tuple(Taint(*each) for each in taints)


def test_the_key_with_another_effect_is_a_taint_like_any_other() -> None:
    """Only NoSchedule is ever written."""
    assert converted((HELD, "x", "NoExecute")) == ((Taint(HELD, "x", "NoExecute"),), None)


@pytest.mark.parametrize("scheduler", [OURS, "a/b c", "x" * 100, "end."])
def test_a_value_names_plan_and_scheduler_as_labels_may(scheduler: str) -> None:
    """It is at most 63 characters of those that labels may have, and its scheduler knows it again."""
    value = value_of("19af3c2b1c0-12", scheduler)
    assert len(value) <= 63
    assert all(c.isalnum() or c in "._-" for c in value)
    assert value[-1].isalnum()
    assert is_of(value, (scheduler,))
    assert not is_of(value, ("another",))


def test_a_value_without_a_scheduler_is_anybodys() -> None:
    """It is taken back if no plan needs it, whoever has written it."""
    assert is_of("19af-1", (OURS,))


def test_plan_does_not_see_the_taint_of_its_own_scheduler() -> None:
    """Neither of a plan that is under way nor of one that is over; that of another installation keeps pods off."""
    ours = msgspec.structs.replace(node("n").obj(), held=Held(value_of("1-1", OURS), 0))
    theirs = msgspec.structs.replace(node("n").obj(), held=Held(value_of("1-1", "their-scheduler"), 0))
    assert plan(ours, pod("p").cpu(1))["d/p"].outcome == "bind"
    assert plan(theirs, pod("p").cpu(1))["d/p"].outcome == "unschedulable"
