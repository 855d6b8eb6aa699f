"""`make producers`: build the JobSet controller and Ray's operator, run each beside the scheduler on a real control
plane, and record what they make: of two JobSets of which one preempts the other, and of a Ray cluster whose groups are
Volcano's. Takes some minutes the first time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import yaml

from tests.controlplane import binaries, certificates
from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import MANIFESTS, apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import EXAMPLES, nodes_ready

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
RECORDED_RAY = HERE / "recorded-kuberay.json"
PACKAGE = "sigs.k8s.io/jobset"
RAY_PACKAGE = "github.com/ray-project/kuberay/ray-operator"
RAY, GROUP = "ray.io/v1/RayCluster", "scheduling.volcano.sh/v1beta1/PodGroup"
KIND = "jobset.x-k8s.io/v1alpha2/JobSet"
#: What the scheduler reads of the story.
KINDS = (
    *("Node", "PriorityClass", "scheduling.k8s.io/v1alpha2/Workload", "scheduling.k8s.io/v1alpha2/PodGroup"),
    *(KIND, "Job", "Pod"),
)
MEMBERS, RAY_MEMBERS = 4, 3
#: What happens on a control plane, in a folder, with a controller and its sources.
Story: TypeAlias = Callable[[ControlPlane, Path, Path, Path], Coroutine[None, None, None]]


def controller(module: Path, package: str) -> tuple[Path, Path]:
    """A controller's binary, built into the user's cache, and the folder of its sources. ``module`` pins versions."""
    go, name = binaries.go_command(print), package.rpartition("/")[2]
    digest = hashlib.sha256((module / "go.sum").read_bytes()).hexdigest()[:16]
    binary = binaries.cache_root() / f"producers-{digest}" / name
    if not os.access(binary, os.X_OK):
        binary.parent.mkdir(parents=True, exist_ok=True)
        binaries.build_one(go, module, package, binary, name, print)
    command = [str(go), "list", "-m", "-f", "{{.Dir}}", package]
    sources = subprocess.run(
        command, cwd=module, env=binaries.go_environment(), capture_output=True, text=True, check=True
    )
    return binary, Path(sources.stdout.strip())


def webhooks(sources: Path, port: int, authority: bytes) -> list[Object]:
    """Those of the controller's own manifests, reached on loopback."""
    found = load(sources / "config" / "components" / "webhook" / "manifests.yaml")
    for configuration in found:
        for each in configuration["webhooks"]:
            url = f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"
            each["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority).decode()}
    return found


@contextmanager
def running_controller(binary: Path, kubeconfig: Path, folder: Path, port: int) -> Iterator[bytes]:
    """The controller while the block lasts; yields the authority that signs its webhooks."""
    pki = certificates.create(folder / "webhook")
    for path, name in ((pki.server, "tls.crt"), (pki.server_key, "tls.key")):
        (folder / "webhook" / name).write_bytes(path.read_bytes())
    loopback = {"bindAddress": f"127.0.0.1:{free_port()}"}
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder / "webhook")},
        "metrics": loopback,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
    }
    (folder / "jobset.yaml").write_text(yaml.safe_dump(config))
    with running(folder, "jobset", binary, "--config", folder / "jobset.yaml", "--kubeconfig", kubeconfig):
        yield pki.ca.read_bytes()


@contextmanager
def running(folder: Path, name: str, *command: object) -> Iterator[None]:
    """A process while the block lasts; its log is in the folder."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(10)


async def pods(admin: Client, jobset: str, phase: str) -> list[Object]:
    """Pods of a JobSet in a phase that are not being deleted."""
    label = "jobset.sigs.k8s.io/jobset-name"
    found = [p for p in await admin.list("Pod") if p["metadata"].get("labels", {}).get(label) == jobset]
    return [p for p in found if p["status"]["phase"] == phase and "deletionTimestamp" not in p["metadata"]]


async def all_in(admin: Client, jobset: str, phase: str) -> None:
    """Wait until all pods of a JobSet are there, in this phase."""

    async def reached() -> bool:
        return len(await pods(admin, jobset, phase)) == MEMBERS

    await wait_until(reached, what=f"the pods of {jobset} are {phase}", timeout=90)


async def record(admin: Client, kinds: Iterable[str], path: Path) -> None:
    """What is in the cluster of these kinds, without who wrote which field."""
    items = []
    for kind in kinds:
        for found in await admin.list(kind):
            found["metadata"].pop("managedFields", None)
            version, _, name = kind.rpartition("/")
            versions = {"PriorityClass": "scheduling.k8s.io/v1", "Job": "batch/v1"}
            items.append({"apiVersion": version or versions.get(name, "v1"), "kind": name, **found})
    kept = [i for i in items if not i["metadata"]["name"].startswith("system-")]
    _write({"apiVersion": "v1", "kind": "List", "items": kept}, path)


def _write(found: Object, path: Path) -> None:
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"recorded in {path.relative_to(Path.cwd())}")


async def story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """The low JobSet runs; the high one is created, recorded, and takes the room of the other until it is deleted."""
    port = free_port()
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        await admin.apply(load(sources / "config" / "components" / "crd" / "bases" / "jobset.x-k8s.io_jobsets.yaml"))
        await wait_until_served(admin, KIND)
        await admin.apply(load(EXAMPLES / "workload" / "00-nodes.yaml"))
        await admin.apply(load(EXAMPLES / "workload" / "10-priorityclasses.yaml"))
        await nodes_ready(admin)
        things = load(HERE / "jobsets.yaml")
        with running_controller(binary, plane.admin_kubeconfig, folder, port) as authority:
            await admin.apply(webhooks(sources, port, authority))
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await admin.apply(things[:3])
                await all_in(admin, "lp-js", "Running")
            await admin.apply(things[3:])
            await all_in(admin, "hp-js", "Pending")
            await record(admin, KINDS, RECORDED)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await all_in(admin, "hp-js", "Running")
                waits = await admin.wait_for(KIND, "lp-js", lambda found: found["spec"].get("suspend"))
                print(
                    f"hp-js runs with {MEMBERS} pods; lp-js is suspended: {waits['status']['conditions'][0]['reason']}"
                )
                await admin.delete(KIND, "hp-js")
                await all_in(admin, "lp-js", "Running")
            jobset = await admin.get(KIND, "lp-js")
            print(f"lp-js runs again after hp-js; restarts: {jobset['status'].get('restarts', 0)}")


async def ray_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """A Ray cluster is recorded as its operator makes it for Volcano, and starts whole without Volcano."""
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        for each in ("rayclusters", "rayjobs", "rayservices"):
            await admin.apply(load(sources / "config" / "crd" / "bases" / f"ray.io_{each}.yaml"))
        await admin.apply(load(MANIFESTS / "volcano" / "crd-podgroups.yaml"))
        for kind in (RAY, GROUP):
            await wait_until_served(admin, kind)
        await admin.apply(load(EXAMPLES / "volcano" / "00-cluster.yaml"))
        await nodes_ready(admin)
        metrics, probes = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        addresses = ("--metrics-addr", metrics, "--health-probe-bind-address", probes)
        flags = ("--batch-scheduler", "volcano", "--enable-leader-election=false", *addresses)
        with running(folder, "kuberay", binary, "--kubeconfig", plane.admin_kubeconfig, *flags):
            await admin.apply(load(HERE / "raycluster.yaml"))

            async def made() -> bool:
                return len(await admin.list("Pod")) == RAY_MEMBERS

            await wait_until(made, what="the pods of the Ray cluster are made", timeout=90)
            await record(admin, ("Node", RAY, GROUP, "Pod"), RECORDED_RAY)
            settings = {"profiles": [{"schedulerName": "volcano"}]}
            async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
                group = await admin.wait_for(
                    GROUP, "ray-demo-pg", lambda found: found.get("status", {}).get("phase") == "Running"
                )
    print(f"Ray cluster demo runs; its PodGroup: {group['status']['phase']}, {group['status'].get('running')} pods")


def play(story: Story, binary: Path, sources: Path) -> None:
    """A story on a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="producers-") as name:
        folder = Path(name)
        with ControlPlane(folder / "plane") as plane:
            try:
                asyncio.run(story(plane, folder, binary, sources))
            except BaseException:
                for log in sorted(folder.glob("*.log")):
                    print(f"end of {log.name}:\n{log.read_text()[-3000:]}", file=sys.stderr)
                raise


def main() -> int:
    """Build, run and record; 0 on success."""
    try:
        jobset = controller(HERE / "go", PACKAGE)
        ray = controller(HERE / "go-kuberay", RAY_PACKAGE)
        binaries.find()
    except (binaries.BinariesError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    play(story, *jobset)
    play(ray_story, *ray)
    return 0


if __name__ == "__main__":
    sys.exit(main())
