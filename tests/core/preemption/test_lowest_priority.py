"""Members of different priorities: what they evict together is below the lowest of them."""

from __future__ import annotations

import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from tests.builders import gang, node, pod
from tests.core.harness import Built, plan, victims

WEAK, STRONG = 5, 9
ONE_GANG = [gang("a").min(2), pod("weak").gang("a").priority(WEAK).cpu(2), pod("strong").gang("a").priority(STRONG)]
TWO_GANGS = [
    *(gang(name).min(1).group("d/a", "d/b") for name in "ab"),
    pod("weak").gang("a").priority(WEAK).cpu(2),
    pod("strong").gang("b").priority(STRONG),
]


@pytest.mark.parametrize("wanting", [ONE_GANG, TWO_GANGS], ids=["one gang", "two gangs of a GangGroup"])
@pytest.mark.parametrize(("priority", "leaves"), [(WEAK - 1, True), (WEAK, False), (STRONG - 1, False)])
def test_who_is_not_below_the_weakest_member_stays(wanting: list[Built], priority: int, leaves: bool) -> None:
    """Else the weakest member would have got its room from one that is worth as much, or more."""
    found = plan(node("n1").cpu(3), pod("runs").cpu(2).priority(priority).on("n1"), *wanting)
    for decision in found.values():
        assert decision.outcome == (PREEMPT if leaves else UNSCHEDULABLE)
        assert victims(decision) == (["runs"] if leaves else [])
