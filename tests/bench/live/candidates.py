"""What is compared: the scheduler of this project, kube-scheduler, and the floor, each as a process of its own."""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import yaml

import gangsched
from tests.bench.live.cells import Cell
from tests.controlplane import binaries
from tests.controlplane.plane import TOKENS, ControlPlane
from tests.controlplane.versions import group_api
from tests.e2e.scheduler import free_port

OURS, KUBE, FLOOR = "gangsched", "kube-scheduler", "floor"
_FLOOR_PROGRAM = (sys.executable, "-m", "tests.bench.live.floor")
QPS, BURST = 5_000, 10_000
_LOOK_SECONDS = 0.02
#: As it is installed by default, whatever this environment has.


class Candidate(msgspec.Struct, frozen=True):
    """``name`` is for people, ``scheduler`` the schedulerName of its pods, the same unless told otherwise. ``command``
    makes its command line for one cell.
    """

    name: str
    command: Callable[[ControlPlane, Cell, Path], list[str]]
    scheduler: str = ""

    @property
    def serves(self) -> str:
        """The schedulerName of its pods."""
        return self.scheduler or self.name


def compiled() -> None:
    """Compile our modules and the libraries as pip does when it installs them.

    A checkout may have been edited since; other installers leave it to the first import, which may not be allowed to.
    """
    compileall.compile_dir(sysconfig.get_paths()["purelib"], quiet=2, workers=0)
    compileall.compile_dir(Path(gangsched.__file__).parent, quiet=1)


def _ours(plane: ControlPlane, cell: Cell, folder: Path) -> list[str]:
    return ours_listening(plane, folder, free_port())


def ours_listening(plane: ControlPlane, folder: Path, port: int, **more: object) -> list[str]:
    """The command line of our scheduler, with its probes and metrics on this port; ``more`` is configuration."""
    config = folder / "gangsched.yaml"
    settings = {
        "apiVersion": "gangsched.dev/v1alpha1",
        "kind": "GangSchedulerConfiguration",
        "profiles": [{"schedulerName": OURS}],
        "clientConnection": {"qps": QPS, "burst": BURST},
        "http": {"bindAddress": "127.0.0.1", "port": port},
        "logging": {"format": "json"},
        **more,
    }
    config.write_text(yaml.safe_dump(settings))
    kubeconfig = str(plane.scheduler_kubeconfig)
    return [sys.executable, "-m", "gangsched.cli.main", "run", "--kubeconfig", kubeconfig, "--config", str(config)]


def _kube(plane: ControlPlane, cell: Cell, folder: Path) -> list[str]:
    return kube_listening(plane, folder, free_port())


def kube_listening(plane: ControlPlane, folder: Path, port: int) -> list[str]:
    """The command line of kube-scheduler, with its probes on this port. It waits for no Lease."""
    config = folder / "kube-scheduler.yaml"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig("kube-scheduler")), "qps": QPS, "burst": BURST},
        "profiles": [{"schedulerName": KUBE}],
    }
    config.write_text(yaml.safe_dump(settings))
    return [
        str(binaries.find()["kube-scheduler"]),
        f"--config={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--feature-gates={','.join(f'{gate}=true' for gate in group_api().gates)}",
    ]


def _floor(plane: ControlPlane, cell: Cell, folder: Path) -> list[str]:
    per_node = max(1, cell.node_cpu * 1000 // cell.milli_cpu)
    numbers = [str(n) for n in (cell.nodes, per_node, cell.evicted)]
    return [*_FLOOR_PROGRAM, "backlog", plane.server, TOKENS["admin"][0], str(plane.ca_file), *numbers]


def _floor_listening(plane: ControlPlane, cell: Cell, port: int) -> list[str]:
    numbers = [str(n) for n in (cell.size, port)]
    return [*_FLOOR_PROGRAM, "arriving", plane.server, TOKENS["admin"][0], str(plane.ca_file), *numbers]


def listening(name: str, plane: ControlPlane, cell: Cell, folder: Path, port: int) -> list[str]:
    """The command line of one of ``ALL`` for pods that arrive: ``/readyz`` on this port says when it is ready."""
    if name == FLOOR:
        return _floor_listening(plane, cell, port)
    return (ours_listening if name == OURS else kube_listening)(plane, folder, port)


def configured(**settings: object) -> Callable[[ControlPlane, Cell, Path], list[str]]:
    """Makes the command line of our scheduler with this configuration."""

    def command(plane: ControlPlane, cell: Cell, folder: Path) -> list[str]:
        return ours_listening(plane, folder, free_port(), **settings)

    return command


ALL = (Candidate(FLOOR, _floor), Candidate(OURS, _ours), Candidate(KUBE, _kube))
#: Ours, by what it tells about gangs: as it comes; one Event for a gang; that, and no status of groups.
TELLING = (
    Candidate("perPod", configured(events={"members": "perPod"}), OURS),
    Candidate("perGang", configured(events={"members": "perGang"}), OURS),
    Candidate(
        "perGang, no group status", configured(events={"members": "perGang"}, groupStatus={"enabled": False}), OURS
    ),
)


class Process:
    """A candidate that runs; ``cpu_seconds`` and ``peak_bytes`` as the kernel counts them."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._out = log.open("wb")
        self._process = subprocess.Popen(
            command, stdout=self._out, stderr=self._out, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        self.cpu_seconds = 0.0
        self.peak_bytes = 0
        self._looked_at = float("-inf")

    @property
    def ended(self) -> int | None:
        """Its exit code, if it has ended. May be asked at every event: it looks at the figures now and then only."""
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self.look()
        return self._process.poll()

    def resident_bytes(self) -> int:
        """Its memory now; 0 when it has ended."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL; the figures are those of just before."""
        self.look()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._out.close()

    def look(self) -> None:
        """Take the figures of this moment; those of a process that has ended stay."""
        self._looked_at = time.monotonic()
        folder = Path(f"/proc/{self._process.pid}")
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except OSError:
            return
        ticks = int(fields[11]) + int(fields[12])
        self.cpu_seconds = max(self.cpu_seconds, ticks / os.sysconf("SC_CLK_TCK"))
        peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "0")
        self.peak_bytes = max(self.peak_bytes, int(peak) * 1024)
