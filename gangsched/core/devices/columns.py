"""Devices as numbers for each node, where numbers are enough: one column for each set of devices that requests have.

Requests for a number of devices, without constraints between these, are counted. If any two of the sets are disjoint or
one contains the other, the requests of some pods fit on a node exactly if in each set no more devices are asked
for than are free (Hall's condition). With other requests the columns are a necessary condition.
Constraints, shared counters, shares and claims of several pods cannot be columns: what they take depends on the choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gangsched.core.arrays import Floats
from gangsched.core.devices.demand import DeviceDemand
from gangsched.core.devices.simulated import DevicesInThought
from gangsched.model.records import Pod


class DeviceColumns:
    """The columns for pods with these demands. ``exact``: what fits by them fits. ``free`` is ``(C, N)``."""

    def __init__(self, thought: DevicesInThought, demands: Sequence[DeviceDemand]) -> None:
        self._thought = thought
        numbers = [n for each in demands for n in each.own]
        self._kinds, self._kind_of, counts = thought.counts(numbers)
        asked = self._kinds.asked(thought.place_of(numbers))
        self._sets = list(dict.fromkeys(self._kinds.served(ask) for ask in asked))
        guests = [*thought.guests()]
        self.exact = (
            self._kinds.countable
            and not any(each.named for each in demands)
            and not thought.index.inventory.wide
            and not any(guest.fresh for _, guest in guests)
            and _nested(self._sets)
        )
        self.free: Floats = np.zeros((len(self._sets), counts.shape[1]))
        for n, members in enumerate(self._sets):
            self.free[n] = counts[sorted(members)].sum(axis=0) if members else 0.0
        for row, guest in guests:
            self.free[:, row] -= self._of(guest.own)

    def request(self, demand: DeviceDemand | None) -> Floats:
        """``(C,)``: devices of each set that a pod takes at least."""
        return self._of(demand.own) if demand is not None else np.zeros(len(self._sets))

    def _of(self, numbers: Iterable[int]) -> Floats:
        out = np.zeros(len(self._sets))
        for ask in self._kinds.asked(self._thought.place_of(numbers)):
            mine = self._kinds.served(ask)
            for n, members in enumerate(self._sets):
                if mine <= members:
                    out[n] += ask[1]
        return out

    def held(self, pods: Sequence[Pod | None], rows: Sequence[int]) -> Floats:
        """``(C, slots)``: devices of each set that a pod in the slot gives back. If several have to leave for them,
        each counts as giving back all, and the columns are no longer ``exact``.
        """
        out = np.zeros((len(self._sets), len(pods)))
        thought = self._thought
        known = {pod.uid for pod in pods if pod is not None and pod.devices is not None}
        for slot, pod in enumerate(pods):
            if pod is None or pod.devices is None or rows[slot] < 0:
                continue
            for name in pod.devices.names:
                key = (pod.namespace, name)
                found = thought.allocation(key)
                users = thought.index.users_of(key)
                if found is None or pod.uid not in users or not users <= known:
                    continue
                kinds = [self._kind_of.get(each.device, 0) for each in found.devices if not each.admin]
                mine = [sum(kind in members for kind in kinds) for members in self._sets]
                doubly = any(len(thought.index.holders(each.device)) > 1 for each in found.devices if not each.admin)
                if any(mine) and (doubly or thought.reserved(key) > 1):
                    self.exact = False
                out[:, slot] += mine
        return out


def _nested(sets: Sequence[frozenset[int]]) -> bool:
    """Whether any two sets are disjoint, or one contains the other."""
    return all(not one & other or one <= other or other <= one for one in sets for other in sets)
