"""Rounds in which a gang needs a node that has just become free, which kube-scheduler wants too.

    python -m tests.beside.free_room [ROUNDS]

Of four nodes three are full of a Deployment's pods, of which a fourth waits, and one has a stronger pod. A gang needs
all four. When the stronger pod is gone either the gang starts whole, or kube-scheduler gets the node first; then the
gang may evict that pod too, but no pod leaves for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.beside.rounds import (
    CLASSES,
    OTHERS,
    SETUP_SECONDS,
    SPACE,
    Round,
    gang,
    gpu_node,
    gpu_pod,
    tear_down,
    workload,
)
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import running_scheduler

MADE = Round(0, nodes=4, kind="Deployment", grace=5, members=4)


class Outcome(msgspec.Struct, frozen=True):
    """How many members were bound, and how many pods of the Deployment were evicted before."""

    bound: int
    evicted: int

    @property
    def good(self) -> bool:
        """The gang is whole, or no pod has left for it."""
        return self.bound == MADE.members or not (self.bound or self.evicted)


async def play(admin: Client, seconds: float = 20.0) -> Outcome:
    """Play one round, for so many seconds at most from when the node is free."""
    await admin.apply(CLASSES)
    await admin.apply([gpu_node(n) for n in range(MADE.nodes)])
    strong = gpu_pod("strong", 0, "beside-stronger", OTHERS)
    strong["spec"]["nodeName"] = "gpu-0"
    await admin.apply([{**CLASSES[0], "metadata": {"name": "beside-stronger"}, "value": 100_000}])
    await admin.apply([strong])
    await admin.apply(workload(MADE))

    async def full() -> bool:
        pods = await admin.list("Pod", SPACE, labels="app=web")
        return sum(p["status"].get("phase") == "Running" for p in pods) == MADE.nodes - 1 and len(pods) == MADE.nodes

    await wait_until(full, timeout=SETUP_SECONDS, what="three nodes are full")
    await admin.apply(gang(MADE))

    async def waits() -> bool:
        pods = await admin.list("Pod", SPACE, labels="app=gang")
        return sum(bool(p["status"].get("conditions")) for p in pods) == MADE.members

    await wait_until(waits, timeout=SETUP_SECONDS, what="the gang waits")
    async with admin.record("Pod", SPACE) as recorder:
        await admin.delete("Pod", "strong", SPACE, grace_seconds=0)

        async def whole() -> bool:
            pods = await admin.list("Pod", SPACE, labels="app=gang")
            return all(p["spec"].get("nodeName") for p in pods)

        with contextlib.suppress(AssertionError):
            await wait_until(whole, timeout=seconds)
        evicted = {
            change.object["metadata"]["uid"]
            for change in recorder.changes
            if change.object["metadata"].get("labels", {}).get("app") == "web" and change.node and change.terminating
        }
    bound = [p for p in await admin.list("Pod", SPACE, labels="app=gang") if p["spec"].get("nodeName")]
    await tear_down(admin)
    return Outcome(len(bound), len(evicted))


async def rounds(count: int, folder: Path) -> list[Outcome]:
    """Play so many, on a control plane of their own."""
    plane = ControlPlane(folder / "plane", kube_scheduler=OTHERS)
    await asyncio.to_thread(plane.start)
    try:
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                outcomes = []
                for number in range(count):
                    outcomes.append(await play(admin))
                    print(number, outcomes[-1], file=sys.stderr, flush=True)
    finally:
        await asyncio.to_thread(plane.stop)
    return outcomes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="free-room-") as name:
        found = asyncio.run(rounds(int(sys.argv[1]) if len(sys.argv) > 1 else 20, Path(name)))
    print(f"{sum(each.good for each in found)} of {len(found)} rounds good")
    sys.exit(0 if all(each.good for each in found) else 1)
