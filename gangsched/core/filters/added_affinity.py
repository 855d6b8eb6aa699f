"""Node affinity that the configuration adds to every pod of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools
from gangsched.core.filters.base import NodeFilter
from gangsched.model.records import NodeTerm

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation


class AddedNodeAffinity(NodeFilter):
    """Any of the terms of ``addedAffinity`` must match, beside what the pod itself asks for."""

    name = "NodeAffinity"
    text = "node(s) didn't match scheduler-enforced node affinity"

    def __init__(self, terms: tuple[NodeTerm, ...]) -> None:
        self._terms = terms

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        mask = np.zeros(sim.snapshot.size, dtype=np.bool_)
        for term in self._terms:
            mask |= sim.snapshot.columns.term(term)
        return mask
