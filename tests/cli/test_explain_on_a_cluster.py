"""``gangsched explain`` reads a real API server with the scheduler's rights, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml

from tests.cli.on_a_cluster import make_class, pod, ran
from tests.controlplane.client import Client


async def explained(kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, text and errors of the command as a process of its own."""
    code, out, errors = await ran(kubeconfig, "explain", *arguments)
    return code, " ".join(out.split()), errors


def in_namespace(kubeconfig: Path, namespace: str, folder: Path) -> Path:
    """The same kubeconfig with a namespace in its context."""
    content = yaml.safe_load(kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = namespace
    other = folder / "kubeconfig"
    other.write_text(yaml.safe_dump(content))
    return other


async def test_a_victim_and_its_preemptor(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """The decision that would be made now, from both sides; nothing in the cluster changes."""
    await make_nodes(1, cpu=4)
    await make_class(admin, f"high-{namespace}", **{"gangsched.dev/preemption-delay": "10m"})
    await admin.create(pod("low", nodeName="node-0"), namespace)
    await admin.wait_for("Pod", "low", lambda pod: pod["status"]["phase"] == "Running", namespace)
    await admin.create(pod("new", schedulerName="py-gang-scheduler", priorityClassName=f"high-{namespace}"), namespace)
    before = [(await admin.get("Pod", n, namespace))["metadata"]["resourceVersion"] for n in ("low", "new")]
    code, text, errors = await explained(scheduler_kubeconfig, f"{namespace}/new")
    assert code == 0, errors
    assert "waits 10m for room before it evicts (preemption delay)" in text
    code, text, errors = await explained(in_namespace(scheduler_kubeconfig, namespace, tmp_path), "pod/new")
    assert (code, f"{namespace}/new" in text) == (0, True), errors
    later = ("--now", "2100-01-01T00:00:00Z")
    code, text, errors = await explained(scheduler_kubeconfig, f"{namespace}/low", *later)
    assert code == 0, errors
    assert f"VICTIM it is evicted for Pod {namespace}/new (priority 1000)" in text
    code, text, errors = await explained(scheduler_kubeconfig, f"{namespace}/new", "-o", "json", *later)
    assert code == 0, errors
    (decision,) = json.loads(text)["decisions"]
    assert [victim["pod"] for victim in decision["victims"]] == [f"{namespace}/low"]
    code, text, errors = await explained(scheduler_kubeconfig, f"{namespace}/nobody")
    assert (code, "NO SCHEDULER IS LEADING" in text) == (2, True)
    assert f"there is no gang or pod {namespace}/nobody" in errors
    after = [(await admin.get("Pod", n, namespace))["metadata"]["resourceVersion"] for n in ("low", "new")]
    assert after == before
