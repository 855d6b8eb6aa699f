"""Members that differ in what they request alone have the counts of rules between pods in common."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.state import simulation
from gangsched.core.state.podtable import PodClass
from gangsched.model.constraints import PodTerm, SpreadConstraint
from tests.amounts import amount
from tests.bench import kinds
from tests.builders import gang, node, pod, selects
from tests.core.harness import Built
from tests.core.preemption.asked import asked
from tests.oracle import generate
from tests.oracle.case import Case, decide, told


@pytest.mark.parametrize("seed", range(amount(24, 10)))
def test_nobody_can_tell_by_affinity(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random clusters with anti-affinity are decided as if each class kept counts of its own."""
    case: Case = generate.case(seed, mixed=True, anti_affinity=True)
    shared = told(decide(case))
    monkeypatch.setattr(simulation, "company", ident)
    assert told(decide(case)) == shared


@pytest.mark.parametrize(("count", "nodes"), [(2, 9), (5, 12), (9, 40)])
def test_nobody_can_tell_by_spread(count: int, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang of several sizes, which has to be spread over zones, is decided as if each size kept counts of its own."""
    monkeypatch.setattr(kinds, "MEMBERS", 12)
    shared, _ = kinds.decide(count, nodes, spread=True)
    assert shared.outcome == "preempt"
    monkeypatch.setattr(simulation, "company", ident)
    alone, _ = kinds.decide(count, nodes, spread=True)
    assert told((alone,)) == told((shared,))


def ident(pod: PodClass) -> int:
    """A class has nothing in common with others."""
    return pod.ident


def test_what_is_counted_once() -> None:
    """Two sizes with a rule about zones are one state that follows pods; labels or another rule make two; members that
    only need room have none.
    """

    def followed(*shapes: dict[str, Any], **labels: str) -> int:
        objects: list[Built] = [node(f"n{n}").cpu(8).label(zone=f"z{n}") for n in range(2)]
        members = [
            pod(f"m{n}").cpu(1 + n).priority(9).gang("g").label(**(labels if n else {})).shape(**shape)
            for n, shape in enumerate(shapes)
        ]
        question = asked(*objects, gang("g").min(len(members)), *members)
        return question.pipeline.followed(question.demand.classes, question.sim)

    spread: dict[str, Any] = {"spread": (SpreadConstraint("zone", 1, selects(), required=True),)}
    apart: dict[str, Any] = {"anti_affinity": (PodTerm("zone", selects(app="x"), ("d",)),)}
    assert followed({}, {}) == 0
    assert followed(spread, spread) == 1
    assert followed(spread, spread, app="x") == 2
    assert followed(spread, apart) >= 2
