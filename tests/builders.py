"""Records in one line: ``pod("a").cpu(2).priority(5).on("n1").gang("g").obj()``, and a cluster that answers the core.

Builders change themselves and return themselves; ``obj()`` gives the record. Parts are interned as the decoder does it.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Gathering, Preempt, Unschedulable
from gangsched.core.framework.arguments import NodeAffinityArgs
from gangsched.model import wire
from gangsched.model.constraints import (
    Disk,
    HostPort,
    Labels,
    LabelSelector,
    NodeTerm,
    PodClaim,
    PodDevices,
    PodShape,
    PodVolumes,
    Requirement,
    Taint,
    Toleration,
)
from gangsched.model.dialects import koordinator, membership, remark, upstream
from gangsched.model.records import SINGLE, Budget, Condition, FailureRule, Gang, GangId, Node, Owner, Pod
from gangsched.model.volumes import (
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

OURS = "py-gang-scheduler"
OTHERS = "default-scheduler"
GIB = 1 << 30
#: What a podFailurePolicy may do about evicted pods.
IGNORED = (FailureRule("Ignore", conditions=(("DisruptionTarget", "True"),)),)
FAILING = (FailureRule("FailJob", conditions=(("DisruptionTarget", "True"),)),)
SIGS, UPSTREAM = koordinator.FAMILY, upstream.FAMILY

_shapes: dict[PodShape, PodShape] = {}
_labels: dict[tuple[tuple[str, str], ...], Labels] = {}


def _interned(labels: dict[str, str]) -> Labels:
    return _labels.setdefault(tuple(sorted(labels.items())), labels)


def selects(**labels: str) -> LabelSelector:
    """A selector for all of these labels."""
    return LabelSelector(tuple(Requirement(k, "In", (v,)) for k, v in sorted(labels.items())))


class PodBuilder:
    """A pod of our scheduler in namespace ``d``, pending and asking for nothing, unless told otherwise."""

    def __init__(self, name: str, namespace: str = "d") -> None:
        self._name = name
        self._namespace = namespace
        self._uid = f"uid-{namespace}-{name}"
        self._scheduler = OURS
        self._gang: tuple[str, str] | None = None
        self._labels: dict[str, str] = {}
        self._hints: dict[str, str] = {}
        self._shape: dict[str, Any] = {}
        self._requests: dict[str, int] = {}
        self._fields: dict[str, Any] = {}

    def requests(self, **amounts: int) -> Self:
        """Resources in base units; underscores in names stand for ``-``."""
        self._requests.update({k.replace("_", "-"): v for k, v in amounts.items()})
        return self

    def cpu(self, cores: float) -> Self:
        """Requested cores."""
        return self.requests(cpu=round(cores * 1000))

    def memory(self, gib: float) -> Self:
        """Requested memory in GiB."""
        return self.requests(memory=round(gib * GIB))

    def gpu(self, count: int) -> Self:
        """Requested devices of ``nvidia.com/gpu``."""
        self._requests["nvidia.com/gpu"] = count
        return self

    def priority(self, value: int) -> Self:
        """Numeric priority."""
        return self.field(priority=value)

    def on(self, node: str, started: float = 0.0) -> Self:
        """Bound to a node and running since ``started``."""
        return self.field(node=node, phase="Running", started=started)

    def gang(self, name: str, family: str = SIGS) -> Self:
        """Member of a group that has an object."""
        self._gang = (family, name)
        if family == SIGS:
            self._labels[koordinator.GROUP_LABEL] = name
        return self

    def light_gang(self, name: str, minimum: int | None = None, group: str = "") -> Self:
        """Member of a gang that its members' annotations describe; ``group`` is the JSON list of the GangGroup."""
        self._gang = (SIGS, name)
        self._hints[koordinator.NAME] = name
        if minimum is not None:
            self._hints[koordinator.MIN] = str(minimum)
        if group:
            self._hints[koordinator.GROUPS] = group
        return self

    def scheduler(self, name: str) -> Self:
        """Belongs to this scheduler."""
        self._scheduler = name
        return self

    def label(self, **labels: str) -> Self:
        """Labels."""
        self._labels.update(labels)
        return self

    def labels(self, labels: dict[str, str]) -> Self:
        """Labels whose keys are no identifiers."""
        self._labels.update(labels)
        return self

    def hint(self, key: str, value: str) -> Self:
        """An annotation that some dialect reads."""
        self._hints[key] = value
        return self

    def uid(self, uid: str) -> Self:
        """The incarnation."""
        self._uid = uid
        return self

    def created(self, at: float) -> Self:
        """Creation time in seconds."""
        return self.field(created=at)

    def terminating(self, until: float = 30.0) -> Self:
        """Has a deletionTimestamp."""
        return self.field(deleting_since=until)

    def phase(self, phase: str) -> Self:
        """status.phase."""
        return self.field(phase=phase)

    def never(self) -> Self:
        """preemptionPolicy: Never."""
        return self.field(preemption_policy="Never")

    def gated(self, *gates: str) -> Self:
        """Held by scheduling gates."""
        return self.field(gates=gates or ("wait",))

    def nominated(self, node: str, intent: bool = True) -> Self:
        """Nominated, by us if ``intent``."""
        if intent:
            self.field(intent=Condition("True", "Nominated", "plan x"))
        return self.field(nominated_node=node)

    def owner(self, kind: str, name: str) -> Self:
        """The controller that owns it."""
        return self.field(owner=Owner(kind, name, f"uid-{kind}-{name}"))

    def static(self) -> Self:
        """A static pod."""
        return self.field(static=True)

    def port(self, number: int, ip: str = "0.0.0.0", protocol: str = "TCP") -> Self:
        """A host port."""
        self._shape["host_ports"] = (*self._shape.get("host_ports", ()), HostPort(ip, protocol, number))
        return self

    def selector(self, **labels: str) -> Self:
        """NodeSelector."""
        self._shape["node_selector"] = tuple(sorted(labels.items()))
        return self

    def tolerates(self, key: str = "", operator: str = "Equal", value: str = "", effect: str = "") -> Self:
        """One more toleration."""
        old = self._shape.get("tolerations", ())
        self._shape["tolerations"] = (*old, Toleration(key, operator, value, effect))
        return self

    def requires(self, *terms: NodeTerm) -> Self:
        """Required node affinity: any of the terms."""
        return self.shape(node_terms=terms)

    def prefers(self, weight: int, term: NodeTerm) -> Self:
        """One more preferred node term."""
        old = self._shape.get("preferred_node_terms", ())
        return self.shape(preferred_node_terms=(*old, (weight, term)))

    def claims(self, *names: str, owned: tuple[str, ...] = ()) -> Self:
        """Volumes from claims; those of the ephemeral volumes ``owned`` are named after the pod."""
        own = tuple(f"{self._name}-{volume}" for volume in owned)
        old = self._fields.get("volumes") or PodVolumes()
        return self.field(volumes=PodVolumes((*old.claims, *names, *own), (*old.owned, *own), old.disks))

    def devices(self, *claims: str, templates: tuple[str, ...] = (), extended: str = "") -> Self:
        """ResourceClaims by name; and claims from ``templates``, which are not made yet."""
        old = self._fields.get("devices") or PodDevices()
        made = (*(PodClaim(name, name) for name in claims), *(PodClaim(name, "", name) for name in templates))
        return self.field(devices=PodDevices((*old.claims, *made), extended))

    def disk(self, kind: str, *ident: str, read_only: bool = False, monitors: tuple[str, ...] = ()) -> Self:
        """A disk that is named in the pod itself."""
        old = self._fields.get("volumes") or PodVolumes()
        disks = (*old.disks, Disk(kind, ident, read_only, monitors))
        return self.field(volumes=PodVolumes(old.claims, old.owned, disks))

    def shape(self, **fields: Any) -> Self:
        """Other fields of the shape."""
        self._shape.update(fields)
        return self

    def field(self, **fields: Any) -> Self:
        """Other fields of the record."""
        self._fields.update(fields)
        return self

    def obj(self) -> Pod:
        """The record."""
        scored = (("cpu", self._requests.get("cpu", 100)), ("memory", self._requests.get("memory", 200 << 20)))
        wanted = tuple(sorted((k, v) for k, v in self._requests.items() if v))
        shape = PodShape(requests=wanted, scored=scored, **self._shape)
        family, group = self._gang or (SINGLE, self._name)
        gang = GangId(family, self._namespace, group, self._scheduler)
        fields = dict(self._fields)
        meta = wire.ObjectMeta(self._name, "", self._namespace, labels=self._labels, annotations=self._hints)
        if koordinator.NAME in self._hints:
            gang, fields["mistake"] = membership(meta, wire.PodSpec(scheduler_name=self._scheduler))
        fields["remark"] = remark(gang, meta)
        return Pod(
            namespace=self._namespace,
            name=self._name,
            uid=self._uid,
            shape=_shapes.setdefault(shape, shape),
            gang=gang,
            scheduler=self._scheduler,
            labels=_interned(self._labels),
            hints=_interned(self._hints),
            **fields,
        )


class NodeBuilder:
    """A ready node with 4 cores, 16 GiB and 110 pods unless told otherwise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._room = {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
        self._labels = {"kubernetes.io/hostname": name}
        self._fields: dict[str, Any] = {}

    def cpu(self, cores: float) -> Self:
        """Allocatable cores."""
        return self.room(cpu=round(cores * 1000))

    def memory(self, gib: float) -> Self:
        """Allocatable GiB."""
        return self.room(memory=round(gib * GIB))

    def pods(self, count: int) -> Self:
        """Pod slots."""
        return self.room(pods=count)

    def gpu(self, count: int) -> Self:
        """Devices of ``nvidia.com/gpu``."""
        self._room["nvidia.com/gpu"] = count
        return self

    def room(self, **amounts: int) -> Self:
        """Allocatable amounts in base units."""
        self._room.update({k.replace("_", "-"): v for k, v in amounts.items()})
        return self

    def label(self, **labels: str) -> Self:
        """Labels."""
        self._labels.update(labels)
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """One more taint."""
        self._fields["taints"] = (*self._fields.get("taints", ()), Taint(key, value, effect))
        return self

    def cordoned(self) -> Self:
        """spec.unschedulable."""
        self._fields["unschedulable"] = True
        return self

    def not_ready(self) -> Self:
        """Condition Ready is not True."""
        self._fields["ready"] = False
        return self

    def deleting(self) -> Self:
        """Has a deletionTimestamp."""
        self._fields["deleting"] = True
        return self

    def obj(self) -> Node:
        """The record."""
        return Node(
            self._name,
            uid=f"uid-{self._name}",
            labels=_interned(self._labels),
            allocatable=tuple(sorted(self._room.items())),
            **self._fields,
        )


class GangBuilder:
    """A PodGroup object of the sigs API in namespace ``d`` unless told otherwise."""

    def __init__(self, name: str, namespace: str = "d") -> None:
        self._gang = Gang(SIGS, namespace, name, uid=f"uid-{namespace}-{name}")

    def min(self, members: int) -> Self:
        """MinMember."""
        return self.field(min_member=members)

    def family(self, family: str) -> Self:
        """The API."""
        return self.field(family=family)

    def priority(self, value: int) -> Self:
        """The group's own priority."""
        return self.field(priority=value)

    def mode(self, disruption: str) -> Self:
        """``pod`` or ``gang``."""
        return self.field(disruption=disruption)

    def group(self, *keys: str) -> Self:
        """The GangGroup that it lists."""
        return self.field(group=tuple(sorted(keys)))

    def timeout(self, seconds: float) -> Self:
        """Time from nominated to binding."""
        return self.field(timeout_seconds=seconds)

    def created(self, at: float) -> Self:
        """Creation time in seconds."""
        return self.field(created=at)

    def field(self, **fields: Any) -> Self:
        """Other fields of the record."""
        self._gang = msgspec.structs.replace(self._gang, **fields)
        return self

    def obj(self) -> Gang:
        """The record."""
        return self._gang


class BudgetBuilder:
    """A PodDisruptionBudget in namespace ``d`` that allows nothing unless told otherwise."""

    def __init__(self, name: str, namespace: str = "d") -> None:
        self._budget = Budget(namespace, name, LabelSelector(), allowed=0)

    def selects(self, **labels: str) -> Self:
        """The pods that it protects."""
        return self.field(selector=selects(**labels))

    def allows(self, disruptions: int | None) -> Self:
        """status.disruptionsAllowed; None: no status."""
        return self.field(allowed=disruptions)

    def field(self, **fields: Any) -> Self:
        """Other fields of the record."""
        self._budget = msgspec.structs.replace(self._budget, **fields)
        return self

    def obj(self) -> Budget:
        """The record."""
        return self._budget


def pod(name: str, namespace: str = "d") -> PodBuilder:
    """A pod."""
    return PodBuilder(name, namespace)


def node(name: str) -> NodeBuilder:
    """A node."""
    return NodeBuilder(name)


def gang(name: str, namespace: str = "d") -> GangBuilder:
    """A group object."""
    return GangBuilder(name, namespace)


def pdb(name: str, namespace: str = "d") -> BudgetBuilder:
    """A PodDisruptionBudget."""
    return BudgetBuilder(name, namespace)


LATER = StorageClass("later", waits=True)
MADE = StorageClass("made", provisioner="csi.example.com", waits=True)


def claim(name: str, storage_class: str = "later", gib: int = 1, **fields: Any) -> PersistentVolumeClaim:
    """A ReadWriteOnce claim in namespace ``d`` that is not bound; :data:`LATER` and :data:`MADE` are its classes."""
    given = {"access_modes": ("ReadWriteOnce",), "namespace": "d", "uid": f"uid-claim-{name}", **fields}
    return PersistentVolumeClaim(name=name, storage_class=storage_class, size=gib * GIB, **given)


def bound_claim(name: str, to: str, **fields: Any) -> PersistentVolumeClaim:
    """A claim that is bound to a volume."""
    return claim(name, volume_name=to, bound=True, phase="Bound", **fields)


def volume(name: str, *nodes: str, storage_class: str = "later", gib: int = 1, **fields: Any) -> PersistentVolume:
    """An available ReadWriteOnce volume that these nodes reach (none given: all)."""
    terms = (NodeTerm((Requirement("kubernetes.io/hostname", "In", tuple(sorted(nodes))),)),) if nodes else None
    given = {
        "access_modes": ("ReadWriteOnce",),
        "uid": f"uid-volume-{name}",
        "phase": "Available",
        "node_terms": terms,
        **fields,
    }
    return PersistentVolume(name=name, storage_class=storage_class, size=gib * GIB, **given)


def reserved(name: str, for_claim: str, *nodes: str, **fields: Any) -> PersistentVolume:
    """A volume that is set aside for a claim of namespace ``d``."""
    return volume(name, *nodes, claim=ClaimRef("d", for_claim), phase="Pending", **fields)


def decided(outcome: str, gang: GangId, kind: str = "PodGroup", **fields: Any) -> Decision:
    """A decision about a gang of one required member; ``fields`` are those of its kind."""
    kinds = {each.outcome: each for each in (Fits, FitsWhenFreed, Preempt, Unschedulable, Gathering)}
    return kinds[outcome](**{"gang": gang, "kind": kind, "group": (), "priority": 0, "required": 1, **fields})


def required_affinity(pool: str) -> NodeAffinityArgs:
    """Arguments of NodeAffinity in a profile for the nodes of one pool (label ``pool``)."""
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return msgspec.convert({"addedAffinity": added}, NodeAffinityArgs)
