"""Our side: the decision core, on the objects as the API server gives them, through the project's own decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from gangsched.cluster.kinds import CORE_KINDS
from gangsched.cluster.kube.decode import ObjectDecoder
from gangsched.core import events as ev
from gangsched.core.decision import BIND, Verdict
from gangsched.core.events import Changed, Event
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption import explain
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.simulation import Simulation
from gangsched.model.convert import Converter
from gangsched.model.records import GangId, Pod
from tests.controlplane.client import ApiError, Client, Object
from tests.sidebyside.compare import Answer
from tests.sidebyside.profiles import options

#: What the checker looks at.
KINDS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/csistoragecapacities",
}


class OurSide:
    """A core that has read the whole cluster."""

    def __init__(self, seen: list[Event], scheduler: str) -> None:
        self.core = Scheduler(options(scheduler))
        self.core.handle([*seen, ev.Synced()], 0.0)
        self.decider = Decider(self.core.world, self.core.ledger, self.core.options)

    def answer(self, namespace: str, name: str) -> Answer:
        """What the core decides for a pending pod when nothing may be evicted, with every score."""
        pod = self._pod(namespace, name)
        verdict = self._decide(pod.gang, 0.0, may_preempt=False)
        sim = self._simulation(pod.gang)
        kind = sim.snapshot.class_of(pod)
        pipeline = self.decider.placer.pipeline
        mask = pipeline.mask(kind, sim)
        if verdict.outcome != BIND:
            # Room that terminating pods will leave is no room yet for kube-scheduler.
            found, _ = pipeline.diagnose(kind, sim)
            return Answer("", explain.message(sim.snapshot.size, tuple(found), "", ""))
        names = [n.name for n in sim.snapshot.nodes]
        rows = np.flatnonzero(mask).tolist()
        scores: dict[str, dict[str, int]] = {}
        for score, weight in pipeline.scores:
            if weight and score.applies(kind, sim):
                values = weight * score.values(score.prepare(kind, sim, mask))
                scores[score.name] = {names[row]: int(values[row]) for row in rows}
        totals = {names[row]: sum(of[names[row]] for of in scores.values()) for row in rows}
        return Answer(verdict.placements[0].node, "", scores, totals, frozenset(names[row] for row in rows))

    def gang(self, member: tuple[str, str]) -> dict[str, str]:
        """Where the members of a pod's gang go when nobody is evicted; empty when the gang does not fit."""
        verdict = self._decide(self._pod(*member).gang, 0.0, may_preempt=False)
        return {p.key: p.node for p in verdict.placements} if verdict.outcome == BIND else {}

    def preemption(self, namespace: str, name: str, now: float) -> Verdict:
        """What the core decides for a pending pod when it may evict."""
        return self._decide(self._pod(namespace, name).gang, now, may_preempt=True)

    def _pod(self, namespace: str, name: str) -> Pod:
        pod = self.core.world.find(namespace, name)
        assert pod is not None, f"{namespace}/{name} was not listed"
        return pod

    def _decide(self, gang: GangId, now: float, *, may_preempt: bool) -> Verdict:
        self.core.world.now = now
        return self.decider.decide(Question([gang], may_preempt=may_preempt))

    def _simulation(self, gang: GangId) -> Simulation:
        return self.decider.context([gang]).simulation()


_decoders = {kind.path: ObjectDecoder(kind.type) for kind in CORE_KINDS}


class Listed:
    """The cluster as the API server listed it before ``pending`` (namespace, name) was created."""

    def __init__(self, pages: Mapping[str, dict[str, Any]], pending: tuple[str, str]) -> None:
        self.pages = pages
        self.pending = pending

    def add(self, pod: Object) -> None:
        """The pending pod, as it was stored when it was created."""
        self.pages["/api/v1/pods"]["items"].append(pod)

    def ours(self, scheduler: str) -> OurSide:
        """A core that has seen it."""
        converter = Converter()
        seen: list[Event] = []
        for resource in CORE_KINDS:
            if resource.path in self.pages:
                body = msgspec.json.encode(self.pages[resource.path])
                seen += [Changed(resource.record(converter, each)) for each in _decoders[resource.path].page(body)]
        return OurSide(seen, scheduler)

    def cluster(self) -> dict[str, list[Object]]:
        """Objects by kind, without what is pending."""
        found = {kind: self.pages[path]["items"] for kind, path in KINDS.items() if path in self.pages}
        found["Pod"] = [p for p in found["Pod"] if p["spec"].get("nodeName")]
        return found

    def pod(self) -> Object:
        """The pending pod as it is stored."""
        named = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in self.pages["/api/v1/pods"]["items"]}
        return named[self.pending]


async def read(client: Client, pending: tuple[str, str]) -> Listed:
    """List everything that either side looks at."""
    paths = sorted({*KINDS.values(), *(resource.path for resource in CORE_KINDS)})
    pages = await asyncio.gather(*(client.request("GET", path) for path in paths), return_exceptions=True)
    known: dict[str, dict[str, Any]] = {}
    for path, page in zip(paths, pages, strict=True):
        if isinstance(page, dict):
            known[path] = page
        elif not (isinstance(page, ApiError) and page.status == 404):
            raise page
    return Listed(known, pending)
