"""One round: nodes full of pods of kube-scheduler, which controllers create again, and a gang that needs the room.

A round ends when the gang runs whole, or when it has had its time. What happened is read off the watch of pods: how
many members were bound, over which span, and which pods of the others left for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.controlplane.client import Change, Client, Object, Recorder, wait_until
from tests.forked import gangsched

OURS, OTHERS = "py-gang-scheduler", "default-scheduler"
GPU = "nvidia.com/gpu"
SPACE = "default"
HELD = "gangsched.dev/held"
#: A taint that somebody else keeps on every node, and that must never be lost.
KEPT = {"key": "example.com/kept", "value": "yes", "effect": "PreferNoSchedule"}
KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod")
GRACES = (0, 1, 5, 30)
#: Members that are bound so long after the first (seconds) make a gang that ran in part.
SPAN_SECONDS = 5.0
#: How long after the round nodes may bear the taint at most.
RELEASED_SECONDS = 15.0
#: What a round needs is there by then, however busy the machine is.
SETUP_SECONDS = 300.0
#: Beside the grace period, how long a gang may take on a busy machine.
PATIENCE_SECONDS = 90.0


class Round(msgspec.Struct, frozen=True):
    """What is there: ``nodes`` of 8 GPUs, each with a pod of the ``kind`` of controller that takes all of it and has
    this ``grace`` period (seconds); a gang of so many ``members``. ``wanting`` pods of kube-scheduler wait for exactly
    that room, and the controller is scaled up by ``more`` when the gang comes, with which a DaemonSet comes that
    tolerates everything if there is to be one.
    """

    number: int
    nodes: int
    kind: str
    grace: int
    members: int
    wanting: int = 0
    more: int = 0
    daemons: bool = False


class Outcome(msgspec.Struct):
    """What became of a round. ``span`` is the time between its first and its last binding (seconds)."""

    round: Round
    bound: int
    span: float
    seconds: float
    planned: int
    evicted: int
    released: float = -1.0
    lost: int = 0

    @property
    def whole(self) -> bool:
        """The gang runs whole, and never ran in part."""
        return self.bound == self.round.members and not self.in_part

    @property
    def in_part(self) -> bool:
        """Some members ran without the others."""
        return 0 < self.bound < self.round.members or self.span > SPAN_SECONDS

    @property
    def good(self) -> bool:
        """Whole, with no more evictions than planned, no taint of ours left, and none of others lost."""
        released = 0 <= self.released <= RELEASED_SECONDS
        return self.whole and self.evicted <= self.planned and released and not self.lost


def rounds(count: int, seed: int = 0) -> Iterator[Round]:
    """So many rounds, in which each kind meets each grace period, with 4 to 40 nodes."""
    chance = random.Random(seed)
    for number in range(count):
        kind, grace = KINDS[number % len(KINDS)], GRACES[(number // len(KINDS)) % len(GRACES)]
        nodes = chance.choice((4, 4, 6, 8, 12, 20, 40)) if number else 4
        members = chance.randint(max(2, nodes // 2), nodes) if number else 4
        wanting = chance.choice((0, 0, nodes // 2, nodes))
        more = chance.choice((0, nodes // 2)) if kind in ("ReplicaSet", "Deployment") else 0
        yield Round(number, nodes, kind, grace, members, wanting, more, chance.random() < 0.5)


# -- objects ----------------------------------------------------------------------------------------------------


def _priority(name: str, value: int) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


CLASSES = [_priority("beside-low", 100), _priority("beside-high", 1000)]


def gpu_node(number: int) -> Object:
    """A node of 8 GPUs."""
    name, room = f"gpu-{number}", {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "beside": "gpu"}}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [KEPT]}, "status": status}


def _spec(grace: int, level: str, scheduler: str, gpus: int = 8) -> Object:
    requests = {"cpu": "1", GPU: str(gpus)} if gpus else {"cpu": "100m"}
    container = {"name": "c", "image": "busybox", "resources": {"requests": requests}}
    container["resources"]["limits"] = {GPU: str(gpus)} if gpus else {}  # type: ignore[index]
    return {
        "schedulerName": scheduler,
        "priorityClassName": level,
        "terminationGracePeriodSeconds": grace,
        "containers": [container],
    }


def gpu_pod(name: str, grace: int, level: str, scheduler: str) -> Object:
    """A pod that takes a whole node."""
    return _object("Pod", name, _spec(grace, level, scheduler))


def _template(app: str, spec: Object) -> Object:
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def _object(kind: str, name: str, spec: Object) -> Object:
    api = {"Job": "batch/v1", "Pod": "v1"}.get(kind, "apps/v1")
    labels = {"app": name, "beside": "round"}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "spec": spec,
    }


def workload(made: Round) -> list[Object]:
    """The pods of kube-scheduler that fill the nodes, and what makes them."""
    spec = _spec(made.grace, "beside-low", OTHERS)
    if made.kind == "Pod":
        return [_object("Pod", f"web-{n}", spec) for n in range(made.nodes)]
    template = _template("web", spec)
    if made.kind == "Job":
        template["spec"] = {**spec, "restartPolicy": "Never"}
        job = {"parallelism": made.nodes, "completions": made.nodes, "backoffLimit": 1000, "template": template}
        return [_object("Job", "web", job)]
    more = {"serviceName": "web", "podManagementPolicy": "Parallel"} if made.kind == "StatefulSet" else {}
    selector = {"matchLabels": {"app": "web"}}
    return [_object(made.kind, "web", {"replicas": made.nodes, "selector": selector, "template": template, **more})]


def gang(made: Round) -> Object:
    """The gang, as a Job."""
    template = _template("gang", {**_spec(1, "beside-high", OURS), "restartPolicy": "Never"})
    size = {"parallelism": made.members, "completions": made.members, "backoffLimit": 0}
    job = _object("Job", "gang", {**size, "template": template})
    job["metadata"]["annotations"] = {"gangsched.dev/gang": "true"}
    return job


def _daemons() -> Object:
    spec = {**_spec(0, "beside-low", OTHERS, gpus=0), "tolerations": [{"operator": "Exists"}]}
    return _object(
        "DaemonSet", "daemon", {"selector": {"matchLabels": {"app": "daemon"}}, "template": _template("daemon", spec)}
    )


# -- a round ------------------------------------------------------------------------------------------------------

#: What else happens in a round, from when the gang comes.
Meanwhile = Callable[[Client, Recorder], Coroutine[Any, Any, None]]


async def set_up(admin: Client, made: Round) -> None:
    """Nodes that are full, and pods that wait for them."""
    await admin.apply(CLASSES)
    await admin.apply([gpu_node(n) for n in range(made.nodes)])

    async def ready() -> bool:
        nodes = await admin.list("Node", labels="beside=gpu")
        up = [n for n in nodes if any(c["type"] == "Ready" and c["status"] == "True" for c in _conditions(n))]
        return len(up) == made.nodes and not any(_taints(n, "node.kubernetes.io/") for n in nodes)

    await wait_until(ready, timeout=SETUP_SECONDS, what="nodes are ready")
    await admin.apply(workload(made))

    async def full() -> bool:
        pods = await admin.list("Pod", SPACE, labels="app=web" if made.kind != "Pod" else "beside=round")
        return sum(p["status"].get("phase") == "Running" for p in pods) == made.nodes

    await wait_until(full, timeout=SETUP_SECONDS, what="the nodes are full")
    wanting = [_object("Pod", f"wants-{n}", _spec(0, "beside-low", OTHERS)) for n in range(made.wanting)]
    await admin.apply(wanting)


def _conditions(node: Object) -> list[Object]:
    return node.get("status", {}).get("conditions") or []


def _taints(node: Object, prefix: str) -> list[Object]:
    return [t for t in node["spec"].get("taints") or [] if t["key"].startswith(prefix)]


async def play(
    admin: Client, kubeconfig: Path, folder: Path, made: Round, meanwhile: Meanwhile | None = None
) -> Outcome:
    """Set up, let the gang come, and see what becomes of it; then everything is removed."""
    await set_up(admin, made)
    planned = await _planned(kubeconfig, folder, made)
    async with admin.record("Pod", SPACE) as recorder:
        began = time.monotonic()
        await admin.apply(gang(made))
        other = asyncio.create_task(meanwhile(admin, recorder)) if meanwhile is not None else None
        await _others(admin, made)
        outcome = await _watch(recorder, made, planned, began)
        if other is not None:
            await other
        await asyncio.sleep(1.0)  # what is evicted once more for it shows by now
        outcome.evicted = len(_evicted(recorder))
    outcome.released = await _released(admin)
    outcome.lost = sum(KEPT not in _taints(n, KEPT["key"]) for n in await admin.list("Node", labels="beside=gpu"))
    await tear_down(admin)
    return outcome


async def _others(admin: Client, made: Round) -> None:
    if made.more:
        await admin.patch(made.kind, "web", {"spec": {"replicas": made.nodes + made.more}}, SPACE)
    if made.daemons:
        await admin.apply(_daemons())


async def _watch(recorder: Recorder, made: Round, planned: int, began: float) -> Outcome:
    """Wait until all members are bound, or the time is over."""
    bound: dict[str, float] = {}

    def all_bound(change: Change) -> bool:
        if change.object["metadata"].get("labels", {}).get("app") == "gang" and change.node:
            bound.setdefault(change.name, change.at)
        return len(bound) == made.members

    with contextlib.suppress(AssertionError):
        await recorder.wait(all_bound, made.grace + PATIENCE_SECONDS)
    times = sorted(bound.values()) or [began]
    return Outcome(made, len(bound), times[-1] - times[0], times[-1] - began, planned, 0)


def _evicted(recorder: Recorder) -> set[str]:
    """The UIDs of the pods of others that were on a node and that were removed."""
    return {
        change.object["metadata"]["uid"]
        for change in recorder.changes
        if change.object["metadata"].get("labels", {}).get("app") not in ("gang", "daemon")
        and change.node
        and (change.terminating or change.type == "DELETED")
    }


async def _planned(kubeconfig: Path, folder: Path, made: Round) -> int:
    """How many pods `gangsched plan` says that it will evict."""
    manifest = folder / "gang.yaml"
    manifest.write_text(yaml.safe_dump(gang(made)))
    command = ["plan", "--cluster", "--kubeconfig", str(kubeconfig), "-f", str(manifest), "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        *gangsched(),
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    decided: list[dict[str, Any]] = json.loads(out)["decisions"] if process.returncode == 0 else []
    if [each["outcome"] for each in decided] != ["preempt"]:
        raise AssertionError(f"plan ended with {process.returncode}: {out.decode()}\n{err.decode()}")
    return len(decided[0]["victims"])


async def _released(admin: Client) -> float:
    """After how many seconds no node bears the taint any more; -1: it still does."""
    began = time.monotonic()

    async def free() -> bool:
        return not any(_taints(n, HELD) for n in await admin.list("Node"))

    try:
        await wait_until(free, timeout=RELEASED_SECONDS)
    except AssertionError:
        return -1.0
    return time.monotonic() - began


async def tear_down(admin: Client) -> None:
    """Everything of the round is removed."""
    for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job"):
        for each in await admin.list(kind, SPACE, labels="beside=round"):
            await admin.delete(kind, each["metadata"]["name"], SPACE)

    async def gone() -> bool:
        pods = await admin.list("Pod", SPACE)
        await asyncio.gather(*(_remove(admin, p) for p in pods), return_exceptions=True)
        return not pods

    await wait_until(gone, timeout=SETUP_SECONDS, what="all pods are gone", interval=0.3)
    for node in await admin.list("Node", labels="beside=gpu"):
        await admin.delete("Node", node["metadata"]["name"])


async def _remove(admin: Client, pod: Object) -> None:
    await admin.delete("Pod", pod["metadata"]["name"], SPACE, grace_seconds=0)
