"""Filters and scores in their order, asked for one class of pods at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.decision import Reason
from gangsched.core.framework.registry import GuardedFilter, GuardedScore, PluginSet
from gangsched.core.plugins.base import Filter, Score
from gangsched.core.plugins.devices import DynamicResources
from gangsched.core.plugins.node import NodeResourcesFit
from gangsched.core.plugins.topology_spread import PodTopologySpread
from gangsched.core.plugins.volumes import VolumeFilter
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation, state_key
from gangsched.core.state.snapshot import Snapshot
from gangsched.messages.causes import OUTSIDE_TOPOLOGY_DOMAIN as OUTSIDE

_CACHE_LIMIT = 4096


def _no_clock() -> float:
    return 0.0


class Stopwatch:
    """Seconds that filters and scores have taken so far, in all decisions and other questions.

    The caller sets ``clock``, because the core has none. It counts seconds and never runs backwards. Without a clock,
    no time passes. Nothing is decided by what is counted here. ``running`` while time is counted.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] = _no_clock
        self.filter_seconds = 0.0
        self.score_seconds = 0.0
        self.running = False


class _Timed(Protocol):
    stopwatch: Stopwatch


_S = TypeVar("_S", bound=_Timed)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _timed(
    kind: Literal["filter_seconds", "score_seconds"],
) -> Callable[[Callable[Concatenate[_S, _P], _R]], Callable[Concatenate[_S, _P], _R]]:
    """The time that a method takes is counted, but for what is counted already."""

    def around(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
        @wraps(method)
        def counted(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
            stopwatch = self.stopwatch
            if stopwatch.running:
                return method(self, *args, **kwargs)
            stopwatch.running, began = True, stopwatch.clock()
            try:
                return method(self, *args, **kwargs)
            finally:
                stopwatch.running, spent = False, stopwatch.clock() - began
                setattr(stopwatch, kind, getattr(stopwatch, kind) + spent)

        return counted

    return around


class Pipeline:
    """The filters (in the order in which they are asked and reported) and the weighted scores.

    ``unlimited`` says of which resources there is always enough, for
    :class:`~gangsched.core.state.simulation.Simulation`. ``stopwatch`` counts the time that both take.
    """

    def __init__(
        self,
        filters: list[Filter],
        scores: list[tuple[Score, float]],
        unlimited: Callable[[str], bool] | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.filters = filters
        self.scores = scores
        self.unlimited = unlimited
        self.stopwatch = stopwatch or Stopwatch()
        #: Labels of pods that plug-ins of others look at; None without such plug-ins.
        self.pod_labels = _pod_labels([*filters, *(score for score, _ in scores)])
        self._watching = [rule for rule in filters if rule.sees_pods and not isinstance(rule, VolumeFilter)]
        self._volumes = [rule for rule in filters if isinstance(rule, VolumeFilter)]
        self._refusing = [rule for rule in filters if isinstance(rule, VolumeFilter | DynamicResources)]
        self._static: dict[int, tuple[tuple[int, int], Any, Bools]] = {}

    @_timed("filter_seconds")
    def mask(self, pod: PodClass, sim: Simulation, watching: Sequence[Filter] | None = None) -> Bools:
        """``(N,)``: nodes that could take one more pod of this class. ``watching`` is what :meth:`watching` says, where
        that is known.
        """
        mask = self.static_mask(pod, sim).copy()
        for rule in self.watching(pod, sim) if watching is None else watching:
            mask &= rule.mask(sim.state(rule, pod))
        return mask

    def hold(self, places: Iterable[tuple[int, PodClass]], sim: Simulation) -> bool:
        """Return True if these pods fit where they are to go, as ``(row, class)``, one after another. The simulation
        has those placed that fit, up to the first that does not.
        """
        for row, pod in places:
            if not self.mask(pod, sim)[row]:
                return False
            sim.place(pod, row)
        return True

    @_timed("filter_seconds")
    def static_mask(self, pod: PodClass, sim: Simulation) -> Bools:
        """``(N,)``: nodes that pass the filters blind to pods, and the simulation's restriction; volumes count here as
        far as no other pod can change anything about them. Do not modify.
        """
        mask = self._blind_mask(pod, sim)
        if pod.volumes is not None:
            for rule in self._volumes:
                if rule.applies(pod, sim) and rule.settled(pod, sim):
                    mask = mask & rule.settled_mask(sim.state(rule, pod))
        return mask if sim.restriction is None else mask & sim.restriction.allowed

    def _blind_mask(self, pod: PodClass, sim: Simulation) -> Bools:
        """Cached until a node changes."""
        snapshot = sim.snapshot
        key, generation = id(pod.shape), (snapshot.static_generation, 0)
        if self.pod_labels is not None:  # plug-ins of others may look at more of pods and nodes than ours
            key, generation = pod.ident, (snapshot.static_generation, snapshot.room_generation)
        found = self._static.get(key)
        if found is not None and found[0] == generation:
            return found[2]
        mask = _inside(pod, snapshot)
        for rule in self.filters:
            if not rule.sees_pods and rule.applies(pod, sim):
                mask &= rule.mask(rule.prepare(pod, sim))
        if len(self._static) >= _CACHE_LIMIT:
            self._static.clear()
        # The shape is kept beside its mask so that its id cannot become another's.
        self._static[key] = (generation, pod.shape, mask)
        return mask

    def watching(self, pod: PodClass, sim: Simulation) -> list[Filter]:
        """The filters whose answer for this class depends on other pods."""
        if pod.volumes is None:
            return [rule for rule in self._watching if rule.applies(pod, sim)]
        rules = (rule for rule in self.filters if rule.sees_pods and rule.applies(pod, sim))
        return [rule for rule in rules if not (isinstance(rule, VolumeFilter) and rule.settled(pod, sim))]

    def followed(self, pods: Iterable[PodClass], sim: Simulation) -> int:
        """How many states of filters each pod that comes or goes changes, for pods of these classes."""
        return len(
            {state_key(rule, pod) for pod in pods for rule in self.watching(pod, sim) if getattr(rule, "told", True)}
        )

    def only_counts(self, pod: PodClass, sim: Simulation) -> bool:
        """True when nothing but free resources limits how many pods of the class a passing node takes."""
        return _only_counts(self.watching(pod, sim))

    def only_own_node(self, pod: PodClass, sim: Simulation) -> bool:
        """True when a pod of the class changes nothing but what its own node can take: room and devices."""
        watching = self.watching(pod, sim)
        return _only_counts(watching) or _only_own_node(watching, pod, sim)

    def monotone(self, pod: PodClass, sim: Simulation) -> bool:
        """True when no filter turns against a node because a pod has left, as those do that count pods or want company.

        Required affinity of the class itself is for the caller to look at. Plug-ins of others say so of themselves
        (``monotone``).
        """
        return all(
            rule.name != PodTopologySpread.name and getattr(rule, "monotone", True) for rule in self.watching(pod, sim)
        )

    def _refusal(self, pod: PodClass, sim: Simulation) -> str:
        """Return why a pod cannot be placed on any node, because of its volumes or devices."""
        if pod.volumes is None and pod.devices is None:
            return ""
        rules = (rule for rule in self._refusing if rule.applies(pod, sim))
        return next((text for rule in rules if (text := rule.refusal(sim.state(rule, pod)))), "")

    @_timed("filter_seconds")
    def diagnose(self, pod: PodClass, sim: Simulation) -> tuple[list[Reason], Bools]:
        """Why no node takes one more pod of this class.

        Every node is charged to the first filter that refuses it, as kube-scheduler reports it. Returns the
        reasons sorted by text, and ``(N,)`` the nodes on which removing pods might help.
        """
        size = sim.snapshot.size
        open_nodes = np.ones(size, dtype=np.bool_)
        resolvable = np.zeros(size, dtype=np.bool_)
        refusal = self._refusal(pod, sim)
        if refusal:
            return [Reason(refusal, 0)], resolvable
        counts: dict[str, int] = {}
        for text, nodes in sim.restriction.refused if sim.restriction is not None else ():
            if nodes.any():
                counts[text] = int(nodes.sum())
                open_nodes &= ~nodes
        outside = open_nodes & ~_inside(pod, sim.snapshot)
        if outside.any():
            counts[OUTSIDE] = counts.get(OUTSIDE, 0) + int(outside.sum())
            open_nodes &= ~outside
        for rule in self.filters:
            if not open_nodes.any():
                break
            if not rule.applies(pod, sim):
                continue
            state = sim.state(rule, pod) if rule.sees_pods else rule.prepare(pod, sim)
            refused = open_nodes & ~rule.mask(state)
            hopeless = np.zeros(size, dtype=np.bool_)
            for failure in rule.failures(state):
                here = refused & failure.nodes
                if here.any():
                    counts[failure.text] = counts.get(failure.text, 0) + int(here.sum())
                    if not failure.resolvable:
                        hopeless |= here
            resolvable |= refused & ~hopeless
            open_nodes &= ~refused
        return [Reason(text, n) for text, n in sorted(counts.items())], resolvable | open_nodes


def _inside(pod: PodClass, snapshot: Snapshot) -> Bools:
    """``(N,)``: nodes of the domain that the pod's part of a gang has; all for other pods."""
    mask = np.ones(snapshot.size, dtype=np.bool_)
    for key, value in pod.shape.within:
        mask &= snapshot.columns.label(key).among((value,))
    return mask


def _only_counts(watching: Iterable[Filter]) -> bool:
    return all(rule.name == NodeResourcesFit.name for rule in watching)


def _only_own_node(watching: Iterable[Filter], pod: PodClass, sim: Simulation) -> bool:
    """Return whether such a pod changes only what its own node can take."""
    names = {NodeResourcesFit.name, DynamicResources.name}
    return pod.devices is not None and sim.devices.alone(pod.devices) and all(rule.name in names for rule in watching)


def _pod_labels(parts: Iterable[Filter | Score]) -> tuple[str, ...] | None:
    foreign = [part for part in parts if isinstance(part, GuardedFilter | GuardedScore)]
    return tuple(sorted({key for part in foreign for key in part.pod_labels})) if foreign else None


class Ranking:
    """Weighted scores of one class over the nodes that pass its filters; re-scored where pods have been placed.

    ``by_room`` is True while placing a pod changes the score of its own node only, and nothing but free resources
    limits how many pods of the class a passing node takes. ``by_node`` is True also if devices of the node do.
    """

    def __init__(self, pipeline: Pipeline, pod: PodClass, sim: Simulation) -> None:
        self._asked = (pipeline, pod, sim)
        self.stopwatch = pipeline.stopwatch
        watching = pipeline.watching(pod, sim)
        self._counts = _only_counts(watching)
        self.by_room = self._counts
        self._own_node = self._counts or _only_own_node(watching, pod, sim)
        self._begin(pipeline.mask(pod, sim, watching))

    @_timed("score_seconds")
    def _begin(self, mask: Bools) -> None:
        pipeline, pod, sim = self._asked
        self._parts = [
            (score, weight, score.prepare(pod, sim, mask))
            for score, weight in pipeline.scores
            if weight and score.local and score.applies(pod, sim)
        ]
        self._scores = self.values(sim.snapshot.size)
        self.totals: Floats = self._scores
        self._add_up(mask)

    def _add_up(self, mask: Bools) -> None:
        """The totals: local scores as they are known, all others as they are now, with those that apply only now."""
        pipeline, pod, sim = self._asked
        totals = self._scores
        self.by_room, self.by_node = self._counts, self._own_node
        for score, weight in pipeline.scores:
            if weight and not score.local and score.applies(pod, sim):
                self.by_room = self.by_node = False
                totals = totals + weight * score.values(score.prepare(pod, sim, mask))
        self.totals = np.where(mask, totals, -np.inf)

    @_timed("score_seconds")
    def values(self, size: int) -> Floats:
        """``(size,)`` local scores of all ``size`` nodes as they are now, those that may not be used included."""
        totals = np.zeros(size)
        for score, weight, state in self._parts:
            totals += weight * score.values(state)
        return totals

    def placed(self, row: int) -> None:
        """A pod has come to ``row``: which nodes pass, and what they score, may be another from now on."""
        self._placed(row, self._asked[0].mask(*self._asked[1:]))

    @_timed("score_seconds")
    def _placed(self, row: int, mask: Bools) -> None:
        self._scores[row] = self.value(row)
        self._add_up(mask)

    def best(self) -> int:
        """The row of the best node, the first by name among equals; -1 when none is left."""
        if not len(self.totals):
            return -1
        row = int(self.totals.argmax())
        return row if self.totals[row] != -np.inf else -1

    @_timed("score_seconds")
    def value(self, row: int) -> float:
        """The local score of one node as it is now."""
        return sum(weight * score.value(state, row) for score, weight, state in self._parts)

    @_timed("score_seconds")
    def leaders(self, most: int) -> list[tuple[float, int]]:
        """The best ``most`` nodes as ``(-score, row)``, best first, by name among equals: a heap to draw from.

        Placing a pod changes only its own node's score, so ``most`` pods never need more nodes than these.
        """
        passing = np.flatnonzero(self.totals != -np.inf)
        scores = self.totals[passing]
        if len(passing) > most:
            floor = np.partition(scores, len(scores) - most)[len(scores) - most]
            above = np.flatnonzero(scores > floor)
            level = np.flatnonzero(scores == floor)[: most - len(above)]
            chosen = np.concatenate([above, level])
            passing, scores = passing[chosen], scores[chosen]
        return sorted(zip((-scores).tolist(), passing.tolist(), strict=True))


_DEFAULT = PluginSet()


def pipeline_of(plugins: PluginSet = _DEFAULT, stopwatch: Stopwatch | None = None) -> Pipeline:
    """The filters and scores of a profile. Raises what the constructors of foreign plug-ins raise."""
    unlimited = plugins.ignores if plugins.ignores_any else None
    return Pipeline(plugins.make_filters(), plugins.make_scores(), unlimited, stopwatch)
