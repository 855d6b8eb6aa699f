"""Claims and volumes in manifests: what the API server and its controllers would have filled in."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.decision import BIND, UNSCHEDULABLE
from gangsched.core.events import Changed
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim, StorageObject
from tests.cluster.manifest_texts import POD, many, obj, read, refusal

NODE = obj("Node", "v1", "n1", status={"allocatable": {"cpu": "4"}})
LATER = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "csi.example.com"}


def storage(text: str) -> dict[tuple[str, str], StorageObject]:
    """Storage objects of an input by kind and name."""
    found = [e.record for e in read(text).events if isinstance(e, Changed) and isinstance(e.record, StorageObject)]
    return {(type(r).__name__, r.name): r for r in found}


def claim(text: str, name: str = "c") -> PersistentVolumeClaim:
    """A claim of the input."""
    found = storage(text)["PersistentVolumeClaim", name]
    assert isinstance(found, PersistentVolumeClaim)
    return found


def a_class(name: str, *, default: bool, **fields: Any) -> str:
    """A StorageClass, which may be the default one."""
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    meta = {"name": name, "annotations": annotations}
    return obj("StorageClass", "storage.k8s.io/v1", **{"provisioner": "p", **fields, "metadata": meta})


def test_the_default_class() -> None:
    """A claim that names no class gets the default one; an empty name asks for none."""
    classes = (a_class("other", default=False), a_class("usual", default=True))
    assert claim(many(*classes, obj("PersistentVolumeClaim", "v1", "c"))).storage_class == "usual"
    for spec in ({"storageClassName": ""}, {"storageClassName": "other"}):
        found = claim(many(*classes, obj("PersistentVolumeClaim", "v1", "c", spec=spec)))
        assert found.storage_class == spec["storageClassName"]


@pytest.mark.parametrize(
    ("volume", "status", "bound"),
    [
        ({}, {}, True),
        ({"claimRef": {"namespace": "default", "name": "c"}}, {}, True),
        ({"claimRef": {"namespace": "default", "name": "another"}}, {}, False),
        ({}, {"phase": "Pending"}, False),
        (None, {}, False),
    ],
)
def test_a_claim_that_names_its_volume(volume: dict[str, Any] | None, status: dict[str, str], bound: bool) -> None:
    """Without a status it is bound, if the volume is there and for nobody else."""
    texts = [obj("PersistentVolumeClaim", "v1", "c", spec={"volumeName": "v"}, status=status)]
    if volume is not None:
        texts.append(obj("PersistentVolume", "v1", "v", spec=volume))
    found = storage(many(*texts))
    assert claim(many(*texts)).bound == bound
    if bound:
        made = found["PersistentVolume", "v"]
        assert isinstance(made, PersistentVolume)
        assert made.phase == "Bound"
        assert made.belongs_to(claim(many(*texts)))


def test_claims_of_ephemeral_volumes_are_made() -> None:
    """As the controller does it: named after the pod, owned by it, with the default class."""
    template = "{spec: {resources: {requests: {storage: 1Gi}}}}"
    pod = POD % ("p", f"{{volumes: [{{name: scratch, ephemeral: {{volumeClaimTemplate: {template}}}}}]}}")
    found = claim(many(pod, a_class("usual", default=True)), "p-scratch")
    assert (found.owner_uid, found.size, found.storage_class) == ("manifest:Pod/default/p", 1 << 30, "usual")
    given = obj("PersistentVolumeClaim", "v1", "p-scratch", spec={"resources": {"requests": {"storage": "5Gi"}}})
    assert claim(many(pod, given), "p-scratch").size == 5 << 30


def test_a_template_that_cannot_be_read_is_an_error() -> None:
    """File, object and field are named."""
    pod = POD % ("p", "{volumes: [{name: s, ephemeral: {volumeClaimTemplate: {spec: 1}}}]}")
    error = refusal(pod)
    assert error.problem["field"] == "spec.volumes[0].ephemeral.volumeClaimTemplate"


def test_wrong_sizes_are_errors() -> None:
    """A claim for something that is no quantity."""
    text = obj("PersistentVolumeClaim", "v1", "c", spec={"resources": {"requests": {"storage": "much"}}})
    assert refusal(text).problem["field"] == "spec.resources.requests.storage"


@pytest.mark.parametrize(("mode", "outcome"), [(LATER, BIND), ({"provisioner": "p"}, UNSCHEDULABLE)])
def test_a_plan_with_volumes(mode: dict[str, str], outcome: str) -> None:
    """What is not bound and does not wait for a pod must be bound first."""
    text = many(
        NODE,
        a_class("usual", default=True, **mode),
        obj("PersistentVolumeClaim", "v1", "c"),
        POD
        % (
            "p",
            "{schedulerName: py-gang-scheduler, volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}",
        ),
    )
    (decision,) = forecast(read(text).events, Options(), 0.0)
    assert decision.outcome == outcome
    if outcome == UNSCHEDULABLE:
        assert "pod has unbound immediate PersistentVolumeClaims" in decision.message
