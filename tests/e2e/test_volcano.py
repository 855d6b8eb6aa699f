"""Gangs of Volcano on a real API server, without Volcano: with its PodGroups, and its name as ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import CLUSTER
from tests.e2e.stories import Start, events, nodes_ready, running
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


async def test_a_first_member_and_those_that_it_announces(admin: Client, start_scheduler: Start, groups: None) -> None:
    """It needs a third of its node, and waits while a member that does not exist yet would have none. Then the other
    node is held for that, also by the next process, until the time from the first binding is over.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    settings = {"profiles": [{"schedulerName": "volcano"}], "announced": {"holdSeconds": 12}}
    blocker, driver, rival = (member(name, of, "") for name, of in (("blocker", ""), ("driver", "job"), ("rival", "")))
    for each in (blocker, rival):
        del each["metadata"]["annotations"]
    driver["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    async with start_scheduler(**settings):
        await admin.apply(blocker)
        await running(admin, ["blocker"])
        await admin.apply([group("job", 1), driver])
        waits = await admin.wait_for("Pod", "driver", lambda p: bool(p["status"].get("conditions")))
        assert "room for the members that it announces" in waits["status"]["conditions"][0]["message"]
        await admin.delete("Pod", "blocker")
        await running(admin, ["driver"])
        await admin.apply(rival)
        await admin.wait_for("Pod", "rival", lambda p: bool(p["status"].get("conditions")))
    async with start_scheduler(**settings):
        await running(admin, ["rival"])

        async def told() -> bool:
            found = await events(admin, "AnnouncedRoomReleased")
            return [(e["regarding"]["kind"], e["regarding"]["name"]) for e in found] == [("PodGroup", "job")]

        await wait_until(told, what="the Event about the room")
    bound = {name: (await admin.get("Pod", name))["status"]["conditions"] for name in ("driver", "rival")}
    when = {name: next(c for c in of if c["type"] == "PodScheduled") for name, of in bound.items()}
    assert _seconds(when["rival"]) - _seconds(when["driver"]) >= 11


def _seconds(condition: Object) -> float:
    return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
