"""Plug-ins of others, wrapped so that an error in them names them and ends one decision, not the process.

Whatever a plug-in raises, and every answer that is not of the promised form, becomes a :class:`PluginError`.
:class:`~gangsched.core.planning.decider.Decider` turns it into a verdict on the gang that was being decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.filters.base import Failure, Filter
from gangsched.core.hints import Hint
from gangsched.core.scores.base import MAX_SCORE, Score
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.messages import invalid

_Answer = TypeVar("_Answer")
_MOST_CHARACTERS = 300
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class PluginError(Exception):
    """A plug-in has failed. ``plugin`` is its name; the text names the method and what went wrong."""

    def __init__(self, plugin: str, method: str, problem: str) -> None:
        # Addresses of objects differ from try to try: with them every try would be news.
        words = _ADDRESS.sub("0x…", " ".join(problem.split()))[:_MOST_CHARACTERS]
        super().__init__(invalid.plugin_failed(plugin, method, words))
        self.plugin = plugin


class _Kept(NamedTuple):
    """A plug-in's state with what is needed to check its answers."""

    state: Any
    feasible: Bools


class _Guard:
    """Calls the methods of one plug-in."""

    def __init__(self, inner: Any) -> None:
        self.name: str = inner.name
        labels: Any = getattr(inner, "pod_labels", ())
        if not isinstance(labels, tuple | list) or not all(isinstance(key, str) for key in labels):
            raise TypeError(f"pod_labels of plug-in {self.name} must be a tuple of label keys, not {labels!r}")
        self.pod_labels: tuple[str, ...] = tuple(labels)

    def _call(self, method: str, call: Callable[[], _Answer]) -> _Answer:
        try:
            return call()
        except KeyboardInterrupt:
            raise  # of whoever runs a simulation and wants its end
        except BaseException as error:  # whatever else it is, also what sys.exit() raises, it is the plug-in's
            raise PluginError(self.name, method, f"{type(error).__name__}: {error}") from error

    def _refuse(self, method: str, problem: str) -> PluginError:
        return PluginError(self.name, method, problem)

    def _bools(self, method: str, answer: Any, size: int) -> Bools:
        if not isinstance(answer, np.ndarray) or answer.dtype != np.bool_ or answer.shape != (size,):
            raise self._refuse(method, invalid.no_booleans(_form(answer), size))
        return answer


class GuardedFilter(_Guard):
    """A filter of others; see :class:`~gangsched.core.filters.base.Filter`. TypeError when an attribute is no such."""

    def __init__(self, inner: Filter) -> None:
        super().__init__(inner)
        self._inner = inner
        self.sees_pods = inner.sees_pods
        self.monotone = bool(getattr(inner, "monotone", False))
        self.hints: Hint = getattr(inner, "hints", Hint.ANY)
        if not isinstance(self.hints, Hint):
            raise TypeError(f"hints of plug-in {self.name} must be a Hint, not {self.hints!r}")

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return self._call("applies", lambda: bool(self._inner.applies(pod, sim)))

    def prepare(self, pod: PodClass, sim: Simulation) -> _Kept:
        state = self._call("prepare", lambda: self._inner.prepare(pod, sim))
        return _Kept(state, np.ones(sim.snapshot.size, dtype=np.bool_))

    def mask(self, state: _Kept) -> Bools:
        answer = self._call("mask", lambda: self._inner.mask(state.state))
        return self._bools("mask", answer, len(state.feasible))

    def failures(self, state: _Kept) -> list[Failure]:
        found: list[Any] = self._call("failures", lambda: list(self._inner.failures(state.state)))
        for failure in found:
            if not isinstance(failure, Failure) or not isinstance(failure.text, str):
                raise self._refuse("failures", invalid.no_failure(_form(failure)))
            self._bools("failures", failure.nodes, len(state.feasible))
        return found

    def apply(self, state: _Kept, pod: PodClass, row: int, sign: int) -> None:
        self._call("apply", lambda: self._inner.apply(state.state, pod, row, sign))


class GuardedScore(_Guard):
    """A score of others; see :class:`~gangsched.core.scores.base.Score`."""

    def __init__(self, inner: Score) -> None:
        super().__init__(inner)
        self._inner = inner
        self.local = inner.local

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return self._call("applies", lambda: bool(self._inner.applies(pod, sim)))

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Kept:
        return _Kept(self._call("prepare", lambda: self._inner.prepare(pod, sim, feasible)), feasible)

    def values(self, state: _Kept) -> Floats:
        answer: Any = self._call("values", lambda: self._inner.values(state.state))
        size = len(state.feasible)
        if not isinstance(answer, np.ndarray) or answer.dtype != np.float64 or answer.shape != (size,):
            raise self._refuse("values", invalid.no_floats(_form(answer), size))
        wrong = state.feasible & ~((answer >= 0.0) & (answer <= MAX_SCORE))
        if wrong.any():
            raise self._refuse("values", invalid.no_score(answer[wrong][0]))
        return np.asarray(answer)

    def value(self, state: _Kept, row: int) -> float:
        answer = self._call("value", lambda: float(self._inner.value(state.state, row)))
        if not 0.0 <= answer <= MAX_SCORE:
            raise self._refuse("value", invalid.no_score(answer))
        return answer


def _form(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return invalid.array_of_shape(answer.dtype, answer.shape)
    return f"{type(answer).__name__}"
