"""How long pods wait that could start, by priority. What is incomplete or never fits is for its owner to mend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gangsched.core.decision import Decision
from gangsched.messages.answers import NEVER_FITS
from gangsched.model.records import GangId, Pod


class Waits(Collector):
    """Knows since when pods are pending. ``clock`` counts seconds and never runs backwards."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, tuple[int, float]] = {}
        self._never: set[GangId] = set()
        self._first: dict[int, float] = {}

    def begin(self, pod: Pod, moment: float) -> None:
        """A pod is pending from this moment on."""
        self._since[pod.uid] = pod.priority, moment

    def end(self, uid: str) -> None:
        """A pod is bound, or gone."""
        self._since.pop(uid, None)

    def decided(self, decision: Decision) -> None:
        """Remember the gangs that never fit, as the last decision of each one says."""
        headline = decision.headline
        if headline is not None and headline.word == NEVER_FITS:
            self._never.add(decision.gang)
        else:
            self._never.discard(decision.gang)

    def update(self, complete: Iterable[tuple[GangId, Iterable[str]]]) -> None:
        """Take the gangs that are complete, with the UIDs of their pending members."""
        first: dict[int, float] = {}
        there = set()
        for gang, uids in complete:
            there.add(gang)
            for uid in uids if gang not in self._never else ():
                if (found := self._since.get(uid)) is not None:
                    priority, moment = found
                    first[priority] = min(moment, first.get(priority, moment))
        self._never &= there
        self._first = first

    def collect(self) -> Iterable[Metric]:
        """The family of a scrape, without a series for a priority at which nothing waits."""
        family = GaugeMetricFamily(
            "gangsched_oldest_startable_wait_seconds",
            "Time since the first of the pending pods of a priority was seen whose gang is complete and may fit.",
            labels=("priority",),
        )
        for priority, moment in self._first.items():
            family.add_metric((str(priority),), max(0.0, self._clock() - moment))
        yield family
