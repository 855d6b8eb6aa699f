"""A pod whose part of a gang has a topology: placed if rules for nodes carry the topology out, refused otherwise."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter

LWS = "leaderworkerset.sigs.k8s.io/"
KUEUE = "kueue.x-k8s.io/"
SUBGROUP = {f"{LWS}subgroup-exclusive-topology": "rack"}
SLICE = {f"{KUEUE}podset-slice-required-topology": "rack", f"{KUEUE}podset-slice-size": "2"}
LAYERS = {f"{KUEUE}podset-slice-required-topology-constraints": '[{"topology": "rack", "size": 2}]'}
IN_RACK = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}}
IN_ZONE = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
EXCLUDED = {**SUBGROUP, f"{LWS}subgroup-policy-type": "LeaderExcluded"}
GROUP = "pod-group.scheduling.sigs.k8s.io"


def pod(annotations=None, labels=None, **spec):
    """A pod with these labels and annotations."""
    meta = {"name": "p", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}}
    return Converter().pod(msgspec.convert({"metadata": meta, "spec": spec}, wire.Pod))


@pytest.mark.parametrize(
    ("pod", "annotation"),
    [
        (pod(SUBGROUP), f"{LWS}subgroup-exclusive-topology"),
        (pod(SUBGROUP, affinity=IN_ZONE), f"{LWS}subgroup-exclusive-topology"),
        (pod(EXCLUDED, {f"{LWS}worker-index": "1"}), f"{LWS}subgroup-exclusive-topology"),
        (pod(SLICE), f"{KUEUE}podset-slice-required-topology"),
        (pod(SLICE, nodeSelector={"pool": "a"}), f"{KUEUE}podset-slice-required-topology"),
        (pod(LAYERS), f"{KUEUE}podset-slice-required-topology-constraints"),
        (pod(SLICE, {GROUP: "g"}), f"{KUEUE}podset-slice-required-topology"),
    ],
)
def test_a_pod_waits_alone_with_the_annotation_in_its_reason(pod, annotation) -> None:
    """Also a member of a group: the group lacks it as long as it is refused."""
    assert pod.mistake is not None
    assert pod.mistake.field == f"metadata.annotations[{annotation}]"
    assert "is not supported unless" in pod.mistake.message
    assert pod.gang.family == "Pod"


@pytest.mark.parametrize(
    "pod",
    [
        pod(SUBGROUP, affinity=IN_RACK),
        pod(EXCLUDED, {f"{LWS}worker-index": "0"}),
        pod(SUBGROUP, nodeName="n"),
        pod(SLICE, nodeSelector={"rack": "a"}),
        pod(SLICE, nodeSelector={"kubernetes.io/hostname": "n"}),
        pod(LAYERS, nodeSelector={"kubernetes.io/hostname": "n"}),
        pod(SLICE, schedulingGates=[{"name": f"{KUEUE}topology"}]),
        pod(SLICE, nodeName="n"),
    ],
)
def test_rules_of_webhooks_and_of_kueue_are_enough(pod) -> None:
    """The pod is placed by its affinity or nodeSelector, waits for Kueue, or runs."""
    assert pod.mistake is None
