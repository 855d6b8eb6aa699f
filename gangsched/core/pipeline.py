"""Filters and scores in their order, asked for one class of pods at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gangsched.core.decision import Reason
from gangsched.core.filters.affinity import InterPodAffinity
from gangsched.core.filters.base import Filter
from gangsched.core.filters.node import (
    DynamicResources,
    NodeAffinity,
    NodeGoing,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
)
from gangsched.core.filters.ports import NodePorts
from gangsched.core.filters.resources import NodeResourcesFit
from gangsched.core.filters.spread import PodTopologySpread
from gangsched.core.options import Options
from gangsched.core.podclass import PodClass
from gangsched.core.scores import node as node_scores
from gangsched.core.scores import resources as resource_scores
from gangsched.core.scores.base import Score
from gangsched.core.simulation import Simulation
from gangsched.core.snapshot import Bools, Floats

_CACHE_LIMIT = 4096


class Pipeline:
    """The filters (in the order in which they are asked and reported) and the weighted scores."""

    def __init__(self, filters: list[Filter], scores: list[tuple[Score, float]]) -> None:
        self.filters = filters
        self.scores = scores
        self._static: dict[int, tuple[int, Any, Bools]] = {}

    def mask(self, pod: PodClass, sim: Simulation) -> Bools:
        """``(N,)``: nodes that could take one more pod of this class."""
        mask = self.static_mask(pod, sim).copy()
        for rule in self.watching(pod, sim):
            mask &= rule.mask(sim.state(rule, pod))
        return mask

    def static_mask(self, pod: PodClass, sim: Simulation) -> Bools:
        """``(N,)``: nodes that pass the filters blind to pods, and the simulation's restriction. Do not modify."""
        mask = self._blind_mask(pod, sim)
        return mask if sim.restriction is None else mask & sim.restriction.allowed

    def _blind_mask(self, pod: PodClass, sim: Simulation) -> Bools:
        """Cached until a node changes."""
        generation = sim.snapshot.static_generation
        found = self._static.get(id(pod.shape))
        if found is not None and found[0] == generation:
            return found[2]
        mask = np.ones(sim.snapshot.size, dtype=np.bool_)
        for rule in self.filters:
            if not rule.sees_pods and rule.applies(pod, sim):
                mask &= rule.mask(rule.prepare(pod, sim))
        if len(self._static) >= _CACHE_LIMIT:
            self._static.clear()
        # The shape is kept beside its mask so that its id cannot become another's.
        self._static[id(pod.shape)] = (generation, pod.shape, mask)
        return mask

    def watching(self, pod: PodClass, sim: Simulation) -> list[Filter]:
        """The filters whose answer for this class depends on other pods."""
        return [rule for rule in self.filters if rule.sees_pods and rule.applies(pod, sim)]

    def only_counts(self, pod: PodClass, sim: Simulation) -> bool:
        """True when nothing but free resources limits how many pods of the class a passing node takes."""
        return all(rule.name == NodeResourcesFit.name for rule in self.watching(pod, sim))

    def diagnose(self, pod: PodClass, sim: Simulation) -> tuple[list[Reason], Bools]:
        """Why no node takes one more pod of this class.

        Every node is charged to the first filter that refuses it, as kube-scheduler reports it. Returns the
        reasons sorted by text, and ``(N,)`` the nodes on which removing pods might help.
        """
        size = sim.snapshot.size
        open_nodes = np.ones(size, dtype=np.bool_)
        resolvable = np.zeros(size, dtype=np.bool_)
        counts: dict[str, int] = {}
        for text, nodes in sim.restriction.refused if sim.restriction is not None else ():
            if nodes.any():
                counts[text] = int(nodes.sum())
                open_nodes &= ~nodes
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


class Ranking:
    """Weighted scores of one class over the nodes of a mask; re-scored where pods have been placed."""

    def __init__(self, pipeline: Pipeline, pod: PodClass, sim: Simulation, mask: Bools) -> None:
        self._parts = [
            (score, weight, score.prepare(pod, sim, mask))
            for score, weight in pipeline.scores
            if weight and score.applies(pod, sim)
        ]
        self.local = all(score.local for score, _, _ in self._parts)
        self.totals: Floats = np.zeros(sim.snapshot.size)
        for score, weight, state in self._parts:
            self.totals += weight * score.values(state)
        self.totals[~mask] = -np.inf

    def best(self) -> int:
        """The row of the best node, the first by name among equals; -1 when none is left."""
        if not len(self.totals):
            return -1
        row = int(self.totals.argmax())
        return row if self.totals[row] != -np.inf else -1

    def value(self, row: int) -> float:
        """The score of one node as it is now."""
        return sum(weight * score.value(state, row) for score, weight, state in self._parts)

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


def default_pipeline(options: Options) -> Pipeline:
    """The built-in filters and scores, in kube-scheduler's order and with its weights unless configured."""
    weights = dict(options.score_weights)
    scores: list[Score] = [
        resource_scores.NodeResourcesFit(options.scoring_strategy),
        resource_scores.NodeResourcesBalancedAllocation(),
        node_scores.TaintToleration(),
        node_scores.NodeAffinity(),
    ]
    filters: list[Filter] = [
        NodeUnschedulable(),
        NodeGoing(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        PodTopologySpread(),
        InterPodAffinity(),
        DynamicResources(),
    ]
    return Pipeline(filters, [(score, weights.get(score.name, 0.0)) for score in scores])
