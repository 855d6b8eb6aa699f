"""Victims with notice under faults and crashes, and the judge of when they leave."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark, Remove
from gangsched.core.actuation.records import EvictionOwner, Owners, written
from gangsched.core.lifecycle.report import mark_message
from gangsched.model.times import render_time
from tests.builders import OURS, node, pod
from tests.chaos.__main__ import run
from tests.chaos.made_up import about, does, played
from tests.chaos.notices import left_too_early

FOR_G = mark_message(OURS, "d/g", "d/m1")


@pytest.mark.parametrize(("later", "wrong"), [(5.0, 2), (-5.0, 0)])
def test_who_leaves_before_the_time_is_found_out(later: float, wrong: int) -> None:
    """Marked, and then removed, too early; with several owners the first one's time counts."""
    game = played(node("n1").cpu(4), pod("v").cpu(4).on("n1"))
    now = game.world.clock.now
    times = (render_time(now + later), render_time(now + 60.0))
    data = written(
        Owners.of(EvictionOwner(f"p{n}", "preemption", OURS, "d/g", not_before=t) for n, t in enumerate(times))
    )
    does(game, Mark(1, about(game, "v"), "", owners=data))
    assert left_too_early(game.world) == []
    does(game, Mark(2, about(game, "v"), FOR_G, owners=data), Remove(3, about(game, "v"), mark=FOR_G))
    assert len(left_too_early(game.world)) == wrong


def test_the_part_is_worth_playing() -> None:
    """In a few seeds of it pods leave that have had notice, through crashes, and nothing is wrong."""
    found = [run(seed, ("notices",)) for seed in range(2000, 2024)]
    assert {r.seed: r.problems for r in found if r.problems} == {}
    assert sum(r.seen["pods evicted"] for r in found) > 5
    assert sum(r.seen["crashes"] for r in found) > 2
