"""What administrators see of queues on a real API server: statuses, tables, Events, in the words that Kueue uses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.controlplane.client import Client, Object
from tests.e2e.queues import GROUP, example, install_queues, ready
from tests.e2e.stories import Start, nodes_ready

pytestmark = pytest.mark.controlplane

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def table(admin: Client, kind: str, namespace: str = "") -> dict[str, dict[str, Any]]:
    """What ``kubectl get`` prints: cells by column, by name."""
    resource = await admin.resource(f"{GROUP}/v1beta2/{kind}")
    shown = await admin.request(
        "GET", resource.path(namespace=namespace) if namespace else resource.path(), accept=TABLE
    )
    names = [c["name"] for c in shown["columnDefinitions"]]
    rows = [dict(zip(names, row["cells"], strict=True)) for row in shown["rows"]]
    return {row["Name"]: row for row in rows}


def of_cpu(queue: Object, field: str) -> dict[str, str]:
    """What a status says of the cores in the default flavor."""
    [flavor] = [f for f in queue["status"][field] if f["name"] == "default-flavor"]
    return next({k: v for k, v in r.items() if k != "name"} for r in flavor["resources"] if r["name"] == "cpu")


async def test_statuses_follow_the_workloads(admin: Client, start_scheduler: Start) -> None:
    """One Job runs on borrowed cores, one waits: both queues say so, in numbers and in tables, and change with them."""
    await admin.apply(example("00-nodes.yaml"))
    await nodes_ready(admin)
    await install_queues(admin, "rota")
    [job] = [o for o in example("20-team-b-job.yaml", "rota") if o["kind"] == "Job"]
    greedy = copy.deepcopy(job)
    greedy["metadata"]["name"] = "greedy"
    greedy["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "7"
    async with start_scheduler():
        await admin.apply([job])
        await ready(admin, "rota-b")
        await admin.apply([greedy])
        kind = f"{GROUP}/v1beta2/ClusterQueue"
        queue = await admin.wait_for(kind, "rota-b-cq", lambda q: q.get("status", {}).get("pendingWorkloads") == 1)
        assert [queue["status"][f"{name}Workloads"] for name in ("reserving", "admitted")] == [1, 1]
        assert of_cpu(queue, "flavorsReservation") == of_cpu(queue, "flavorsUsage") == {"total": "5", "borrowed": "5"}
        [active] = queue["status"]["conditions"]
        assert (active["type"], active["status"], active["reason"]) == ("Active", "True", "Ready")
        local = await admin.wait_for(
            f"{GROUP}/v1beta2/LocalQueue",
            "local-queue",
            lambda q: q.get("status", {}).get("pendingWorkloads") == 1,
            namespace="rota-b",
        )
        assert of_cpu(local, "flavorsUsage") == {"total": "5"}
        row = (await table(admin, "ClusterQueue"))["rota-b-cq"]
        assert [row[c] for c in ("Cohort", "Active", "Pending Workloads", "Admitted Workloads")] == [
            "rota-ab",
            "True",
            1,
            1,
        ]
        await admin.delete("Job", "greedy", "rota-b")
        await admin.delete("Job", "rota-b-job", "rota-b")
        await admin.wait_for(
            kind,
            "rota-b-cq",
            lambda q: (
                [q["status"][f"{n}Workloads"] for n in ("pending", "reserving", "admitted")] == [0, 0, 0]
                and of_cpu(q, "flavorsUsage") == {"total": "0", "borrowed": "0"}
            ),
            timeout=30,
        )
