"""Commands as processes of their own on a real API server, and what is there for them to read."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.controlplane.client import Client, Object
from tests.forked import gangsched


def pod(name: str, **spec: object) -> Object:
    """A pod that needs three cores and leaves at once."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def make_class(admin: Client, name: str, **annotations: str) -> None:
    """A PriorityClass of value 1000."""
    meta = {"name": name, "annotations": annotations}
    await admin.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1000})


async def ran(kubeconfig: Path | None, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    command = [*gangsched(), *arguments]
    if kubeconfig is not None:
        command += ["--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@asynccontextmanager
async def page_of(*arguments: str) -> AsyncIterator[tuple[str, str]]:
    """The address of the page of `gangsched ui`, and its secret, for as long as it runs."""
    command = (*gangsched(), "ui", *arguments)
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        line = await asyncio.wait_for(server.stdout.readline(), 60)
        while line and b"http://" not in line:  # that no scheduler leads comes before all
            line = await asyncio.wait_for(server.stdout.readline(), 60)
        address, _, secret = line.decode().split()[-1].partition("?token=")
        assert len(secret) >= 32
        yield address, secret
    finally:
        server.terminate()
        await server.wait()
