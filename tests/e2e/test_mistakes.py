"""What people get wrong, and why gangs wait: the first line of the answer has the reason with a number or a name, the
second an action, and a script that carries the action out makes the gang start.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import itertools
import os
import re
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from gangsched.cli.main import main
from tests.controlplane import plane
from tests.controlplane.cleanup import wipe
from tests.controlplane.client import ApiError, Client, Object, load, wait_until, wait_until_served
from tests.controlplane.jobsets import KIND as JOBSET_KIND
from tests.controlplane.jobsets import jobset_controller, serve_jobsets
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.mistakes import (
    CASES,
    CHIP,
    CLASSES,
    FULL,
    NODES,
    QUEUES,
    TRAINJOB,
    TRAINJOBS,
    Case,
    job,
    jobset_of,
    none_left,
    pod_spec,
    priority_class,
    trainjob,
)
from tests.e2e.scheduler import configuration, free_port
from tests.forked import gangsched
from tests.runtime.plugin_packages import installed

_SECONDS = 120.0
_numbers = itertools.count(1)


async def set_up(admin: Client) -> None:
    """Nodes, classes, definitions, queues and the rights of the scheduler."""
    await apply_manifests_crds(admin)
    await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
    await serve_jobsets(admin)
    await admin.apply([TRAINJOBS])
    await wait_until_served(admin, TRAINJOB)
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
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    """Of a cluster where the scheduler runs, the same for all cases."""

    async def with_admin(made: bool) -> None:
        async with Client(control_plane.admin_kubeconfig) as admin:
            await (set_up(admin) if made else wipe(admin, control_plane.stored))

    asyncio.run(with_admin(made=True))
    folder = tmp_path_factory.mktemp("mistakes")
    points = {"gangsched.filters": {"Curfew": "curfew:Curfew"}}
    with installed(folder / "site", "curfew", CURFEW, points):
        running = Scheduler(control_plane, folder)
        running.start()
        try:
            yield running
        finally:
            running.stop()
            asyncio.run(with_admin(made=False))


@pytest.fixture
def kubeconfig(cluster: Scheduler) -> Path:
    """Of the cluster, with all rights."""
    return cluster.kubeconfig


CURFEW = """
from gangsched.plugins import PerNodeFilter

class Curfew(PerNodeFilter):
    name, text, pod_labels = "Curfew", "node(s) have a curfew until 06:00", ("curfew",)
    def applies(self, pod, sim):
        return "curfew" in pod.labels
    def passes(self, pod, node):
        return False
"""
#: Budgets are absolute, nodes are held, and a filter of others is asked.
SETTINGS = {
    "preemption": {"pdb": "strict", "holdRoom": "always"},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Curfew"}]}}}],
}


class Scheduler:
    """The process, which can be stopped and started again."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.kubeconfig = plane.admin_kubeconfig
        self._folder, self._port = folder, free_port()
        file = folder / "config.yaml"
        file.write_text(yaml.safe_dump(configuration(self._port, SETTINGS)))
        self._command = [*gangsched(), "run", "--config", str(file)]
        self._command += ["--kubeconfig", str(plane.scheduler_kubeconfig)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it is ready."""
        path = {"PYTHONPATH": f"{self._folder / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env={**os.environ, **path})
        asyncio.run(wait_until(lambda: asyncio.to_thread(_ready, self._port), _SECONDS, "the scheduler is ready"))

    def stop(self) -> None:
        """Return when it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_SECONDS)


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except OSError:
        return False


def answer(kubeconfig: Path, *words: str) -> str:
    """What a command says, in this process: to start one for each question takes longer than all answers."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        main([*words, "--kubeconfig", str(kubeconfig)])
    return out.getvalue() + errors.getvalue()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_reason_and_action(case: Case, kubeconfig: Path) -> None:
    """The first line of the answer is the reason; what the second says makes the gang start."""
    async with _namespace(kubeconfig) as (admin, namespace):
        if case.asked.startswith("jobset/"):
            async with jobset_controller(admin):
                await _play(case, admin, kubeconfig, namespace)
        else:
            await _play(case, admin, kubeconfig, namespace)


@asynccontextmanager
async def _namespace(kubeconfig: Path) -> AsyncIterator[tuple[Client, str]]:
    """A client, and a namespace of which nothing is left afterwards."""
    namespace = f"case-{next(_numbers)}"
    async with Client(kubeconfig) as admin:
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        try:
            yield admin, namespace
        finally:
            await _leave(admin, namespace)


async def _play(case: Case, admin: Client, kubeconfig: Path, namespace: str) -> None:
    await _there(admin, namespace, case.before)
    for each in case.objects:
        await admin.create(each, each["metadata"].get("namespace") or namespace)
    text = ""

    async def answered() -> bool:
        nonlocal text
        text = await asyncio.to_thread(answer, kubeconfig, "explain", case.asked, "-n", namespace)
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


async def _there(admin: Client, namespace: str, before: Sequence[Object]) -> None:
    """What runs before: two pods of each Job."""
    for each in before:
        await admin.create(each, namespace)
        if each["kind"] == "Job":
            await _run(admin, namespace, each["metadata"]["name"], 2)


async def test_status_shows_what_is_held(kubeconfig: Path) -> None:
    """While a plan waits for its victims, each node on which it frees room is shown with it; afterwards none is."""
    slow = copy.deepcopy(FULL[0])
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    async with _namespace(kubeconfig) as (admin, namespace):
        await _there(admin, namespace, [slow])
        await admin.create(job(requests=CHIP, priorityClassName="research"), namespace)

        async def shown(pattern: str) -> bool:
            return re.search(pattern, await asyncio.to_thread(answer, kubeconfig, "status")) is not None

        await wait_until(partial(shown, r"holds +chip-0 for \S+, chip-1 for \S+"), _SECONDS, "both are held", 0.5)
        text = await asyncio.to_thread(answer, kubeconfig, "get", "train", "-n", namespace)
        assert re.search(rf"{namespace} +train +Job +Nominated +0/2", text), text
        await admin.delete("Job", "web", namespace)
        for pod in await admin.list("Pod", namespace):
            if pod["metadata"]["name"].startswith("web-"):
                await admin.delete("Pod", pod["metadata"]["name"], namespace, grace_seconds=0)
        await _run(admin, namespace, "train", 2)
        await wait_until(partial(shown, "no room is held on any node"), _SECONDS, "nothing is held", 0.5)


async def test_a_training_job_of_the_trainer(kubeconfig: Path) -> None:
    """A TrainJob is answered for by its name and kind: before it has pods, and when the JobSet that is made of it does
    not fit; `get` shows that gang once. It starts when its pods ask for what the action says.
    """
    async with _namespace(kubeconfig) as (admin, namespace), jobset_controller(admin):
        made = await admin.create(trainjob(), namespace)
        text = await asyncio.to_thread(answer, kubeconfig, "explain", "trainjob/train", "-n", namespace)
        assert re.search(r"\n  WAITS  it has no pods yet\n  do  kubectl describe trainjob train", text), text
        await admin.create(jobset_of(made, 16), namespace)

        async def answered() -> bool:
            found = await asyncio.to_thread(answer, kubeconfig, "explain", "trainjob/train", "-n", namespace)
            first = (
                r"\n  NEVER FITS  each pod asks for 16 nvidia.com/gpu; .* has 8\n  do  ask for at most 8 nvidia.com/gpu"
            )
            return re.search(first, found) is not None

        await wait_until(answered, _SECONDS, "the answer about its JobSet", 1.0)
        for words in (["trainjob/train"], []):
            text = await asyncio.to_thread(answer, kubeconfig, "get", *words, "-n", namespace)
            assert re.findall(r"(\w+) +Queued +0/2", text) == ["JobSet"], text
            assert "TrainJob" not in text
        await admin.delete(JOBSET_KIND, "train", namespace)
        await none_left(admin, namespace)
        await admin.create(jobset_of(made, 8), namespace)
        await _run(admin, namespace, "train", 2)
        await admin.delete(JOBSET_KIND, "train", namespace)


async def test_a_pause_comes_before_what_would_be_decided(kubeconfig: Path) -> None:
    """Others have taken the room that was freed: the scheduler pauses, which stands on the members alone. Every command
    begins with that, and `explain` has what would be decided beside it; where the room becomes free the gang starts.
    """
    slow = copy.deepcopy(FULL[0])
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    async with _namespace(kubeconfig) as (admin, namespace):
        await _there(admin, namespace, [slow])
        await admin.create(job(requests=CHIP, priorityClassName="research"), namespace)

        async def says(pattern: str, *words: str) -> bool:
            text = await asyncio.to_thread(answer, kubeconfig, *words)
            return re.search(pattern, text) is not None

        await wait_until(partial(says, "holds +chip-0 for", "status"), _SECONDS, "the room is held", 0.5)
        thieves = [f"thief-{n}" for n in range(2)]
        for n, thief in enumerate(thieves):  # as one that heeds no taint binds them
            spec = {**pod_spec(requests=CHIP, priorityClassName="night"), "nodeName": f"chip-{n}"}
            await admin.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": thief}, "spec": spec}, namespace
            )
        await admin.delete("Job", "web", namespace)
        for pod in await admin.list("Pod", namespace):
            if pod["metadata"]["name"].startswith("web-"):
                await admin.delete("Pod", pod["metadata"]["name"], namespace, grace_seconds=0)
        waits = r"until \S+Z, when it may evict others: a round of evictions has not led to its binding, for others"
        asked = ("explain", "job/train", "-n", namespace)
        await wait_until(partial(says, rf"\n  WAITS  {waits}", *asked), _SECONDS, "it pauses", 0.5)
        text = await asyncio.to_thread(answer, kubeconfig, *asked)
        assert re.search(r"would decide +PREEMPT: 2 members can start after 2 pods are evicted", text), text
        assert re.search(r"\n  do  wait until it is decided again: .*/thief-0", text), text
        assert await says(rf"{namespace} +train +Job +Queued +0/2 .* waits: {waits}", "get", "-n", namespace)
        plan = await asyncio.to_thread(answer, kubeconfig, "plan", "--cluster")
        assert re.search(rf"{namespace}/train .*\n  WAITS  {waits}", plan), plan
        for thief in thieves:
            await admin.delete("Pod", thief, namespace)
        await _run(admin, namespace, "train", 2)


async def test_no_scheduler_leads(cluster: Scheduler) -> None:
    """Every answer begins with it while the process is down, `status` too; then the gang starts."""
    async with _namespace(cluster.kubeconfig) as (admin, namespace):
        await asyncio.to_thread(cluster.stop)
        try:
            await admin.create(job(), namespace)
            asked = (("explain", "job/train", "-n", namespace), ("get", "-n", namespace), ("queues",), ("status",))
            for words in asked:
                text = await asyncio.to_thread(answer, cluster.kubeconfig, *words)
                assert re.search(
                    r"^.*NO SCHEDULER IS LEADING since [\d:-]+Z \(\S+ led before\)", text.split("\n")[0]
                ), text
        finally:
            await asyncio.to_thread(cluster.start)
        await _run(admin, namespace, "train", 2)


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
        try:
            await admin.delete("Job", each["metadata"]["name"], namespace)
        except ApiError as error:
            if error.status != 404:  # its owner went before it
                raise
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
