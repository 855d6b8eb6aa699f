"""Stand-ins for the members that a gang announces and that do not exist yet.

Where their shape is known there is one for each. Of a sum of resources without shapes (``minResources``) each resource
is divided into parts for itself, on nodes that the first member admits: a sum says neither how many members there will
be nor which of its resources belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from gangsched.model.constraints import NO_LABELS, Labels, PodShape
from gangsched.model.dialects import role_of
from gangsched.model.records import Announced, Gang, GangId, Pod
from gangsched.model.shapes import total

#: A resource of a sum is divided into at most so many parts, each of these base units or of a power of two of them:
#: where nodes have room for whole cores and gigabytes, parts fill them without a rest.
MOST_PARTS = 24
_LEAST = {"cpu": 125, "memory": 64 << 20, "ephemeral-storage": 64 << 20}


def stand_ins(spec: Gang, gang: GangId, there: Sequence[Pod], *, kinds: bool = False) -> list[Pod]:
    """Return the announced members that are not among those ``there``, which count as the first of them. With ``kinds``
    there is one of each kind only.
    """
    most = 1 if kinds else None
    like = there[0]
    known = Counter(role_of(pod, spec) for pod in there)
    shapes: list[tuple[str, PodShape, Labels]] = []
    for each in spec.announced:
        same = next((pod for pod in there if role_of(pod, spec) == each.role), None)
        if same is None and each.alike:
            continue
        beside = (same or like) if each.within or each.alike else None
        shape, labels = _beside(each, beside) if beside is not None else (each.shape, NO_LABELS)
        shapes += [(f"{each.role}-{n}", shape, labels) for n in range(known[each.role], each.count)[:most]]
    taken = total(pod.shape.requests for pod in there) if spec.min_resources else {}
    for resource, units in spec.min_resources:
        for n, part in enumerate(islice(_parts(resource, units - taken.get(resource, 0)), most)):
            shapes.append((f"{resource}-{n}", _part_shape(like.shape, resource, part), NO_LABELS))
    return [
        Pod(
            gang.namespace,
            f"{gang.name}-{name}",
            f"{gang.family}/{gang.key}/{name}",
            shape,
            gang,
            gang.scheduler,
            labels,
            priority=like.priority,
            preemption_policy=like.preemption_policy,
            created=like.created,
        )
        for name, shape, labels in shapes
    ]


def _beside(announced: Announced, other: Pod) -> tuple[PodShape, Labels]:
    """What an announced member asks of a node, and its labels: with the terms and labels of the member beside it that
    choose the domain in which both will be.
    """
    if announced.alike:
        return other.shape, other.labels
    own, key = announced.shape, announced.within
    shape = msgspec.structs.replace(
        own,
        affinity=(*own.affinity, *(term for term in other.shape.affinity if term.topology_key == key)),
        anti_affinity=(*own.anti_affinity, *(t for t in other.shape.anti_affinity if t.topology_key == key)),
    )
    return shape, other.labels


def most_of(spec: Gang) -> int:
    """How many stand-ins there are at most."""
    return sum(each.count for each in spec.announced) + MOST_PARTS * len(spec.min_resources)


def what_of(stand_in: Pod) -> str:
    """The role of a stand-in, or of what resource it is a part."""
    return stand_in.name[len(stand_in.gang.name) + 1 :].rpartition("-")[0]


def _parts(resource: str, units: int) -> Iterator[int]:
    size = _LEAST.get(resource, 1)
    while size * MOST_PARTS < units:
        size *= 2
    while units > 0:
        yield min(size, units)
        units -= size


def _part_shape(of: PodShape, resource: str, units: int) -> PodShape:
    """A part of a resource on nodes that this shape admits."""
    return PodShape(
        requests=((resource, units),),
        scored=tuple((name, units if name == resource else 0) for name in ("cpu", "memory")),
        node_selector=of.node_selector,
        node_terms=of.node_terms,
        tolerations=of.tolerations,
        is_part=True,
    )
