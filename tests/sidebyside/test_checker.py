"""The checker calls every kind of illegal placement illegal, and its legal twin legal."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.sidebyside.checker import Cluster, gang_violations, violations

ZONE = "topology.kubernetes.io/zone"


def node(
    name: str = "n1", *, labels: dict[str, str] | None = None, taints: list[Object] | None = None, **spec: Any
) -> Object:
    """A node with 4 cpu, 8Gi and 10 pods in zone z1."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: "z1", **(labels or {})}},
        "spec": {**spec, "taints": taints or []},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str = "p", *, on: str = "", cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod in namespace a."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    where = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": name, "namespace": "a", "labels": labels or {}},
        "spec": {"containers": [container], **spec, **where},
    }


def cluster(*pods: Object, nodes: list[Object] | None = None, **more: list[Object]) -> Cluster:
    """One node n1 unless told otherwise."""
    spaces = [{"metadata": {"name": "a", "labels": {"team": "red"}}}, {"metadata": {"name": "b", "labels": {}}}]
    return {"Node": nodes or [node()], "Pod": list(pods), "Namespace": spaces, **more}


def required(kind: str, *terms: Object) -> Object:
    """An affinity with required terms."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def term(key: str = ZONE, **more: Any) -> Object:
    """A pod affinity term about pods of the app web."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **more}


def with_port(made: Object, **port: Any) -> Object:
    """The pod with a host port."""
    made = copy.deepcopy(made)
    made["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "protocol": "TCP", **port}]
    return made


def in_zone(*values: str) -> Object:
    """A node selector term."""
    return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(values)}]}


def node_affinity(*terms: Object) -> Object:
    """Required node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def spread(**more: Any) -> list[Object]:
    """Spread pods of the app web over zones."""
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}, **more}]


def compares(operator: str, value: str) -> Object:
    """A toleration of levels."""
    return {"key": "level", "operator": operator, "value": value}


DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
LEVEL = {"key": "level", "value": "5", "effect": "NoSchedule"}
WEB = {"app": "web"}
GATED = [{"name": "wait"}]
TWO_ZONES = [node(), node("n2", labels={ZONE: "z2"})]


@pytest.mark.parametrize(
    ("wanted", "there", "word"),
    [
        (pod(), cluster(), ""),
        (pod(), cluster(nodes=[node("other")]), "there is no node"),
        (pod(), cluster(nodes=[node(unschedulable=True)]), "cordoned"),
        (pod(tolerations=[{"operator": "Exists"}]), cluster(nodes=[node(unschedulable=True)]), ""),
        (pod(schedulingGates=GATED), cluster(), "gates"),
        (pod(resourceClaims=[{"name": "gpu"}]), cluster(), "resource claims"),
        (pod(), cluster(nodes=[node(taints=[DEDICATED])]), "taint dedicated"),
        (pod(tolerations=[{"key": "dedicated", "value": "web"}]), cluster(nodes=[node(taints=[DEDICATED])]), "taint"),
        (pod(tolerations=[{"key": "dedicated", "value": "ml"}]), cluster(nodes=[node(taints=[DEDICATED])]), ""),
        (pod(tolerations=[compares("Gt", "4")]), cluster(nodes=[node(taints=[LEVEL])]), ""),
        (pod(tolerations=[compares("Lt", "4")]), cluster(nodes=[node(taints=[LEVEL])]), "taint"),
        (pod(), cluster(nodes=[node(taints=[{**DEDICATED, "effect": "PreferNoSchedule"}])]), ""),
        (pod(nodeSelector={"disk": "ssd"}), cluster(), "not selected"),
        (pod(nodeSelector={"disk": "ssd"}), cluster(nodes=[node(labels={"disk": "ssd"})]), ""),
        (pod(affinity=node_affinity(in_zone("z2"))), cluster(), "not selected"),
        (pod(affinity=node_affinity(in_zone("z2"), in_zone("z1"))), cluster(), ""),
        (pod(affinity=node_affinity({})), cluster(), "not selected"),
        (with_port(pod()), cluster(with_port(pod("q", on="n1"))), "port"),
        (with_port(pod(), hostIP="10.0.0.1"), cluster(with_port(pod("q", on="n1"))), "port"),
        (with_port(pod(), hostIP="10.0.0.1"), cluster(with_port(pod("q", on="n1"), hostIP="10.0.0.2")), ""),
        (with_port(pod(), protocol="UDP"), cluster(with_port(pod("q", on="n1"))), ""),
        (pod(cpu="3500m"), cluster(pod("q", on="n1")), "not enough cpu"),
        (pod(cpu="3"), cluster(pod("q", on="n1")), ""),
        (pod(cpu="4"), cluster({**pod("q", on="n1"), "status": {"phase": "Succeeded"}}), ""),
        (pod(cpu="0"), cluster(*(pod(f"q{i}", on="n1", cpu="0") for i in range(10))), "too many pods"),
        (pod(overhead={"cpu": "4"}), cluster(), "not enough cpu"),
        (pod(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "5"}}}]), cluster(), "not enough cpu"),
        (pod(resources={"requests": {"cpu": "5"}}), cluster(), "not enough cpu"),
        (pod(affinity=required("podAntiAffinity", term())), cluster(pod("q", on="n1", labels=WEB)), "apart"),
        (pod(labels=WEB), cluster(pod("q", on="n1", affinity=required("podAntiAffinity", term()))), "apart"),
        (pod(affinity=required("podAntiAffinity", term(namespaces=["b"]))), cluster(pod("q", on="n1", labels=WEB)), ""),
        (pod(affinity=required("podAntiAffinity", term(namespaceSelector={"matchLabels": {"team": "red"}}))),
         cluster(pod("q", on="n1", labels=WEB)), "apart"),
        (pod(affinity=required("podAffinity", term())), cluster(), "no pod that the affinity"),
        (pod(affinity=required("podAffinity", term()), labels=WEB), cluster(), ""),
        (pod(affinity=required("podAffinity", term()), labels=WEB),
         cluster(pod("q", on="n2", labels=WEB), nodes=TWO_ZONES), "no pod that the affinity"),
        (pod(affinity=required("podAffinity", term())), cluster(pod("q", on="n1", labels=WEB)), ""),
        (pod(affinity=required("podAffinity", term("rack")), labels=WEB), cluster(), "no topology label"),
        (pod(topologySpreadConstraints=spread(), labels=WEB),
         cluster(pod("q", on="n1", labels=WEB), nodes=TWO_ZONES), "uneven"),
        (pod(topologySpreadConstraints=spread(), labels=WEB), cluster(pod("q", on="n1", labels=WEB)), ""),
        (pod(topologySpreadConstraints=spread(minDomains=2), labels=WEB),
         cluster(pod("q", on="n1", labels=WEB)), "uneven"),
        (pod(topologySpreadConstraints=spread(topologyKey="rack")), cluster(), "no label rack"),
        (pod(topologySpreadConstraints=spread(), labels=WEB, nodeSelector={ZONE: "z1"}),
         cluster(pod("q", on="n1", labels=WEB), nodes=TWO_ZONES), ""),
        (pod(topologySpreadConstraints=spread(nodeAffinityPolicy="Ignore"), labels=WEB, nodeSelector={ZONE: "z1"}),
         cluster(pod("q", on="n1", labels=WEB), nodes=TWO_ZONES), "uneven"),
    ],
)  # fmt: skip
def test_rules_about_nodes_and_pods(wanted: Object, there: Cluster, word: str) -> None:
    """Each broken rule is named; what is legal is not complained about."""
    assert_says(violations(wanted, "n1", there), word)


def assert_says(found: list[str], word: str) -> None:
    """Exactly one sentence with the word, or none at all."""
    if word:
        assert len(found) == 1, found
        assert word in found[0]
    else:
        assert found == []


def test_what_is_resized_in_place_takes_the_most() -> None:
    """Asked for, given and in force: the largest counts, unless the kubelet has refused."""
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    grows = {**pod("q", on="n1", cpu="4"), "status": status}
    assert_says(violations(pod(), "n1", cluster(grows)), "not enough cpu")
    refused = [{"type": "PodResizePending", "reason": "Infeasible"}]
    assert violations(pod(), "n1", cluster({**grows, "status": {**status, "conditions": refused}})) == []


CSI = "csi.test"


def claim(
    name: str = "c", volume: str = "", kind: str = "late", mode: str = "ReadWriteOnce", storage: str = "2Gi"
) -> Object:
    """A claim in namespace a."""
    spec = {"accessModes": [mode], "storageClassName": kind, "resources": {"requests": {"storage": storage}}}
    return {
        "metadata": {"name": name, "namespace": "a"},
        "spec": {**spec, **({"volumeName": volume} if volume else {})},
    }


def selected(node_name: str) -> Object:
    """A claim whose volume is on its way, for one node."""
    made = claim()
    made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": node_name}
    return made


def volume(name: str = "v", zone: str = "", label: str = "") -> Object:
    """A volume of the class late; reachable from a zone, labelled with another."""
    spec: Object = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"},
                    "csi": {"driver": CSI, "volumeHandle": name}}  # fmt: skip
    if zone:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [in_zone(zone)]}}
    return {"metadata": {"name": name, "labels": {ZONE: label} if label else {}}, "spec": spec}


def kind(name: str, provisioner: str = CSI, mode: str = "WaitForFirstConsumer", **more: Any) -> Object:
    """A storage class."""
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


KINDS = [
    kind("late"),
    kind("static", "kubernetes.io/no-provisioner"),
    kind("now", mode="Immediate"),
    kind("far", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]),
]
READ_ONLY: Object = {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}
TRACKED = [{"metadata": {"name": CSI}, "spec": {"storageCapacity": True}}]
LIMITED = [
    {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": CSI, "allocatable": {"count": 1}}]}},
]


def capacity(amount: str, zone: str) -> list[Object]:
    """Storage that is left in a zone."""
    topology = {"matchLabels": {ZONE: zone}}
    return [{"metadata": {"name": "cap"}, "storageClassName": "late", "capacity": amount, "nodeTopology": topology}]


def mounting(name: str = "p", *claims: str, on: str = "") -> Object:
    """A pod that mounts claims (c unless told otherwise)."""
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims or ("c",)]
    return pod(name, on=on, cpu="0", volumes=volumes)


@pytest.mark.parametrize(
    ("pods", "objects", "word"),
    [
        ([], {}, "does not exist"),
        ([], {"PersistentVolumeClaim": [claim(volume="v")], "PersistentVolume": [volume()]}, ""),
        ([], {"PersistentVolumeClaim": [claim(volume="gone")]}, "volume gone does not exist"),
        ([], {"PersistentVolumeClaim": [claim(volume="v")], "PersistentVolume": [volume(zone="z2")]}, "cannot be used"),
        ([], {"PersistentVolumeClaim": [claim(volume="v")], "PersistentVolume": [volume(zone="z1")]}, ""),
        ([], {"PersistentVolumeClaim": [claim(volume="v")], "PersistentVolume": [volume(label="z2")]}, "another zone"),
        ([], {"PersistentVolumeClaim": [claim(volume="v")], "PersistentVolume": [volume(label="z2__z1")]}, ""),
        ([], {"PersistentVolumeClaim": [claim(kind="now")]}, "at once"),
        ([], {"PersistentVolumeClaim": [claim()]}, ""),
        ([], {"PersistentVolumeClaim": [selected("n2")]}, "is being made for n2"),
        ([], {"PersistentVolumeClaim": [selected("n1")]}, ""),
        ([], {"PersistentVolumeClaim": [claim(kind="static")]}, "no volume for claim"),
        ([], {"PersistentVolumeClaim": [claim(kind="far")]}, "may not be made"),
        ([], {"PersistentVolumeClaim": [claim()], "CSIDriver": TRACKED}, "no storage is left"),
        ([], {"PersistentVolumeClaim": [claim()], "CSIDriver": TRACKED, "CSIStorageCapacity": capacity("1Gi", "z1")},
         "no storage is left"),
        ([], {"PersistentVolumeClaim": [claim()], "CSIDriver": TRACKED,
          "CSIStorageCapacity": capacity("2Gi", "z1")}, ""),
        ([mounting("q", on="n1")], {"PersistentVolumeClaim": [claim(mode="ReadWriteOncePod", volume="v")],
                                    "PersistentVolume": [volume()]}, "is for one pod"),
        ([mounting("q", on="n1")], {"PersistentVolumeClaim": [claim(volume="v")], "PersistentVolume": [volume()],
                                    "CSINode": LIMITED}, ""),
        ([mounting("q", "d", on="n1")],
         {"PersistentVolumeClaim": [claim(volume="v"), claim("d", volume="w")],
          "PersistentVolume": [volume(), volume("w")], "CSINode": LIMITED}, "takes 1 volumes"),
    ],
)  # fmt: skip
def test_rules_about_volumes(pods: list[Object], objects: dict[str, list[Object]], word: str) -> None:
    """Claims, their volumes, where they can be reached, how many fit."""
    assert_says(violations(mounting(), "n1", cluster(*pods, StorageClass=KINDS, **objects)), word)


@pytest.mark.parametrize(
    ("mine", "theirs", "word"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, READ_ONLY, "in use"),
        (READ_ONLY, READ_ONLY, ""),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, {"awsElasticBlockStore": {"volumeID": "d"}}, "in use"),
        ({"iscsi": {"iqn": "d"}}, {"iscsi": {"iqn": "d"}}, "in use"),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, {"rbd": {"monitors": ["m", "o"], "image": "i"}}, "in use"),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, {"rbd": {"monitors": ["o"], "image": "i"}}, ""),
    ],
)  # fmt: skip
def test_rules_about_disks_in_the_pod(mine: Object, theirs: Object, word: str) -> None:
    """A disk has one pod of a node, or readers only."""
    there = pod("q", on="n1", volumes=[{"name": "v", **theirs}])
    assert_says(violations(pod(volumes=[{"name": "v", **mine}]), "n1", cluster(there)), word)


def test_members_of_a_gang_are_placed_one_by_one() -> None:
    """They count for each other: room, and rules about other pods; the order is free."""
    leader, follower = pod("z", labels=WEB), pod("a", affinity=required("podAffinity", term()))
    assert gang_violations({"a/a": "n1", "a/z": "n1"}, [follower, leader], cluster()) == []
    assert gang_violations({"a/a": "n2", "a/z": "n1"}, [follower, leader], cluster(nodes=TWO_ZONES)) == [
        "a/a: no pod that the affinity asks for is near"
    ]
    big = [pod(f"m{i}", cpu="3") for i in range(2)]
    assert gang_violations({"a/m0": "n1", "a/m1": "n1"}, big, cluster()) == ["a/m1: not enough cpu"]


def test_the_order_of_members_is_searched_for() -> None:
    """The one that is free to come first may have to come last: here it would make the other's domain too full."""
    free, even = pod("a", labels=WEB), pod("b", labels=WEB, topologySpreadConstraints=spread())
    assert gang_violations({"a/a": "n1", "a/b": "n1"}, [free, even], cluster(nodes=TWO_ZONES)) == []
    both = [pod(name, labels=WEB, topologySpreadConstraints=spread()) for name in "ab"]
    assert gang_violations({"a/a": "n1", "a/b": "n1"}, both, cluster(nodes=TWO_ZONES)) == [
        f"a/b: spread over {ZONE} would be uneven by 2"
    ]
