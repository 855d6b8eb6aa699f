"""Giving back what is not needed is bounded like the search: a plan that works is kept as it is when it is late."""

from __future__ import annotations

import random

import pytest

from gangsched.core.events import Event, Synced
from gangsched.core.options import Options
from gangsched.core.preemption.fit import PlacedFit
from gangsched.core.scheduler import Scheduler
from tests.amounts import amount
from tests.bench.kinds import NOW, decide, member
from tests.builders import gang, node, pod
from tests.core.harness import event


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("kinds", [1, 8, 62, 63, 64, 65, amount(128, 80)])
def test_a_gang_of_any_number_of_sizes_is_decided_within_its_steps(
    kinds: int, *, spread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the product of the numbers of each size is beyond 64 bits, and steps are counted for what is done.

    A question that has begun is answered, and so is the one that makes a plan of what was found: where filters follow
    pods for each of many sizes one of these may be dearer than all steps.
    """
    costs = [0]
    place = PlacedFit._place

    def measured(self: PlacedFit) -> bool:
        before = self.steps
        found = place(self)
        costs.append(self.steps - before)
        return found

    monkeypatch.setattr(PlacedFit, "_place", measured)
    found, _ = decide(kinds, 60, spread=spread)
    assert found.outcome == "preempt"
    assert len(found.placements) == max(kinds, 60)
    assert len(found.victims) <= 2 * max(kinds, 60)
    dearest = max(costs)
    assert 0 < found.steps < Options().search_steps + (2 * dearest if dearest > Options().search_steps else 0)


def crowded() -> list[Event]:
    """A gang of 15 sizes that spreads over zones, in a full cluster of pods of many sizes and priorities."""
    chance = random.Random(1)
    out = [event(node(f"n{i:02d}").cpu(8).label(zone=f"z{i % 3}")) for i in range(18)]
    for i in range(18):
        left, number = 8.0, 0
        while left > 0.6:
            size = min(left, chance.choice([0.5, 0.75, 1.0, 1.25, 1.5]))
            left -= size
            low = pod(f"l-{i}-{number}").cpu(size).priority(chance.randrange(50)).on(f"n{i:02d}")
            out.append(event(low))
            number += 1
    members = [member(i, 15, spread=True) for i in range(15)]
    return [*out, event(gang("g").min(15)), *map(event, members), Synced()]


def test_questions_beyond_the_steps_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan stands with what has not come back by then: members are placed anew a few times more, not for each pod."""
    placed: list[int] = []
    place = PlacedFit._place

    def counted(self: PlacedFit) -> bool:
        placed[-1] += 1
        return place(self)

    monkeypatch.setattr(PlacedFit, "_place", counted)
    victims = []
    for steps in (100, 15_000):
        placed.append(0)
        monkeypatch.setattr("gangsched.core.preemption.search._REPRIEVE_STEPS", steps)
        core = Scheduler(Options(search_steps=4_000))
        core.handle(crowded(), NOW)
        core.decide(NOW)
        (found,) = core.drain_decisions()
        assert (found.outcome, len(found.placements)) == ("preempt", 15)
        victims.append(len(found.victims))
    assert placed[0] < placed[1]
    assert victims[0] >= victims[1]
