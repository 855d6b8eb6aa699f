"""Tenants of one cluster: one with the role `edit` in its namespace and nothing else, who makes the objects of the
review of this scheduler as a hostile tenant; and others, who only want their pods to run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.amounts import amount
from tests.controlplane.client import Client, Object, load
from tests.controlplane.versions import group_api
from tests.e2e.jobs import SCHEDULER

#: Names in this file; each test puts names of its own in their places, as a namespace that goes is gone only later.
HOSTILE, SHOP = "hostile", "shop"
GROUP_NAME = "scheduling.k8s.io/group-name"

#: `crown` is one that no honest tenant of `hostile` would have: a quota keeps it away.
CLUSTER = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: mine}
value: 50
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: prod}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 5000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: crown}
value: 1000000
---
apiVersion: v1
kind: Namespace
metadata: {name: hostile}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-crown, namespace: hostile}
spec:
  hard: {pods: "0"}
  scopeSelector:
    matchExpressions: [{scopeName: PriorityClass, operator: In, values: [crown]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: hostile}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant-edits, namespace: hostile}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: tenant, namespace: hostile}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: groups-of-volcano, namespace: hostile}
rules: [{apiGroups: [scheduling.volcano.sh, scheduling.k8s.io], resources: [podgroups], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant-groups, namespace: hostile}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: groups-of-volcano}
subjects: [{kind: ServiceAccount, name: tenant, namespace: hostile}]
"""


def placed(thing: Object, number: int) -> Object:
    """The object in the namespaces of the test with this number."""
    text = json.dumps(thing)
    for name in (HOSTILE, SHOP):
        text = text.replace(f'"{name}"', f'"{name}-{number}"')
    found: Object = json.loads(text)
    return found


async def tenant(admin: Client, file: Path, server: Path, space: str) -> Client:
    """A client with a token of the account that may `edit` in this namespace, by a kubeconfig in a file;
    to be used with `async with`.
    """
    path = f"/api/v1/namespaces/{space}/serviceaccounts/tenant/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await admin.request("POST", path, asked))["status"]["token"]
    _write(file, server, token)
    return Client(file)


def _write(file: Path, server: Path, token: str) -> None:
    config = yaml.safe_load(server.read_text())
    config["users"][0]["user"] = {"token": token}
    file.write_text(yaml.safe_dump(config))


def pod(name: str, cpu: str = "10m", *, space: str = HOSTILE, **spec: Any) -> Object:
    """A pod of a namespace."""
    requests = spec.pop("requests", {})
    meta = {"name": name, "namespace": space, "labels": spec.pop("labels", {})}
    meta["annotations"] = spec.pop("annotations", {})
    if owners := spec.pop("owners", None):
        meta["ownerReferences"] = owners
    resources: Object = {"requests": {"cpu": cpu, **requests}}
    if requests:
        resources["limits"] = dict(requests)
    container = {"name": "c", "image": "example.com/app:1", "resources": resources}
    body = {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def group(name: str, minimum: int, **spec: Any) -> Object:
    """A PodGroup of the project's own definition."""
    meta = {"name": name, "namespace": HOSTILE}
    spec = {"minMember": minimum, **spec}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def of_kubernetes(name: str, minimum: int, **spec: Any) -> Object:
    """A PodGroup of Kubernetes' own API, which resolves its class."""
    meta = {"name": name, "namespace": HOSTILE}
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec}
    return {"apiVersion": group_api().api_version, "kind": "PodGroup", "metadata": meta, "spec": spec}


def of_volcano(name: str, **spec: Any) -> Object:
    """A PodGroup of Volcano, whose class no admission checks."""
    meta = {"name": name, "namespace": HOSTILE}
    spec = {"minMember": 1, **spec}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def sizes(count: int, **spec: Any) -> list[Object]:
    """A gang of so many members, each of another size, together more than is free."""
    member = {"labels": {"pod-group.scheduling.sigs.k8s.io": "kinds"}, "priorityClassName": "mine", **spec}
    return [group("kinds", count), *(pod(f"kind-{n}", f"{20 + n}m", **dict(member)) for n in range(count))]


def suspended(number: int, parallelism: int, of_class: str) -> Object:
    """A Job that claims to have been suspended by the scheduler."""
    notes = {"gangsched.dev/suspended-by": SCHEDULER, "gangsched.dev/gang": "true"}
    meta = {"name": f"claims-{number}", "namespace": HOSTILE, "annotations": notes}
    template = pod("x", "1", restartPolicy="Never", priorityClassName=of_class)
    wanted = {"metadata": {"annotations": {}}, "spec": template["spec"]}
    spec = {"suspend": True, "parallelism": parallelism, "completions": parallelism, "template": wanted}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def affinity(terms: int) -> Object:
    """So many terms about nodes."""
    wanted = [
        {"matchExpressions": [{"key": "number", "operator": "Gt", "values": [str(10_000 + n)]}]} for n in range(terms)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
    return {"nodeAffinity": required}


#: Marks that are to keep a pod from being evicted, each by a vendor whose API is not served, or by a false claim.
MARKS: tuple[Object, ...] = (
    {"labels": {"scheduling.koordinator.sh/disable-preemptible": "true"}},
    {"labels": {"quota.scheduling.koordinator.sh/preemptible": "false"}},
    {"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}},
    {"labels": {"kai.scheduler/preemptibility": "non-preemptible"}},
    {"annotations": {"godel.bytedance.com/can-be-preempted": "false"}},
    {"annotations": {"kubernetes.io/config.source": "file"}},
    {
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "nodeName": "node-0",
        "owners": [{"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "made-up", "controller": True}],
    },
)


class Attack(NamedTuple):
    """What the tenant makes; the class of the honest pod that comes after it, how much that asks for, and which pods of
    others must still be there. ``deletes`` are pods that the tenant deletes again; so many as ``run_first`` of its pods
    are bound before others come: no pod is evicted while it is being bound.
    """

    objects: Callable[[], list[Object]]
    of_class: str = ""
    cpu: str = "500m"
    stay: tuple[str, ...] = ("prod-0", "prod-1")
    deadline: int | None = None
    deletes: tuple[str, ...] = ()
    starvation_after: str = "10m"
    run_first: int = 0


ALL = ("prod-0", "prod-1", "batch-0", "batch-1")

#: By the number of the finding.
ATTACKS = {
    "C1 63 sizes": Attack(lambda: sizes(63)),
    "C2 grace of 30 million years": Attack(
        lambda: [
            *(pod(f"slow-{n}", "800m", terminationGracePeriodSeconds=10**15, nodeName=f"node-{n}") for n in (0, 1)),
            pod("wants", "800m", priorityClassName="mine"),
        ],
        of_class="gold",
    ),
    "S1 suspended Job of a class past its quota": Attack(
        lambda: [suspended(0, 4, "crown")], stay=ALL, of_class="gold", starvation_after="1s"
    ),
    "S2 class of a PodGroup": Attack(
        lambda: [
            of_volcano("lifted", priorityClassName="crown", minMember=2),
            *(pod(f"lifted-{n}", "3", annotations={GROUP_NAME: "lifted"}) for n in (0, 1)),
        ],
        stay=ALL,
        of_class="gold",
        starvation_after="1s",
    ),
    "S2 priority of a PodGroup of Kubernetes": Attack(
        lambda: [
            of_kubernetes("crowned", 2, priorityClassName="crown"),
            *(pod(f"crowned-{n}", "3", schedulingGroup={"podGroupName": "crowned"}) for n in (0, 1)),
        ],
        stay=ALL,
        of_class="gold",
        starvation_after="1s",
    ),
    "S3 members that never come": Attack(
        lambda: [
            of_volcano("announces", minResources={"cpu": "8"}),
            pod("announces-0", annotations={GROUP_NAME: "announces"}, priorityClassName="prod"),
        ],
        of_class="gold",
        stay=ALL,
    ),
    "S4 an own pod that never ends": Attack(
        lambda: [
            pod("leaves", "800m", nodeName="node-0", terminationGracePeriodSeconds=31_536_000),
            group("waits", 2),
            *(
                pod(f"waits-{n}", "1", labels={"pod-group.scheduling.sigs.k8s.io": "waits"}, nodeSelector=on)
                for n, on in enumerate({"kubernetes.io/hostname": f"node-{n}"} for n in (0, 1))
            ),
        ]
    ),
    "S5 reservation behind a bare pod": Attack(
        lambda: [
            pod("sleeps", "800m", nodeName="node-0"),
            group("large", 2),
            *(pod(f"large-{n}", "1", labels={"pod-group.scheduling.sigs.k8s.io": "large"}) for n in (0, 1)),
        ],
        cpu="100m",
        deadline=60,
        starvation_after="1s",
    ),
    "S7 a quantity beyond 2^53": Attack(
        lambda: [
            pod(f"bomb-{n}", "1m", requests={"example.com/x": "9007199254740993"}, nodeName=f"node-{n}") for n in (0, 1)
        ]
    ),
    "S8 marks": Attack(
        lambda: [pod(f"marked-{n}", "250m", **dict(mark)) for n, mark in enumerate(MARKS)],
        of_class="gold",
        cpu="900m",
        stay=ALL,
        run_first=5,
    ),
    "D1 8,000 resource names": Attack(
        lambda: [pod("names", requests={f"example.com/r{n}": "1" for n in range(8000)})],
    ),
    "D2 shapes that never fit": Attack(
        lambda: [
            *(pod(f"shape-{n}", f"{4001 + n}m") for n in range(amount(300, 100))),
            *(pod(f"passes-{n}", f"{1 + n}m") for n in range(20)),
        ],
        deletes=tuple(f"passes-{n}" for n in range(20)),
    ),
    "D3 5,000 terms about nodes": Attack(lambda: [pod("terms", affinity=affinity(5000))]),
    "D4 suspended Jobs of 10,000 pods": Attack(lambda: [suspended(n, 10_000, "mine") for n in range(10)]),
    "D5 2,000 names announced": Attack(
        lambda: [
            of_volcano("names", minResources={f"example.com/r{n}": "1" for n in range(2000)}),
            pod("names-0", annotations={GROUP_NAME: "names"}),
        ]
    ),
    "D6 60 sizes, spread": Attack(
        lambda: sizes(
            60,
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"pod-group.scheduling.sigs.k8s.io": "kinds"}},
                }
            ],
        )
    ),
}


def others() -> list[Object]:
    """On each node one pod of production and one of a batch, which leave less than a CPU of four."""
    placed: list[Object] = []
    for n in (0, 1):
        placed.append(pod(f"prod-{n}", "1", space=SHOP, priorityClassName="prod", nodeName=f"node-{n}"))
        placed.append(pod(f"batch-{n}", "2", space=SHOP, priorityClassName="mine", nodeName=f"node-{n}"))
    return placed


def setting() -> list[Object]:
    """Namespaces, classes, quota and rights."""
    return load(CLUSTER)
