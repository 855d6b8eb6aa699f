"""Gangs of KAI on a real API server, without KAI: with its PodGroups, and its scheduler name as ours."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.client import Client, Object, load, wait_until_served
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.kinds import definition, served
from tests.e2e.stories import Start, nodes_ready, running

pytestmark = pytest.mark.controlplane

GROUP = "scheduling.run.ai/v2alpha2/PodGroup"


@pytest.fixture
async def groups(admin: Client) -> AsyncIterator[None]:
    """KAI's PodGroups are served."""
    definitions = load(MANIFESTS / "kai" / "crd-podgroups.yaml")
    await admin.apply(definitions)
    await wait_until_served(admin, GROUP)
    yield
    for each in definitions:
        await admin.delete("CustomResourceDefinition", each["metadata"]["name"])


def group(name: str, **parts: int) -> Object:
    """A PodGroup of these parts, as the podgrouper writes it."""
    listed = [{"name": part, "minMember": count} for part, count in parts.items()]
    spec = {"queue": "default-queue", "minSubGroup": len(listed), "subGroups": listed}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


def member(name: str, of: str, part: str) -> Object:
    """A pod that needs a node of its own; without ``of`` the podgrouper has not seen it yet."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template("3")}
    named = {"pod-group-name": of} if of else {}
    labels = {"kai.scheduler/subgroup-name": part} if of else {}
    pod["metadata"] |= {"name": name, "namespace": "default", "annotations": named, "labels": labels}
    pod["spec"]["schedulerName"] = "kai-scheduler"
    return pod


async def test_a_gang_of_parts_starts_when_its_pods_are_in_their_group(
    admin: Client, start_scheduler: Start, groups: None
) -> None:
    """A pod without a group waits; once it is in one the gang starts, and its PodGroup says so. One that does not fit
    has KAI's condition, and one whose Queue has no more says which. All with the rights of the manifests.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    queues = definition("scheduling.run.ai", "v2", "Queue", "queues", namespaced=False)
    limits = {"resources": {"cpu": {"quota": 500, "limit": 500}}}  # thousandths of a core
    small = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "small"}, "spec": limits}
    tiny = group("tiny", worker=1)
    tiny["spec"]["queue"] = "small"
    async with served(admin, queues), start_scheduler(profiles=[{"schedulerName": "kai-scheduler"}]):
        await admin.apply(small)
        await admin.apply(
            [group("job", leader=1, worker=1), member("worker-0", "job", "worker"), member("late", "", "")]
        )
        told = await admin.wait_for("Pod", "late", lambda p: bool(p["status"].get("conditions")))
        await admin.apply(member("late", "job", "leader"))
        await running(admin, ["late", "worker-0"])
        ran = await admin.wait_for(GROUP, "job", lambda g: g.get("status", {}).get("phase") == "Running")
        await admin.apply([group("next", worker=1), member("next-0", "next", "worker")])
        waits = await admin.wait_for(GROUP, "next", lambda g: bool(g.get("status", {}).get("schedulingConditions")))
        one = member("tiny-0", "tiny", "worker")
        one["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
        await admin.apply([tiny, one])
        beyond = await admin.wait_for("Pod", "tiny-0", lambda p: bool(p["status"].get("conditions")))
    assert "maximum capacity (500m)" in beyond["status"]["conditions"][0]["message"]
    assert "no PodGroup yet" in told["status"]["conditions"][0]["message"]
    assert ran["status"]["running"] == 2
    (condition,) = waits["status"]["schedulingConditions"]
    assert (condition["type"], condition["nodePool"]) == ("UnschedulableOnNodePool", "default")
