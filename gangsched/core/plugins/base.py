"""The filter protocol: vectorised over nodes, and able to answer "what if these pods go and those come".

A filter has no state of its own. For one class of pods in one simulation it makes a *state* in ``prepare``, and the
simulation passes that back to it. The simulation updates every state for every pod that is placed or lifted, so a mask
is always that of the simulated cluster.

A score gives 0 (worst) to 100 (best) per node, vectorised, too. docs/reference/plugins.md shows how to write both.

Filters and scores for one node at a time are simple to write and slow to run. Each question costs a call per node, some
hundred times what an array operation costs. They are for small clusters, for trying a rule out, and for rules that
cannot be expressed in arrays.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.messages import causes
from gangsched.model.records import Node

#: The names that a plug-in imports from here.
__all__ = ["Bools", "Failure", "Filter", "NodeFilter"]


class Failure:
    """Why nodes fail a filter: a text, the ``(N,)`` nodes it holds for, and whether removing pods could help.

    ``resolvable`` is about the pods of the node itself: False promises that the node would refuse even if all of them
    left.
    """

    __slots__ = ("nodes", "resolvable", "text")

    def __init__(self, text: str, nodes: Bools, resolvable: bool) -> None:
        self.text = text
        self.nodes = nodes
        self.resolvable = resolvable


class Filter(Protocol):
    """One rule about where a pod may run.

    ``sees_pods`` is False for a filter that only looks at the node: its answer is then cached until nodes change, and
    ``apply`` is never called.

    Plug-ins of others may have further attributes. ``Arguments`` is the msgspec struct that their ``args`` in the
    configuration file are read into; their only parameter is then an instance of it. ``pod_labels`` are the keys
    of pod labels that they read: pods that differ in other labels share one class. ``monotone`` True promises that no
    node is refused because a pod has left, which shortens the search for victims. ``hints``
    (:class:`~gangsched.core.events.Hint`) are the changes of the cluster that may help a pod that the filter
    has refused (default: any).
    """

    name: str
    sees_pods: bool

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """False when the filter has nothing to say about such pods: it is then skipped."""

    def prepare(self, pod: PodClass, sim: Simulation) -> Any:
        """Return the state for this class of pods, as of now in the simulation."""

    def mask(self, state: Any) -> Bools:
        """``(N,)``: the nodes that pass."""

    def failures(self, state: Any) -> list[Failure]:
        """The reasons of the nodes that do not pass; a node may have several."""

    def apply(self, state: Any, pod: PodClass, row: int, sign: int) -> None:
        """A pod came to (+1) or left (-1) the node at ``row``; the simulation shows that already. Doing one and then
        the other changes nothing.
        """


class NodeFilter:
    """Base of filters that look at nodes only: one mask, one reason, which no eviction can cure."""

    name = ""
    text = ""
    sees_pods = False

    def mask(self, state: Bools) -> Bools:
        """The state is the mask."""
        return state

    def failures(self, state: Bools) -> list[Failure]:
        """All that fail, for the one reason."""
        return [Failure(self.text, ~state, resolvable=False)]

    def apply(self, state: Bools, pod: PodClass, row: int, sign: int) -> None:
        """Never called: pods do not matter."""


MAX_SCORE = 100.0


class Score(Protocol):
    """One preference.

    ``local`` is True when placing a pod changes the score of its own node only: then only that node is scored
    again within a gang. One that is not ``local`` is prepared and asked for all values after each member: what it
    counts it keeps in a ``state`` of the :class:`~gangsched.core.state.simulation.Simulation`, which gets every
    pod that comes or goes, instead of counting anew. Plug-ins of others may have ``Arguments`` and ``pod_labels``, as a
    :class:`~gangsched.core.plugins.base.Filter` may.
    """

    name: str
    local: bool

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """False when the score is the same for all nodes: it is then skipped."""

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Any:
        """The state to score this class; ``feasible`` are the nodes to normalise over."""

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


class _NodeByNode:
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
        """Return True if one more pod of this class may run on the node. The result depends only on the arguments."""
        raise NotImplementedError

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """Always, unless overridden."""
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> _NodeByNode:
        """Nothing is known yet."""
        return _NodeByNode(pod, sim)

    def mask(self, state: _NodeByNode) -> Bools:
        """Ask about the nodes on which something has changed."""
        for row in sorted(state.stale):
            state.mask[row] = bool(self.passes(state.pod, NodeView(state.sim, row)))
        state.stale.clear()
        return state.mask.copy()

    def failures(self, state: _NodeByNode) -> list[Failure]:
        """All that fail, for the one reason."""
        return [Failure(self.text, ~self.mask(state), self.resolvable)]

    def apply(self, state: _NodeByNode, pod: PodClass, row: int, sign: int) -> None:
        """That node has to be asked about again."""
        state.stale.add(row)


class _ScoredNodes:
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

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _ScoredNodes:
        """Only feasible nodes will be asked about."""
        return _ScoredNodes(pod, sim, feasible)

    def values(self, state: _ScoredNodes) -> Floats:
        """``(N,)``, 0 for nodes that are not feasible."""
        found = np.zeros(len(state.feasible))
        for row in np.flatnonzero(state.feasible).tolist():
            found[row] = self.value(state, row)
        return found

    def value(self, state: _ScoredNodes, row: int) -> float:
        """One node, as it is now."""
        return float(self.score(state.pod, NodeView(state.sim, row))) if state.feasible[row] else 0.0
