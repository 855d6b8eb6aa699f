"""The shapes of Volcano's own benchmark on a real API server: 10 gangs of 100 pods, and 10 of 50 in one spine each.

python -m tests.bench.gangs_of_volcano

100 nodes of 32 CPU in 4 racks and 2 spines, which are HyperNodes of tiers 1 and 2. PodGroups and pods (one CPU each)
are written as Volcano's controllers do, which create no pods before a group is Inqueue; the scheduler answers to
``volcano``. The floor creates as many pods in the same way, and binds each as soon as it is made.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from statistics import quantiles
from typing import Any

from tests.bench.publish.tables import table
from tests.controlplane.client import Client, Object, load, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.kinds import definition
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import nodes_ready
from tests.e2e.volcano import GROUP, group, member, phase

NODES, RACKS, SPINES, GANGS = 100, 4, 2, 10
#: As many calls are in flight.
_IN_FLIGHT = 48
_SIZE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
#: Name of a shape, pods of a gang, whether each gang keeps to one spine.
SHAPES = (("10 gangs of 100", 100, False), ("10 gangs of 50, each in one spine", 50, True))


def node(number: int) -> Object:
    """A node of KWOK in its rack."""
    name = f"node-{number:03d}"
    labels = {"kubernetes.io/hostname": name, "rack": f"rack-{number % RACKS}"}
    meta = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": _SIZE, "allocatable": _SIZE}}


def hyper_node(name: str, tier: int, members: list[Object]) -> Object:
    """A rack of nodes or a spine of racks."""
    spec = {"tier": tier, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def domains() -> list[Object]:
    """Racks by label, spines by name."""
    racks = []
    for n in range(RACKS):
        selector = {"labelMatch": {"matchLabels": {"rack": f"rack-{n}"}}}
        racks.append(hyper_node(f"rack-{n}", 1, [{"type": "Node", "selector": selector}]))
    spines = []
    for n in range(SPINES):
        under = [f"rack-{r}" for r in range(RACKS) if spine_of(r) == n]
        members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": rack}}} for rack in under]
        spines.append(hyper_node(f"spine-{n}", 2, members))
    return [*racks, *spines]


def spine_of(number: int) -> int:
    """The spine of a rack, or of a node."""
    return number % RACKS * SPINES // RACKS


async def all_of(things: Iterable[Any], act: Callable[[Any], Awaitable[Any]]) -> None:
    """Act on each, some at a time."""
    free = asyncio.Semaphore(_IN_FLIGHT)

    async def one(thing: Any) -> None:
        async with free:
            await act(thing)

    await asyncio.gather(*map(one, things))


def pods_of(name: str, size: int) -> list[Object]:
    """The pods of a gang."""
    made = [member(f"{name}-{n}", name, "worker") for n in range(size)]
    for pod in made:
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    return made


async def gangs(admin: Client, size: int, *, near: bool) -> tuple[list[float], float, int]:
    """Create all groups, and the pods of each as soon as it is Inqueue; seconds from the creation of each pod to its
    binding, of all, and how many gangs are in more spines than one.
    """
    names = [f"{'near' if near else 'far'}-{n}" for n in range(GANGS)]
    created: dict[str, float] = {}

    async def gang(name: str) -> None:
        made = group(name, size, worker=size)
        made["spec"]["minResources"] = {"cpu": str(size)}
        if near:
            made["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 2}
        await admin.create(made)
        await admin.wait_for(GROUP, name, phase("Inqueue"), timeout=60)
        await all_of(pods_of(name, size), pod)

    async def pod(each: Object) -> None:
        created[each["metadata"]["name"]] = time.monotonic()
        await admin.create(each)

    bound: dict[str, float] = {}
    where: dict[str, set[int]] = {name: set() for name in names}
    began = time.monotonic()
    async with admin.record("Pod") as recorder:
        await asyncio.gather(*map(gang, names))
        for each in names:
            await admin.wait_for(GROUP, each, phase("Running"), timeout=300)
    for change in recorder.changes:
        if change.node and change.name not in bound:
            bound[change.name] = change.at
            where[change.name.rpartition("-")[0]].add(spine_of(int(change.node.rpartition("-")[2])))
    assert len(bound) == GANGS * size
    spread = sum(len(spines) > 1 for spines in where.values())
    return [bound[name] - created[name] for name in created], max(bound.values()) - began, spread


async def floor(admin: Client, size: int) -> tuple[list[float], float]:
    """The same for pods that are bound in turns by the one that creates them."""
    pods = [(n, pod) for n, pod in enumerate(pods_of("floor", GANGS * size))]
    took: list[float] = []

    async def one(each: tuple[int, Object]) -> None:
        began = time.monotonic()
        await admin.create(each[1])
        await admin.bind(each[1]["metadata"]["name"], f"node-{each[0] % NODES:03d}")
        took.append(time.monotonic() - began)

    began = time.monotonic()
    await all_of(pods, one)
    return took, time.monotonic() - began


async def gone(admin: Client) -> None:
    """No pod is left."""
    names = [pod["metadata"]["name"] for pod in await admin.list("Pod")]
    await all_of(names, lambda name: admin.delete("Pod", name))
    for name in names:
        await admin.wait_gone("Pod", name)


async def measure(plane: ControlPlane, folder: Path) -> list[list[str]]:
    """Rows of the table."""
    rows = []
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        await admin.apply(load(MANIFESTS / "volcano" / "crd-podgroups.yaml"))
        await admin.apply(definition("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", namespaced=False))
        await wait_until_served(admin, GROUP, "topology.volcano.sh/v1alpha1/HyperNode")
        await all_of(map(node, range(NODES)), admin.create)
        await all_of(domains(), admin.create)
        await nodes_ready(admin)
        for name, size, near in SHAPES:
            took, whole = await floor(admin, size)
            rows.append([f"{name}: floor", *_seconds(took, whole), ""])
            await gone(admin)
            async with running_scheduler(plane.scheduler_kubeconfig, folder, profiles=[{"schedulerName": "volcano"}]):
                took, whole, spread = await gangs(admin, size, near=near)
            rows.append([name, *_seconds(took, whole), str(spread) if near else ""])
            await gone(admin)
    return rows


def _seconds(took: list[float], whole: float) -> list[str]:
    cuts = quantiles(took, n=100)
    return [f"{value:.2f}" for value in (cuts[49], cuts[89], cuts[98], whole)]


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="gangs-of-volcano-") as name, ControlPlane(Path(name) / "plane") as plane:
        rows = asyncio.run(measure(plane, Path(name)))
    head = ["shape", "p50 s", "p90 s", "p99 s", "all bound s", "gangs in two spines"]
    print(table(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
