"""Topology that a pod asks for as part of a gang, where its own controller has not turned it into rules for nodes.

Webhooks of LeaderWorkerSet write the domain of a subgroup as pod affinity, and Kueue writes that of a slice as a
nodeSelector. Both are ordinary rules. Without them a pod would be bound against what its annotation requires.
Sources: ``pkg/webhooks/pod_webhook.go`` of kubernetes-sigs/lws, ``keps/2724-topology-aware-scheduling`` of
kubernetes-sigs/kueue.
"""

from __future__ import annotations

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects import owners
from gangsched.model.errors import Mistake

SUBGROUP_TOPOLOGY = f"{owners.HINT_PREFIX}subgroup-exclusive-topology"
SUBGROUP_SIZE, SUBGROUP_INDEX = f"{owners.HINT_PREFIX}subgroup-size", f"{owners.HINT_PREFIX}subgroup-index"
SUBGROUP_POLICY, LEADER_EXCLUDED = f"{owners.HINT_PREFIX}subgroup-policy-type", "LeaderExcluded"
KUEUE = "kueue.x-k8s.io/"
SLICE_TOPOLOGY = f"{KUEUE}podset-slice-required-topology"
SLICE_LAYERS = f"{KUEUE}podset-slice-required-topology-constraints"
_HOSTNAME = "kubernetes.io/hostname"


def mistake_of(meta: wire.ObjectMeta, spec: wire.PodSpec) -> Mistake | None:
    """Return which annotation requires a topology that no rule of the pod carries out; None if there is none."""
    notes = meta.annotations
    if not notes:
        return None
    if notes.get(SUBGROUP_TOPOLOGY) and not _has_affinity(meta, spec, notes[SUBGROUP_TOPOLOGY]):
        return Mistake(f"metadata.annotations[{SUBGROUP_TOPOLOGY}]", invalid.TOPOLOGY_OF_SUBGROUP)
    key = next((each for each in (SLICE_TOPOLOGY, SLICE_LAYERS) if notes.get(each)), "")
    if key and not _is_assigned(spec, notes.get(SLICE_TOPOLOGY, "")):
        return Mistake(f"metadata.annotations[{key}]", invalid.TOPOLOGY_OF_SLICE)
    return None


def _has_affinity(meta: wire.ObjectMeta, spec: wire.PodSpec, topology: str) -> bool:
    """Return True if the webhook has written the subgroup's affinity, or leaves it out for an excluded leader."""
    notes, labels = meta.annotations or {}, meta.labels or {}
    if notes.get(SUBGROUP_POLICY) == LEADER_EXCLUDED and labels.get(owners.WORKER_INDEX) == "0":
        return True
    affinity = spec.affinity.pod_affinity if spec.affinity is not None else None
    return any(term.topology_key == topology for term in (affinity.required if affinity is not None else None) or ())


def _is_assigned(spec: wire.PodSpec, level: str) -> bool:
    """Return True if Kueue has chosen the pod's domain, or still gates the pod. A nodeSelector has all levels of a
    domain, or the hostname alone.
    """
    if any(gate.name.startswith(KUEUE) for gate in spec.scheduling_gates or ()):
        return True
    selector = spec.node_selector or {}
    return _HOSTNAME in selector or level in selector
