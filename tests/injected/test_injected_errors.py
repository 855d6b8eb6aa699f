"""An error in any function of the core, once or for one object, changes nothing for other pods.

``python -m tests.injected`` plays all functions. Here comes a share of them, another one in each run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import pytest

from gangsched.cluster.bystanders import Bystanders
from gangsched.core.actions import Action
from gangsched.core.events import Event
from gangsched.runtime.loop import CoreFaults, Observer, Observers
from gangsched.runtime.metrics import Metrics
from gangsched.runtime.observers import DecisionLog
from gangsched.runtime.standing import Standing
from tests.amounts import amount, fresh_seed
from tests.injected.inject import MODES, InjectedError, Place, at_call, called, outcome, raising
from tests.injected.life import Life


@cache
def functions() -> dict[Place, int]:
    """The functions of the core that a life calls, each with how often."""
    return called()


def test_a_life_without_errors_ends_with_all_pods_bound() -> None:
    """Else nothing could be seen by how the others end; and it calls most of the core."""
    life = Life().run()
    assert life.pending() == []
    assert life.left_behind() == []
    assert life.faults.lines == []
    assert len(functions()) > 600


def test_an_error_in_a_function_of_the_core_changes_nothing_for_other_pods() -> None:
    """All others are bound, and no mark, nomination, taint or room is left behind."""
    seed, expected = fresh_seed(), Life().run()
    print(f"seed {seed}: play it again with EVERYDAY_FIRST={seed}")
    cases = [(place, mode) for place in functions() for mode in MODES]
    # A function is drawn by its own name, so that a new one elsewhere does not exchange all of them.
    drawn = sorted(cases, key=lambda case: random.Random(f"{seed}/{case[0]}/{case[1]}").random())
    some = drawn[: amount(len(cases), 80)]
    found = {(str(place), mode): outcome(place, functions()[place], expected, mode) for place, mode in some}
    bad = {case: said for case, said in found.items() if said[0].isupper()}
    assert bad == {}, f"seed {seed}: {bad}"
    assert any(said[0] == "ok" for said in found.values())


def test_an_error_that_is_not_contained_ends_the_run() -> None:
    """A core that is not within its boundary raises: so other tests find errors."""
    place = next(place for place in functions() if str(place).endswith("World.set_pod"))
    with raising(place, at_call(0)), pytest.raises(InjectedError):
        Life(contained=False).run()


class Broken(Observer):
    """Fails with everything."""

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        raise InjectedError

    deciding = cancelled = decided = faulted = rebuilt = busy = idle = handled  # type: ignore[assignment]


def test_an_error_in_an_observer_changes_nothing() -> None:
    """The history of the cluster is the same, to the moment."""
    expected = Life().run()
    metrics = Metrics(["py-gang-scheduler"])
    watching = (Broken(), metrics, DecisionLog(), Standing(dict, {}), CoreFaults())
    life = Life(Observers(*watching, failed=Bystanders(metrics.note).failed)).run()
    assert [e.as_json() for e in life.world.history] == [e.as_json() for e in expected.world.history]
    assert metrics.registry.get_sample_value("gangsched_observer_errors_total", {"observer": "Broken"})
