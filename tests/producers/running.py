"""Real controllers beside the scheduler: how they are built, run and reached, and how what they make is recorded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import yaml

from tests.controlplane import binaries, certificates, guard
from tests.controlplane.client import Client, Object, load
from tests.controlplane.plane import ControlPlane
from tests.e2e.scheduler import free_port
from tests.producers import isolated as isolation

HERE = Path(__file__).resolve().parent
#: So long nobody writes a status after everything is said.
QUIET_SECONDS = 5.0
#: What happens on a control plane, in a folder, with a controller and its sources.
Story: TypeAlias = Callable[[ControlPlane, Path, Path, Path], Coroutine[None, None, None]]


def controller(module: Path, source: str, command: str = "") -> tuple[Path, Path]:
    """A controller's binary, built into the user's cache, and the folder of its sources: of the Go module ``source``
    the package ``command`` in it. ``module`` pins versions.
    """
    go, name, package = binaries.go_command(print), source.rpartition("/")[2], f"{source}{command}"
    digest = hashlib.sha256((module / "go.sum").read_bytes()).hexdigest()[:16]
    binary = binaries.cache_root() / f"producers-{digest}" / package.rpartition("/")[2]
    if not os.access(binary, os.X_OK):
        binary.parent.mkdir(parents=True, exist_ok=True)
        binaries.build_one(go, module, package, binary, name, print)
    listed = [str(go), "list", "-m", "-f", "{{.Dir}}", source]
    sources = subprocess.run(
        listed, cwd=module, env=binaries.go_environment(), capture_output=True, text=True, check=True
    )
    return binary, Path(sources.stdout.strip())


def webhooks(manifest: Path, port: int, authority: bytes, only: Collection[str] = ()) -> list[Object]:
    """Those of a controller's own manifests, reached on loopback; if some are named only those for these resources."""
    found = load(manifest)
    for configuration in found:
        hooks = configuration["webhooks"]
        configuration["webhooks"] = [w for w in hooks if not only or {*w["rules"][0]["resources"]} & {*only}]
        for each in configuration["webhooks"]:
            url = f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"
            each["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority).decode()}
    return found


def serving_certificate(folder: Path, *, rsa_key: bool = False) -> bytes:
    """A certificate for loopback in a folder, under the names that controllers read; returns the authority's."""
    pki = certificates.create(folder, rsa_key=rsa_key)
    for path, name in ((pki.server, "tls.crt"), (pki.server_key, "tls.key")):
        (folder / name).write_bytes(path.read_bytes())
    return pki.ca.read_bytes()


@contextmanager
def running_controller(
    binary: Path, kubeconfig: Path, folder: Path, port: int, api: str, *flags: str, **settings: object
) -> Iterator[bytes]:
    """A controller whose configuration is of this API, with these settings, while the block lasts; yields the authority
    that signs its webhooks.
    """
    authority = serving_certificate(folder / "webhook")
    loopback = {"bindAddress": f"127.0.0.1:{free_port()}"}
    config = {
        "apiVersion": api,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder / "webhook")},
        "metrics": loopback,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        **settings,
    }
    file = folder / f"{binary.name}.yaml"
    file.write_text(yaml.safe_dump(config))
    with running(folder, binary.name, binary, "--config", file, "--kubeconfig", kubeconfig, *flags):
        yield authority


def isolated(plane: ControlPlane, folder: Path, *ports: int) -> list[str]:
    """The words before a command that run it in a network of its own, with these ports reached from outside."""
    isolation.check()
    numbers = [str(port) for port in (plane.server.rpartition(":")[2], *ports)]
    return [sys.executable, "-m", isolation.__name__, str(folder), *numbers, "--"]


@contextmanager
def running(folder: Path, name: str, *command: object) -> Iterator[None]:
    """A process while the block lasts, or this one; its log is in the folder."""
    words = [sys.executable, "-I", "-S", guard.__file__, folder / f"{name}.log", 10, *command]
    process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.wait(20)


async def record(admin: Client, kinds: Iterable[str], path: Path) -> None:
    """What is in the cluster of these kinds, without who wrote which field."""
    items = []
    for kind in kinds:
        for found in await admin.list(kind):
            found["metadata"].pop("managedFields", None)
            version, _, name = kind.rpartition("/")
            versions = {"PriorityClass": "scheduling.k8s.io/v1", "Job": "batch/v1", "StatefulSet": "apps/v1"}
            items.append({"apiVersion": version or versions.get(name, "v1"), "kind": name, **found})
    kept = [i for i in items if not i["metadata"]["name"].startswith("system-")]
    _write({"apiVersion": "v1", "kind": "List", "items": kept}, path)


async def writes(admin: Client, kind: str, seconds: float) -> list[str]:
    """What objects of a kind become in this time, one after another."""
    async with admin.record(kind) as recorder:
        await asyncio.sleep(seconds)
    return [f"{c.object['metadata']['namespace']}/{c.name} {c.phase}" for c in recorder.changes]


def _write(found: Object, path: Path) -> None:
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"recorded in {path.relative_to(Path.cwd())}")


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
