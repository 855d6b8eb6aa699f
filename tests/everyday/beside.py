"""Everyday pods beside a real kube-scheduler, one after another: the same nodes, the same reasons, the same scores."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable
from random import Random

from tests.everyday.clusters import cluster
from tests.everyday.pods import Object
from tests.sidebyside.generate import OWNERS, Case
from tests.sidebyside.kube_side import KubeSide
from tests.sidebyside.run import Tally, side_by_side

#: What is created on the API server beside pods; namespaces and classes are there.
_KINDS = ("Node", "Service", "ReplicaSet", "StatefulSet", "PersistentVolumeClaim", "PodDisruptionBudget")


def case(seed: int, number: int, most: int, scheduler: str) -> Case:
    """The cluster of this number, and at most so many of its pods that wait."""
    made, rng = cluster(seed + number, gangs=False), Random(f"everyday/{seed}/{number}")
    out = Case(number)
    for each in made.of(*_KINDS):
        out.objects.append(_new(each))
    for pod in made.of("Pod"):
        now = _new(pod)
        if pod["spec"].get("nodeName"):
            now["metadata"].pop("finalizers", None)
            if pod["metadata"].get("finalizers") and rng.random() < 0.5:
                now["metadata"]["finalizers"] = ["sbs.test/stay"]
                out.leaving.append(("Pod", now["metadata"]["namespace"], now["metadata"]["name"]))
            elif rng.random() < 0.05:
                phase = {"phase": rng.choice(("Succeeded", "Failed"))}
                out.statuses.append(("Pod", now["metadata"]["namespace"], now["metadata"]["name"], phase))
            out.objects.append(now)
        elif len(out.pods) < most:
            for field in ("schedulingGates", "schedulerName"):
                now["spec"].pop(field, None)
            now["metadata"].pop("finalizers", None)
            now["spec"]["schedulerName"] = scheduler
            out.pods.append(now)
            out.stays.append(rng.random() < 0.7)
    return out


def _new(made: Object) -> Object:
    """An object as a client creates it."""
    now = copy.deepcopy(made)
    for name in ("uid", "creationTimestamp"):
        now["metadata"].pop(name, None)
    if now["kind"] != "Node":
        now.pop("status", None)
        now["spec"].pop("priority", None)  # admission takes it from the class
    return now


class EverydaySide(KubeSide):
    """Creates owners before pods, which name them by their UIDs."""

    async def load(self, case: Case) -> None:
        owners = [each for each in case.objects if each["kind"] in OWNERS]
        made = await asyncio.gather(*(self.client.create(each) for each in owners))
        uids = {(each["kind"], each["metadata"]["name"]): each["metadata"]["uid"] for each in made}
        for pod in (*(each for each in case.objects if each["kind"] == "Pod"), *case.pods):
            for owner in pod["metadata"].get("ownerReferences", ()):
                owner["uid"] = uids.get((owner["kind"], owner["name"]), owner["uid"])
        await super().load(dataclasses.replace(case, objects=[o for o in case.objects if o["kind"] not in OWNERS]))


async def beside(kube: KubeSide, seed: int, count: int, tell: Callable[[str], None] = lambda _: None) -> Tally:
    """Compare so many pods of as many clusters from this seed on as it takes."""

    def make(number: int, most: int, scheduler: str) -> Case:
        return case(seed, number, most, scheduler)

    return await side_by_side(kube, seed, count, tell=tell, make=make)
