"""What the commands answer about an everyday cluster: words, the same ones every time, and soon."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from gangsched.cli.main import main as gangsched
from tests.everyday.clusters import cluster

#: No command may cost more (seconds of processor time, so that a busy machine changes nothing).
LONGEST = 60.0
#: How long everything runs, for forecasts.
_RUNS = {"gangsched.dev/expected-run-time": "10m"}
#: How long a plan took, which is measured.
_MEASURED = re.compile(r'planned in [\d.]+ \w+|"planMilliseconds": [\d.]+')


def written(seed: int, folder: Path) -> Path:
    """The manifests of the cluster of this seed, as a file."""
    made = cluster(seed)
    for each in made.of("Job", "JobSet", "Pod"):
        each["metadata"]["annotations"] = {**each["metadata"].get("annotations", {}), **_RUNS}
    path = folder / f"everyday-{seed}.yaml"
    path.write_text(yaml.dump_all(list(made.objects.values()), Dumper=yaml.CSafeDumper))
    return path


def commands(seed: int, path: Path) -> Iterator[list[str]]:
    """What is asked about it."""
    at = ["-f", str(path)]
    yield ["plan", *at]
    yield ["plan", *at, "-o", "json"]
    yield ["plan", *at, "-o", "html"]
    yield ["plan", *at, "--eta"]
    yield ["get", *at]
    yield ["get", *at, "-o", "json"]
    yield ["init", *at]
    waiting = [pod["metadata"] for pod in cluster(seed).waiting]
    for meta in waiting[:2]:
        yield ["explain", f"{meta['namespace']}/{meta['name']}", *at]
    running = [pod["metadata"] for pod in cluster(seed).of("Pod") if pod["spec"].get("nodeName")]
    for meta in (*running[:1], *waiting[2:3]):
        yield ["explain", f"{meta['namespace']}/{meta['name']}", *at, "--eta"]


def answer(command: list[str]) -> tuple[int, str]:
    """The exit status of a command, and all that it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = gangsched(command)
    return status, out.getvalue()


def answers(seed: int) -> tuple[list[str], str]:
    """What is wrong with the answers about the cluster of this seed, and a digest of all of them."""
    wrong, digest = [], hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        path = written(seed, Path(folder))
        for command in commands(seed, path):
            said = " ".join(command).replace(folder, "")
            began = time.process_time()
            status, text = answer(command)
            took = time.process_time() - began
            if status not in (0, 2) or "Traceback" in text:
                wrong.append(f"{said}: status {status}: {text[-500:]}")
            if took > LONGEST:
                wrong.append(f"{said}: took {took:.0f} s")
            if not text.strip():
                wrong.append(f"{said}: says nothing")
            told = _MEASURED.sub("", text.replace(folder, ""))
            digest.update(f"{said}\n{status}\n{told}\n".encode())
    return wrong, digest.hexdigest()
