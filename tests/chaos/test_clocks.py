"""Random lives in which the API server's clock is not the scheduler's: what it takes for overdue has had its time."""

from __future__ import annotations

import pytest

from gangsched.cluster.sim import World
from gangsched.core.events import Changed, Event
from gangsched.core.state.sightings import Sightings
from gangsched.model.records import Pod
from tests.amounts import amount
from tests.chaos.checks import problems
from tests.chaos.clocks import HOUR
from tests.chaos.play import play
from tests.chaos.scenario import scenario
from tests.chaos.trouble import Trouble

CHUNK = 30
OVERDUE_AFTER = 30.0


class Told:
    """When each pod of a simulated cluster was told to stop, in seconds from the start (0: it was before), and by how
    much the server's clock was ahead then.
    """

    def __init__(self) -> None:
        self.at: dict[str, tuple[float, float]] = {}
        self.aheads: set[float] = set()
        self.world: World | None = None

    def listen(self, world: World) -> None:
        """From now on."""
        self.world = world
        world.store.subscribe(self._note)

    def _note(self, event: Event, old: object) -> None:
        assert self.world is not None
        ahead = self.world.clock.server_ahead_seconds
        self.aheads.add(ahead)
        if isinstance(event, Changed) and isinstance(event.record, Pod) and event.record.deleting_since is not None:
            self.at.setdefault(event.record.uid, (self.world.clock.elapsed_seconds, ahead))


@pytest.mark.parametrize("first", range(0, amount(2, 1) * CHUNK, CHUNK))
def test_no_pod_is_overdue_before_its_time_is_over(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the stamps say: half a minute after the grace period at the earliest; and all other rules hold."""
    overdue: list[str] = []
    failed: dict[int, list[str]] = {}
    aheads: set[float] = set()
    look = Sightings.newly_overdue
    for seed in range(first, first + CHUNK):
        told = Told()
        early: list[str] = []

        def looked(self: Sightings, now: float, told: Told = told, early: list[str] = early) -> list[str]:
            found = look(self, now)
            overdue.extend(found)
            if told.world is None:
                return found
            for uid in found:
                at, ahead = told.at.get(uid, (0.0, 0.0))
                if ahead != told.world.clock.server_ahead_seconds:
                    continue  # the clock has been set since: a process that starts misreads the stamp
                pod = next(p for p in told.world.store.pods.values() if p.uid == uid)
                earliest = at + pod.grace_seconds + OVERDUE_AFTER
                if now < earliest:
                    early.append(f"{pod.key} is overdue at {now:.1f} s, before {earliest:.1f} s")
            return found

        monkeypatch.setattr(Sightings, "newly_overdue", looked)
        made = scenario(seed, parts=("clocks",))
        made.troubles.insert(0, Trouble(0.0, "listen", told.listen))
        if found := [*problems(play(made)), *early]:
            failed[seed] = found
        aheads |= told.aheads
    assert failed == {}
    assert {-HOUR, HOUR} <= aheads
    assert overdue
