"""What a tenant with `edit` in one namespace can make, on a real API server: pods of others are bound all the same."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.stories import Start
from tests.e2e.tenants import ALL, ATTACKS, HOSTILE, SHOP, others, placed, pod, setting, tenant
from tests.e2e.volcano import GROUP

pytestmark = pytest.mark.controlplane

_numbers = itertools.count(1)
#: By then what waits has starved where that takes a second.
STARVED_SECONDS = 3.0


@pytest.fixture(scope="module")
def groups_of_volcano(control_plane: ControlPlane) -> Iterator[None]:
    """Volcano's PodGroups are served; its controllers and webhooks are not there. A kind that comes or goes costs the
    API server more than an attack does, so it comes and goes once.
    """
    definitions = load(MANIFESTS / "volcano" / "crd-podgroups.yaml")

    async def serve(wanted: bool) -> None:
        async with Client(control_plane.admin_kubeconfig) as admin:
            if wanted:
                await admin.apply(definitions)
                await wait_until_served(admin, GROUP)
            for each in () if wanted else definitions:
                await admin.delete("CustomResourceDefinition", each["metadata"]["name"])

    asyncio.run(serve(wanted=True))
    yield
    asyncio.run(serve(wanted=False))


async def bound(admin: Client, thing: Object) -> float:
    """Create a pod, and wait until it is bound; returns for how many seconds."""
    began = time.monotonic()
    meta = (await admin.create(thing))["metadata"]
    await admin.wait_for("Pod", meta["name"], lambda p: bool(p["spec"].get("nodeName")), meta["namespace"], timeout=60)
    return time.monotonic() - began


@pytest.mark.parametrize("finding", sorted(ATTACKS))
async def test_the_pod_of_another_tenant_is_bound(
    finding: str,
    admin: Client,
    control_plane: ControlPlane,
    make_nodes: Callable[..., Awaitable[list[str]]],
    groups_of_volcano: None,
    start_scheduler: Start,
    tmp_path: Path,
) -> None:
    """The tenant's objects are there first, and the scheduler has seen them, and has had the time to reserve room where
    that is after a second; a pod of another namespace that comes then is bound, no pod of a higher priority than the
    tenant may have was evicted, and the process goes on. What a policy keeps is in test_refused_removals.py. With `-rP`
    it says how long each of them waited, and one before the tenant's objects were there.
    """
    attack, number = ATTACKS[finding], next(_numbers)
    hostile_space, shop = f"{HOSTILE}-{number}", f"{SHOP}-{number}"
    await make_nodes(2, cpu=4)
    await admin.apply(placed(each, number) for each in (*setting(), *others()))
    for name in ALL:
        await admin.wait_for("Pod", name, lambda p: p["status"].get("phase") == "Running", shop)
    async with start_scheduler(queue={"starvationAfter": attack.starvation_after}) as scheduler:
        before = await bound(admin, placed(pod("leads", "1m", space=SHOP), number))
        file = tmp_path / "tenant.kubeconfig"
        async with await tenant(admin, file, control_plane.admin_kubeconfig, hostile_space) as hostile:
            await asyncio.gather(*(hostile.create(placed(each, number)) for each in attack.objects()))
            if attack.starvation_after == "1s":
                await asyncio.sleep(STARVED_SECONDS)
            for name in attack.deletes:
                await hostile.delete("Pod", name, hostile_space)
        if attack.run_first:

            async def enough() -> bool:
                there = [p for p in await admin.list("Pod", hostile_space) if p["spec"].get("nodeName")]
                return len(there) >= attack.run_first

            await wait_until(enough, 60, what="the tenant's pods are bound")
        probe, honest = pod("probe", "1m", space=SHOP), pod("honest", attack.cpu, space=SHOP)
        waited = []
        for each in (probe, honest):
            if attack.of_class:
                each["spec"]["priorityClassName"] = attack.of_class
            if attack.deadline:
                each["spec"]["activeDeadlineSeconds"] = attack.deadline
            waited.append(await bound(admin, placed(each, number)))
        print(f"{finding}: probe {waited[0]:.2f} s, honest {waited[1]:.2f} s; before {before:.2f} s")
        for name in attack.stay:
            found = await admin.find("Pod", name, shop)
            assert found is not None, f"{name} was evicted"
            assert "deletionTimestamp" not in found["metadata"], f"{name} is evicted"
        assert scheduler.process.returncode is None
