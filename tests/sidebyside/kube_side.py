"""Upstream's side: a control plane whose kube-scheduler is asked about one pod at a time, and whose log is read.

The answer is taken from what kube-scheduler itself writes: the binding or the PodScheduled condition through the API,
and the score of every feasible node by every plug-in from its log.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.controlplane.client import ApiError, Client, Object
from tests.controlplane.plane import ControlPlane
from tests.sidebyside.compare import Answer
from tests.sidebyside.generate import NAMESPACES, OWNERS, PRIORITIES, RUNTIME_CLASSES, Case
from tests.sidebyside.profiles import PROFILES
from tests.sidebyside.volumes import CLASSES

#: schedulerName of the profile that preempts; the others only look for a place.
PREEMPTING = "sbs-preempting"
ANSWER_SECONDS = 20.0
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_COLLECTIONS = (
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/storage.k8s.io/v1/csidrivers",
    *(f"/apis/storage.k8s.io/v1/namespaces/{n}/csistoragecapacities" for n in NAMESPACES),
    *(f"/api/v1/namespaces/{n}/persistentvolumeclaims" for n in NAMESPACES),
    *(f"/apis/policy/v1/namespaces/{n}/poddisruptionbudgets" for n in NAMESPACES),
)
_SCORED = re.compile(r'"Plugin scored node for pod" pod="([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(-?\d+)')
_TOTAL = re.compile(r'"Calculated node\'s final score for pod" pod="([^"]+)" node="([^"]+)" score=(-?\d+)')
_ASSUMED = re.compile(r'"AssumePodVolumes" pod="([^"]+)" node="([^"]+)"')


def settings() -> dict[str, Any]:
    """Options of a control plane without controllers, so that nothing changes a case, and with a kube-scheduler that
    says all.

    Sampling of nodes is off, and so is the reuse of scores between like pods, which hides them.
    """
    # Off in all profiles but one: the comparison is about where a pod fits, and victims would change the cluster.
    no_eviction = {"postFilter": {"disabled": [{"name": "*"}]}}
    return {
        "group_api": False,
        "controller_manager": False,
        "kwok": False,
        "kube_scheduler": PREEMPTING,
        "apiserver_args": (
            "--feature-gates=TaintTolerationComparisonOperators=true",
            "--disable-admission-plugins=StorageObjectInUseProtection",
        ),
        "kube_scheduler_config": {
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": 1,
            "profiles": [
                *({**profile, "plugins": {**profile.get("plugins", {}), **no_eviction}} for profile in PROFILES),
                {"schedulerName": PREEMPTING},
            ],
        },
        "kube_scheduler_args": (
            "--feature-gates=TaintTolerationComparisonOperators=true,OpportunisticBatching=false",
            "--vmodule=schedule_one=10,binder=4",
        ),
    }


class KubeSide:
    """Brings cases into the API server and asks kube-scheduler about their pods."""

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self.client = client
        self._log = plane.logs / "kube-scheduler.log"
        self._read = 0
        self._rest = ""
        self._scores: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        self._totals: dict[str, dict[str, int]] = defaultdict(dict)
        self._assumed: dict[str, str] = {}

    async def prepare(self) -> None:
        """What all cases share: namespaces, priority classes, storage classes."""
        for name, labels in NAMESPACES.items():
            await self.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            )
        for name, value in PRIORITIES.items():
            await self.client.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                                      "metadata": {"name": name}, "value": value})  # fmt: skip
        for each in CLASSES:
            await self.client.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **each})
        for each in RUNTIME_CLASSES:
            await self.client.create({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **each})

    async def load(self, case: Case) -> None:
        """Create a case's objects."""
        pods = [o for o in case.objects if o["kind"] == "Pod"]
        await asyncio.gather(*(self.client.create(o) for o in case.objects if o["kind"] != "Pod"))
        await asyncio.gather(*(self.client.create(o) for o in pods))
        await asyncio.gather(*(self._status(*each) for each in case.statuses))
        await asyncio.gather(*(self.client.delete(k, n, s, grace_seconds=0) for k, s, n in case.leaving))

    async def _status(self, kind: str, namespace: str, name: str, status: Object) -> None:
        await self.client.patch(kind, name, {"status": status}, namespace or "default", subresource="status")

    async def touch(self, case: Case) -> None:
        """Change every node a little: kube-scheduler counts for each node how many nodes have its images, as of the
        last change of that node; had it looked while the nodes were still coming, it would go on with too few.
        """
        now = {"metadata": {"annotations": {"sbs.test/touched": str(time.monotonic())}}}
        names = [o["metadata"]["name"] for o in case.objects if o["kind"] == "Node"]
        await asyncio.gather(*(self.client.patch("Node", name, now) for name in names))

    async def clear(self, case: Case) -> None:
        """Delete everything that belongs to a case."""
        keep: Object = {"metadata": {"finalizers": None}}
        now = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        await self._each(self.client.patch(kind, name, keep, space) for kind, space, name in case.leaving)
        await self._each(self.client.request("DELETE", f"/api/v1/namespaces/{s}/pods", now) for s in NAMESPACES)
        others = [o for o in case.objects if o["kind"] in ("Service", *OWNERS)]
        await self._each(
            [
                *(self.client.request("DELETE", path, now) for path in _COLLECTIONS),
                *(self.client.delete(o["kind"], o["metadata"]["name"], o["metadata"]["namespace"]) for o in others),
            ]
        )

    @staticmethod
    async def _each(requests: Iterable[Any]) -> None:
        for result in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(result, BaseException) and not (isinstance(result, ApiError) and result.status == 404):
                raise result

    async def ask(self, pod: Object) -> tuple[Object, Answer]:
        """Create the pod; return it as it was stored, and what kube-scheduler says first."""
        meta = pod["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self._follow()
        for known in (self._scores, self._totals, self._assumed):
            known.pop(key, None)
        stored = await self.client.create(pod)
        return stored, await self._answer(key)

    async def _answer(self, key: str) -> Answer:
        namespace, name = key.split("/")
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            pod = await self.client.get("Pod", name, namespace)
            self._follow()
            bound = pod["spec"].get("nodeName", "")
            node = bound or self._assumed.get(key, "")
            conditions = pod.get("status", {}).get("conditions") or ()
            message = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
            if node or message:
                scores = {plugin: dict(nodes) for plugin, nodes in self._scores[key].items()}
                totals = dict(self._totals[key])
                feasible = frozenset(totals) or frozenset([node] if node else [])
                return Answer(node, "" if node else message, scores, totals, feasible, bool(bound))
            await asyncio.sleep(0.005)
        raise AssertionError(f"kube-scheduler says nothing about {key} within {ANSWER_SECONDS:.0f} s")

    async def withdraw(self, pod: Object) -> None:
        """Delete a pod that was asked about, and free what it has reserved of volumes that were never made."""
        space = pod["metadata"]["namespace"]
        await self.client.delete("Pod", pod["metadata"]["name"], space, grace_seconds=0)
        if not pod["spec"].get("volumes"):
            return
        for claim in await self.client.list("PersistentVolumeClaim", space):
            notes = claim["metadata"].get("annotations") or {}
            if SELECTED_NODE in notes:
                body: Object = {"metadata": {"annotations": {SELECTED_NODE: None}}}
                await self.client.patch("PersistentVolumeClaim", claim["metadata"]["name"], body, space)
        for volume in await self.client.list("PersistentVolume"):
            if "pv.kubernetes.io/bound-by-controller" in (volume["metadata"].get("annotations") or {}):
                body = {"metadata": {"annotations": None}, "spec": {"claimRef": None}}
                await self.client.patch("PersistentVolume", volume["metadata"]["name"], body)

    def _follow(self) -> None:
        """Read what the log has gained."""
        with self._log.open(errors="replace") as log:
            log.seek(self._read)
            text = self._rest + log.read()
            self._read = log.tell()
        *lines, self._rest = text.split("\n")
        for line in lines:
            if found := _SCORED.search(line):
                self._scores[found[1]][found[2]][found[3]] = int(found[4])
            elif found := _TOTAL.search(line):
                self._totals[found[1]][found[2]] = int(found[3])
            elif found := _ASSUMED.search(line):
                self._assumed[found[1]] = found[2]
