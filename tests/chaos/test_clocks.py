"""Random lives in which the API server's clock is not the scheduler's: what it takes for stuck has had its time."""

from __future__ import annotations

import pytest

from gangsched.cluster.sim import World
from gangsched.core.events import Event, PodChanged
from gangsched.core.lifecycle import executor, validity
from gangsched.core.state import world as known
from tests.chaos.checks import problems
from tests.chaos.clocks import HOUR
from tests.chaos.play import play
from tests.chaos.scenario import scenario
from tests.chaos.trouble import Trouble

CHUNK = 30


class Told:
    """When each pod of a simulated cluster was told to stop, in seconds from the start; 0: it was before."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.aheads: set[float] = set()
        self._world: World | None = None

    def listen(self, world: World) -> None:
        """From now on."""
        self._world = world
        world.store.subscribe(self._note)

    def _note(self, event: Event, old: object) -> None:
        assert self._world is not None
        self.aheads.add(self._world.clock.server_ahead_seconds)
        if isinstance(event, PodChanged) and event.pod.deleting_since is not None:
            self.at.setdefault(event.pod.uid, self._world.clock.elapsed_seconds)


@pytest.mark.parametrize("first", range(0, 2 * CHUNK, CHUNK))
def test_no_pod_is_stuck_before_its_grace_period_is_over(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the stamps say: half a minute after the grace period at the earliest; and all other rules hold."""
    answers = {True: 0, False: 0}
    failed: dict[int, list[str]] = {}
    aheads: set[float] = set()
    for seed in range(first, first + CHUNK):
        told = Told()
        early: list[str] = []

        def asked(world: known.World, uid: str, now: float, told: Told = told, early: list[str] = early) -> bool:
            found = validity.overdue(world, uid, now)
            if uid in world.sightings.leaving_since:
                answers[found] += 1
                earliest = told.at.get(uid, 0.0) + world.pods[uid].grace_seconds + validity.STUCK_AFTER_SECONDS
                if found and now < earliest:
                    early.append(f"{world.pods[uid].key} is stuck at {now:.1f} s, before {earliest:.1f} s")
            return found

        monkeypatch.setattr(executor, "overdue", asked)
        made = scenario(seed, parts=("clocks",))
        made.troubles.insert(0, Trouble(0.0, "listen", told.listen))
        if found := [*problems(play(made)), *early]:
            failed[seed] = found
        aheads |= told.aheads
    assert failed == {}
    assert {-HOUR, HOUR} <= aheads
    assert min(answers.values()) > 0
