"""With rights for plain pods, and no others, the scheduler does what plain pods need, and says once what it lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane.client import Client, load, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.scheduler import RunningScheduler, running_scheduler
from tests.e2e.stories import nodes_ready, running

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def control_plane(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """One of its own, on which the scheduler has no other rights, and that records requests."""
    return make_control_plane(audit=True)


def lines(scheduler: RunningScheduler, message: str) -> list[dict[str, object]]:
    """Lines of the log with this message."""
    read = (json.loads(line) for line in scheduler.log.read_text().splitlines() if line.startswith("{"))
    return [line for line in read if line.get("message") == message]


async def test_plain_pods_need_the_rights_of_the_component_only(
    admin: Client, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A pod is bound, and one of a higher priority evicts it. A pod of a group waits, as its API may not be read. What
    may not be read or written is one line of the log each, and nothing is asked for that would be refused.
    """
    await apply_manifests_crds(admin)
    await apply_manifests_rbac(admin, SCHEDULER_USER)
    await admin.apply(load(MANIFESTS / "components" / "pods-only" / "rbac.yaml"))
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    low, high, member = (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template("4")["spec"]}
        for name in ("low", "high", "member")
    )
    high["spec"] = {**high["spec"], "priorityClassName": "urgent", "nodeSelector": {"kubernetes.io/hostname": "node-1"}}
    low["spec"] = {**low["spec"], "nodeSelector": {"kubernetes.io/hostname": "node-1"}}
    member["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "g"}
    settings = {"preemption": {"holdRoom": "never", "jobs": "delete"}}
    async with running_scheduler(control_plane.scheduler_kubeconfig, tmp_path, **settings) as scheduler:
        await admin.create(low, "default")
        await running(admin, ["low"])
        await admin.create(high, "default")
        await running(admin, ["high"])
        await admin.create(member, "default")
        waits = await admin.wait_for("Pod", "member", lambda p: bool(p["status"].get("conditions")))
        assert waits["status"]["conditions"][0]["reason"] == "GangNotReady"

        async def told() -> bool:
            return bool(lines(scheduler, "rights are missing: what needs them is not done"))

        await wait_until(told, what="a line about the rights that are missing", timeout=60)
        (line,) = lines(scheduler, "rights are missing: what needs them is not done")
        assert {"patch nodes", "patch jobs.batch", "create pods/eviction"} <= set(map(str, line["rights"]))  # type: ignore[call-overload]
        (line,) = lines(scheduler, "APIs are served that may not be read: gangs of these wait")
        assert "podgroups.scheduling.sigs.k8s.io" in str(line["apis"])
    assert await admin.find("Pod", "low") is None
    refused = [e for e in control_plane.audit_events(SCHEDULER_USER) if e.get("responseStatus", {}).get("code") == 403]
    assert [each["requestURI"] for each in refused] == []
