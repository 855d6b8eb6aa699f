"""Gangs of Volcano on a real API server, without Volcano: with its PodGroups, and its name as ours."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.client import Client, load, wait_until_served
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import CLUSTER
from tests.e2e.stories import Start, nodes_ready, running
from tests.e2e.volcano import GROUP, group, member, phase

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def groups(admin: Client) -> AsyncIterator[None]:
    """Volcano's PodGroups are served."""
    definitions = load(MANIFESTS / "volcano" / "crd-podgroups.yaml")
    await admin.apply(definitions)
    await wait_until_served(admin, GROUP)
    yield
    for definition in definitions:
        await admin.delete("CustomResourceDefinition", definition["metadata"]["name"])


async def test_pods_are_created_once_the_phase_says_so(admin: Client, start_scheduler: Start, groups: None) -> None:
    """A group without pods becomes Inqueue; with one of two roles it gathers; with both it runs, and says so. One that
    does not fit stays Inqueue, with the reason. All with the rights of the manifests, and without the controllers.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    off = {"profiles": [{"schedulerName": "volcano"}], "groupStatus": {"enabled": False}}
    async with start_scheduler(**off):
        await admin.apply(group("job", 2, ps=1, worker=1))
        await admin.wait_for(GROUP, "job", phase("Inqueue"))
        await admin.apply([member("worker-0", "job", "worker"), member("worker-1", "job", "worker")])
        told = await admin.wait_for("Pod", "worker-0", lambda p: bool(p["status"].get("conditions")))
        await admin.delete("Pod", "worker-1")
        await admin.apply(member("ps-0", "job", "ps"))
        await running(admin, ["ps-0", "worker-0"])
        ran = await admin.wait_for(GROUP, "job", phase("Running"))
        await admin.apply([group("late", 1), member("late-0", "late", "worker")])
        waits = await admin.wait_for(GROUP, "late", lambda g: bool(g.get("status", {}).get("conditions")))
    assert "role ps" in told["status"]["conditions"][0]["message"]
    assert ran["spec"]["minResources"] == {"cpu": "6"}
    assert waits["status"]["phase"] == "Inqueue"
    assert (waits["status"]["conditions"][0]["type"], waits["status"]["conditions"][0]["status"]) == (
        "Unschedulable",
        "True",
    )
