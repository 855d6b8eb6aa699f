"""Rounds in which a gang and pods of kube-scheduler want the same devices at the same time.

    python -m tests.beside.claims [ROUNDS]

Two nodes have four devices each. The gang needs two for each of its members. The pods of kube-scheduler come within
half a second, and may need more than what is left. A device is never given out twice, and the gang starts whole or
not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.devices import claim, device_class, devices_of, given_twice, pod, resource_slice, template
from tests.e2e.scheduler import running_scheduler

OTHERS, SPACE = "default-scheduler", "default"
NODES, DEVICES, MEMBERS = 2, 4, 3
#: So long at most a round takes until nothing changes any more.
ROUND_SECONDS = 60.0


class Outcome(msgspec.Struct, frozen=True):
    """How many members of the gang were bound, and of ``wanting`` pods of kube-scheduler; and how many devices are
    ``left`` of each node. Which devices two bound pods have, and which ones two claims had for a moment.
    """

    members: int
    others: int
    wanting: int
    left: list[int]
    shared: list[str]
    overlapped: list[str]

    @property
    def good(self) -> bool:
        """No device is ever given out twice, the gang is whole or waits, and no pod waits that fits."""
        used = self.others == self.wanting or not any(self.left)
        fits = sum(left // 2 for left in self.left) >= MEMBERS
        return (
            not (self.shared or self.overlapped)
            and used
            and (self.members == MEMBERS or (not self.members and not fits))
        )


def _node(name: str) -> Object:
    room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": room, "allocatable": room}}


async def set_up(admin: Client) -> None:
    """Nodes with devices, once for all rounds."""
    names = [f"n-{i}" for i in range(NODES)]
    await admin.apply([_node(name) for name in names])

    async def ready() -> bool:
        nodes = await admin.list("Node")
        return not any(n["spec"].get("taints") for n in nodes) and all(_is_ready(n) for n in nodes)

    await wait_until(ready, timeout=120.0, what="nodes are ready")
    slices = [resource_slice(name, DEVICES) for name in names]
    await admin.apply([device_class(), template("one"), template("two", 2), *slices])
    # A node with another class of devices: kube-scheduler is known to give out devices.
    other = "nic.example.com"
    await admin.apply([_node("other"), device_class(other, other), resource_slice("other", 1, other)])
    await admin.apply([claim("nic", 1, other), pod("uses-nic", {"nic": "nic"}, schedulerName=OTHERS)])
    await admin.wait_for("Pod", "uses-nic", lambda p: p["spec"].get("nodeName"))


def _is_ready(node: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())


def _gang() -> list[Object]:
    """The gang, and its group."""
    meta = {"name": "g", "namespace": SPACE}
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta}
    ours = [pod(f"m-{i}", templates={"gpus": "two"}) for i in range(MEMBERS)]
    for each in ours:
        each["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "g"}
    return [{**group, "spec": {"minMember": MEMBERS}}, *ours]


def _bound(pods: Iterable[Object], prefix: str) -> list[str]:
    return [
        p["metadata"]["name"] for p in pods if p["metadata"]["name"].startswith(prefix) and p["spec"].get("nodeName")
    ]


async def play(admin: Client, number: int) -> Outcome:
    """Play one round, and remove what it has made."""
    chance = random.Random(number)
    wanting, late = chance.choice((2, 3, 4, 5)), chance.uniform(0.0, 0.5)
    theirs = [pod(f"o-{i}", templates={"gpus": "one"}, schedulerName=OTHERS) for i in range(wanting)]
    async with admin.record("ResourceClaim", SPACE) as seen:
        group, *members = _gang()
        await admin.apply([group])
        await asyncio.gather(*(admin.create(each, SPACE) for each in members))
        await asyncio.sleep(late)
        await asyncio.gather(*(admin.create(each, SPACE) for each in theirs))

        async def settled() -> bool:
            return (await _outcome(admin, wanting, [])).good

        with contextlib.suppress(AssertionError):
            await wait_until(settled, timeout=20.0)
        await asyncio.sleep(1.0)  # what is given out once more shows by now
    outcome = await _outcome(admin, wanting, given_twice(seen.changes))
    await _tear_down(admin)
    return outcome


async def _outcome(admin: Client, wanting: int, overlapped: list[str]) -> Outcome:
    pods = await admin.list("Pod", SPACE)
    found = [c for c in await admin.list("ResourceClaim", SPACE) if c["metadata"].get("ownerReferences")]
    claims = {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}
    members, others = _bound(pods, "m-"), _bound(pods, "o-")
    users: dict[tuple[str, str, str], list[str]] = {}
    for name in (*members, *others):
        for device in devices_of(claims[name]):
            users.setdefault(device, []).append(name)
    shared = [f"{'/'.join(device)}: {', '.join(names)}" for device, names in users.items() if len(names) > 1]
    left = [DEVICES - sum(pool == f"n-{i}" for _, pool, _ in users) for i in range(NODES)]
    return Outcome(len(members), len(others), wanting, left, shared, overlapped)


async def _tear_down(admin: Client) -> None:
    for each in await admin.list("PodGroup", SPACE):
        await admin.delete("scheduling.sigs.k8s.io/v1alpha1/PodGroup", each["metadata"]["name"], SPACE)

    async def gone() -> bool:
        names = [each["metadata"]["name"] for each in await admin.list("Pod", SPACE)]
        names = [name for name in names if name != "uses-nic"]
        await asyncio.gather(
            *(admin.delete("Pod", name, SPACE, grace_seconds=0) for name in names), return_exceptions=True
        )
        return not names and len(await admin.list("ResourceClaim", SPACE)) == 1

    await wait_until(gone, timeout=ROUND_SECONDS, what="pods and claims are gone", interval=0.3)


async def rounds(count: int, folder: Path) -> list[Outcome]:
    """Play so many, on a control plane of their own."""
    plane = ControlPlane(folder / "plane", kube_scheduler=OTHERS)
    await asyncio.to_thread(plane.start)
    try:
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
            await set_up(admin)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                outcomes = []
                for number in range(count):
                    outcomes.append(await play(admin, number))
                    print(number, outcomes[-1], file=sys.stderr, flush=True)
    finally:
        await asyncio.to_thread(plane.stop)
    return outcomes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="claims-") as name:
        found = asyncio.run(rounds(int(sys.argv[1]) if len(sys.argv) > 1 else 20, Path(name)))
    print(f"{sum(each.good for each in found)} of {len(found)} rounds good")
    sys.exit(0 if all(each.good for each in found) else 1)
