"""Gangs made of parts of which each has a topology of its own."""

from __future__ import annotations

from gangsched.core.decision import Gathering
from gangsched.model.records import Part
from tests.builders import gang, node, pod
from tests.core.harness import Built, plan

FAMILY = "scheduling.run.ai"


def members(part: str, count: int) -> list[Built]:
    """Members of one part with a core each."""
    return [
        pod(f"{part}-{i}").cpu(1).gang("g", FAMILY).labels({"kai.scheduler/subgroup-name": part}) for i in range(count)
    ]


def test_parts_with_a_topology_are_refused_by_name() -> None:
    """A topology of a part is never ignored: the gang waits, and says which part it is."""
    parts = Part(least=2, parts=(Part("a", 1), Part("b", 1, topology=(("rack", True),))))
    asked = gang("g").family(FAMILY).min(2).field(parts=parts)
    decision = plan(node("n").cpu(4), asked, *members("a", 1), *members("b", 1))["d/g"]
    assert isinstance(decision, Gathering)
    assert "part b has a topology of its own" in decision.message
