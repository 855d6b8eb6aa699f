"""Stories of the examples, played on a cluster, and what is read of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.controlplane.client import Change, Client, Object, Recorder, load, wait_until
from tests.e2e.scheduler import RunningScheduler

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Start = Callable[..., AbstractAsyncContextManager[RunningScheduler]]

INTENT = "gangsched.dev/Nominated"


def condition(pod: Object, kind: str) -> Object:
    """A condition of a pod, or an empty one."""
    found = [c for c in pod.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


def first(changes: list[Change], holds: Callable[[Change], bool]) -> int:
    """Position of the first change for which something holds."""
    return next(n for n, change in enumerate(changes) if holds(change))


def is_marked(change: Change) -> bool:
    """The pod is marked as a victim."""
    return condition(change.object, "DisruptionTarget").get("status") == "True"


class Story:
    """What the watch saw, by phase: positions in the order in which the API server made the changes."""

    def __init__(self, recorder: Recorder, members: list[str], victims: list[str]) -> None:
        changes = recorder.changes

        def at(name: str, holds: Callable[[Change], bool]) -> int:
            return first(changes, lambda c: c.name == name and holds(c))

        self.nominated = [at(m, lambda c: bool(c.object["status"].get("nominatedNodeName"))) for m in members]
        self.marked = [at(v, is_marked) for v in victims]
        self.removed = [at(v, lambda c: c.terminating) for v in victims]
        # A kubelet reports a terminal phase once the containers have stopped: the room is free from then on.
        self.gone = [at(v, lambda c: c.type == "DELETED" or c.phase in ("Succeeded", "Failed")) for v in victims]
        self.bound = [at(m, lambda c: bool(c.node)) for m in members]

    def check_order(self) -> None:
        """Each phase is complete before the next begins."""
        assert max(self.nominated) < min(self.marked)
        assert max(self.marked) < min(self.removed)
        assert max(self.gone) < min(self.bound)


async def nodes_ready(admin: Client) -> None:
    """All nodes are Ready and untainted."""

    async def ready() -> bool:
        nodes = await admin.list("Node")
        return all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", []))
            and not n["spec"].get("taints")
            for n in nodes
        )

    await wait_until(ready, what="nodes are ready")


async def running(admin: Client, names: list[str]) -> None:
    """These pods run."""
    for name in names:
        await admin.wait_for("Pod", name, lambda p: p["status"].get("phase") == "Running")


def split(folder: Path) -> tuple[list[Object], list[Object]]:
    """The objects that are there from the start, and the pending pods with their groups."""
    things = load(folder)
    pending = [t for t in things if t["kind"] == "Pod" and "nodeName" not in t["spec"]]
    groups = {
        p["metadata"].get("labels", {}).get("pod-group.scheduling.sigs.k8s.io")
        or p["spec"].get("schedulingGroup", {}).get("podGroupName")
        for p in pending
    }
    late = [t for t in things if t in pending or (t["kind"] == "PodGroup" and t["metadata"]["name"] in groups)]
    early = [t for t in things if t not in late]
    for thing in early:
        if thing["kind"] == "Pod":
            thing.pop("status", None)
    return early, late


async def play(admin: Client, folder: Path, recorder_wait: list[str]) -> tuple[Recorder, list[str], list[str]]:
    """Apply a story's start, then its gang, and record pods until all members are bound."""
    early, late = split(folder)
    victims = [t["metadata"]["name"] for t in early if t["kind"] == "Pod"]
    members = [t["metadata"]["name"] for t in late if t["kind"] == "Pod"]
    await admin.apply([t for t in early if t["kind"] != "Pod"])
    await nodes_ready(admin)
    await admin.apply([t for t in early if t["kind"] == "Pod"])
    await running(admin, [*victims, *recorder_wait])
    async with admin.record("Pod") as recorder:
        await admin.apply(late)
        await running(admin, members)
    return recorder, members, victims


async def events(admin: Client, reason: str) -> list[Object]:
    """Events of one reason. Those of earlier tests are wiped with all else."""
    return [e for e in await admin.list("events.k8s.io/v1/Event") if e.get("reason") == reason]


async def bystander(admin: Client, node: str) -> Object:
    """A small pod of low priority on the node that nobody needs to evict."""
    return await admin.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"bystander-{node}", "namespace": "default"},
            "spec": {
                "nodeName": node,
                "priority": 0,
                "terminationGracePeriodSeconds": 3,
                "containers": [{"name": "c", "image": "busybox"}],
            },
        }
    )
