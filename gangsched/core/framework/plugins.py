"""The filters and scores that there are, by name, and which of them a profile uses.

Names, order, default weights and arguments are those of kube-scheduler's plug-ins, so that a profile written for it
means the same here (https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins). A plug-in is a filter,
a score, or both under one name; both are made from the same arguments. Plug-ins of others come as further
:class:`Plugin` records; they are loaded and their arguments are read in :mod:`gangsched.runtime.pluginsets`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gangsched.core.filters import added_affinity, inter_pod_affinity, node, ports, resources, topology_spread, volumes
from gangsched.core.filters.base import Filter
from gangsched.core.framework.guard import GuardedFilter, GuardedScore
from gangsched.core.scores import image_locality
from gangsched.core.scores import inter_pod_affinity as affinity_scores
from gangsched.core.scores import node as node_scores
from gangsched.core.scores import resources as resource_scores
from gangsched.core.scores import topology_spread as spread_scores
from gangsched.core.scores.base import Score
from gangsched.core.state.spreading import DEFAULTS
from gangsched.model.records import NodeTerm

#: cpu and memory, with equal weights.
CPU_AND_MEMORY = (("cpu", 1), ("memory", 1))


class FitArguments(msgspec.Struct, frozen=True):
    """NodeResourcesFitArgs: ``ignored`` are resources, ``ignored_groups`` prefixes of resources that the filter does
    not look at. ``resources`` are ``(name, weight)``; ``shape`` are the points ``(utilisation 0..100, score 0..10)`` of
    RequestedToCapacityRatio, ascending.
    """

    ignored: tuple[str, ...] = ()
    ignored_groups: tuple[str, ...] = ()
    strategy: str = "LeastAllocated"
    resources: tuple[tuple[str, int], ...] = CPU_AND_MEMORY
    shape: tuple[tuple[int, int], ...] = ()

    def ignores(self, resource: str) -> bool:
        """Does the filter leave this resource out?"""
        group, slash, _ = resource.partition("/")
        return resource in self.ignored or (bool(slash) and group in self.ignored_groups)


class BalanceArguments(msgspec.Struct, frozen=True):
    """NodeResourcesBalancedAllocationArgs: the resources whose use should be even."""

    resources: tuple[str, ...] = ("cpu", "memory")


class NodeAffinityArguments(msgspec.Struct, frozen=True):
    """NodeAffinityArgs: what every pod of the profile requires (None: nothing) and prefers beside its own affinity."""

    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[tuple[int, NodeTerm], ...] = ()


class PodAffinityArguments(msgspec.Struct, frozen=True):
    """InterPodAffinityArgs."""

    hard_weight: int = 1
    ignore_preferred_of_existing: bool = False


class Plugin(msgspec.Struct, frozen=True):
    """One plug-in: how its filters and its score are made from its arguments (None: it has none).

    ``weight`` is that of the score unless configured. ``indispensable`` says why the filter cannot be switched off, if
    that is so. ``arguments`` are those that it has when none are given. ``foreign`` plug-ins are not part of this
    project: their failures must not be the scheduler's.
    """

    name: str
    filters: Callable[[Any], tuple[Filter, ...]] | None = None
    score: Callable[[Any], Score] | None = None
    weight: float = 1.0
    indispensable: str = ""
    arguments: Any = None
    foreign: bool = False


def _node_affinity(given: NodeAffinityArguments) -> tuple[Filter, ...]:
    own = (node.NodeAffinityNames(), node.NodeAffinity())
    return own if given.required is None else (added_affinity.AddedNodeAffinity(given.required), *own)


#: In the order in which filters are asked, and nodes are charged to the first that refuses them.
BUILT_IN: tuple[Plugin, ...] = (
    Plugin("NodeUnschedulable", lambda _: (node.NodeUnschedulable(),)),
    Plugin(
        "NodeGoing",
        lambda _: (node.NodeGoing(),),
        indispensable="a pod that is bound to a node that is being deleted is lost",
    ),
    Plugin("NodeName", lambda _: (node.NodeName(),)),
    Plugin("TaintToleration", lambda _: (node.TaintToleration(),), lambda _: node_scores.TaintToleration(), 3.0),
    Plugin(
        "NodeAffinity",
        _node_affinity,
        lambda given: node_scores.NodeAffinity(given.preferred),
        2.0,
        arguments=NodeAffinityArguments(),
    ),
    Plugin("NodePorts", lambda _: (ports.NodePorts(),)),
    Plugin(
        "NodeResourcesFit",
        lambda _: (resources.NodeResourcesFit(),),
        lambda given: resource_scores.NodeResourcesFit(given.strategy, given.resources, given.shape),
        indispensable="plans for gangs and for preemption count free resources",
        arguments=FitArguments(),
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
        lambda given: (topology_spread.PodTopologySpread(given),),
        spread_scores.PodTopologySpread,
        2.0,
        arguments=DEFAULTS,
    ),
    Plugin(
        "InterPodAffinity",
        lambda _: (inter_pod_affinity.InterPodAffinity(),),
        lambda given: affinity_scores.InterPodAffinity(given.hard_weight, given.ignore_preferred_of_existing),
        2.0,
        arguments=PodAffinityArguments(),
    ),
    Plugin(
        "DynamicResources",
        lambda _: (node.DynamicResources(),),
        indispensable="pods with resource claims would run without their devices",
    ),
    Plugin("NodeDeclaredFeatures", lambda _: (node.NodeDeclaredFeatures(),)),
    Plugin(
        "NodeResourcesBalancedAllocation",
        score=lambda given: resource_scores.NodeResourcesBalancedAllocation(given.resources),
        arguments=BalanceArguments(),
    ),
    Plugin("ImageLocality", score=lambda _: image_locality.ImageLocality()),
)

_BY_NAME = {plugin.name: plugin for plugin in BUILT_IN}


class PluginSet(msgspec.Struct, frozen=True):
    """What one profile uses: its filters in order, its scores with weights, and arguments that are not the default.

    ``foreign`` are the plug-ins of others among them.
    """

    filters: tuple[str, ...] = tuple(p.name for p in BUILT_IN if p.filters is not None)
    scores: tuple[tuple[str, float], ...] = tuple((p.name, p.weight) for p in BUILT_IN if p.score is not None)
    arguments: tuple[tuple[str, Any], ...] = ()
    foreign: tuple[Plugin, ...] = ()

    def plugin(self, name: str) -> Plugin:
        """The plug-in of that name. KeyError if there is none."""
        return next((p for p in self.foreign if p.name == name), None) or _BY_NAME[name]

    def arguments_of(self, name: str) -> Any:
        """What the plug-in is made with."""
        given = dict(self.arguments)
        return given[name] if name in given else self.plugin(name).arguments

    @property
    def _fit(self) -> FitArguments:
        fit: FitArguments = self.arguments_of("NodeResourcesFit")
        return fit

    @property
    def ignores_any(self) -> bool:
        """Are there resources that the profile does not look at?"""
        return bool(self._fit.ignored or self._fit.ignored_groups)

    def ignores(self, resource: str) -> bool:
        """Is there always enough of this resource, as far as the profile is concerned?"""
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
