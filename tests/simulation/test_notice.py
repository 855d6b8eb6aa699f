"""Announced evictions with controllers, a kubelet and another scheduler, on the virtual clock."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import Cause
from gangsched.core.events import Event
from gangsched.model.records import Pod
from tests.simulation.loops import HOUR, thief

NOTICE = 45.0


class Saver:
    """A job that saves its work 10 s after it is told that it will be evicted, and says so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.saved: dict[str, float] = {}
        world.store.subscribe(self._on_change)

    def _on_change(self, what: Event, old: Pod | None) -> None:
        pod = getattr(what, "record", None)
        told = pod.evicted_for if isinstance(pod, Pod) else None
        if isinstance(pod, Pod) and told is not None and told.reason == "Announced" and pod.uid not in self.saved:
            self.saved[pod.uid] = 0.0
            self._world.after(10.0, lambda: self._save(pod.key))

    def _save(self, key: str) -> None:
        pod, now = next(p for p in self._world.store.pods.values() if p.key == key), self._world.clock.stamp
        self.saved[pod.uid] = self._world.clock.now
        stakes = msgspec.structs.replace(pod.stakes, checkpoint=now)
        self._world.store.put_pod(msgspec.structs.replace(pod, stakes=stakes), Cause("job", "save"))


@pytest.mark.parametrize("grace", [(3.0, 3.0), (3.0, 10.0)])
def test_all_work_is_saved_before_anybody_leaves(grace: tuple[float, float]) -> None:
    """Nobody is told to go before its notice is over; by then everybody has saved, and the gang runs."""
    loop = thief(grace=grace, steals_after=0.02, notice=(("", NOTICE),))
    saver = Saver(loop.world)
    loop.run()
    assert len(loop.evicted) == 2
    told = min(at for at, each in loop.core.events if each.reason == "EvictionAnnounced")
    assert all(at >= NOTICE for at, _ in loop.evicted)
    assert all(0.0 < at <= told + 11.0 for at in saver.saved.values())
    assert loop.running() == ["g0", "g1"]


def test_notice_makes_no_loop_longer() -> None:
    """A thief that is never late takes no more than without notice."""
    assert len(thief(notice=(("", NOTICE),)).run(HOUR).evicted) <= len(thief().run(HOUR).evicted)
