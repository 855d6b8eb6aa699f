"""All that a plug-in of another package imports. What is here keeps its meaning within a major version."""

from __future__ import annotations

from gangsched.core.arrays import Bools, Floats
from gangsched.core.events import Hint
from gangsched.core.plugins.base import Failure, Filter, NodeView, PerNodeFilter, PerNodeScore, Score
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import CPU, MEMORY

__all__ = [
    "CPU",
    "MEMORY",
    "Bools",
    "Failure",
    "Filter",
    "Floats",
    "Hint",
    "NodeView",
    "PerNodeFilter",
    "PerNodeScore",
    "PodClass",
    "Score",
    "Simulation",
]
