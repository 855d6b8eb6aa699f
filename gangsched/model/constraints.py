"""Requests of a pod: resources, allowed nodes, affinity to other pods, ports and volumes.

The other records are made of these and have their base (:mod:`gangsched.model.records`).

All resource amounts are integers in base units (milli-cores, bytes, devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

Labels: TypeAlias = Mapping[str, str]
NO_LABELS: Labels = {}

#: The label that the API server gives every namespace: its name.
NAMESPACE_NAME = "kubernetes.io/metadata.name"

#: Label selector operators, as the API spells them.
IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of the immutable records."""


class Named(Record, frozen=True):
    """Base of records of objects that are in a namespace."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Requirement(Record, frozen=True):
    """``key operator values`` of a label or field selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True):
    """A conjunction of requirements; no requirement selects everything."""

    requirements: tuple[Requirement, ...] = ()


class NodeTerm(Record, frozen=True):
    """One term of a node selector: both lists must hold; a term with neither matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PodTerm(Record, frozen=True):
    """One inter-pod (anti-)affinity term, with its namespaces resolved to the pod's own where none are named."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class SpreadConstraint(Record, frozen=True):
    """One topology spread constraint."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    required: bool
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


class Toleration(Record, frozen=True):
    """A toleration; an empty key with Exists tolerates every taint, an empty effect every effect.

    ``seconds`` is how long a pod that runs is left on a node with the taint; None: for ever.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class Directives(Record, frozen=True):
    """Fields that a flavor adds to the pod template of a running Job; falsy for none."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.node_selector or self.tolerations)


NO_DIRECTIVES = Directives()


class Taint(Record, frozen=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class HostPort(Record, frozen=True):
    """A port wanted on the node; ip ``0.0.0.0`` conflicts with the same port on every address."""

    ip: str
    protocol: str
    port: int


class Disk(Record, frozen=True):
    """A disk that a pod names in its own spec: ``kind`` is the field of the volume, ``ident`` what identifies the disk.

    ``monitors`` are those of a Ceph cluster: two disks of the kind ``rbd`` can be the same if they share one.
    """

    kind: str
    ident: tuple[str, ...]
    read_only: bool = False
    monitors: tuple[str, ...] = ()


class PodVolumes(Record, frozen=True):
    """Requirements of a pod's volumes. They are not part of the shape, since they differ from pod to pod.

    ``claims`` are names of PersistentVolumeClaims in the pod's namespace, including those of generic ephemeral volumes
    (``<pod>-<volume>``). The latter are also in ``owned``: they must belong to the pod.
    """

    claims: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()


class PodClaim(Record, frozen=True):
    """A ResourceClaim that a pod uses: its name, and that of the template that it is made from, if there is one. The
    name is empty until the claim is made. ``entry`` is the name in the pod's spec.
    """

    entry: str
    claim: str = ""
    template: str = ""


class PodDevices(Record, frozen=True):
    """The ResourceClaims of a pod. They are not part of the shape, since they differ from pod to pod.

    ``extended`` is the name of the claim for its extended resources, if it has one. ``planned``: the pod does not exist
    yet, and claims that are not made yet count as made.
    """

    claims: tuple[PodClaim, ...] = ()
    extended: str = ""
    planned: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its claims, as far as they are known, each once."""
        found = (*(each.claim for each in self.claims), self.extended)
        return tuple(dict.fromkeys(name for name in found if name))


class PodShape(Record, frozen=True):
    """All that filters and scores read of a pod's spec. Interned: equal shapes are the same object.

    ``requests`` are the effective requests (see :mod:`gangsched.model.shapes`) without the pod slot itself;
    ``scored`` are cpu and memory with the defaults that scoring assumes for pods that ask for nothing.
    ``node_terms`` is None for "no required node affinity"; an empty tuple matches no node. ``images`` has one entry for
    each container, its name as nodes report it; ``image_volumes`` are the images that volumes show. ``is_part``: it is
    a part of what members request that are only known by a sum, and so no pod. ``within`` are node labels of the domain
    that its part of a gang has, while the gang is decided.
    """

    requests: tuple[tuple[str, int], ...] = ()
    scored: tuple[tuple[str, int], ...] = ()
    node_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    preferred_node_terms: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[tuple[int, PodTerm], ...] = ()
    preferred_anti_affinity: tuple[tuple[int, PodTerm], ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    image_volumes: tuple[str, ...] = ()
    node_features: tuple[str, ...] = ()
    is_part: bool = False
    within: tuple[tuple[str, str], ...] = ()
