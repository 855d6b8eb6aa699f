"""PodCliqueSets of Grove before they are submitted: the PodGangs and pods that Grove's operator makes of them.

Each replica of a set has one base PodGang: its cliques, and of each scaling group the replicas that must be available.
The pods of further replicas are gated until the base PodGang is placed. Source:
``operator/internal/controller/podcliqueset/components/podgang/syncflow.go`` of ai-dynamo/grove.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects import grove
from gangsched.model.dialects.objects import shown
from gangsched.model.dialects.roles import count
from gangsched.model.errors import FieldError

GROUP, KIND = "grove.io", "PodCliqueSet"
_SET_INDEX = "grove.io/podcliqueset-replica-index"
_TEMPLATE = "spec.template"


class Pack(wire.Wire):
    """Names of domains."""

    required: str | None = None
    preferred: str | None = None


class Topology(wire.Wire):
    """A constraint; ``pack_domain`` is an earlier name of ``pack.required``."""

    topology_name: str = ""
    pack: Pack | None = None
    pack_domain: str = ""


class CliqueSpec(wire.Wire):
    """How many pods a clique has, and what they are."""

    replicas: int = 1
    min_available: int | None = None
    pod_spec: wire.PodSpec = msgspec.field(default_factory=wire.PodSpec)


class Clique(wire.Wire):
    """Pods of one template."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    topology_constraint: Topology | None = None
    spec: CliqueSpec = msgspec.field(default_factory=CliqueSpec)


class ScalingGroup(wire.Wire):
    """Cliques that are repeated together."""

    name: str = ""
    clique_names: list[str] | None = None
    replicas: int = 1
    min_available: int | None = None
    topology_constraint: Topology | None = None


class Template(wire.Wire):
    """What each replica of a set is."""

    cliques: list[Clique] | None = None
    pod_clique_scaling_groups: list[ScalingGroup] | None = None
    topology_constraint: Topology | None = None
    priority_class_name: str = ""


class PodCliqueSetSpec(wire.Wire):
    """The spec of a PodCliqueSet."""

    replicas: int = 1
    template: Template = msgspec.field(default_factory=Template)


class PodCliqueSet(wire.Object):
    """``grove.io/v1alpha1`` PodCliqueSet."""

    spec: PodCliqueSetSpec = msgspec.field(default_factory=PodCliqueSetSpec)


class Level(wire.Wire):
    """A name of domains, and the node label that they have."""

    domain: str = ""
    key: str = ""


class BindingSpec(wire.Wire):
    """The levels of a topology."""

    levels: list[Level] | None = None


class TopologyBinding(wire.Object):
    """``grove.io/v1alpha1`` ClusterTopologyBinding, or ClusterTopology as it was called."""

    spec: BindingSpec = msgspec.field(default_factory=BindingSpec)


#: Bindings by name.
Bindings: TypeAlias = Mapping[str, TopologyBinding]


def gangs_of(raw: PodCliqueSet, api_version: str, bindings: Bindings) -> Iterator[tuple[grove.PodGang | wire.Pod, str]]:
    """Yield the base PodGang of each replica with its pods, and the field of their template. Raises
    :class:`FieldError`.
    """
    template, meta = raw.spec.template, raw.metadata
    cliques = {each.name: (number, each) for number, each in enumerate(template.cliques or ())}
    in_groups = {name for each in template.pod_clique_scaling_groups or () for name in each.clique_names or ()}
    alone = [name for name in cliques if name not in in_groups]
    for replica in range(count(raw.spec.replicas, "spec.replicas")):
        base = f"{meta.name}-{replica}"
        named = [(f"{base}-{name}", *cliques[name]) for name in alone]
        configs = []
        for number, group in enumerate(template.pod_clique_scaling_groups or ()):
            path = f"{_TEMPLATE}.podCliqueScalingGroups[{number}]"
            levels = _keys(group.topology_constraint, bindings, f"{path}.topologyConstraint")
            for each in range(min(group.replicas, _least(group, path))):
                together = []
                for name in group.clique_names or ():
                    if name not in cliques:
                        raise FieldError(f"{path}.cliqueNames", invalid.no_clique(name=shown(name)))
                    together.append((f"{base}-{group.name}-{each}-{name}", *cliques[name]))
                named += together
                names = [full_name for full_name, _, _ in together]
                if levels is not None:
                    configs.append(grove.GroupConfig(f"{base}-{group.name}-{each}", names, levels))
        listed = [_group(*each, bindings) for each in named]
        spec = grove.PodGangSpec(
            listed,
            _keys(template.topology_constraint, bindings, f"{_TEMPLATE}.topologyConstraint"),
            configs or None,
            template.priority_class_name,
        )
        owner = wire.OwnerReference(api_version, KIND, meta.name, meta.uid, controller=True)
        own = wire.ObjectMeta(
            name=base,
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            annotations=meta.annotations,
            owner_references=[owner],
        )
        yield grove.PodGang(own, spec), _TEMPLATE
        for full_name, number, clique in named:
            labels = {grove.LABEL: base, grove.CLIQUE: full_name, _SET_INDEX: str(replica)}
            for index in range(clique.spec.replicas):
                pod = msgspec.structs.replace(
                    own,
                    name=f"{full_name}-{index}",
                    labels={**(clique.labels or {}), **labels},
                    annotations=clique.annotations,
                )
                yield wire.Pod(pod, _with_class(clique.spec.pod_spec, template)), f"{_TEMPLATE}.cliques[{number}].spec"


def later_replicas(raw: PodCliqueSet) -> int:
    """Return how many replicas of scaling groups wait for their base PodGang. Raises :class:`FieldError`."""
    groups = enumerate(raw.spec.template.pod_clique_scaling_groups or ())
    of_each = (max(0, g.replicas - _least(g, f"{_TEMPLATE}.podCliqueScalingGroups[{n}]")) for n, g in groups)
    return raw.spec.replicas * sum(of_each)


def _least(group: ScalingGroup, path: str) -> int:
    """Return how many replicas of a scaling group are in the base PodGang."""
    count(group.replicas, f"{path}.replicas")
    return 1 if group.min_available is None else count(group.min_available, f"{path}.minAvailable")


def _group(name: str, number: int, clique: Clique, bindings: Bindings) -> grove.PodGroup:
    path = f"{_TEMPLATE}.cliques[{number}]"
    replicas = count(clique.spec.replicas, f"{path}.spec.replicas")
    least = clique.spec.min_available
    least = replicas if least is None else count(least, f"{path}.spec.minAvailable")
    levels = _keys(clique.topology_constraint, bindings, f"{path}.topologyConstraint")
    return grove.PodGroup(name, least, levels)


def _with_class(spec: wire.PodSpec, template: Template) -> wire.PodSpec:
    """Return the spec of a pod with the class of its set."""
    named = spec.priority_class_name or template.priority_class_name
    return msgspec.structs.replace(spec, priority_class_name=named)


def _keys(asked: Topology | None, bindings: Bindings, field: str) -> grove.TopologyConstraint | None:
    """Return a constraint by node labels. Raises :class:`FieldError` if no binding has the domains."""
    if asked is None:
        return None
    pack = asked.pack or Pack()
    named = [asked.topology_name] if asked.topology_name else sorted(bindings)
    keys = {level.domain: level.key for name in named if name in bindings for level in bindings[name].spec.levels or ()}
    wanted = [pack.required or asked.pack_domain or None, pack.preferred]
    for each in wanted:
        if each is not None and each not in keys:
            raise FieldError(field, invalid.no_domain_of_grove(domain=shown(each)))
    required, preferred = (keys[each] if each is not None else None for each in wanted)
    return grove.TopologyConstraint(grove.PackConstraint(required, preferred))
