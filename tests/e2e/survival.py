"""Random Jobs with random policies and histories, as they are found before some of their pods are evicted.

They are made while no kube-controller-manager runs, so what it would have made of their history is written as it would
have: counts and indexes in their status, the annotations and finalizers of their pods.
"""

from __future__ import annotations

import random
from typing import Any

from tests.controlplane.client import Object

NAMESPACE = "default"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX, FAILURES = "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-index-failure-count"
LONG_AGO = "2026-01-01T00:00:00Z"
CONTAINERS = ("main", "side")
NO_LIMIT = 2**31 - 1

#: What becomes of a pod: it goes on, is evicted, was deleted by others and is not counted yet, is leaving and counted,
#: or has failed and waits for another one of its index.
RUNS, EVICTED, DELETED, COUNTED, FAILED = "runs", "evicted", "deleted", "counted", "failed"


class RandomJob:
    """A Job with its status, and what becomes of each of its pods (by name)."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.name = f"job-{seed}"
        self.code = chance.choice((143, 137))
        self.indexed = chance.random() < 0.65
        self.size = chance.randint(1, 5)
        self.spec: Object = {"completions": self.size, "parallelism": self.size}
        self.status: Object = {"failed": chance.choice((0, 0, 1, 2, 3))}
        self.completed: list[int] = []
        self.failed: list[int] = []
        self.per_index: int | None = None
        if self.indexed:
            self._of_indexes(chance)
        else:
            self.status["succeeded"] = chance.randrange(self.size)
            if chance.random() < 0.15:
                del self.spec["completions"]
                self.status["succeeded"] = 0
        limit = chance.choice((0, 1, 2, 3, 4, 6, None))
        if limit is not None:
            self.spec["backoffLimit"] = limit + self.status["failed"] if chance.random() < 0.5 else limit
        rules = self._rules(chance)
        if rules:
            self.spec["podFailurePolicy"] = {"rules": rules}
        elif chance.random() < 0.5:
            self.spec["podReplacementPolicy"] = chance.choice(("Failed", "TerminatingOrFailed"))
        self.awaits_end = bool(rules) or self.spec.get("podReplacementPolicy") == "Failed"
        self.pods = self._pods(chance)

    def _of_indexes(self, chance: random.Random) -> None:
        self.spec["completionMode"] = "Indexed"
        if chance.random() < 0.8:
            self.per_index = self.spec["backoffLimitPerIndex"] = chance.choice((0, 1, 2))
            if chance.random() < 0.5:
                self.spec["maxFailedIndexes"] = chance.randint(0, self.size)
        state = [chance.choice("rrrrrcf") for _ in range(self.size)]
        self.completed = [i for i in range(self.size) if state[i] == "c"]
        self.failed = [i for i in range(self.size) if state[i] == "f"] if self.per_index is not None else []
        self.status["succeeded"] = len(self.completed)
        self.status["completedIndexes"] = ",".join(map(str, self.completed))
        if self.per_index is not None:
            self.status["failedIndexes"] = ",".join(map(str, self.failed))
        if chance.random() < 0.35:
            rule: Object = {"succeededCount": chance.randint(1, self.size)}
            if chance.random() < 0.6:
                among = sorted(chance.sample(range(self.size), chance.randint(1, self.size)))
                rule = {"succeededIndexes": ",".join(map(str, among))}
                if chance.random() < 0.5:
                    rule["succeededCount"] = chance.randint(1, len(among))
            self.spec["successPolicy"] = {"rules": [rule]}

    def _rules(self, chance: random.Random) -> list[Object]:
        actions = ["Ignore", "Count", "FailJob", *(["FailIndex"] if self.per_index is not None else [])]
        out = []
        for _ in range(chance.choice((0, 0, 1, 2, 3))):
            if chance.random() < 0.4:
                kind, status = chance.choice(
                    (("DisruptionTarget", "True"), ("DisruptionTarget", "True"), ("Ready", "False"))
                )
                how: Object = {"onPodConditions": [{"type": kind, "status": status}]}
            else:
                values = sorted(chance.sample((1, 42, 137, 143), chance.randint(1, 3)))
                how = {"onExitCodes": {"operator": chance.choice(("In", "NotIn")), "values": values}}
                if chance.random() < 0.4:
                    how["onExitCodes"]["containerName"] = chance.choice(CONTAINERS)
            out.append({"action": chance.choice(actions), **how})
        return out

    def _pods(self, chance: random.Random) -> dict[str, str]:
        self.index: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        out = {}
        left = [i for i in range(self.size) if i not in self.completed and i not in self.failed]
        for i in left if self.indexed else range(self.size - self.status["succeeded"]):
            name = f"{self.name}-{i}"
            self.index[name] = i
            self.failures[name] = chance.randint(0, self.per_index) if self.per_index is not None else 0
            kinds = [RUNS, RUNS, EVICTED, EVICTED, DELETED]
            if self.per_index is None and not self.awaits_end:
                kinds.append(COUNTED)
            if (
                self.per_index is not None
                and "podFailurePolicy" not in self.spec
                and self.failures[name] < self.per_index
            ):
                kinds.append(FAILED)
            out[name] = chance.choice(kinds)
        return out

    @property
    def lives(self) -> bool:
        """Is the history one after which the Job still runs, and is a pod of it evicted?"""
        spec, status = self.spec, self.status
        limit = spec.get("backoffLimit", 6 if self.per_index is None else NO_LIMIT)
        if EVICTED not in self.pods.values() or status["failed"] > limit:
            return False
        if len(self.failed) > spec.get("maxFailedIndexes", self.size):
            return False
        if self.failed and len(self.failed) + len(self.completed) >= self.size:
            return False
        return not self.completed or not self._met(set(self.completed))

    def _met(self, done: set[int]) -> bool:
        for rule in self.spec.get("successPolicy", {}).get("rules", ()):
            among = {int(i) for i in rule["succeededIndexes"].split(",")} if "succeededIndexes" in rule else None
            if among is None:
                return len(done) >= rule["succeededCount"]
            return among <= done or len(among & done) >= rule.get("succeededCount", self.size + 1)
        return False

    def by_use(self, names: list[str]) -> list[str]:
        """These pods, those of indexes first that the success policy is about."""
        rules = self.spec.get("successPolicy", {}).get("rules", ())
        among = {int(i) for rule in rules for i in rule.get("succeededIndexes", "").split(",") if i}
        return sorted(names, key=lambda name: self.index_of(name) not in among)

    @staticmethod
    def index_of(name: str) -> int:
        """The index in the name of a pod, made here or by the controller."""
        return int(name.split("-")[2])

    # -- as objects ------------------------------------------------------------------------------------------------

    def job(self) -> Object:
        """The Job without its status."""
        template = {"metadata": {"labels": {"of": "survival"}}, "spec": self._pod_spec()}
        meta = {"name": self.name, "namespace": NAMESPACE}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {**self.spec, "template": template}}

    def _pod_spec(self) -> Object:
        containers = [{"name": name, "image": "example.com/app:1"} for name in CONTAINERS]
        return {"schedulerName": "none", "restartPolicy": "Never", "containers": containers}

    def pod(self, name: str, uid: str) -> Object:
        """A pod of the Job with this UID."""
        notes = {INDEX: str(self.index[name])} if self.indexed else {}
        if self.per_index is not None:
            notes[FAILURES] = str(self.failures[name])
        meta: Object = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"of": "survival", "batch.kubernetes.io/controller-uid": uid},
            "annotations": notes,
            "finalizers": [TRACKING],
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": uid, "controller": True}
            ],
        }
        meta["labels"] |= {"controller-uid": uid, "batch.kubernetes.io/job-name": self.name, "job-name": self.name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**self._pod_spec(), "nodeName": "n1"}}


def statuses(code: int) -> list[Object]:
    """All containers of a pod have ended with this exit code, long ago: nothing waits for a pause to end."""
    ended = {"exitCode": code, "startedAt": LONG_AGO, "finishedAt": LONG_AGO}
    common: dict[str, Any] = {"ready": False, "restartCount": 0, "image": "i", "imageID": "i"}
    return [{"name": name, "state": {"terminated": ended}, **common} for name in CONTAINERS]


def ended(code: int, *, marked: bool, failed: bool = True) -> Object:
    """The status of a pod that has been told to stop: its kubelet has said so, or (not ``failed``) not yet."""
    gone = [{"type": each, "status": "False"} for each in ("Ready", "ContainersReady")] if failed else []
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"}, *gone]
    if marked:
        conditions.append({"type": "DisruptionTarget", "status": "True"})
    phase = "Failed" if failed else "Running"
    return {"phase": phase, "conditions": conditions, "containerStatuses": statuses(code)}
