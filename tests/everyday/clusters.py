"""Whole clusters: nodes, teams with workloads of every kind and their pods, quota, storage, budgets."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.everyday.pods import GPU, HOSTNAME, OTHERS, OURS, PRIORITIES, ZONE, Made, Object, Style, often, template

TEAMS = {"sbs-a": {"team": "red", "tier": "front"}, "sbs-b": {"team": "blue"}}
CREATED = "2026-01-01T00:00:00Z"
KUEUE, JOBSETS, LWS = "kueue.x-k8s.io/v1beta1", "jobset.x-k8s.io/v1alpha2", "leaderworkerset.x-k8s.io/v1"
GANG, QUEUE = "gangsched.dev/gang", "kueue.x-k8s.io/queue-name"
TAINTS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "spot", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "maintenance", "effect": "NoExecute"},
)
_SERVES, _STATEFUL, _COMPUTES = Style(serves=True), Style(stateful=True), Style(computes=True)
_UNITS = {"m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "M": 10**6, "G": 10**9}


def amount(text: str) -> float:
    """A quantity as a number."""
    for unit, size in _UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * size
    return float(text)


@dataclass
class Cluster:
    """All objects of a cluster, by kind, namespace and name. ``waiting`` are the keys of pods without a node."""

    seed: int
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)

    def add(self, made: Object) -> Object:
        """Put an object into the cluster; it has a UID from now on."""
        meta = made["metadata"]
        key = (made["kind"], meta.get("namespace", ""), meta["name"])
        meta.setdefault("uid", f"uid-{'-'.join(filter(None, key)).lower()}")
        meta.setdefault("creationTimestamp", CREATED)
        self.objects[key] = made
        return made

    def of(self, *kinds: str) -> list[Object]:
        """The objects of these kinds."""
        return [made for (kind, _, _), made in self.objects.items() if kind in kinds]

    @property
    def waiting(self) -> list[Object]:
        """The pods without a node."""
        return [pod for pod in self.of("Pod") if not pod["spec"].get("nodeName")]


def cluster(seed: int, *, gangs: bool = True) -> Cluster:
    """The cluster of this seed. Without ``gangs`` it has what a plain kube-scheduler serves."""
    return _Maker(seed, gangs=gangs).made


class _Maker:
    def __init__(self, seed: int, *, gangs: bool) -> None:
        self.rng = Random(f"everyday/{seed}")
        self.made = Cluster(seed)
        self._free: dict[str, dict[str, float]] = {}
        self._gangs = gangs
        self._names = 0
        rng = self.rng
        for name, labels in TEAMS.items():
            gang = {GANG: "true"} if gangs and often(rng, 0.15) else {}
            self.made.add(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels | gang}}
            )
        for name, value in PRIORITIES.items():
            made: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            self.made.add({**made, "value": value})
        for number in range(rng.randint(3, 8)):
            self._node(f"node-{number}")
        self._storage()
        self._queues = gangs and often(rng, 0.5)
        if self._queues:
            self._quota()
        kinds = [self._deployment] * 5 + [self._stateful_set] * 2 + [self._job] * 3 + [self._bare] * 2
        if gangs:
            kinds += [self._jobset, self._jobset, self._ray, self._pytorch, self._lws, self._pod_group, self._pod_group]
        if often(rng, 0.6):
            self._daemon_set()
        for _ in range(rng.randint(4, 9)):
            rng.choice(kinds)()

    # -- surroundings --------------------------------------------------------------------------------------

    def _node(self, name: str) -> None:
        rng = self.rng
        labels = {HOSTNAME: name, ZONE: rng.choice(("z1", "z2", "z3")), "kubernetes.io/arch": "amd64"}
        if often(rng, 0.6):
            labels["disk"] = rng.choice(("ssd", "hdd"))
        room = {"cpu": rng.choice(("2", "4", "4", "8")), "memory": rng.choice(("4Gi", "8Gi", "16Gi"))}
        room |= {"pods": rng.choice(("8", "30", "110")), "ephemeral-storage": "50Gi"}
        if often(rng, 0.25):
            room[GPU] = rng.choice(("1", "2", "4"))
        spec: Object = {}
        if often(rng, 0.2):
            spec["taints"] = [dict(rng.choice(TAINTS))]
        if often(rng, 0.06):
            spec["unschedulable"] = True
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        images = [{"names": ["registry.test/big:v1"], "sizeBytes": 700 << 20}] if often(rng, 0.4) else []
        self.made.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
                       "status": {**status, "images": images}})  # fmt: skip
        self._free[name] = {resource: amount(units) for resource, units in room.items()}

    def _storage(self) -> None:
        made: Object = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "sbs-wait"}}
        self.made.add({**made, "provisioner": "csi.sbs.test", "volumeBindingMode": "WaitForFirstConsumer"})

    def _quota(self) -> None:
        rng = self.rng
        self.made.add({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}})
        cohort = "cohort" if often(rng, 0.7) else ""
        for team in TEAMS:
            name = f"queue-{team}"
            quota = [{"name": "cpu", "nominalQuota": rng.choice(("2", "6", "12"))},
                     {"name": "memory", "nominalQuota": rng.choice(("4Gi", "16Gi", "64Gi"))}]  # fmt: skip
            spec: Object = {
                "namespaceSelector": {},
                "queueingStrategy": rng.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
                "resourceGroups": [
                    {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": quota}]}
                ],
                "preemption": {
                    "reclaimWithinCohort": rng.choice(("Any", "Never")),
                    "withinClusterQueue": rng.choice(("Never", "LowerPriority")),
                },
            }
            if cohort:
                spec["cohort"] = cohort
            self.made.add({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
            self.made.add({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "main", "namespace": team},
                           "spec": {"clusterQueue": name}})  # fmt: skip

    # -- pods ----------------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{stem}-{self._names}"

    def _fits(self, spec: Object) -> str:
        """A node with room for a pod that runs already, which is taken; empty if there is none."""
        wanted = {"pods": 1.0}
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            given = container.get("resources", {})
            for resource, units in {**given.get("limits", {}), **given.get("requests", {})}.items():
                wanted[resource] = wanted.get(resource, 0.0) + amount(units)
        for resource, units in spec.get("overhead", {}).items():
            wanted[resource] = wanted.get(resource, 0.0) + amount(units)
        for name in self.rng.sample(sorted(self._free), len(self._free)):
            free = self._free[name]
            if all(units <= free.get(resource, 0.0) for resource, units in wanted.items()):
                for resource, units in wanted.items():
                    free[resource] -= units
                return name
        return ""

    def pod(self, space: str, name: str, made: Made, *, runs: float, **more: Any) -> Object:
        """A pod of a template, on a node with this likelihood. ``more`` goes into its metadata."""
        rng, spec = self.rng, copy.deepcopy(made.spec)
        meta: Object = {"name": name, "namespace": space, "labels": dict(made.labels), **more}
        if made.annotations:
            meta["annotations"] = dict(made.annotations)
        spec["schedulerName"] = OURS if often(rng, 0.8) else OTHERS
        node = self._fits(spec) if often(rng, runs) else ""
        status: Object = {"phase": "Pending"}
        if node:
            spec["nodeName"] = node
            status = {"phase": "Running", "startTime": CREATED}
        elif often(rng, 0.05):
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        if often(rng, 0.05):
            meta["finalizers"] = ["example.com/clean-up"]
        return self.made.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})

    def _owner(self, made: Object) -> list[Object]:
        meta = self.made.add(made)["metadata"]
        reference = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": meta["name"], "uid": meta["uid"]}
        return [{**reference, "controller": True, "blockOwnerDeletion": True}]

    def _template(self, style: Style, space: str, *, gang: float = 0.0) -> tuple[str, Made]:
        app = self.rng.choice(("web", "db", "cache", "api", "batch"))
        made = template(self.rng, app, style)
        if self._queues and style.computes and often(self.rng, 0.5):
            made.labels[QUEUE] = "main"
        if often(self.rng, gang):
            made.annotations[GANG] = "true"
        return app, made

    def _as_template(self, made: Made) -> Object:
        meta: Object = {"labels": made.labels}
        if made.annotations:
            meta["annotations"] = made.annotations
        return {"metadata": meta, "spec": {**copy.deepcopy(made.spec), "schedulerName": OURS}}

    # -- workloads -----------------------------------------------------------------------------------------

    def _space(self) -> str:
        return self.rng.choice(list(TEAMS))

    def _deployment(self) -> None:
        rng, space = self.rng, self._space()
        app, made = self._template(_SERVES, space)
        name, count = self.name(app), rng.choice((1, 2, 2, 3, 4))
        made.labels["pod-template-hash"] = "5f6"
        selector = {"matchLabels": {"app": app, "pod-template-hash": "5f6"}}
        spec: Object = {"replicas": count, "selector": selector, "template": self._as_template(made)}
        self.made.add(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": space},
                "spec": spec,
            }
        )
        owner = self._owner({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                             "metadata": {"name": f"{name}-5f6", "namespace": space}, "spec": spec})  # fmt: skip
        for number in range(count):
            self.pod(space, f"{name}-5f6-{number}", made, runs=0.6, ownerReferences=owner)
        meta = {"name": name, "namespace": space}
        if often(rng, 0.6):
            self.made.add({"apiVersion": "v1", "kind": "Service", "metadata": dict(meta),
                           "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}})  # fmt: skip
        if often(rng, 0.35):
            limit = rng.choice(({"minAvailable": 1}, {"maxUnavailable": 1}, {"maxUnavailable": "50%"}))
            self.made.add({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": dict(meta),
                           "spec": {"selector": {"matchLabels": {"app": app}}, **limit}})  # fmt: skip

    def _stateful_set(self) -> None:
        rng, space = self.rng, self._space()
        app, made = self._template(_STATEFUL, space, gang=0.15 if self._gangs else 0)
        name, count = self.name(app), rng.choice((1, 2, 3))
        spec: Object = {"replicas": count, "serviceName": name, "selector": {"matchLabels": {"app": app}}}
        meta = {"name": name, "namespace": space}
        owner = self._owner({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta,
                             "spec": {**spec, "template": self._as_template(made)}})  # fmt: skip
        claims = often(rng, 0.6)
        for number in range(count):
            each = f"{name}-{number}"
            if claims:
                self._claim(space, f"data-{each}")
                volumes: list[Object] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{each}"}}]
                if often(rng, 0.1):
                    volumes.append({"name": "logs", "persistentVolumeClaim": {"claimName": f"data-{each}"}})
                made = made._replace(spec={**made.spec, "volumes": volumes})
            labels = {
                **made.labels,
                "statefulset.kubernetes.io/pod-name": each,
                "apps.kubernetes.io/pod-index": str(number),
            }
            self.pod(space, each, made._replace(labels=labels), runs=0.5, ownerReferences=owner)

    def _claim(self, space: str, name: str) -> None:
        spec: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": "sbs-wait"}
        self.made.add({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                       "metadata": {"name": name, "namespace": space}, "status": {"phase": "Pending"},
                       "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}})  # fmt: skip

    def _job_spec(self, made: Made) -> Object:
        rng, count = self.rng, self.rng.choice((1, 2, 3))
        spec: Object = {
            "parallelism": count,
            "template": self._as_template(made),
            "backoffLimit": rng.choice((0, 1, 6)),
        }
        luck = rng.random()
        if luck < 0.35:
            spec |= {"completions": count, "completionMode": "Indexed"}
        elif luck < 0.8:
            spec["completions"] = count + rng.choice((0, 0, 2))
        return spec

    def _job(self) -> None:
        rng, space = self.rng, self._space()
        _, made = self._template(_COMPUTES, space, gang=0.3 if self._gangs else 0)
        name, spec = self.name("job"), self._job_spec(made)
        spec["suspend"] = QUEUE in made.labels and often(rng, 0.5)
        meta: Object = {
            "name": name,
            "namespace": space,
            "labels": {k: v for k, v in made.labels.items() if k == QUEUE},
        }
        if GANG in made.annotations:
            meta["annotations"] = {GANG: "true"}
        owner = self._owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        self._pods_of_job(space, name, made, spec, owner)

    def _pods_of_job(self, space: str, name: str, made: Made, spec: Object, owner: list[Object]) -> None:
        runs = self.rng.choice((0.0, 0.5, 1.0))
        for number in range(0 if spec.get("suspend") else spec["parallelism"]):
            labels = {**made.labels, "batch.kubernetes.io/job-name": name, "job-name": name}
            notes = dict(made.annotations)
            if "completionMode" in spec:
                notes["batch.kubernetes.io/job-completion-index"] = str(number)
            each = made._replace(labels=labels, annotations=notes)
            self.pod(space, f"{name}-{number}", each, runs=runs, ownerReferences=owner)

    def _jobset(self) -> None:
        rng, space = self.rng, self._space()
        name, labels = self.name("set"), {}
        if self._queues and often(rng, 0.6):
            labels[QUEUE] = "main"
        suspend = bool(labels) and often(rng, 0.6)
        roles = [
            (role, rng.choice((1, 2)), self._template(_COMPUTES, space)[1])
            for role in rng.choice((["worker"], ["lead", "worker"]))
        ]
        specs = {role: self._job_spec(made) for role, _, made in roles}
        replicated = [
            {"name": role, "replicas": number, "template": {"spec": specs[role]}} for role, number, _ in roles
        ]
        meta: Object = {"name": name, "namespace": space, "labels": labels}
        if often(rng, 0.5):
            meta["annotations"] = {GANG: "true"}
        above = self._owner({"apiVersion": JOBSETS, "kind": "JobSet", "metadata": meta,
                             "spec": {"suspend": suspend, "replicatedJobs": replicated}})  # fmt: skip
        if suspend and often(rng, 0.5):
            return
        for role, number, made in roles:
            for index in range(number):
                each = f"{name}-{role}-{index}"
                of_set = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": role}
                spec = {**copy.deepcopy(specs[role]), "suspend": suspend}
                job: Object = {"name": each, "namespace": space, "labels": of_set, "ownerReferences": above}
                owner = self._owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": job, "spec": spec})
                self._pods_of_job(space, each, made._replace(labels={**made.labels, **of_set}), spec, owner)

    def _daemon_set(self) -> None:
        rng, space = self.rng, self._space()
        made = template(rng, "agent", Style(everywhere=True))
        name = self.name("agent")
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": self._as_template(made)}
        owner = self._owner(
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": space}, "spec": spec}
        )
        for node in self.made.of("Node"):
            to = {"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}
            terms = {"nodeSelectorTerms": [{"matchFields": [to]}]}
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
            each = made._replace(spec={**made.spec, "affinity": affinity})
            pod = self.pod(space, f"{name}-{node['metadata']['name']}", each, runs=0.0, ownerReferences=owner)
            free = self._free[node["metadata"]["name"]]
            if free["cpu"] > 2 and free["memory"] > 3 * 2**30 and free["pods"] > 1 and often(rng, 0.8):
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["spec"].pop("schedulingGates", None)
                pod["status"] = {"phase": "Running", "startTime": CREATED}
                free["cpu"], free["memory"], free["pods"] = (
                    free["cpu"] - 2,
                    free["memory"] - 3 * 2**30,
                    free["pods"] - 1,
                )

    def _bare(self) -> None:
        space = self._space()
        app, made = self._template(Style(), space)
        self.pod(space, self.name(app), made, runs=0.4)

    # -- operators and groups --------------------------------------------------------------------------------

    def _operated(self, space: str, version: str, kind: str, stem: str, spec: Object) -> tuple[str, list[Object]]:
        meta: Object = {"name": self.name(stem), "namespace": space}
        if often(self.rng, 0.6):
            meta["annotations"] = {GANG: "true"}
        return meta["name"], self._owner({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})

    def _ray(self) -> None:
        rng, space = self.rng, self._space()
        (_, head), (_, worker) = self._template(_COMPUTES, space), self._template(_COMPUTES, space)
        count = rng.choice((1, 2, 3))
        group = {"groupName": "small", "replicas": count, "minReplicas": 1, "template": self._as_template(worker)}
        spec = {"headGroupSpec": {"template": self._as_template(head)}, "workerGroupSpecs": [group]}
        name, owner = self._operated(space, "ray.io/v1", "RayCluster", "ray", spec)
        runs = rng.choice((0.0, 0.7))
        labels = {"ray.io/cluster": name, "ray.io/node-type": "head"}
        self.pod(
            space, f"{name}-head", head._replace(labels={**head.labels, **labels}), runs=runs, ownerReferences=owner
        )
        for number in range(count):
            labels = {"ray.io/cluster": name, "ray.io/node-type": "worker", "ray.io/group": "small"}
            each = worker._replace(labels={**worker.labels, **labels})
            self.pod(space, f"{name}-small-{number}", each, runs=runs, ownerReferences=owner)

    def _pytorch(self) -> None:
        rng, space = self.rng, self._space()
        (_, master), (_, worker) = self._template(_COMPUTES, space), self._template(_COMPUTES, space)
        count = rng.choice((1, 2))
        replicas = {"Master": {"replicas": 1, "template": self._as_template(master)},
                    "Worker": {"replicas": count, "template": self._as_template(worker)}}  # fmt: skip
        spec = {"pytorchReplicaSpecs": replicas}
        name, owner = self._operated(space, "kubeflow.org/v1", "PyTorchJob", "torch", spec)
        runs = rng.choice((0.0, 0.7))
        for role, made, number in (("master", master, 1), ("worker", worker, count)):
            for index in range(number):
                labels = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": role,
                          "training.kubeflow.org/replica-index": str(index)}  # fmt: skip
                each = made._replace(labels={**made.labels, **labels})
                self.pod(space, f"{name}-{role}-{index}", each, runs=runs, ownerReferences=owner)

    def _lws(self) -> None:
        rng, space = self.rng, self._space()
        _, made = self._template(_COMPUTES, space)
        replicas, size = rng.choice((1, 2)), rng.choice((2, 3))
        spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": self._as_template(made)}}
        name, owner = self._operated(space, LWS, "LeaderWorkerSet", "lws", spec)
        for group in range(replicas):
            leader = f"{name}-{group}"
            labels = {f"leaderworkerset.sigs.k8s.io/{key}": value for key, value in
                      (("name", name), ("group-index", str(group)), ("group-key", f"k{group}"))}  # fmt: skip
            notes = {**made.annotations, "leaderworkerset.sigs.k8s.io/size": str(size)}
            runs = rng.choice((0.0, 0.8))
            for index in range(size):
                own = {**made.labels, **labels, "leaderworkerset.sigs.k8s.io/worker-index": str(index)}
                each = made._replace(labels=own, annotations=notes)
                self.pod(space, leader if not index else f"{leader}-{index}", each, runs=runs, ownerReferences=owner)

    def _pod_group(self) -> None:
        rng, space = self.rng, self._space()
        _, made = self._template(_COMPUTES, space)
        name, count = self.name("group"), rng.choice((2, 3, 4))
        version, label, note = rng.choice(
            (
                ("scheduling.x-k8s.io/v1alpha1", "scheduling.x-k8s.io/pod-group", ""),
                ("scheduling.sigs.k8s.io/v1alpha1", "pod-group.scheduling.sigs.k8s.io", ""),
                ("scheduling.volcano.sh/v1beta1", "", "scheduling.k8s.io/group-name"),
            )
        )
        if not often(rng, 0.1):
            self.made.add({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name, "namespace": space},
                           "spec": {"minMember": rng.randint(1, count)}})  # fmt: skip
        labels, notes = ({label: name} if label else {}), ({note: name} if note else {})
        each = made._replace(labels={**made.labels, **labels}, annotations={**made.annotations, **notes})
        runs = rng.choice((0.0, 0.0, 1.0))
        for number in range(count):
            self.pod(space, f"{name}-{number}", each, runs=runs)
