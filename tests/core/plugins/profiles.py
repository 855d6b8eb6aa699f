"""Profiles with a plug-in of somebody else."""

from __future__ import annotations

from typing import Any

import numpy as np

from gangsched.core.framework.registry import Plugin, PluginSet
from gangsched.core.plugins.base import Bools, Failure
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Floats
from tests.builders import OURS

OTHER = "other-profile"

BY_ZERO = ZeroDivisionError("by zero")


class Strict:
    """Refuses nodes with more than one pod; ``wrong`` names a method that fails, ``after`` how often it works first."""

    name = "Strict"
    sees_pods = True

    def __init__(self, wrong: str = "", after: int = 0, answer: Any = BY_ZERO) -> None:
        self.wrong, self.left, self.answer = wrong, after, answer

    def _ask(self, method: str, right: Any) -> Any:
        if method != self.wrong:
            return right
        self.left -= 1
        if self.left >= 0:
            return right
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(self._ask("applies", True))

    def prepare(self, pod: PodClass, sim: Simulation) -> Floats:
        here = np.zeros(sim.snapshot.size)
        for _, row in sim.present():
            here[row] += 1
        return np.asarray(self._ask("prepare", here))

    def mask(self, state: Floats) -> Bools:
        found: Bools = self._ask("mask", state <= 1)
        return found

    def failures(self, state: Floats) -> list[Failure]:
        found: list[Failure] = self._ask("failures", [Failure("node(s) were busy", state > 1, resolvable=True)])
        return found

    def apply(self, state: Floats, pod: PodClass, row: int, sign: int) -> None:
        state[row] += self._ask("apply", sign)


def with_filter(made: object) -> dict[str, Any]:
    """Options in which OTHER has this filter beside the default ones, and OURS has not."""
    plugin = Plugin("Strict", filters=lambda _: (made,), foreign=True)  # type: ignore[arg-type,return-value]
    return plugin_options(PluginSet(filters=(*PluginSet().filters, "Strict"), foreign=(plugin,)))


def plugin_options(plugins: PluginSet) -> dict[str, Any]:
    """A second profile with these plug-ins."""
    return {"scheduler_names": (OURS, OTHER), "profiles": ((OTHER, plugins),)}
