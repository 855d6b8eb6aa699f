"""``gangsched plan --cluster`` decides on a real API server what would be decided, with a file on top."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.controlplane.client import Client, Object

CONTAINER = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}


def pod(name: str, **spec: object) -> Object:
    """A pod that needs three cores."""
    spec = {"containers": [CONTAINER], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def planned(kubeconfig: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The decisions."""
    command = [sys.executable, "-m", "gangsched", "plan", "--cluster", "--kubeconfig", str(kubeconfig), "-o", "json"]
    done = await asyncio.to_thread(subprocess.run, [*command, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    decisions: list[dict[str, Any]] = json.loads(done.stdout)["decisions"]
    return decisions


async def test_my_file_on_top_of_the_cluster(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """Where the pods of a file would go, and who would leave for them; nothing is created."""
    await make_nodes(1, cpu=4)
    meta = {"name": f"high-{namespace}"}
    await admin.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1000})
    await admin.create(pod("low", nodeName="node-0"), namespace)
    await admin.create(pod("waits", schedulerName="py-gang-scheduler"), namespace)
    (waits,) = await planned(scheduler_kubeconfig, "--exit-code", code=1)
    assert (waits["gang"], waits["outcome"]) == (f"{namespace}/waits", "unschedulable")
    file = tmp_path / "new.json"
    new = pod("new", schedulerName="py-gang-scheduler", priorityClassName=f"high-{namespace}")
    new["metadata"]["namespace"] = namespace
    file.write_text(json.dumps(new))
    first, _ = await planned(scheduler_kubeconfig, "-f", str(file))
    assert first["outcome"] == "preempt"
    assert [victim["pod"] for victim in first["victims"]] == [f"{namespace}/low"]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "another"}, "status": {"capacity": {"cpu": "6"}}}
    file.write_text("\n".join(map(json.dumps, (new, node))))
    decisions = await planned(scheduler_kubeconfig, "-f", str(file), "--exit-code")
    assert {d["gang"]: list(d["placements"].values()) for d in decisions} == {
        f"{namespace}/new": ["another"],
        f"{namespace}/waits": ["another"],
    }
    assert [each["metadata"]["name"] for each in await admin.list("Pod", namespace)] == ["low", "waits"]
