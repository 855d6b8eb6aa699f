"""A gang of a Job that is bound in part, on a real API server: its Job makes the member again that was rolled back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Client, load
from tests.controlplane.plane import ControlPlane
from tests.e2e.jobs import CLUSTER, job, template
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import events, is_marked, nodes_ready
from tests.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.controlplane

GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: half, namespace: default}
spec: {minMember: 2}
"""
REFUSAL = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}'


async def test_a_member_that_is_rolled_back_is_made_again_and_the_gang_runs_whole(
    admin: Client, crds: list[str], control_plane: ControlPlane, scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    """Three bindings of one pod are refused: the other one is marked, deleted and made again, then both are bound."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    pods = template("4")
    pods["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "half"}
    wanted = job("half", parallelism=2, completions=2, completionMode="Indexed", template=pods)
    refused = Fault(path="/pods/half-1-[a-z0-9]+/binding$", method="POST", times=3, status=403, body=REFUSAL)
    with FaultyProxy(control_plane.server, control_plane.ca_file) as proxy:
        proxy.fail(refused)
        kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
        async with (
            running_scheduler(kubeconfig, tmp_path, binding={"onFailure": "rollback"}),
            admin.record("Pod") as recorder,
        ):
            await admin.apply([*load(GROUP), wanted])
            found = await admin.wait_for("Job", "half", lambda j: j.get("status", {}).get("ready", 0) == 2, timeout=90)
            told = await events(admin, "RolledBack")
    left = {change.name for change in recorder.changes if change.terminating}
    assert len(left) == 1
    assert all(name.startswith("half-0-") for name in left)
    assert {change.name for change in recorder.changes if is_marked(change)} == left
    assert {event["regarding"]["name"] for event in told} == left
    assert refused.hits == 3
    assert found["status"].get("failed", 0) <= 1
