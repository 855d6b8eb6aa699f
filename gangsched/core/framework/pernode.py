"""Filters and scores that are asked about one node at a time: simple to write, slow to run.

Each question costs a call per node, some hundred times what an array operation costs. They are for small clusters, for
trying a rule out, and for rules that cannot be expressed in arrays.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.filters.base import Failure
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.messages import causes
from gangsched.model.records import Node


class NodeView:
    """One node as it is in a simulation. What is not asked for is not computed."""

    def __init__(self, sim: Simulation, row: int) -> None:
        self._sim = sim
        self._row = row

    @property
    def node(self) -> Node:
        """The node's record."""
        return self._sim.snapshot.nodes[self._row]

    @cached_property
    def free(self) -> dict[str, float]:
        """What is left of each resource in base units, the pod slots as ``pods``; it may be negative."""
        amounts = self._sim.free[:, self._row].tolist()
        return dict(zip(self._sim.snapshot.resources, amounts, strict=False))

    @cached_property
    def pods(self) -> tuple[PodClass, ...]:
        """The classes of the pods that are on the node, simulated or real, in no order that means anything."""
        sim, snapshot = self._sim, self._sim.snapshot
        slot_of = snapshot.table.slot_of
        bound = [(slot_of[pod.uid], pod) for pod in snapshot.pods_on(self.node.name)]
        lifted = set(sim.lifted().tolist()) if bound else set()
        pods = [snapshot.class_of(pod) for slot, pod in bound if slot not in lifted]
        pods += [pod for pod, where in sim.visitors() if where == self._row]
        return tuple(sorted(pods, key=lambda pod: pod.ident))


class _FilterState:
    """Answers per node, and the rows whose answer is out of date."""

    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        self.pod = pod
        self.sim = sim
        self.mask: Bools = np.zeros(sim.snapshot.size, dtype=np.bool_)
        self.stale = set(range(sim.snapshot.size))


class PerNodeFilter:
    """Base of filters that say yes or no to one node at a time. Subclasses set ``name`` and ``text`` and have
    :meth:`passes`.

    ``resolvable`` says whether a node that refuses might accept after pods have left it.
    """

    name = ""
    text = causes.NODE_REFUSED
    sees_pods = True
    resolvable = True

    def passes(self, pod: PodClass, node: NodeView) -> bool:
        """May one more pod of this class run on the node? Nothing but the arguments may count."""
        raise NotImplementedError

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """Always, unless overridden."""
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> _FilterState:
        """Nothing is known yet."""
        return _FilterState(pod, sim)

    def mask(self, state: _FilterState) -> Bools:
        """Ask about the nodes on which something has changed."""
        for row in sorted(state.stale):
            state.mask[row] = bool(self.passes(state.pod, NodeView(state.sim, row)))
        state.stale.clear()
        return state.mask.copy()

    def failures(self, state: _FilterState) -> list[Failure]:
        """All that fail, for the one reason."""
        return [Failure(self.text, ~self.mask(state), self.resolvable)]

    def apply(self, state: _FilterState, pod: PodClass, row: int, sign: int) -> None:
        """That node has to be asked about again."""
        state.stale.add(row)


class _ScoreState:
    def __init__(self, pod: PodClass, sim: Simulation, feasible: Bools) -> None:
        self.pod = pod
        self.sim = sim
        self.feasible = feasible


class PerNodeScore:
    """Base of scores that look at one node at a time. Subclasses set ``name`` and have :meth:`score`."""

    name = ""
    local = True

    def score(self, pod: PodClass, node: NodeView) -> float:
        """0 (worst) to 100 (best). Nothing but the arguments may count."""
        raise NotImplementedError

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """Always, unless overridden."""
        return True

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _ScoreState:
        """Only feasible nodes will be asked about."""
        return _ScoreState(pod, sim, feasible)

    def values(self, state: _ScoreState) -> Floats:
        """``(N,)``, 0 for nodes that are not feasible."""
        found = np.zeros(len(state.feasible))
        for row in np.flatnonzero(state.feasible).tolist():
            found[row] = self.value(state, row)
        return found

    def value(self, state: _ScoreState, row: int) -> float:
        """One node, as it is now."""
        return float(self.score(state.pod, NodeView(state.sim, row))) if state.feasible[row] else 0.0
