"""The first ten minutes of five readers, with the commands of the documentation, on a real control plane.

Each walk runs what a page shows and looks at what the reader looks at. The fifth, an author of plug-ins, needs no
cluster: ``tests/runtime/test_example_plugin.py``.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import Client, load, wait_until
from tests.controlplane.plane import ControlPlane
from tests.documented import Shell
from tests.e2e.jobs import URGENT, job, template
from tests.pages import ROOT, text_of

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="readers have kubectl; this machine has not"),
]
CRD = "kubectl apply -f manifests/crd-podgroups.scheduling.sigs.k8s.io.yaml"


@pytest.fixture
def shell(control_plane: ControlPlane, admin: Client, tmp_path: Path) -> Shell:
    """A reader's shell, with a kubeconfig for an empty cluster."""
    return Shell(tmp_path, KUBECONFIG=str(control_plane.admin_kubeconfig))


async def printed(shell: Shell, command: str, *wanted: str) -> str:
    """What the command prints, which has all that is wanted."""
    text = await asyncio.to_thread(shell, command)
    assert [each for each in wanted if each not in text] == [], text
    return text


async def running(admin: Client, prefix: str, count: int, namespace: str = "default", phase: str = "Running") -> None:
    """So many pods of a name run, or are in another phase."""

    async def check() -> bool:
        pods = [p for p in await admin.list("Pod", namespace) if p["metadata"]["name"].startswith(prefix)]
        return sum(p["status"].get("phase") == phase for p in pods) == count

    await wait_until(check, timeout=60, what=f"{count} pods {prefix}* are {phase}")


MakeNodes = Callable[..., Awaitable[list[str]]]


async def test_an_engineer_starts_a_job(admin: Client, shell: Shell, make_nodes: MakeNodes) -> None:
    """From a plain Job to a gang that runs: made one, planned, submitted, listed, explained."""
    await make_nodes(2, cpu=8)
    plain = job("train", template=template("4"), parallelism=4, completions=4)
    del plain["spec"]["template"]["spec"]["schedulerName"]
    (shell.folder / "job.yaml").write_text(yaml.safe_dump(plain))
    await asyncio.to_thread(shell, "gangsched init -f job.yaml > gang.yaml")
    made = (shell.folder / "gang.yaml").read_text()
    assert "gangsched.dev/gang" in made
    assert "schedulerName: py-gang-scheduler" in made
    for name in ("train.yaml", "my-job.yaml"):
        (shell.folder / name).write_text(made)
    await printed(shell, "gangsched plan --cluster -f my-job.yaml", "BIND", "default/train")
    await printed(shell, "gangsched plan --cluster -f train.yaml", "BIND")
    await printed(shell, CRD, "podgroups.scheduling.sigs.k8s.io")
    with shell.running("gangsched run"):
        await printed(shell, "kubectl apply -f train.yaml", "train created")
        await running(admin, "train-", 4)
    await printed(shell, "gangsched get", "train", "4/4")
    await printed(shell, "gangsched explain job/train", "4 pods on nodes")


async def test_an_operator_tries_it_and_takes_it_away(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """A dry run writes nothing, the manifests apply as they are, queues are stopped, and nothing stays behind."""
    plane = make_control_plane()
    shell = Shell(tmp_path, KUBECONFIG=str(plane.admin_kubeconfig))
    async with Client(plane.admin_kubeconfig) as admin:
        await printed(shell, "gangsched run --dry-run --once", "No pod of py-gang-scheduler is waiting")
        assert await admin.list("Lease", "gangsched-system") == []
        await printed(shell, "kubectl apply -k manifests/", "deployment.apps/gangsched created")
        pods = "kubectl auth can-i delete pods --as=system:serviceaccount:gangsched-system:gangsched"
        assert (await asyncio.to_thread(shell, pods)).strip() == "yes"
        secrets = "kubectl auth can-i get secrets --as=system:serviceaccount:gangsched-system:gangsched"
        assert (await asyncio.to_thread(lambda: shell(secrets, ends=1))).strip() == "no"
        await admin.apply(load(ROOT / "manifests/kueue/crds.yaml"))
        await admin.apply([o for o in load(ROOT / "examples/quota-gpu") if o["kind"] not in ("Pod", "Job", "Node")])
        stop = """kubectl patch clusterqueue team-b-cq --type merge -p '{"spec":{"stopPolicy":"HoldAndDrain"}}'"""
        await printed(shell, stop, "patched")
        await printed(shell, "gangsched queues", "team-b-cq")
        await printed(shell, "kubectl delete namespace gangsched-system", "deleted")
        roles = "kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=gangsched"
        await printed(shell, roles, "deleted")
        left = [r["metadata"]["name"] for kind in ("ClusterRole", "ClusterRoleBinding") for r in await admin.list(kind)]
        assert [name for name in left if "gangsched" in name] == []


async def test_somebody_is_woken_at_three(admin: Client, shell: Shell, make_nodes: MakeNodes) -> None:
    """Two jobs were evicted for a third: which, for whom, why, and what would help, without any log."""
    await make_nodes(2, cpu=4)
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}})
    await admin.apply(load(URGENT.removesuffix("---")))
    await printed(shell, CRD, "podgroups.scheduling.sigs.k8s.io")
    train = job("train", template=template("2"), parallelism=3, completions=3)
    train["metadata"] |= {"namespace": "research", "annotations": {"gangsched.dev/gang": "true"}}
    first = job("first", template=template("3"), parallelism=2, completions=2)
    first["metadata"]["annotations"] = {"gangsched.dev/gang": "true"}
    first["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    with shell.running("gangsched run"):
        await admin.apply([train])
        await running(admin, "train-", 3, "research")
        single = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lp-pod-1", "namespace": "default"}}
        await admin.create({**single, "spec": template("2")["spec"]})
        await running(admin, "lp-pod-1", 1)
        await printed(shell, "gangsched explain pod/lp-pod-1", "lp-pod-1")
        await admin.apply([first])
        await running(admin, "first-", 2)
        await running(admin, "train-", 3, "research", "Pending")  # a Job's controller waits for 10 s after failures
        with shell.running("gangsched get -A --watch") as log:
            await wait_until(lambda: asyncio.to_thread(_has, log, "first"), timeout=30, what="a line for the gang")
        await printed(shell, "gangsched status", "leader", "last heard of", "poddisruptionbudgets")
        await printed(shell, "gangsched get -A", "first", "train")
        await printed(shell, "gangsched get -n research", "train", "0/3")
        await printed(shell, "gangsched explain job/train -n research", "Insufficient cpu")
        await printed(shell, "gangsched why-evicted lp-pod-1", "default/first", "priority 1000")
        await printed(shell, "gangsched why-evicted job/train -n research", "default/first")
        await printed(shell, "gangsched history --since 12h", "lp-pod-1", "train-")
    (shell.folder / "train.yaml").write_text(yaml.safe_dump(first))
    await printed(shell, "gangsched snapshot -o cluster.json")
    for command in (
        "gangsched plan -f cluster.json",
        "gangsched plan -f cluster.json -o json",
        "gangsched plan -f cluster.json --config examples/config/scheduler-configuration.yaml",
        "gangsched simulate -f cluster.json --until 1h",
    ):
        await printed(shell, command, "research/train")
    web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"}}
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await admin.create({**web, "spec": template("1")["spec"]})
    await printed(shell, "gangsched explain pod/web-0 -n shop", "web-0")


def _has(log: Path, text: str) -> bool:
    return text in log.read_text()


async def test_a_notebook_asks_a_snapshot(admin: Client, shell: Shell, make_nodes: MakeNodes) -> None:
    """The example of python.md answers for a cluster that was read, and a job on top of it."""
    await make_nodes(1, cpu=4)
    await asyncio.to_thread(shell, "gangsched snapshot -o cluster.json")
    train = job("train", template=template("1"), parallelism=2, completions=2)
    train["metadata"]["annotations"] = {"gangsched.dev/gang": "true"}
    (shell.folder / "my-job.yaml").write_text(yaml.safe_dump(train))
    code = text_of("docs/reference/python.md").partition("```python\n")[2].partition("```")[0]
    (shell.folder / "ask.py").write_text(code)
    out = await asyncio.to_thread(shell.ask, "ask.py")
    assert "default/train bind" in out
