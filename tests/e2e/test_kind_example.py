"""`make kind`: what its script checks first, and its story, with KWOK and an API server in place of Docker's."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane import versions
from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from tests.e2e.stories import EXAMPLES, Start

SCRIPT = EXAMPLES / "kind" / "up.sh"
#: Beside the shell's own commands the script uses these.
COMMON = ("bash", "basename", "cat", "dirname", "grep")
#: What only a cluster in Docker has: KWOK as a pod, and a kubelet that runs the scheduler's image.
KUBECTL = """#!/bin/bash
case "$*" in *https://*|*stages.kwok.x-k8s.io*|*rollout*) echo "not here: $*"; exit 0;; esac
[ "$1 $2" = "--context kind-gangsched" ] || { echo "another cluster: $*" >&2; exit 1; }
shift 2
exec "$REAL_KUBECTL" --kubeconfig "$ADMIN_KUBECONFIG" "$@"
"""


def commands(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment in which only these commands are found, with the common ones."""
    folder.mkdir(exist_ok=True)
    for name in COMMON:
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder)}


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl"])
def test_a_missing_tool_is_named(tmp_path: Path, missing: str) -> None:
    """Nothing is begun when a tool is missing, and the error names it."""
    there = {name: "#!/bin/bash\nexit 0\n" for name in ("docker", "kind", "kubectl") if name != missing}
    done = subprocess.run([SCRIPT], env=commands(tmp_path, **there), capture_output=True, text=True, check=False)
    wanted = f"error: {missing} is not installed; make kind needs docker, kind and kubectl\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", wanted)


def test_without_a_docker_engine_nothing_is_begun(tmp_path: Path) -> None:
    """The docker command alone is not enough, and the error says what to do."""
    there = {"docker": "#!/bin/bash\nexit 1\n", "kind": "#!/bin/bash\n", "kubectl": "#!/bin/bash\n"}
    done = subprocess.run([SCRIPT], env=commands(tmp_path, **there), capture_output=True, text=True, check=False)
    wanted = "error: no Docker engine answers; start Docker, or see with: docker info\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", wanted)


def test_the_cluster_is_one_that_kind_understands() -> None:
    """The file has the fields of kind's v1alpha4, and the name by which the script calls the cluster."""
    (cluster,) = yaml.safe_load_all((EXAMPLES / "kind" / "cluster.yaml").read_text(encoding="utf-8"))
    name = re.search(r"^CLUSTER=(\S+)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert name
    assert cluster == {
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "name": name[1],
        "nodes": [{"role": "control-plane"}],
    }


def test_the_release_of_kwok_is_the_one_of_the_tests() -> None:
    """What looks after the nodes is of the version with which the examples are tested."""
    modules = (versions.chosen()[1] / "go.mod").read_text(encoding="utf-8")
    tested = re.search(r"sigs\.k8s\.io/kwok (v\S+)", modules)
    used = re.search(r"^KWOK_VERSION=(\S+)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert tested
    assert used
    assert used[1] == tested[1]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_the_story_ends_with_the_gang_running(
    admin: Client, start_scheduler: Start, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The script builds, installs and applies all, twice; each time the gang runs, and four of eight notebooks."""
    noted = tmp_path / "noted"
    note = f'#!/bin/bash\necho "$(basename "$0") $*" >> {noted}\n'
    environment = commands(tmp_path / "bin", docker=note, kind=note, kubectl=KUBECTL)
    environment["REAL_KUBECTL"] = str(shutil.which("kubectl"))
    environment["ADMIN_KUBECONFIG"] = str(control_plane.admin_kubeconfig)
    async with start_scheduler():
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                SCRIPT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            told = (await process.communicate())[0].decode()
            assert process.returncode == 0, told
            phases = {p["metadata"]["name"]: p["status"]["phase"] for p in await admin.list("Pod", "default")}
            assert set(phases.values()) == {"Running"}
            assert sorted(name.partition("-")[0] for name in phases) == ["notebook"] * 4 + ["training"] * 2
            assert "Next:" in told
    lines = noted.read_text(encoding="utf-8").splitlines()
    assert lines.count("kind create cluster --config examples/kind/cluster.yaml --wait 3m") == 2
    assert lines.count("kind load docker-image gangsched:kind --name gangsched") == 2
    deployment = await admin.get("apps/v1/Deployment", "gangsched", "gangsched-system")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "gangsched:kind"
