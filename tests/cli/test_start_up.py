"""What commands import: a library that takes long to import is there only for those that need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.controlplane.plane import ControlPlane

#: What takes longest, and what no command needs before it has an answer.
HEAVY = (
    *("aiohttp", "asyncio", "gangsched.core", "kopf", "msgspec", "numpy", "prometheus_client", "rich", "structlog"),
    "yaml",
)
#: Beside them: what the client of clusters brings, the client as a whole, of which only what finds credentials is
#: imported, and what came in by accident before, for a function that plain Python has.
CLIENT = ("urllib3",)
NEVER = ("kubernetes_asyncio", "kubernetes", "numpy.ma", "numpy.random", "numpy.fft", "click", "requests")
CHILD = """
import sys
from gangsched.cli.main import main

try:
    code = main(sys.argv[2:])
except SystemExit as end:
    code = end.code
print(code, *(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
"""
LOOKS = ("gangsched.core", "msgspec", "numpy")


def imported(*arguments: str) -> tuple[int, tuple[str, ...]]:
    """The exit code of a command that runs as a process of its own, and which of these modules it has imported."""
    names = ",".join((*HEAVY, *CLIENT, *NEVER))
    child = [sys.executable, "-c", CHILD, names, *arguments]
    done = subprocess.run(child, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    code, *found = done.stderr.splitlines()[-1].split()
    return int(code), tuple(found)


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        ("--help", ()),
        ("version", ()),
        ("init -f examples/workload -o nothing", (*LOOKS, "yaml")),
        ("config defaults", (*LOOKS, "yaml")),
        ("plan -o json -f examples/koordinator", (*LOOKS, "yaml")),
        ("get -o json -f examples/koordinator", (*LOOKS, "yaml")),
        ("plan -f examples/koordinator", (*LOOKS, "rich", "yaml")),
        ("explain lp-pod-1 -f examples/koordinator", (*LOOKS, "rich", "yaml")),
        ("simulate -f examples/koordinator", (*LOOKS, "rich", "yaml")),
        ("queues -f examples/quota-gpu", (*LOOKS, "rich", "yaml")),
        ("demo", (*LOOKS, "rich", "yaml")),
    ],
)
def test_manifests_are_read_without_what_talks_to_a_cluster(arguments: str, modules: tuple[str, ...]) -> None:
    """No terminal library for JSON, nothing of HTTP, loops, logs and controllers for files, and nothing for help."""
    assert imported(*arguments.split())[1] == modules


@pytest.mark.controlplane
@pytest.mark.parametrize("command", ["get -A", "plan --cluster", "queues"])
def test_a_cluster_is_read_without_what_only_controllers_need(
    command: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The client is imported, for a plug-in for credentials too, as clouds have it; neither kopf nor metrics are."""
    config = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    (user,) = config["users"]
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": user["user"]["token"]},
    }
    script = tmp_path / "login"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    script.chmod(0o755)
    run = {"apiVersion": answer["apiVersion"], "command": str(script), "interactiveMode": "Never"}
    user["user"] = {"exec": run}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    code, found = imported(*command.split(), "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert code == 0
    client = {"aiohttp", "asyncio", *CLIENT}
    assert client <= set(found) <= client | {"gangsched.core", "msgspec", "numpy", "rich", "structlog", "yaml"}


#: Notes what is imported when the first line is written to a terminal.
TERMINAL = """
import io, sys
from gangsched.cli.main import main

class Terminal(io.StringIO):
    def isatty(self):
        return True

    def write(self, text):
        if not self.getvalue():
            print(text.strip(), *(name for name in sys.argv[1].split(",") if name in sys.modules), sep=",")
        return super().write(text)

sys.stderr = Terminal()
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("get", True),
        ("run", True),
        ("explain a", True),
        ("plan --cluster", True),
        ("get -f examples/koordinator", False),
        ("plan -f examples/koordinator", False),
        ("get --help", False),
        ("config defaults", False),
    ],
)
def test_a_command_says_that_it_connects_before_it_imports_what_does(
    arguments: str, told: bool, tmp_path: Path
) -> None:
    """On a terminal the first line is there before anything that takes long; other commands do not say so."""
    child = [sys.executable, "-c", TERMINAL, ",".join((*HEAVY, *CLIENT)), *arguments.split()]
    nowhere = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""}
    nowhere.pop("KUBERNETES_SERVICE_HOST", None)
    done = subprocess.run(child, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=nowhere)
    assert done.stdout.startswith("gangsched: connecting to the cluster …\n") == told
