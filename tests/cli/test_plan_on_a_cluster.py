"""``gangsched plan --cluster`` decides on a real API server what would be decided, with a file on top."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cli.on_a_cluster import make_class, pod, ran
from tests.controlplane.client import Client


async def planned(kubeconfig: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The decisions."""
    found, out, errors = await ran(kubeconfig, "plan", "--cluster", "-o", "json", *arguments)
    assert found == code, errors
    decisions: list[dict[str, Any]] = json.loads(out)["decisions"]
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
    await make_class(admin, f"high-{namespace}")
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


async def test_when_a_gang_will_start(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
) -> None:
    """When the pod in its way ends, by the run time that is declared on it; without one it is unknown."""
    await make_nodes(1, cpu=4)
    low = pod("low", nodeName="node-0")
    await admin.create(low, namespace)
    await admin.create(pod("waits", schedulerName="py-gang-scheduler"), namespace)
    running = await admin.wait_for("Pod", "low", lambda p: p["status"].get("phase") == "Running", namespace=namespace)
    (waits,) = await planned(scheduler_kubeconfig, "--eta")
    assert (waits["eta"]["likely"], waits["eta"]["unknown"]) == (None, [f"Pod {namespace}/low"])
    note = {"metadata": {"annotations": {"gangsched.dev/expected-run-time": "1h"}}}
    await admin.patch("Pod", "low", note, namespace)
    (waits,) = await planned(scheduler_kubeconfig, "--eta")
    began = datetime.fromisoformat(running["status"]["startTime"])
    starts = [datetime.fromisoformat(waits["eta"][key]) - began for key in ("earliest", "likely", "latest")]
    for found, minutes in zip(starts, (48, 60, 72), strict=True):
        assert timedelta(0) <= found - timedelta(minutes=minutes) < timedelta(seconds=3)
