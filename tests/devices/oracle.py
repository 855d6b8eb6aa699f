"""Kubernetes' own selectors and allocator, as a program that answers one question a line.

Its source is in tests/controlplane/go/1.37/deviceoracle. It is built once, into the user's cache, with the modules
that the control plane is built from.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.controlplane import binaries

_MODULE = binaries.HERE / "go" / "1.37"
_PACKAGE = "deviceoracle"


@functools.cache
def program() -> Path:
    """The built program."""
    digest = hashlib.sha256()
    for file in (_MODULE / "go.mod", _MODULE / "go.sum", _MODULE / _PACKAGE / "main.go"):
        digest.update(file.read_bytes())
    target = binaries.cache_root() / f"{_PACKAGE}-{digest.hexdigest()[:16]}"
    if os.access(target, os.X_OK):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as made:
        command = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", made.name, f"./{_PACKAGE}"]
        try:
            done = subprocess.run(command, cwd=_MODULE, capture_output=True, text=True, check=False)
            if done.returncode:
                raise AssertionError(f"the oracle of devices cannot be built:\n{done.stderr[-2000:]}")
            Path(made.name).chmod(0o755)
            Path(made.name).replace(target)  # whoever builds at the same time builds the same
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path(made.name).unlink()
    return target


def ask(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers, in the order of the questions."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([str(program())], input=lines, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]
