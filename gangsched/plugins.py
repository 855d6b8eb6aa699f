"""All that a plug-in of another package imports. What is here keeps its meaning within a major version."""

from __future__ import annotations

from gangsched.core.arrays import Bools, Floats
from gangsched.core.filters.base import Failure, Filter
from gangsched.core.framework.pernode import NodeView, PerNodeFilter, PerNodeScore
from gangsched.core.hints import Hint
from gangsched.core.scores.base import Score
from gangsched.core.state.podclass import PodClass
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
