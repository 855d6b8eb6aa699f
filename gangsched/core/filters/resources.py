"""Resources: what the pod requests must be free, a pod slot included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.filters.base import Failure
from gangsched.core.state.snapshot import PODS

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation


class _State:
    def __init__(self, sim: Simulation, index: Ints, amounts: Floats) -> None:
        self.sim = sim
        self.index = index
        self.amounts = amounts


class NodeResourcesFit:
    """Free room for every requested resource.

    The state keeps no copy: the simulation's free matrix is the state, so placing pods needs no ``apply``.
    """

    name = "NodeResourcesFit"
    sees_pods = True
    told = False

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        index, amounts = sim.snapshot.vector(pod.shape)
        return _State(sim, index, amounts)

    def mask(self, state: _State) -> Bools:
        free = state.sim.free
        mask: Bools = np.asarray(free[state.index[0]] >= state.amounts[0])
        for i in range(1, len(state.index)):
            mask &= free[state.index[i]] >= state.amounts[i]
        return mask

    def failures(self, state: _State) -> list[Failure]:
        """``Insufficient <resource>`` per resource; cured by eviction only where the node is large enough."""
        out = []
        snapshot = state.sim.snapshot
        for i, amount in zip(state.index.tolist(), state.amounts.tolist(), strict=True):
            short = state.sim.free[i] < amount
            if not short.any():
                continue
            text = "Too many pods" if i == PODS else f"Insufficient {snapshot.resources[i]}"
            possible = snapshot.allocatable[i] >= amount
            out.append(Failure(text, short & possible, resolvable=True))
            out.append(Failure(text, short & ~possible, resolvable=False))
        return out

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        """Nothing to do: the free matrix is shared."""
