"""Streams of changes to an everyday cluster: what users, controllers and administrators do to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from tests.everyday.clusters import GANG, QUEUE, TAINTS, Cluster
from tests.everyday.pods import GPU, HOSTNAME, ZONE, Object, often

#: The full names of kinds whose CRDs are installed and removed.
CRDS = (
    "PodGroup.scheduling.volcano.sh",
    "PodGroup.scheduling.x-k8s.io",
    "PodGroup.scheduling.koordinator.sh",
    "PodGroup.scheduling.run.ai",
    "RayCluster.ray.io",
    "PyTorchJob.kubeflow.org",
    "JobSet.jobset.x-k8s.io",
    "ClusterQueue.kueue.x-k8s.io",
)

#: What owns pods, by itself or by what it owns.
WORKLOADS = ("ReplicaSet", "StatefulSet", "Job", "JobSet", "RayCluster", "PyTorchJob", "LeaderWorkerSet")


class Change(NamedTuple):
    """What happens ``at`` (seconds): this object is ``made`` so from now on, or is ``gone``; or the CRD of a kind is
    installed (True) or removed.
    """

    at: float
    why: str
    made: Object | None = None
    gone: Object | None = None
    crd: tuple[str, bool] | None = None


def changes(cluster: Cluster, count: int = 25, seconds: float = 90.0) -> list[Change]:
    """So many changes of this cluster, which is as they leave it afterwards."""
    return sorted(_Changes(cluster, seconds).some(count), key=lambda change: change.at)


def held_back(cluster: Cluster, share: float = 0.3, seconds: float = 60.0) -> list[Change]:
    """Take a share of the workloads out of the cluster: they come later, owners first, what they own soon after."""
    rng = Random(f"everyday/{cluster.seed}/held back")
    out: list[Change] = []

    def take(made: Object, at: float) -> None:
        meta = made["metadata"]
        if cluster.objects.pop((made["kind"], meta.get("namespace", ""), meta["name"]), None) is None:
            return
        if made["kind"] == "Pod":
            made["spec"].pop("nodeName", None)
            made["status"] = {"phase": "Pending"}
        out.append(Change(round(at, 3), "create a workload", made=made))
        for each in list(cluster.objects.values()):
            if any(owner["uid"] == meta["uid"] for owner in each["metadata"].get("ownerReferences", ())):
                take(each, at + rng.choice((0.01, 0.01, 0.4, 3.0)))

    for kind in WORKLOADS:
        for made in cluster.of(kind):
            if not made["metadata"].get("ownerReferences") and often(rng, share):
                take(made, rng.uniform(1.0, seconds))
    return out


class _Changes:
    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self.rng = Random(f"everyday/{cluster.seed}/changes")
        self.cluster = cluster
        self.seconds = seconds
        self._made = 0

    def some(self, count: int) -> Iterator[Change]:
        """In the order in which they happen, several in one moment now and then."""
        at = 0.5
        for _ in range(count):
            kind = self.rng.choice(KINDS)
            if often(self.rng, 0.8):
                at += self.rng.expovariate(count / self.seconds)
            for change in kind(self):
                yield change._replace(at=round(at + change.at, 3))

    # -- helpers -------------------------------------------------------------------------------------------

    def pick(self, *kinds: str) -> Object | None:
        """An object of one of these kinds."""
        found = self.cluster.of(*kinds)
        return self.rng.choice(found) if found else None

    def other(self, made: Object, why: str, alter: Callable[[Object], object], at: float = 0.0) -> Iterator[Change]:
        """The object is altered."""
        now = copy.deepcopy(made)
        alter(now)
        self.cluster.add(now)
        yield Change(at, why, made=now)

    def gone(self, made: Object, why: str, at: float = 0.0) -> Iterator[Change]:
        """The object is deleted, and with it what it owns."""
        meta = made["metadata"]
        key = (made["kind"], meta.get("namespace", ""), meta["name"])
        if self.cluster.objects.pop(key, None) is None:
            return
        yield Change(at, why, gone=made)
        for each in list(self.cluster.objects.values()):
            if any(owner["uid"] == meta["uid"] for owner in each["metadata"].get("ownerReferences", ())):
                yield from self.gone(each, why, at + self.rng.choice((0.0, 0.0, 0.4)))

    def again(self, made: Object, why: str, at: float) -> Iterator[Change]:
        """Another object of this name is created."""
        now = copy.deepcopy(made)
        self._made += 1
        now["metadata"]["uid"] += f".{self._made}"
        if now["kind"] == "Pod":
            now["spec"].pop("nodeName", None)
            now["status"] = {"phase": "Pending"}
        self.cluster.add(now)
        yield Change(at, why, made=now)

    # -- what happens --------------------------------------------------------------------------------------

    def _label_pod(self) -> Iterator[Change]:
        if (pod := self.pick("Pod")) is not None:
            labels = self.rng.choice(({"app": self.rng.choice(("web", "db"))}, {"rev": "3"}, {QUEUE: "main"}))
            yield from self.other(pod, "label a pod", lambda made: made["metadata"]["labels"].update(labels))

    def _label_node(self) -> Iterator[Change]:
        if (node := self.pick("Node")) is not None:
            key, value = self.rng.choice((("disk", "ssd"), (ZONE, "z1"), (ZONE, "z4"), ("disk", "")))

            def alter(made: Object) -> None:
                if value:
                    made["metadata"]["labels"][key] = value
                else:
                    made["metadata"]["labels"].pop(key, None)

            yield from self.other(node, "label a node", alter)

    def _taint(self) -> Iterator[Change]:
        if (node := self.pick("Node")) is not None:
            taints = [] if node["spec"].get("taints") else [dict(self.rng.choice(TAINTS))]
            yield from self.other(node, "taint a node", lambda made: made["spec"].update(taints=taints))

    def _cordon(self) -> Iterator[Change]:
        if (node := self.pick("Node")) is not None:
            cordoned = not node["spec"].get("unschedulable", False)
            yield from self.other(node, "cordon a node", lambda made: made["spec"].update(unschedulable=cordoned))

    def _resize_node(self) -> Iterator[Change]:
        if (node := self.pick("Node")) is not None:
            room = {**node["status"]["allocatable"], "cpu": self.rng.choice(("1", "4", "16"))}
            if often(self.rng, 0.4):
                room[GPU] = "4"
            yield from self.other(node, "resize a node", lambda made: made["status"].update(allocatable=room))

    def _restart_node(self) -> Iterator[Change]:
        if (node := self.pick("Node")) is not None:
            for at, ready in ((0.0, "False"), (self.rng.choice((0.2, 5.0)), "True")):
                status = [{"type": "Ready", "status": ready}]
                taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}] if ready == "False" else []

                def alter(made: Object, status: list[Object] = status, taints: list[Object] = taints) -> None:
                    made["status"]["conditions"], made["spec"]["taints"] = status, taints

                yield from self.other(node, "restart a node", alter, at)

    def _replace_node(self) -> Iterator[Change]:
        node = self.pick("Node")
        if node is None or len(self.cluster.of("Node")) < 3:
            return
        yield from self.gone(node, "remove a node")
        self._made += 1
        name = node["metadata"]["name"] if often(self.rng, 0.4) else f"node-new-{self._made}"

        def alter(made: Object) -> None:
            made["metadata"] |= {"name": name, "uid": f"uid-node-{name}-{self._made}"}
            made["metadata"]["labels"][HOSTNAME] = name
            made["spec"] = {}

        yield from self.other(node, "add a node", alter, self.rng.choice((0.0, 0.3, 4.0)))

    def _resize_pod(self) -> Iterator[Change]:
        if (pod := self.pick("Pod")) is not None:
            requests = {"cpu": self.rng.choice(("10m", "700m", "2"))}

            def alter(made: Object) -> None:
                resources = made["spec"]["containers"][0].setdefault("resources", {})
                resources["requests"] = {**resources.get("requests", {}), **requests}

            yield from self.other(pod, "resize a pod", alter)

    def _ungate(self) -> Iterator[Change]:
        for pod in self.cluster.waiting:
            if pod["spec"].get("schedulingGates"):
                yield from self.other(pod, "ungate a pod", lambda made: made["spec"].pop("schedulingGates"))
                return

    def _delete_pod(self) -> Iterator[Change]:
        if (pod := self.pick("Pod")) is not None:
            yield from self.gone(pod, "delete a pod")
            if pod["metadata"].get("ownerReferences") and often(self.rng, 0.7):
                yield from self.again(pod, "a controller makes the pod again", self.rng.choice((0.0, 0.05, 1.0)))

    def _finish_pod(self) -> Iterator[Change]:
        running = [pod for pod in self.cluster.of("Pod") if pod["spec"].get("nodeName")]
        if running:
            phase = self.rng.choice(("Succeeded", "Succeeded", "Failed"))
            yield from self.other(
                self.rng.choice(running), "a pod ends", lambda made: made["status"].update(phase=phase)
            )

    def _finalizers(self) -> Iterator[Change]:
        if (pod := self.pick("Pod")) is not None:
            some = ["example.com/a", "example.com/b", "example.com/a"]
            yield from self.other(pod, "set finalizers", lambda made: made["metadata"].update(finalizers=some))

    def _delete_workload(self) -> Iterator[Change]:
        made = self.pick(*WORKLOADS)
        if made is None:
            return
        before = [made, *(each for each in self.cluster.objects.values() if self._owns(made, each))]
        yield from self.gone(made, "delete a workload")
        if often(self.rng, 0.5):
            at = self.rng.choice((0.0, 0.2, 2.0))
            owner = next(self.again(made, "create a workload of the same name", at))
            yield owner
            for each in before[1:]:
                for change in self.again(each, "its controller makes pods", at + 0.01):
                    assert change.made is not None
                    assert owner.made is not None
                    for reference in change.made["metadata"]["ownerReferences"]:
                        reference["uid"] = owner.made["metadata"]["uid"]
                    yield change

    def _owns(self, owner: Object, made: Object) -> bool:
        uid = owner["metadata"]["uid"]
        return any(each["uid"] == uid for each in made["metadata"].get("ownerReferences", ()))

    def _scale(self) -> Iterator[Change]:
        pods = [pod for pod in self.cluster.of("Pod") if pod["metadata"].get("ownerReferences")]
        if pods:
            like = copy.deepcopy(self.rng.choice(pods))
            for _ in range(self.rng.choice((1, 2, 4))):
                self._made += 1
                like["metadata"] |= {"name": f"{like['metadata']['name']}-{self._made}"}
                yield from self.again(like, "scale up", 0.0)

    def _suspend(self) -> Iterator[Change]:
        if (made := self.pick("Job", "JobSet")) is not None:
            suspended = not made["spec"].get("suspend", False)
            yield from self.other(made, "suspend or resume", lambda now: now["spec"].update(suspend=suspended))

    def _declare(self) -> Iterator[Change]:
        made = self.pick("Job", "JobSet", "StatefulSet", "RayCluster", "PyTorchJob", "LeaderWorkerSet", "Namespace")
        if made is not None:
            where = "labels" if made["kind"] == "Namespace" else "annotations"
            value = self.rng.choice(("true", "false"))
            yield from self.other(
                made, "declare a gang", lambda now: now["metadata"].setdefault(where, {}).update({GANG: value})
            )

    def _minimum(self) -> Iterator[Change]:
        if (group := self.pick("PodGroup")) is not None:
            least = self.rng.randint(1, 5)
            yield from self.other(group, "edit a minimum", lambda made: made["spec"].update(minMember=least))

    def _delete_group(self) -> Iterator[Change]:
        if (group := self.pick("PodGroup")) is not None:
            yield from self.gone(group, "delete a group")
            if often(self.rng, 0.6):
                yield from self.again(group, "create the group again", self.rng.choice((0.1, 2.0)))

    def _priority(self) -> Iterator[Change]:
        if (made := self.pick("PriorityClass")) is not None:
            yield from self.gone(made, "delete a PriorityClass")
            value = self.rng.choice((0, 100, 5000))
            yield from self.other(made, "create it with another value", lambda now: now.update(value=value), 0.1)

    def _quota(self) -> Iterator[Change]:
        if (queue := self.pick("ClusterQueue")) is not None:
            cpu = self.rng.choice(("0", "3", "20"))

            def alter(made: Object) -> None:
                luck = self.rng.random()
                if luck < 0.6:
                    made["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
                elif luck < 0.8:
                    made["spec"]["stopPolicy"] = self.rng.choice(("Hold", "HoldAndDrain", "None"))
                else:
                    made["spec"]["cohort"] = self.rng.choice(("cohort", "other"))

            yield from self.other(queue, "edit quota", alter)

    def _delete_queue(self) -> Iterator[Change]:
        if often(self.rng, 0.4) and (queue := self.pick("ClusterQueue", "LocalQueue", "ResourceFlavor")) is not None:
            yield from self.gone(queue, "delete a queue")
            yield from self.again(queue, "create it again", self.rng.choice((0.2, 10.0)))

    def _budget(self) -> Iterator[Change]:
        if (budget := self.pick("PodDisruptionBudget")) is not None:
            if often(self.rng, 0.3):
                yield from self.gone(budget, "delete a budget")
                return

            def alter(made: Object) -> None:
                selector = made["spec"]["selector"]
                made["spec"] = {"selector": selector, "maxUnavailable": self.rng.choice((0, 1, "25%"))}

            yield from self.other(budget, "edit a budget", alter)

    def _service(self) -> Iterator[Change]:
        if (service := self.pick("Service")) is not None:
            yield from self.gone(service, "delete a Service")

    def _namespace(self) -> Iterator[Change]:
        if (made := self.pick("Namespace")) is not None:
            labels = self.rng.choice(({"team": "green"}, {"team": "red", "tier": "back"}, {}))
            yield from self.other(made, "label a namespace", lambda now: now["metadata"].update(labels=labels))

    def _claim(self) -> Iterator[Change]:
        if (claim := self.pick("PersistentVolumeClaim")) is not None:
            yield from self.gone(claim, "delete a claim")
            if often(self.rng, 0.5):
                yield from self.again(claim, "create it again", self.rng.choice((0.0, 1.0)))

    def _crd(self) -> Iterator[Change]:
        name = self.rng.choice(CRDS)
        installed = often(self.rng, 0.5)
        yield Change(0.0, "install or remove a CRD", crd=(name, installed))
        if often(self.rng, 0.5):
            yield Change(self.rng.choice((0.1, 3.0)), "and back", crd=(name, not installed))


_C = _Changes
KINDS: tuple[Callable[[_Changes], Iterator[Change]], ...] = (
    *(_C._label_pod, _C._label_node, _C._taint, _C._cordon, _C._resize_node, _C._restart_node, _C._replace_node),
    *(_C._resize_pod, _C._ungate, _C._delete_pod, _C._delete_pod, _C._finish_pod, _C._finish_pod, _C._finalizers),
    *(_C._delete_workload, _C._delete_workload, _C._scale, _C._scale, _C._suspend, _C._declare, _C._minimum),
    *(_C._delete_group, _C._priority, _C._quota, _C._delete_queue, _C._budget, _C._service, _C._namespace),
    *(_C._claim, _C._crd, _C._crd),
)
