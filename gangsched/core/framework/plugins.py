"""The filters and scores that there are, by name, and which of them a profile uses.

Names, order, default weights and arguments are those of kube-scheduler's plug-ins, so that a profile written for it
means the same here (https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins). A plug-in is a filter,
a score, or both under one name; both are made from the same arguments. Plug-ins of others come as further
:class:`Plugin` records; they are loaded, and all arguments are read, in :mod:`gangsched.runtime.profiles`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gangsched.core.filters import inter_pod_affinity, node, topology_spread, volumes
from gangsched.core.filters.base import Filter
from gangsched.core.framework.arguments import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
)
from gangsched.core.framework.guard import GuardedFilter, GuardedScore
from gangsched.core.scores import inter_pod_affinity as affinity_scores
from gangsched.core.scores import node as node_scores
from gangsched.core.scores import resources as resource_scores
from gangsched.core.scores import topology_spread as spread_scores
from gangsched.core.scores.base import Score


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


def _node_affinity(given: NodeAffinityArgs) -> tuple[Filter, ...]:
    own = (node.NodeAffinityNames(), node.NodeAffinity())
    return (node.AddedNodeAffinity(given.required), *own) if given.required else own


def _fit_score(given: NodeResourcesFitArgs) -> Score:
    return resource_scores.NodeResourcesFit(given.scoring_strategy.type, given.weights, given.shape)


def _pod_affinity_score(given: InterPodAffinityArgs) -> Score:
    return affinity_scores.InterPodAffinity(
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
    Plugin("TaintToleration", lambda _: (node.TaintToleration(),), lambda _: node_scores.TaintToleration(), 3.0),
    Plugin(
        "NodeAffinity",
        _node_affinity,
        lambda given: node_scores.NodeAffinity(given.preferred),
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
        lambda given: spread_scores.PodTopologySpread(given.defaults),
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
        lambda _: (node.DynamicResources(),),
        indispensable="pods with resource claims would run without their devices",
    ),
    Plugin("NodeDeclaredFeatures", lambda _: (node.NodeDeclaredFeatures(),)),
    Plugin(
        "NodeResourcesBalancedAllocation",
        score=lambda given: resource_scores.NodeResourcesBalancedAllocation(given.names),
        arguments=NodeResourcesBalancedAllocationArgs(),
    ),
    Plugin("ImageLocality", score=lambda _: node_scores.ImageLocality()),
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
    def _fit(self) -> NodeResourcesFitArgs:
        fit: NodeResourcesFitArgs = self.arguments_of("NodeResourcesFit")
        return fit

    @property
    def ignores_any(self) -> bool:
        """Are there resources that the profile does not look at?"""
        return bool(self._fit.ignored_resources or self._fit.ignored_resource_groups)

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
