"""Two teams and a shared pool on a real API server: the example, with real Jobs, and no Kueue."""

from __future__ import annotations

import copy

import pytest

from tests.controlplane.client import Client, wait_until
from tests.e2e.queues import conditions, example, install_queues, ready
from tests.e2e.stories import Start, events, nodes_ready

pytestmark = pytest.mark.controlplane


async def test_team_a_takes_back_what_team_b_borrows(admin: Client, start_scheduler: Start) -> None:
    """Team B's Job runs, team A's preempts it, B's is suspended and not lost, and comes back when A's is gone."""
    await admin.apply(example("00-nodes.yaml"))
    await nodes_ready(admin)
    await install_queues(admin)
    async with start_scheduler():
        await admin.apply(example("20-team-b-job.yaml"))
        await ready(admin, "team-b")
        await admin.apply(example("30-team-a-job.yaml"))
        await ready(admin, "team-a")
        lost = await admin.wait_for(
            "Job", "team-b-job", lambda j: "QuotaReserved" in conditions(j, "False"), namespace="team-b"
        )
        pods = await admin.list("Pod", namespace="team-a")
        await admin.delete("Job", "team-a-job", "team-a")
        back = await ready(admin, "team-b")
        again = await admin.wait_for(
            "Job",
            "team-b-job",
            lambda j: "Evicted" in conditions(j, "False") and "Admitted" in conditions(j, "True"),
            namespace="team-b",
        )
    told = await events(admin, "Preempted")  # written by now: the scheduler has ended
    evicted = await events(admin, "EvictedDueToPreempted")
    reserved = await events(admin, "QuotaReserved")
    started = await events(admin, "Admitted")
    waited = [e for e in await events(admin, "Pending") if e["regarding"]["name"] == "team-a-job"]
    assert lost["spec"]["suspend"] is True
    assert lost["status"].get("failed", 0) == 0
    assert [p["spec"]["nodeName"] for p in pods] == ["gpu-node"]
    assert back["spec"]["suspend"] is False
    assert {e["regarding"]["kind"] for e in told} == {"Job", "Pod"}
    assert (
        conditions(lost, "True").items()
        >= {
            "Suspended": "JobSuspended",
            "Evicted": "Preempted",
            "Preempted": "InCohortReclaimWhileBorrowing",
        }.items()
    )
    assert conditions(again, "True").items() >= {"QuotaReserved": "QuotaReserved", "Admitted": "Admitted"}.items()
    [event] = evicted
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Job", "team-b-job")
    assert "due to reclamation within the cohort while borrowing; preemptor path: /team-ab/team-a-cq" in event["note"]
    assert "preemptor: team-a/team-a-job" in event["note"]
    [while_b_leaves] = [
        e for e in waited if e["note"].endswith("2 more needed. Pending the preemption of 1 workload(s)")
    ]
    [has_quota] = [e for e in reserved if e["regarding"]["name"] == "team-a-job"]
    assert max(while_b_leaves["eventTime"], event["eventTime"]) < has_quota["eventTime"]
    for each in (reserved, started):
        assert [e["regarding"]["name"] for e in each].count("team-a-job") == 1
        assert [e["regarding"]["name"] for e in each].count("team-b-job") == 2


async def test_more_quota_starts_who_waits(admin: Client, start_scheduler: Start) -> None:
    """A Job that finds no quota has pending pods that say so; an administrator who gives more starts it."""
    await admin.apply(example("00-nodes.yaml"))
    await nodes_ready(admin)
    await install_queues(admin, "group")
    shared = next(q for q in example("10-queues.yaml", "group") if q["metadata"]["name"] == "shared-cq")
    less = copy.deepcopy(shared)
    less["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 4
    await admin.apply(less)
    async with start_scheduler():
        await admin.apply(example("20-team-b-job.yaml", "group"))

        async def waits() -> bool:
            pods = await admin.list("Pod", namespace="group-b")
            conditions = [c for p in pods for c in p["status"].get("conditions", ())]
            return any("maximum capacity (4)" in c.get("message", "") for c in conditions)

        await wait_until(waits, what="the pod says what it lacks")
        await admin.apply(shared)
        await ready(admin, "group-b")
