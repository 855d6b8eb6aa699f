"""The filter protocol: vectorised over nodes, and able to answer "what if these pods go and those come".

A filter is stateless; what it knows about one class of pods in one simulation is a *state* that it makes in
``prepare`` and that the simulation hands back to it. The simulation tells every state about every pod that is
placed or lifted, so a mask is always that of the simulated cluster. docs/reference/plugins.md shows how to write one.
"""

from __future__ import annotations

from typing import Any, Protocol

from gangsched.core.arrays import Bools
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation

#: What a plug-in imports from here.
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
    (:class:`~gangsched.core.hints.Hint`) are the changes of the cluster that may help a pod that the filter
    has refused (default: any).
    """

    name: str
    sees_pods: bool

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """False when the filter has nothing to say about such pods: it is then skipped."""

    def prepare(self, pod: PodClass, sim: Simulation) -> Any:
        """What must be known to answer for this class of pods, as of now in the simulation."""

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
