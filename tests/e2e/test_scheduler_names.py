"""A profile with the name of another scheduler on a real API server: that one's Lease keeps its pods from us."""

from __future__ import annotations

import pytest

from tests.controlplane.client import Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.stories import Start, events, nodes_ready, running
from tests.e2e.volcano import volcano

pytestmark = pytest.mark.controlplane

#: A name whose pods need no group, and where its owner has its Lease.
THEIRS, NAMESPACE = "koord-scheduler", "koordinator-system"


def pod(name: str, scheduler: str) -> Object:
    """A pod of this scheduler that fits."""
    made = {"apiVersion": "v1", "kind": "Pod", **template("1")}
    made["metadata"] |= {"name": name, "namespace": "default"}
    made["spec"]["schedulerName"] = scheduler
    return made


async def test_the_name_is_taken_over_when_its_lease_is_no_longer_renewed(
    admin: Client, start_scheduler: Start
) -> None:
    """While it is renewed a pod of that name is left as it is, which an Event on the Lease, the log and the metrics
    say; pods of our own name are bound. Afterwards it is bound.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    await admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    names = {"profiles": [{"schedulerName": "py-gang-scheduler"}, {"schedulerName": THEIRS}]}

    async def told() -> bool:
        return bool(await events(admin, "SchedulerNameTaken"))

    async with volcano(admin, THEIRS, NAMESPACE) as die:
        await admin.wait_for("Lease", THEIRS, lambda found: bool(found["spec"]), namespace=NAMESPACE)
        await admin.apply([pod("theirs", THEIRS), pod("ours", "py-gang-scheduler")])
        async with start_scheduler(**names) as scheduler, admin.record("Pod") as recorder:
            await running(admin, ["ours"])
            await wait_until(told, what="it is told who has the name")
            (event,) = await events(admin, "SchedulerNameTaken")
            metrics = await scheduler.metrics()
            seen = [change for change in recorder.changes if change.name == "theirs"]
            die()
            await running(admin, ["theirs"])
            log = scheduler.log.read_text()
    assert f"{THEIRS}-0" in event["note"]
    assert event["regarding"]["name"] == THEIRS
    assert f'gangsched_scheduler_name_served{{profile="{THEIRS}"}} 0.0' in metrics
    assert 'gangsched_scheduler_name_served{profile="py-gang-scheduler"} 1.0' in metrics
    assert not any(change.node or change.object["status"].get("conditions") for change in seen)
    assert log.index("are left to it") < log.index(f"pods with schedulerName {THEIRS} are scheduled from now on")
