"""The rights of manifests/, judged by the audit log of a real API server: enough, and none for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from tests.controlplane.client import Client, load
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.e2e.jobs import CLUSTER, job, leave, template, urgent
from tests.e2e.queues import install_queues
from tests.e2e.stories import Start, nodes_ready
from tests.manifests.shipped import installed, one, rights

pytestmark = pytest.mark.controlplane

#: API group, resource with its part, verb.
Right = tuple[str, str, str]

#: Rights that other stories need, or definitions that are not installed here: (group, resource) and verbs, by feature.
OF_OTHER_STORIES: dict[str, dict[tuple[str, str], str]] = {
    "room held against other schedulers": {("", "nodes"): "get patch"},
    "volumes of gangs": {("", "persistentvolumes"): "get patch", ("", "persistentvolumeclaims"): "get patch"},
    "devices of gangs": {
        ("resource.k8s.io", "resourceclaims"): "get patch",
        ("resource.k8s.io", "resourceclaims/status"): "patch",
        ("resource.k8s.io", "resourceclaims/binding"): "patch",
    },
    "writes whose answer was lost, or that were refused": {("", "pods"): "get"},
    "preemption.pdb: strict": {("", "pods/eviction"): "create"},
    "JobSets that are suspended": {
        ("jobset.x-k8s.io", "jobsets"): "get patch",
        ("jobset.x-k8s.io", "jobsets/status"): "patch",
    },
    "status of groups": {
        ("scheduling.k8s.io", "podgroups"): "get",
        ("scheduling.k8s.io", "podgroups/status"): "patch",
        ("scheduling.sigs.k8s.io", "podgroups"): "get patch",
    },
    "status of queues": {
        ("kueue.x-k8s.io", "clusterqueues"): "get",
        ("kueue.x-k8s.io", "localqueues"): "get",
        ("kueue.x-k8s.io", "cohorts"): "get",
        ("kueue.x-k8s.io", "cohorts/status"): "patch",
    },
    "definitions of others": {
        ("kueue.x-k8s.io", "workloads"): "list watch",
        ("scheduling.koordinator.sh", "clusternetworktopologies"): "list watch",
        ("scheduling.x-k8s.io", "podgroups"): "get list watch",
        ("scheduling.x-k8s.io", "podgroups/status"): "patch",
        ("scheduling.volcano.sh", "podgroups"): "list watch patch",
        ("scheduling.volcano.sh", "queues"): "list watch",
        ("topology.volcano.sh", "hypernodes"): "list watch",
        ("kai.scheduler", "topologies"): "list watch",
        ("scheduling.k8s.io", "compositepodgroups"): "list watch",
        ("scheduling.run.ai", "podgroups"): "list watch",
        ("scheduling.run.ai", "queues"): "list watch",
        ("scheduling.run.ai", "podgroups/status"): "patch",
        ("scheduler.grove.io", "podgangs"): "list watch",
        ("scheduler.grove.io", "podgangs/status"): "patch",
        ("leaderworkerset.x-k8s.io", "leaderworkersets"): "list watch",
        **{("ray.io", kind): "list watch" for kind in ("rayclusters", "rayjobs")},
        ("trainer.kubeflow.org", "trainjobs"): "list watch",
        ("sparkoperator.k8s.io", "sparkapplications"): "list watch",
        **{
            ("kubeflow.org", f"{kind}jobs"): "list watch"
            for kind in ("jax", "mpi", "paddle", "pytorch", "tf", "xgboost")
        },
    },
}


@pytest.fixture(scope="module")
def control_plane(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """One that records requests."""
    return make_control_plane(audit=True)


def used(events: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The rights without which these requests would have been refused."""
    found = set()
    for event in events:
        ref = event.get("objectRef") or {}
        # Discovery, and questions about one's own rights, are open to all.
        if "resource" in ref and ref.get("apiGroup") != "authorization.k8s.io":
            resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
            found.add((ref.get("apiGroup", ""), resource, event["verb"]))
    return found


def granted() -> set[Right]:
    """All that both roles grant."""
    roles = [one(installed(), "ClusterRole", "gangsched"), one(installed(), "Role", "gangsched-leader-election")]
    return {(group, name, verb) for role in roles for (group, name, _), verbs in rights(role).items() for verb in verbs}


async def test_rights_are_enough_and_used(
    admin: Client, jobsets: None, start_scheduler: Start, control_plane: ControlPlane
) -> None:
    """No request is refused, and of what is granted nothing is left but what other stories need."""
    await install_queues(admin)
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, "spec": template("2")["spec"]}
    async with start_scheduler():
        await admin.create(lone, "default")
        await admin.wait_for("Pod", "lone", lambda p: p["status"].get("phase") == "Running", timeout=60)
        await admin.apply([job("train", template=template("1"), parallelism=6, completions=6, backoffLimit=2)])
        await admin.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 6, timeout=60)
        await admin.apply(urgent("first"))
        for number in (1, 2):
            await admin.wait_for("Pod", f"first-{number}", lambda p: p["status"].get("phase") == "Running", timeout=60)
        await admin.wait_for("Job", "train", lambda j: "PodsEvicted" in str(j["status"]), timeout=60)
        await leave(admin, "first")
        await admin.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 6, timeout=60)
    events = control_plane.audit_events(SCHEDULER_USER)
    assert [e["requestURI"] for e in events if e.get("responseStatus", {}).get("code") == 403] == []
    assert used(events) - granted() == set()
    others = {(*of, verb) for rows in OF_OTHER_STORIES.values() for of, verbs in rows.items() for verb in verbs.split()}
    assert others <= granted()
    left = sorted(granted() - used(events) - others)
    assert left == [], "\n".join(map(str, left))
