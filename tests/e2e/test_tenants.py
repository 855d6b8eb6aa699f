"""People with a role in one namespace ask about it, on a real control plane with the scheduler running."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.documented import COMMAND
from tests.e2e.stories import Start
from tests.forked import gangsched
from tests.manifests.people import person
from tests.pages import text_of


def ran(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of its own, as this person."""
    command = [*gangsched(), *arguments, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def job(name: str, pods: int, cpu: str, priority_class: str | None = None) -> Object:
    """A Job that is a gang of ours, as a tenant writes it."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec: Object = {
        "schedulerName": "py-gang-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    if priority_class is not None:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"gangsched.dev/gang": "true"}},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }


async def test_tenants_ask_about_their_namespace(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    start_scheduler: Start,
    control_plane: ControlPlane,
    tmp_path: Path,
) -> None:
    """What is asked about one namespace is answered by what stands in it, one line says what is not known, and what
    needs the cluster says in two lines which role to ask for.
    """
    await make_nodes(2, cpu=4)
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    await admin.create({**urgent, "value": 1000})
    roles = ("view", "edit", "gangsched-tenant")
    people = [await person(admin, namespace, role, control_plane, tmp_path, here=True) for role in roles]
    async with start_scheduler():
        await admin.create(job("night", 2, "3"), namespace)
        await admin.wait_for("Job", "night", lambda j: j.get("status", {}).get("ready") == 2, namespace)
        await admin.create(job("train", 2, "3", "urgent"), namespace)
        await admin.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready") == 2, namespace)
        await admin.create(job("wide", 9, "3"), namespace)

        async def told() -> bool:
            pods = await admin.list("Pod", namespace)
            waiting = [p for p in pods if p["metadata"]["name"].startswith("wide-")]
            return len(waiting) == 9 and all("never fits" in str(p["status"].get("conditions")) for p in waiting)

        await wait_until(told, what="the scheduler says why the wide gang waits")
        await admin.wait_for("Job", "night", lambda j: "PodsEvicted" in str(j["status"]), namespace)
        here = ["-n", namespace]
        for kubeconfig in people:
            got = await ask(kubeconfig, "get", *here)
            explained = await ask(kubeconfig, "explain", "job/wide", *here)
            rows = {line.split()[1]: line.split() for line in got.stdout.splitlines()}
            assert (rows["train"][3:5], rows["wide"][3:5]) == (["Running", "2/2"], ["Queued", "0/9"]), got
            assert "never fits: 9 pods x 3 cpu = 27; 8 in the 2 nodes" in got.stdout
            assert explained.stdout.splitlines()[1].startswith("  NEVER FITS  9 pods x 3 cpu = 27;"), explained
            for answer in (got, explained):
                (line,) = [each for each in answer.stderr.splitlines() if "may not read" in each]
                assert line.startswith(f"gangsched: of namespace {namespace} only: you may not read nodes, pods, "), (
                    line
                )
                assert line.endswith("ask for the ClusterRole gangsched-reader")
        viewer = people[0]
        await follows_the_page(viewer, namespace)
        status = await ask(viewer, "status", *here)
        facts = {line[:15].strip(): line[15:].strip() for line in status.stdout.splitlines()}
        assert (facts["leader"].partition(" leads ")[1], facts["replicas"]) == (" leads ", "not known"), status
        assert facts["gangs"].endswith("1 Running"), status
        assert "you may not read nodes, pods" in status.stderr, status
        for command in (["why-evicted", "job/night"], ["history"]):
            answer = await ask(viewer, *command, *here)
            assert f"{namespace}/train" in answer.stdout, answer
            assert f"of namespace {namespace} only" in answer.stderr
        explained = await ask(viewer, "explain", "job/train", *here)
        assert explained.stdout.splitlines()[1].startswith("  RUNNING"), explained
        for command in (["plan", "--cluster"], ["get", "-A"]):
            answer = await ask(viewer, *command)
            assert (answer.returncode, answer.stdout) == (2, "")
            refused = [line for line in answer.stderr.splitlines() if "reading" not in line and " leads " not in line]
            assert len(refused) == 2, answer.stderr
            assert "you may not list nodes, pods, " in refused[0]
            assert refused[1].startswith("gangsched: ask for the ClusterRole gangsched-reader: kubectl create")


#: What a tenant reads in the documentation, the Job that it is about here, and what is looked for in the answer.
SCRIPT = {
    "gangsched get -n team-a": ("", "never fits: 9 pods x 3 cpu = 27"),
    "gangsched explain job/train -n team-a": ("wide", "NEVER FITS  9 pods x 3 cpu = 27"),
    "gangsched why-evicted job/train -n team-a": ("night", "/train"),
    "gangsched history -n team-a": ("", "/train"),
}


async def follows_the_page(kubeconfig: Path, namespace: str) -> None:
    """Each command of the page for tenants answers, in the order in which it stands there."""
    page = text_of("docs/troubleshoot.md").partition("## With a role in one namespace only\n")[2].partition("\n## ")[0]
    assert COMMAND.findall(page) == list(SCRIPT)
    for command, (of_job, wanted) in SCRIPT.items():
        typed = command.replace("job/train", f"job/{of_job}").replace("team-a", namespace)
        answer = await ask(kubeconfig, *typed.split()[1:])
        assert answer.returncode == 0, answer
        assert wanted in answer.stdout, answer


async def ask(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same without holding up what else the test does."""
    return await asyncio.to_thread(ran, kubeconfig, *arguments)
