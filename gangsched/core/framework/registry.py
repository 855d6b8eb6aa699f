"""The filters and scores that there are, by name, and which of them a profile uses.

Names, order, default weights and arguments are those of kube-scheduler's plug-ins, so that a profile written for it
means the same here (https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins). A plug-in is a filter,
a score, or both under one name; both are made from the same arguments. Plug-ins of others come as further
:class:`Plugin` records; they are loaded, and all arguments are read, in :mod:`gangsched.runtime.profiles`.

Plug-ins of others are wrapped, so that an error in them names them and ends one decision, not the process. Each
exception and each invalid answer of a plug-in becomes a :class:`PluginError`.
:class:`~gangsched.core.planning.cycle.Decider` makes it a verdict on the gang of the decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.events import Hint
from gangsched.core.framework.arguments import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
)
from gangsched.core.plugins import devices, inter_pod_affinity, node, resources, topology_spread, volumes
from gangsched.core.plugins.base import MAX_SCORE, Failure, Filter, Score
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.messages import invalid

_Answer = TypeVar("_Answer")
_MOST_CHARACTERS = 300
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def steady(problem: str) -> str:
    """The words of an exception without addresses of objects: they differ from try to try, and each would be news."""
    return _ADDRESS.sub("0x…", " ".join(problem.split()))[:_MOST_CHARACTERS]


class PluginError(Exception):
    """A plug-in has failed. ``plugin`` is its name; the text names the method and what went wrong."""

    def __init__(self, plugin: str, method: str, problem: str) -> None:
        super().__init__(self.said(plugin, method, steady(problem)))
        self.plugin = plugin

    @staticmethod
    def said(plugin: str, method: str, words: str) -> str:
        """The text for users."""
        return invalid.plugin_failed(plugin=plugin, method=method, words=words)


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
            raise self._refuse(method, invalid.no_booleans(answer=_form(answer), size=size))
        return answer


class GuardedFilter(_Guard):
    """A filter of others; see :class:`~gangsched.core.plugins.base.Filter`. TypeError when an attribute is no such."""

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
                raise self._refuse("failures", invalid.no_failure(answer=_form(failure)))
            self._bools("failures", failure.nodes, len(state.feasible))
        return found

    def apply(self, state: _Kept, pod: PodClass, row: int, sign: int) -> None:
        self._call("apply", lambda: self._inner.apply(state.state, pod, row, sign))


class GuardedScore(_Guard):
    """A score of others; see :class:`~gangsched.core.plugins.base.Score`."""

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
            raise self._refuse("values", invalid.no_floats(answer=_form(answer), size=size))
        wrong = state.feasible & ~((answer >= 0.0) & (answer <= MAX_SCORE))
        if wrong.any():
            raise self._refuse("values", invalid.no_score(answer=answer[wrong][0]))
        return np.asarray(answer)

    def value(self, state: _Kept, row: int) -> float:
        answer = self._call("value", lambda: float(self._inner.value(state.state, row)))
        if not 0.0 <= answer <= MAX_SCORE:
            raise self._refuse("value", invalid.no_score(answer=answer))
        return answer


def _form(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return invalid.array_of_shape(dtype=answer.dtype, shape=answer.shape)
    return f"{type(answer).__name__}"


class Plugin(msgspec.Struct, frozen=True):
    """One plug-in: how its filters and its score are made from its arguments (None: it has none).

    ``weight`` is that of the score unless configured. ``indispensable`` says why the filter cannot be switched off, if
    that is so. ``arguments`` are those that it has when none are given. Without ``default`` it is off until a profile
    enables it. ``foreign`` plug-ins are not part of this project: their failures must not be the scheduler's.
    """

    name: str
    filters: Callable[[Any], tuple[Filter, ...]] | None = None
    score: Callable[[Any], Score] | None = None
    weight: float = 1.0
    indispensable: str = ""
    arguments: Any = None
    foreign: bool = False
    default: bool = True


def _node_affinity(given: NodeAffinityArgs) -> tuple[Filter, ...]:
    own = (node.NodeAffinityNames(), node.NodeAffinity())
    return (node.AddedNodeAffinity(given.required), *own) if given.required else own


def _fit_score(given: NodeResourcesFitArgs) -> Score:
    return resources.NodeResourcesFitScore(given.scoring_strategy.type, given.weights, given.shape)


def _pod_affinity_score(given: InterPodAffinityArgs) -> Score:
    return inter_pod_affinity.InterPodAffinityScore(
        given.hard_pod_affinity_weight, given.ignore_preferred_terms_of_existing_pods
    )


#: In the order in which filters are asked, and nodes are charged to the first that refuses them.
BUILT_IN: tuple[Plugin, ...] = (
    Plugin("NodeUnschedulable", lambda _: (node.NodeUnschedulable(),)),
    Plugin(
        "NodeGoing",
        lambda _: (node.NodeGoing(),),
        indispensable="a pod that is bound to a node that is being deleted is lost",
    ),
    Plugin("NodeName", lambda _: (node.NodeName(),)),
    Plugin("TaintToleration", lambda _: (node.TaintToleration(),), lambda _: node.TaintTolerationScore(), 3.0),
    Plugin(
        "NodeAffinity",
        _node_affinity,
        lambda given: node.NodeAffinityScore(given.preferred),
        2.0,
        arguments=NodeAffinityArgs(),
    ),
    Plugin("NodePorts", lambda _: (node.NodePorts(),)),
    Plugin(
        "NodeResourcesFit",
        lambda _: (node.NodeResourcesFit(),),
        _fit_score,
        indispensable="plans for gangs and for preemption count free resources",
        arguments=NodeResourcesFitArgs(),
    ),
    Plugin("VolumeRestrictions", lambda _: (volumes.VolumeRestrictions(),)),
    Plugin("NodeVolumeLimits", lambda _: (volumes.NodeVolumeLimits(),)),
    Plugin(
        "VolumeBinding",
        lambda _: (volumes.VolumeBinding(),),
        indispensable="pods would be bound where their volumes are not",
    ),
    Plugin("VolumeZone", lambda _: (volumes.VolumeZone(),)),
    Plugin(
        "PodTopologySpread",
        lambda given: (topology_spread.PodTopologySpread(given.defaults),),
        lambda given: topology_spread.PodTopologySpreadScore(given.defaults),
        2.0,
        arguments=PodTopologySpreadArgs(),
    ),
    Plugin(
        "InterPodAffinity",
        lambda _: (inter_pod_affinity.InterPodAffinity(),),
        _pod_affinity_score,
        2.0,
        arguments=InterPodAffinityArgs(),
    ),
    Plugin(
        "DynamicResources",
        lambda _: (devices.DynamicResources(),),
        lambda _: devices.DynamicResourcesScore(),
        2.0,
        indispensable="pods with resource claims would run without their devices",
    ),
    Plugin("NodeDeclaredFeatures", lambda _: (node.NodeDeclaredFeatures(),)),
    Plugin(
        "NodeResourcesBalancedAllocation",
        score=lambda given: resources.NodeResourcesBalancedAllocation(given.names),
        arguments=NodeResourcesBalancedAllocationArgs(),
    ),
    Plugin("ImageLocality", score=lambda _: node.ImageLocality()),
)

_BY_NAME = {plugin.name: plugin for plugin in BUILT_IN}


class PluginSet(msgspec.Struct, frozen=True):
    """The plug-ins of one profile: its filters in order, its scores with weights, and arguments that are not the
    default.

    ``foreign`` are the plug-ins of others among them.
    """

    filters: tuple[str, ...] = tuple(p.name for p in BUILT_IN if p.default and p.filters is not None)
    scores: tuple[tuple[str, float], ...] = tuple(
        (p.name, p.weight) for p in BUILT_IN if p.default and p.score is not None
    )
    arguments: tuple[tuple[str, Any], ...] = ()
    foreign: tuple[Plugin, ...] = ()

    def plugin(self, name: str) -> Plugin:
        """The plug-in of that name. KeyError if there is none."""
        return next((p for p in self.foreign if p.name == name), None) or _BY_NAME[name]

    def arguments_of(self, name: str) -> Any:
        """Return the arguments of the plug-in."""
        given = dict(self.arguments)
        return given[name] if name in given else self.plugin(name).arguments

    @property
    def _fit(self) -> NodeResourcesFitArgs:
        fit: NodeResourcesFitArgs = self.arguments_of("NodeResourcesFit")
        return fit

    @property
    def ignores_any(self) -> bool:
        """Return True if the profile ignores any resource."""
        return bool(self._fit.ignored_resources or self._fit.ignored_resource_groups)

    def ignores(self, resource: str) -> bool:
        """Return True if the profile ignores this resource, so that there is always enough of it."""
        return self._fit.ignores(resource)

    def make_filters(self) -> list[Filter]:
        """New filters. Raises what the constructor of a foreign plug-in raises."""
        found: list[Filter] = []
        for name in self.filters:
            plugin = self.plugin(name)
            made = plugin.filters(self.arguments_of(name)) if plugin.filters is not None else ()
            found += [GuardedFilter(rule) for rule in made] if plugin.foreign else made
        # kube-scheduler narrows its choice to nodes that a pod names before it asks any filter (PreFilterResult).
        return sorted(found, key=lambda rule: rule.name != node.NodeAffinityNames.name)

    def make_scores(self) -> list[tuple[Score, float]]:
        """New scores with their weights. Raises as :meth:`make_filters`."""
        found: list[tuple[Score, float]] = []
        for name, weight in self.scores:
            plugin = self.plugin(name)
            if plugin.score is not None and weight:
                made = plugin.score(self.arguments_of(name))
                found.append((GuardedScore(made) if plugin.foreign else made, weight))
        return found
