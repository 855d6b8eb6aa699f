"""The example of a plug-in package works as its README says, without being installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin-gpu-reserve"


def test_the_example_package_works(tmp_path: Path) -> None:
    """Its own tests pass where its entry points are those of its pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / "gangsched_gpu_reserve-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, named in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in named.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(EXAMPLE / "src"), str(tmp_path)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLE), str(EXAMPLE)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
