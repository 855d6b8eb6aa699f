"""A queue that is drained on a real API server, with a real Job: it is suspended, and runs again when that is over."""

from __future__ import annotations

import pytest

from tests.controlplane.client import Client, Object
from tests.e2e.queues import conditions, example, install_queues, ready
from tests.e2e.stories import Start, events, nodes_ready

pytestmark = pytest.mark.controlplane


#: Namespaces cannot be used twice: each test has teams of its own.
TEAMS = {"ClusterQueue": "drained", "LocalQueue": "emptied"}


async def stop(admin: Client, kind: str, policy: str) -> None:
    """The queue of team B with this stop policy."""
    teams = TEAMS[kind]
    name = {"ClusterQueue": f"{teams}-b-cq", "LocalQueue": "local-queue"}[kind]
    found = [q for q in example("10-queues.yaml", teams) if (q["kind"], q["metadata"]["name"]) == (kind, name)]
    [queue] = [q for q in found if q["metadata"].get("namespace") in (None, f"{teams}-b")]
    queue["spec"]["stopPolicy"] = policy
    await admin.apply(queue)


def evicted(job: Object, kind: str) -> bool:
    """Is the Job suspended, without a pod, and told why?"""
    said = conditions(job, "True").get("Evicted") == f"{kind}Stopped"
    return said and job["spec"]["suspend"] and not job["status"].get("active")


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
async def test_a_drained_queue_suspends_its_job(admin: Client, start_scheduler: Start, kind: str) -> None:
    """Its pod is marked with the queue's name and leaves, the Job is told in Kueue's words; opened, it runs again."""
    team = f"{TEAMS[kind]}-b"
    await admin.apply(example("00-nodes.yaml"))
    await nodes_ready(admin)
    await install_queues(admin, TEAMS[kind])
    async with start_scheduler():
        await admin.apply(example("20-team-b-job.yaml", TEAMS[kind]))
        await ready(admin, team)
        [before] = await admin.list("Pod", namespace=team)
        await stop(admin, kind, "HoldAndDrain")
        drained = await admin.wait_for("Job", f"{team}-job", lambda j: evicted(j, kind), namespace=team)
        held = await admin.wait_for(
            "Job", f"{team}-job", lambda j: "QuotaReserved" in conditions(j, "False"), namespace=team
        )
        await stop(admin, kind, "None")
        back = await ready(admin, team)
        await admin.wait_for(
            "Job",
            f"{team}-job",
            lambda j: conditions(j, "False").get("Evicted") == "QuotaReserved" and "Admitted" in conditions(j, "True"),
            namespace=team,
        )
        await admin.delete("Job", f"{team}-job", team)
    told = [e for e in await events(admin, f"EvictedDueTo{kind}Stopped") if e["regarding"]["namespace"] == team]
    [said] = [c["message"] for c in drained["status"]["conditions"] if c["type"] == "Evicted"]
    assert said == f"The {kind} is stopped"
    assert drained["status"].get("failed", 0) == 0
    assert conditions(held, "False")["Admitted"] == "NoReservation"
    assert back["spec"]["suspend"] is False
    assert sorted((e["regarding"]["kind"], e["regarding"]["name"]) for e in told) == [
        ("Job", f"{team}-job"),
        ("Pod", before["metadata"]["name"]),
    ]
