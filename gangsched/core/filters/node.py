"""Filters that look at the node alone: cordoned, named, tainted, selected.

Rules and texts: https://kubernetes.io/docs/concepts/scheduling-eviction/ (assign-pod-node,
taint-and-toleration) and the reasons that kube-scheduler prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools
from gangsched.core.filters.base import NodeFilter
from gangsched.model.quantity import integer
from gangsched.model.records import IN, NodeTerm, Requirement, Taint, Toleration

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Does any toleration cover the taint?"""
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
    text = "node(s) were unschedulable"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return not tolerates(pod.shape.tolerations, _UNSCHEDULABLE)

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return ~sim.snapshot.columns.flag("unschedulable")


class NodeGoing(NodeFilter):
    """A node object with a deletionTimestamp takes no new pods, nor does one whose newest state is not known."""

    name = "NodeGoing"
    text = "node(s) were being deleted or could not be read"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        columns = sim.snapshot.columns
        return bool(columns.flag("deleting").any() or columns.flag("outdated").any())

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return ~(sim.snapshot.columns.flag("deleting") | sim.snapshot.columns.flag("outdated"))


class NodeName(NodeFilter):
    """A pod (template) that names its node goes there or nowhere."""

    name = "NodeName"
    text = "node(s) didn't match the requested node name"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.node_name)

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        mask = np.zeros(sim.snapshot.size, dtype=np.bool_)
        row = sim.snapshot.row_of.get(pod.shape.node_name)
        if row is not None:
            mask[row] = True
        return mask


class NodeDeclaredFeatures(NodeFilter):
    """What a pod needs of its node beyond resources must be among the features that the node declares."""

    name = "NodeDeclaredFeatures"
    text = "node(s) didn't match Pod's required features"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.node_features)

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        needed = set(pod.shape.node_features)
        return np.array([needed.issubset(n.features) for n in sim.snapshot.nodes], dtype=np.bool_)


class DynamicResources(NodeFilter):
    """Pods with resource claims are not placed at all yet: binding one as if the claim were not there would run it
    without its device.
    """

    name = "DynamicResources"
    text = "node(s) could not be checked for the pod's resource claims, which are not supported yet"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return pod.shape.resource_claims

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return np.zeros(sim.snapshot.size, dtype=np.bool_)


class TaintToleration(NodeFilter):
    """Every NoSchedule and NoExecute taint of the node must be tolerated."""

    name = "TaintToleration"
    text = "node(s) had untolerated taint(s)"

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
    is asked, and is told of in other words.
    """

    name = "NodeAffinityNames"
    text = "node(s) didn't satisfy plugin(s) [NodeAffinity]"

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
    text = "node(s) didn't match Pod's node affinity/selector"

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
