"""Arguments of the built-in plug-ins: as the configuration file has them, and what filters and scores are made from.

Shapes are kube-scheduler's (https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec

from gangsched.core.plugins.topology_spread import SpreadDefaults
from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import NodeTerm, SpreadConstraint
from gangsched.model.errors import FieldError
from gangsched.model.sections import NonEmpty, Section, doc
from gangsched.model.selectors import node_term

Problems: TypeAlias = Iterator[tuple[str, str]]

#: Resources that the filter always looks at: only others can be left to another component.
_ALWAYS_CHECKED = ("cpu", "memory", "ephemeral-storage", "pods")


class PluginArguments(Section, frozen=True, kw_only=True):
    """Arguments of one built-in plug-in."""

    def problems(self) -> Problems:
        """What is wrong with values that are right one by one: ``(path below args, text)``."""
        yield from ()


class ResourceSpec(Section, frozen=True, kw_only=True):
    """A resource and how much it counts."""

    name: Annotated[NonEmpty, doc("Name of the resource, as in requests.")]
    weight: Annotated[int, doc("How much the resource counts beside the others.", ge=1, le=100)] = 1


class UtilizationShapePoint(Section, frozen=True, kw_only=True):
    """A point of a scoring function."""

    utilization: Annotated[int, doc("Requested share of the resource in percent, the pod included.", ge=0, le=100)]
    score: Annotated[int, doc("The score of a node at that point.", ge=0, le=10)]


class RequestedToCapacityRatioParam(Section, frozen=True, kw_only=True):
    """The scoring function of RequestedToCapacityRatio."""

    shape: Annotated[
        tuple[UtilizationShapePoint, ...],
        doc("Points of the scoring function, by rising utilization; it is straight between them and level beyond."),
    ] = ()


_CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class ScoringStrategy(Section, frozen=True, kw_only=True):
    """How NodeResourcesFit ranks nodes."""

    type: Annotated[
        Literal["PackExtendedResources", "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"],
        doc(
            """PackExtendedResources packs pods that ask for an extended resource on it, tightest fit first, and spreads
            all others as LeastAllocated does. LeastAllocated spreads pods over nodes (kube-scheduler's default),
            MostAllocated packs them so that whole nodes stay free, RequestedToCapacityRatio scores by the function in
            requestedToCapacityRatio."""
        ),
    ] = "PackExtendedResources"
    resources: Annotated[
        tuple[ResourceSpec, ...],
        doc("The resources that count. Extended resources count for pods that request them."),
    ] = _CPU_AND_MEMORY
    requested_to_capacity_ratio: Annotated[
        RequestedToCapacityRatioParam, doc("The scoring function, for type RequestedToCapacityRatio only.")
    ] = RequestedToCapacityRatioParam()


class NodeResourcesFitArgs(PluginArguments, frozen=True, kw_only=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: Annotated[
        tuple[NonEmpty, ...],
        doc("Extended resources that the filter does not look at, because something else sees to them."),
    ] = ()
    ignored_resource_groups: Annotated[
        tuple[NonEmpty, ...],
        doc("Groups of extended resources that the filter does not look at: example.com stands for example.com/*."),
    ] = ()
    scoring_strategy: Annotated[ScoringStrategy, doc("How nodes with room are ranked.")] = ScoringStrategy()

    def problems(self) -> Problems:
        """See :class:`PluginArguments`."""
        for index, name in enumerate(self.ignored_resources):
            if name in _ALWAYS_CHECKED:
                yield (
                    f"ignoredResources[{index}]",
                    invalid.always_looked_at(name=name),
                )
        for index, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield f"ignoredResourceGroups[{index}]", invalid.no_resource_group(group=group)
        strategy = self.scoring_strategy
        yield from _resources_problems(strategy.resources, "scoringStrategy.resources")
        points = strategy.requested_to_capacity_ratio.shape
        path = "scoringStrategy.requestedToCapacityRatio"
        if strategy.type == "RequestedToCapacityRatio" and not points:
            yield path, invalid.NO_SHAPE
        if strategy.type != "RequestedToCapacityRatio" and points:
            yield path, invalid.shape_of_other_type(type=strategy.type)
        for index in range(1, len(points)):
            if points[index - 1].utilization >= points[index].utilization:
                yield f"{path}.shape[{index}].utilization", invalid.POINTS_NOT_RISING

    def ignores(self, resource: str) -> bool:
        """Return True if the filter leaves this resource out."""
        group, slash, _ = resource.partition("/")
        return resource in self.ignored_resources or (bool(slash) and group in self.ignored_resource_groups)

    @property
    def weights(self) -> tuple[tuple[str, int], ...]:
        """``(resource, weight)`` for the score."""
        return tuple((r.name, r.weight) for r in self.scoring_strategy.resources or _CPU_AND_MEMORY)

    @property
    def shape(self) -> tuple[tuple[int, int], ...]:
        """The points ``(utilization 0..100, score 0..10)`` of RequestedToCapacityRatio, ascending."""
        return tuple((p.utilization, p.score) for p in self.scoring_strategy.requested_to_capacity_ratio.shape)


class NodeResourcesBalancedAllocationArgs(PluginArguments, frozen=True, kw_only=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: Annotated[
        tuple[ResourceSpec, ...], doc("The resources whose use should be in like proportion. The only weight is 1.")
    ] = _CPU_AND_MEMORY

    def problems(self) -> Problems:
        """See :class:`PluginArguments`."""
        yield from _resources_problems(self.resources, "resources")
        for index, resource in enumerate(self.resources):
            if resource.weight != 1:
                yield f"resources[{index}].weight", invalid.must_be(wanted=1, found=resource.weight)

    @property
    def names(self) -> tuple[str, ...]:
        """The resources."""
        return tuple(r.name for r in self.resources or _CPU_AND_MEMORY)


def _resources_problems(resources: Sequence[ResourceSpec], path: str) -> Problems:
    names = [r.name for r in resources]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield f"{path}[{index}].name", invalid.listed_twice(name=name)
        if name == "pods":
            yield f"{path}[{index}].name", invalid.PODS_DO_NOT_RANK


class NodeSelectorRequirement(Section, frozen=True, kw_only=True):
    """A requirement on a label or field of a node."""

    key: Annotated[NonEmpty, doc("The label, or metadata.name in matchFields.")]
    operator: Annotated[Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"], doc("How the value is compared.")]
    values: Annotated[tuple[str, ...], doc("What it is compared with.")] = ()


class NodeSelectorTerm(Section, frozen=True, kw_only=True):
    """Requirements that must all hold."""

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], doc("Requirements on labels.")] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], doc("Requirements on fields: metadata.name.")] = ()

    def read(self, field: str) -> NodeTerm:
        """The term for the core. Raises :class:`FieldError`."""
        return node_term(msgspec.convert(msgspec.to_builtins(self), wire.NodeSelectorTerm), field)


class NodeSelector(Section, frozen=True, kw_only=True):
    """Terms of which one must match."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], doc("Terms of which one must match.", min_length=1)]


class PreferredSchedulingTerm(Section, frozen=True, kw_only=True):
    """A term that should match."""

    weight: Annotated[int, doc("How much the term counts beside those of the pod.", ge=1, le=100)]
    preference: Annotated[NodeSelectorTerm, doc("The term.")]


class AddedAffinity(Section, frozen=True, kw_only=True):
    """Node affinity for all pods."""

    required: Annotated[
        NodeSelector | None, doc("What the nodes of all pods must match beside the pods' own affinity.")
    ] = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Annotated[tuple[PreferredSchedulingTerm, ...], doc("What the nodes of all pods should match.")] = (
        msgspec.field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")
    )


class NodeAffinityArgs(PluginArguments, frozen=True, kw_only=True):
    """Arguments of NodeAffinity."""

    added_affinity: Annotated[AddedAffinity, doc("Node affinity that every pod of the profile gets as well.")] = (
        AddedAffinity()
    )

    def _terms(self) -> Iterator[tuple[int, NodeSelectorTerm, str]]:
        """(weight, term, path); weight 0 for those that are required."""
        added = self.added_affinity
        path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(added.required.node_selector_terms if added.required is not None else ()):
            yield 0, term, f"{path}[{index}]"
        path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        for index, wish in enumerate(added.preferred):
            yield wish.weight, wish.preference, f"{path}[{index}].preference"

    def problems(self) -> Problems:
        """See :class:`PluginArguments`."""
        for _, term, path in self._terms():
            try:
                term.read(path)
            except FieldError as error:
                yield error.field, error.message

    @property
    def required(self) -> tuple[NodeTerm, ...]:
        """The node affinity of every pod of the profile beside its own: one of these terms, if there are any."""
        return tuple(term.read(path) for weight, term, path in self._terms() if not weight)

    @property
    def preferred(self) -> tuple[tuple[int, NodeTerm], ...]:
        """``(weight, term)`` that every pod of the profile prefers beside its own affinity."""
        return tuple((weight, term.read(path)) for weight, term, path in self._terms() if weight)


class InterPodAffinityArgs(PluginArguments, frozen=True, kw_only=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Annotated[
        int, doc("Weight of required affinity of running pods to the pod, in the score.", ge=0, le=100)
    ] = 1
    ignore_preferred_terms_of_existing_pods: Annotated[
        bool, doc("Whether preferred affinity of running pods is left out of the score of pods that have none.")
    ] = False


class DefaultConstraint(Section, frozen=True, kw_only=True):
    """A spread constraint for pods that have none."""

    max_skew: Annotated[int, doc("By how many pods domains may differ.", ge=1, le=2**31 - 1)]
    topology_key: Annotated[NonEmpty, doc("The label of nodes that makes the domains.")]
    when_unsatisfiable: Annotated[
        Literal["DoNotSchedule", "ScheduleAnyway"], doc("Whether the constraint must hold or should.")
    ]
    min_domains: Annotated[
        int, doc("With fewer domains than this the smallest counts as empty; for DoNotSchedule.", ge=1, le=2**31 - 1)
    ] = 1
    node_affinity_policy: Annotated[
        Literal["Honor", "Ignore"], doc("Whether only nodes that the pod's node affinity allows make domains.")
    ] = "Honor"
    node_taints_policy: Annotated[
        Literal["Honor", "Ignore"], doc("Whether only nodes whose taints the pod tolerates make domains.")
    ] = "Ignore"


class PodTopologySpreadArgs(PluginArguments, frozen=True, kw_only=True):
    """Arguments of PodTopologySpread."""

    default_constraints: Annotated[
        tuple[DefaultConstraint, ...],
        doc(
            """Constraints of pods that have none; which pods they count follows from the Services, ReplicaSets and
            StatefulSets of the pod. With defaultingType List only."""
        ),
    ] = ()
    defaulting_type: Annotated[
        Literal["System", "List"],
        doc("System: should spread by 3 over nodes and by 5 over zones. List: as in defaultConstraints."),
    ] = "System"

    def problems(self) -> Problems:
        """See :class:`PluginArguments`."""
        if self.defaulting_type == "System" and self.default_constraints:
            yield "defaultingType", invalid.NOT_A_LIST_OF_CONSTRAINTS
        seen: set[tuple[str, str]] = set()
        for index, rule in enumerate(self.default_constraints):
            path = f"defaultConstraints[{index}]"
            key = (rule.topology_key, rule.when_unsatisfiable)
            if key in seen:
                yield (
                    path,
                    invalid.two_constraints(topology_key=rule.topology_key, when_unsatisfiable=rule.when_unsatisfiable),
                )
            seen.add(key)
            if rule.min_domains > 1 and rule.when_unsatisfiable != "DoNotSchedule":
                yield f"{path}.minDomains", invalid.FOR_DO_NOT_SCHEDULE

    @property
    def defaults(self) -> SpreadDefaults:
        """The constraints of pods that have none."""
        rules = tuple(
            SpreadConstraint(
                topology_key=rule.topology_key,
                max_skew=rule.max_skew,
                selector=None,
                required=rule.when_unsatisfiable == "DoNotSchedule",
                min_domains=rule.min_domains,
                honor_affinity=rule.node_affinity_policy == "Honor",
                honor_taints=rule.node_taints_policy == "Honor",
            )
            for rule in self.default_constraints
        )
        return SpreadDefaults(self.defaulting_type, rules)


#: The plug-ins that have arguments.
ARGUMENTS: dict[str, type[PluginArguments]] = {
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
}
