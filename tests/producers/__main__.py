"""`make producers`: build the JobSet controller, run it beside the scheduler on a real control plane, and record what
it makes of two JobSets of which one preempts the other. Takes some minutes the first time.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.controlplane import binaries, certificates
from tests.controlplane.client import Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import EXAMPLES, nodes_ready

HERE = Path(__file__).resolve().parent
MODULE = HERE / "go"
RECORDED = HERE / "recorded.json"
PACKAGE = "sigs.k8s.io/jobset"
KIND = "jobset.x-k8s.io/v1alpha2/JobSet"
#: What the scheduler reads of the story.
KINDS = (
    *("Node", "PriorityClass", "scheduling.k8s.io/v1alpha2/Workload", "scheduling.k8s.io/v1alpha2/PodGroup"),
    *(KIND, "Job", "Pod"),
)
MEMBERS = 4


def controller() -> tuple[Path, Path]:
    """The controller's binary, built into the user's cache, and the folder of its sources."""
    go = binaries.go_command(print)
    digest = hashlib.sha256((MODULE / "go.sum").read_bytes()).hexdigest()[:16]
    binary = binaries.cache_root() / f"producers-{digest}" / "jobset"
    if not os.access(binary, os.X_OK):
        binary.parent.mkdir(parents=True, exist_ok=True)
        binaries.build_one(go, MODULE, PACKAGE, binary, "jobset", print)
    command = [str(go), "list", "-m", "-f", "{{.Dir}}", PACKAGE]
    sources = subprocess.run(
        command, cwd=MODULE, env=binaries.go_environment(), capture_output=True, text=True, check=True
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
    command = [str(binary), "--config", str(folder / "jobset.yaml"), "--kubeconfig", str(kubeconfig)]
    with (folder / "jobset.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield pki.ca.read_bytes()
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


async def record(admin: Client) -> None:
    """What is in the cluster, without who wrote which field."""
    items = []
    for kind in KINDS:
        for found in await admin.list(kind):
            found["metadata"].pop("managedFields", None)
            version, _, name = kind.rpartition("/")
            versions = {"PriorityClass": "scheduling.k8s.io/v1", "Job": "batch/v1"}
            items.append({"apiVersion": version or versions.get(name, "v1"), "kind": name, **found})
    kept = [i for i in items if not i["metadata"]["name"].startswith("system-")]
    RECORDED.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": kept}, indent=1, sort_keys=True) + "\n"
    )


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
            await record(admin)
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


def main() -> int:
    """Build, run and record; 0 on success."""
    try:
        binary, sources = controller()
        binaries.find()
    except (binaries.BinariesError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="producers-") as name:
        folder = Path(name)
        with ControlPlane(folder / "plane") as plane:
            try:
                asyncio.run(story(plane, folder, binary, sources))
            except BaseException:
                for log in sorted(folder.glob("*.log")):
                    print(f"end of {log.name}:\n{log.read_text()[-3000:]}", file=sys.stderr)
                raise
    print(f"recorded in {RECORDED.relative_to(Path.cwd())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
