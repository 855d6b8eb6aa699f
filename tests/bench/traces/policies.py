"""Which pods have to go: this scheduler's choice, and three simpler orders, all in the same engine.

An order sees the same candidates, the same filters and whole gangs; only the choice differs. Everything goes, and
units come back as long as the preemptor fits: *kube-scheduler's order* takes back the most important first (priority,
then the longest running), *latest start first* the longest running whatever their priority. *Fewest pods* is the search
of this scheduler where only the number of victims counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from gangsched.core.planning import victims
from gangsched.core.preemption.search import Choice, Limits, Search
from gangsched.model.records import SINGLE, Pod

#: Above the priority of any pod.
_ALL_ALIKE = 2**31


class _Reprieving(Search):
    """All leave, and come back in an order as long as the gang fits; ``key`` has what comes back last first."""

    @staticmethod
    def key(pod: Pod) -> tuple[float, ...]:
        """Less is put back earlier."""
        raise NotImplementedError

    def run(self) -> Choice | None:
        units: dict[object, list[int]] = defaultdict(list)
        for slot in self.units.everything().tolist():
            pod = self.units.pod(slot)
            units[pod.uid if pod.gang.family == SINGLE else pod.gang].append(slot)
        gone = {slot for slots in units.values() for slot in slots}
        if not self._fits(gone):
            self.units.unproven = False
            return None
        order = sorted(units.values(), key=lambda slots: (self._most(slots), self.units.pod(slots[0]).key))
        for slots in order:
            if self._fits(gone.difference(slots)):
                gone.difference_update(slots)
        return Choice(frozenset(gone), self.harm_of(gone), 0, False, {})

    def _most(self, slots: list[int]) -> tuple[float, ...]:
        return min(self.key(self.units.pod(slot)) for slot in slots)

    def _fits(self, gone: set[int]) -> bool:
        base = self.fit.save()
        self.fit.remove(np.array(sorted(gone), dtype=np.int64))
        fits = self.fit.fits()
        self.fit.restore(base)
        return fits


class _KubeScheduler(_Reprieving):
    @staticmethod
    def key(pod: Pod) -> tuple[float, ...]:
        return (-pod.priority, pod.started)


class _LatestStart(_Reprieving):
    @staticmethod
    def key(pod: Pod) -> tuple[float, ...]:
        return (pod.started,)


class _FewestPods(Search):
    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **{**fields, "limits": Limits((_ALL_ALIKE,))})


#: By name what takes the place of the search; None: nothing does.
POLICIES: dict[str, Callable[..., Search] | None] = {
    "this scheduler": None,
    "this scheduler, harm: work": None,
    "fewest pods": _FewestPods,
    "kube-scheduler's order": _KubeScheduler,
    "latest start first": _LatestStart,
}
BY_WORK = "this scheduler, harm: work"


@contextmanager
def chosen_by(policy: str) -> Iterator[None]:
    """Victims are chosen by that policy."""
    search = POLICIES[policy]
    if search is None:
        yield
    else:
        with mock.patch.object(victims, "Search", search):
            yield
