"""Filters and scores that need no more than the node itself and what is taken of it.

The filters: cordoned, named, tainted, selected, host ports, resources. Rules and texts are those of
https://kubernetes.io/docs/concepts/scheduling-eviction/ (assign-pod-node, taint-and-toleration), and the reasons are
those that kube-scheduler prints.

The scores: soft taints, preferred node affinity, and the pod's images. The formula of the last is that of
kube-scheduler's ImageLocality. The bytes of the images that a node has, each scaled down by the
share of nodes that have it (or all pods would go where the first of them went), between 23 MB and 1000 MB a container.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, isin
from gangsched.core.plugins.base import MAX_SCORE, Failure, NodeFilter, NodeScore, normalised
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import PODS
from gangsched.messages import causes
from gangsched.model.constraints import IN, HostPort, NodeTerm, Requirement, Taint, Toleration
from gangsched.model.quantity import integer

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return True if any toleration covers the taint."""
    return any(_covers(t, taint) for t in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if not toleration.key:
        return False
    if toleration.operator in ("Lt", "Gt"):
        have, bound = integer(taint.value, canonical=True), integer(toleration.value, canonical=True)
        if have is None or bound is None:
            return False
        return have < bound if toleration.operator == "Lt" else have > bound
    return toleration.value == taint.value


class NodeUnschedulable(NodeFilter):
    """A cordoned node takes only pods that tolerate the cordon."""

    name = "NodeUnschedulable"
    text = causes.NODE_UNSCHEDULABLE

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return not tolerates(pod.shape.tolerations, _UNSCHEDULABLE)

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return ~sim.snapshot.columns.flag("unschedulable")


class NodeGoing(NodeFilter):
    """A node object with a deletionTimestamp takes no new pods, nor does one whose newest state is not known."""

    name = "NodeGoing"
    text = causes.NODE_LEAVES_OR_UNREADABLE

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        columns = sim.snapshot.columns
        return bool(columns.flag("deleting").any() or columns.flag("outdated").any())

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return ~(sim.snapshot.columns.flag("deleting") | sim.snapshot.columns.flag("outdated"))


class NodeName(NodeFilter):
    """A pod (template) that names its node goes there or nowhere."""

    name = "NodeName"
    text = causes.NODE_NAME

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.node_name)

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        mask = np.zeros(sim.snapshot.size, dtype=np.bool_)
        row = sim.snapshot.row_of.get(pod.shape.node_name)
        if row is not None:
            mask[row] = True
        return mask


class NodeDeclaredFeatures(NodeFilter):
    """The features that a pod needs must be among those that the node declares."""

    name = "NodeDeclaredFeatures"
    text = causes.NODE_FEATURES

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.node_features)

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        needed = set(pod.shape.node_features)
        return np.array([needed.issubset(n.features) for n in sim.snapshot.nodes], dtype=np.bool_)


class TaintToleration(NodeFilter):
    """Every NoSchedule and NoExecute taint of the node must be tolerated."""

    name = "TaintToleration"
    text = causes.TAINTS

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        codes, sets = sim.snapshot.columns.taints()
        passes = np.array(
            [
                all(t.effect == "PreferNoSchedule" or tolerates(pod.shape.tolerations, t) for t in taints)
                for taints in sets
            ],
            dtype=np.bool_,
        )
        return np.asarray(passes[codes]) if len(sets) else np.ones(len(codes), dtype=np.bool_)


class NodeAffinityNames(NodeFilter):
    """Node affinity all of whose terms name nodes, as DaemonSet pods have it, narrows the choice before anything else
    is asked, and has another message.
    """

    name = "NodeAffinityNames"
    text = causes.CONFIGURED_AFFINITY

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.node_terms) and all(_named(term) is not None for term in pod.shape.node_terms or ())

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        mask = np.zeros(sim.snapshot.size, dtype=np.bool_)
        rows = sim.snapshot.row_of
        mask[[rows[n] for term in pod.shape.node_terms or () for n in _named(term) or () if n in rows]] = True
        return mask


def _named(term: NodeTerm) -> set[str] | None:
    """The node names that a term is limited to; None when it is not."""
    named = [set(req.values) for req in term.fields if req.key == "metadata.name" and req.operator == IN]
    return set.intersection(*named) if named else None


class NodeAffinity(NodeFilter):
    """nodeSelector and required node affinity: all of the one, any term of the other."""

    name = "NodeAffinity"
    text = causes.NODE_AFFINITY

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.node_selector) or pod.shape.node_terms is not None

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        columns = sim.snapshot.columns
        mask = np.ones(sim.snapshot.size, dtype=np.bool_)
        for key, value in pod.shape.node_selector:
            mask &= columns.requirement(Requirement(key, "In", (value,)))
        if pod.shape.node_terms is not None:
            chosen = np.zeros_like(mask)
            for term in pod.shape.node_terms:
                chosen |= columns.term(term)
            mask &= chosen
        return mask


class AddedNodeAffinity(NodeFilter):
    """Any of the terms of ``addedAffinity`` must match, beside what the pod itself asks for."""

    name = "NodeAffinity"
    text = causes.ADDED_AFFINITY

    def __init__(self, terms: tuple[NodeTerm, ...]) -> None:
        self._terms = terms

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        mask = np.zeros(sim.snapshot.size, dtype=np.bool_)
        for term in self._terms:
            mask |= sim.snapshot.columns.term(term)
        return mask


_ANY = "0.0.0.0"  # noqa: S104 - the API's word for "every address", nothing is bound here


def clash(a: tuple[HostPort, ...], b: tuple[HostPort, ...]) -> bool:
    """Return True if two pods with these ports cannot share a node."""
    return any(
        x.port == y.port and x.protocol == y.protocol and (x.ip == y.ip or _ANY in (x.ip, y.ip)) for x in a for y in b
    )


class _PortsState:
    def __init__(self, ports: tuple[HostPort, ...], size: int) -> None:
        self.ports = ports
        self.clashes: Ints = np.zeros(size, dtype=np.int64)


class NodePorts:
    """Nodes on which no pod holds a conflicting port."""

    name = "NodePorts"
    text = causes.PORTS
    sees_pods = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.host_ports)

    def prepare(self, pod: PodClass, sim: Simulation) -> _PortsState:
        snapshot, table = sim.snapshot, sim.snapshot.table
        state = _PortsState(pod.shape.host_ports, snapshot.size)
        clashing = np.zeros(len(snapshot.shapes), dtype=np.bool_)
        for number in snapshot.port_shapes:
            clashing[number] = clash(state.ports, snapshot.shapes[number].host_ports)
        if clashing.any():
            slots = table.occupied()
            slots = slots[clashing[table.shape[slots]]]
            slots = slots[~isin(slots, sim.lifted())]
            state.clashes += np.bincount(table.row[slots], minlength=snapshot.size)
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def mask(self, state: _PortsState) -> Bools:
        return np.asarray(state.clashes == 0)

    def failures(self, state: _PortsState) -> list[Failure]:
        return [Failure(self.text, state.clashes > 0, resolvable=True)]

    def apply(self, state: _PortsState, pod: PodClass, row: int, sign: int) -> None:
        if pod.shape.host_ports and clash(state.ports, pod.shape.host_ports):
            state.clashes[row] += sign


class _RoomState:
    def __init__(self, sim: Simulation, index: Ints, amounts: Floats) -> None:
        self.sim = sim
        self.index = index
        self.amounts = amounts


class NodeResourcesFit:
    """Free room for every requested resource.

    The state keeps no copy: the simulation's free matrix is the state, so placing pods needs no ``apply``.
    """

    name = "NodeResourcesFit"
    sees_pods = True
    told = False

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> _RoomState:
        index, amounts = sim.snapshot.vector(pod.shape)
        return _RoomState(sim, index, amounts)

    def mask(self, state: _RoomState) -> Bools:
        free = state.sim.free
        mask: Bools = np.asarray(free[state.index[0]] >= state.amounts[0])
        for i in range(1, len(state.index)):
            mask &= free[state.index[i]] >= state.amounts[i]
        return mask

    def failures(self, state: _RoomState) -> list[Failure]:
        """``Insufficient <resource>`` per resource; cured by eviction only where the node is large enough."""
        out = []
        snapshot = state.sim.snapshot
        for i, amount in zip(state.index.tolist(), state.amounts.tolist(), strict=True):
            short = state.sim.free[i] < amount
            if not short.any():
                continue
            text = causes.TOO_MANY_PODS if i == PODS else f"Insufficient {snapshot.resources[i]}"
            possible = snapshot.allocatable[i] >= amount
            out.append(Failure(text, short & possible, resolvable=True))
            out.append(Failure(text, short & ~possible, resolvable=False))
        return out

    def apply(self, state: _RoomState, pod: PodClass, row: int, sign: int) -> None:
        """Nothing to do: the free matrix is shared."""


class TaintTolerationScore(NodeScore):
    """Fewer untolerated PreferNoSchedule taints are better."""

    name = "TaintToleration"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        _, sets = sim.snapshot.columns.taints()
        return any(t.effect == "PreferNoSchedule" for taints in sets for t in taints)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        codes, sets = sim.snapshot.columns.taints()
        counts = np.array(
            [
                sum(1 for t in taints if t.effect == "PreferNoSchedule" and not tolerates(pod.shape.tolerations, t))
                for taints in sets
            ],
            dtype=np.float64,
        )
        return normalised(counts[codes], feasible, reverse=True)


class NodeAffinityScore(NodeScore):
    """More weight of matching preferred terms is better: the pod's own, and those ``added`` to all pods."""

    name = "NodeAffinity"

    def __init__(self, added: tuple[tuple[int, NodeTerm], ...] = ()) -> None:
        self._added = added

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.preferred_node_terms or self._added)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        raw = np.zeros(sim.snapshot.size)
        for weight, term in (*pod.shape.preferred_node_terms, *self._added):
            raw += weight * sim.snapshot.columns.term(term)
        return normalised(raw, feasible, reverse=False)


_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST_PER_CONTAINER = 1000 * _MB
_CACHE_LIMIT = 1024


class ImageLocality(NodeScore):
    """More bytes of the pod's images on the node already are better."""

    name = "ImageLocality"

    def __init__(self) -> None:
        # By shape, which is kept beside the answer so that its id cannot become another's.
        self._known: dict[int, tuple[int, Any, Floats]] = {}

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        names = (*pod.shape.images, *pod.shape.image_volumes)
        return bool(pod.shape.images) and any(name in sim.snapshot.images for name in names)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        generation = sim.snapshot.static_generation
        found = self._known.get(id(pod.shape))
        if found is None or found[0] != generation or len(found[2]) != sim.snapshot.size:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            found = self._known[id(pod.shape)] = (generation, pod.shape, self._scores(pod, sim))
        return found[2]

    def _scores(self, pod: PodClass, sim: Simulation) -> Floats:
        size = sim.snapshot.size
        bytes_there = np.zeros(size)
        for name in (*pod.shape.images, *pod.shape.image_volumes):
            image = sim.snapshot.images.get(name)
            if image is not None:
                rows, sizes = image.rows(sim.snapshot.node_ids)
                bytes_there[rows] += np.floor(sizes * (len(rows) / size))
        most = _MOST_PER_CONTAINER * len(pod.shape.images)
        part = np.clip(bytes_there, _LEAST, most) - _LEAST
        return np.asarray(np.floor(MAX_SCORE * part / (most - _LEAST)))
