"""Gangs of Volcano on a real API server, without Volcano: with its PodGroups, and its name as ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import CLUSTER, SCHEDULER
from tests.e2e.kinds import definition, served
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
    for each in definitions:
        await admin.delete("CustomResourceDefinition", each["metadata"]["name"])


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
    names = [{"schedulerName": "volcano"}, {"schedulerName": SCHEDULER}]
    settings = {"profiles": names, "announced": {"holdSeconds": 12, "sharePerNamespace": 1.0}}
    blocker, driver, rival = (member(name, of, "") for name, of in (("blocker", ""), ("driver", "job"), ("rival", "")))
    for each in (blocker, rival):
        alone(each)
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


def alone(pod: Object) -> None:
    """Let the pod be in no group; one with Volcano's scheduler name would wait for it."""
    del pod["metadata"]["annotations"]
    pod["spec"]["schedulerName"] = SCHEDULER


def domain(name: str) -> Object:
    """A HyperNode of the lowest tier: one node."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}}]
    meta, spec = {"name": f"leaf-of-{name}"}, {"tier": 1, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": meta, "spec": spec}


def sized(pod: Object, cpu: str) -> Object:
    """The pod with this request."""
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return pod


async def test_domains_and_queues(admin: Client, start_scheduler: Start, groups: None) -> None:
    """A gang that wants one HyperNode waits while both nodes have room for one of its two members each, and then takes
    one of them. A queue with four cores has room for no more than it, though the other node has.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    hyper = definition("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", namespaced=False)
    queues = definition("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False)
    queue: Object = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}}
    queue["spec"] = {"capability": {"cpu": "4"}, "weight": 1}
    near, later = group("near", 2), group("later", 1)
    near["spec"] |= {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}, "queue": "team"}
    later["spec"]["queue"] = "team"
    for each in (near, later):
        del each["spec"]["minResources"]
    blockers = [sized(member(f"blocker-{node}", "", ""), "1") for node in ("node-1", "node-2")]
    for each, node in zip(blockers, ("node-1", "node-2"), strict=True):
        alone(each)
        each["spec"]["nodeName"] = node
    async with served(admin, hyper, queues):
        await admin.apply([domain("node-1"), domain("node-2"), queue, *blockers])
        await running(admin, ["blocker-node-1", "blocker-node-2"])
        async with start_scheduler(profiles=[{"schedulerName": "volcano"}]):
            await admin.apply([near, *(sized(member(f"near-{n}", "near", ""), "2") for n in range(2))])
            waits = await admin.wait_for("Pod", "near-0", lambda p: bool(p["status"].get("conditions")))
            await admin.delete("Pod", "blocker-node-2")
            await running(admin, ["near-0", "near-1"])
            await admin.apply([later, sized(member("later-0", "later", ""), "1")])
            stays = await admin.wait_for("Pod", "later-0", lambda p: bool(p["status"].get("conditions")))
            placed = await admin.get("Pod", "near-0")
            for name in ("near-0", "near-1"):
                await admin.delete("Pod", name)
            await running(admin, ["later-0"])
    assert "tier" in waits["status"]["conditions"][0]["message"]
    assert placed["spec"]["nodeName"] == "node-2"
    assert "insufficient unused quota for cpu" in stays["status"]["conditions"][0]["message"]


def _seconds(condition: Object) -> float:
    return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
