"""The part of the checker that is about storage: https://kubernetes.io/docs/concepts/storage/ ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.controlplane.client import Object

Cluster = Mapping[str, Sequence[Object]]
#: Labels that say where a volume is, and what nodes are labelled with for it.
ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


def volume_violations(pod: Object, node: Object, cluster: Cluster) -> list[str]:
    """Rules about volumes that are broken when the pod goes to the node."""
    space = pod["metadata"]["namespace"]
    volumes = pod["spec"].get("volumes") or ()
    names = sorted({v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")})
    out = _disk_violations(pod, node, cluster)
    out += [
        f"claim of volume {v['name']} does not exist yet"
        for v in volumes
        if v.get("ephemeral")
        and _find(cluster, "PersistentVolumeClaim", f"{pod['metadata']['name']}-{v['name']}", space) is None
    ]
    waiting = []
    for name in names:
        claim = _find(cluster, "PersistentVolumeClaim", name, space)
        if claim is None:
            out.append(f"claim {name} does not exist")
            continue
        if claim["metadata"].get("deletionTimestamp"):
            out.append(f"claim {name} is being deleted")
        if claim.get("status", {}).get("phase") == "Lost":
            out.append(f"claim {name} has lost its volume")
        out += _alone(pod, claim, cluster)
        volume = claim["spec"].get("volumeName")
        if volume:
            found = _find(cluster, "PersistentVolume", volume)
            out += [f"volume {volume} does not exist"] if found is None else _bound(found, node)
        else:
            waiting.append(claim)
    out += _unbound(waiting, node, cluster)
    out += _attachments(pod, node, cluster)
    return out


def _find(cluster: Cluster, kind: str, name: str, space: str | None = None) -> Object | None:
    return next(
        (o for o in cluster.get(kind, ()) if o["metadata"]["name"] == name and o["metadata"].get("namespace") == space),
        None,
    )


def _live_pods(cluster: Cluster, node: Object | None = None) -> list[Object]:
    pods = [
        p
        for p in cluster["Pod"]
        if p["spec"].get("nodeName") and p.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    return [p for p in pods if node is None or p["spec"]["nodeName"] == node["metadata"]["name"]]


def _alone(pod: Object, claim: Object, cluster: Cluster) -> list[str]:
    """ReadWriteOncePod: one pod in the whole cluster."""
    if "ReadWriteOncePod" not in claim["spec"]["accessModes"]:
        return []
    name, space = claim["metadata"]["name"], claim["metadata"]["namespace"]
    for other in _live_pods(cluster):
        used = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in other["spec"].get("volumes") or ()]
        if other["metadata"]["namespace"] == space and name in used:
            return [f"claim {name} is for one pod, and {other['metadata']['name']} uses it"]
    return []


def _bound(volume: Object, node: Object) -> list[str]:
    out = []
    name, labels = volume["metadata"]["name"], node["metadata"].get("labels") or {}
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is not None and not any(_term(t, labels) for t in required["nodeSelectorTerms"]):
        out.append(f"volume {name} cannot be used from the node")
    # Nodes without any zone label are a cluster without zones: then nothing is asked.
    if any(key in labels for key in ZONES):
        for key, value in (volume["metadata"].get("labels") or {}).items():
            if key in ZONES and labels.get(key, labels.get(ZONES[key])) not in value.split("__"):
                out.append(f"volume {name} is in another zone")
    return out


def _term(term: Object, labels: Mapping[str, str]) -> bool:
    wanted = term.get("matchExpressions") or ()
    return bool(wanted) and all(e["operator"] == "In" and labels.get(e["key"]) in e["values"] for e in wanted)


def _unbound(claims: Sequence[Object], node: Object, cluster: Cluster) -> list[str]:
    """Claims that get their volume when their first pod is placed."""
    out = []
    taken: set[str] = set()
    for claim in sorted(claims, key=lambda c: size(c["spec"]["resources"]["requests"]["storage"])):
        name = claim["metadata"]["name"]
        kind = _find(cluster, "StorageClass", claim["spec"].get("storageClassName") or "")
        if kind is None or kind.get("volumeBindingMode") != "WaitForFirstConsumer":
            out.append(f"claim {name} is bound at once or never, and has no volume")
            continue
        chosen = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
        if chosen not in (None, node["metadata"]["name"]):
            out.append(f"a volume for claim {name} is being made for {chosen}")
            continue
        free = [
            v for v in cluster.get("PersistentVolume", ())
            if v["metadata"]["name"] not in taken and _matches(v, claim) and not _affinity(v, node)
        ]  # fmt: skip
        if free:
            taken.add(min(free, key=lambda v: size(v["spec"]["capacity"]["storage"]))["metadata"]["name"])
        else:
            out += _provision(claim, kind, node, cluster)
    return out


def _affinity(volume: Object, node: Object) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    labels = node["metadata"].get("labels") or {}
    return required is not None and not any(_term(t, labels) for t in required["nodeSelectorTerms"])


def _matches(volume: Object, claim: Object) -> bool:
    spec = volume["spec"]
    reserved = spec.get("claimRef")
    mine = reserved is not None and (reserved["namespace"], reserved["name"]) == (
        claim["metadata"]["namespace"], claim["metadata"]["name"])  # fmt: skip
    return (
        (reserved is None or mine)
        and spec.get("storageClassName") == claim["spec"].get("storageClassName")
        and set(claim["spec"]["accessModes"]) <= set(spec["accessModes"])
        and size(spec["capacity"]["storage"]) >= size(claim["spec"]["resources"]["requests"]["storage"])
        and volume.get("status", {}).get("phase") != "Released"
    )


def size(text: str) -> int:
    """Bytes."""
    units = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
    return int(text[:-2]) << units[text[-2:]] if text[-2:] in units else int(text)


def _provision(claim: Object, kind: Object, node: Object, cluster: Cluster) -> list[str]:
    name, labels = claim["metadata"]["name"], node["metadata"].get("labels") or {}
    if kind["provisioner"] == "kubernetes.io/no-provisioner":
        return [f"no volume for claim {name} can be used from the node"]
    allowed = kind.get("allowedTopologies")
    if allowed and not any(
        all(labels.get(e["key"]) in e["values"] for e in t["matchLabelExpressions"]) for t in allowed
    ):
        return [f"a volume for claim {name} may not be made for the node"]
    driver = _find(cluster, "CSIDriver", kind["provisioner"])
    if driver is None or not driver["spec"].get("storageCapacity"):
        return []
    wanted = size(claim["spec"]["resources"]["requests"]["storage"])
    for each in cluster.get("CSIStorageCapacity", ()):
        reaches = all(
            labels.get(k) == v for k, v in ((each.get("nodeTopology") or {}).get("matchLabels") or {}).items()
        )
        most = each.get("maximumVolumeSize") or each.get("capacity") or "0"
        if each["storageClassName"] == kind["metadata"]["name"] and reaches and size(most) >= wanted:
            return []
    return [f"no storage is left for claim {name} where the node reaches it"]


def _driver_of(pod: Object, name: str, cluster: Cluster) -> tuple[str, str] | None:
    """(driver, volume) that a claim is attached by; a claim without volume counts by its class's provisioner."""
    space = pod["metadata"]["namespace"]
    claim = _find(cluster, "PersistentVolumeClaim", name, space)
    if claim is None:
        return None
    volume = _find(cluster, "PersistentVolume", claim["spec"].get("volumeName") or "")
    if volume is not None:
        csi = volume["spec"].get("csi")
        return (csi["driver"], csi["volumeHandle"]) if csi else None
    kind = _find(cluster, "StorageClass", claim["spec"].get("storageClassName") or "")
    return (kind["provisioner"], f"{space}/{name}") if kind is not None else None


def _attachments(pod: Object, node: Object, cluster: Cluster) -> list[str]:
    """Volumes of a CSI driver that a node takes at most."""
    csi_node = _find(cluster, "CSINode", node["metadata"]["name"])
    limits = {
        d["name"]: d["allocatable"]["count"]
        for d in (csi_node or {"spec": {}})["spec"].get("drivers") or ()
        if (d.get("allocatable") or {}).get("count") is not None
    }

    def used(of: Object) -> set[tuple[str, str]]:
        names = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in of["spec"].get("volumes") or ()]
        return {found for n in names if n and (found := _driver_of(of, n, cluster))}

    there = set().union(*(used(p) for p in _live_pods(cluster, node)))
    for each in cluster.get("VolumeAttachment", ()):
        volume = _find(cluster, "PersistentVolume", each["spec"]["source"].get("persistentVolumeName") or "")
        if each["spec"]["nodeName"] == node["metadata"]["name"] and volume is not None and volume["spec"].get("csi"):
            there.add((volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"]))
    new = used(pod) - there
    return [
        f"the node takes {limit} volumes of {driver}"
        for driver, limit in limits.items()
        if any(d == driver for d, _ in new) and sum(d == driver for d, _ in there | new) > limit
    ]


def _disk_violations(pod: Object, node: Object, cluster: Cluster) -> list[str]:
    """Disks named in the pod itself: two pods of a node share them read-only at most."""
    return [
        f"disk {a['name']} is in use by {other['metadata']['name']}"
        for other in _live_pods(cluster, node)
        for a in pod["spec"].get("volumes") or ()
        for b in other["spec"].get("volumes") or ()
        if _same_disk(a, b)
    ]


def _same_disk(a: Object, b: Object) -> bool:
    if a.get("gcePersistentDisk") and b.get("gcePersistentDisk"):
        x, y = a["gcePersistentDisk"], b["gcePersistentDisk"]
        return x["pdName"] == y["pdName"] and not (x.get("readOnly") and y.get("readOnly"))
    if a.get("awsElasticBlockStore") and b.get("awsElasticBlockStore"):
        return bool(a["awsElasticBlockStore"]["volumeID"] == b["awsElasticBlockStore"]["volumeID"])
    if a.get("iscsi") and b.get("iscsi"):
        x, y = a["iscsi"], b["iscsi"]
        return x["iqn"] == y["iqn"] and not (x.get("readOnly") and y.get("readOnly"))
    if a.get("rbd") and b.get("rbd"):
        x, y = a["rbd"], b["rbd"]
        same = (x["image"], x.get("pool") or "rbd") == (y["image"], y.get("pool") or "rbd")
        return same and bool(set(x["monitors"]) & set(y["monitors"])) and not (x.get("readOnly") and y.get("readOnly"))
    return False
