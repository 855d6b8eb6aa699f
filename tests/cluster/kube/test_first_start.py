"""The first process of an installation waits for nobody; one that another may have preceded does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gangsched.cluster.kube.history import NAME as HISTORY
from gangsched.cluster.kube.lease import LeaseSettings, unique_identity
from gangsched.cluster.kube.published import NAME as STATUS
from gangsched.core.actions import Bind
from tests.cluster.kube.conftest import Reader, make_pod
from tests.controlplane.client import Client
from tests.faulty_proxy import Fault, FaultyProxy

SPACE, NAME, OTHER = "gangsched-system", "py-gang-scheduler", "another-scheduler"
#: For longer than any test waits.
LONG_SECONDS = 600.0


@pytest.fixture
async def start(make_cluster: Callable[..., Awaitable[Reader]], admin: Client) -> AsyncIterator[Callable[[], Any]]:
    """Start a process whose predecessor's last write could take ten minutes. There is no Lease and no status."""

    async def clean() -> None:
        for kind, name in (("Lease", NAME), ("ConfigMap", STATUS), ("ConfigMap", HISTORY)):
            if await admin.find(kind, name, SPACE):
                await admin.delete(kind, name, SPACE)

    async def begin() -> Reader:
        lease = LeaseSettings(
            namespace=SPACE,
            name=NAME,
            identity=unique_identity(),
            duration_seconds=3.0,
            renew_deadline_seconds=2.0,
            retry_period_seconds=0.2,
            takeover_wait_seconds=LONG_SECONDS,
            names=(NAME,),
        )
        publishes = b"{}", lambda: {"leader": "me"}
        return await make_cluster(lease=lease, history_namespace=SPACE, publishes=publishes)

    await clean()
    yield begin
    await clean()


async def waits(reader: Reader, admin: Client) -> bool:
    """Whether the process holds the Lease, renews it, and leads only later."""
    name = (await admin.wait_for("Lease", NAME, lambda found: bool(found["spec"].get("holderIdentity")), SPACE))["spec"]
    await admin.wait_for("Lease", NAME, lambda found: found["spec"]["renewTime"] != name["acquireTime"], SPACE)
    return not reader.cluster.health().leading


async def test_the_first_process_leads_at_once(start: Callable[[], Any], admin: Client, namespace: str) -> None:
    """Pods of other schedulers, and its own that no node has yet, show no earlier process. Its mark is there then."""
    await make_pod(admin, namespace, "theirs", schedulerName=OTHER, nodeName="node-0")
    pod = await make_pod(admin, namespace, "ours")
    reader = await start()
    await reader.leading()
    assert (await admin.get("ConfigMap", STATUS, SPACE))["data"]
    await reader.do(Bind(1, pod, "node-0"))
    assert (await admin.get("Pod", "ours", namespace))["spec"]["nodeName"] == "node-0"


@pytest.mark.parametrize("name", [STATUS, HISTORY])
async def test_a_record_shows_an_earlier_process(start: Callable[[], Any], admin: Client, name: str) -> None:
    """The Lease was deleted, and whoever held it may still write."""
    await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}})
    assert await waits(await start(), admin)


async def test_a_pod_on_a_node_shows_an_earlier_process(
    start: Callable[[], Any], admin: Client, namespace: str
) -> None:
    """Lease and status were deleted."""
    await make_pod(admin, namespace, "ours", nodeName="node-0")
    assert await waits(await start(), admin)


async def test_what_cannot_be_asked_is_waited_for(start: Callable[[], Any], admin: Client, proxy: FaultyProxy) -> None:
    """An error says nothing about earlier processes."""
    proxy.fail(Fault(path="/configmaps$", times=None, status=500))
    assert await waits(await start(), admin)
