"""A port that is full of slow clients, while the scheduler does its work on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gangsched.runtime.http_server import raise_file_limit
from tests.controlplane.client import Client
from tests.e2e.jobs import CLUSTER, urgent
from tests.e2e.stories import Start, nodes_ready

pytestmark = pytest.mark.controlplane

CLIENTS = 1000


@asynccontextmanager
async def slow_clients(port: int) -> AsyncIterator[None]:
    """So many clients that never end their request; one that is closed connects again."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()

    loop = asyncio.get_running_loop()

    async def slow() -> None:
        while True:
            with contextlib.suppress(OSError), socket.socket() as client:
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", port))
                await loop.sock_sendall(client, b"GET /healthz HTTP/1.1\r\nX-Slow: ")
                await loop.sock_recv(client, 1)
            await asyncio.sleep(0.2)

    clients = [asyncio.create_task(slow()) for _ in range(CLIENTS)]
    try:
        yield
    finally:
        for each in clients:
            each.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_thousand_slow_clients_silence_no_probe_and_stop_no_gang(
    admin: Client, start_scheduler: Start, crds: list[str]
) -> None:
    """The kubelet would kill a scheduler that does not answer three probes in a row: here each one is answered, and a
    gang that comes meanwhile is bound.
    """
    await admin.apply(CLUSTER)
    await nodes_ready(admin)
    async with start_scheduler() as leader, slow_clients(int(leader.url.rpartition(":")[2])):
        await admin.apply(urgent("g"))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            for _ in range(20):
                async with session.get(f"{leader.url}/healthz") as answer:
                    assert (answer.status, await answer.text()) == (200, "ok\n")
        for number in (1, 2):
            await admin.wait_for("Pod", f"g-{number}", lambda pod: bool(pod["spec"].get("nodeName")), timeout=60)
