"""The control plane that other tests stand on does what they assume."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import binaries, versions
from tests.controlplane.client import ApiError, Client, Object, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane, ControlPlaneError
from tests.e2e.kinds import definition

ROOT = Path(__file__).resolve().parents[2]


def pod(name: str, *, grace_seconds: int = 0, **metadata: object) -> Object:
    """A pod that no scheduler looks at."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "nobody", "terminationGracePeriodSeconds": grace_seconds, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def test_answers(control_plane: ControlPlane, admin: Client) -> None:
    """The server is up, and it is the version that was chosen unless binaries were given."""
    version = await admin.request("GET", "/version")
    if not (os.environ.get("KUBEBUILDER_ASSETS") or os.environ.get("GANGSCHED_CONTROL_PLANE_BIN")):
        assert version["gitVersion"] == f"v{versions.chosen()[0]}"
    assert control_plane.dead() == []


async def test_group_api_is_on(admin: Client, namespace: str) -> None:
    """With the gates on, a pod keeps the name of its group."""
    await admin.create(
        {**pod("member"), "spec": {**pod("member")["spec"], "schedulingGroup": {"podGroupName": "gang"}}}, namespace
    )
    assert (await admin.get("Pod", "member", namespace))["spec"]["schedulingGroup"] == {"podGroupName": "gang"}
    assert await admin.list("scheduling.k8s.io/v1beta1/PodGroup", namespace) == []


async def test_node_becomes_ready(admin: Client, make_nodes) -> None:
    """A node that was only created is Ready and untainted soon, with the room that it was given."""
    (name,) = await make_nodes(1, cpu=7, extra={"example.com/gpu": 8})
    node = await admin.get("Node", name)
    assert node["status"]["allocatable"] == {"cpu": "7", "memory": "16Gi", "pods": "110", "example.com/gpu": "8"}


async def test_node_stays_not_ready(admin: Client, make_nodes) -> None:
    """A node that a test sets to NotReady gets its taint and is not brought back by the simulation."""
    (name,) = await make_nodes(1, prefix="stays")  # of an earlier node of this name KWOK might have a step left
    condition = {"type": "Ready", "status": "False", "reason": "Test", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await admin.patch("Node", name, {"status": {"conditions": [condition]}}, how="strategic", subresource="status")
    tainted = await admin.wait_for("Node", name, lambda node: "node.kubernetes.io/not-ready" in str(node["spec"]))
    assert next(each["status"] for each in tainted["status"]["conditions"] if each["type"] == "Ready") == "False"


async def test_bound_pod_runs(admin: Client, namespace: str, make_nodes) -> None:
    """A bound pod is Running and Ready, with an address and a start time; an unbound one waits."""
    (node,) = await make_nodes(1)
    await admin.apply([pod("bound"), pod("unbound")], namespace)
    await admin.bind("bound", node, namespace)
    running = await admin.wait_for("Pod", "bound", lambda each: each["status"]["phase"] == "Running", namespace)
    assert running["status"]["podIP"]
    assert running["status"]["startTime"]
    assert {"type": "Ready", "status": "True"}.items() <= _condition(running, "Ready").items()
    assert _condition(running, "PodScheduled")["status"] == "True"
    assert (await admin.get("Pod", "unbound", namespace))["status"]["phase"] == "Pending"


async def test_pod_completes_when_told(admin: Client, namespace: str, make_nodes) -> None:
    """A pod with the run-for annotation succeeds, one without it runs on."""
    (node,) = await make_nodes(1)
    await admin.apply([pod("short", annotations={"sim.gangsched.dev/run-for": "300ms"}), pod("long")], namespace)
    await admin.bind("short", node, namespace)
    await admin.bind("long", node, namespace)
    done = await admin.wait_for("Pod", "short", lambda each: each["status"]["phase"] == "Succeeded", namespace)
    assert _condition(done, "Ready")["status"] == "False"
    assert (await admin.get("Pod", "long", namespace))["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("annotations", "at_least_seconds"),
    [({}, 2.9), ({"sim.gangsched.dev/grace-used": "1s"}, 0.9), ({"sim.gangsched.dev/grace-used": "1h"}, 2.9)],
    ids=["whole-grace-period", "part-of-it", "never-more"],
)
async def test_termination_takes_its_time(
    admin: Client, namespace: str, make_nodes, annotations: dict[str, str], at_least_seconds: float
) -> None:
    """A deleted pod keeps its node for its grace period, or the part that it uses; then it is Failed and gone."""
    (node,) = await make_nodes(1)
    await admin.create(pod("victim", grace_seconds=3, annotations=annotations), namespace)
    await admin.bind("victim", node, namespace)
    await admin.wait_for("Pod", "victim", lambda each: each["status"]["phase"] == "Running", namespace)
    async with admin.record("Pod", namespace) as recorder:
        await admin.delete("Pod", "victim", namespace)
        marked = await recorder.wait(lambda change: change.terminating)
        gone = await recorder.wait(lambda change: change.type == "DELETED")
    assert marked.phase == "Running"
    assert gone.phase == "Failed"
    # A lower bound only: it is what tests rely on, and a slow machine cannot break it.
    assert gone.at - marked.at >= at_least_seconds


async def test_patch_does_not_prolong_termination_for_ever(admin: Client, namespace: str, make_nodes) -> None:
    """A terminating pod that is patched again and again goes all the same."""
    (node,) = await make_nodes(1)
    await admin.create(pod("victim", grace_seconds=2), namespace)
    await admin.bind("victim", node, namespace)
    await admin.delete("Pod", "victim", namespace)
    count = 0

    async def patched_to_death() -> bool:
        nonlocal count
        count += 1
        try:
            await admin.patch("Pod", "victim", {"metadata": {"annotations": {"count": str(count)}}}, namespace)
        except ApiError as error:
            assert error.status == 404  # noqa: PT017  # any other error is a failure
            return True
        return False

    await wait_until(patched_to_death, interval=0.3)


async def test_finalizer_holds_a_finished_pod(admin: Client, namespace: str, make_nodes) -> None:
    """A finalizer is left alone: the pod ends as Failed, but stays until the finalizer goes."""
    (node,) = await make_nodes(1)
    await admin.create(pod("held", grace_seconds=1, finalizers=["example.com/hold"]), namespace)
    await admin.bind("held", node, namespace)
    await admin.delete("Pod", "held", namespace)
    held = await admin.wait_for(
        "Pod", "held", lambda each: each["metadata"]["deletionGracePeriodSeconds"] == 0, namespace
    )
    assert held["status"]["phase"] == "Failed"
    assert held["metadata"]["finalizers"] == ["example.com/hold"]
    await admin.patch("Pod", "held", {"metadata": {"finalizers": None}}, namespace)
    await admin.wait_gone("Pod", "held", namespace)


async def test_controllers_run(admin: Client, namespace: str, make_nodes) -> None:
    """A Job gets its pods, and a PodDisruptionBudget its number of disruptions."""
    (node,) = await make_nodes(1)
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {**pod("unused")["spec"], "restartPolicy": "Never"}}
    await admin.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job"},
            "spec": {"parallelism": 2, "completions": 2, "template": template},
        },
        namespace,
    )
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    await admin.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": budget},
        namespace,
    )

    async def both_pods() -> list[Object] | None:
        pods = await admin.list("Pod", namespace, labels="app=a")
        return pods if len(pods) == 2 else None

    for each in await wait_until(both_pods):
        await admin.bind(each["metadata"]["name"], node, namespace)
    await admin.wait_for(
        "PodDisruptionBudget", "budget", lambda each: each.get("status", {}).get("disruptionsAllowed") == 1, namespace
    )


async def test_scheduler_user_has_its_rights_and_no_others(scheduler_user: Client, namespace: str) -> None:
    """The user with the rules of manifests/ may watch pods, but is refused what the rules do not give."""
    assert await scheduler_user.list("Pod") == []
    for kind in ("Secret", "CustomResourceDefinition", "ConfigMap"):
        with pytest.raises(ApiError, match="Forbidden") as refused:
            await scheduler_user.list(kind)
        assert refused.value.status == 403
    with pytest.raises(ApiError, match="Forbidden"):
        await scheduler_user.create(pod("mine"), namespace)


async def test_crds_of_the_manifests_are_served(admin: Client, crds: list[str]) -> None:
    """The CustomResourceDefinitions of manifests/ are accepted and served."""
    assert crds
    for name in crds:
        plural, _, group = name.partition(".")
        assert any(each.plural == plural and each.api_version.startswith(group) for each in await admin.resources())


class TestCleanup:
    """A test finds nothing of the test before it."""

    @pytest.mark.parametrize("turn", ["first", "second"])
    async def test_everything_goes(self, admin: Client, namespace: str, make_nodes, turn: str) -> None:
        """Names are free again: nodes, classes, budgets, groups and pods with finalizers or long grace periods."""
        assert await admin.list("Node") == []
        assert await admin.list("Pod") == []
        (node,) = await make_nodes(1)
        await admin.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
        )
        await admin.create(
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "group"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            },
            "default",
        )
        await admin.create(pod("slow", grace_seconds=600, finalizers=["example.com/hold"]), "default")
        await admin.bind("slow", node, "default")
        await admin.delete("Pod", "slow", "default")


def _condition(thing: Object, kind: str) -> Object:
    return next(each for each in thing["status"]["conditions"] if each["type"] == kind)


# ----------------------------------------------------------------------------------------------- life of the processes


def alive(group: int) -> list[str]:
    """The processes of a process group that have not ended."""
    done = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in done.stdout.splitlines()]
    return [row[2] for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


OWNER = """
import sys, signal
from pathlib import Path
from tests.controlplane.plane import ControlPlane
plane = ControlPlane(Path(sys.argv[1]))
plane.start()
print([each.guard.pid for each in plane._components], flush=True)
signal.pause()
"""


@pytest.mark.controlplane
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_outlives_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    """When the process that started a control plane is killed, every component of it ends."""
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        groups = json.loads(owner.stdout.readline())
        assert [len(alive(group)) for group in groups] == [2] * 4  # guard and component each
        owner.send_signal(number)
    asyncio.run(wait_until(lambda: not any(alive(group) for group in groups), what="all processes have ended"))


async def test_stop_leaves_logs_only(make_control_plane) -> None:
    """Stopping ends every process, removes the data and keeps the logs; stopping again does nothing."""
    plane = make_control_plane(controller_manager=False, kwok=False, group_api=False)
    groups = [each.guard.pid for each in plane._components]
    plane.stop()
    assert not any(alive(group) for group in groups)
    assert sorted(path.name for path in plane.logs.iterdir()) == ["etcd.log", "kube-apiserver.log"]
    assert not (plane.directory / "etcd").exists()
    plane.stop()


@pytest.fixture(scope="module")
def bare(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """An API server alone, without the gang API, and with an audit log."""
    return make_control_plane(controller_manager=False, kwok=False, group_api=False, audit=True)


async def test_without_gates_the_group_is_dropped(bare: ControlPlane) -> None:
    """As on clusters of today: the server takes the pod, forgets its group, and knows no PodGroup."""
    async with Client(bare.admin_kubeconfig) as client:
        body = pod("member")
        body["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
        await client.create(body)
        assert "schedulingGroup" not in (await client.get("Pod", "member"))["spec"]
        with pytest.raises(LookupError):
            await client.resource("PodGroup")


async def test_audit_log(bare: ControlPlane) -> None:
    """With audit on, reads are there without and writes with their bodies, under the name of who made them."""
    async with Client(bare.admin_kubeconfig) as client, Client(bare.scheduler_kubeconfig) as scheduler:
        await client.create(pod("seen"))
        await client.list("Pod", "default")
        with pytest.raises(ApiError, match="Forbidden"):
            await scheduler.list("Pod", "default")
    written = [each for each in bare.audit_events("admin") if each["verb"] == "create"]
    assert "seen" in {each["requestObject"]["metadata"]["name"] for each in written}
    read = next(each for each in bare.audit_events("admin") if each["verb"] == "list")
    assert "requestObject" not in read
    assert [each["responseStatus"]["code"] for each in bare.audit_events(SCHEDULER_USER) if each["verb"] == "list"] == [
        403
    ]


async def test_kube_scheduler(make_control_plane) -> None:
    """On request upstream's own scheduler serves a schedulerName."""
    plane = make_control_plane(controller_manager=False, kube_scheduler="upstream")
    async with Client(plane.admin_kubeconfig) as client:
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        await client.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": room}}
        )
        body = pod("placed")
        body["spec"]["schedulerName"] = "upstream"
        await client.create(body)
        placed = await client.wait_for("Pod", "placed", lambda each: each["status"]["phase"] == "Running")
        assert placed["spec"]["nodeName"] == "n"
    plane.stop()


def test_start_failure_shows_the_logs(make_control_plane) -> None:
    """A component that does not start is named, with what it wrote."""
    with pytest.raises(ControlPlaneError, match=r"(?s)kube-apiserver ended.*unknown flag: --no-such-flag"):
        make_control_plane(apiserver_args=["--no-such-flag"], controller_manager=False, kwok=False)


class TestBinaries:
    """Where binaries come from."""

    @pytest.fixture(autouse=True)
    def _empty_cache(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
        monkeypatch.delenv("GANGSCHED_CONTROL_PLANE_BIN", raising=False)

    @staticmethod
    def fill(folder: Path, *names: str) -> Path:
        """Executable files of these names."""
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch(0o755)
        return folder

    def test_order(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The project's variable wins over KUBEBUILDER_ASSETS, that over the cache; each fills what is missing."""
        own = self.fill(tmp_path / "own", "etcd")
        assets = self.fill(tmp_path / "assets", "etcd", "kube-apiserver")
        cache = self.fill(binaries.cache_folder(), *binaries.PACKAGES)
        monkeypatch.setenv("GANGSCHED_CONTROL_PLANE_BIN", str(own))
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
        parents = {name: path.parent for name, path in binaries.find().items()}
        assert parents == dict.fromkeys(binaries.PACKAGES, cache) | {"etcd": own, "kube-apiserver": assets}

    def test_not_a_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable that points nowhere is an error, not a reason to build."""
        monkeypatch.setenv("KUBEBUILDER_ASSETS", "/no/such/folder")
        with pytest.raises(binaries.BinariesError, match="KUBEBUILDER_ASSETS is /no/such/folder"):
            binaries.find()

    def test_failed_build_raises(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """When the toolchain fails, the error carries what it said: tests fail, they are not skipped."""
        go = tmp_path / "bin" / "go"
        go.parent.mkdir()
        go.write_text('#!/bin/sh\n[ "$1" = env ] && echo go1.99.0 && exit 0\necho "disk full" >&2\nexit 1\n')
        go.chmod(0o755)
        monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
        with pytest.raises(binaries.BinariesError, match=r"(?s)etcd\S* failed \(exit code 1\).*disk full"):
            binaries.find(lambda _: None)
        assert list(binaries.cache_folder().iterdir()) == []


async def test_a_kind_that_is_going_is_installed_anew(admin: Client, namespace: str) -> None:
    """Whoever applies a definition that an earlier test has deleted gets one that stays."""
    widgets = definition("tests.example.com", "v1", "Widget", "widgets")
    name = widgets["metadata"]["name"]
    [old] = await admin.apply(widgets)
    await wait_until_served(admin, "tests.example.com/v1/Widget")
    held = {"name": "held", "namespace": namespace, "finalizers": ["tests.example.com/held"]}
    await admin.create({"apiVersion": "tests.example.com/v1", "kind": "Widget", "metadata": held})
    path = (await admin.resource("Widget")).path("held", namespace)
    await admin.delete("CustomResourceDefinition", name)
    widgets["metadata"]["labels"] = {"applied": "again"}
    applied = asyncio.create_task(admin.apply(widgets))
    await admin.wait_for("CustomResourceDefinition", name, lambda crd: "labels" in crd["metadata"])
    merge = "application/merge-patch+json"
    await admin.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=merge)
    [new] = await applied
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert "deletionTimestamp" not in (await admin.get("CustomResourceDefinition", name))["metadata"]
    await admin.delete("CustomResourceDefinition", name)
