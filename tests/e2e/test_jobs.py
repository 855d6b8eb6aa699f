"""Jobs as victims on a real API server: suspended, not failed, and back when there is room."""

from __future__ import annotations

import pytest

from tests.controlplane.client import Client, Object, load
from tests.e2e.jobs import BY, CLUSTER, FOR, MEMBERS, SCHEDULER, finished, job, leave, marked, template, urgent
from tests.e2e.stories import Start, events, nodes_ready

pytestmark = pytest.mark.controlplane


async def active(admin: Client, name: str, count: int) -> Object:
    """The Job once so many of its pods run."""
    return await admin.wait_for("Job", name, lambda j: j.get("status", {}).get("ready", 0) == count, timeout=60)


async def preempt(admin: Client, name: str, victim: str) -> Object:
    """The gang comes and runs; the Job is what it is then."""
    await admin.apply(urgent(name))
    for number in (1, 2):
        await admin.wait_for("Pod", f"{name}-{number}", lambda p: p["status"].get("phase") == "Running", timeout=60)
    return await admin.get("Job", victim)


async def test_a_job_of_eight_is_preempted_twice_and_completes(admin: Client, start_scheduler: Start) -> None:
    """With the default backoffLimit of 6 and without a queue: no pod of it ever counts as failed."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(job("train", template=template("1")))
        await active(admin, "train", MEMBERS)
        for name in ("first", "second"):
            before = {p["metadata"]["name"] for p in await admin.list("Pod") if p["metadata"]["name"] < "u"}
            found = await preempt(admin, name, "train")
            assert found["spec"]["suspend"] is True
            assert found["metadata"]["annotations"][BY] == SCHEDULER
            assert found["metadata"]["annotations"][FOR].startswith(f"default/{name}, plan ")
            assert {n for n in before if n.startswith("train-")} <= marked(recorder)
            await leave(admin, name)
            found = await active(admin, "train", MEMBERS)
            assert found["spec"]["suspend"] is False
            assert BY not in found["metadata"].get("annotations", {})
            assert found["status"].get("failed", 0) == 0
        for pod in await admin.list("Pod"):
            note = {"metadata": {"annotations": {"sim.gangsched.dev/run-for": "1s"}}}
            await admin.patch("Pod", pod["metadata"]["name"], note)
        done = await admin.wait_for("Job", "train", finished, timeout=60)
        told = [e for e in await events(admin, "Preempted") if e["regarding"]["kind"] == "Job"]
        resumed = [e for e in await events(admin, "Resumed") if e["reportingController"] == SCHEDULER]
    assert {c["type"] for c in done["status"]["conditions"] if c["status"] == "True"} >= {"Complete"}
    assert done["status"]["succeeded"] == MEMBERS
    assert done["status"].get("failed", 0) == 0
    assert sorted(e["note"].split()[6] for e in told) == ["default/first", "default/second"]
    assert len(resumed) == 2


async def test_a_job_comes_back_after_a_restart(admin: Client, start_scheduler: Start) -> None:
    """The scheduler that suspended it is gone; the next one knows from the Job that it may go on."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler():
        await admin.apply(job("train", template=template("1")))
        await active(admin, "train", MEMBERS)
        assert (await preempt(admin, "first", "train"))["spec"]["suspend"] is True
    await leave(admin, "first")
    async with start_scheduler():
        found = await active(admin, "train", MEMBERS)
    assert (found["spec"]["suspend"], found["status"].get("failed", 0)) == (False, 0)


async def test_a_job_that_its_user_suspends_stays_so(admin: Client, start_scheduler: Start) -> None:
    """Only what bears our annotation is ours to resume."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler():
        await admin.apply(job("theirs", suspend=True, template=template("1")))
        await admin.apply(job("other", parallelism=1, completions=1, template=template("1", run_for="1s")))
        await admin.wait_for("Job", "other", finished, timeout=60)
        found = await admin.get("Job", "theirs")
    assert found["spec"]["suspend"] is True
    assert not await admin.list("Pod", labels="job-name=theirs")
