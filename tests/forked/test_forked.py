"""What tests start in place of a command behaves as the command itself."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.forked import gangsched

MANIFEST = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {schedulerName: py-gang-scheduler}\n"


def test_arguments_input_folder_and_environment_are_the_clients(tmp_path: Path) -> None:
    """The answer is that of the client's own input, and the exit code that of the command."""
    asked = subprocess.run([*gangsched(), "get", "-f", "-"], input=MANIFEST, capture_output=True, text=True, check=True)
    assert " a " in asked.stdout
    (tmp_path / "own.yaml").write_text(MANIFEST)
    here = subprocess.run(
        [*gangsched(), "get", "-f", "own.yaml"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert here.stdout == asked.stdout
    missing = {**os.environ, "KUBECONFIG": "/nowhere"}
    refused = subprocess.run([*gangsched(), "get"], env=missing, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "/nowhere" in refused.stderr


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGABRT, -6)])
def test_signals_reach_the_command(tmp_path: Path, number: signal.Signals, ends: int) -> None:
    """Its files are closed when it has ended: what it prints at its end is there, and nothing runs on."""
    file = tmp_path / "own.yaml"
    file.write_text(MANIFEST)
    command = (*gangsched(), "ui", "-f", str(file))
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert "http://" in running.stdout.readline()
        running.send_signal(number)
        _, told = running.communicate(timeout=60)
    assert running.returncode == ends
    assert ("most recent call first" in told) == (number == signal.SIGABRT)
