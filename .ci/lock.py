"""Resolve pyproject.toml into lock files: what runs, the same with tracing, and what develops. `make lock`.

The files hold names, versions and hashes, nothing about the machine that wrote them. Versions that are locked already
stay unless `--upgrade` is given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Written by `make lock` from pyproject.toml for Python 3.11 and newer, all platforms. Do not edit.\n"
LOCKS = {
    "requirements.lock": [],
    "requirements-otel.lock": ["--extra", "otel", "--constraint", "requirements.lock"],
    "requirements-dev.lock": ["--group", "dev"],
}


def resolve(name: str, flags: list[str], *, upgrade: bool) -> None:
    """Write one lock file."""
    # A wheel folder of this machine would add hashes and lines that mean nothing elsewhere.
    environment = {key: value for key, value in os.environ.items() if key not in {"PIP_FIND_LINKS", "UV_FIND_LINKS"}}
    target = ROOT / name
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / name
        if target.exists() and not upgrade:
            output.write_bytes(target.read_bytes())  # uv prefers the versions that it finds there
        command = [str(ROOT / ".venv" / "bin" / "uv"), "pip", "compile", "--quiet", "--no-config"]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        subprocess.run(
            [*command, "pyproject.toml", *flags, "--output-file", str(output)], cwd=ROOT, env=environment, check=True
        )
        text = HEADER + output.read_text()
    if "://" in text or folder in text:
        raise SystemExit(f"{name}: the resolver wrote an address or a path")
    target.write_text(text)
    print(f"{name}: {sum('==' in line for line in text.splitlines())} packages")


if __name__ == "__main__":
    for lock_name, lock_flags in LOCKS.items():
        resolve(lock_name, lock_flags, upgrade="--upgrade" in sys.argv[1:])
