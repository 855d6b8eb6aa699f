"""On what it was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path

from tests.controlplane import binaries

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def machine() -> str:
    """The hardware, the control plane, and where etcd keeps its data."""
    programs = binaries.find()
    versions = [f"{name} {_version(programs[name])}" for name in ("etcd", "kube-apiserver", "kube-scheduler")]
    return ", ".join([hardware(), *versions, f"etcd's data on {filesystem(Path(tempfile.gettempdir()))}, never synced"])


def hardware() -> str:
    """The processor, its cores, the memory, kernel, interpreter."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [
        model,
        f"{os.cpu_count()} cores",
        f"{gib:.0f} GiB",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
    ]
    return ", ".join(parts)


def filesystem(folder: Path, mounts: str = "") -> str:
    """What kind of file system a folder is on; ``mounts`` as in ``/proc/mounts``, that of this machine by default."""
    wanted = folder.resolve()
    rows = (mounts or Path("/proc/mounts").read_text(encoding="utf-8")).splitlines()
    found = [(len(at), kind) for _, at, kind, *_ in map(str.split, rows) if wanted.is_relative_to(at)]
    return max(found, key=lambda each: each[0], default=(0, "an unknown file system"))[1]


def _version(program: Path) -> str:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = _VERSION.search(told)
    return found[0] if found else "of unknown version"
