"""Grove's PodGangs (``scheduler.grove.io/v1alpha1``): gangs whose parts have minimums and topologies of their own.

Pods name their PodGang in a label, and their PodClique in another, which is a group of the PodGang. Grove's operator
makes the pods with a scheduling gate. It removes the gate when the PodGang lists the pod, and that of a scaled PodGang
when its base PodGang has been placed. A backend of Grove for another gang API writes groups of that API, which count
instead. Sources: ``scheduler/api/core/v1alpha1/podgang.go``, ``operator/api/common/labels.go`` and
``operator/internal/controller/podcliqueset/components/podgang`` of ai-dynamo/grove.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from gangsched.messages import invalid
from gangsched.model import conditions, wire
from gangsched.model.dialects.dialect import EVICTED, CommonStatus, CurrentObject, Dialect, evicted, scheduled
from gangsched.model.dialects.objects import PriorityClassName, described, members, named_in, shown
from gangsched.model.errors import FieldError
from gangsched.model.fields import Documented, ignored, in_status, used
from gangsched.model.parts import as_roles, fewest
from gangsched.model.records import Gang, Part, Pod

FAMILY = "scheduler.grove.io"
KIND, PLURAL = "PodGang", "podgangs"
LABEL, CLIQUE = "grove.io/podgang", "grove.io/podclique"
_CONDITION = "Scheduled"
_PHASES = {"Scheduled": "Starting", "Running": "Running", "Finished": "Running"}


class PackConstraint(wire.Wire):
    """Keys of node labels."""

    required: Annotated[str | None, used("one domain of this node label ([topology.md](../topology.md))")] = None
    preferred: Annotated[str | None, used("within it rather one domain of this node label")] = None


class TopologyConstraint(wire.Wire):
    """Where the pods of a PodGang, or of a part of it, are to be."""

    pack_constraint: PackConstraint | None = None


_Topology = Annotated[TopologyConstraint | None, used("as `topologyConstraint` of the PodGang, for these pods")]


class PodGroup(wire.Wire):
    """The pods of a PodClique."""

    name: Annotated[str, used("its pods have this name in their label `grove.io/podclique`")] = ""
    min_replicas: Annotated[int, used("so many pods of it start together; the others join where there is room")] = 0
    topology_constraint: _Topology = None
    pod_references: Annotated[Any, ignored("pods say in which PodGang they are")] = None


class GroupConfig(wire.Wire):
    """The topology of some groups together."""

    name: Annotated[str, used("how messages call it")] = ""
    pod_group_names: Annotated[list[str] | None, used("each group is in one at most")] = None
    topology_constraint: _Topology = None


class PodGangSpec(wire.Wire):
    """The spec of a PodGang."""

    podgroups: list[PodGroup] | None = None
    topology_constraint: TopologyConstraint | None = None
    topology_constraint_group_configs: list[GroupConfig] | None = None
    priority_class_name: PriorityClassName = ""
    reuse_reservation_ref: Annotated[Any, ignored("a hint: places of another PodGang are not preferred")] = None


class PodGang(wire.Object):
    """One PodGang."""

    spec: PodGangSpec = msgspec.field(default_factory=PodGangSpec)


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """Return the PodGang of a pod and the field that names it."""
    return named_in(meta, ("labels", LABEL))


def role(pod: Pod, _gang: Gang) -> str:
    """Return the group of a member."""
    return pod.labels.get(CLIQUE, "")


def gang_from_object(obj: PodGang) -> Gang:
    """One PodGang. All groups are required, each with its minimum. Raises :class:`FieldError`."""
    spec = obj.spec
    tree = _tree(spec)
    roles = as_roles(tree)
    return described(
        FAMILY,
        obj,
        None,
        kind=KIND,
        min_member=max(1, members(fewest(tree), "spec.podgroups")),
        roles=tuple((name, count) for name, count in roles or () if count),
        parts=tree if roles is None else None,
        topology=_levels(spec.topology_constraint),
        priority_class=spec.priority_class_name,
    )


def _tree(spec: PodGangSpec) -> Part:
    """Return the parts: the groups, those of a common topology together."""
    groups: dict[str, Part] = {}
    for number, each in enumerate(spec.podgroups or ()):
        field = f"spec.podgroups[{number}]"
        if not each.name or each.name in groups:
            raise FieldError(f"{field}.name", invalid.subgroup_twice(name=shown(each.name)))
        count = members(each.min_replicas, f"{field}.minReplicas")
        groups[each.name] = Part(each.name, count, topology=_levels(each.topology_constraint))
    if not groups:
        raise FieldError("spec.podgroups", invalid.NO_POD_GROUPS)
    together = []
    for number, config in enumerate(spec.topology_constraint_group_configs or ()):
        field, inside = f"spec.topologyConstraintGroupConfigs[{number}].podGroupNames", []
        for name in config.pod_group_names or ():
            if name not in groups:
                raise FieldError(field, invalid.no_group_of_its_own(name=shown(name)))
            inside.append(groups.pop(name))
        levels = _levels(config.topology_constraint)
        together.append(Part(config.name, least=len(inside), parts=tuple(inside), topology=levels))
    parts = (*together, *groups.values())
    return Part(least=len(parts), parts=parts)


def _levels(asked: TopologyConstraint | None) -> tuple[tuple[str, bool], ...]:
    """Return the required level and, within it, the preferred one."""
    pack = asked.pack_constraint if asked is not None else None
    if pack is None:
        return ()
    levels = {pack.required: True}
    levels.setdefault(pack.preferred, False)
    return tuple((key, required) for key, required in levels.items() if key)


def status(told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
    """Return the phase and the condition that a scheduler writes; the operator's condition ``Initialized`` stays."""
    phase = "Starting" if told["scheduled"] and not told["succeeded"] else "Pending"
    ours = [*scheduled(told, _CONDITION), *evicted(told)]
    listed = conditions.with_these(conditions.conditions_in(seen.status), ours, seen.generation, seen.now)
    return {"phase": _PHASES.get(told["phase"], phase), "conditions": listed}


DIALECT = Dialect(
    FAMILY,
    group_of,
    ("v1alpha1",),
    PodGang,
    gang_from_object=gang_from_object,
    kind=KIND,
    plural=PLURAL,
    role_of=role,
    status=status,
    documented=(
        Documented(
            f"PodGang `{FAMILY}/v1alpha1`",
            PodGangSpec,
            in_status(
                phase="`Starting` when a member is bound, `Running` when the minimum runs, else `Pending`",
                conditions=f"`{_CONDITION}`: the minimum of each group is bound, or why not; `{EVICTED}` "
                "([events.md](events.md))",
                placementScore="left alone",
            ),
        ),
        Documented(
            "on pods of Grove",
            None,
            {
                f"label `{LABEL}`": "the PodGang that the pod is a member of, which must exist. If a backend of Grove "
                "has put the pod into a group of another API, that group counts",
                f"label `{CLIQUE}`": "its group",
                "gate `grove.io/podgang-pending-creation`": "as any scheduling gate: the pod waits for Grove's "
                "operator. The operator keeps it on pods of a scaled PodGang until the base PodGang is placed",
            },
        ),
    ),
)
