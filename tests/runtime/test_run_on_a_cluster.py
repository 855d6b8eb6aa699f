"""The command `gangsched run` as a process of its own against a real API server, with the scheduler's rights only."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane

Starter = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, scheduler_kubeconfig: Path) -> Iterator[Starter]:
    """A function that starts `gangsched run` with further arguments; what still runs afterwards is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, port: int = 0, settings: Object | None = None) -> subprocess.Popen[str]:
        config = tmp_path / "config.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "gangsched.dev/v1alpha1",
                    "kind": "GangSchedulerConfiguration",
                    "http": {"port": port},
                    "logging": {"format": "json"},
                    **(settings or {}),
                }
            )
        )
        command = [sys.executable, "-m", "gangsched.cli.main", "run", "--config", str(config)]
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(scheduler_kubeconfig), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "default"},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and the log, when the process has ended."""
    code, _, log = await finish_all(process)
    return code, log


async def finish_all(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output and the log, when the process has ended."""
    out, log = await asyncio.to_thread(process.communicate, timeout=30)
    return process.returncode, out, log


def member(name: str, gang: str = "gang", cpu: str = "3") -> Object:
    """A pod of a gang of two that is described by its annotations."""
    annotations = {
        "gang.scheduling.koordinator.sh/name": gang,
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "py-gang-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


async def test_run_binds_serves_and_stops(
    admin: Client, namespace: str, make_nodes: Callable[..., Awaitable[list[str]]], start: Starter
) -> None:
    """A gang is bound whole, probes and metrics answer, and SIGTERM ends the process with its Lease released."""
    await make_nodes(2, cpu=4)
    port = free_port()
    process = start(port=port)
    await admin.create(member("a"), namespace)
    await admin.create(member("b"), namespace)
    nodes = {
        (await admin.wait_for("Pod", name, lambda pod: pod["spec"].get("nodeName"), namespace))["spec"]["nodeName"]
        for name in ("a", "b")
    }
    assert nodes == {"node-0", "node-1"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def text(path: str) -> tuple[int, str]:
            async with session.get(path) as response:
                return response.status, await response.text()

        assert await text("/healthz") == (200, "ok\n")
        assert await text("/readyz") == (200, "ok\n")
        assert json.loads((await text("/configz"))[1])["http"]["port"] == port

        async def counted() -> bool:
            metrics = (await text("/metrics"))[1]
            return 'scheduler_schedule_attempts_total{profile="py-gang-scheduler",result="scheduled"} 2.0' in metrics

        await wait_until(counted, what="both bindings are counted")
        metrics = (await text("/metrics"))[1]
        assert "gangsched_leader 1.0" in metrics
        assert 'gangsched_write_seconds_count{kind="Bind",outcome="ok"} 2.0' in metrics
    process.send_signal(signal.SIGTERM)
    code, log = await finish(process)
    assert code == 0, log
    lease = await admin.get("Lease", "py-gang-scheduler", "gangsched-system")
    assert not lease["spec"].get("holderIdentity")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    decided = [line for line in lines if line["message"] == "decided"]
    assert {(line["gang"], line["outcome"]) for line in decided} >= {(f"{namespace}/gang", "bind")}
    assert "Traceback" not in log
    assert "Warning:" not in log


async def test_dry_run_writes_nothing(
    admin: Client, namespace: str, make_nodes: Callable[..., Awaitable[list[str]]], start: Starter
) -> None:
    """A dry run says what it would do, takes no Lease, and leaves pods as they are."""
    await make_nodes(2, cpu=4)
    before = [await admin.create(member(name), namespace) for name in ("a", "b")]
    code, out, log = await finish_all(start("--dry-run", "--once"))
    assert code == 0, log
    assert "1 gang: 1 bind" in out
    after = [await admin.get("Pod", name, namespace) for name in ("a", "b")]
    assert [pod["metadata"]["resourceVersion"] for pod in after] == [
        pod["metadata"]["resourceVersion"] for pod in before
    ]
    (line,) = [json.loads(text) for text in log.splitlines() if '"decided"' in text]
    assert set(line["placements"]) == {f"{namespace}/a", f"{namespace}/b"}


async def test_once_decides_all_and_ends(
    admin: Client, namespace: str, make_nodes: Callable[..., Awaitable[list[str]]], start: Starter
) -> None:
    """One pass binds what fits, tells what does not, and ends by itself."""
    await make_nodes(2, cpu=4)
    for name in ("a", "b"):
        await admin.create(member(name), namespace)
        await admin.create(member(f"big-{name}", "big", "40"), namespace)
    code, log = await finish(start("--once"))
    assert code == 0, log
    assert all([(await admin.get("Pod", name, namespace))["spec"].get("nodeName") for name in ("a", "b")])
    assert not (await admin.get("Pod", "big-a", namespace))["spec"].get("nodeName")
    outcomes = {
        line["gang"]: line["outcome"]
        for line in (json.loads(text) for text in log.splitlines() if text.startswith("{"))
        if line["message"] == "decided"
    }
    assert outcomes == {f"{namespace}/gang": "bind", f"{namespace}/big": "unschedulable"}


async def test_a_cluster_that_is_new_to_the_scheduler(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    start: Starter,
    control_plane: ControlPlane,
) -> None:
    """The namespace of the Lease is created where that is allowed; otherwise one sentence says what to apply."""
    await make_nodes(2, cpu=4)
    for name in ("a", "b"):
        await admin.create(member(name), namespace)
    election = {"leaderElection": {"resourceNamespace": f"{namespace}-lease"}}
    code, log = await finish(start("--once", settings=election))
    assert code == 2
    text = f"gangsched: the Lease needs the namespace {namespace}-lease, which does not exist: kubectl create namespace"
    assert text in log
    process = start("--once", "--kubeconfig", str(control_plane.admin_kubeconfig), settings=election)
    code, log = await finish(process)
    assert code == 0, log
    assert log.splitlines()[0].startswith("gangsched: https://127.0.0.1:"), "what is touched is said before it is"
    assert all([(await admin.get("Pod", name, namespace))["spec"].get("nodeName") for name in ("a", "b")])
    assert await admin.get("Lease", "py-gang-scheduler", f"{namespace}-lease")


async def test_context_is_said_before_anything_is_done(start: Starter) -> None:
    """The first line names the server, the file and the context."""
    code, log = await finish(start("--once", "--dry-run"))
    assert code == 0, log
    assert log.splitlines()[0].startswith("gangsched: https://127.0.0.1:")
    assert "context test" in log.splitlines()[0]


async def test_status_of_a_group_follows_its_pods(
    admin: Client,
    namespace: str,
    crds: list[str],
    make_nodes: Callable[..., Awaitable[list[str]]],
    start: Starter,
) -> None:
    """A PodGroup object says why it waits while there is no room, and that it runs when there is."""
    kind = "scheduling.sigs.k8s.io/v1alpha1/PodGroup"
    await admin.create(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "group"},
            "spec": {"minMember": 2},
        },
        namespace,
    )
    for name in ("a", "b"):
        pod = member(name)
        pod["metadata"] = {"name": name, "labels": {"pod-group.scheduling.sigs.k8s.io": "group"}}
        await admin.create(pod, namespace)
    process = start()

    def condition(group: Object) -> tuple[str, str] | None:
        conditions = group.get("status", {}).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in conditions), None)

    await admin.wait_for(kind, "group", lambda group: condition(group) == ("False", "Unschedulable"), namespace)
    await make_nodes(2, cpu=4)
    group = await admin.wait_for(kind, "group", lambda group: group["status"]["phase"] == "Running", namespace)
    assert (group["status"]["scheduled"], group["status"]["running"]) == (2, 2)
    assert condition(group) == ("True", "Scheduled")
    process.send_signal(signal.SIGINT)
    code, log = await finish(process)
    assert code == 0, log
