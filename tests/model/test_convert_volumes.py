"""Storage objects and the volumes of pods, from the API's JSON to records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import volumes as storage
from gangsched.model import wire
from gangsched.model.constraints import Disk, NodeTerm, PodVolumes, Requirement
from gangsched.model.convert import Converter
from gangsched.model.errors import FieldError
from gangsched.model.volumes import ClaimRef, CSINode


def read(raw: dict[str, Any], kind: type[Any]) -> Any:
    """The wire struct of an object as the API server sends it."""
    return msgspec.json.decode(msgspec.json.encode(raw), type=kind)


def pod_volumes(*volumes: dict[str, Any]) -> PodVolumes | None:
    """What the volumes of a pod ``p`` ask for."""
    return storage.pod_volumes("p", [read({"name": "v", **v}, wire.Volume) for v in volumes])


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"emptyDir": {}}, None),
        ({"persistentVolumeClaim": {"claimName": "c"}}, PodVolumes(("c",))),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, PodVolumes(("p-v",), ("p-v",))),
        (
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            PodVolumes(disks=(Disk("gcePersistentDisk", ("d",), True),)),
        ),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, PodVolumes(disks=(Disk("awsElasticBlockStore", ("d",)),))),
        ({"iscsi": {"iqn": "d", "readOnly": False}}, PodVolumes(disks=(Disk("iscsi", ("d",)),))),
        (
            {"rbd": {"monitors": ["m2", "m1"], "image": "i"}},
            PodVolumes(disks=(Disk("rbd", ("rbd", "i"), monitors=("m1", "m2")),)),
        ),
    ],
)
def test_volumes_of_a_pod(volume: dict[str, Any], expected: PodVolumes | None) -> None:
    """Claims, those of ephemeral volumes under the name that they will have, and disks named in the pod."""
    assert pod_volumes(volume) == expected


def test_a_claim_is_counted_once() -> None:
    """Two volumes may use the same claim."""
    both = {"persistentVolumeClaim": {"claimName": "c"}}
    assert pod_volumes(both, both) == PodVolumes(("c",))


def test_claims_are_not_part_of_the_shape() -> None:
    """Members of a StatefulSet differ in their claims and share their shape."""
    convert = Converter()
    pods = [
        convert.pod(
            read(
                {
                    "metadata": {"name": f"p{i}", "namespace": "d", "uid": str(i)},
                    "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{i}"}}]},
                },
                wire.Pod,
            )
        )
        for i in (1, 2)
    ]
    assert pods[0].shape is pods[1].shape
    assert [p.volumes.claims if p.volumes else () for p in pods] == [("c1",), ("c2",)]


CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "d", "uid": "u", "annotations": {}},
    "spec": {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        ({}, {}, {"storage_class": "fast", "size": 1 << 30, "bound": False, "mode": "Filesystem", "phase": "Pending"}),
        ({"volume.beta.kubernetes.io/storage-class": "old"}, {}, {"storage_class": "old"}),
        ({"volume.kubernetes.io/selected-node": "n1"}, {}, {"selected_node": "n1"}),
        ({}, {"volumeName": "v"}, {"volume_name": "v", "bound": False}),
        ({"pv.kubernetes.io/bind-completed": "yes"}, {"volumeName": "v"}, {"bound": True}),
        ({"pv.kubernetes.io/bind-completed": "yes"}, {}, {"bound": False}),
        ({}, {"storageClassName": None, "volumeMode": "Block"}, {"storage_class": "", "mode": "Block"}),
    ],
)
def test_claims(annotations: dict[str, str], spec: dict[str, Any], expected: dict[str, Any]) -> None:
    """Annotations say what is under way; the beta annotation for the class goes over the field."""
    raw = {**CLAIM, "metadata": {**CLAIM["metadata"], "annotations": annotations}, "spec": {**CLAIM["spec"], **spec}}
    found = storage.claim(read(raw, storage.RawPersistentVolumeClaim))
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_volume() -> None:
    """Capacity in bytes, node affinity as terms, the claim that it is for, and what its driver calls it."""
    raw = {
        "metadata": {"name": "v", "uid": "u", "labels": {"a": "b"}, "resourceVersion": "7"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "storageClassName": "fast",
            "claimRef": {"namespace": "d", "name": "c", "uid": "x"},
            "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]}
                    ]
                }
            },
        },
        "status": {"phase": "Bound"},
    }
    found = storage.volume(read(raw, storage.RawPersistentVolume))
    assert found.node_terms == (NodeTerm((Requirement("zone", "In", ("a", "b")),)),)
    assert (found.size, found.claim, found.phase) == (2 << 30, ClaimRef("d", "c", "x"), "Bound")
    assert (found.driver, found.handle, found.version) == ("csi.example.com", "h", "7")


def test_a_volume_without_a_status_is_available() -> None:
    """As in a manifest; one that is reserved for a claim is not, until it is bound."""
    free = storage.volume(read({"metadata": {"name": "v"}}, storage.RawPersistentVolume))
    kept = {"metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": "d", "name": "c"}}}
    assert free.phase == "Available"
    assert storage.volume(read(kept, storage.RawPersistentVolume)).phase == "Pending"


def test_limits_of_a_node() -> None:
    """Drivers that set no limit are left out of the limits."""
    drivers = [{"name": "b", "allocatable": {"count": 3}}, {"name": "a"}, {"name": "c", "allocatable": {}}]
    raw = read({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, storage.RawCSINode)
    assert storage.csi_node(raw) == CSINode("n", (("b", 3),), ("a", "b", "c"))


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({}, None), ({"capacity": "5Gi"}, 5 << 30), ({"capacity": "5Gi", "maximumVolumeSize": "1Gi"}, 1 << 30)],
)
def test_storage_capacity(fields: dict[str, str], limit: int | None) -> None:
    """The largest volume, where it is told, says more than the total."""
    raw = {"metadata": {"name": "s", "namespace": "d"}, "storageClassName": "fast", "nodeTopology": {}, **fields}
    found = storage.storage_capacity(read(raw, storage.RawCSIStorageCapacity))
    assert (found.limit, found.topology is None) == (limit, False)


@pytest.mark.parametrize(
    ("convert", "kind", "raw", "field"),
    [
        (
            storage.claim,
            storage.RawPersistentVolumeClaim,
            {"spec": {"resources": {"requests": {"storage": "lots"}}}},
            "spec.resources.requests.storage",
        ),
        (
            storage.volume,
            storage.RawPersistentVolume,
            {"spec": {"capacity": {"storage": "-1"}}},
            "spec.capacity.storage",
        ),
        (
            storage.storage_class,
            storage.RawStorageClass,
            {"volumeBindingMode": "Later"},
            "volumeBindingMode",
        ),
        (
            storage.storage_capacity,
            storage.RawCSIStorageCapacity,
            {"maximumVolumeSize": "x"},
            "maximumVolumeSize",
        ),
    ],
)
def test_what_cannot_be_read_is_named(convert: Any, kind: type[Any], raw: dict[str, Any], field: str) -> None:
    """The field is said, for a message to its owner."""
    with pytest.raises(FieldError) as caught:
        convert(read({"metadata": {"name": "x"}, **raw}, kind))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ()),
        ({"hostNetwork": True}, ()),
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        (
            {"initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
    ],
)
def test_features_that_a_pod_needs(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    """As kube-scheduler infers them from the spec."""
    pod = Converter().pod(read({"metadata": {"name": "p"}, "spec": spec}, wire.Pod))
    assert pod.shape.node_features == expected


def test_features_that_a_node_declares() -> None:
    """Sorted, whatever the kubelet's order."""
    raw = {"metadata": {"name": "n"}, "status": {"declaredFeatures": ["B", "A"]}}
    assert Converter().node(read(raw, wire.Node)).features == ("A", "B")
