"""``gangsched get`` reads and follows a real API server with the scheduler's rights."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.controlplane.client import Client, Object
from tests.forked import gangsched


def pod(name: str) -> Object:
    """A pod of ours."""
    spec = {"schedulerName": "py-gang-scheduler", "containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def start(kubeconfig: Path, *arguments: str) -> asyncio.subprocess.Process:
    """The command as a process."""
    command = (*gangsched(), "get", *arguments, "--kubeconfig", str(kubeconfig))
    return await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )


async def test_a_namespace_once(admin: Client, namespace: str, scheduler_kubeconfig: Path) -> None:
    """A pod that no scheduler has seen is queued; the gangs of other namespaces are left out unless asked for."""
    await admin.create(pod("a"), namespace)
    for arguments, names in (((), []), (("-n", namespace), ["a"]), (("-A",), ["a"])):
        process = await start(scheduler_kubeconfig, "-o", "json", *arguments)
        out, errors = await process.communicate()
        assert process.returncode == 0, errors
        gangs = json.loads(out)["gangs"]
        assert [gang["name"] for gang in gangs if gang["namespace"] in (namespace, "default")] == names
        assert [gang["state"] for gang in gangs] == ["Queued"] * len(gangs)


async def test_watch_prints_what_changes(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
) -> None:
    """That no scheduler leads, the header and each gang first; then the line of a gang whose state is another."""
    await make_nodes(1)
    await admin.create(pod("a"), namespace)
    process = await start(scheduler_kubeconfig, "-n", namespace, "--watch")

    async def line() -> list[str]:
        assert process.stdout is not None
        text = await asyncio.wait_for(process.stdout.readline(), 30)
        return text.decode().split()

    try:
        assert (await line())[:4] == ["NO", "SCHEDULER", "IS", "LEADING:"]
        assert (await line())[:4] == ["NAMESPACE", "NAME", "KIND", "STATE"]
        assert (await line())[:4] == [namespace, "a", "Pod", "Queued"]
        await admin.bind("a", "node-0", namespace)
        states = []
        while "Running" not in states:
            states.append((await line())[3])
        assert set(states) <= {"Starting", "Running"}
    finally:
        process.terminate()
        await process.communicate()
