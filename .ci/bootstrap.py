#!/usr/bin/env python3
"""Create or refresh `.venv` from the lock file: `make env`. Needs python3 (>= 3.11, with venv) and a package index.

Standard library only, and readable by old interpreters, so that the error about an old interpreter can be shown.
Nothing is installed without a hash: pip fetches only uv, by the entry in requirements-dev.lock; uv does the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements-dev.lock"
STAMP = VENV / ".stamp"
OLDEST = (3, 11)

# What pip is told about registries, uv is told as well: (pip's setting, uv's variable).
REGISTRY_SETTINGS = (
    ("index-url", "UV_DEFAULT_INDEX"),
    ("extra-index-url", "UV_INDEX"),
    ("find-links", "UV_FIND_LINKS"),
    ("no-index", "UV_NO_INDEX"),
    ("cert", "SSL_CERT_FILE"),
    ("trusted-host", "UV_INSECURE_HOST"),
)


class BootstrapError(Exception):
    """Something the user has to mend; the text says how."""


def say(text: str) -> None:
    """Print one line now, also into a pipe."""
    print(text, flush=True)


@contextlib.contextmanager
def step(number: int, text: str) -> Iterator[None]:
    """Print a numbered line, and how long the step took."""
    say(f"[{number}/4] {text}")
    start = time.monotonic()
    yield
    say(f"      done in {time.monotonic() - start:.1f} s")


def call(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command; on failure show what it said."""
    done = subprocess.run(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        raise BootstrapError(f"`{' '.join(command[:6])} ...` failed with exit code {done.returncode} (output above)")


def use_new_enough_python() -> None:
    """Continue under a newer interpreter when python3 itself is too old; else say what to install."""
    if sys.version_info >= OLDEST:
        return
    for minor in (13, 12, 11, 14):
        found = shutil.which(f"python3.{minor}")
        works = found and not subprocess.run([found, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode
        if found and works:
            say(f"python3 is {sys.version.split()[0]}, which is too old: going on with {found}")
            os.execv(found, [found, *sys.argv])
    raise BootstrapError(
        f"py-gang-scheduler needs Python {OLDEST[0]}.{OLDEST[1]} or newer, but {sys.executable} is "
        f"{sys.version.split()[0]} and no python3.11 ... python3.14 is on PATH.\n"
        "Install one, or name it: make env PYTHON=/path/to/python3.12"
    )


def wanted_stamp() -> str:
    """Everything that decides what is in the environment, as one hash."""
    digest = hashlib.sha256()
    for file in (ROOT / "pyproject.toml", LOCK, Path(__file__)):
        digest.update(file.read_bytes())
    # Not sys.prefix: in an activated .venv that would be .venv itself.
    digest.update(f"{sys.version} {sys.base_prefix} {ROOT}".encode())
    return digest.hexdigest()


def create_venv() -> None:
    """A fresh `.venv`; Debian and its children ship python3 without the parts that this needs."""
    try:
        import ensurepip  # noqa: F401, PLC0415
        import venv  # noqa: F401, PLC0415
    except ImportError as error:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise BootstrapError(
            f"{sys.executable} has no `{error.name}` module, so it cannot create a virtual environment.\n"
            f"On Debian or Ubuntu: apt install python{version}-venv"
        ) from error
    call([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)])  # install_uv brings pip


def locked(package: str) -> tuple[str, str]:
    """The version of a package in the lock file, and its entry with the hashes."""
    match = re.search(
        rf"^{re.escape(package)}==(\S+)[^\n]*\n(?:[ ]+--hash=\S+(?: \\)?\n)+", LOCK.read_text(), re.MULTILINE
    )
    if not match:
        raise BootstrapError(f"{LOCK.name} has no hashed entry for {package}; run `make lock` where it works")
    return match.group(1), match.group(0)


def installed(package: str) -> str | None:
    """The version of a package in `.venv`, or None."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([str(VENV_PYTHON), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def bundled_pip() -> Path | None:
    """The wheel of pip that Python ships: it runs as it is, and unpacking it takes longer than all that it is for."""
    import ensurepip  # noqa: PLC0415

    folders = (sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).parent / "_bundled")
    return next((wheel for folder in folders if folder for wheel in sorted(Path(folder).glob("pip-*.whl"))), None)


def install_uv() -> None:
    """Install uv into `.venv`, at the version and with the hashes of the lock file."""
    version, entry = locked("uv")
    if installed("uv") == version:
        return
    wheel = bundled_pip()
    if wheel is None:
        call([str(VENV_PYTHON), "-m", "ensurepip", "--upgrade"])
    with tempfile.TemporaryDirectory() as folder:
        only_uv = Path(folder) / "uv.txt"
        only_uv.write_text(entry)
        flags = ["--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes"]
        environment = {**os.environ, "PYTHONPATH": str(wheel)} if wheel else None
        call([str(VENV_PYTHON), "-m", "pip", "install", *flags, "-r", str(only_uv)], environment)


def pip_settings() -> dict[str, str]:
    """What pip's files and environment say about registries (none, when pip is not there to be asked)."""
    settings: dict[str, str] = {}
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    # The environment wins over files, whatever the order in which pip prints them.
    lines = sorted(done.stdout.splitlines(), key=lambda line: line.startswith(":env:"))
    for line in lines:
        match = re.match(r"(?:global|install|:env:)\.([\w-]+)='(.*)'$", line)
        if match:
            settings[match.group(1).replace("_", "-")] = match.group(2).replace("\\n", " ").strip()
    return settings


def uv_environment() -> dict[str, str]:
    """The environment for uv: pip's registry settings, unless uv's own variables are set."""
    environment = dict(os.environ)
    environment["VIRTUAL_ENV"] = str(VENV)
    environment["UV_PYTHON_DOWNLOADS"] = "never"
    settings = pip_settings()
    for name, variable in REGISTRY_SETTINGS:
        value = settings.get(name)
        if name == "find-links" and value:
            # pip shrugs at a folder that does not exist, uv does not.
            value = ",".join(place for place in value.split() if "://" in place or Path(place).is_dir())
        if value and variable not in environment:
            environment[variable] = value
    if "UV_INDEX_URL" in environment:
        environment.pop("UV_DEFAULT_INDEX", None)
    return environment


def bootstrap() -> None:
    """Bring `.venv` up to date, or find that it is."""
    use_new_enough_python()
    if not LOCK.exists():
        raise BootstrapError(f"{LOCK.name} is missing")
    stamp = wanted_stamp()
    if VENV_PYTHON.exists() and STAMP.exists() and STAMP.read_text() == stamp:
        say("environment: .venv is up to date")
        return
    started = time.monotonic()
    version = sys.version.split()[0]
    with step(1, f"virtual environment .venv with Python {version}"):
        current = VENV_PYTHON.exists() and VENV_PYTHON.resolve() == Path(sys.executable).resolve()
        if not current:
            create_venv()
        STAMP.unlink(missing_ok=True)
    with step(2, f"uv {locked('uv')[0]}, pinned by hash"):
        install_uv()
    uv = [str(VENV / "bin" / "uv"), "pip"]
    environment = uv_environment()
    count = len(re.findall(r"^[\w.-]+==", LOCK.read_text(), re.MULTILINE))
    with step(3, f"up to {count} packages of {LOCK.name}, each checked against its hash"):
        call([*uv, "sync", "--require-hashes", str(LOCK)], environment)
    with step(4, "gangsched itself and its conformance kit, editable"):
        here = [each for folder in (ROOT, ROOT / "tests" / "conformance") for each in ("--editable", str(folder))]
        call([*uv, "install", "--no-deps", "--no-build-isolation", *here], environment)
    # The client of clusters has a module for each kind: compiled once, also where processes may write no bytecode.
    call(
        [
            str(VENV_PYTHON),
            "-m",
            "compileall",
            "-q",
            "-j",
            "0",
            *map(str, VENV.glob("lib/*/site-packages/kubernetes_asyncio")),
        ]
    )
    STAMP.write_text(stamp)
    say(f"ready in {time.monotonic() - started:.1f} s: .venv/bin/gangsched --help")


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Two `make` at once take turns instead of building the same folder."""
    import fcntl  # noqa: PLC0415  # not on Windows; by now we know that we need a POSIX system anyway

    with (ROOT / ".venv.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        with only_one():
            bootstrap()
    except BootstrapError as problem:
        sys.exit(f"\nerror: {problem}")
