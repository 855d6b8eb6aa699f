"""Shadow mode beside the real kube-scheduler, which preempts by its own rule, with rights to read and no others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane.client import Client, Object, load, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, rebound
from tests.documented import Shell
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import nodes_ready

pytestmark = pytest.mark.controlplane
CLASSES = {"low": 1, "high": 1000, "highest": 2000}
ROOM = {"cpu": "1", "memory": "4Gi", "pods": "10"}


def node(name: str, zone: str) -> Object:
    """A node on which one pod has room."""
    labels = {"kubernetes.io/hostname": name, "zone": zone}
    status = {"capacity": ROOM, "allocatable": ROOM}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(name: str, priority: str, zone: str, gang: str = "", size: int = 0) -> Object:
    """A pod of kube-scheduler that takes a node; as a member of a ``gang`` for those who read its annotations."""
    notes = {"gang.scheduling.koordinator.sh/name": gang, "gang.scheduling.koordinator.sh/min-available": str(size)}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "priorityClassName": priority,
        "nodeSelector": {"zone": zone},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": notes if gang else {}},
        "spec": spec,
    }


async def started(admin: Client, *names: str) -> None:
    """These run."""
    for name in names:
        await admin.wait_for("Pod", name, lambda p: p["status"].get("phase") == "Running", "default", timeout=90)


async def test_it_reports_what_would_have_been_different_and_writes_nothing(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """kube-scheduler evicts three pods for a gang of four that never starts, and then a member of a gang where a pod
    alone would do: it evicted 4 and broke one gang; this scheduler would have evicted 1 and broken none. It has no
    right to write, and asks for no write.
    """
    control_plane = make_control_plane(kube_scheduler="default-scheduler", audit=True)
    async with Client(control_plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await admin.apply(load(MANIFESTS / "components" / "shadow" / "rbac.yaml"))
        bindings = [each for each in load(MANIFESTS / "rbac.yaml") if each["kind"] == "ClusterRoleBinding"]
        await admin.apply([rebound(each, SCHEDULER_USER) for each in bindings])
        await admin.apply(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
            for name, value in CLASSES.items()
        )
        await admin.apply([node(f"{zone}-{n}", zone) for zone in ("a", "b") for n in range(4)])
        await nodes_ready(admin)
        await admin.create(pod("kept", "highest", "a"), "default")
        singles = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
        for zone, number in singles:
            await admin.create(pod(f"single-{zone}-{number}", "low", zone), "default")
        await started(admin, "kept", *(f"single-{zone}-{number}" for zone, number in singles))
        await asyncio.sleep(2)  # stamps have whole seconds, and kube-scheduler evicts the pod that began last
        for number in range(2):
            await admin.create(pod(f"pair-{number}", "low", "b", "pair", 2), "default")
        await started(admin, "pair-0", "pair-1")
        reports = tmp_path / "reports"
        options = ("--shadow", "--report", str(reports))
        async with running_scheduler(control_plane.scheduler_kubeconfig, tmp_path, *options) as shadow:

            async def measured(*lines: str) -> bool:
                text = await shadow.metrics()
                return all(f"gangsched_shadow_{line}" in text for line in lines)

            for number in range(4):
                await admin.create(pod(f"whole-{number}", "high", "a", "whole", 4), "default")
            await wait_until(
                lambda: measured('evictions_total{by="other"} 3.0'), timeout=90, what="kube-scheduler evicts for a part"
            )
            await admin.create(pod("alone", "high", "b"), "default")
            await wait_until(
                lambda: measured(
                    'evictions_total{by="other"} 4.0',
                    'evictions_total{by="shadow"} 1.0',
                    'gangs_broken_total{by="other"} 1.0',
                    'gangs_in_part_total{by="other"} 1.0',
                    'gangs_started_total{by="other"} 1.0',
                ),
                timeout=120,
                what="the shadow has seen a gang broken and a pod started",
            )
        (file,) = reports.glob("*.json")
        report = json.loads(file.read_text())
        keys = ("podsEvicted", "gangsBroken", "gangsRunInPart")
        told = {side: [report[side][key] for key in keys] for side in ("other", "shadow")}
        assert told == {"other": [4, 1, 1], "shadow": [1, 0, 0]}
        (text,) = [each.read_text() for each in reports.glob("*.txt")]
        assert text in shadow.log.read_text()
        assert await admin.find("Lease", "py-gang-scheduler", "gangsched-system") is None
        shell = Shell(tmp_path, KUBECONFIG=str(control_plane.scheduler_kubeconfig))
        with shell.running("gangsched run --shadow --report reports") as log:
            await wait_until(lambda: "all caches have been listed" in log.read_text(), timeout=90)
        assert "report" in log.read_text()
        asked = control_plane.audit_events(SCHEDULER_USER)
        written = [e for e in asked if e["verb"] not in ("get", "list", "watch")]
        about_itself = {"selfsubjectaccessreviews", "selfsubjectrulesreviews"}
        assert [e["requestURI"] for e in written if e["objectRef"]["resource"] not in about_itself] == []
        assert [e["requestURI"] for e in asked if e.get("responseStatus", {}).get("code") == 403] == []
