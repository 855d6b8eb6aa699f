"""What people get wrong, and why gangs wait: the first line of the answer has the reason with a number or a name, the
second an action, and a script that carries the action out makes the gang start.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gangsched.cli.main import main
from tests.controlplane import plane
from tests.controlplane.cleanup import wipe
from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.mistakes import CASES, CLASSES, NODES, QUEUES, Case, priority_class
from tests.e2e.scheduler import configuration, free_port

_SECONDS = 120.0
_numbers = itertools.count(1)


async def set_up(admin: Client) -> None:
    """Nodes, classes, definitions, queues and the rights of the scheduler."""
    await apply_manifests_crds(admin)
    await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
    definitions = load(MANIFESTS / "kueue" / "crds.yaml")
    await admin.apply(definitions)
    await wait_until_served(admin, *(f"kueue.x-k8s.io/v1beta1/{each['spec']['names']['kind']}" for each in definitions))
    await admin.apply(QUEUES)
    for name, (value, policy) in CLASSES.items():
        await admin.create({**priority_class(name, value), "preemptionPolicy": policy})
    for name, node in NODES:
        room = {"memory": "64Gi", "pods": "110", **{k: v for k, v in node.items() if k not in ("taints", "labels")}}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **node.get("labels", {})}}
        spec, status = {"taints": node.get("taints", [])}, {"capacity": room, "allocatable": room}
        await admin.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status})


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a cluster where the scheduler runs, the same for all cases."""

    async def with_admin(made: bool) -> None:
        async with Client(control_plane.admin_kubeconfig) as admin:
            await (set_up(admin) if made else wipe(admin, control_plane.stored))

    asyncio.run(with_admin(made=True))
    folder, port = tmp_path_factory.mktemp("mistakes"), free_port()
    (folder / "config.yaml").write_text(yaml.safe_dump(configuration(port, {})))
    command = [sys.executable, "-m", "gangsched.cli.main", "run", "--config", str(folder / "config.yaml")]
    command += ["--kubeconfig", str(control_plane.scheduler_kubeconfig)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            asyncio.run(wait_until(lambda: asyncio.to_thread(_ready, port), _SECONDS, "the scheduler is ready"))
            yield control_plane.admin_kubeconfig
        finally:
            process.terminate()
            asyncio.run(with_admin(made=False))


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except OSError:
        return False


def explained(kubeconfig: Path, namespace: str) -> str:
    """The answer about the Job, in this process: to start one for each question takes longer than all answers."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        main(["explain", "job/train", "-n", namespace, "--kubeconfig", str(kubeconfig)])
    return out.getvalue() + errors.getvalue()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_reason_and_action(case: Case, kubeconfig: Path) -> None:
    """The first line of the answer is the reason; what the second says makes the gang start."""
    namespace = f"case-{next(_numbers)}"
    async with Client(kubeconfig) as admin:
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        try:
            await _play(case, admin, kubeconfig, namespace)
        finally:
            await _leave(admin, namespace)


async def _play(case: Case, admin: Client, kubeconfig: Path, namespace: str) -> None:
    for each in case.before:
        await admin.create(each, namespace)
        await _run(admin, namespace, each["metadata"]["name"], 2)
    for each in case.objects:
        await admin.create(each, each["metadata"].get("namespace") or namespace)
    text = ""

    async def answered() -> bool:
        nonlocal text
        text = await asyncio.to_thread(explained, kubeconfig, namespace)
        return re.search(case.first, text) is not None

    try:
        await wait_until(answered, _SECONDS, case.name, interval=1.0)
    except AssertionError as error:
        error.add_note(text)
        raise
    lines = text.splitlines()
    assert re.search(case.first, lines[1]), text
    found = re.search(case.second, lines[2])
    assert found, text
    await case.cure(admin, namespace, found)
    await _run(admin, namespace, "train", case.runs)


async def _run(admin: Client, namespace: str, job: str, count: int) -> None:
    """So many pods of the Job run."""

    def runs(pod: Object) -> bool:
        return pod["metadata"]["name"].startswith(f"{job}-") and pod["status"].get("phase") == "Running"

    async def check() -> bool:
        return sum(map(runs, await admin.list("Pod", namespace))) == count

    await wait_until(check, _SECONDS, f"{count} pods of {job} run", interval=0.2)


async def _leave(admin: Client, namespace: str) -> None:
    """The room is free again."""
    for each in await admin.list("Job", namespace):
        await admin.delete("Job", each["metadata"]["name"], namespace)
    await admin.delete("Namespace", namespace)

    async def gone() -> bool:
        return not await admin.list("Pod", namespace)

    await wait_until(gone, _SECONDS, "its pods are gone", interval=0.2)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"gangsched.dev/gang": True}, "metadata.annotations"),
        ({"memory": "64gb"}, "64gb"),
    ],
    ids=["an annotation that is no text", "a quantity that is none"],
)
async def test_what_the_server_refuses(written: dict[str, object], said: str, kubeconfig: Path, tmp_path: Path) -> None:
    """What would not be accepted is named by object and field before it is sent."""
    meta: Object = {"name": "train", "annotations": {"gangsched.dev/gang": "true"}}
    requests: Object = {"cpu": "1"}
    (requests if "memory" in written else meta["annotations"]).update(written)
    pods = {"schedulerName": "py-gang-scheduler", "containers": [{"resources": {"requests": requests}}]}
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": pods}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}))
    out, errors = io.StringIO(), io.StringIO()
    command = ["plan", "--cluster", "-f", str(path), "--kubeconfig", str(kubeconfig)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = await asyncio.to_thread(main, command)
    assert code == 2
    assert "train" in errors.getvalue()
    assert said in errors.getvalue()
