"""Storage of a random cluster: classes, volumes, claims in every state, attach limits and storage capacity."""

from __future__ import annotations

from random import Random

from tests.controlplane.client import Object

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER = "csi.sbs.test"
BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
#: StorageClasses that exist in every case.
CLASSES: list[Object] = [
    {"metadata": {"name": "sbs-static"}, "provisioner": "kubernetes.io/no-provisioner",
     "volumeBindingMode": "WaitForFirstConsumer"},
    {"metadata": {"name": "sbs-wait"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
    {"metadata": {"name": "sbs-zoned"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
     "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]},
    {"metadata": {"name": "sbs-now"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"},
]  # fmt: skip


class Store:
    """What there is to claim, and who has claimed it. ``objects`` are to be created before any pod."""

    def __init__(self, rng: Random, number: int, nodes: list[Object]) -> None:
        self.rng = rng
        self.number = number
        self.nodes = nodes
        self.objects: list[Object] = []
        self.statuses: list[tuple[str, str, str, Object]] = []
        self.leaving: list[tuple[str, str, str]] = []
        self.claims: dict[str, list[str]] = {"sbs-a": ["missing"], "sbs-b": []}
        for space in self.claims:
            for i in range(rng.randint(1, 3)):
                self._bound(space, f"bound{i}")
            for i in range(rng.randint(0, 2)):
                self._waiting(space, f"wait{i}")
        for i in range(rng.randint(0, 3)):
            self._volume(f"free{i}", "sbs-static", claim=None)
        self._odd()
        limited = [n["name"] for n in nodes if rng.random() < 0.6]
        self.objects += [self._csi_node(name) for name in limited]
        self.objects += [self._attachment(name, i) for i, name in enumerate(limited) if rng.random() < 0.3]
        if rng.random() < 0.4:
            self.objects += [self._capacity(i) for i in range(rng.randint(0, 3))]
            tracked = True
        else:
            tracked = False
        self.objects.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
                             "spec": {"storageCapacity": tracked, "attachRequired": True}})  # fmt: skip

    def claim(self, pod: Object) -> None:
        """The pod mounts something of what there is."""
        rng = self.rng
        names = self.claims[pod["metadata"]["namespace"]]
        volumes: list[Object] = []
        for i, name in enumerate(rng.sample(names, min(len(names), rng.choice((1, 1, 2))))):
            volumes.append({"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}})
        luck = rng.random()
        if luck < 0.1:
            volumes.append({"name": "disk", "gcePersistentDisk": {"pdName": rng.choice("ab"), "readOnly": luck < 0.03}})
        elif luck < 0.15:
            volumes.append({"name": "scsi", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.test:a", "lun": 0,
                                                      "readOnly": luck < 0.12}})  # fmt: skip
        elif luck < 0.2:
            volumes.append({"name": "rbd", "rbd": {"monitors": ["m1"], "image": "i", "pool": "p"}})
        elif luck < 0.25:
            template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
            volumes.append({"name": "own", "ephemeral": {"volumeClaimTemplate": template}})
        pod["spec"]["volumes"] = volumes

    def _bound(self, space: str, name: str) -> None:
        """A claim that has its volume already."""
        volume = self._volume(f"{space}-{name}", self.rng.choice(("sbs-static", "sbs-wait", "sbs-now")), (space, name))
        modes = volume["spec"]["accessModes"]
        self._claim(space, name, volume["spec"]["storageClassName"], modes, volume["metadata"]["name"])

    def _odd(self) -> None:
        """Claims that are in no state to be used."""
        luck = self.rng.random()
        if luck < 0.3:
            self._claim("sbs-a", "going", "sbs-wait", ["ReadWriteOnce"], "")
            self.objects[-1]["metadata"]["finalizers"] = ["sbs.test/stay"]
            self.leaving.append(("PersistentVolumeClaim", "sbs-a", "going"))
        elif luck < 0.5:
            self._claim("sbs-a", "lost", "sbs-wait", ["ReadWriteOnce"], "gone")
            self.statuses[-1] = ("PersistentVolumeClaim", "sbs-a", "lost", {"phase": "Lost"})
        elif luck < 0.7:
            self._claim("sbs-b", "dangling", "sbs-wait", ["ReadWriteOnce"], "gone")

    def _waiting(self, space: str, name: str) -> None:
        """A claim that has no volume yet."""
        kind = self.rng.choice(("sbs-static", "sbs-wait", "sbs-zoned", "sbs-now"))
        self._claim(space, name, kind, ["ReadWriteOnce"], "")

    def _claim(self, space: str, name: str, kind: str, modes: list[str], volume: str) -> None:
        metadata: Object = {"name": name, "namespace": space}
        spec: Object = {"accessModes": modes, "storageClassName": kind,
                        "resources": {"requests": {"storage": self.rng.choice(("1Gi", "5Gi", "100Gi"))}}}  # fmt: skip
        if volume:
            metadata["annotations"] = BOUND
            spec["volumeName"] = volume
            self.statuses.append(("PersistentVolumeClaim", space, name, {"phase": "Bound"}))
        self.objects.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
        self.claims[space].append(name)

    def _volume(self, name: str, kind: str, claim: tuple[str, str] | None) -> Object:
        rng = self.rng
        full = f"c{self.number}-{name}"
        metadata: Object = {"name": full}
        spec: Object = {
            "accessModes": [rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
            "storageClassName": kind,
            "capacity": {"storage": rng.choice(("2Gi", "10Gi"))},
            "csi": {"driver": DRIVER, "volumeHandle": full},
        }
        if rng.random() < 0.3:
            metadata["labels"] = {rng.choice((ZONE, OLD_ZONE)): rng.choice(("z1", "z2__z3"))}
        if rng.random() < 0.5:
            key, values = ZONE, rng.sample(("z1", "z2", "z3"), 2)
            if rng.random() < 0.4:
                key, values = HOSTNAME, [rng.choice(self.nodes)["name"]]
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if claim is not None:
            spec["claimRef"] = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim[0],
                "name": claim[1],
            }
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
        self.objects.append(volume)
        self.statuses.append(("PersistentVolume", "", full, {"phase": "Bound" if claim else "Available"}))
        return volume

    def _csi_node(self, name: str) -> Object:
        driver: Object = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
        if self.rng.random() < 0.8:
            driver["allocatable"] = {"count": self.rng.randint(1, 2)}
        return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
                "spec": {"drivers": [driver]}}  # fmt: skip

    def _attachment(self, node: str, i: int) -> Object:
        """A volume that is attached, whether or not a pod of the node uses it."""
        volumes = [o["metadata"]["name"] for o in self.objects if o["kind"] == "PersistentVolume"]
        source = {"persistentVolumeName": self.rng.choice(volumes)}
        name = f"c{self.number}-attached{i}"
        return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                "spec": {"attacher": DRIVER, "nodeName": node, "source": source}}  # fmt: skip

    def _capacity(self, i: int) -> Object:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"capacity{i}", "namespace": "sbs-a"},
            "storageClassName": self.rng.choice(("sbs-wait", "sbs-zoned")),
            "nodeTopology": {"matchLabels": {ZONE: f"z{i + 1}"}},
            "capacity": self.rng.choice(("3Gi", "10Gi")),
        }
