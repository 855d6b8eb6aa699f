"""The score protocol: 0 (worst) to 100 (best) per node, vectorised.

docs/reference/plugins.md shows how to write one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation

MAX_SCORE = 100.0


class Score(Protocol):
    """One preference.

    ``local`` is True when placing a pod changes the score of its own node only: then only that node is scored
    again within a gang. One that is not ``local`` is prepared and asked for all values after each member: what it
    counts it keeps in a ``state`` of the :class:`~gangsched.core.state.simulation.Simulation`, which gets every
    pod that comes or goes, instead of counting anew. Plug-ins of others may have ``Arguments`` and ``pod_labels``, as a
    :class:`~gangsched.core.filters.base.Filter` may.
    """

    name: str
    local: bool

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """False when the score is the same for all nodes: it is then skipped."""

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Any:
        """What must be known to score this class; ``feasible`` are the nodes to normalise over."""

    def values(self, state: Any) -> Floats:
        """``(N,)`` scores, 0..100, as of now in the simulation."""

    def value(self, state: Any, row: int) -> float:
        """The same for one node: gangs of many pods ask for it once per pod."""


class NodeScore:
    """Base of scores that look at nodes only: the state is the scores."""

    name = ""
    local = True

    def values(self, state: Floats) -> Floats:
        """See :class:`Score`, like the next."""
        return state

    def value(self, state: Floats, row: int) -> float:
        """One of them."""
        return float(state[row])


def normalised(raw: Floats, feasible: Bools, reverse: bool) -> Floats:
    """Scale so that the largest feasible raw value becomes 100 (0 when ``reverse``), in whole points.

    With no positive value at all every node gets 0, or 100 when ``reverse``, as kube-scheduler does it.
    """
    top = float(raw[feasible].max()) if feasible.any() else 0.0
    if top <= 0:
        return np.full(raw.shape, MAX_SCORE if reverse else 0.0)
    scaled = np.floor(raw * MAX_SCORE / top)
    return MAX_SCORE - scaled if reverse else scaled
