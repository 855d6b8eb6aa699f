"""Random small clusters and pods that draw on every rule of a default kube-scheduler profile, as plain manifests.

A seed gives the same case for ever. Clusters are small and crowded on purpose: rules have to bind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.controlplane.client import Object
from tests.sidebyside import volumes

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: Namespaces that exist in every case, with the labels that namespace selectors look at.
NAMESPACES = {"sbs-a": {"team": "red", "tier": "front"}, "sbs-b": {"team": "blue"}}
#: PriorityClasses that exist in every case.
PRIORITIES = {"sbs-low": 0, "sbs-mid": 10, "sbs-high": 1000}
IMAGES = {"registry.test/small:v1": 30 << 20, "registry.test/big:v1": 700 << 20, "registry.test/huge:latest": 3 << 30}
APPS = ("web", "db", "cache")
GPU = "example.com/gpu"


@dataclass
class Case:
    """One cluster and the pods to ask about, one after another. ``objects`` in the order in which to create them.

    ``statuses`` are merge patches to status subresources, for what the API server does not take on creation;
    ``leaving`` are objects (kind, namespace, name) that are deleted, and stay by a finalizer. ``stays`` says of each
    pod whether it stays on its node, to be seen by those after it.
    """

    number: int
    objects: list[Object] = field(default_factory=list)
    statuses: list[tuple[str, str, str, Object]] = field(default_factory=list)
    leaving: list[tuple[str, str, str]] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    stays: list[bool] = field(default_factory=list)


def generate(seed: int, number: int, pods: int, scheduler: str, without: frozenset[str] = frozenset()) -> Case:
    """Case ``number`` of a seed with so many pods to ask about; ``without`` are areas of :data:`AREAS`."""
    rng = Random(f"{seed}/{number}")
    case = Case(number)
    nodes = [_node(rng, f"c{number}-n{i}") for i in range(rng.randint(2, 10))]
    case.objects += nodes
    if rng.random() < 0.3:
        case.objects.append(_service(rng))
    case.objects += [_owner(kind) for kind in OWNERS if rng.random() < 0.3]
    store = None
    if "volumes" not in without and rng.random() < 0.6:
        store = volumes.Store(rng, number, [n["metadata"] for n in nodes])
        case.objects += store.objects
        case.statuses += store.statuses
        case.leaving += store.leaving
    for i in range(rng.randint(0, 3 * len(nodes))):
        _resident(rng, case, f"r{i}", rng.choice(nodes)["metadata"]["name"], without, store)
    areas = sorted({*AREAS} - without)
    often = [a for a in OFTEN if a in areas]
    for i in range(pods):
        pod = _pod(rng, f"p{i}")
        pod["spec"]["schedulerName"] = scheduler
        chosen = rng.sample(areas, rng.choice((0, 1, 1, 2)))
        if often and rng.random() < 0.7:
            chosen.append(rng.choice(often))
        # Containers come last: what a pod asks for as a whole must cover what they ask for.
        for area in sorted(dict.fromkeys(chosen), key=lambda area: area == "containers"):
            if area == "volumes":
                if store is not None:
                    store.claim(pod)
            else:
                AREAS[area](rng, pod, case)
        case.pods.append(pod)
        case.stays.append(rng.random() < 0.5)
    return case


def _node(rng: Random, name: str) -> Object:
    labels = {HOSTNAME: name, "cores": rng.choice(("2", "4", "8", "many"))}
    if rng.random() < 0.85:
        labels[ZONE] = f"z{rng.randint(1, 3)}"
        labels["topology.kubernetes.io/region"] = "r1"
    if rng.random() < 0.7:
        labels["disk"] = rng.choice(("ssd", "hdd"))
    if rng.random() < 0.1:
        del labels[HOSTNAME]
    room = {
        "cpu": rng.choice(("1500m", "2", "4", "7900m")),
        "memory": rng.choice(("2Gi", "4Gi", "8000Mi", "16Gi")),
        "pods": str(rng.choice((4, 10, 10, 110))),
        "ephemeral-storage": rng.choice(("10Gi", "50G")),
    }
    if rng.random() < 0.4:
        room[GPU] = str(rng.randint(0, 4))
    if rng.random() < 0.3:
        room["hugepages-2Mi"] = rng.choice(("64Mi", "256Mi"))
    spec: Object = {}
    if rng.random() < 0.06:
        spec["unschedulable"] = True
    taints = [dict(t) for t in rng.sample(TAINTS, rng.choice((0, 0, 0, 0, 0, 1, 1, 2)))]
    if taints:
        spec["taints"] = taints
    images = [{"names": [image], "sizeBytes": size} for image, size in IMAGES.items() if rng.random() < 0.4]
    status: Object = {"capacity": room, "allocatable": room, "images": images}
    if rng.random() < 0.5:
        status["declaredFeatures"] = [FEATURE]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": status}  # fmt: skip


#: Owners whose selectors kube-scheduler spreads by when a pod asks for no spreading itself.
OWNERS = ("ReplicaSet", "StatefulSet", "ReplicationController")
FEATURE = "RestartAllContainersOnContainerExits"
#: RuntimeClasses that exist in every case; the API server copies their overhead into pods.
RUNTIME_CLASSES: list[Object] = [
    {"metadata": {"name": "sbs-heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "300m", "memory": "100Mi"}}}
]

TAINTS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "level", "value": "5", "effect": "NoSchedule"},
    {"key": "evict", "effect": "NoExecute"},
    {"key": "spot", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "slow", "effect": "PreferNoSchedule"},
)


def _owner(kind: str) -> Object:
    labels = {"app": "web", "rev": "1"} if kind == "ReplicaSet" else {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec: Object = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    if kind == "ReplicationController":
        spec["selector"] = labels
    if kind == "StatefulSet":
        spec["serviceName"] = "none"
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "owner", "namespace": "sbs-a"}, "spec": spec}


def _service(rng: Random) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "svc", "namespace": rng.choice(list(NAMESPACES))},
        "spec": {"selector": {"app": rng.choice(APPS)}, "ports": [{"port": 80}]},
    }


def _pod(rng: Random, name: str) -> Object:
    spec: Object = {
        "containers": [{"name": "main", "image": rng.choice(list(IMAGES)), "resources": _resources(rng)}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": rng.choice(list(PRIORITIES)),
    }
    labels = {"app": rng.choice(APPS), "rev": rng.choice(("1", "2"))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": rng.choice(list(NAMESPACES)), "labels": labels},
        "spec": spec,
    }


def _resources(rng: Random) -> Object:
    requests: Object = {}
    if rng.random() < 0.75:
        requests["cpu"] = rng.choice(("0", "50m", "50m", "250m", "500m", "1500m"))
    if rng.random() < 0.75:
        requests["memory"] = rng.choice(("64Mi", "300M", "1Gi", "1.5Gi"))
    return {"requests": requests} if requests else {}


def _resident(
    rng: Random, case: Case, name: str, node: str, without: frozenset[str], store: volumes.Store | None
) -> None:
    """A pod that is there already."""
    pod = _pod(rng, name)
    pod["spec"]["nodeName"] = node
    areas = sorted({"ports", "pod affinity", "containers", "extended", "overhead", "owned"} - without)
    if rng.random() < 0.5:
        AREAS[rng.choice(areas)](rng, pod, case)
    space = pod["metadata"]["namespace"]
    if store is not None and rng.random() < 0.2:
        store.claim(pod)
    luck = rng.random()
    if luck < 0.05:
        pod["metadata"]["finalizers"] = ["sbs.test/stay"]
        case.leaving.append(("Pod", space, name))
    elif luck < 0.1:
        case.statuses.append(("Pod", space, name, {"phase": rng.choice(("Succeeded", "Failed"))}))
    elif luck < 0.2 and "resize" not in without:
        case.statuses.append(("Pod", space, name, _resizing(rng)))
    case.objects.append(pod)


def _resizing(rng: Random) -> Object:
    """What a kubelet reports while a pod is being resized in place."""
    given = {"cpu": rng.choice(("100m", "700m", "1200m")), "memory": rng.choice(("100Mi", "900Mi"))}
    state: Object = {"name": "main", "ready": True, "restartCount": 0, "image": "x", "imageID": "x",
                     "resources": {"requests": given}}  # fmt: skip
    if rng.random() < 0.6:
        state["allocatedResources"] = {"cpu": rng.choice(("100m", "1500m")), "memory": "200Mi"}
    status: Object = {"containerStatuses": [state]}
    if rng.random() < 0.4:
        reason = rng.choice(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return status


# -------------------------------------------------------------------------------------------- areas: what pods ask for


def _nothing(rng: Random, pod: Object, case: Case) -> None:
    """Only the resources that every pod has."""


def _big(rng: Random, pod: Object, case: Case) -> None:
    pod["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": rng.choice(("2", "3900m", "6", "64")), "memory": rng.choice(("3Gi", "7Gi", "12Gi"))}
    }


def _owned(rng: Random, pod: Object, case: Case) -> None:
    """Somebody's replica, spread by the default constraints."""
    kind = rng.choice(OWNERS)
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    owner = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "u", "controller": True}
    pod["metadata"] |= {"namespace": "sbs-a", "labels": {"app": "web", "rev": "1"}, "ownerReferences": [owner]}


def _overhead(rng: Random, pod: Object, case: Case) -> None:
    pod["spec"]["runtimeClassName"] = "sbs-heavy"


def _features(rng: Random, pod: Object, case: Case) -> None:
    """Something that only nodes that declare it can do."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
    pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def _containers(rng: Random, pod: Object, case: Case) -> None:
    """Several containers, init containers, sidecars, pod-level resources."""
    spec = pod["spec"]
    for i in range(rng.randint(0, 2)):
        spec["containers"].append({"name": f"more{i}", "image": "registry.test/small:v1", "resources": _resources(rng)})
    init = []
    for i in range(rng.randint(0, 3)):
        one = {"name": f"init{i}", "image": rng.choice(list(IMAGES)), "resources": _resources(rng)}
        if rng.random() < 0.4:
            one["restartPolicy"] = "Always"
        init.append(one)
    if init:
        spec["initContainers"] = init
    if rng.random() < 0.35 and not any("resources" in c and c["resources"] for c in init):
        for each in spec["containers"]:
            each["resources"] = {"requests": {"cpu": "50m"}} if rng.random() < 0.5 else {}
        which = rng.choice(({"cpu": "700m"}, {"memory": "900Mi"}, {"cpu": "1", "memory": "2Gi"}))
        spec["resources"] = {rng.choice(("requests", "limits")): which}


def _extended(rng: Random, pod: Object, case: Case) -> None:
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    requests = resources.setdefault("requests", {})
    what = rng.choice((GPU, "ephemeral-storage", "hugepages-2Mi", "example.com/none"))
    amount = {GPU: str(rng.randint(1, 3)), "ephemeral-storage": rng.choice(("4Gi", "20Gi")), "hugepages-2Mi": "64Mi"}
    requests[what] = amount.get(what, "1")
    if what != "ephemeral-storage":
        resources["limits"] = {what: requests[what]}
    if what == "hugepages-2Mi":
        requests.setdefault("cpu", "100m")


def _ports(rng: Random, pod: Object, case: Case) -> None:
    ports = []
    for number in rng.sample((8080, 9090, 7070), rng.choice((1, 1, 2))):
        port: Object = {"containerPort": number, "hostPort": number, "protocol": rng.choice(("TCP", "TCP", "UDP"))}
        if rng.random() < 0.4:
            port["hostIP"] = rng.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
        ports.append(port)
    pod["spec"]["containers"][0]["ports"] = ports
    if rng.random() < 0.2:
        pod["spec"]["hostNetwork"] = True
        for port in ports:
            port["hostPort"] = port["containerPort"]


def _selector(rng: Random, pod: Object, case: Case) -> None:
    pod["spec"]["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd", "tape"))}
    if rng.random() < 0.3:
        pod["spec"]["nodeSelector"][ZONE] = f"z{rng.randint(1, 3)}"


def _requirement(rng: Random) -> Object:
    key, operator = rng.choice(("disk", ZONE, "cores")), rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    if key == "cores" and rng.random() < 0.7:
        return {"key": key, "operator": rng.choice(("Gt", "Lt")), "values": [rng.choice(("3", "4", "6"))]}
    values = {"disk": ["ssd"], ZONE: rng.sample(("z1", "z2", "z3"), 2), "cores": ["2", "many"]}[key]
    return {"key": key, "operator": operator} | ({"values": values} if operator in ("In", "NotIn") else {})


def _node_term(rng: Random) -> Object:
    return {"matchExpressions": [_requirement(rng) for _ in range(rng.choice((1, 1, 2)))]}


def _node_affinity(rng: Random, pod: Object, case: Case) -> None:
    affinity: Object = {}
    if rng.random() < 0.6:
        terms = [_node_term(rng) for _ in range(rng.choice((1, 2)))]
        if rng.random() < 0.3:
            named = [f"c{case.number}-n{rng.randint(0, 11)}" for _ in range(1)]
            field_term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": named}]}
            terms = [field_term] if rng.random() < 0.7 else [*terms, field_term]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if not affinity or rng.random() < 0.5:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 10, 77)), "preference": _node_term(rng)} for _ in range(rng.randint(1, 3))
        ]
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity


def _tolerations(rng: Random, pod: Object, case: Case) -> None:
    choices: list[Object] = [
        {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Equal", "value": "web"},
        {"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"},
        {"key": "level", "operator": "Lt", "value": "3", "effect": "NoSchedule"},
        {"key": "level", "operator": "Lt", "value": "9"},
        {"key": "evict", "operator": "Exists", "effect": "NoExecute"},
        {"key": "spot", "operator": "Exists", "effect": "PreferNoSchedule"},
        {"key": "slow", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    pod["spec"]["tolerations"] = rng.sample(choices, rng.randint(1, 3))


def _label_selector(rng: Random) -> Object | None:
    luck = rng.random()
    if luck < 0.65:
        return {"matchLabels": {"app": rng.choice(APPS)}}
    if luck < 0.85:
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": rng.sample(APPS, 2)} if operator in ("In", "NotIn") else {}
        return {"matchExpressions": [{"key": rng.choice(("app", "rev", "none")), "operator": operator, **values}]}
    return {} if luck < 0.95 else None


def _pod_term(rng: Random) -> Object:
    selector = _label_selector(rng)
    term: Object = {"topologyKey": rng.choice((HOSTNAME, ZONE, ZONE, "disk"))}
    if selector is not None:
        term["labelSelector"] = selector
        if "rev" in str(selector):
            pass  # the API server refuses to be told of a label twice
        elif rng.random() < 0.15:
            term["matchLabelKeys"] = ["rev"]
        elif rng.random() < 0.1:
            term["mismatchLabelKeys"] = ["rev"]
    luck = rng.random()
    if luck < 0.15:
        term["namespaces"] = [rng.choice(list(NAMESPACES))]
    elif luck < 0.3:
        spaces: list[Object] = [{}, {"matchLabels": {"team": "red"}}, {"matchLabels": {"team": "green"}},
                                {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]  # fmt: skip
        term["namespaceSelector"] = rng.choice(spaces)
    return term


def _pod_affinity(rng: Random, pod: Object, case: Case) -> None:
    affinity = pod["spec"].setdefault("affinity", {})
    for kind in rng.choice((["podAffinity"], ["podAntiAffinity"], ["podAffinity", "podAntiAffinity"])):
        parts: Object = {}
        if rng.random() < 0.6:
            parts["requiredDuringSchedulingIgnoredDuringExecution"] = [
                _pod_term(rng) for _ in range(rng.choice((1, 1, 2)))
            ]
        if not parts or rng.random() < 0.5:
            parts["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice((1, 25, 100)), "podAffinityTerm": _pod_term(rng)}
                for _ in range(rng.choice((1, 2)))
            ]
        affinity[kind] = parts


def _spread(rng: Random, pod: Object, case: Case) -> None:
    out, seen = [], set()
    for _ in range(rng.choice((1, 1, 2))):
        key, when = rng.choice((HOSTNAME, ZONE, ZONE, "disk")), rng.choice(("DoNotSchedule", "ScheduleAnyway"))
        if (key, when) in seen:
            continue
        seen.add((key, when))
        rule: Object = {"maxSkew": rng.choice((1, 1, 2, 3)), "topologyKey": key, "whenUnsatisfiable": when}
        selector = _label_selector(rng)
        if selector is not None:
            rule["labelSelector"] = selector
            if rng.random() < 0.2 and "rev" not in str(selector):
                rule["matchLabelKeys"] = ["rev"]
        if when == "DoNotSchedule" and rng.random() < 0.3:
            rule["minDomains"] = rng.choice((1, 2, 4))
        if rng.random() < 0.3:
            rule["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
        if rng.random() < 0.3:
            rule["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
        out.append(rule)
    pod["spec"]["topologySpreadConstraints"] = out


def _volumes(rng: Random, pod: Object, case: Case) -> None:
    """Handled by the cluster's volume store, which is what claims refer to."""


AREAS: dict[str, Callable[[Random, Object, Case], None]] = {
    "nothing": _nothing,
    "big": _big,
    "containers": _containers,
    "extended": _extended,
    "features": _features,
    "overhead": _overhead,
    "owned": _owned,
    "ports": _ports,
    "selector": _selector,
    "node affinity": _node_affinity,
    "tolerations": _tolerations,
    "pod affinity": _pod_affinity,
    "spread": _spread,
    "volumes": _volumes,
}
#: Areas whose rules bind only where they meet the right cluster: they are drawn more often than the others.
OFTEN = ("pod affinity", "spread", "volumes", "ports")
