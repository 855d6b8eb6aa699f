"""Devices of dynamic resource allocation: claims must exist, and the node must have devices for all of them together.
Nodes are preferred that have the fewest such devices left, and the smallest.

Claims that have devices already bind the pod to the nodes that reach these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.devices.demand import DeviceDemand
from gangsched.core.devices.simulated import DevicesInThought
from gangsched.core.events import Hint
from gangsched.core.plugins.base import MAX_SCORE, Failure
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.messages import devices


class _State(NamedTuple):
    """The filter's state for a class of pods."""

    demand: DeviceDemand
    thought: DevicesInThought


class DynamicResources:
    """The claims of a pod get devices on its node. The simulation itself knows what its pods do to devices."""

    name = "DynamicResources"
    sees_pods = True
    told = False
    hints = Hint.NODE_ADDED | Hint.NODE_LABELS | Hint.ROOM | Hint.DEVICES

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return pod.devices is not None

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        assert pod.devices is not None
        return _State(pod.devices, sim.devices)

    def mask(self, state: _State) -> Bools:
        """``(N,)``: the nodes that pass."""
        return state.thought.mask(state.demand)

    def refusal(self, state: _State) -> str:
        """Return why the pod cannot be placed on any node; empty if it can."""
        return state.demand.problem or state.thought.problem(state.demand)

    def failures(self, state: _State) -> list[Failure]:
        """Devices become free when pods leave, but no node reaches devices of another."""
        refused = ~state.thought.mask(state.demand)
        reach, ever = state.thought.hopes(state.demand)
        found = [Failure(devices.CLAIM_ELSEWHERE, ~reach, resolvable=False)]
        left, stopped = reach & ~ever, state.thought.undecided()
        found.append(Failure(devices.SEARCH_STOPPED, reach & stopped, resolvable=False))
        left &= ~stopped
        for why, nodes in state.thought.troubles().items():
            found.append(Failure(devices.pool_in_trouble(why=why), left & nodes, resolvable=False))
            left &= ~nodes
        found.append(Failure(devices.NO_SUCH_DEVICES, left, resolvable=False))
        found.append(Failure(devices.DEVICES_IN_USE, reach & ever & ~stopped, resolvable=True))
        return [Failure(each.text, each.nodes & refused, each.resolvable) for each in found]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        """Nothing to do: the simulation's devices are shared."""


#: Points for the share of devices that are in use; the rest is for small devices.
_FULL = 75.0


class DynamicResourcesScore:
    """Whole nodes and large devices stay free for claims that need them."""

    name = "DynamicResources"
    local = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return pod.devices is not None and bool(pod.devices.own)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _State:
        assert pod.devices is not None
        return _State(pod.devices, sim.devices)

    def values(self, state: _State) -> Floats:
        """``(N,)`` scores."""
        rows = range(state.thought.size)
        return np.fromiter((self.value(state, row) for row in rows), dtype=np.float64, count=state.thought.size)

    def value(self, state: _State, row: int) -> float:
        """The score of one node as it is now."""
        use, size = state.thought.usage(state.demand, row)
        return _FULL * use + (MAX_SCORE - _FULL) * (1.0 - size)
