"""JobSets as victims on a real API server: suspended, not failed, and back when there is room for the whole."""

from __future__ import annotations

import contextlib

import pytest

from tests.controlplane.client import ApiError, Client, Object, load, wait_until
from tests.controlplane.jobsets import KIND, NAME
from tests.e2e.jobs import BY, CLUSTER, FOR, SCHEDULER, finished, job, leave, marked, template, urgent
from tests.e2e.jobsets import JOBS, MEMBERS, jobset
from tests.e2e.queues import conditions, install_queues
from tests.e2e.stories import Start, events, nodes_ready

pytestmark = pytest.mark.controlplane


async def running(admin: Client, name: str, count: int, namespace: str = "default") -> list[Object]:
    """The pods of the JobSet, once so many of them run."""

    async def there() -> list[Object]:
        pods = await admin.list("Pod", namespace=namespace, labels=f"{NAME}={name}")
        live = [p for p in pods if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]
        return live if len(live) == len(pods) == count else []

    found: list[Object] = await wait_until(there, timeout=60, what=f"{count} pods of {name} run")
    return found


async def test_a_jobset_is_preempted_suspended_and_completes(
    admin: Client, start_scheduler: Start, jobsets: None
) -> None:
    """Two Jobs of four pods with a backoffLimit of 0: no pod ever counts as failed, and both Jobs complete."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(jobset("train"))
        before = await running(admin, "train", JOBS * MEMBERS)
        await admin.apply(urgent("vip"))
        for number in (1, 2):
            await admin.wait_for("Pod", f"vip-{number}", lambda p: p["status"].get("phase") == "Running", timeout=60)
        lost = await admin.get(KIND, "train")
        children = await admin.list("Job")
        assert lost["spec"]["suspend"] is True
        assert lost["metadata"]["annotations"][BY] == SCHEDULER
        assert lost["metadata"]["annotations"][FOR].startswith("default/vip, plan ")
        assert [j["spec"]["suspend"] for j in children] == [True] * JOBS
        assert not any(BY in j["metadata"].get("annotations", {}) for j in children)
        assert {p["metadata"]["name"] for p in before} <= marked(recorder)
        await leave(admin, "vip")
        for pod in await running(admin, "train", JOBS * MEMBERS):
            note = {"metadata": {"annotations": {"sim.gangsched.dev/run-for": "1s"}}}
            await admin.patch("Pod", pod["metadata"]["name"], note)
        done = [
            await admin.wait_for("Job", j["metadata"]["name"], finished, timeout=60) for j in await admin.list("Job")
        ]
        back = await admin.get(KIND, "train")
        told = {e["regarding"]["kind"] for e in await events(admin, "Preempted")}
        resumed = [e for e in await events(admin, "Resumed") if e["reportingController"] == SCHEDULER]
    assert back["spec"]["suspend"] is False
    assert BY not in back["metadata"].get("annotations", {})
    assert [(j["status"]["succeeded"], j["status"].get("failed", 0)) for j in done] == [(MEMBERS, 0)] * JOBS
    assert "JobSet" in told
    assert [e["regarding"]["kind"] for e in resumed] == ["JobSet"]


async def test_a_held_jobset_starts_when_its_queue_has_room(
    admin: Client, start_scheduler: Start, jobsets: None
) -> None:
    """Created suspended, 8 cores of which the shared pool has 10: it starts as a whole, and without our annotation, and
    says so beside what its controller says. So does a Job.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    await install_queues(admin, "crew")
    made = await admin.list("kueue.x-k8s.io/v1beta1/LocalQueue")
    namespace, queue = min((q["metadata"]["namespace"], q["metadata"]["name"]) for q in made)
    await admin.apply(jobset("held", queue, namespace, suspend=True))
    theirs = {"type": "StartupPolicyCompleted", "status": "True", "reason": "ByItsController"}
    await admin.patch(KIND, "held", {"status": {"conditions": [theirs]}}, namespace=namespace, subresource="status")
    async with start_scheduler():
        await running(admin, "held", JOBS * MEMBERS, namespace)
        found = await admin.wait_for(
            KIND, "held", lambda j: "Admitted" in conditions(j, "True"), namespace=namespace, timeout=30
        )
        await admin.delete(KIND, "held", namespace)
        for index in range(JOBS):
            with contextlib.suppress(ApiError):  # the garbage collector may have been first
                await admin.delete("Job", f"held-workers-{index}", namespace)
        one = job("alone", parallelism=MEMBERS, completions=MEMBERS, suspend=True, template=template("1"))
        one["metadata"] |= {"namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": queue}}
        await admin.apply(one)
        await admin.wait_for(
            "Job", "alone", lambda j: j.get("status", {}).get("ready", 0) == MEMBERS, namespace=namespace, timeout=60
        )
    assert found["spec"]["suspend"] is False
    assert BY not in found["metadata"].get("annotations", {})
    assert conditions(found, "True") == {
        "QuotaReserved": "QuotaReserved",
        "Admitted": "Admitted",
        "StartupPolicyCompleted": "ByItsController",
    }
