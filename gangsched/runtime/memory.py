"""The policy of the cyclic garbage collector, and how long it stops the world."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gangsched.core.actions import Action
from gangsched.core.events import Event, Synced
from gangsched.runtime.loop import Observer, Rebuilt

#: Generation 0 after this many new containers, and older ones rarely: records live long and form no cycles.
THRESHOLDS = (50_000, 20, 50)


def raise_thresholds() -> Callable[[], None]:
    """Collect rarely from now on, the first listing included; returns what puts the old thresholds back."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    return lambda: gc.set_threshold(*before)


class PauseMeter(Collector):
    """Counts collections and their time.

    The callback runs wherever a collection starts, also inside a metric's lock. So it takes no lock: it only adds to
    numbers, and a scrape reads them.
    """

    def __init__(self) -> None:
        self.collections = [0, 0, 0]
        self.seconds = [0.0, 0.0, 0.0]
        self.longest_seconds = 0.0
        self._began = 0.0

    def install(self) -> None:
        """Start to count."""
        gc.callbacks.append(self._called)

    def remove(self) -> None:
        """Stop to count."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def _called(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
            return
        seconds = time.perf_counter() - self._began
        generation = info["generation"]
        self.collections[generation] += 1
        self.seconds[generation] += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)

    def collect(self) -> Iterable[Metric]:
        """The families of a scrape."""
        count = CounterMetricFamily(
            "gangsched_gc_collections", "Runs of the garbage collector, by generation.", labels=["generation"]
        )
        spent = CounterMetricFamily(
            "gangsched_gc_pause_seconds",
            "Time in which the garbage collector stopped all threads.",
            labels=["generation"],
        )
        for generation in range(3):
            count.add_metric([str(generation)], self.collections[generation])
            spent.add_metric([str(generation)], self.seconds[generation])
        yield count
        yield spent
        yield GaugeMetricFamily(
            "gangsched_gc_longest_pause_seconds", "The longest of these pauses.", value=self.longest_seconds
        )


class FreezeAfterSync(Observer):
    """Leaves everything that there is after the first complete listing alone for ever.

    The caches of a large cluster are hundreds of thousands of objects that a full collection would walk each time.
    They are not collected once before, which would take as long as a large decision: hardly any is garbage. After an
    error of the core all that the discarded one has kept is: it is collected at the next quiet moment.
    """

    def __init__(self) -> None:
        self.frozen = False
        self._discarded = False

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        if not self.frozen and any(isinstance(event, Synced) for event in events):
            gc.freeze()
            self.frozen = True

    def rebuilt(self, rebuilt: Rebuilt) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._discarded = True

    def idle(self) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        if self._discarded:
            self._discarded = False
            gc.unfreeze()
            gc.collect()
            if self.frozen:
                gc.freeze()
