"""The example of a plug-in package works as its README says, without being installed."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from tests.documented import Shell

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin-gpu-reserve"


def test_the_example_package_works(tmp_path: Path) -> None:
    """A plug-in author's first minutes: the commands of its README, with the entry points of its pyproject.toml."""
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
    folder = tmp_path / "reader"
    folder.mkdir()
    shell = Shell(folder, PYTHONPATH=os.pathsep.join([str(EXAMPLE / "src"), str(tmp_path)]))
    planned = (
        "gangsched plan -f examples/plugin-gpu-reserve/cluster.yaml --config examples/plugin-gpu-reserve/config.yaml"
    )
    assert "BIND" in shell(planned)
    tested = "pytest -c examples/plugin-gpu-reserve/pyproject.toml examples/plugin-gpu-reserve"
    assert "5 passed" in shell(tested, seconds=120)
